# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests with real packets that a new policy cuts exactly the connections that it would not allow as new ones."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.verdicts import denied_flows
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    WORKLOAD_ENDPOINT,
    Endpoint,
    Flow,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.packets import packet
from tests.integration.policy.test_kernel_agrees import SETTINGS, _flows
from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.explain.node_between import Crossings
from tests.unit.policy.index.obvious_node_policy import node_policy
from tests.unit.policy.random_policies import NODE, World, random_world

OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))
CUT = PolicySettings(
    cut_denied_flows=True,
    failsafe_inbound=SETTINGS.failsafe_inbound,
    failsafe_outbound=SETTINGS.failsafe_outbound,
    default_endpoint_to_host_action=SETTINGS.default_endpoint_to_host_action,
)


CUTTING = dataclasses.replace(SETTINGS, cut_marked_flows=True)


def compiled(policies: PolicySet, endpoints: t.Sequence[Endpoint], settings: ChainSettings = SETTINGS) -> list[t.Any]:
    policy = node_policy(policies, endpoints, NODE)
    return [compile_node(policy, settings, family) for family in (4, 6)]


def state(world: World) -> NodeState:
    workloads = tuple(
        VethEndpoint(
            one.name.partition("/")[2],
            one.interface,
            next((address for address in one.addresses if ":" not in address), ""),
            1500,
            "pool",
            address6=next((address for address in one.addresses if ":" in address), ""),
        )
        for one in world.local_workloads
    )
    policy = PolicyState(world.policy_set, world.endpoints, CUT)
    return NodeState(NODE, "10.65.2.1/24", workloads=workloads, policy=policy)


def through(node: Node, crossings: Crossings, flows: t.Sequence[Flow], world: int, wait: t.Collection[int]) -> set[int]:
    """Send a packet of each flow with the tag (`world`, index); return the indexes of those that got through.

    Wait up to a second for the packets with the indexes of `wait`. Packets of earlier calls that arrive only now count
    as well.
    """
    for index, flow in enumerate(flows):
        comes_in_by = crossings.of(flow).comes_in_by
        if comes_in_by:
            node.comes_in(comes_in_by, packet(flow, world, index))
        else:
            node.sends(flow.destination, packet(flow, world, index))
    return {number for dummy, number in node.seen([(world, index) for index in wait])}


def test_exactly_those_that_would_not_come_about_again(node: Node) -> None:
    """A random policy cuts exactly the flows, begun while all was allowed, that it would not allow as new ones."""
    cut = kept = 0
    families = {4: 0, 6: 0}
    for number in range(12):
        rng = random.Random(f"denied flows {number}")
        world = random_world(rng, families=(4, 6), policies=5)
        flows = list(_flows(rng, world, 60))
        open_to_all = tuple(
            dataclasses.replace(one, profiles=("open",)) for one in world.endpoints if one.kind == WORKLOAD_ENDPOINT
        )
        crossings = Crossings(world, SETTINGS)
        node.load(compiled(policy_set(profiles=[OPEN]), open_to_all))
        began = through(node, crossings, flows, 3 * number, range(len(flows)))
        node.replace(compiled(world.policy_set, world.endpoints, CUTTING))
        before = list(node.kernel.connections())
        found = denied_flows.judged(node.kernel, state(world))
        assert found.carry_out(node.kernel) == len(found.ending)
        marked = {one.name for one in node.kernel.connections() if one.mark}
        assert marked == {one.name for one in found.ending}
        tracked = {one.flow: one.name in marked for one in before}
        known = {index: tracked[flow] for index, flow in enumerate(flows) if index in began and flow in tracked}
        # Packets of the connections that were not cut get through, and no others.
        standing = {index for index, is_cut in known.items() if not is_cut}
        after = through(node, crossings, flows, 3 * number + 1, standing)
        assert after & known.keys() == standing, number
        # As new connections, the same flows are allowed.
        node.forget_connections()
        assert through(node, crossings, flows, 3 * number + 2, standing) & known.keys() == standing, number
        for index, is_cut in known.items():
            families[6 if ":" in flows[index].source else 4] += is_cut
        cut, kept = cut + len(known) - len(standing), kept + len(standing)
    assert cut > 50 and kept > 50 and min(families.values()) > 20, families
