# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the addresses that nodes probe to test their paths."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import probing, untried

from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, pool, states, workload


def paths(fleet: Fleet, node: str = "node1", sample: int = 0) -> list[tuple[str, str, int]]:
    others = {name: fleet.ipam_of(name) for name in fleet.nodes if fleet.nodes[name].workload_node}
    return [(p.node, p.address, p.size) for p in probing.plan(states(fleet)[node], others, sample).paths]


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


def untried_of(fleet: Fleet, node: str = "node1", sample: int = 0) -> list[str]:
    others = {name: fleet.ipam_of(name) for name in fleet.nodes if fleet.nodes[name].workload_node}
    return [str(gap) for gap in probing.plan(states(fleet)[node], others, sample).untried]


def test_no_workload_is_probed_and_a_pool_without_tunnels_is_named_as_untried() -> None:
    """A workload's own firewall, policy and link MTU decide whether it answers: it proves no path of its pool."""
    fleet = build(pool("direct"), workloads=[workload("w2", "node2"), workload("w4", "node4")])
    assert paths(fleet) == []
    assert untried_of(fleet) == ["3 paths of pool default (without a tunnel it has no address to probe)"]


def test_a_direct_pool_beside_a_tunnelled_one_is_named_as_untried() -> None:
    fleet = build(pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16"))
    assert [path[0] for path in paths(fleet)] == ["node2", "node3", "node4"]
    assert untried_of(fleet) == ["3 paths of pool b (without a tunnel it has no address to probe)"]


def test_the_second_pool_of_one_kind_of_tunnel_is_named_as_untried() -> None:
    """A node has one address for each kind of tunnel, which lies in one of the pools."""
    fleet = build(pool("ipip", "a", "10.1.0.0/16"), pool("ipip", "b", "10.2.0.0/16"))
    assert len(paths(fleet)) == 3
    assert untried_of(fleet) == ["3 paths of pool b (the addresses of its tunnels are in another pool)"]


def test_a_pool_of_some_nodes_counts_by_those() -> None:
    """Only nodes with a block of a pool have paths in it, of the node that probes the IP version."""
    racks = pool("direct", "racks", "10.2.0.0/16", nodeSelector="has(rack)")
    own = {name: {"calico_node_labels": {"rack": "1"}} for name in ("node2", "node4")}
    fleet = build(pool("vxlan", "a", "10.1.0.0/16"), racks, own=own)
    assert untried_of(fleet) == ["2 paths of pool racks (without a tunnel it has no address to probe)"]
    assert untried_of(fleet, "node2") == ["1 path of pool racks (without a tunnel it has no address to probe)"]
    assert untried_of(build(pool("vxlan"))) == []


def test_paths_that_a_sample_leaves_out_are_named() -> None:
    assert untried_of(build(pool("ipip")), sample=1) == [
        "2 paths of pool default (calico_node_probe_sample leaves them out)"
    ]


def test_the_untried_paths_of_a_run_are_added_up_and_nodes_that_took_no_part_are_named() -> None:
    fleet = build(pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16"))
    others = {name: fleet.ipam_of(name) for name in fleet.nodes}
    own = {name: probing.plan(state, others).untried for name, state in states(fleet).items() if name != "node4"}
    found = untried.of_run(own, {"node4": untried.NOT_IN_RUN})
    assert untried.line(found) == [
        "not tried  9 paths of pool b (without a tunnel it has no address to probe) · paths of node4 (not in this run)"
    ]
    assert untried.clause(found) == ["9 paths and 1 node not tried"]
    assert untried.from_data(untried.to_data(found)) == found
    many = untried.of_run({}, {f"n{number}": untried.FAILED for number in range(9)})
    assert untried.line(many) == [
        "not tried  paths of n0, n1, n2, n3, n4, n5 and 3 more (unreachable or failed in this run)"
    ]
    assert untried.line([]) == untried.clause([]) == []


def test_a_lockfile_tells_what_no_run_tries() -> None:
    """The paths by the lockfile's plan are those that the nodes' own plans of probes leave out."""
    pools = [pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16"), pool("ipip", "c", "10.3.0.0/16")]
    fleet = build(*pools)
    others = {name: fleet.ipam_of(name) for name in fleet.nodes}
    of_nodes = untried.of_run({name: probing.plan(one, others).untried for name, one in states(fleet).items()}, {})
    plan = dataclasses.replace(fleet.allocation, encapsulations={one.name: one.encapsulation for one in fleet.pools})
    assert untried.by_any_run(plan) == of_nodes
    assert untried.lines_of_status(untried.of_status(["node1"], plan)) == [
        "not tried  by site.yml either: 12 paths of pool b (without a tunnel it has no address to probe) · "
        "12 paths of pool c (the addresses of its tunnels are in another pool)"
    ]
    assert untried.lines_of_status(untried.of_status(["node1"], None)) == []


def test_a_tunnel_that_is_gone_is_not_probed_although_its_address_is_kept() -> None:
    before = build(pool("ipip"))
    after = build(pool("direct"), previous=before.allocation)
    assert after.ipam_of("node2").tunnels
    assert paths(after) == []


def test_during_a_change_the_tunnel_that_goes_answers_by_the_new_way() -> None:
    before = build(pool("vxlan"))
    after = build(pool("direct"), previous=before.allocation)
    others = {name: after.ipam_of(name) for name in ("node2", "node3")}
    flip = transition.phase_state(states(before)["node1"], states(after)["node1"], "flip")
    found = probing.plan(flip, others).paths
    assert [(p.address, p.size) for p in found] == [(ipam.tunnels["vxlan"], 1500) for ipam in others.values()]


def test_every_pool_with_a_tunnel_is_probed_at_its_own_size_and_a_hidden_one_is_not() -> None:
    fleet = build(
        pool("ipip", "a", "10.1.0.0/16"),
        pool("vxlan", "b", "10.2.0.0/16"),
        pool("direct", "c", "10.3.0.0/16", disableBGPExport=True),
    )
    tunnels = fleet.ipam_of("node2").tunnels
    assert [path for path in paths(fleet) if path[0] == "node2"] == [
        ("node2", tunnels["ipip"], 1480),
        ("node2", tunnels["vxlan"], 1450),
    ]
    assert untried_of(fleet) == ["3 paths of pool c (disableBGPExport keeps its routes from other nodes)"]


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
