# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the kernel, with the compiled chains and sets loaded, does with real packets what the evaluator says."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.hooks import HOOKS, NORMAL
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import EGRESS, INGRESS, Failsafe, Flow

from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.packets import packet
from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.explain.node_between import OWN_ADDRESSES, Crossings
from tests.unit.policy.index.obvious_node_policy import node_policy
from tests.unit.policy.random_policies import NODE, World, random_flow, random_world

FAILSAFES = (Failsafe("tcp", 8080), Failsafe("udp", 53, "10.65.0.0/24"), Failsafe("tcp", 443, "fd65::/64"))
SETTINGS = ChainSettings(
    failsafe_inbound=FAILSAFES[:2], failsafe_outbound=FAILSAFES[1:], default_endpoint_to_host_action="Accept"
)


def test_at_least_ten_thousand_flows(node: Node) -> None:
    """The kernel and the evaluator agree on 10,000 random flows under random policies.

    Between a tenth and nine tenths of the flows are allowed. Legacy iptables, which loads the same texts, is tested
    with 2,000 flows.
    """
    tried, number, passed = 0, 0, 0
    while tried < (10_000 if node.backend == "nft" else 2_000):
        rng = random.Random(f"kernel {number}")
        disagreements, count, through = _compare(node, random_world(rng), rng, number)
        assert not disagreements, (number, disagreements)
        tried += count
        passed += through
        number += 1
    assert tried / 10 < passed < tried * 9 / 10


def _compare(node: Node, world: World, rng: random.Random, number: int) -> tuple[list[str], int, int]:
    """Load a world's policy, and send at most 140 random flows.

    Return (differences between the kernel and the evaluator, number of flows sent, number of flows that the evaluator
    allows). `number` is in the tags of the packets, which are waited for up to a second. Raise AssertionError if the
    policy cannot be loaded.
    """
    crossings = Crossings(world, SETTINGS)
    policy = node_policy(world.policy_set, world.endpoints, NODE)
    node.load([compile_node(policy, SETTINGS, family) for family in (4, 6)])
    expected: dict[tuple[int, int], t.Optional[str]] = {}
    about: dict[tuple[int, int], tuple[Flow, str]] = {}
    for index, flow in enumerate(_flows(rng, world, 140)):
        key = (number, index)
        crossing = crossings.of(flow)
        if crossing.comes_in_by:
            node.comes_in(crossing.comes_in_by, packet(flow, *key))
        else:
            node.sends(flow.destination, packet(flow, *key))
        expected[key] = crossing.goes_out_by if crossing.allowed else None
        about[key] = (flow, crossing.comes_in_by)
    seen = node.seen([key for key, where in expected.items() if where is not None])
    differing = [
        f"{about[key]}: expected {where!r}, seen {seen.get(key)!r}"
        for key, where in expected.items()
        if seen.get(key) != where
    ]
    return differing, len(expected), sum(where is not None for where in expected.values())


def _flows(rng: random.Random, world: World, count: int) -> t.Iterator[Flow]:
    """Yield at most `count` random flows from and to this node's endpoints.

    They are new to connection tracking: neither a flow nor its reply occurs twice. ICMP flows may be equal, because
    their packets differ in the identifier.
    """
    before: set[t.Any] = set()
    endpoints = (*world.local_workloads, *world.local_workloads, *world.local_host_endpoints)
    for _dummy in range(count):
        endpoint = rng.choice(endpoints)
        hook = rng.choice(HOOKS) if endpoint in world.local_host_endpoints else NORMAL
        flow = random_flow(rng, world, endpoint, rng.choice((INGRESS, EGRESS)), hook)
        # Packets from the host to itself use the loopback interface, which has no endpoint.
        if flow is None or flow.source == flow.destination or {flow.source, flow.destination} <= OWN_ADDRESSES:
            continue
        ends = frozenset(((flow.source, flow.source_port), (flow.destination, flow.destination_port)))
        if flow.protocol not in (1, 58) and (flow.protocol, ends) in before:
            continue
        before.add((flow.protocol, ends))
        yield flow
