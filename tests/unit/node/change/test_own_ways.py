# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's own ways in a large fleet: policy is evaluated for a few of its peers, and the answers are for all."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import cidr
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.verdicts import own_ways
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import Path, Paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import underlay

OWN = "10.10.1.11"
#: The ends of addresses whose ways are also looked at one by one.
SOME = (".2.1", ".2.7", ".2.50", ".3.1", ".3.249")
PEERS = tuple(f"10.10.{number // 250 + 2}.{number % 250 + 1}" for number in range(500))


def state(*denied: str) -> NodeState:
    """Return the state of a node with a gate and 500 peers; its policy denies TCP from these networks."""
    rules = [PolicyRule("Deny", source=Entity(nets=(net,))) for net in denied]
    policy = Policy(
        "p", types=("Ingress", "Egress"), ingress=(*rules, PolicyRule("Allow")), egress=(PolicyRule("Allow"),)
    )
    host = Endpoint("HostEndpoint", "node1-all", "node1", "*", (OWN,))
    inventory = policy_set([PolicyTier("default")], [policy], [])
    settings = PolicySettings(failsafe_inbound=(), failsafe_outbound=())
    peers = tuple(BirdPeer(f"Mesh_{peer}", peer, 64512, "mesh") for peer in PEERS)
    return NodeState(
        node="node1",
        address=f"{OWN}/16",
        bird=Bird(OWN, OWN, 64512, "10.10.0.0/16", peers=peers),
        nodes=tuple(FleetMember(f"peer-{peer}", f"{peer}/16", 64512) for peer in (OWN, *PEERS)),
        policy=PolicyState(inventory, (host,), settings),
    )


@pytest.mark.parametrize("denied", [(), ("10.10.2.7/32",), ("10.10.3.0/24", "10.10.2.0/30")])
def test_each_denied_peer_is_named_after_few_evaluations(
    denied: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Flow] = []
    of = Paths.of

    def counted(paths: Paths, flow: Flow, before_dnat: Flow | None = None) -> Path:
        asked.append(flow)
        return of(paths, flow, before_dnat)

    monkeypatch.setattr(Paths, "of", counted)
    kernel = FakeKernel()
    underlay(kernel)
    there = state(*denied)
    ways = list(own_ways.of_node(there, [(OWN, 2378), ("10.10.9.1", 2378)]))
    assert len(ways) == 3 * len(PEERS) + 3
    found = own_ways.denied(kernel, there, ways)
    assert len(asked) <= 20
    monkeypatch.undo()
    some = [way for way in ways if way.what.endswith(SOME)]
    alone = {str(one) for way in some for one in own_ways.denied(kernel, there, [way])}
    assert alone == {str(one) for one in found if one.what.endswith(SOME)}
    names = {one.what.rpartition(" ")[2] for one in found}
    assert names == {peer for peer in PEERS if any(cidr(net).contains(cidr(peer)) for net in denied)}


def test_a_source_port_that_is_known_is_the_only_one() -> None:
    """Another connection of the same client may be denied."""
    source = Entity(nets=("10.10.2.1/32",), ports=(PortRange(40_000, 40_000),))
    there = state()
    policy = Policy("q", order=1.0, types=("Ingress",), ingress=(PolicyRule("Deny", protocol="tcp", source=source),))
    inventory = policy_set([PolicyTier("default")], [policy, *there.policy.policy_set.policies], [])
    there = dataclasses.replace(there, policy=dataclasses.replace(there.policy, policy_set=inventory))
    kernel = FakeKernel()
    underlay(kernel)
    flow = Flow(6, "10.10.2.1", OWN, None, 22)
    ports = {"open": 39_999, "cut": 40_000, "any": None}
    ways = [own_ways.OwnWay(what, dataclasses.replace(flow, source_port=port)) for what, port in ports.items()]
    assert [one.what for one in own_ways.denied(kernel, there, ways)] == ["cut", "any"]
