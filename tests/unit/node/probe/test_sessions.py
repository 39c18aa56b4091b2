# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what a node's plan says about BGP sessions."""

from __future__ import annotations

import dataclasses

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import sessions
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState


def state(*peers: BirdPeer, **fields: object) -> NodeState:
    bird = Bird("10.0.0.9", "10.0.0.9", 64512, "10.0.0.0/24", peers=peers)
    return NodeState("node9", "10.0.0.9/24", bird=dataclasses.replace(bird, **fields))


def peer(number: int, kind: str = "client") -> BirdPeer:
    return BirdPeer(f"Node_10_0_0_{number}", f"10.0.0.{number}", 64512, kind, node=f"node{number}")


TOR = BirdPeer("Global_10_0_0_1", "10.0.0.1", 65000, "external")


def lines(old: NodeState | None, new: NodeState) -> list[str]:
    return [change.line(0) for change in sessions.planned(old, new)]


def test_each_session_that_is_interrupted_has_a_line() -> None:
    before = state(peer(2), TOR, cluster_id="1.1.1.1")
    assert lines(before, state(peer(2), cluster_id="2.2.2.2")) == [
        "! session  Node_10_0_0_2 (node2)  restarts: cluster id",
        "! session  Global_10_0_0_1  ends",
    ]
    assert lines(before, before) == lines(None, before) == []


def test_many_sessions_have_one_line() -> None:
    peers = [peer(number) for number in range(2, 12)]
    assert lines(state(*peers, cluster_id="1.1.1.1"), state(*peers, TOR)) == [
        "! session  10 sessions  restarts: cluster id    node2, node3 and 8 more"
    ]
    assert len(lines(state(*peers[:8]), state())) == 8
