# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the teardown module: everything of ours is removed, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.removal import teardown as tear_down
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import TunnelDevice
from ansible_collections.baremetal.host_routing.plugins.modules import node, teardown

from tests.unit.modules.agent_in_process import AgentInProcess
from tests.unit.modules.node.test_node import PARAMS, STATE
from tests.unit.node.systemctl import Systemctl

CONFLIST = {"path": "/etc/cni/net.d/10-calico.conflist", "content": "{}\n", "last": True}
FILES = [*PARAMS["files"], CONFLIST]
UNITS = [{"name": name, "enabled": True, "started": True} for name in ("calico-bird.service", "calico-agent.service")]


@pytest.fixture
def systemctl(host):
    fake = Systemctl(host.folder / "systemd")
    host.machine.systemctl = str(fake.program)
    return fake


@pytest.fixture
def foreign(host):
    """A list of the destinations of other software's routes on this host, which also has a namespace of others.

    The fixture makes them, and raises AssertionError if the kernel refuses a route.
    """
    routes = [("10.99.0.0/16", 4, "eth0"), ("10.98.0.0/16", 12, "eth0")]
    for destination, protocol, device in routes:
        attributes = RouteAttributes(device=device, gateway="10.10.1.1", protocol=protocol)
        assert host.kernel.route_batch([RouteOperation("add", destination, attributes)]) == []
    host.kernel.netns_add("theirs", "")
    return [destination for destination, *dummy in routes]


def files(host):
    return {str(path.relative_to(host.folder)) for path in host.folder.rglob("*") if path.is_file()}


def test_check_do_check_do(host, systemctl, foreign):
    host.kernel.sysctl_write("net/ipv4/ip_forward", "1")
    before, there = left(host), files(host)
    probed = with_probe_endpoint(STATE, probe_endpoint(["10.244.3.60"], STATE.pools))
    host.run(node, units=UNITS, **{**PARAMS, "files": FILES, "state": probed.to_dict()})
    host.attach("db-1")
    learned = RouteAttributes(device="eth0", gateway="10.10.1.12", protocol=12)
    assert host.kernel.route_batch([RouteOperation("add", "10.244.7.0/26", learned)]) == []
    planned, done = host.four_times(teardown)
    assert planned["plan"] == done["plan"]
    shown = [line.split()[1:3] for line in done["plan"]]
    assert shown[0] == ["file", f"{host.machine.root}/etc/cni/net.d/10-calico.conflist"]
    assert shown[1:3] == [["unit", "calico-agent.service"], ["unit", "calico-bird.service"]]
    assert {kind for kind, dummy in shown[3:]} == {
        "address",
        "device",
        "file",
        "ipset",
        "iptables",
        "route",
        "workload",
    }
    assert ["route", "10.244.7.0/26"] in shown and ["workload", "default/db-1"] in shown
    assert ["workload", "caliprobe"] in shown and ["route", "10.244.3.60/32"] in shown
    assert left(host) == before
    assert systemctl.marks == set()
    assert files(host) - there <= {"run/node.lock", "run/writer.lock", "systemd/reads"}


def test_services_in_namespaces_of_ours_are_stopped_first(host, systemctl):
    host.run(node, units=UNITS, **{**PARAMS, "files": FILES})
    systemctl.have("calico-netns@web.service.started")
    planned, done = host.four_times(teardown)
    assert planned["plan"] == done["plan"]
    shown = [line.split()[1:3] for line in done["plan"] if line.split()[1] == "unit"]
    assert shown == [["unit", f"calico-{name}.service"] for name in ("netns@web", "agent", "bird")]
    assert systemctl.marks == set()


def left(host):
    """Return what the kernel has, without what may stay.

    That is settings, tables and chains without rules, and a tunl0 that is down, which cannot be deleted. The result is
    a snapshot with the names alone of the namespaces, and with "chains", one list of the rules of all tables.
    """
    seen = host.kernel.snapshot()
    seen["links"] = [link for link in seen["links"] if link.name != "tunl0" or link.up]
    rules = [rule for chains in seen.pop("tables").values() for chain in chains.values() for rule in chain]
    return {**seen, "sysctls": None, "namespaces": host.kernel.netns_list(), "chains": rules}


