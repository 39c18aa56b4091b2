# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The question whether policy lets a flow pass in a known network. No I/O."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...base import published_port
from ...base.addresses import family_of
from ...policy.explain.evaluator import ALLOWED, DENIED, Evaluator
from ...policy.explain.packet_path import Path, PathHost, Paths, Stage
from ...policy.model import Flow
from ...state.derived import outgoing_nat
from ...state.fleet_list import probe_nodes
from ...state.node_policy_tables import chain_settings
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ..defaults import SOURCE_PORT
from ..errors import NoVerdict, UsageError
from .flow_ends import FlowEnd, FlowEnds
from .flow_kind import FlowKind, flow_kind
from .known_network import KnownNetwork
from .packet_way import NOWHERE, TUNNEL, Leg, leg_to, masqueraded


class Asked(t.NamedTuple):
    """A question as it was written. `options` are the command line's names of the first three fields, for errors."""

    source: str
    destination: str
    port: str
    source_port: int = SOURCE_PORT
    options: tuple[str, str, str] = ("--from", "--to", "--port")

    def check(self) -> None:
        """Raise UsageError if `kind` would, or if an end is missing. An empty port asks for all kinds."""
        for option, who, text in zip(self.options, ("sender", "receiver"), (self.source, self.destination)):
            if not text:
                raise UsageError(f"{option} is not set. Name the {who}: a workload, a node or an address.")
        self._replace(port=self.port or "icmp").kind()

    def kind(self) -> FlowKind:
        """Return the protocol, with its port or ICMP type, that the user asks about. Raise UsageError for none."""
        kind = flow_kind(self.port, self.options[2])
        if not 1 <= self.source_port <= 65535:
            option = self.options[2].replace("port", "source-port")
            raise UsageError(f"{option} {self.source_port} is no port, a number from 1 to 65535.")
        return kind


class PublishedAt(t.NamedTuple):
    """The workload, and its port, to which a published port of a node leads."""

    end: FlowEnd
    port: int


