# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the addresses that nodes probe to test their paths."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import probing, transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet

from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, pool, states, workload


def paths(fleet: Fleet, node: str = "node1", sample: int = 0) -> list[tuple[str, str, int]]:
    others = {name: fleet.ipam_of(name) for name in fleet.nodes if fleet.nodes[name].workload_node}
    return [(p.node, p.address, p.size) for p in probing.paths(states(fleet)[node], others, sample)]


@pytest.mark.parametrize(("mode", "kind", "size"), [("ipip", "ipip", 1480), ("vxlan-crosssubnet", "vxlan", 1450)])
def test_tunnel_addresses_are_probed_at_full_size(mode: str, kind: str, size: int) -> None:
    fleet = build(pool(mode))
    assert paths(fleet) == [(name, fleet.ipam_of(name).tunnels[kind], size) for name in ("node2", "node3", "node4")]


def test_paths_of_both_versions_are_probed_and_none_from_a_node_without_ipv6() -> None:
    six = pool("vxlan", "six", "fd00:10:244::/64", nodeSelector="has(six)")
    labels = {"calico_node_labels": {"six": "yes"}}
    own = {name: {**ADDRESSES6[name], **labels} for name in ("node1", "node2")}
    fleet = build(pool("ipip"), six, own=own)
    tunnels = fleet.ipam_of("node2").tunnels
    four = [(f"node{n}", fleet.ipam_of(f"node{n}").tunnels["ipip"], 1480) for n in (2, 3, 4)]
    assert paths(fleet) == [four[0], ("node2", tunnels["vxlan6"], 1430), *four[1:]]
    assert all(":" not in address for dummy, address, dummy in paths(fleet, "node3"))


def test_without_tunnels_a_workload_answers_and_a_node_without_any_is_passed_over() -> None:
    fleet = build(pool("direct"), workloads=[workload("w2", "node2"), workload("w4", "node4")])
    assert paths(fleet) == [(f"node{n}", fleet.ipam_of(f"node{n}").workloads[f"w{n}"], 1500) for n in (2, 4)]


def test_a_tunnel_that_is_gone_is_not_probed_although_its_address_is_kept() -> None:
    before = build(pool("ipip"))
    after = build(pool("direct"), previous=before.allocation)
    assert after.ipam_of("node2").tunnels
    assert paths(after) == [(f"node{n}", after.ipam_of(f"node{n}").workloads[f"w{n}"], 1500) for n in (2, 3, 4)]


def test_during_a_change_the_tunnel_that_goes_answers_by_the_new_way() -> None:
    before = build(pool("vxlan"))
    after = build(pool("direct"), previous=before.allocation)
    others = {name: after.ipam_of(name) for name in ("node2", "node3")}
    flip = transition.phase_state(states(before)["node1"], states(after)["node1"], "flip")
    found = probing.paths(flip, others)
    assert [(p.address, p.size) for p in found] == [(ipam.tunnels["vxlan"], 1500) for ipam in others.values()]


def test_with_policy_no_workload_stands_in() -> None:
    """In a direct pool with policy no path is probed: the policy of a workload may keep it from answering."""
    web = {"kind": "NetworkPolicy", "name": "web", "selector": "all()", "types": ["Ingress"]}
    assert paths(build(pool("direct"), policies=[web])) == []
    assert len(paths(build(pool("vxlan"), policies=[web]))) == 3


def test_every_pool_is_probed_by_an_address_of_its_own_and_at_its_own_size() -> None:
    fleet = build(
        pool("ipip", "a", "10.1.0.0/16"),
        pool("direct", "b", "10.2.0.0/16"),
        pool("vxlan", "c", "10.3.0.0/16", disableBGPExport=True),
        workloads=[workload("wa", "node2", pool="a"), workload("wb", "node2", pool="b")],
    )
    ipam = fleet.ipam_of("node2")
    assert [path for path in paths(fleet) if path[0] == "node2"] == [
        ("node2", ipam.tunnels["ipip"], 1480),
        ("node2", ipam.workloads["wb"], 1500),
    ]


def test_a_sample_has_its_size_and_differs_between_nodes() -> None:
    nodes = {f"n{i:02}": f"10.10.1.{10 + i}/24" for i in range(20)}
    fleet = build(pool("ipip"), nodes=nodes, workloads=[])
    samples = {node: paths(fleet, node, 5) for node in nodes}
    assert all(len(set(sample)) == 5 and node not in {p[0] for p in sample} for node, sample in samples.items())
    assert {path[0] for sample in samples.values() for path in sample} == set(nodes)
    assert len(paths(fleet, "n00", 100)) == 19


def test_a_pure_reflector_probes_nothing() -> None:
    fleet = build(pool("ipip"), reflectors={"rr1": "10.10.1.2/24"})
    assert paths(fleet, "rr1") == []
    assert {path[0] for path in paths(fleet)} == set(LAB) - {"node1"}


@pytest.mark.parametrize(("sample", "count"), [(0, 3), (1, 1), (2, 2), (3, 3), (4, 3), (-1, 3)])
def test_a_sample_has_at_most_so_many_paths(sample: int, count: int) -> None:
    """A sample has different paths, no more than it may have, and 0 or a negative one leaves none out."""
    fleet = build(pool("ipip"))
    everything, some = paths(fleet), paths(fleet, sample=sample)
    assert len(set(some)) == len(some) == count
    assert set(some) <= set(everything)


def test_samples_of_the_nodes_are_spread_over_the_fleet() -> None:
    """Each of 13 nodes probes three others at equal distances in the order of the others' names.

    Their first ones have at least seven different places in these orders.
    """
    nodes = {f"n{number:02}": f"10.10.1.{number + 10}/24" for number in range(13)}
    fleet = build(pool("ipip"), nodes=nodes, workloads=[])
    order = sorted(nodes)
    starts = set()
    for node in order:
        others = [name for name in order if name != node]
        picked = [others.index(name) for name, dummy, dummy in paths(fleet, node, sample=3)]
        assert [(after - before) % 12 for before, after in zip(picked, picked[1:])] == [4, 4]
        starts.add(picked[0])
    assert len(starts) > 6
