# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ends of a switch of mode: one that returns, and one that leaves a path without an answer."""

from __future__ import annotations

import ipaddress
import json
import pathlib
import re
import typing as t

import pytest

from tests.integration.playbooks.simulated_fleet import HOSTS, SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

_POOLS = """\
calico_ip_pools:
  - name: default
    cidr: 10.244.0.0/16
    vxlanMode: Always
"""


class Fleet(SimulatedFleet):
    """Three nodes in three subnets with one pool in a VXLAN tunnel, and a router between them without BGP."""

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_node_soak_seconds": 2,
            "calico_node_convergence_timeout": 20,
        }

    @property
    def pools(self) -> pathlib.Path:
        """The inventory's file with the pool, which a switch can edit."""
        return self.folder / "group_vars" / "all.yml"

    def switch(self, *options: str) -> str:
        """Switch the pool to direct, which fails, and return what was printed as one line with single spaces."""
        asked = ("-e", "pool=default", "-e", "mode=direct", "-e", "write_inventory=true", *options)
        return re.sub(r"\s+", " ", self.run("switch_pool_mode", *asked, failed=True))

    def route_blocks(self) -> None:
        """Add routes to all hosts' blocks to the router."""
        for host in HOSTS:
            address = str(ipaddress.ip_interface(self.hosts.addresses[host]).ip)
            self.hosts.router.run("ip", "route", "replace", self.block(host), "via", address)

    def block(self, host: str) -> str:
        """Return the block of a host."""
        found = self.inside(host, "ip", "-o", "route", "show", "type", "blackhole", "root", "10.244.0.0/16")
        return found.split()[1]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    with simulated_fleet(Fleet, tmp_path_factory) as fleet:
        fleet.pools.parent.mkdir()
        fleet.pools.write_text(_POOLS)
        fleet.run("site")
        yield fleet


def test_a_return_leaves_the_inventory_and_says_that_all_paths_answer(fleet: Fleet) -> None:
    """The router knows no block yet, so that no path answers without the tunnel."""
    printed = fleet.switch()
    assert "The change of mode did not go through." in printed and "3 of 3 nodes run as before." in printed
    assert "All 6 paths answer as before." in printed
    assert "pool default is direct now" not in printed and fleet.pools.read_text() == _POOLS


@pytest.mark.soak
def test_a_host_that_cannot_remove_the_old_mode_fails_the_run(fleet: Fleet) -> None:
    """Another program's rule on host3 uses an IP set of the old mode, which the kernel therefore keeps."""
    fleet.route_blocks()
    rule = ("INPUT", "-m", "set", "--match-set", "cali40all-hosts-net", "src", "-j", "ACCEPT")
    fleet.inside("host3", "iptables", "-A", *rule)
    printed = fleet.switch()
    assert "retire 2/3 the old mode is gone" in printed and "6/6 paths answer" in printed, printed[-3000:]
    assert "host3 is in the new mode, but could not remove all of the old one: " in printed, printed[-3000:]
    assert f"pool default is direct now, and {fleet.pools} says so." in printed and "did not go through" not in printed
    fleet.inside("host3", "iptables", "-D", *rule)
    fleet.pools.write_text(_POOLS)
    fleet.run("site")


def test_a_path_that_worked_by_the_old_mode_is_red_and_the_inventory_has_the_new_one(fleet: Fleet) -> None:
    """Another program's route on host1 has the tunnel's address as its source, and goes with it in the last phase."""
    fleet.route_blocks()
    stored = json.loads(fleet.inside("host2", "cat", "/var/lib/calico/state.json"))
    probed = stored["state"]["ipam"]["probes"]["default"]
    tunnel = json.loads(fleet.inside("host1", "ip", "-j", "-4", "address", "show", "dev", "vxlan.calico"))
    route = json.loads(fleet.inside("host1", "ip", "-j", "route", "show", "default"))
    source = tunnel[0]["addr_info"][0]["local"]
    fleet.inside("host1", "ip", "route", "add", probed, "via", route[0]["gateway"], "src", source)
    fleet.inside("host1", "ip", "route", "add", "unreachable", probed, "metric", "9")
    printed = fleet.switch()
    assert "prove 6/6 paths answer over the new routes" in printed, printed[-3000:]
    assert "soak 0 lost of " in printed and "retire 3/3 the old mode is gone" in printed
    assert "! pool default: host1 -> host2: " in printed and "! pool default: host2 -> host1: " in printed
    assert "incomplete 3/3 nodes" in printed and "4/6 paths answer" in printed, printed[-3000:]
    assert "2 paths get no answer, see above" in printed and "did not go through" not in printed
    assert f"pool default is direct now, and {fleet.pools} says so." in printed
    assert "vxlanMode: Never" in fleet.pools.read_text()
