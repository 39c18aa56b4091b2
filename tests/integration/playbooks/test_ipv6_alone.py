# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbooks on simulated hosts without any IPv4 address, with real BIRDs.

The hosts are planned, set up, left unchanged, switched to another mode, and taken out of service.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import typing as t

import pytest
import yaml

from bench.site.simulated_hosts import SimulatedHosts
from bench.site_scale import write_inventory
from tests.integration.ansible_playbook import play_on_simulated_hosts as play

pytestmark = pytest.mark.root

NODES = ("host3", "host4")
HOSTS = ("host1", *NODES)  # the first one reflects


class Fleet:
    """A fleet of one reflector and two nodes with IPv6 only, each in a subnet of its own, and its inventory."""

    def __init__(self, hosts: SimulatedHosts, inventory: pathlib.Path) -> None:
        self.hosts, self.inventory = hosts, inventory
        self.addresses = {host: f"fd00:20:{host[-1]}::2" for host in HOSTS}
        hosts.router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        for host, address in self.addresses.items():
            gateway = address[:-1] + "1"
            hosts.router.ip([f"addr add {gateway}/64 dev {host} nodad"])
            hosts.spaces[host].ip(
                [
                    f"addr del {hosts.addresses[host]} dev eth0",
                    f"addr add {address}/64 dev eth0 nodad",
                    f"route add ::/0 via {gateway}",
                ]
            )
        write_inventory(inventory, hosts, agent=False)
        self._edit("hosts.yml", self._without_ipv4)
        six = {"name": "six", "cidr": "fd00:10:244::/64", "vxlanMode": "Always"}
        self._edit("group_vars/all/calico.yml", lambda variables: variables.update(calico_ip_pools=[six]))

    def _edit(self, name: str, edit: t.Callable[[dict[str, t.Any]], None]) -> None:
        path = self.inventory / name
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))

    def _without_ipv4(self, groups: dict[str, t.Any]) -> None:
        del groups["calico_rr"]["hosts"]["host2"]
        for group in groups.values():
            for host, variables in group["hosts"].items():
                del variables["calico_node_address"]
                variables["calico_node_address_ipv6"] = f"{self.addresses[host]}/64"

    def have_blocks_routed(self) -> None:
        """Route the blocks on the router, which needs them without a tunnel, as if it learned them by BGP.

        The lockfile has the blocks: raise FileNotFoundError before the first run of site.yml.
        """
        kept = yaml.safe_load((self.inventory / ".calico.lock.yml").read_text())
        for host, part in kept["nodes"].items():
            blocks = [block["cidr"] for block in (*part["blocks"], *part["spareBlocks"])]
            self.hosts.router.ip([f"route replace {block} via {self.addresses[host]}" for block in blocks])

    def run(self, host: str, *command: str) -> str:
        enter = ["nsenter", f"--target={self.hosts.spaces[host].pid}", "--net", "--mount", "--", *command]
        return subprocess.run(enter, capture_output=True, text=True, check=True).stdout

    def ping(self) -> None:
        """Ping from one node's workload to the other's until three answers have come.

        Raise subprocess.CalledProcessError if they have not within 5 seconds, and StopIteration if the other workload
        has no address.
        """
        one, other = (("ip", "netns", "exec", f"web-{host}") for host in NODES)
        held = self.run(NODES[1], *other, "ip", "-6", "-brief", "address", "show", "eth0")
        address = next(iter(re.findall(r"(fd00:[0-9a-f:]+)/128", held)))
        self.run(NODES[0], *one, "ping", "-c3", "-i0.1", "-w5", address)


def test_playbooks_work_on_hosts_with_ipv6_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "private").mkdir()
    with SimulatedHosts(4, tmp_path / "private") as hosts:
        fleet = Fleet(hosts, tmp_path / "inventory")
        planned = play("site", fleet.inventory, "--check", "--diff")
        assert "touched host1, host3, host4: new" in planned
        assert "+ device vxlan-v6.calico" in planned

        done = play("site", fleet.inventory)
        assert "converged 3/3 nodes · 2/2 sessions Established · 2/2 paths answer · 0 lost of 6 probes" in done
        fleet.ping()
        assert "nothing to change on 3 of 3 nodes" in play("site", fleet.inventory, "--check")
        assert "good 3/3 nodes · 2/2 sessions Established · 2 workloads" in play("status", fleet.inventory)
        for host in HOSTS:
            assert "eth0" not in fleet.run(host, "ip", "-4", "route", "show", "table", "all")
            assert fleet.run(host, "cat", "/proc/sys/net/ipv4/ip_forward").strip() == "0"

        fleet.have_blocks_routed()
        asked = ("pool=six", "mode=direct", "calico_node_soak_seconds=3")
        switched = play("switch_pool_mode", fleet.inventory, *(f"--extra-vars={one}" for one in asked))
        assert "prove 2/2 paths answer over the new routes" in switched
        assert re.search(r"soak 0 lost of \d+ probes over 2 paths", switched)
        fleet.ping()

        play("teardown", fleet.inventory, "-e", "confirm=true")
        for host in HOSTS:
            left = fleet.run(host, "ip", "-6", "route", "show", "table", "all")
            assert "fd00:10:244:" not in left and "vxlan" not in fleet.run(host, "ip", "link")
