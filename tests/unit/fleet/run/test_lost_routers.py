# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the paths between subnets that a run cuts when no router learns a node's blocks any more."""

from __future__ import annotations

import dataclasses
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import impact, lost_routers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.decision import Approval
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import Impact, ImpactLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.lost_routers import Cut
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.fleet.fleets import ADDRESSES6, build, pool, states

TOR = {"name": "tor", "asNumber": 65000, "nodeSelector": "all()"}
TOR4, TOR6 = {**TOR, "peerIP": "10.10.1.1"}, {**TOR, "name": "tor6", "peerIP": "fd00:10:10:1::1"}
REFLECTORS = {"rr1": "10.10.1.251/24"}
#: The lab: node1 and node2 are on one subnet, node3 and node4 on another.
POOLS = {"10.244.0.0/16": "default", "fd00:10:244::/48": "six"}
SIX = pool("direct", "six", "fd00:10:244::/48", blockSize=122)


def fleet(*peers: t.Any, mode: str = "direct", **rest: t.Any) -> dict[str, NodeState]:
    return states(build(pool(mode), bgp_peers=list(peers), workloads=[], **rest))


def cuts(
    before: t.Mapping[str, NodeState], after: t.Mapping[str, NodeState], pools: t.Mapping[str, str] = POOLS
) -> list[str]:
    found = lost_routers.cuts(before, {name: state.bird for name, state in after.items()}, pools)
    return [f"{one.pool} {one}" for one in found]


ALL = [
    "default to node1 from node3 and 1 other node",
    "default to node2 from node3 and 1 other node",
    "default to node3 from node1 and 1 other node",
    "default to node4 from node1 and 1 other node",
]


def test_the_last_router_goes() -> None:
    assert cuts(fleet(TOR4), fleet()) == ALL


def test_a_router_of_two_stays() -> None:
    second = {**TOR4, "name": "second", "peerIP": "10.10.1.2"}
    assert cuts(fleet(TOR4, second), fleet(second)) == []


def test_a_router_that_is_replaced_or_restarts_cuts_nothing() -> None:
    assert cuts(fleet(TOR4), fleet({**TOR4, "peerIP": "10.10.1.2"})) == []
    assert cuts(fleet(TOR4), fleet({**TOR4, "asNumber": 65001})) == []


def test_a_router_of_some_nodes_goes() -> None:
    some = {**TOR4, "nodeSelector": "has(stays)"}
    own = {name: {"calico_node_labels": {"stays": ""}} for name in ("node2", "node3", "node4")}
    assert cuts(fleet(TOR4, own=own), fleet(some, own=own)) == ["default to node1 from node3 and 1 other node"]


@pytest.mark.parametrize("mode", ["ipip", "vxlan", "ipip-crosssubnet", "vxlan-crosssubnet"])
def test_a_pool_with_a_tunnel_between_subnets_needs_no_router(mode: str) -> None:
    assert cuts(fleet(TOR4, mode=mode), fleet(mode=mode)) == []
    assert cuts(fleet(TOR4), fleet(mode=mode)) == []


def test_a_pool_that_leaves_its_tunnel_needs_the_router_that_goes() -> None:
    assert cuts(fleet(TOR4, mode="vxlan"), fleet()) == ALL


def test_without_a_router_before_nothing_is_foretold() -> None:
    assert cuts(fleet(), fleet()) == cuts(fleet(mode="vxlan"), fleet()) == []
    assert cuts({}, fleet()) == []


def test_one_subnet_needs_no_router() -> None:
    nodes = {f"node{number}": f"10.10.1.1{number}/24" for number in (1, 2, 3)}
    assert cuts(fleet(TOR4, nodes=nodes), fleet(nodes=nodes)) == []


def test_pools_that_routers_know_otherwise_or_never_learn_are_left_out() -> None:
    assert cuts(fleet(TOR4), fleet(), {}) == []
    hidden = states(build(pool("direct", disableBGPExport=True), bgp_peers=[TOR4], workloads=[]))
    assert cuts(hidden, states(build(pool("direct", disableBGPExport=True), workloads=[]))) == []


def test_a_reflector_with_a_router_passes_on_the_blocks_of_all() -> None:
    of_reflectors = {**TOR4, "nodeSelector": "has(rr)"}
    own = {"rr1": {"calico_node_labels": {"rr": ""}}}
    reflected = fleet(of_reflectors, reflectors=REFLECTORS, own=own)
    assert reflected["rr1"].bird and any(peer.kind == "external" for peer in reflected["rr1"].bird.peers)
    assert cuts(fleet(TOR4, reflectors=REFLECTORS, own=own), reflected) == []
    assert cuts(reflected, fleet(reflectors=REFLECTORS, own=own)) == ALL


