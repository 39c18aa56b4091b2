# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of changes from tunnels to top-of-rack switches and back, with interruptions anywhere.

When a session with a switch ends, no node's packets depend on that switch. Backup routes never depend on one.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import route_sources, session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPool, BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import impact
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import probe_paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import TABLE_PROBE, NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import LAB, build, pool, states, stored

RACK_OF = {name: "a" if address.startswith("10.10.1.") else "b" for name, address in LAB.items()}
States = dict[str, NodeState]


def tunnelled(mode: str = "vxlan", reflectors: t.Sequence[str] = ()) -> States:
    return states(build(pool(mode), workloads=[], reflectors={name: LAB[name] for name in reflectors}))


def as_per_rack_fleet() -> Fleet:
    """Return a fleet with a direct pool in which each rack is an AS with two switches, which connect the racks."""
    own = {
        name: {
            "calico_node_labels": {"rack": rack},
            "calico_node_bgp_as_number": 64600 + "ab".index(rack),
            "calico_node_bgp_peers": [
                {"name": "rack", "peerSelector": f"rack == '{rack}'"},
                *({"name": f"tor-{last}", "peerIP": f"10.10.{1 + 'ab'.index(rack)}.{last}", "asNumber": 65101}
                  for last in (2, 3)),
            ],
        }
        for name, rack in RACK_OF.items()
    }  # fmt: skip
    return build(pool("direct"), workloads=[], own=own, bgp_node_to_node_mesh=False)


WAYS = {
    "vxlan": tunnelled(),
    "vxlan behind reflectors": tunnelled(reflectors=("node1", "node3")),
    "vxlan across subnets": tunnelled("vxlan-crosssubnet"),
    "ipip": tunnelled("ipip"),
}
TORS = states(as_per_rack_fleet())


def bird(state: NodeState) -> Bird:
    assert state.bird is not None
    return state.bird


def into_tunnel(pools: t.Sequence[BirdPool], own: Bird, next_hop: str) -> bool:
    """Return whether packets to `next_hop` need no switch: there is a tunnel, or `next_hop` is in the node's subnet.

    Raise ValueError unless there is exactly one pool.
    """
    (only,) = pools
    near = ipaddress.ip_address(next_hop) in ipaddress.ip_network(own.subnet)
    return bool(only.device) or near


def by_bgp(state: NodeState, next_hop: str) -> bool:
    """Return whether packets to blocks of the node `next_hop` reach it without a switch, if BGP has a route to them.

    Raise ValueError unless the pools that count are exactly one, and AssertionError if `state` has no BIRD.
    """
    own = bird(state)
    lead = own.backups_lead and not own.routers_alone
    return into_tunnel(own.backup_pools or own.pools if lead else own.pools, own, next_hop)


def by_ending_session(state: NodeState, route: BirdRoute, from_router: bool) -> bool:
    """Return whether packets reach the block's node without a switch while BIRD still has the route of an old session.

    That session is about to end. `from_router` says whether it is one with a router outside the fleet. Raise what
    `by_bgp` raises.
    """
    own = bird(state)
    if from_router and not own.backups_lead:
        return False  # the packets go to the router, which is a switch
    if own.backups_lead and route.destination in own.routers_alone:
        return into_tunnel(own.backup_pools, own, route.next_hop)
    return by_bgp(state, route.next_hop)


def by_backup(state: NodeState, next_hop: str) -> bool:
    """Return whether packets on the backup routes to blocks of the node `next_hop` reach it without a switch.

    Raise what `by_bgp` raises.
    """
    own = bird(state)
    return into_tunnel(own.backup_pools or own.pools, own, next_hop)


def check_step(fleet: States, name: str, after: NodeState) -> None:
    """Assert that no node's packets depend on a switch while node `name` changes to `after` and ends sessions.

    If it ends none, nothing is checked; if it ends sessions with nodes alone, only the routes that `name` has before.
    Packets of `name` to a node may depend on a switch if `after` has backup routes.
    """
    changes = session_changes.resets(fleet[name].bird, after.bird)
    for route in fleet[name].bird_routes if changes else ():
        from_router = route_sources.by_routers_alone(bird(fleet[name]), route)
        assert by_ending_session(after, route, from_router), f"{name} in {after.phase}: {route} of a session that ends"
    if not any(change.external for change in changes):
        return
    address = bird(after).address
    for other, state in {**fleet, name: after}.items():
        if other != name:
            assert by_bgp(state, address), f"{other} depends on a switch while {name} goes to {after.phase}"
            assert by_bgp(after, bird(state).address) or bird(after).backups, name


def walk(start: States, target: States, stop: tuple[str, int] = ("", 0)) -> States:
    """Take the nodes of `target` through all phases as the controller does, check each step, and return all states.

    `stop` is a phase and the number of nodes, by name, that enter it before the run stops. The run does not stop if
    there are no more nodes than that, or if the phase is `divert` and is left out. Nodes only in `start` stay as they
    are. Raise AssertionError if packets of a node, or its backup routes, depend on a switch.
    """
    fleet, known = dict(start), dict(start)
    found = impact.of_run(known, {name: state.bird for name, state in target.items()}, (), set(target))
    for phase in PHASES:
        if phase == Phase.DIVERT and not found.divert:
            continue
        for number, name in enumerate(sorted(target)):
            if (phase, number) == stop:
                return fleet
            after = transition.phase_state(stored(known[name]), target[name], phase, found.hold)
            check_step(fleet, name, after)
            fleet[name] = after
            # Without resets, only backup routes of an earlier change can be there.
            for state in fleet.values() if found.resets else ():
                for route in bird(state).backups:
                    assert by_backup(state, route.next_hop), f"{state.node}: {route} depends on a switch in {phase}"
    return fleet


