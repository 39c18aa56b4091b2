# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The expected verdict on a packet: the evaluator's verdicts, combined in the documented order for each path."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import hooks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import (
    DENIED,
    UNDECIDED,
    Evaluator,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    INGRESS,
    WILDCARD,
    Endpoint,
    Failsafe,
    Flow,
    protocol_number,
)


class Paths:
    """The paths of flows through one node. The attributes `workloads` and `hosts` map an interface to its endpoint."""

    def __init__(
        self,
        evaluator: Evaluator,
        workloads: t.Iterable[Endpoint],
        hosts: t.Iterable[Endpoint],
        settings: ChainSettings,
    ) -> None:
        self.evaluator = evaluator
        self.workloads = {one.interface: one for one in workloads}
        self.hosts = {one.interface: one for one in hosts}
        self.settings = settings

    def forwarded(self, flow: Flow, comes_in_by: str, goes_out_by: str) -> bool:
        decided = self._before_routing(flow, comes_in_by)
        if decided is False:
            return False
        # The wildcard also includes interfaces of workloads.
        into, out = (self.hosts.get(one) or self.hosts.get(WILDCARD) for one in (comes_in_by, goes_out_by))
        if decided is None and not self._passes(into, INGRESS, flow, hooks.FORWARD):
            return False
        return (
            self._passes(self.workloads.get(comes_in_by), EGRESS, flow)
            and self._passes(self.workloads.get(goes_out_by), INGRESS, flow)
            and self._passes(out, EGRESS, flow, hooks.FORWARD)
        )

    def received(self, flow: Flow, comes_in_by: str) -> bool:
        """Return whether the host itself receives the flow's first packet, which comes in by this interface."""
        decided = self._before_routing(flow, comes_in_by)
        if decided is False:
            return False
        if comes_in_by in self.workloads:
            return self._passes(self.workloads[comes_in_by], EGRESS, flow) and (
                self.settings.default_endpoint_to_host_action != "Drop"
            )
        return (
            decided is True
            or self._is_failsafe(flow, self.settings.failsafe_inbound, flow.source)
            or self._passes(self._host(comes_in_by), INGRESS, flow)
        )

    def sent(self, flow: Flow, goes_out_by: str) -> bool:
        """Return whether the host itself can send the flow's first packet, which goes out by this interface."""
        failsafe = self._is_failsafe(flow, self.settings.failsafe_outbound, flow.destination)
        reply = self._is_failsafe(_reverse(flow), self.settings.failsafe_inbound, flow.destination)
        if not failsafe and not reply and goes_out_by in self.hosts:
            action = self._action(self.hosts[goes_out_by], EGRESS, flow, hooks.UNTRACKED)
            if action != UNDECIDED:
                return action != DENIED
        return goes_out_by in self.workloads or failsafe or self._passes(self._host(goes_out_by), EGRESS, flow)

    def _before_routing(self, flow: Flow, comes_in_by: str) -> t.Optional[bool]:
        """Return whether untracked and preDNAT policies let the packet pass, or None if they do not decide."""
        failsafe = self._is_failsafe(flow, self.settings.failsafe_inbound, flow.source)
        reply = self._is_failsafe(_reverse(flow), self.settings.failsafe_outbound, flow.source)
        own = self.hosts.get(comes_in_by)
        if own is not None and not failsafe and not reply:
            action = self._action(own, INGRESS, flow, hooks.UNTRACKED)
            if action != UNDECIDED:
                return action != DENIED
        # Before DNAT, the wildcard also includes interfaces of workloads.
        host = own or self.hosts.get(WILDCARD)
        if host is not None and not failsafe:
            action = self._action(host, INGRESS, flow, hooks.PRE_DNAT)
            if action != UNDECIDED:
                return action != DENIED
        return None

    def _host(self, interface: str) -> t.Optional[Endpoint]:
        if interface in self.workloads:
            return None
        return self.hosts.get(interface) or self.hosts.get(WILDCARD)

    def _action(self, endpoint: Endpoint, direction: str, flow: Flow, hook: str) -> str:
        return self.evaluator.verdict(endpoint, direction, flow, hook).action

    def _passes(self, endpoint: t.Optional[Endpoint], direction: str, flow: Flow, hook: str = hooks.NORMAL) -> bool:
        return endpoint is None or self._action(endpoint, direction, flow, hook) != DENIED

    @staticmethod
    def _is_failsafe(flow: Flow, failsafes: t.Iterable[Failsafe], other: str) -> bool:
        return any(
            protocol_number(one.protocol) == flow.protocol
            and one.port == flow.destination_port
            and (not one.net or ipaddress.ip_address(other) in ipaddress.ip_network(one.net))
            for one in failsafes
        )


def _reverse(flow: Flow) -> Flow:
    return Flow(flow.protocol, flow.destination, flow.source, flow.destination_port, flow.source_port)
