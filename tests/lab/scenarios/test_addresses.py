# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts get other addresses: with both on the host no packet is lost, and otherwise none between the other hosts.

Streams between workloads of all pairs of nodes, in both subnets, run over each run (see PPS in conftest.py).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.measure.streams import Stream, Streams
from tests.lab.topology import NODES

from . import inventory
from .conftest import LAB, PPS, ROOT, Fleet, Run, new_lab, nothing_lost
from .killed_controller import kill_run, run_to_kill
from .test_agent import wait

NAME = f"{LAB}-addresses"
FOUR = ("node1", "node2", "node3", "node4")
POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True)
#: Seconds after which a host goes back from an unconfirmed change.
CONFIRM = 20
OLD, NEW, ASIDE, THREE = "10.10.1.12", "10.10.1.62", "10.10.1.61", "10.10.2.63"


class Wanted:
    """The inventory, rewritten for each change, and runs of site.yml with it."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.folder, self.fleet = lab, folder, Fleet(lab)

    def site(
        self,
        addresses: Mapping[str, str] = {},
        mode: str = "vxlan",
        addresses6: Mapping[str, str] = {},
        **variables: Any,
    ) -> Run:
        """Run site.yml with the inventory of `write`."""
        path = self.write(addresses, mode, addresses6, **variables)
        return self.fleet.site("-ecalico_node_soak_seconds=3", inventory=path)

    def write(
        self,
        addresses: Mapping[str, str] = {},
        mode: str = "vxlan",
        addresses6: Mapping[str, str] = {},
        **variables: Any,
    ) -> str:
        """Write the inventory, and return the path of its hosts.

        With `addresses6` the fleet has both IP versions, and the workloads an address of each.
        """
        entries = [inventory.workload(f"web-{name[-1]}", name) for name in FOUR]
        pools = [Pool(POOL.name, POOL.cidr, mode, nat_outgoing=True)]
        if addresses6:
            pools.append(Pool("six", "fd00:10:244::/48", mode, block_size=122))
        return inventory.write(
            self.folder,
            [inventory.pool(pool) for pool in pools],
            entries,
            nodes=FOUR,
            addresses=addresses,
            addresses6=addresses6,
            **variables,
        )

    def has6(self, node: str, *addresses: str) -> None:
        """Give a host exactly these global IPv6 addresses on the underlay."""
        commands = [f"ip address add {address}/64 dev eth0 nodad 2>/dev/null" for address in addresses]
        here = self.lab.exec(node, "ip -o -6 address show dev eth0 scope global | awk '{print $4}'").stdout.split()
        gone = [f"ip address del {cidr} dev eth0" for cidr in here if cidr.partition("/")[0] not in addresses]
        default = f"ip -6 route replace default via {NODES[node].gateway6}"
        self.lab.exec(node, "; ".join([*commands, *gone, default]))

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
    with new_lab(NAME, FOUR, ipv6=True) as lab:
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


def state(lab: BaseLab, node: str) -> dict[str, Any]:
    """Return a node's stored state as parsed JSON."""
    found: dict[str, Any] = json.loads(lab.exec(node, ["cat", "/var/lib/calico/state.json"]).stdout)["state"]
    return found


def present(lab: BaseLab, node: str) -> str:
    """Return a node's address by its stored state."""
    return str(state(lab, node)["address"]).partition("/")[0]


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


@pytest.mark.soak
def test_a_host_that_goes_back_by_itself_keeps_its_new_address(wanted: Wanted) -> None:
    """The controller dies while the host waits for a confirmation. The host has both addresses, and loses nothing."""
    lab = wanted.lab
    addresses = {node: f"{present(lab, node)}/24" for node in FOUR}
    wanted.site(addresses).check()
    before = state(lab, "node2")
    old = present(lab, "node2")
    new = next(address for address in (NEW, "10.10.1.63") if address != old)
    wanted.has("node2", old, new)
    addresses["node2"] = f"{new}/24"
    path = wanted.write(addresses)
    command = wanted.fleet.command("site.yml", f"-ecalico_node_confirm_timeout={CONFIRM}", inventory=path)
    waits = ["test", "-e", "/var/lib/calico/unconfirmed.json"]

    def waiting() -> list[str]:
        return [node for node in FOUR if lab.exec(node, waits, check=False).returncode == 0]

    with nothing_lost(lab):
        with run_to_kill(command, ROOT, wanted.fleet.environment) as killed:
            wait("node2 has the new address", lambda: "node2" in waiting() and present(lab, "node2") == new, 120)
            kill_run(killed)
        wait("all are back", lambda: not waiting(), 2 * CONFIRM + 30)
    returned = state(lab, "node2")
    assert (returned["plan"], returned["phase"], returned["address"]) == (
        before["plan"],
        before["phase"],
        f"{new}/24",
    )
    reverted = json.loads(lab.exec("node2", ["cat", "/var/lib/calico/went-back.json"]).stdout)
    assert reverted["reason"] == f"it was not confirmed within {CONFIRM} s" and not reverted["problem"]
    with nothing_lost(lab):
        wanted.site(addresses).check()
    moved(lab, "node2", new)
    wanted.has("node2", new)


