# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile and the nodes' copies: what is learned, what is rebuilt, and when planning stops."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    QuarantinedBlock,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.errors import RebuildError
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.inputs import (
    NodeEntry,
    PoolRange,
    WorkloadRequest,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.plan import plan
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.rebuild import Reconciled, reconcile
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

POOL = PoolRange("main", "10.244.0.0/22", 26)
NAMES = ("node1", "node2", "node3")
NEEDS = {name: {"ipip": ["main"]} for name in (*NAMES, "node4")}


def run(
    names: t.Sequence[str],
    previous: t.Optional[AllocationPlan] = None,
    workloads: t.Sequence[WorkloadRequest] = (),
    **more: t.Any,
) -> AllocationPlan:
    probes = dict.fromkeys(names, ("main",))
    entries = [NodeEntry(name) for name in names]
    return plan([POOL], entries, previous, workloads=workloads, tunnels=NEEDS, probes=probes, **more)


def copy_of(found: AllocationPlan, node: str) -> NodeIpam:
    part = found.nodes[node]
    return NodeIpam(
        found.generation,
        tuple(Block(grant.cidr, grant.pool) for grant in part.blocks),
        tuple(Block(grant.cidr, grant.pool) for grant in part.spare_blocks),
        dict(part.tunnels),
        dict(part.workloads),
        workloads6=dict(part.workloads6),
        probes=dict(part.probes),
    )


def copies(found: AllocationPlan, *names: str) -> dict[str, NodeIpam]:
    return {name: copy_of(found, name) for name in names or found.nodes}


def both(
    lock: t.Optional[AllocationPlan], kept: t.Mapping[str, NodeIpam], names: t.Sequence[str] = NAMES, **more: t.Any
) -> Reconciled:
    return reconcile(lock, kept, **{"unreachable": (), "inventory_nodes": names, "lockfile_name": "lock", **more})


def refusal(*args: t.Any, **more: t.Any) -> str:
    with pytest.raises(RebuildError) as caught:
        both(*args, **more)
    return str(caught.value)


def open_blocks(found: AllocationPlan) -> list[tuple[str, str]]:
    """Return a list of (block, its node) for each open block of a plan."""
    return [(grant.cidr, name) for name, part in found.nodes.items() for grant in part.blocks]


FIRST = run(NAMES, workloads=[WorkloadRequest("w", "node2")])
NEWER = run((*NAMES, "node4"), FIRST, workloads=[WorkloadRequest("w", "node2"), WorkloadRequest("v", "node1")])


def first(found: AllocationPlan, node: str) -> str:
    return found.nodes[node].blocks[0].cidr


# An ordinary run


def test_a_lockfile_that_the_nodes_agree_with_is_taken_as_it_is() -> None:
    assert both(FIRST, copies(FIRST)) == Reconciled(FIRST)
    assert both(FIRST, copies(FIRST)).plan is FIRST


def test_nodes_that_are_down_or_not_asked_do_not_matter_while_the_lockfile_is_new_enough() -> None:
    assert both(FIRST, copies(FIRST, "node1"), unreachable=["node2"], not_asked=["node3"]) == Reconciled(FIRST)
    assert both(NEWER, copies(FIRST, "node1"), unreachable=["node2"]) == Reconciled(NEWER)
    assert both(FIRST, {}, unreachable=NAMES) == Reconciled(FIRST)


def test_a_node_without_a_plan_of_its_own_changes_nothing() -> None:
    assert both(FIRST, {**copies(FIRST), "rr1": NodeIpam(FIRST.generation)}, [*NAMES, "rr1"]) == Reconciled(FIRST)


def test_a_new_fleet_has_no_plan() -> None:
    assert both(None, {}) == Reconciled(None)
    assert both(None, {"node1": NodeIpam()}) == Reconciled(None)


def test_a_new_fleet_can_start_with_a_host_that_is_down() -> None:
    assert both(None, {}, unreachable=["node3"]) == Reconciled(
        None,
        ("lock is missing and no node that answered has blocks: planned as a new fleet, without the copies of node3.",),
    )


# What a node did itself


def test_a_spare_block_that_a_node_opened_is_learned() -> None:
    mine = copy_of(FIRST, "node1")
    opened = dataclasses.replace(mine, blocks=mine.blocks + mine.spare_blocks, spare_blocks=())
    found = both(FIRST, {**copies(FIRST), "node1": opened})
    spare = FIRST.nodes["node1"].spare_blocks[0]
    assert found.notices == (f"node1 has opened its spare block {spare.cidr}.",)
    assert found.plan is not None
    assert found.plan.nodes["node1"].blocks == (*FIRST.nodes["node1"].blocks, spare)
    assert found.plan.nodes["node1"].spare_blocks == ()
    assert found.plan.generation == FIRST.generation + 1
    after = run(NAMES, found.plan, workloads=[WorkloadRequest("w", "node2")])
    assert len(after.nodes["node1"].spare_blocks) == 1
    assert after.nodes["node2"] == FIRST.nodes["node2"]


# The lockfile is missing


def test_a_missing_lockfile_is_rebuilt_from_the_copies() -> None:
    found = both(None, copies(FIRST))
    assert found.plan is not None
    assert found.plan.nodes == FIRST.nodes
    assert found.plan.generation == FIRST.generation + 1
    assert found.notices == (
        "lock was missing and is rebuilt from the copies of 3 nodes (generation 1). "
        "Blocks of nodes that were removed earlier are not in quarantine any more.",
    )
    again = run(NAMES, found.plan, workloads=[WorkloadRequest("w", "node2")])
    assert (again.nodes, again.pools) == (FIRST.nodes, FIRST.pools)


def test_a_node_without_a_copy_joins_a_rebuilt_plan() -> None:
    found = both(None, copies(FIRST, "node1", "node2"))
    after = run(NAMES, found.plan, workloads=[WorkloadRequest("w", "node2")])
    assert (after.nodes["node1"], after.nodes["node2"]) == (FIRST.nodes["node1"], FIRST.nodes["node2"])


def test_nothing_is_planned_over_live_blocks_of_nodes_that_are_down() -> None:
    assert refusal(None, copies(FIRST, "node1"), unreachable=["node2", "node3"]) == (
        "lockfile lock is missing, node1 has blocks already, and node2, node3 could not be read. "
        "Restore the newest one from version control, or run without --limit while node2, node3 can be reached; "
        "only if they have no blocks, set calico_rebuild_lockfile: true for one run."
    )


def test_a_limited_run_does_not_plan_for_nodes_that_it_did_not_ask() -> None:
    text = refusal(None, {}, not_asked=["node2", "node3"])
    assert text.startswith(
        "lockfile lock is missing, and node2, node3, which may have blocks already, could not be read. "
    )
    assert refusal(None, copies(FIRST, "node1"), not_asked=["node2"]).startswith(
        "lockfile lock is missing, node1 has blocks"
    )


def test_nothing_is_planned_when_no_node_answered() -> None:
    assert refusal(None, {}, unreachable=NAMES).startswith(
        "lockfile lock is missing, and node1, node2, node3, which may"
    )


def test_the_operator_may_say_that_the_others_have_no_blocks() -> None:
    found = both(None, copies(FIRST, "node1"), unreachable=["node2"], not_asked=["node3"], accept_missing=True)
    assert found.plan is not None
    assert set(found.plan.nodes) == {"node1"}
    assert found.notices[-1] == "This was done without the copies of node2, node3."


# The lockfile is older than the nodes


def test_an_older_lockfile_is_brought_up_to_date() -> None:
    found = both(FIRST, copies(NEWER), [*NAMES, "node4"])
    assert found.plan is not None
    assert found.plan.nodes == NEWER.nodes
    assert found.plan.generation == NEWER.generation + 1
    assert found.notices == (
        "lock (generation 1) was older than what the nodes run (generation 2) and is brought up to date "
        "from the copies of "
        "4 nodes.",
    )


def test_an_older_lockfile_needs_all_copies() -> None:
    assert refusal(FIRST, copies(NEWER, "node1", "node4"), [*NAMES, "node4"], unreachable=["node2"]) == (
        "lockfile lock (generation 1) is older than the copy of node1, node4 (generation 2), and node2 "
        "could not be read. "
        "Restore the newest one from version control, or run without --limit while node2 can be reached; "
        "only if they have no blocks, set calico_rebuild_lockfile: true for one run."
    )


def test_copies_as_old_as_the_lockfile_are_not_named_as_newer() -> None:
    kept = {**copies(FIRST, "node3"), **copies(NEWER, "node1", "node4")}
    assert refusal(FIRST, kept, [*NAMES, "node4"], unreachable=["node2"]).startswith(
        "lockfile lock (generation 1) is older than the copy of node1, node4 (generation 2), and node2 "
    )


def test_an_older_lockfile_with_the_same_content_catches_up() -> None:
    later = {name: dataclasses.replace(copy, generation=5) for name, copy in copies(FIRST).items()}
    found = both(FIRST, later)
    assert found.plan is not None
    assert found.plan.same_content(FIRST)
    assert found.plan.generation == 6
    assert both(found.plan, later) == Reconciled(found.plan)


def test_a_block_that_a_newer_copy_lacks_is_set_aside() -> None:
    mine = copy_of(FIRST, "node1")
    without = dataclasses.replace(mine, generation=4, spare_blocks=())
    found = both(FIRST, {**copies(FIRST), "node1": without})
    spare = FIRST.nodes["node1"].spare_blocks[0]
    assert found.plan is not None
    assert found.plan.quarantine == (QuarantinedBlock(spare.cidr, "main", "node1", 5, True),)


def test_a_newer_copy_counts_more_than_an_older_lockfile() -> None:
    """A newer copy takes precedence: node9 left, node1 got its released block, and then an older file was restored."""
    old = AllocationPlan(3, FIRST.pools, {"node9": NodeAllocations((BlockGrant("10.244.0.0/26", "main"),))})
    new = NodeIpam(5, (Block("10.244.0.0/26", "main"),))
    found = both(old, {"node1": new}, ["node1"])
    assert found.plan is not None
    assert found.plan.nodes["node1"].blocks == (BlockGrant("10.244.0.0/26", "main"),)
    assert found.plan.nodes["node9"].blocks == ()
    assert found.notices[-1] == "node1 has block 10.244.0.0/26, which the older lockfile gave to node9."


# Contradictions, and addresses of both IP versions in copies


def test_without_a_lockfile_two_nodes_with_one_block_stop_everything() -> None:
    block = first(FIRST, "node1")
    twin = dataclasses.replace(copy_of(FIRST, "node1"), generation=3)
    text = (
        f"block {block} is claimed by node1 (generation 1) and by node2 (generation 3). Decide which one "
        "keeps it. On the "
        "other, stop what uses its addresses and delete /var/lib/calico; then run again."
    )
    assert refusal(None, {**copies(FIRST), "node2": twin}) == text
    assert refusal(None, {**copies(FIRST), "node2": twin}, accept_missing=True) == text


def test_with_a_lockfile_a_claim_to_another_s_block_is_left_out_and_named() -> None:
    """With a lockfile, one node's claim to another's block is left out and named, and other nodes keep all they had."""
    block, spare = first(FIRST, "node1"), FIRST.nodes["node1"].spare_blocks[0].cidr
    twin = dataclasses.replace(copy_of(FIRST, "node1"), generation=3)
    found = both(FIRST, {**copies(FIRST), "node2": twin})
    assert found.notices[:2] == (
        f"node2: block {block} is left out: it belongs to node1 in lock (generation 1).",
        f"node2: block {spare} is left out: it belongs to node1 in lock (generation 1).",
    )
    assert found.plan is not None
    after = run(NAMES, found.plan, workloads=[WorkloadRequest("w", "node2")])
    assert (after.nodes["node1"], after.nodes["node3"]) == (FIRST.nodes["node1"], FIRST.nodes["node3"])
    again = dataclasses.replace(twin, generation=1)
    assert both(FIRST, {**copies(FIRST), "node2": again}) == Reconciled(FIRST, found.notices[:1])


def test_a_block_that_the_lockfile_gives_to_another_node_is_left_out() -> None:
    block = first(NEWER, "node4")
    stale = NodeIpam(1, (Block(block, "main"),))
    assert both(NEWER, {"node3": stale}, [*NAMES, "node4"], unreachable=["node4"]) == Reconciled(
        NEWER, (f"node3: block {block} is left out: it belongs to node4 in lock (generation 2).",)
    )


def test_a_block_in_quarantine_for_another_node_is_left_out() -> None:
    block = first(NEWER, "node4")
    removed = run(NAMES, NEWER)
    assert both(removed, {"node3": NodeIpam(1, (Block(block, "main"),))}) == Reconciled(
        removed, (f"node3: block {block} is left out: it belongs to node4 in lock (generation 3).",)
    )


def test_a_claim_that_is_no_block_of_a_pool_is_left_out() -> None:
    claims = ("10.244.0.0/22", "10.244.0.0/32", "192.0.2.0/26", "10.244.0.1/26", "a\nb")
    mine = NodeIpam(1, tuple(Block(cidr, "main") for cidr in claims) + (Block("10.244.3.0/26", "o" * 200),))
    found = both(FIRST, {**copies(FIRST), "node1": mine})
    assert found.plan is FIRST
    assert found.notices == (
        "node1: block '10.244.0.1/26' is left out: it is not a block.",
        "node1: block 'a\\nb' is left out: it is not a block.",
        "node1: block 10.244.0.0/22 is left out: it is not a block of pool main.",
        "node1: block 10.244.0.0/32 is left out: it is not a block of pool main.",
        "node1: block 192.0.2.0/26 is left out: it is not a block of pool main.",
        f"node1: block 10.244.3.0/26 is left out: there is no pool '{'o' * 80}'.",
    )


def test_a_node_does_not_take_a_pool_by_claiming_what_is_free() -> None:
    claimed = {block.cidr: block for block in copy_of(FIRST, "node1").blocks}
    for index in range(16):
        claimed.setdefault(cidr := f"10.244.{index // 4}.{index % 4 * 64}/26", Block(cidr, "main"))
    found = both(FIRST, {**copies(FIRST), "node1": NodeIpam(1, tuple(claimed.values()))})
    assert found.plan is not None
    own = FIRST.nodes["node1"]
    # The spare block of node1 is among those that it claims, so it counts as opened.
    assert set(found.plan.nodes["node1"].blocks) == {*own.blocks, *own.spare_blocks}
    assert {name: found.plan.nodes[name] for name in ("node2", "node3")} == {
        name: FIRST.nodes[name] for name in ("node2", "node3")
    }
    assert len(found.notices) == 8 + 1 + 1
    assert found.notices[-2] == "node1: 6 more blocks that it claims are left out."


def test_a_node_with_a_block_that_is_not_its_own_is_not_to_be_changed() -> None:
    block = Block("10.244.3.192/26", "main")
    mine = copy_of(FIRST, "node1")
    found = both(FIRST, {**copies(FIRST), "node1": dataclasses.replace(mine, blocks=(*mine.blocks, block))})
    assert found == Reconciled(FIRST, (f"node1: block {block.cidr} is left out: lock (generation 1) has it as free.",))
    assert {name: str(error) for name, error in found.refused.items()} == {
        "node1": f"node1 has block {block.cidr} open, which is not its own by lock (generation 1). Nothing was changed "
        "on it. If the lockfile is an old one, restore the newest from version control. Else stop what uses addresses "
        "of the block on node1, delete /var/lib/calico there, and run again."
    }


def test_a_refused_node_names_the_first_of_several_foreign_blocks() -> None:
    """A node with two blocks that are not its own is refused with the first of them, and each is named as left out."""
    blocks = (Block("10.244.3.192/26", "main"), Block("10.244.3.128/26", "main"))
    mine = copy_of(FIRST, "node1")
    found = both(FIRST, {**copies(FIRST), "node1": dataclasses.replace(mine, blocks=(*mine.blocks, *blocks))})
    assert [notice.partition(" is left out")[0] for notice in found.notices] == [
        f"node1: block {block.cidr}" for block in blocks
    ]
    assert str(found.refused["node1"]).startswith(f"node1 has block {blocks[0].cidr} open, which is not its own")


def test_one_node_does_not_make_the_lockfile_look_old() -> None:
    """One node of several does not make the lockfile look old, since that would stop runs while another is down."""
    mine = dataclasses.replace(copy_of(FIRST, "node1"), generation=99)
    found = both(FIRST, {**copies(FIRST, "node2"), "node1": mine}, unreachable=["node3"])
    assert found.plan is not None
    assert (found.plan.nodes, found.plan.generation) == (FIRST.nodes, 100)
    assert found.notices == (
        "node1 says that it runs generation 99, and lock has generation 1: its own blocks are brought up to date from "
        "its copy. If the file is an old one, restore the newest from version control.",
    )


def test_a_generation_out_of_reach_is_left_out() -> None:
    mine = dataclasses.replace(copy_of(FIRST, "node1"), generation=2**52)
    assert both(FIRST, {**copies(FIRST), "node1": mine}) == Reconciled(
        FIRST, ("node1: generation 4503599627370496 of its blocks is left out: lock has generation 1.",)
    )
    assert refusal(None, {**copies(FIRST), "node1": mine}) == (
        "node1 keeps a copy of its blocks of generation 4503599627370496, which no fleet has come to. Stop what uses "
        "addresses of the block on node1, delete /var/lib/calico there, and run again."
    )


def test_a_stale_spare_block_is_no_claim() -> None:
    block = first(NEWER, "node4")
    mine = copy_of(FIRST, "node3")
    stale = dataclasses.replace(mine, spare_blocks=(*mine.spare_blocks, Block(block, "main")))
    assert both(NEWER, {**copies(NEWER), "node3": stale}, [*NAMES, "node4"]) == Reconciled(NEWER)


def test_without_a_lockfile_a_copy_that_cannot_be_read_stops_everything() -> None:
    assert refusal(None, {"node1": NodeIpam(1, (Block("10.244.0.1/26", "main"),))}) == (
        "node1 keeps a copy of its blocks that cannot be read: '10.244.0.1/26' has bits set behind its prefix. "
        "Stop what uses addresses of the block on node1, delete /var/lib/calico there, and run again."
    )


def test_a_block_set_aside_while_its_node_was_down_is_not_taken_back() -> None:
    """A block that was set aside while its node was down is not taken back, even while the node keeps its old copy."""
    block = BlockGrant("10.244.0.0/26", "main")
    aside = QuarantinedBlock("10.244.1.0/26", "main", "node1", 5)
    lock = AllocationPlan(5, FIRST.pools, {"node1": NodeAllocations((block,))}, (aside,))
    stale = NodeIpam(4, (Block(block.cidr, "main"), Block(aside.cidr, "main")))
    assert both(lock, {"node1": stale}, ["node1"]) == Reconciled(lock)


def test_addresses_of_both_ip_versions_are_read_back() -> None:
    pools = [POOL, PoolRange("six", "fd00::/112", 122)]
    needs = {"node1": {"ipip": ["main"], "vxlan6": ["six"]}}
    workloads = [WorkloadRequest("w", "node1"), WorkloadRequest("w", "node1", version=6)]
    found = plan(pools, [NodeEntry("node1")], workloads=workloads, tunnels=needs)
    again = both(None, copies(found), ["node1"]).plan
    assert again is not None
    assert again.nodes == found.nodes
    assert plan(pools, [NodeEntry("node1")], again, workloads=workloads, tunnels=needs).nodes == found.nodes


# Blocks that others gave up, by what a node says

HOLD = "10.244.0.0/26"
#: An old lockfile, in which node4 has the block HOLD.
OLD = AllocationPlan(
    1,
    FIRST.pools,
    {
        "node1": NodeAllocations((BlockGrant("10.244.1.0/26", "main"),)),
        "node4": NodeAllocations((BlockGrant(HOLD, "main"),)),
    },
)
LEFT_OUT = f"node3: block {HOLD} is left out: it belongs to node4 in lock (generation 1)."


def newer_copies(*claims: str) -> dict[str, NodeIpam]:
    """Return copies of node1 and node3 that are newer than OLD. node3 claims these blocks."""
    blocks = tuple(Block(cidr, "main") for cidr in claims)
    return {"node1": NodeIpam(3, (Block("10.244.1.0/26", "main"),)), "node3": NodeIpam(3, blocks)}


def test_a_node_alone_does_not_say_that_others_gave_up_their_blocks() -> None:
    """A node's claim to another's block is left out without a second witness.

    That holds also if the block's owner has no copy and has left the inventory.
    """
    claims = newer_copies(HOLD)
    for kept in (claims, {"node3": claims["node3"]}):
        for names in ((*NAMES, "node4"), NAMES):
            found = both(OLD, kept, names)
            assert found.notices[0] == LEFT_OUT
            assert set(found.refused) == {"node3"}
            assert found.plan is not None
            assert "node3" not in found.plan.nodes
            assert found.plan.nodes["node4"] == OLD.nodes["node4"]


def test_a_lone_copy_claims_no_free_block_and_stops_no_planning() -> None:
    free = {"node3": NodeIpam(3, tuple(Block(f"10.244.2.{n * 64}/26", "main") for n in range(4)))}
    found = both(OLD, free, [*NAMES, "node4"], unreachable=["node4"])
    assert found.plan is not None and found.plan.nodes.get("node3") is None
    assert found.notices[0] == "node3: block 10.244.2.0/26 is left out: lock (generation 1) has it as free."


def test_a_second_witness_lets_a_node_have_the_block_of_another() -> None:
    """A claim to another node's block is accepted if there is a witness.

    The witness is the former owner's newer copy without the block, or, if it has no copy, a third node's route to the
    claimant. The claimant's own routes do not count.
    """
    claims = newer_copies(HOLD)
    granted = BlockGrant(HOLD, "main")
    routes = {"node1": [(HOLD, "node3"), ("x", "node3")]}
    for kept, more in (
        ({**claims, "node4": NodeIpam(3, (Block("10.244.3.0/26", "main"),))}, {}),
        (claims, {"routes": lambda node: routes.get(node, ())}),
    ):
        found = both(OLD, kept, [*NAMES, "node4"], **more)
        assert found.plan is not None and not found.refused
        assert found.plan.nodes["node3"].blocks == (granted,)
        assert found.plan.nodes["node4"].blocks != (granted,)
    own_word = {"node1": [(HOLD, "node4")], "node3": [(HOLD, "node3")]}
    assert set(both(OLD, claims, [*NAMES, "node4"], routes=own_word.__getitem__).refused) == {"node3"}


def test_a_second_witness_counts_for_an_older_copy_too() -> None:
    """A node that was away, whose copy is no newer than the restored lockfile, keeps its open block in the same way."""
    claims = {**newer_copies(), "node2": NodeIpam(3, ()), "node3": NodeIpam(1, (Block(HOLD, "main"),))}
    routes = {"node1": [(HOLD, "node3")]}
    for kept, more, said in (
        ({**claims, "node4": NodeIpam(3, (Block("10.244.3.0/26", "main"),))}, {}, []),
        (
            claims,
            {"routes": lambda node: routes.get(node, ())},
            [f"node3 has block {HOLD}, which the older lockfile gave to node4."],
        ),
    ):
        found = both(OLD, kept, [*NAMES, "node4"], **more)
        assert found.plan is not None and not found.refused
        assert found.plan.nodes["node3"].blocks == (BlockGrant(HOLD, "main"),)
        assert BlockGrant(HOLD, "main") not in found.plan.nodes["node4"].blocks
        assert [notice for notice in found.notices if HOLD in notice] == said
        assert HOLD not in [entry.cidr for entry in found.plan.quarantine]


def test_with_a_lockfile_two_claims_to_a_free_block_stop_no_planning() -> None:
    free = "10.244.2.0/26"
    claims = newer_copies(free)
    claims["node1"] = NodeIpam(3, (*claims["node1"].blocks, Block(free, "main")))
    found = both(OLD, claims)
    assert found.notices[:2] == (
        f"node1: block {free} is left out: node3 claims it as well.",
        f"node3: block {free} is left out: node1 claims it as well.",
    )
    assert set(found.refused) == {"node1", "node3"}
    routes = {"node1": [], "node3": [], "node2": [(free, "node1")]}
    found = both(OLD, {**claims, "node2": NodeIpam(3)}, routes=routes.__getitem__)
    assert set(found.refused) == {"node3"}


def test_a_rebuild_stops_where_a_node_claims_what_another_routes_elsewhere() -> None:
    """Without a lockfile, a claim to a block that another node routes to a node without a copy stops the run.

    It does not with `accept_missing`, nor if the node without a copy has left the inventory.
    """
    claims = newer_copies(HOLD)
    routes = {"node1": [(HOLD, "node4")], "node3": [(HOLD, "node3")]}
    names = [*NAMES, "node4"]
    assert refusal(None, claims, names, routes=routes.__getitem__) == (
        f"block {HOLD} is claimed by node3 (generation 3), and node1 (generation 3) has a route to node4 for it, which "
        "has no copy. If node3 shall keep it, set calico_rebuild_lockfile: true for one run. Else stop what uses its "
        "addresses on node3, delete /var/lib/calico there, and run again."
    )
    for found in (
        both(None, claims, names, routes=routes.__getitem__, accept_missing=True),
        both(None, claims, NAMES, routes=routes.__getitem__),  # node4 has left the inventory
        both(None, claims, names, routes=lambda node: [(HOLD, "node3")]),
    ):
        assert found.plan is not None
        assert found.plan.nodes["node3"].blocks == (BlockGrant(HOLD, "main"),)


# Nodes that return, and hosts outside the inventory


def test_a_node_that_returns_gets_its_blocks_and_addresses_back() -> None:
    workloads = [WorkloadRequest("w", "node2")]
    away = run(("node1", "node3"), FIRST)
    found = both(away, copies(FIRST, "node2"))
    after = run(NAMES, found.plan, workloads=workloads)
    assert after.nodes == FIRST.nodes
    assert after.quarantine == ()


def test_a_node_that_returns_after_its_blocks_were_released_does_not_take_them_back_by_itself() -> None:
    released = run(("node1", "node3"), FIRST, released=["node2"])
    found = both(released, copies(FIRST, "node2"))
    block = first(FIRST, "node2")
    assert found == Reconciled(
        released, (f"node2: block {block} is left out: lock (generation {released.generation}) has it as free.",)
    )
    assert set(found.refused) == {"node2"}


def test_copies_of_hosts_outside_the_inventory_do_not_count() -> None:
    assert both(FIRST, {**copies(FIRST), "node9": NodeIpam(9, (Block(first(FIRST, "node1"), "main"),))}) == Reconciled(
        FIRST
    )


# Any history of a fleet


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.booleans())
def test_a_lost_or_reverted_lockfile_never_moves_a_live_block(data: st.DataObject, revenants: bool) -> None:
    """Whenever the lockfile is lost or an older one is restored, each node keeps its open blocks.

    A node assigns addresses from its open blocks. One is left out only with a notice that names it, and then nothing is
    changed on the node: it is in `refused`. No open block is left out if at least two nodes answer and all copies have
    the same generation, except in four cases. In these a run may also stop, or give a node more than it had.

    - `revenants`: removed nodes come back with the copies that they had.
    - All hosts were replaced while the file was lost. Then generations began again at 1, and a file of the former fleet
      looks new.
    - A removed node came back without its copy, and an older file, which still has its blocks, was restored.
    - Two different plans have one generation: hosts without copies were planned with an older file. Restoring the other
      plan's file looks like no change, and its fleet's blocks are free in it.
    """
    inventory: list[str] = ["node1", "node2"]
    found = run(inventory)
    history: list[t.Optional[AllocationPlan]] = [None, found]
    kept = copies(found)
    routes = {name: open_blocks(found) for name in inventory}
    replaced = emptied = reverted = False
    seen = set(inventory)
    for _ in range(data.draw(st.integers(1, 6))):
        inventory = sorted(data.draw(st.sets(st.sampled_from([*NAMES, "node4"]), min_size=1)))
        workloads = [
            WorkloadRequest(f"w{n}", inventory[n % len(inventory)]) for n in range(data.draw(st.integers(0, 3)))
        ]
        lock = data.draw(st.sampled_from([found, found, *history]))
        mine = {name: kept[name] for name in inventory if name in kept}
        emptied = emptied or any(name in seen and name not in mine for name in inventory)
        reverted = reverted or lock is not found
        seen.update(inventory)
        plans = [one for one in history if one is not None]
        forked = any(one.generation == two.generation and one != two for one in plans for two in plans)
        strict = not (revenants or replaced or (emptied and reverted) or forked)
        try:
            answer = both(lock, mine, inventory, routes=collections.defaultdict(list, routes).__getitem__)
        except RebuildError:
            assert not strict
            return
        replaced = replaced or answer.plan is None
        found = run(inventory, answer.plan, workloads)
        owners = {
            grant.cidr: name for name, part in found.nodes.items() for grant in (*part.blocks, *part.spare_blocks)
        }
        for name, copy in mine.items():
            assert found.generation >= copy.generation
            before = [block.cidr for block in copy.blocks]
            named = [cidr for cidr in before if f"{name}: block {cidr} is left out: " in " ".join(answer.notices)]
            witnesses = len(mine) > 1 and all(other.generation == copy.generation for other in mine.values())
            assert not named or name in answer.refused
            assert not (named and strict and witnesses)
            before = [cidr for cidr in before if cidr not in named]
            after = [block.cidr for block in found.nodes[name].blocks]
            assert set(before) <= set(after)
            if strict and not replaced:
                assert before == after or named
                assert {owners.get(block.cidr, name) for block in copy.spare_blocks} <= {name}
        kept = {**(kept if revenants else {}), **copies(found)}
        routes = {**(routes if revenants else {}), **dict.fromkeys(inventory, open_blocks(found))}
        history.append(found)
        assert both(found, copies(found), inventory) == Reconciled(found)


