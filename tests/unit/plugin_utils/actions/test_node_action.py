# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action node sends along for a host that gets another address, to which the host reverts by itself."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.action import node
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes.node_request import NodeRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

from tests.unit.fleet.fleets import LAB, build, pool, states

NEW = "10.10.1.62"


def states_of(name: str = "node2", **variables: object) -> tuple[NodeState, NodeState]:
    """Return the states of `name` while node2 has its address in the lab, and while it has NEW."""
    before, after = (
        states(build(pool("vxlan"), nodes=nodes, workloads=[], **variables))[name]
        for nodes in (LAB, {**LAB, "node2": f"{NEW}/24"})
    )
    return before, after


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LINKS, Phase.FLIP, Phase.CONVERGE])
def test_a_host_reverts_to_its_state_with_the_new_address_and_the_phases_backup_routes(phase: Phase) -> None:
    """In the middle of a change no other node has a session with that address: backup routes carry its packets."""
    before, after = states_of()
    reached = transition.phase_state(before, after, phase, True)
    found = NodeRequest.unpack(NodeRequest(previous=node.ActionModule._previous(before, reached)).pack()).previous
    state = NodeState.from_dict(found["state"])
    assert state.bird is not None and reached.bird is not None and before.bird is not None
    assert (state.address, state.bird.address, state.bird.router_id) == (f"{NEW}/24", NEW, NEW)
    assert {device.local for device in state.devices} == {NEW}
    assert [peer.address for peer in state.bird.peers] == [peer.address for peer in before.bird.peers]
    assert (state.bird.backups, state.bird.backups_lead) == (reached.bird.backups, reached.bird.backups_lead)
    assert bool(state.bird.backups) is (phase != Phase.CONVERGE)
    assert (state.phase, state.plan, state.policy) == (before.phase, before.plan, None)
    assert f"router id {NEW};" in found["bird_config"]
    assert ("calico_backup" in found["bird_config"]) is bool(state.bird.backups)


def test_another_node_reverts_to_its_state_with_the_new_address_of_the_host() -> None:
    before, after = states_of("node1")
    reached = transition.phase_state(before, after, Phase.PREPARE, True)
    found = NodeRequest.unpack(NodeRequest(previous=node.ActionModule._previous(before, reached)).pack()).previous
    state = NodeState.from_dict(found["state"])
    assert NEW in {entry.destination for entry in state.fdb}
    assert (state.address, state.plan) == (before.address, before.plan)
    assert node.ActionModule._previous(before, before) == {}


def test_without_bgp_there_is_no_configuration_of_bird() -> None:
    before, after = states_of(bgp_enabled=False)
    found = node.ActionModule._previous(before, transition.phase_state(before, after, Phase.LINKS))
    assert found["bird_config"] is None
    assert NodeState.from_dict(found["state"]).address == f"{NEW}/24"


def test_a_stored_state_that_cannot_have_another_address_is_not_sent() -> None:
    """It is the node's word: what it makes of its own way back is its own, and the run goes on."""
    before, after = states_of()
    assert before.bird is not None
    peer, *others = before.bird.peers
    wrong = dataclasses.replace(peer, address="no address", name="a\nb")
    hostile = dataclasses.replace(before, bird=dataclasses.replace(before.bird, peers=(wrong, *others)))
    assert node.ActionModule._previous(hostile, after) == {}
