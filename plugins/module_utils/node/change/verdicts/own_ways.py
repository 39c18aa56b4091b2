# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways that a node itself needs, and which of them a policy would deny.

Without them the node cannot be managed, or cannot learn that a policy was taken back: its connections to the datastore,
its BGP sessions, from both ends, and SSH from those who manage it.
"""

from __future__ import annotations

import typing as t

from ....base.addresses import family_of
from ....base.ports import BGP_PORT
from ....dataplane.kernel.port import Kernel
from ....policy.explain.evaluator import DENIED
from ....policy.explain.explanation import decided_by
from ....policy.model import HOST_ENDPOINT, PROTOCOL_NUMBERS, Endpoint, Flow
from ....state.node_state import NodeState
from ...host.ssh_session import SshSession
from . import kernel_paths

_TCP = PROTOCOL_NUMBERS["tcp"]
_EPHEMERAL = 50_000  # the port of a client that is not known; a policy that asks for such ports is rare


class OwnWay(t.NamedTuple):
    """The first packet of a connection that the node needs, and what people call it."""

    what: str
    flow: Flow


class DeniedWay(t.NamedTuple):
    """A way that policy denies, and what denies it, as `decided_by` says it."""

    what: str
    by: str

    def __str__(self) -> str:
        return f"{self.what} would be cut by {self.by}"


def of_node(state: NodeState, members: t.Iterable[tuple[str, int]]) -> t.Iterator[OwnWay]:
    """Yield the ways of a node to `members` of the datastore, pairs of address and port, and to and from BGP peers."""
    own = {family_of(cidr): cidr.partition("/")[0] for cidr in (state.address, state.address6) if cidr}
    for address, port in members:
        source = own.get(family_of(address))
        if source and source != address:
            yield OwnWay(f"the datastore at {address} port {port}", Flow(_TCP, source, address, _EPHEMERAL, port))
    for peer in state.bird.peers if state.bird is not None else ():
        source = peer.source_address or own.get(peer.family)
        if source:
            there, here = peer.port or BGP_PORT, peer.local_port or BGP_PORT
            yield OwnWay(f"BGP to {peer.address}", Flow(_TCP, source, peer.address, _EPHEMERAL, there))
            yield OwnWay(f"BGP from {peer.address}", Flow(_TCP, peer.address, source, _EPHEMERAL, here))


def of_sessions(sessions: t.Iterable[SshSession]) -> t.Iterator[OwnWay]:
    """Yield the ways by which connections like these by SSH begin."""
    for session in sessions:
        flow = Flow(_TCP, session.client, session.server, session.client_port, session.server_port)
        yield OwnWay(f"ssh from {session.client} to {session.server} port {session.server_port}", flow)


def governs(endpoint: Endpoint, node: str) -> bool:
    """Return whether the endpoint is one of the host itself: without it, policy denies none of the node's ways."""
    return endpoint.kind == HOST_ENDPOINT and endpoint.node == node


def denied(
    kernel: Kernel,
    state: NodeState,
    ways: t.Iterable[OwnWay],
    others: t.Iterable[Endpoint] = (),
    live: t.Collection[str] = (),
) -> list[DeniedWay]:
    """Return those of `ways` that the policy of `state` would deny, each once.

    `state` has all workloads; `others` are other nodes' endpoints that the inventory does not have, and what it says of
    workloads of `live` nodes does not count. A way to an address that the host does not have is skipped: it ends
    elsewhere. The list is empty if `state` has no policy, or no HostEndpoint of this node. Raise KernelError.
    """
    policy = state.policy
    if policy is None or not any(governs(one, state.node) for one in policy.endpoints):
        return []
    host = kernel_paths.kernel_host(kernel, state.node)
    here = host.addresses
    usable = [way for way in ways if way.flow.source in here or way.flow.destination in here]
    ends = {address for way in usable for address in (way.flow.source, way.flow.destination)}
    paths = kernel_paths.paths(host, state, policy, others, live, ends)
    found: dict[str, DeniedWay] = {}
    for way in usable:
        answer = paths.of(way.flow)
        if answer.action == DENIED:
            found.setdefault(way.what, DeniedWay(way.what, decided_by(answer.stages[-1])))
    return list(found.values())
