# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often site.yml asks a host: twice where nothing differs, and after a barrier where something does."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml

from bench.site.simulated_hosts import SimulatedHosts
from tests.integration.ansible_playbook import ROOT, play

pytestmark = pytest.mark.root

HOSTS = ("host1", "host2", "host3")
LATER = "Wait until all sessions and routes stand"
CALL = r"<(host\d)> EXEC nsenter "


class Fleet:
    """Three nodes in a mesh, two of them with a workload each."""

    def __init__(self, hosts: SimulatedHosts, folder: pathlib.Path) -> None:
        self.hosts, self.folder = hosts, folder
        entries = {
            name: {"calico_node_address": hosts.addresses[name], "simulated_host_pid": space.pid}
            for name, space in hosts.spaces.items()
        }
        variables = {
            "ansible_connection": "namespace",
            "ansible_python_interpreter": sys.executable,
            "calico_node_agent": False,
            "calico_node_install_packages": False,
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
            "calico_workloads": [{"name": f"web-{name}", "node": name} for name in HOSTS[:2]],
        }
        folder.mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"calico_nodes": {"hosts": entries, "vars": variables}}))

    def inside(self, host: str, *command: str) -> None:
        enter = ["nsenter", f"--target={self.hosts.spaces[host].pid}", "--mount", "--net", "--pid", "--", *command]
        subprocess.run(enter, check=True, capture_output=True)

    def site(self, *options: str, failed: bool = False) -> tuple[str, dict[str, int]]:
        """Run site.yml; return its stdout as one line, and {host: how often it was asked}.

        Raise AssertionError if the run fails, or with `failed` if it succeeds, and subprocess.TimeoutExpired after 300
        seconds.
        """
        environment = {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "bench" / "site" / "connection"),
        }
        inventory = self.folder / "hosts.yml"
        done = play("playbooks/site.yml", inventory, "-vvv", *options, environment=environment, timeout=300)
        assert (done.returncode != 0) == failed, done.stdout[-6000:] + done.stderr[-2000:]
        calls = re.findall(CALL, done.stdout)
        return re.sub(r"\s+", " ", done.stdout), {host: calls.count(host) for host in HOSTS}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("steady")
    (folder / "private").mkdir()
    with SimulatedHosts(len(HOSTS), folder / "private") as hosts:
        made = Fleet(hosts, folder / "inventory")
        printed, calls = made.site()
        assert LATER in printed and min(calls.values()) > 2
        yield made


def test_a_steady_run_asks_each_host_twice(fleet: Fleet) -> None:
    printed, calls = fleet.site()
    assert "converged 3/3 nodes · 3/3 sessions Established" in printed
    assert "6/6 paths answer · 0 lost of 18 probes" in printed
    assert calls == dict.fromkeys(HOSTS, 2) and LATER not in printed


def test_check_mode_asks_each_host_twice(fleet: Fleet) -> None:
    printed, calls = fleet.site("--check")
    assert "nothing to change on 3 of 3 nodes" in printed
    assert calls == dict.fromkeys(HOSTS, 2)


def test_where_a_host_has_drifted_all_are_asked_after_it_is_repaired(fleet: Fleet) -> None:
    """A host that has lost something is repaired first, and then all hosts look and probe, after the barrier."""
    fleet.inside("host2", "ip", "link", "delete", "vxlan.calico")
    printed, calls = fleet.site()
    assert LATER in printed and "converged 3/3 nodes" in printed and "0 lost of" in printed
    assert calls == dict.fromkeys(HOSTS, 4)
    dummy, calls = fleet.site()
    assert calls == dict.fromkeys(HOSTS, 2)


def test_where_the_inventory_differs_all_are_asked_after_the_barrier(fleet: Fleet) -> None:
    more = yaml.safe_load((fleet.folder / "hosts.yml").read_text())
    more["calico_nodes"]["vars"]["calico_workloads"].append({"name": "late", "node": "host3"})
    (fleet.folder / "hosts.yml").write_text(yaml.safe_dump(more))
    printed, calls = fleet.site()
    assert LATER in printed and "converged 3/3 nodes" in printed and min(calls.values()) >= 4
    dummy, calls = fleet.site()
    assert calls == dict.fromkeys(HOSTS, 2)


def test_limit(fleet: Fleet) -> None:
    """With --limit, the hosts of the run are settled among themselves."""
    printed, calls = fleet.site("--limit", "host1,host2")
    assert "converged 2/2 nodes" in printed
    assert calls == {"host1": 2, "host2": 2, "host3": 0} and LATER not in printed


def test_an_unreachable_host_holds_no_other_up(fleet: Fleet) -> None:
    """The hosts that can be reached are settled without the other one, which the run names."""
    inventory = fleet.folder / "hosts.yml"
    before = inventory.read_text()
    down = yaml.safe_load(before)
    down["calico_nodes"]["hosts"]["host3"].update(ansible_connection="ssh", ansible_host="192.0.2.1", ansible_timeout=1)
    inventory.write_text(yaml.safe_dump(down))
    try:
        printed, calls = fleet.site(failed=True)
    finally:
        inventory.write_text(before)
    assert "unreachable=1" in printed and "! host3: unreachable" in printed
    assert calls["host1"] == calls["host2"] == 2 and LATER not in printed