# --- IPv6 -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing_lost6(lab: BaseLab, but: Sequence[str] = ()) -> Iterator[None]:
    """Assert that streams of both IP versions lose nothing between the workloads of all nodes but those in `but`."""
    ends = {name: state(lab, name)["workloads"][0] for name in FOUR if name not in but}
    streams = [
        Stream(one, ends[one]["name"], other, ends[other]["name"], ends[other]["address6"], 64, PPS)
        for one, other in itertools.permutations(ends, 2)
    ]
    with nothing_lost(lab, but), Streams(lab, streams) as flows:
        yield
        report = flows.stop()
    assert report.sent > 0 and report.lost_by_us == 0 and not report.silent_hosts, report.summary()


def moved6(lab: BaseLab, node: str, address: str) -> None:
    """Assert that a node uses this IPv6 address, and that no BIRD has a backup route."""
    for one in FOUR:
        config = lab.exec(one, ["cat", "/etc/calico/bird.cfg"]).stdout
        assert "calico_backup" not in config
        assert one == node or f"neighbor {address} " in config
    assert f"local {address} " in lab.exec(node, "ip -d link show vxlan-v6.calico").stdout


@pytest.mark.soak
def test_a_host_gets_another_ipv6_address(wanted: Wanted) -> None:
    """No packet is lost with both addresses on the host.

    With the new one alone, one run brings the host back, and no packet of IPv4 is lost meanwhile.
    """
    four = {node: f"{present(wanted.lab, node)}/24" for node in FOUR}
    six = {node: f"{NODES[node].address6}/64" for node in FOUR}
    wanted.site(four, addresses6=six).check()
    old, new = NODES["node2"].address6, NODES["node2"].address6[:-2] + "62"
    wanted.has6("node2", old, new)
    six["node2"] = f"{new}/64"
    with nothing_lost6(wanted.lab):
        run = wanted.site(four, addresses6=six).check()
    assert f"node2 {old} -> {new}" in run.output
    moved6(wanted.lab, "node2", new)
    wanted.has6("node2", new)
    with nothing_lost6(wanted.lab):
        wanted.site(four, addresses6=six).check()
    six["node2"] = f"{old}/64"
    with nothing_lost6(wanted.lab, but=("node2",)):
        wanted.has6("node2", old)
        wanted.site(four, addresses6=six).check()
    moved6(wanted.lab, "node2", old)


@pytest.mark.soak
def test_two_hosts_exchange_their_ipv6_addresses(wanted: Wanted) -> None:
    """One run brings both back, and IPv4 and the other two hosts lose nothing."""
    four = {node: f"{present(wanted.lab, node)}/24" for node in FOUR}
    six = {node: state(wanted.lab, node).get("address6") or f"{NODES[node].address6}/64" for node in FOUR}
    wanted.site(four, addresses6=six).check()
    one, two = (six[node].partition("/")[0] for node in ("node1", "node2"))
    six |= {"node1": six["node2"], "node2": six["node1"]}
    with nothing_lost6(wanted.lab, but=("node1", "node2")):
        wanted.has6("node1", two[:-2] + "61")
        wanted.has6("node2", one)
        wanted.has6("node1", two)
        wanted.site(four, addresses6=six).check()
    moved6(wanted.lab, "node1", two)
    moved6(wanted.lab, "node2", one)
    with nothing_lost6(wanted.lab):
        wanted.site(four, addresses6=six).check()
