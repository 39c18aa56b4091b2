# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the engine's command line on a node, as the boot unit and a person at the console run it."""

from __future__ import annotations

import dataclasses
import errno
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import File, Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IpSet,
    IptablesTable,
    NodeState,
    Route,
)

STATE = NodeState("node1", "10.10.1.11/24", routes=(Route("10.244.3.0/26", "blackhole"),))


def store(host, **changes):
    stored = Stored(STATE, None, (File("/etc/x", "y\n"),), "me@here", complete=True)
    Store(host.machine.store).save(dataclasses.replace(stored, **changes))


def run(host, *arguments):
    host.stdout()
    status = command.main(arguments, host.machine)
    captured = host.stdout()
    return status, captured.out, captured.err


def test_apply_and_plan_without_a_stored_state_do_nothing(host):
    for what in ("apply", "plan"):
        assert run(host, what) == (0, f"nothing is stored in {host.machine.store}\n", "")
    assert json.loads(run(host, "show")[1])["state"] is None


def test_plan_changes_nothing_and_apply_does_what_it_says(host):
    store(host)
    before = host.snapshot()
    status, out, err = run(host, "plan")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].split()[:3] == ["+", "route", "10.244.3.0/26"]
    assert host.snapshot() == before
    status, out, err = run(host, "apply")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "node1: 1 changes made"
    assert (host.folder / "root/etc/x").read_text() == "y\n"
    assert run(host, "plan") == (0, "nothing to change\n", "")
    shown = json.loads(run(host, "show")[1])
    assert shown["state"]["node"] == "node1"
    assert [route["destination"] for route in shown["routes"]] == ["10.244.3.0/26"]


def test_the_nodes_address_may_come_late(host, monkeypatch):
    """`apply` waits for the node's address, which appears here when it is looked for the third time, and succeeds."""
    store(host)
    address, addresses, looks = InterfaceAddress("eth0", "10.10.1.11", 24), host.kernel.addresses, []
    host.machine.boot_wait = 600.0
    host.kernel.address_delete(address)

    def look(*arguments, **more):
        looks.append(arguments)
        if len(looks) == 3:
            host.kernel.address_add(address)
        return addresses(*arguments, **more)

    monkeypatch.setattr(host.kernel, "addresses", look)
    assert run(host, "apply")[0] == 0
    assert len(looks) >= 3


def test_an_address_that_never_comes_is_an_error_in_words(host):
    store(host, state=dataclasses.replace(STATE, address="10.10.1.99/24"))
    status, out, err = run(host, "apply")
    assert (status, out) == (1, "")
    assert err.startswith("No network interface of node1 has its address 10.10.1.99.")
    assert err.count("\n") == 1


def test_apply_restores_what_it_can_despite_one_failure(host):
    routes = (Route("10.244.3.0/26", "blackhole"), Route("10.244.3.9/32", device="cali9"))
    store(host, state=dataclasses.replace(STATE, routes=routes), complete=False)
    status, _out, err = run(host, "apply")
    assert status == 1
    assert err.startswith("route 10.244.3.9/32: There is no device cali9 to route through.")
    assert "10.244.3.0/26" in dict(host.kernel.routes(protocol=179))
    assert Store(host.machine.store).load().complete is False


def test_forwarding_is_restored_without_a_bird_that_can_check_its_configuration(host):
    store(host, bird_config="router id 10.10.1.11;\n")
    host.machine.bird_program = str(host.folder / "no-bird")
    status, _out, err = run(host, "apply")
    assert (status, err.split(". ")[0]) == (1, "BIRD could not be asked to check its configuration")
    assert "10.244.3.0/26" in dict(host.kernel.routes(protocol=179))
    assert (host.folder / "root/etc/x").exists()


def test_a_kernel_that_does_not_answer(host):
    store(host)
    host.kernel.fail_next("route_batch", errno.ENOBUFS, "10.244.3.0/26")
    status, _out, err = run(host, "apply")
    assert status == 1 and "No buffer space available" in err and "Traceback" not in err


def test_wrong_arguments_print_the_usage_and_exit_with_2(host):
    for arguments in ((), ("apply", "now"), ("reboot",)):
        assert run(host, *arguments) == (2, "", command.USAGE)


def firewall_state():
    """Return a state with a set, a table and a route, whose node address the host does not have."""
    table = IptablesTable("filter", {"cali-INPUT": ("-p 4 -j DROP",)}, (Hook("INPUT", "-j cali-INPUT"),))
    sets = (IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11",)),)
    return dataclasses.replace(STATE, address="10.10.1.99/24", iptables=(table,), ipsets=sets)


def test_the_boot_firewall_needs_no_node_address_and_writes_no_routes(host):
    assert run(host, "firewall") == (0, f"nothing is stored in {host.machine.store}\n", "")
    store(host, state=firewall_state())
    assert run(host, "firewall") == (0, "node1: 3 changes made to the firewall\n", "")
    assert "cali-INPUT" in host.kernel.run(["iptables-save"]).output
    assert dict(host.kernel.routes(protocol=179)) == {}
    assert not (host.folder / "root/etc/x").exists()
    assert run(host, "firewall") == (0, "node1: 0 changes made to the firewall\n", "")


def test_the_firewall_of_a_node_whose_agent_runs_is_the_agents(host):
    store(host, state=firewall_state())
    host.machine.agent = lambda _path: object()
    assert run(host, "firewall") == (0, "the agent runs and sees to the firewall\n", "")
    assert "cali-INPUT" not in host.kernel.run(["iptables-save"]).output


def test_a_firewall_that_cannot_be_read_is_an_error_in_words(host):
    (host.folder / "calico").mkdir()
    (host.folder / "calico" / "state.json").write_text("{")
    status, out, err = run(host, "firewall")
    assert (status, out) == (1, "")
    assert err.startswith(f"{host.machine.store}/state.json cannot be read: ")


def test_a_sandboxed_process_says_where_namespaces_are_mounted(monkeypatch, capsys):
    asked = []

    def here(agent, mounts):
        asked.append(mounts)
        raise SystemExit(3)

    monkeypatch.setattr(command.machines, "here", here)
    for arguments in (("--mounts", "/proc/1/ns/mnt", "apply"), ("apply",)):
        with pytest.raises(SystemExit):
            command.main(arguments)
    assert asked == ["/proc/1/ns/mnt", None]
    assert command.main(("--mounts", "/proc/1/ns/mnt")) == 2
    assert capsys.readouterr().err == command.USAGE