def test_probe_endpoints_come_back_from_the_nodes_copies() -> None:
    found = run(NAMES)
    assert all(part.probes for part in found.nodes.values())
    again = both(None, copies(found)).plan
    assert again is not None
    assert {name: part.probes for name, part in again.nodes.items()} == {
        name: part.probes for name, part in found.nodes.items()
    }
    assert run(NAMES, again).nodes == found.nodes


def test_a_copy_names_no_probe_endpoint_outside_of_its_nodes_blocks_of_the_pool() -> None:
    """An address of another node's block, of a spare block, of a pool that is not there and a bad text are left out."""
    found = run(NAMES)
    kept = copies(found)
    mine, other = kept["node1"], kept["node2"]
    spare = mine.spare_blocks[0].cidr.partition("/")[0]
    for probes in (
        dict(other.probes), {"main": spare}, {"public": mine.probes["main"]}, {"main": "none"},
        {f"pool-{number}": mine.probes["main"] for number in range(10_000)},
    ):  # fmt: skip
        said = {**kept, "node1": dataclasses.replace(mine, probes=probes)}
        again = both(None, said).plan
        assert again is not None
        assert again.nodes["node1"].probes == {}
        assert run(NAMES, again).nodes == found.nodes


def test_a_copy_that_names_a_workloads_address_as_its_probe_endpoints_moves_no_workload() -> None:
    workloads = [WorkloadRequest("web", "node1")]
    found = run(NAMES, workloads=workloads)
    kept = copies(found)
    taken = found.nodes["node1"].workloads["web"]
    again = both(None, {**kept, "node1": dataclasses.replace(kept["node1"], probes={"main": taken})}).plan
    assert run(NAMES, again, workloads).nodes == found.nodes
