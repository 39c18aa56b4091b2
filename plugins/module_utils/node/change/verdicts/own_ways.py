# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways that a node itself needs, and which of them a policy would deny.

Without them the node cannot be managed, or cannot learn that a policy was taken back: its connections to the datastore,
its BGP sessions, from both ends, and SSH from those who manage it. On a host with a member of etcd, they include the
ways of all other nodes to its gate, and those between members: only this node's policy can cut them there.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ....base.addresses import family_of
from ....base.ports import BGP_PORT, ETCD_GATE_PORT, ETCD_PEER_PORT, PortRange
from ....dataplane.kernel.port import Kernel
from ....policy.explain.address_classes import AddressClasses
from ....policy.explain.evaluator import DENIED
from ....policy.explain.explanation import decided_by
from ....policy.model import HOST_ENDPOINT, PROTOCOL_NUMBERS, Endpoint, Flow, Policy, PolicyProfile, PolicySet
from ....state.fleet_list import bare
from ....state.node_state import NodeState
from ...host.ssh_session import SshSession
from . import kernel_paths

_TCP = PROTOCOL_NUMBERS["tcp"]
#: The ports that Linux gives to clients by default (ip_local_port_range of ip(7)).
_CLIENT_PORTS = range(32_768, 61_000)
#: The most of them that are tried for one way. Each costs an evaluation, and rules that tell more apart are rare.
_MOST_PORTS = 16


class OwnWay(t.NamedTuple):
    """The first packet of a connection that the node needs, and what people call it.

    Its source port is None if the client may have any.
    """

    what: str
    flow: Flow


class DeniedWay(t.NamedTuple):
    """A way that policy denies, and what denies it, as `decided_by` says it."""

    what: str
    by: str

    def __str__(self) -> str:
        return f"{self.what} would be cut by {self.by}"


def of_node(state: NodeState, members: t.Sequence[tuple[str, int]]) -> t.Iterator[OwnWay]:
    """Yield the ways of a node to `members` of the datastore, pairs of address and port, and to and from BGP peers.

    If the node has one of the members, yield the ways of the fleet's other nodes to it, and those of other members.
    """
    own = {family_of(cidr): bare(cidr) for cidr in (state.address, state.address6) if cidr}
    for address, port in members:
        source = own.get(family_of(address))
        if source == address:
            yield from _to_own_member(state, address, port, members)
        elif source:
            yield OwnWay(f"the datastore at {address} port {port}", Flow(_TCP, source, address, None, port))
    for peer in state.bird.peers if state.bird is not None else ():
        source = peer.source_address or own.get(peer.family)
        if source:
            there, here = peer.port or BGP_PORT, peer.local_port or BGP_PORT
            yield OwnWay(f"BGP to {peer.address}", Flow(_TCP, source, peer.address, None, there))
            yield OwnWay(f"BGP from {peer.address}", Flow(_TCP, peer.address, source, None, here))


def _to_own_member(state: NodeState, own: str, port: int, members: t.Iterable[tuple[str, int]]) -> t.Iterator[OwnWay]:
    """Yield the ways to the member of the datastore at `own`, an address of this node, and between it and others."""
    for node in state.nodes:
        address = bare(node.address6 if family_of(own) == 6 else node.address)
        if address and address != own:
            yield OwnWay(f"the datastore here from {address}", Flow(_TCP, address, own, None, port))
    for address, its_port in members if port == ETCD_GATE_PORT else ():
        if address != own and its_port == ETCD_GATE_PORT and family_of(address) == family_of(own):
            yield OwnWay(f"etcd at {address}", Flow(_TCP, own, address, None, ETCD_PEER_PORT))
            yield OwnWay(f"etcd from {address}", Flow(_TCP, address, own, None, ETCD_PEER_PORT))


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
    ports, classes = client_ports(policy.policy_set), AddressClasses(paths)
    answers: dict[t.Hashable, str] = {}  # by what policy looks at: what denies, "" for nothing
    for way in usable:
        for port in ports if way.flow.source_port is None else (way.flow.source_port,):
            flow = dataclasses.replace(way.flow, source_port=port)
            key = classes.of(flow.source), classes.of(flow.destination), flow.protocol, port, flow.destination_port
            if key not in answers:
                answer = paths.of(flow)
                answers[key] = decided_by(answer.stages[-1]) if answer.action == DENIED else ""
            if answers[key]:
                found.setdefault(way.what, DeniedWay(way.what, answers[key]))
                break
    return list(found.values())


def client_ports(policy: PolicySet) -> list[int]:
    """Return ports of clients: one of each range that rules tell apart by source ports, at most 16 of them."""
    owners: tuple[t.Union[Policy, PolicyProfile], ...] = (*policy.policies, *policy.profiles)
    rules = (rule for one in owners for rule in (*one.ingress, *one.egress))
    ranges = (port for rule in rules for port in (*rule.source.ports, *rule.source.not_ports))
    starts = {edge for port in ranges if isinstance(port, PortRange) for edge in (port.first, port.last + 1)}
    found = sorted({_CLIENT_PORTS.start, *(starts.intersection(_CLIENT_PORTS))})
    return found[:: -(-len(found) // _MOST_PORTS)]
