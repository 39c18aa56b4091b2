# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of nodes in a NodeState, which is read without the rest of it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import (
    FleetList,
    FleetMember,
    from_state,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.cli.conftest import STATE


def test_it_is_what_the_whole_state_has() -> None:
    bird = STATE.bird
    assert bird is not None
    expected = FleetList(STATE.node, STATE.nodes, STATE.ipam.tunnels, bird.as_number, bird.cluster_id)
    assert from_state(STATE.to_dict()) == expected == from_state(STATE.to_wire())


def test_a_state_without_bgp_and_nodes() -> None:
    state = NodeState("node1", "10.10.1.11/24")
    assert from_state(state.to_dict()) == FleetList("node1")
    assert from_state({"version": 1, "node": "node1"}) == FleetList("node1")


MEMBER = {"name": "node1", "address": "10.10.1.11/24", "as_number": 64512}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "version is 2, not 1"),
        ({"node": 7}, "node is 7, not a text of at most 4096 characters"),
        ({"nodes": [{**MEMBER, "rack": "a"}]}, "nodes[0].rack is not known. There are: name, address, as_number, "),
        ({"nodes": [{"name": "node1", "as_number": 1}]}, "nodes[0].address is missing"),
        ({"ipam": {"tunnels": {"ipip": None}}}, "ipam.tunnels.ipip is None, not a text of at most 4096 characters"),
        ({"bird": {"as_number": "64512"}}, "bird.as_number is 64512, not a whole number from 0 to "),
    ],
)
def test_an_invalid_state_is_refused_with_its_field(change: dict[str, t.Any], text: str) -> None:
    with pytest.raises(Unreadable) as refusal:
        from_state({"version": 1, "node": "node1", **change})
    assert str(refusal.value).startswith(text)


def test_fields_are_members_fields() -> None:
    """A member with every field is read back as it was written."""
    member = FleetMember("node1", "10.10.1.11/24", 64512, True, {"rack": "a"}, "fd00::1/64")
    state = NodeState("node1", "10.10.1.11/24", nodes=(member,))
    assert from_state(state.to_dict()).members == (member,)
