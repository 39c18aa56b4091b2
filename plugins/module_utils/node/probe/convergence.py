# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check for convergence: BGP sessions are Established, and each planned route of BIRD is in the kernel."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ...bgp.bird_state import BirdPeer
from ...bird import backup_routes, dropped_segments, refusals, status
from ...bird.dropped_segments import NOTHING_DROPPED, Dropped
from ...bird.errors import BirdError
from ...dataplane.planning.bird_routes import bird_changes
from ...state.node_state import NodeState
from ..machine import Machine

#: Seconds between two observations in `wait`: short at first, when most nodes converge, then longer, to spare a node
#: that waits. The last number is repeated.
_STEPS = (0.1, 0.2, 0.4, 0.8)


class Convergence(t.NamedTuple):
    """The number of BGP sessions and of BIRD's routes that are expected and there, and what is missing, in words.

    `external_established` counts the Established sessions with routers outside the fleet, which `sessions_established`
    includes. `missing` has a clause for each session that is not Established and each route that is missing, differs or
    is a backup route. If BIRD cannot be asked, its error is there instead of what it would say. It is empty on a
    converged node.
    """

    sessions_expected: int
    sessions_established: int
    routes_expected: int
    routes_present: int
    missing: tuple[str, ...]
    external_established: int = 0

    @property
    def converged(self) -> bool:
        return not self.missing


def observe(machine: Machine, state: NodeState, dropped: Dropped = NOTHING_DROPPED) -> Convergence:
    """Return how far this node is from having the BGP sessions and BIRD's routes of `state`.

    A destination that only a backup route reaches counts as missing. A BIRD that does not answer within 10 seconds is
    reported in `missing`. `dropped` are the TCP segments that the kernel dropped meanwhile, to explain a session that
    is down. Raise KernelError.
    """
    missing: list[str] = []
    established = _sessions(machine, state, missing, dropped)
    owners = {route.destination: route.node for route in state.bird_routes}
    # A superfluous route does not count: BIRD removes it by itself, after a graceful restart at the latest.
    absent = [change for change in bird_changes(machine.kernel, state) if change.action != "-"]
    for change in absent:
        owner = f" of {owners[change.subject]}" if owners[change.subject] else ""
        missing.append(f"route {change.subject}{owner} is {change.before or 'missing'}, expected {change.after}")
    held = _held(machine, state, missing) - {change.subject for change in absent}
    for destination in sorted(held):
        owner = f" of {owners[destination]}" if owners[destination] else ""
        missing.append(f"route {destination}{owner} is there by a backup route alone, not by BGP")
    peers = len(state.bird.peers) if state.bird else 0
    present = len(owners) - len(absent) - len(held)
    external = sum(not peer.node for peer in established)
    return Convergence(peers, len(established), len(owners), present, tuple(missing), external)


def without(state: NodeState, absent: t.Collection[str]) -> NodeState:
    """Return the state with only what can converge while the nodes in `absent` do not take part.

    Sessions with them and their routes are removed. So is policy, which is in force once the state is applied.
    """
    state = dataclasses.replace(state, policy=None)
    if state.bird is None:
        return state
    peers = tuple(peer for peer in state.bird.peers if not peer.node or peer.node not in absent)
    routes = tuple(route for route in state.bird_routes if route.node not in absent)
    return dataclasses.replace(state, bird=dataclasses.replace(state.bird, peers=peers), bird_routes=routes)


def absent(state: NodeState, present: t.Collection[str]) -> list[str]:
    """Return the sorted names of the nodes that `state` names as peers or owners of routes and that `present` lacks."""
    peers = {peer.node for peer in state.bird.peers if peer.node} if state.bird else set()
    return sorted((peers | {route.node for route in state.bird_routes}) - set(present))


def wait(machine: Machine, state: NodeState, timeout: float) -> Convergence:
    """Observe repeatedly until nothing is missing or `timeout` seconds have passed, and return the last result.

    A BIRD that does not answer may delay the last observation by 10 seconds for each answer. Raise KernelError.
    """
    deadline = time.monotonic() + timeout
    attempt = 0
    before = dropped_segments.read(machine.netstat)
    while True:
        found = observe(machine, state, dropped_segments.read(machine.netstat).since(before))
        left = deadline - time.monotonic()
        if found.converged or left <= 0:
            return found
        time.sleep(min(_STEPS[min(attempt, len(_STEPS) - 1)], left))
        attempt += 1


def _held(machine: Machine, state: NodeState, missing: list[str]) -> set[str]:
    """Return the destinations that only backup routes reach; if BIRD cannot be asked, its error goes to `missing`."""
    if state.bird is None or not state.bird.backups:
        return set()
    try:
        held = backup_routes.in_use(machine.bird_socket)
    except BirdError as error:
        missing.append(str(error))
        return set()
    return {route.destination for route in state.bird_routes if route.destination in held}


def _sessions(machine: Machine, state: NodeState, missing: list[str], dropped: Dropped) -> list[BirdPeer]:
    """Return the peers whose sessions are Established; append to `missing` a clause for others, or BIRD's error."""
    if state.bird is None:
        return []
    try:
        sessions = {session.name: session for session in status.observe(machine.bird_socket).sessions}
    except BirdError as error:
        missing.append(str(error))
        return []
    established = []
    for peer in state.bird.peers:
        session = sessions.get(peer.name)
        if session is not None and session.established:
            established.append(peer)
            continue
        name = f"{peer.node} ({peer.address})" if peer.node else peer.address
        if session is None:
            missing.append(f"session with {name} is not in BIRD's configuration")
        else:
            said = f" ({session.error})" if session.error else ""
            reason = refusals.why(session, state.bird, peer, dropped)
            missing.append(
                f"session with {name} is {session.bgp_state or session.state} since {session.since}{said}: {reason}"
            )
    return established
