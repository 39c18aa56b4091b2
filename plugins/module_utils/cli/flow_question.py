# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether policy lets a flow pass, asked of what one node knows. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..fleet.guard import chain_settings
from ..fleet.node_state import NodeState
from ..fleet.policy_state import PolicyState
from ..policy.evaluator import ALLOWED, DENIED, Evaluator
from ..policy.model import HOST_ENDPOINT, Endpoint, Flow
from ..policy.packet_path import Host, Path, Stage, path
from .flow_ends import FlowEnd
from .flow_kind import FlowKind
from .packet_way import NOWHERE, TUNNEL, Leg, leg_to, masqueraded


@dataclasses.dataclass(frozen=True)
class FlowQuestion:
    """All that the answer follows from.

    `state` is with all its workloads, `endpoints` are all that policy here knows of, `interfaces` those of the host
    that are no workload's, with their addresses. `device` is by which the kernel sends to the end that is not here, ""
    where that is not known. `source_port` is that of a flow that has ports.
    """

    state: NodeState
    endpoints: tuple[Endpoint, ...]
    interfaces: t.Mapping[str, tuple[str, ...]]
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
        return leg_to(self.state, (self.destination if self.sends else self.source).address)

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
    def masqueraded(self) -> bool:
        workload = self.sends and not self.source.is_node and self.destination.node != self.here
        return workload and masqueraded(self.state, self.source.address, self.destination.address)

    @property
    def arrives(self) -> bool:
        """Whether somebody has the destination's address, so far as routing here knows."""
        return leg_to(self.state, self.destination.address).kind != NOWHERE

    def evaluator(self) -> Evaluator:
        policy = self.state.policy or PolicyState()
        return Evaluator(policy.policy_set, self.endpoints)

    def answer(self) -> Path:
        """The first host that denies ends it."""
        if self.state.policy is None:
            return Path(ALLOWED)
        evaluator, stages = self.evaluator(), list[Stage]()
        settings = chain_settings(self.state, self.state.policy.settings)
        nodes = {member.address.partition("/")[0] for member in self.state.nodes}
        flow = self.flow
        for node in dict.fromkeys((self.source.node, self.destination.node)):
            if not node:
                continue
            host = self._own_host() if node == self.here else self._other_host(node)
            found = path(evaluator, [host], flow, settings, nodes)
            stages += found.stages
            if found.action == DENIED:
                return Path(DENIED, tuple(stages))
            if self.masqueraded:
                flow = dataclasses.replace(flow, source=self.state.address.partition("/")[0])
        return Path(ALLOWED, tuple(stages))

    def _own_host(self) -> Host:
        interfaces = dict(self.interfaces)
        known = {address for held in interfaces.values() for address in held}
        planned = [("", self.state.address.partition("/")[0])]
        planned += [(device.name, device.address or "") for device in self.state.devices]
        for name, address in planned:
            if address and address not in known:
                interfaces[name] = (*interfaces.get(name, ()), address)
        return Host(self.here, tuple(interfaces.items()), _all_by(self._tunnel or self.device))

    def _other_host(self, node: str) -> Host:
        """Another node, of whose interfaces is known what HostEndpoints say, and which tunnel leads here."""
        address = next((one.address.partition("/")[0] for one in self.state.nodes if one.name == node), "")
        owners = (one for one in self.endpoints if one.kind == HOST_ENDPOINT and one.node == node)
        underlay = next((one.interface for one in owners if address in one.addresses), "")
        return Host(node, ((underlay, (address,)),), _all_by(self._tunnel or underlay))

    @property
    def _tunnel(self) -> str:
        """The device, of one name on all nodes, through which the flow comes or goes; "" where it is none."""
        return self.leg.device if self.passes and self.leg.kind == TUNNEL else ""


def _all_by(interface: str) -> tuple[tuple[str, str], ...]:
    """Routes of a host that is asked about one flow: there is but one way to its other end."""
    return (("0.0.0.0/0", interface), ("::/0", interface))
