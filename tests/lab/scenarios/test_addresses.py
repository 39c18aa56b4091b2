# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts get other addresses: with both on the host no packet is lost, and otherwise none between the other hosts.

Streams between workloads of all pairs of nodes, in both subnets, run over each run (see PPS in conftest.py).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool

from . import inventory
from .conftest import LAB, Fleet, Run, new_lab, nothing_lost

NAME = f"{LAB}-addresses"
FOUR = ("node1", "node2", "node3", "node4")
POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True)
OLD, NEW, ASIDE, THREE = "10.10.1.12", "10.10.1.62", "10.10.1.61", "10.10.2.63"


class Wanted:
    """The inventory, rewritten for each change, and runs of site.yml with it."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.folder, self.fleet = lab, folder, Fleet(lab)

    def site(self, addresses: Mapping[str, str] = {}, mode: str = "vxlan", **variables: Any) -> Run:
        entries = [inventory.workload(f"web-{name[-1]}", name) for name in FOUR]
        pool = Pool(POOL.name, POOL.cidr, mode, nat_outgoing=True)
        path = inventory.write(
            self.folder, [inventory.pool(pool)], entries, nodes=FOUR, addresses=addresses, **variables
        )
        return self.fleet.site("-ecalico_node_soak_seconds=3", inventory=path)

    def has(self, node: str, *addresses: str) -> None:
        """Give a host exactly these addresses on the underlay. Its default route leads to the first one's router."""
        commands = [f"ip address add {address}/24 dev eth0 2>/dev/null" for address in addresses]
        here = self.lab.exec(node, "ip -o -4 address show dev eth0 | awk '{print $4}'").stdout.split()
        gone = [f"ip address del {cidr} dev eth0" for cidr in here if cidr.partition("/")[0] not in addresses]
        keep = "sysctl -qw net.ipv4.conf.all.promote_secondaries=1"
        router = f"{addresses[0].rpartition('.')[0]}.1"
        default = f"ip route replace default via {router}"
        self.lab.exec(node, "; ".join([keep, *commands, *gone, default]))


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wanted]:
    """A running mesh of four nodes, whose inventory tests rewrite."""
    with new_lab(NAME, FOUR) as lab:
        wanted = Wanted(lab, tmp_path_factory.mktemp("addresses"))
        wanted.site().check()
        yield wanted


def moved(lab: BaseLab, node: str, address: str) -> None:
    """Assert that a node uses this address, and that no BIRD has a backup route."""
    for one in FOUR:
        config = lab.exec(one, ["cat", "/etc/calico/bird.cfg"]).stdout
        assert "calico_backup" not in config
        assert one == node or f"neighbor {address} " in config
    assert f"local {address} " in lab.exec(node, "ip -d link show vxlan.calico").stdout


def present(lab: BaseLab, node: str) -> str:
    """Return a node's address by its stored state."""
    stored = json.loads(lab.exec(node, ["cat", "/var/lib/calico/state.json"]).stdout)
    return str(stored["state"]["address"]).partition("/")[0]


def exchange(wanted: Wanted) -> dict[str, str]:
    """Let node1 and node2 exchange their addresses, and return the new ones as CIDRs. No two hosts have the same."""
    one, two = (present(wanted.lab, node) for node in ("node1", "node2"))
    wanted.has("node1", ASIDE)
    wanted.has("node2", one)
    wanted.has("node1", two)
    return {"node1": f"{two}/24", "node2": f"{one}/24"}


@pytest.mark.soak
def test_a_host_with_both_addresses_loses_nothing(wanted: Wanted) -> None:
    wanted.has("node2", OLD, NEW)
    with nothing_lost(wanted.lab):
        run = wanted.site({"node2": f"{NEW}/24"}).check()
    assert re.search(r"soak +0 lost of", run.output), run.output[-4000:]
    moved(wanted.lab, "node2", NEW)
    wanted.has("node2", NEW)
    with nothing_lost(wanted.lab):
        wanted.site({"node2": f"{NEW}/24"}).check()


@pytest.mark.soak
def test_a_host_that_has_the_new_address_alone_is_brought_back_by_one_run(wanted: Wanted) -> None:
    """The streams between the other three lose nothing, also while the node has no address that they know."""
    with nothing_lost(wanted.lab, but=("node2",)):
        wanted.has("node2", OLD)
        wanted.site().check()
    moved(wanted.lab, "node2", OLD)
    with nothing_lost(wanted.lab):
        wanted.site().check()


@pytest.mark.soak
def test_two_hosts_that_exchanged_their_addresses_are_brought_back_by_one_run(wanted: Wanted) -> None:
    """Twice, as a session with the node that had the address before lasts until either end notices."""
    for dummy in range(2):
        with nothing_lost(wanted.lab, but=("node1", "node2")):
            exchanged = exchange(wanted)
            wanted.site(exchanged).check()
        for node, address in exchanged.items():
            moved(wanted.lab, node, address.partition("/")[0])
        with nothing_lost(wanted.lab):
            wanted.site(exchanged).check()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mode", "reflectors"),
    [("vxlan-crosssubnet", ()), ("vxlan", ("node1", "node3"))],
    ids=["cross-subnet", "reflector"],
)
def test_with_both_addresses_nothing_is_lost_in_other_fleets(
    wanted: Wanted, mode: str, reflectors: tuple[str, ...]
) -> None:
    """Node1 is sent packets without a tunnel by its subnet, and then reflects all routes."""
    addresses = {node: f"{present(wanted.lab, node)}/24" for node in FOUR}
    wanted.site(addresses, mode, reflectors=reflectors).check()
    old = present(wanted.lab, "node1")
    new = next(address for address in ("10.10.1.71", "10.10.1.72") if address != old)
    wanted.has("node1", old, new)
    addresses["node1"] = f"{new}/24"
    with nothing_lost(wanted.lab):
        wanted.site(addresses, mode, reflectors=reflectors).check()
    for node in FOUR:
        assert "calico_backup" not in wanted.lab.exec(node, ["cat", "/etc/calico/bird.cfg"]).stdout
    wanted.has("node1", new)
    with nothing_lost(wanted.lab):
        wanted.site(addresses, mode, reflectors=reflectors).check()


def test_one_run_moves_a_host_and_brings_back_two_that_exchanged_their_addresses(wanted: Wanted) -> None:
    """Node3 has both addresses, so its packets with node4 all arrive. Nodes 1 and 2 have each other's."""
    addresses = {"node3": f"{THREE}/24"}
    wanted.has("node3", present(wanted.lab, "node3"), THREE)
    with nothing_lost(wanted.lab, but=("node1", "node2")):
        before = {node: present(wanted.lab, node) for node in ("node1", "node2", "node3")}
        addresses |= exchange(wanted)
        run = wanted.site(addresses).check()
    for node, address in addresses.items():
        bare = address.partition("/")[0]
        moved(wanted.lab, node, bare)
        assert f"{node} {before[node]} -> {bare}" in run.output
    wanted.has("node3", THREE)
    with nothing_lost(wanted.lab):
        time.sleep(2)