def test_ip_versions_have_routers_of_their_own() -> None:
    def both(*peers: t.Any) -> dict[str, NodeState]:
        return states(build(pool("direct"), SIX, bgp_peers=list(peers), workloads=[], own=ADDRESSES6))

    assert cuts(both(TOR4, TOR6), both(TOR4)) == [text.replace("default", "six") for text in ALL]
    assert cuts(both(TOR4, TOR6), both(TOR6)) == ALL
    assert len(cuts(both(TOR4, TOR6), both())) == 8


# --- the impact of a run ----------------------------------------------------------------------------------------------


def of_run(before: t.Mapping[str, NodeState], after: t.Mapping[str, NodeState]) -> Impact:
    announced = {block for state in after.values() for block in impact.announced_by(state)}
    birds = {name: state.bird for name, state in after.items()}
    return impact.of_run(before, birds, announced, after, pools=POOLS)


WORDS = (
    "to node1 from node3 and 1 other node, to node2 from node3 and 1 other node, to node3 from node1 and 1 other node "
    "and 1 more"
)


def test_cut_paths_always_need_approval() -> None:
    found = of_run(fleet(TOR4), fleet())
    assert found.lines[-1] == (
        f"paths     8 cut between subnets in pool default ({WORDS}) · no router learns these nodes' blocks"
    )
    assert ImpactLimits().exceeded(found) == [
        f"it would cut 8 paths between subnets in pool default ({WORDS}), because no router outside the fleet learns "
        "the blocks of these nodes any more"
    ]
    assert ImpactLimits().excess(found) == 4
    assert of_run(fleet(TOR4), fleet(TOR4)) == Impact()


def test_a_run_that_cuts_paths_stops_and_asks() -> None:
    found = dataclasses.replace(Impact(), cut=(Cut("a", "node1", "node3", 1),))
    needed = found.digest("plan")
    refusal = Approval(ImpactLimits()).refusal(found, needed)
    assert str(refusal) == (
        f"plan {needed} needs approval: it would cut 1 path between subnets in pool a (to node1 from node3), because "
        "no router outside the fleet learns the blocks of these nodes any more. Look at it with --check --diff. If it "
        f"is what you want, run it with -e approve={needed}. Nothing was changed."
    )
    assert Approval(ImpactLimits(), needed).refusal(found, needed) is None
    two = Impact(cut=(Cut("a", "node1", "node3", 1), Cut("b", "node1", "node3", 2)))
    assert two.cut_where == "between subnets in pools a, b (to node1 from node3, to node1 from node3 and 1 other node)"


def test_what_is_cut_is_part_of_the_approval() -> None:
    found = of_run(fleet(TOR4), fleet())
    assert len({one.digest("plan") for one in (found, dataclasses.replace(found, cut=()))}) == 2


def test_a_node_alone_says_which_paths_to_it_are_cut() -> None:
    before, after = fleet(TOR4), fleet()
    birds = {name: state.bird for name, state in after.items()}
    found = of_run(before, after)
    alone = impact.reported_alone(found, before, birds)
    assert [one.node for one in alone["node1"].cut] == ["node1"]
    assert [one.node for one in found.without(alone["node1"]).cut] == ["node2", "node3", "node4"]


def test_the_paths_of_500_nodes_are_foretold_within_a_second() -> None:
    router = BirdPeer("tor", "10.10.1.1", 65000, "external")
    pools = tuple(BirdPool(f"10.{100 + number}.0.0/16", "", False) for number in range(4))

    def bird(number: int, peers: tuple[BirdPeer, ...]) -> Bird:
        blocks = tuple(f"10.{100 + index}.{number // 4}.{number % 4 * 64}/26" for index in range(4))
        address, subnet = f"10.10.{number % 20}.{number // 20 + 1}", f"10.10.{number % 20}.0/24"
        return Bird("1.1.1.1", address, 64512, subnet, blocks=blocks, pools=pools, peers=peers)

    before = {f"n{number}": NodeState(f"n{number}", "", bird=bird(number, (router,))) for number in range(500)}
    after = {f"n{number}": bird(number, ()) for number in range(500)}
    began = time.perf_counter()
    found = lost_routers.cuts(before, after, {one.cidr: one.cidr for one in pools})
    assert time.perf_counter() - began < 1
    assert len(found) == 2000 and found[0] == Cut("10.100.0.0/16", "n0", "n1", 475)