@pytest.mark.parametrize("name", WAYS)
def test_a_change_to_switches_and_back_ends_at_the_target(name: str) -> None:
    assert walk(WAYS[name], TORS) == TORS
    assert walk(TORS, WAYS[name]) == WAYS[name]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*WAYS]), st.booleans(), st.sampled_from(PHASES), st.integers(0, 3))
def test_a_run_that_was_stopped_anywhere_is_completed_or_undone(
    name: str, there: bool, phase: str, number: int
) -> None:
    first, second = (WAYS[name], TORS) if there else (TORS, WAYS[name])
    half = walk(first, second, (phase, number))
    assert walk(half, second) == second
    assert walk(half, first) == first


def test_without_diverting_packets_would_depend_on_switches() -> None:
    """check_step() fails for the change from switches to tunnels if it skips the phase `divert`."""
    mesh = WAYS["vxlan"]
    fleet = {name: transition.phase_state(state, mesh[name], Phase.LINKS, True) for name, state in TORS.items()}
    flipped = transition.phase_state(TORS["node1"], mesh["node1"], Phase.FLIP, True)
    with pytest.raises(AssertionError, match="node3 depends on a switch while node1 goes to flip"):
        check_step(fleet, "node1", flipped)


def test_routes_move_from_switches_to_tunnels_in_phase_divert() -> None:
    found = {}
    for phase in PHASES:
        state = transition.phase_state(TORS["node1"], WAYS["vxlan"]["node1"], phase, True)
        far = [route.device for route in state.bird_routes if route.node in ("node3", "node4")]
        found[phase] = (set(far), bird(state).pools[0].device, [pool.device for pool in bird(state).backup_pools])
    assert found == {
        Phase.PREPARE: ({""}, "", ["vxlan.calico"]),
        Phase.LINKS: ({""}, "", ["vxlan.calico"]),
        Phase.DIVERT: ({"vxlan.calico"}, "", ["vxlan.calico"]),
        Phase.FLIP: ({"vxlan.calico"}, "vxlan.calico", []),
        Phase.RETIRE: ({"vxlan.calico"}, "vxlan.calico", []),
    }
    assert transition.diverts(TORS["node1"], WAYS["vxlan"]["node1"].bird)
    assert not transition.diverts(WAYS["vxlan"]["node1"], TORS["node1"].bird)


def test_only_sessions_that_change_make_a_fleet_divert() -> None:
    direct, mesh = states(build(pool("direct"), workloads=[])), WAYS["vxlan"]
    switched = impact.of_run(dict(direct), {name: state.bird for name, state in mesh.items()}, (), set(mesh))
    assert (switched.hold, switched.divert) == (False, False)
    both = impact.of_run(dict(TORS), {name: state.bird for name, state in mesh.items()}, (), set(mesh))
    assert (both.hold, both.divert) == (True, True)
    there = impact.of_run(dict(mesh), {name: state.bird for name, state in TORS.items()}, (), set(mesh))
    assert (there.hold, there.divert) == (True, False)


def test_paths_that_only_switches_make_are_not_probed_before_they_do() -> None:
    """Before a change to sessions with switches, only the path to the node in the same rack is probed.

    It is not known which switch will advertise the others. Before the change back, all three paths are probed.
    """
    state = transition.phase_state(WAYS["vxlan"]["node1"], TORS["node1"], Phase.PREPARE, True)
    probed = [route.destination for route in state.routes if route.table == TABLE_PROBE]
    assert probed == [route.destination for route in state.bird_routes if route.node == "node2"]
    back = transition.phase_state(TORS["node1"], WAYS["vxlan"]["node1"], Phase.PREPARE, True)
    assert len([route for route in back.routes if route.table == TABLE_PROBE]) == 3


def test_probes_of_the_proof_are_no_larger_than_the_way_that_they_take() -> None:
    fleet, target = build(pool("vxlan"), workloads=[]), as_per_rack_fleet()
    flip = transition.phase_state(states(fleet)["node1"], states(target)["node1"], Phase.FLIP, True)
    assert {path.node: path.size for path in probe_paths.plan(flip, proof=True).paths} == {
        "node2": 1500,
        "node3": 1450,
        "node4": 1450,
    }
    assert {path.size for path in probe_paths.plan(flip).paths} == {1500}


def test_without_bird_on_both_sides_nothing_is_diverted() -> None:
    """A node diverts nothing if it has no state, no BIRD, or shall have no BIRD."""
    here, target = TORS["node1"], WAYS["vxlan"]["node1"].bird
    assert transition.diverts(here, target)
    for current, wanted in ((None, target), (dataclasses.replace(here, bird=None), target), (here, None), (None, None)):
        assert not transition.diverts(current, wanted)


def test_sessions_of_before_need_bird_on_both_sides() -> None:
    """with_sessions_of() returns the state with an earlier one's sessions and no backup routes.

    It returns the state itself if there is no earlier one, or if either has no BIRD.
    """
    here, target = TORS["node1"], WAYS["vxlan"]["node1"]
    bare = dataclasses.replace(target, bird=None)
    assert transition.with_sessions_of(target, None) is target
    assert transition.with_sessions_of(target, dataclasses.replace(here, bird=None)) is target
    assert transition.with_sessions_of(bare, here) is bare
    found = transition.with_sessions_of(target, here)
    assert (bird(found).peers, bird(found).pools) == (bird(here).peers, bird(target).pools)
    assert (bird(found).backups, bird(found).backups_lead, bird(found).routers_alone) == ((), False, ())
