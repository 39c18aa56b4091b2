# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the paths that nodes probe, and of those that they do not try."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import probe_paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fleet.fleets import ADDRESSES6, build, pool
from tests.unit.fleet.probe_addresses import states

NODES = ("node1", "node2", "node3", "node4")


def found(state: NodeState, **options: t.Any) -> list[tuple[str, str, int]]:
    return [(path.node, path.pool, path.size) for path in probe_paths.plan(state, **options).paths]


def untried(state: NodeState, **options: t.Any) -> list[str]:
    return [str(gap) for gap in probe_paths.plan(state, **options).untried]


@pytest.mark.parametrize(
    ("mode", "size", "bgp"),
    [
        ("direct", 1500, True),
        ("ipip", 1480, True),
        ("ipip-crosssubnet", 1480, True),
        ("vxlan", 1450, True),
        ("vxlan-crosssubnet", 1450, True),
        ("vxlan", 1450, False),
        ("vxlan-crosssubnet", 1450, False),
    ],
)
def test_each_node_is_probed_at_the_size_of_its_pool(mode: str, size: int, bgp: bool) -> None:
    """There is a path to each other node with the pool's size, between the probe addresses, also without BGP."""
    state = states(build(pool(mode), bgp_enabled=bgp))["node1"]
    paths = probe_paths.plan(state).paths
    assert [(path.node, path.size) for path in paths] == [(name, size) for name in NODES[1:]]
    members = {member.name: member.probes for member in state.nodes}
    assert all((path.source,) == members["node1"] and (path.address,) == members[path.node] for path in paths)
    assert untried(state) == []


def test_each_pool_of_both_versions_is_probed_at_its_own_size() -> None:
    """Every pool and IP version has its path, also several with the same tunnel and those without one."""
    pools = [
        pool("direct", "a", "10.1.0.0/16"),
        pool("ipip", "b", "10.2.0.0/16"),
        pool("ipip", "c", "10.3.0.0/16"),
        pool("vxlan", "six", "fd00:10:244::/64"),
    ]
    given_states = states(build(*pools, own=ADDRESSES6))
    assert [one for one in found(given_states["node1"]) if one[0] == "node2"] == [
        ("node2", "a", 1500),
        ("node2", "b", 1480),
        ("node2", "c", 1480),
        ("node2", "six", 1430),
    ]
    for path in probe_paths.plan(given_states["node3"]).paths:
        assert (":" in path.source) == (":" in path.address) == (path.pool == "six")


def test_a_node_without_ipv6_probes_no_ipv6() -> None:
    six = pool("vxlan", "six", "fd00:10:244::/64", nodeSelector="has(six)")
    own = {name: {**ADDRESSES6[name], "calico_node_labels": {"six": "yes"}} for name in NODES[:2]}
    given_states = states(build(pool("ipip"), six, own=own))
    assert found(given_states["node3"]) == [(name, "default", 1480) for name in ("node1", "node2", "node4")]
    assert untried(given_states["node3"]) == []


def test_a_node_without_a_block_of_a_pool_probes_from_another_pool() -> None:
    """Workloads of node1 reach those of the pool racks as well, from pool a; what both pools carry is the size."""
    racks = pool("direct", "racks", "10.2.0.0/16", nodeSelector="has(rack)")
    own = {name: {"calico_node_labels": {"rack": "1"}} for name in ("node2", "node4")}
    given_states = states(build(pool("vxlan", "a", "10.1.0.0/16"), racks, own=own))
    racked = [path for path in probe_paths.plan(given_states["node1"]).paths if path.pool == "racks"]
    own_address = given_states["node1"].ipam.probes["a"]
    assert [(path.node, path.source, path.size) for path in racked] == [
        ("node2", own_address, 1450),
        ("node4", own_address, 1450),
    ]
    assert [one for one in found(given_states["node2"]) if one[1] == "racks"] == [("node4", "racks", 1500)]


@pytest.mark.parametrize(
    ("options", "node", "expected"),
    [
        ({"full": [("node2", "default")]}, "node1", ["1 path of pool default (nodes have no probe endpoint)"]),
        ({"full": [("node2", "b")]}, "node1", ["1 path of pool b (no free address for a probe)"]),
        ({"full": [("node2", "b")]}, "node2", ["3 paths of pool b (no free address for a probe)"]),
        ({"unprobed": ["b"]}, "node1", ["3 paths of pool b (no node has a probe address in it)"]),
    ],
)
def test_paths_without_an_address_are_named(options: dict[str, t.Any], node: str, expected: list[str]) -> None:
    pools = [pool("ipip")] if "default" in str(options) else [pool("ipip"), pool("direct", "b", "10.2.0.0/16")]
    given_states = states(build(*pools), **options)
    assert untried(given_states[node]) == expected


def test_blocks_of_one_address_have_no_room_for_probes() -> None:
    public = pool("direct", "public", "192.0.2.0/28", blockSize=32)
    given_states = states(build(pool("ipip"), public), unprobed=["public"])
    assert untried(given_states["node1"]) == ["3 paths of pool public (its blocks have one address each)"]


