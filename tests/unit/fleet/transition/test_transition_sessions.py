# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of changes of topology, with interruptions anywhere.

No session that routes depend on is interrupted before the nodes have backup routes. These stay until all sessions are
as in the target.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BackupRoute, Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import LAB, build, pool, states, stored

#: Hosts that are only reflectors, beside the lab's nodes.
RACK = {"rr1": "10.10.1.251/24", "rr2": "10.10.2.252/24"}

States = dict[str, NodeState]


@dataclasses.dataclass(frozen=True)
class Topology:
    """A topology of BGP. `reflectors` are nodes of the lab, which then also reflect, or hosts of RACK."""

    reflectors: tuple[str, ...] = ()
    as_number: int = 64512
    cluster_id: str = "244.0.0.1"
    nodes: tuple[str, ...] = tuple(LAB)
    mode: str = "vxlan"

    def states(self, previous: t.Optional[States] = None) -> States:
        everybody = {**LAB, **RACK}
        return states(
            build(
                pool(self.mode),
                nodes={name: LAB[name] for name in self.nodes},
                reflectors={name: everybody[name] for name in self.reflectors if name in (*self.nodes, *RACK)},
                workloads=[],
                bgp_as_number=self.as_number,
                rr_cluster_id=self.cluster_id,
            )
        )


MESH = Topology()
REFLECTED = Topology(("rr1", "rr2"))
CHANGES = {
    "mesh to reflectors": (MESH, REFLECTED),
    "reflectors to mesh": (REFLECTED, MESH),
    "nodes that reflect": (MESH, Topology(("node1", "node3"))),
    "another cluster id": (REFLECTED, Topology(("rr1", "rr2"), cluster_id="244.0.0.2")),
    "another AS": (REFLECTED, Topology(("rr1", "rr2"), as_number=64600)),
    "another reflector": (Topology(("rr1", "node1")), Topology(("rr1", "node2"))),
    "one reflector less": (REFLECTED, Topology(("rr1",))),
}
topologies = st.builds(
    Topology,
    reflectors=st.sets(st.sampled_from(["node1", "node3", *RACK])).map(lambda found: tuple(sorted(found))),
    as_number=st.sampled_from([64512, 64600]),
    cluster_id=st.sampled_from(["244.0.0.1", "244.0.0.2"]),
    nodes=st.sampled_from([tuple(LAB), ("node1", "node2", "node3"), ("node2", "node3", "node4")]),
    mode=st.sampled_from(["vxlan", "direct"]),
)


def hold(current: t.Mapping[str, t.Optional[NodeState]], target: States) -> bool:
    """Return whether the change needs backup routes: whether it endangers the routes of any node of `target`."""
    return any(transition.endangered(current.get(name), state.bird, set(target)) for name, state in target.items())


def bird(state: t.Optional[NodeState]) -> t.Optional[Bird]:
    return state.bird if state is not None else None


def held(state: t.Optional[NodeState]) -> set[str]:
    """Return a set of the destinations of a node's backup routes, empty if it has no state or no BIRD."""
    found = bird(state)
    return {route.destination for route in found.backups} if found else set()


def needed(state: NodeState) -> set[str]:
    """Return a set of the destinations of a node's BIRD routes that have a gateway or a next hop."""
    return {route.destination for route in state.bird_routes if route.gateway or route.next_hop}


def check_step(fleet: t.Mapping[str, t.Optional[NodeState]], name: str, after: NodeState, target: States) -> None:
    """Assert that backup routes replace the sessions that node `name` interrupts when it changes to `after`.

    All other nodes are in their states in `fleet`. Each node of `target` with a state needs backup routes to all
    that `needed` returns for it in `target`, and `name` before the step, too. Sessions with nodes that leave do not
    count.
    """
    changes = session_changes.resets(bird(fleet[name]), after.bird)
    if not any(session_changes.endangers(change, set(target)) for change in changes):
        return
    for other, state in {**fleet, name: after}.items():
        if state is not None and other in target:
            common = needed(target[other])
            assert common <= held(state), f"{other} has no backup while {name} goes to {after.phase}: {changes}"
    if fleet[name] is not None:
        assert needed(target[name]) <= held(fleet[name]), f"{name} had no backups before {after.phase}"