def test_routes_that_a_tunnel_device_takes_along_are_not_missed(host, systemctl):
    vxlan = TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11", None, "66:00:00:00:00:01", 4096, 4789)
    state = dataclasses.replace(STATE, devices=(vxlan,), bird_routes=())
    host.run(node, **{**PARAMS, "state": state.to_dict()})
    learned = RouteAttributes(device=vxlan.name, gateway="10.10.1.12", onlink=True, protocol=12)
    assert host.kernel.route_batch([RouteOperation("add", "10.244.7.0/26", learned)]) == []
    assert host.run(teardown)["changed"] is True
    assert [destination for destination, dummy in host.kernel.routes(protocol=12)] == []


def test_a_host_that_has_nothing(host, systemctl, foreign):
    before = host.snapshot()
    assert host.run(teardown)["changed"] is False
    assert host.snapshot() == before


def test_with_a_stored_state_that_cannot_be_read_nothing_is_removed_until_it_is_moved_away(host, systemctl):
    host.run(node, **{**PARAMS, "files": FILES})
    path = host.folder / "calico" / "state.json"
    path.write_text("{")
    before = host.snapshot()
    for check in (True, False):
        assert host.run(teardown, check=check)["msg"] == (
            f"{path} cannot be read: Expecting property name enclosed in double quotes: line 1 column 2 (char 1). It "
            "was damaged or written by another release. Use that release, or move the file away if the lockfile on the "
            "controller has this node's blocks; the next run then stores the state anew. Nothing was removed: without "
            "that state, the node's files and BIRD's routes would be left. To tear the node down without it, move the "
            "file away, and remove these by hand."
        )
        assert host.snapshot() == before
    path.unlink()
    assert host.run(teardown)["changed"] is True
    assert list(host.kernel.routes(protocol=179)) == []
    assert not (host.folder / "calico").exists()
    assert STATE.workloads[0].interface not in [link.name for link in host.kernel.links()]


def test_a_store_behind_a_symbolic_link_is_emptied_and_the_link_stays(host, systemctl):
    there, store = host.folder / "data", host.folder / "calico"
    there.mkdir()
    store.symlink_to(there)
    host.run(node, **PARAMS)
    host.attach("db-1")
    (there / "aside").symlink_to(host.folder / "root")
    dummy, done = host.four_times(teardown)
    (line,) = [line for line in done["plan"] if f" {store}/ " in line]
    assert line.endswith(" files    all in it; the symbolic link stays")
    assert store.is_symlink() and list(there.iterdir()) == [] and (host.folder / "root").is_dir()


def test_a_host_with_ipv6_alone_and_no_state(host, systemctl):
    host.kernel.address_delete(InterfaceAddress("eth0", "10.10.1.11", 24))
    for address in ("fe80::11", "fd00:10:10:1::11"):
        host.kernel.address_add(InterfaceAddress("eth0", address, 64))
    blackhole = RouteAttributes("blackhole", protocol=179, metric=1024)
    assert host.kernel.route_batch([RouteOperation("add", "fd00:10:244::/122", blackhole)]) == []
    assert host.run(teardown)["changed"] is True
    assert list(host.kernel.routes(protocol=179, family=6)) == []
    host.kernel.address_delete(InterfaceAddress("eth0", "fd00:10:10:1::11", 64))
    assert host.run(teardown)["msg"] == (
        "This host has no network interface with an address. Give it one, then run again."
    )


def test_the_agent_is_stopped_before_anything_of_its_goes(host, systemctl, monkeypatch):
    with AgentInProcess(host) as agent:
        host.run(node, units=UNITS, **PARAMS)
        original = tear_down.units.apply

        def stopped(changes, *rest):
            assert len(list(host.kernel.routes(protocol=179))) == 2 or not changes
            original(changes, *rest)
            agent.stop()

        monkeypatch.setattr(tear_down.units, "apply", stopped)
        assert host.run(teardown)["changed"] is True
    assert list(host.kernel.routes(protocol=179)) == []


def test_an_agent_that_does_not_stop_fails_the_teardown(host, systemctl):
    with AgentInProcess(host):
        host.run(node, units=UNITS, **PARAMS)
        failed = host.run(teardown, lock_timeout=0)
    assert "this node is being changed by calico-agent" in failed["msg"]
    assert len(list(host.kernel.routes(protocol=179))) == 2
