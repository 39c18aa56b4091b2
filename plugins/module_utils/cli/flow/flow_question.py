# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether policy lets a flow pass, asked of a network as it is known. Pure."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...base.addresses import family_of
from ...policy.explain.evaluator import ALLOWED, DENIED, Evaluator
from ...policy.explain.packet_path import Path, PathHost, Stage, path
from ...policy.model import Flow
from ...state.node_policy_tables import chain_settings
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ..errors import NoVerdict, UsageError
from .flow_ends import FlowEnd, FlowEnds
from .flow_kind import FlowKind, flow_kind
from .known_network import KnownNetwork
from .packet_way import NOWHERE, TUNNEL, Leg, leg_to, masqueraded

#: What a flow is sent from unless it is said: kernels choose from 32768 on (ip_local_port_range).
SOURCE_PORT = 40000


class Asked(t.NamedTuple):
    """A question as it was written. `options` are the names under which the first three were."""

    source: str
    destination: str
    port: str
    source_port: int = SOURCE_PORT
    options: tuple[str, str, str] = ("--from", "--to", "--port")

    def kind(self) -> FlowKind:
        """Raises UsageError."""
        kind = flow_kind(self.port, self.options[2])
        if not 1 <= self.source_port <= 65535:
            option = self.options[2].replace("port", "source-port")
            raise UsageError(f"{option} {self.source_port} is no port, a number from 1 to 65535.")
        return kind


@dataclasses.dataclass(frozen=True)
class FlowQuestion:
    """All that the answer follows from. Made by `question`.

    `state` is that of the node through which the way is told: of the one that is asked; in an inventory of the one that
    sends, or receives what comes from outside. `device` is by which its kernel sends to the end that is not there, ""
    where that is not known. `source_port` is that of a flow that has ports.
    """

    known: KnownNetwork
    state: NodeState
    device: str
    source: FlowEnd
    destination: FlowEnd
    kind: FlowKind
    source_port: t.Optional[int]

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
        """The way from here to the end that is not here; that of what comes from there is the same."""
        if self.sends:
            return leg_to(self.state, self.destination.address)
        return leg_to(self.state, self.masqueraded or self.source.address)

    @property
    def flow(self) -> Flow:
        """As its source sends it: a host takes the address of the device by which its packets leave."""
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
        """The address of the source's node, from which the flow comes beyond it (natOutgoing); "" where it does not."""
        source = self.source
        if source.is_node or not source.node or source.node == self.destination.node:
            return ""
        if not masqueraded(self.state, source.address, self.destination.address):
            return ""
        return self.known.member(source.node, like=source.address)

    @property
    def arrives(self) -> bool:
        """Whether somebody has the destination's address, so far as routing here knows."""
        return leg_to(self.state, self.destination.address).kind != NOWHERE

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those at whose hands the flow is, in their order."""
        return tuple(name for name in dict.fromkeys((self.source.node, self.destination.node)) if name)

    def policy_of(self, node: str) -> t.Optional[PolicyState]:
        """That of a node, of which that of the one that is asked stands in where it is not known."""
        return self.known.states.get(node, self.state).policy

    @property
    def policy(self) -> t.Optional[PolicyState]:
        """That of the first node that has one; they all have the same policies."""
        return next((found for found in map(self.policy_of, (self.here, *self.nodes)) if found is not None), None)

    @functools.cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator((self.policy or PolicyState()).policy_set, self.known.endpoints)

    def answer(self) -> Path:
        """The first host that denies ends it."""
        stages: list[Stage] = []
        nodes = {*self.known.members.values(), *self.known.members6.values()}
        flow = self.flow
        for node in self.nodes:
            policy = self.policy_of(node)
            if policy is not None:
                state = self.known.states.get(node, self.state)
                found = path(self.evaluator, [self._host(node)], flow, chain_settings(state, policy.settings), nodes)
                stages += found.stages
                if found.action == DENIED:
                    return Path(DENIED, tuple(stages))
            if self.masqueraded:
                flow = dataclasses.replace(flow, source=self.masqueraded)
        return Path(ALLOWED, tuple(stages))

    def _host(self, node: str) -> PathHost:
        """With its interfaces as far as they are known, and the one way to the flow's other end."""
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
        """The device, of one name on all nodes, through which the flow comes or goes; "" where it is none."""
        return self.leg.device if self.passes and self.leg.kind == TUNNEL else ""


def question(known: KnownNetwork, asked: Asked) -> FlowQuestion:
    """Raises UsageError for what makes no sense, NoVerdict for what has no answer."""
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
    device = ""
    if remote.node != at:
        next_hop = leg_to(state, remote.address).next_hop or remote.address
        device = known.device_to(next_hop) if known.device_to else known.underlay(at).interface
    kind = kind.for_version(family_of(source.address), port)
    return FlowQuestion(
        known, state, device, source, destination, kind, asked.source_port if kind.port is not None else None
    )


def _of_one_family(first: tuple[str, FlowEnd], second: tuple[str, FlowEnd]) -> tuple[FlowEnd, FlowEnd]:
    """The ends by addresses of one family, IPv4 where both have it. Raises NoVerdict."""
    for version in (4, 6):
        source, destination = first[1].of_version(version), second[1].of_version(version)
        if source and destination:
            return source, destination
    raise NoVerdict(
        f"{first[0]} {first[1].address} and {second[0]} {second[1].address} are of different families: there is no "
        "such flow."
    )