def walk(start: t.Mapping[str, t.Optional[NodeState]], target: States, stop: tuple[str, int] = ("", 0)) -> States:
    """Take the nodes of `target` through all phases, check each step, and return their states at the end.

    `stop` is a phase and the number of nodes, by name, that enter it before the run stops. The run does not stop if
    there are no more nodes than that. Nodes without a state, and nodes only in `start`, are left out of the result.
    Raise AssertionError if a node lacks backup routes.
    """
    fleet: dict[str, t.Optional[NodeState]] = {name: start.get(name) for name in target}
    known, holding = dict(fleet), hold(start, target)
    for phase in PHASES:
        for number, name in enumerate(sorted(target)):
            if (phase, number) == stop:
                return {name: state for name, state in fleet.items() if state is not None}
            after = transition.phase_state(stored_or_none(known[name]), target[name], phase, holding)
            check_step(fleet, name, after, target)
            fleet[name] = after
    return {name: state for name, state in fleet.items() if state is not None}


def stored_or_none(state: t.Optional[NodeState]) -> t.Optional[NodeState]:
    return stored(state) if state is not None else None


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_topology(name: str) -> None:
    before, after = (topology.states() for topology in CHANGES[name])
    assert hold(before, after)
    assert walk(before, after) == after


@settings(max_examples=40, deadline=None)
@given(topologies, topologies, st.sampled_from(PHASES), st.integers(0, 5), topologies | st.none())
def test_a_run_that_was_stopped_anywhere_is_completed_undone_or_replaced(
    first: Topology, second: Topology, phase: str, number: int, third: t.Optional[Topology]
) -> None:
    """The next run reaches its target: `third` (`first` if that is None), or the unchanged target `second`.

    The run before it stopped when `number` nodes had entered `phase`, or at its end if there are no more nodes than
    that.
    """
    target = second.states()
    half = walk(first.states(), target, (phase, number))
    last = (third or first).states()
    assert walk(half, last) == last
    assert walk(half, target) == target


def test_sessions_are_as_they_were_until_the_flip() -> None:
    before, after = MESH.states(), REFLECTED.states()
    for name, state in before.items():
        for phase in (Phase.PREPARE, Phase.LINKS, Phase.DIVERT):
            reached = transition.phase_state(state, after[name], phase, True)
            assert session_changes.changes(state.bird, reached.bird) == ()
        flipped = transition.phase_state(state, after[name], Phase.FLIP, True)
        assert session_changes.changes(flipped.bird, after[name].bird) == ()
        assert held(flipped) == {route.destination for route in after[name].bird_routes}


def test_backups_are_the_next_hops_of_bgp_and_none_where_nothing_is_in_danger() -> None:
    state = REFLECTED.states()["node1"]
    reached = transition.phase_state(state, state, Phase.PREPARE, True)
    assert reached.bird is not None
    assert reached.bird.backups == tuple(BackupRoute(r.destination, r.next_hop) for r in state.bird_routes)
    assert len(reached.bird.backups) == 3
    assert held(transition.phase_state(state, state, Phase.PREPARE)) == set()
    assert held(transition.phase_state(None, state, Phase.PREPARE)) == set()
    assert held(transition.phase_state(None, state, Phase.PREPARE, True)) == held(reached)
    assert held(transition.phase_state(None, state, Phase.RETIRE, True)) == set()
    reflector = REFLECTED.states()["rr1"]
    # rr1 is only a reflector: it has no routes, so no backup routes either.
    assert held(transition.phase_state(reflector, reflector, Phase.FLIP, True)) == set()


def test_harmless_changes_need_no_backup_routes() -> None:
    """Added nodes and reflectors, removed nodes and another mode of the pool need no backup routes."""
    for before, after in [
        (Topology(nodes=("node1", "node2")), MESH),
        (MESH, Topology(nodes=("node1", "node2"))),
        (Topology(("rr1",)), REFLECTED),
        (MESH, Topology(mode="direct")),
    ]:
        assert not hold(before.states(), after.states())
    assert not transition.endangered(None, bird(MESH.states()["node1"]), {"node1"})


def test_leftover_backup_routes_are_removed_in_phases() -> None:
    state = MESH.states()["node1"]
    left = transition.phase_state(state, state, Phase.FLIP, True)
    assert transition.endangered(left, state.bird, set(LAB))


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(["vxlan", "direct"], 2)))
def test_backups_go_the_way_of_the_pool_in_each_phase(one: str, other: str) -> None:
    """If mode and sessions change at once, BIRD's routes and pools have the old mode's device until the phase flip."""
    before, after = Topology(mode=one).states(), Topology(("rr1",), mode=other).states()
    devices = {"vxlan": "vxlan.calico", "direct": ""}
    for phase, mode in {Phase.PREPARE: one, Phase.LINKS: one, Phase.FLIP: other}.items():
        reached = transition.phase_state(before["node1"], after["node1"], phase, True)
        assert {route.device for route in reached.bird_routes} == {devices[mode]}
        assert reached.bird is not None and reached.bird.pools[0].device == devices[mode]
