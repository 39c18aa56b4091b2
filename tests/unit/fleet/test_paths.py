# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the paths that a run or a status did not try."""

from __future__ import annotations

import dataclasses

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    PlannedPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import probe_paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fleet.fleets import build, pool
from tests.unit.fleet.probe_addresses import states


def test_the_untried_paths_of_a_run_are_added_up_and_nodes_that_took_no_part_are_named() -> None:
    fleet = build(pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16"))
    own = {
        name: probe_paths.plan(state).untried
        for name, state in states(fleet, unprobed=["b"]).items()
        if name != "node4"
    }
    found = untried.of_run(own, {"node4": untried.NOT_IN_RUN})
    assert untried.line(found) == [
        "not tried  9 paths of pool b (no node has a probe address in it) · paths of node4 (not in this run)"
    ]
    assert untried.clause(found) == ["9 paths and 1 node not tried"]
    assert untried.from_data(untried.to_data(found)) == found
    many = untried.of_run({}, {f"n{number}": untried.FAILED for number in range(9)})
    assert untried.line(many) == [
        "not tried  paths of n0, n1, n2, n3, n4, n5 and 3 more (unreachable or failed in this run)"
    ]
    assert untried.line([]) == untried.clause([]) == []


def plan_of(fleet_states: dict[str, NodeState]) -> AllocationPlan:
    """Return a lockfile's plan with the blocks and probe addresses of these states."""
    some = next(iter(fleet_states.values()))
    return AllocationPlan(
        pools={one.name: PlannedPool(one.cidr, one.block_size) for one in some.pools},
        nodes={
            name: NodeAllocations(
                blocks=tuple(BlockGrant(block.cidr, block.pool) for block in state.ipam.blocks),
                probes=state.ipam.probes,
            )
            for name, state in fleet_states.items()
        },
        encapsulations={one.name: one.encapsulation for one in some.pools},
    )


RACKED = build(
    pool("vxlan", "a", "10.1.0.0/16"),
    pool("direct", "racks", "10.2.0.0/16", nodeSelector="has(rack)"),
    pool("direct", "public", "192.0.2.0/28", blockSize=32),
    own={name: {"calico_node_labels": {"rack": "1"}} for name in ("node2", "node3")},
)
_ENDS = [(node, name) for node in RACKED.nodes for name in ("a", "racks", "public")]


@given(full=st.sets(st.sampled_from(_ENDS)), unprobed=st.sets(st.sampled_from(["a", "racks"])))
def test_a_lockfile_tells_what_no_run_tries(full: set[tuple[str, str]], unprobed: set[str]) -> None:
    """The paths by the lockfile's plan are those that the nodes' own plans of probes leave out."""
    fleet_states = states(RACKED, {*unprobed, "public"}, full)
    of_nodes = untried.of_run({name: probe_paths.plan(one).untried for name, one in fleet_states.items()}, {})
    assert sorted(untried.by_any_run(plan_of(fleet_states)), key=lambda gap: (gap.pool, gap.reason)) == of_nodes


def test_a_status_names_what_site_does_not_try_either() -> None:
    fleet_states = states(build(pool("ipip", "a", "10.1.0.0/16"), pool("direct", "b", "10.2.0.0/16")), unprobed=["b"])
    plan = plan_of(fleet_states)
    assert untried.lines_of_status(untried.of_status(["node1"], plan)) == [
        "not tried  by site.yml either: 12 paths of pool b (no node has a probe address in it)"
    ]
    assert untried.lines_of_status(untried.of_status(["node1"], None)) == []
    before = dataclasses.replace(
        plan, nodes={name: dataclasses.replace(one, probes={}) for name, one in plan.nodes.items()}
    )
    assert untried.lines_of_status(untried.of_status(["node1"], before)) == [
        "not tried  by site.yml either: 12 paths of pool a (nodes have no probe endpoint) · "
        "12 paths of pool b (nodes have no probe endpoint)"
    ]