@dataclasses.dataclass(frozen=True)
class FlowQuestion:
    """A parsed question, made by `question`, with everything that the answer follows from.

    `state` is that of the node from which the path is described: the node that is asked or, for an inventory, the
    sender, or the receiver if the sender is outside. `device` is the underlay interface by which its kernel sends
    towards the remote end, "" if unknown or if that is on this node. `source_port` is None for a flow without ports.
    `published` is the workload to which the port of the destination, a node, leads; None if it leads to none, or if
    that is not known.
    """

    known: KnownNetwork
    state: NodeState
    device: str
    source: FlowEnd
    destination: FlowEnd
    kind: FlowKind
    source_port: t.Optional[int]
    published: t.Optional[PublishedAt] = None

    @property
    def here(self) -> str:
        return self.state.node

    @property
    def sends(self) -> bool:
        return self.source.node == self.here

    @property
    def passes(self) -> bool:
        """Whether this node sees the flow."""
        return self.here in (self.source.node, self.destination.node)

    @property
    def leg(self) -> Leg:
        """The leg from this node to the destination or, if this node is not the source's, to the source.

        If the source is masqueraded, its leg is that to the address that replaces its own. Packets to the address of a
        node pass no tunnel, whatever their source.
        """
        if self.sends:
            return leg_to(self.state, self.destination.address)
        seen = self.masqueraded
        if not seen and self.source.node and self.destination.address in self.known.addresses(self.here):
            seen = self.known.member(self.source.node, like=self.source.address)
        return leg_to(self.state, seen or self.source.address)

    @property
    def flow(self) -> Flow:
        """The flow as its source sends it. What this node itself sends by a tunnel has the tunnel's address, if any."""
        source = self.source.address
        if self.sends and self.source.is_node and self.leg.kind == TUNNEL:
            own = (device.address for device in self.state.devices if device.name == self.leg.device)
            source = next(own, None) or source
        kind = self.kind
        return Flow(
            kind.number, source, self.destination.address, self.source_port, kind.port, kind.icmp_type, kind.icmp_code
        )

    @property
    def masqueraded(self) -> str:
        """The node's address that replaces the source's beyond its node (natOutgoing), "" if none does."""
        source = self.source
        if source.is_node or not source.node or source.node == self.destination.node:
            return ""
        if not masqueraded(self.state, source.address, self.destination.address):
            return ""
        if outgoing_nat.is_exempt(self.state, self.kind.protocol, self.kind.port):
            return ""
        return self.known.member(source.node, like=source.address)

    @property
    def arrives(self) -> bool:
        """Whether this node's packets go on: no route drops them, and a destination in a pool has a route."""
        return leg_to(self.state, self.destination.address).kind != NOWHERE

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes of the fleet that the flow passes, in their order, each once; () if none."""
        return tuple(name for name in dict.fromkeys((self.source.node, self.destination.node)) if name)

    def policy_of(self, node: str) -> t.Optional[PolicyState]:
        """Return `node`'s policy, or this node's if the state of `node` is not known; None if there is no policy."""
        return self.known.states.get(node, self.state).policy

    @property
    def policy(self) -> t.Optional[PolicyState]:
        """The policy of this node, or of the first node of the flow that has one; None if none of them has."""
        return next((found for found in map(self.policy_of, (self.here, *self.nodes)) if found is not None), None)

    @functools.cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator((self.policy or PolicyState()).policy_set, self.known.endpoints)

    def answer(self) -> Path:
        """Return the verdict with the stages of each host in turn, there and back; hosts without policy have none.

        The first host that denies the flow or its answer ends the path. Beyond the source's node, the flow comes from
        the address that masquerading gives it, if any. Raise SelectorError or KeyError for invalid policy.
        """
        stages: list[Stage] = []
        passed: list[tuple[Paths, Flow, Flow, Path]] = []  # the hosts, with the flow before and behind each
        flow = self.flow
        for node in self.nodes:
            arriving = flow
            if self.published is not None and node == self.destination.node:
                to = self.published
                flow = dataclasses.replace(flow, destination=to.end.address, destination_port=to.port)
            beyond = dataclasses.replace(flow, source=self.masqueraded) if self.masqueraded else flow
            policy = self.policy_of(node)
            if policy is not None:
                paths = self._paths(node, policy)
                there = paths.there(flow, arriving)
                passed.append((paths, flow, beyond, there))
                stages += there.stages
                if there.action == DENIED:
                    return Path(DENIED, tuple(stages))
            flow = beyond
        for paths, flow, beyond, there in reversed(passed):
            back = paths.back(flow, there, beyond)
            stages += back.stages
            if back.action == DENIED:
                return Path(DENIED, tuple(stages))
        return Path(ALLOWED, tuple(stages))

    def by_ports(self) -> t.Iterator[FlowQuestion]:
        """Yield the questions about this flow by the published ports of its destination, a workload of another node.

        If the ports are not known here, there is one question, whose port of the host is that of the workload. There is
        none for a flow without ports, or that does not come from a workload. Raise KernelError as `question` does.
        """
        end, port = self.destination, self.kind.port
        foreign = self.source.endpoint is not None and self.source.node != end.node
        if end.endpoint is None or port is None or not foreign:
            return
        address = self.known.member(end.node, like=end.address)
        if not address:
            return
        node = FlowEnd(end.node, address, end.node, is_node=True)
        hosts = [(port, address)]
        if end.node in self.known.states and self.known.at == end.node:
            hosts = [
                (one.host_port, one.host_address or address)
                for endpoint in self.state.endpoints
                if end.address in endpoint.addresses
                for one in endpoint.ports
                if (one.protocol, one.port) == (self.kind.protocol, port)
                and family_of(end.address) in one.families(endpoint.addresses)
            ]
        for number, at in hosts:
            yield dataclasses.replace(
                self,
                device=_device_to(self.known, self.state, at) if self.sends else self.device,
                destination=dataclasses.replace(node, address=at),
                kind=self.kind._replace(port=number),
                published=PublishedAt(end, port),
            )

    @property
    def may_lead_on(self) -> bool:
        """Whether the port of the destination, another node, may be one that it publishes: only that node knows."""
        end, policy = self.destination, self.policy
        if not end.is_node or end.node == self.known.at or self.kind.port is None or policy is None:
            return False
        if self.kind.protocol not in published_port.PROTOCOLS:
            return False
        failsafes = {(one.protocol, one.port) for one in policy.settings.failsafe_inbound}
        wanted = published_port.PublishedPort(self.kind.protocol, self.kind.port, self.kind.port)
        return not published_port.owner(wanted, failsafes)

    def _paths(self, node: str, policy: PolicyState) -> Paths:
        settings = chain_settings(self.known.states.get(node, self.state), policy.settings)
        nodes = {*self.known.members.values(), *self.known.members6.values()}
        return Paths(self.evaluator, [self._host(node)], settings, nodes, probe_nodes(self.state.nodes))

    def _host(self, node: str) -> PathHost:
        """Return `node` with its known interfaces, and default routes by the one that leads to the flow's other end.

        That is the tunnel, if the flow passes one, `device` on the asked node, and the underlay's interface on another
        node.
        """
        known = self.known
        interfaces = dict(known.interfaces.get(node, {}))
        held = {address for addresses in interfaces.values() for address in addresses}
        underlay = known.underlay(node).interface
        planned = [(underlay, held_by.get(node, "")) for held_by in (known.members, known.members6)]
        if node in known.states:
            planned += [(device.name, device.address or "") for device in known.states[node].devices]
        for name, address in planned:
            if address and address not in held:
                interfaces[name] = (*interfaces.get(name, ()), address)
        by = self._tunnel or (self.device if node == self.here else underlay)
        return PathHost(node, tuple(interfaces.items()), (("0.0.0.0/0", by), ("::/0", by)))

    @property
    def _tunnel(self) -> str:
        """The tunnel device that the flow passes, "" for none. It has the same name on all nodes."""
        return self.leg.device if self.passes and self.leg.kind == TUNNEL else ""


def question(known: KnownNetwork, asked: Asked) -> FlowQuestion:
    """Return the question `asked` about the network `known`.

    Raise UsageError for a flow that cannot be, and NoVerdict for ends that are unknown, ambiguous, of different IP
    versions, the same, or outside of what is known. Raise KernelError if a node's kernel refuses to tell by which
    interface it sends.
    """
    kind = asked.kind()
    ends = FlowEnds(known)
    first, second, port = asked.options
    source, destination = _of_one_family(
        (first, ends.find(first, asked.source)), (second, ends.find(second, asked.destination))
    )
    if source.address == destination.address:
        raise NoVerdict(f"{first} and {second} are both {source.address}: what one sends to itself meets no policy.")
    at = known.at or next((end.node for end in (source, destination) if end.node in known.states), "")
    if not at:
        raise NoVerdict(f"neither {first} {asked.source} nor {second} {asked.destination} is of this fleet.")
    state = known.states[at]
    remote = destination if source.node == at else source
    device = _device_to(known, state, remote.address) if remote.node != at else ""
    kind = kind.for_version(family_of(source.address), port)
    return FlowQuestion(
        known,
        state,
        device,
        source,
        destination,
        kind,
        asked.source_port if kind.port is not None else None,
        _published(ends, state, destination, kind),
    )


def _device_to(known: KnownNetwork, state: NodeState, address: str) -> str:
    """Return the underlay's interface by which a node sends towards an address elsewhere, "" if it is unknown."""
    if known.device_to is None:
        return known.underlay(state.node).interface
    return known.device_to(leg_to(state, address).next_hop or address)