def test_pools_that_are_not_advertised_are_not_asked() -> None:
    """Without BGP all nodes know all routes, so that disableBGPExport closes nothing."""
    hidden = pool("vxlan", "c", "10.3.0.0/16", disableBGPExport=True)
    given_states = states(build(pool("vxlan"), hidden))
    assert {one[1] for one in found(given_states["node1"])} == {"default"}
    assert untried(given_states["node1"]) == ["3 paths of pool c (disableBGPExport keeps its routes from other nodes)"]
    without = states(build(pool("vxlan"), hidden, bgp_enabled=False))["node1"]
    assert {one[1] for one in found(without)} == {"default", "c"}


def bgp_filter(direction: str, *rules: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"name": "f", direction: list(rules)}


REJECT = {"action": "Reject", "cidr": "10.244.0.0/16", "matchOperator": "In"}


@pytest.mark.parametrize(
    ("rules", "closed"),
    [
        ([REJECT], True),
        ([{**REJECT, "peerType": "eBGP"}], False),
        ([{**REJECT, "cidr": "10.1.0.0/16"}], False),
        ([{**REJECT, "action": "Accept"}, REJECT], False),
        ([{"action": "Accept", "asPathPrefix": [64999]}, REJECT], False),
        ([{**REJECT, "asPathPrefix": [64999]}], False),
    ],
)
@pytest.mark.parametrize("direction", ["importV4", "exportV4"])
def test_blocks_that_every_session_refuses_are_not_asked(
    direction: str, rules: list[dict[str, t.Any]], closed: bool
) -> None:
    """A path is closed if filters surely reject its routes on all sessions, else it is asked."""
    rr = {"calico_node_labels": {"rr": "yes"}}
    fleet = build(
        pool("ipip"),
        reflectors={"rr1": "10.10.1.2/24"},
        own={"rr1": rr},
        bgp_node_to_node_mesh=False,
        bgp_peers=[{"name": "rr", "nodeSelector": "all()", "peerSelector": "has(rr)", "filters": ["f"]}],
        bgp_filters=[bgp_filter(direction, *rules)],
    )
    state = states(fleet)["node1"]
    expected = ["3 paths of pool default (BGPFilters keep its routes from nodes)"] if closed else []
    assert untried(state) == expected
    assert len(found(state)) == (0 if closed else 3)


def test_a_pure_reflector_probes_nothing() -> None:
    given_states = states(build(pool("ipip"), reflectors={"rr1": "10.10.1.2/24"}))
    assert probe_paths.plan(given_states["rr1"]) == ([], [])
    assert {path[0] for path in found(given_states["node1"])} == {"node2", "node3", "node4"}


def test_sizes_during_a_change_fit_the_mode_in_use() -> None:
    """Before the flip the old mode carries live packets, and from then on the new one."""
    before = build(pool("vxlan"))
    target = states(build(pool("direct"), previous=before.allocation))["node1"]
    current = states(before)["node1"]
    sizes = {
        phase: {size for dummy, dummy, size in found(transition.phase_state(current, target, phase))}
        for phase in (Phase.PREPARE, Phase.LINKS, Phase.FLIP, Phase.CONVERGE)
    }
    assert sizes == {Phase.PREPARE: {1450}, Phase.LINKS: {1450}, Phase.FLIP: {1500}, Phase.CONVERGE: {1500}}
    flip = transition.phase_state(current, target, Phase.FLIP)
    assert {size for dummy, dummy, size in found(flip, proof=True)} == {1500}


def fleet_of(count: int) -> dict[str, str]:
    return {f"n{number:03}": f"10.10.1.{10 + number}/24" for number in range(count)}


MANY = states(
    build(pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16"), nodes=fleet_of(20), workloads=[])
)


@given(node=st.sampled_from(sorted(MANY)), sample=st.integers(-1, 25), first=st.integers(0, 1000))
def test_samples_of_successive_turns_have_each_path(node: str, sample: int, first: int) -> None:
    """A sample has that many paths of each pool, and successive turns have all of them within the stated number."""
    everything = set(probe_paths.plan(MANY[node]).paths)
    turns = -(-19 // sample) if sample > 0 else 1
    seen = set()
    for turn in range(first, first + turns):
        paths, gaps = probe_paths.plan(MANY[node], sample=sample, turn=turn)
        for name in ("a", "b"):
            kept = sum(path.pool == name for path in paths)
            assert kept == (min(sample, 19) if sample > 0 else 19)
            left_out = 19 - kept
            assert [gap.count for gap in gaps if gap.pool == name] == ([left_out] if left_out else [])
        assert {gap.reason for gap in gaps} <= {probe_paths.SAMPLED}
        assert len(set(paths)) == len(paths)
        seen |= set(paths)
    assert seen == everything


def test_samples_of_the_nodes_differ() -> None:
    """In one turn the nodes of a fleet probe different others, and together every node."""
    samples = {node: {path.node for path in probe_paths.plan(MANY[node], sample=3).paths} for node in MANY}
    assert set().union(*samples.values()) == set(MANY)
    assert len(set(map(frozenset, samples.values()))) > 5
