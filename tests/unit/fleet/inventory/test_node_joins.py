# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a node that joins or leaves a fleet with reflectors: which other nodes change, and in what."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.unit.fleet.fleets import LAB, build, pool, states

REFLECTORS = {"rr1": "10.10.1.2/24", "rr2": "10.10.2.2/24"}
#: Fields about the plan, and the routes that BIRD gets from its peers. They differ whenever a node joins, so they are
#: not compared.
TOLD = {"plan", "nodes", "ipam", "bird_routes"}


def before_and_after(mode: str) -> tuple[dict[str, NodeState], dict[str, NodeState]]:
    old = build(pool(mode), reflectors=REFLECTORS, workloads=[])
    more = {**LAB, "node5": "10.10.2.15/24"}
    new = build(pool(mode), reflectors=REFLECTORS, nodes=more, workloads=[], previous=old.allocation)
    return states(old), states(new)


def differing(one: NodeState, other: NodeState) -> set[str]:
    return {
        field.name for field in dataclasses.fields(NodeState)
        if getattr(one, field.name) != getattr(other, field.name)
    } - TOLD  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "others"),
    [
        ("direct", {"ipsets"}),
        ("ipip", {"ipsets"}),
        ("ipip-crosssubnet", {"ipsets"}),
        ("vxlan", {"ipsets", "neighbors", "fdb"}),
        ("vxlan-crosssubnet", {"ipsets", "neighbors", "fdb"}),
    ],
)
def test_a_joining_node_changes_only_sessions_and_tunnel_ends(mode: str, others: set[str]) -> None:
    """When a node joins, the state of a reflector changes in `bird` alone, by a new session, aside from TOLD.

    The other nodes' states change in the fields `others`: they get the address of the new node's probe endpoint, and
    with tunnels the end of the new node's. Their blocks and addresses stay.
    """
    old, new = before_and_after(mode)
    for name, state in old.items():
        if name in REFLECTORS:
            assert differing(state, new[name]) == {"bird"}
            assert state.bird and new[name].bird
            assert [one.text for one in session_changes.changes(state.bird, new[name].bird)] == ["begins"]
        else:
            assert differing(state, new[name]) == others
            assert dataclasses.replace(state.ipam, generation=0) == dataclasses.replace(new[name].ipam, generation=0)


def test_it_leaves_as_it_came() -> None:
    old, new = before_and_after("direct")
    for name, state in old.items():
        ended = session_changes.changes(t.cast(t.Any, new[name]).bird, t.cast(t.Any, state).bird)
        assert [(one.text, one.node) for one in ended] == ([("ends", "node5")] if name in REFLECTORS else [])


def test_a_joining_node_changes_bird_cfg_of_none_of_200_nodes() -> None:
    """When a node joins 200 others, only its own bird.cfg and those of the reflectors differ: no other BIRD reloads."""
    nodes = {f"n{number:03}": f"10.10.0.{number + 10}/22" for number in range(200)}
    reflectors = {"rr1": "10.10.1.1/22", "rr2": "10.10.1.2/22"}
    old = build(reflectors=reflectors, nodes=nodes, workloads=[])
    new = build(reflectors=reflectors, nodes={**nodes, "n200": "10.10.1.10/22"}, workloads=[], previous=old.allocation)
    before, after = bird_configs(old), bird_configs(new)
    assert {name for name in after if after[name] != before.get(name)} == {"n200", "rr1", "rr2"}


def bird_configs(fleet: Fleet) -> dict[str, str]:
    found = ((name, compiler.bird(fleet, name)) for name in fleet.nodes)
    return {name: bird_config.render(dataclasses.asdict(bird)) for name, bird in found if bird}