def _published(ends: FlowEnds, state: NodeState, end: FlowEnd, kind: FlowKind) -> t.Optional[PublishedAt]:
    """Return where the port of `end` leads, if that is the node of `state`; a port of one address comes first."""
    if not end.is_node or end.node != state.node or kind.port is None:
        return None
    family = family_of(end.address)
    found = [
        (port.host_address, address, port.port)
        for endpoint in state.endpoints
        for port in endpoint.ports
        if (port.protocol, port.host_port) == (kind.protocol, kind.port) and port.host_address in ("", end.address)
        if family in port.families(endpoint.addresses)
        for address in endpoint.addresses
        if family_of(address) == family
    ]
    if not found:
        return None
    dummy, address, inner = max(found)
    return PublishedAt(ends.at(address), inner)


def _of_one_family(first: tuple[str, FlowEnd], second: tuple[str, FlowEnd]) -> tuple[FlowEnd, FlowEnd]:
    """Return both ends with addresses of one IP version, IPv4 if both have one. Raise NoVerdict if they share none."""
    for version in (4, 6):
        source, destination = first[1].of_version(version), second[1].of_version(version)
        if source and destination:
            return source, destination
    raise NoVerdict(
        f"{first[0]} {first[1].address} and {second[0]} {second[1].address} are of different families: there is no "
        "such flow."
    )
