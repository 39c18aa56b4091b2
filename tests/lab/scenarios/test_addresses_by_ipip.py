# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in the emulated machine gets another address while it has both, and with IPIP no packet is lost.

tunl0 has no address of the underlay. The kernel chooses the host's first one, so that other nodes accept both. The test
takes 15 to 30 minutes, so `make soak MODE=ipip` alone runs it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.fleet import no_way_around, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.measure.streams import Stream, Streams

from . import inventory
from .conftest import HOSTS, LAB, MACHINE, Fleet, Run, new_lab

pytestmark = [
    pytest.mark.skipif(MACHINE == "native", reason="this machine's kernel has no ipip; make soak MODE=ipip runs this"),
    pytest.mark.soak,
]

OLD, NEW = "10.10.1.12", "10.10.1.62"
#: Packets per second of each of the four streams: a stream of 500 takes a quarter of the emulated processor.
PPS = 60


class Wanted:
    """A mesh by IPIP without other peers, to which a host's address is new, and runs of site.yml under traffic."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.folder, self.fleet = lab, folder, Fleet(lab)

    def site(self, **addresses: str) -> Run:
        """Run site.yml, with these addresses (CIDRs) of nodes instead of the lab's."""
        pool = Pool("default-ipv4-ippool", "10.244.0.0/16", "ipip", nat_outgoing=True)
        nodes = HOSTS or ()
        entries = [inventory.workload(f"web-{name[-1]}", name) for name in nodes]
        path = inventory.write(self.folder, [inventory.pool(pool)], entries, nodes, addresses=addresses)
        return self.fleet.site("-ecalico_node_soak_seconds=3", inventory=path).check()

    def site_without_loss(self, **addresses: str) -> Run:
        """Run site.yml under streams from and to node2's workload, within its subnet and to the other one."""
        no_way_around(self.lab)
        ends = {entry.node: entry for entry in workloads(self.lab)}
        pairs = [("node1", "node2"), ("node2", "node1"), ("node2", "node3"), ("node3", "node2")]
        streams = [
            Stream(one, ends[one].name, other, ends[other].name, ends[other].address, 64, PPS) for one, other in pairs
        ]
        with Streams(self.lab, streams) as flows:
            run = self.site(**addresses)
            report = flows.stop()
        print(f"site.yml: {run.seconds:.0f} s\n{report.summary()}")
        assert report.sent > 0 and report.lost_by_us == 0 and not report.silent_hosts, report.summary()
        assert all(result.received > 0 for result in report.streams), report.summary()
        return run

    def accepted(self, node: str) -> set[str]:
        """Return which of OLD and NEW are in `node`'s IP sets."""
        return {OLD, NEW} & set(self.lab.exec(node, "ipset save").stdout.split())


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wanted]:
    with new_lab(LAB, HOSTS, MACHINE) as lab:
        wanted = Wanted(lab, tmp_path_factory.mktemp("addresses"))
        wanted.site()
        yield wanted


def check_paths(lab: BaseLab, address: str) -> None:
    """Assert that all workloads answer each other, and that packets to node2's travel by IPIP to this address."""
    ends = workloads(lab)
    silent = [
        (one.node, other.node)
        for one, other in itertools.permutations(ends, 2)
        if not ping(lab, one.node, other.address, netns=one.name)
    ]
    assert not silent, silent
    by_node = {entry.node: entry for entry in ends}
    for source in ("node1", "node3"):
        route = lab.exec(source, ["ip", "route", "get", by_node["node2"].address]).stdout
        assert f"via {address} dev tunl0" in route, route


def test_a_host_with_both_addresses_loses_nothing(wanted: Wanted) -> None:
    """All nodes accept both until a run finds that the host has the old one no more."""
    lab = wanted.lab
    check_paths(lab, OLD)
    lab.exec("node2", f"ip address add {NEW}/24 dev eth0")
    run = wanted.site_without_loss(node2=f"{NEW}/24")
    assert f"node2 {OLD} -> {NEW}" in run.output
    assert f"node2 still has its earlier address {OLD}" in run.output
    check_paths(lab, NEW)
    assert wanted.accepted("node1") == wanted.accepted("node3") == {OLD, NEW}
    keep = "sysctl -qw net.ipv4.conf.all.promote_secondaries=1"
    default = "ip route replace default via 10.10.1.1"
    lab.exec("node2", f"{keep}; ip address del {OLD}/24 dev eth0; {default}")
    wanted.site_without_loss(node2=f"{NEW}/24")
    check_paths(lab, NEW)
    assert wanted.accepted("node1") == wanted.accepted("node3") == {NEW}
