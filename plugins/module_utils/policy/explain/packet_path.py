# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a flow through the hosts that apply policy, with every decision on it, in order.

At one host (Felix, rules/static.go), the first decisions are those of untracked policy and preDNAT policy of the host
endpoint by which the packet comes in. If the host is the destination, that endpoint's normal policy follows. If the
host forwards the packet, these follow: the endpoint's applyOnForward policy, the egress policy of a source workload,
the ingress policy of a destination workload, and applyOnForward policy of the host endpoint by which the packet leaves.
A packet that untracked or preDNAT policy allows skips the other policies of that host endpoint, but not those of
workloads and of the host endpoint by which it leaves. A workload's egress policy also applies if it sends to its own
host. Packets of the host itself meet untracked and normal policy of the host endpoint by which they leave.

The host also decides without policy: a host may always reach its own workloads, failsafe ports are open, other nodes
may send encapsulated packets and workloads, by default, may not. Workloads may not connect to members of etcd. A
default action follows the policy of a workload that sends to its own host.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import cidr
from ...base.ports import ETCD_PORTS
from ..chains.settings import DROP, IPIP, ChainSettings
from ..chains.source_checks import LOOPBACK
from ..hooks import FORWARD, NORMAL, PRE_DNAT, UNTRACKED
from ..host_endpoints import endpoint_of, governing
from ..model import (
    ALLOW,
    DENY,
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    PROTOCOL_NUMBERS,
    WILDCARD,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Failsafe,
    Flow,
    protocol_number,
)
from .evaluator import ALLOWED, DENIED, UNDECIDED, EvaluationStep, Evaluator, Verdict

_IPIP = 4  # the number of the protocol

#: The ICMPv6 types that workloads may send to their host whatever policy says, because IPv6 needs them: multicast
#: listeners, router solicitation, neighbours (Felix, cali-wl-to-host).
_ALWAYS_FROM_WORKLOADS = frozenset({130, 131, 132, 133, 135, 136})


@dataclasses.dataclass(frozen=True)
class PathHost:
    """A node and its network.

    `interfaces` are pairs of interface and its addresses, without interfaces of workloads. `routes` are pairs of CIDR
    and interface, in any order.
    """

    name: str
    interfaces: tuple[tuple[str, tuple[str, ...]], ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses of all interfaces."""
        return frozenset(address for _name, held in self.interfaces for address in held)

    def interface_to(self, address: str) -> str:
        """Return the interface of the route with the longest prefix that contains `address`, or "" if there is none.

        Of several such routes, the one with the last interface by name counts.
        """
        leading = [(cidr(net).length, interface) for net, interface in self.routes if cidr(net).contains(cidr(address))]
        return max(leading)[1] if leading else ""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One verdict on a path, at the node `host`.

    `direction` is "Ingress" or "Egress", `hook` one of `hooks.HOOKS`. `endpoint` is the one whose policy is evaluated
    or whose failsafe decides, or None if the host decides by itself.
    """

    host: str
    direction: str
    hook: str
    verdict: Verdict
    endpoint: t.Optional[Endpoint] = None


@dataclasses.dataclass(frozen=True)
class Path:
    """The decisions on a flow. `action` is "allow" or "deny".

    If it is "deny", the last stage denied the flow. Without stages, no host and no policy decides, and the flow is
    allowed. In audit mode, stages may deny without effect.
    """

    action: str
    stages: tuple[Stage, ...] = ()


class _Denied(Exception):
    pass


def path(
    evaluator: Evaluator,
    hosts: t.Iterable[PathHost],
    flow: Flow,
    settings: t.Optional[ChainSettings] = None,
    nodes: t.Collection[str] = (),
    before_dnat: t.Optional[Flow] = None,
) -> Path:
    """Return the path of `flow` from the host of its source to the host of its destination.

    A host that is not among `hosts` contributes no stages. `settings` are those of all hosts, None means the defaults.
    `nodes` are the addresses of nodes that may send and receive encapsulated packets. With `before_dnat`, the flow
    arrives at the first host in that form, and DNAT there makes it `flow`. Errors of `Evaluator.verdict` and of a
    host's `interface_to` are passed on.
    """
    return Paths(evaluator, hosts, settings, nodes).of(flow, before_dnat)


class Paths:
    """A finder of the paths of many flows through the same hosts.

    `hosts` are the hosts that contribute stages. `settings` are those of all hosts, None means the defaults. `nodes`
    are the addresses of nodes that may send and receive encapsulated packets.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        hosts: t.Iterable[PathHost],
        settings: t.Optional[ChainSettings] = None,
        nodes: t.Collection[str] = (),
    ) -> None:
        self.evaluator = evaluator
        self.settings = settings or ChainSettings()
        self.nodes = nodes
        self._hosts = {host.name: host for host in hosts}
        self._places: dict[str, _Place] = {}
        protected: dict[str, list[Endpoint]] = {name: [] for name in self._hosts}
        for host in self._hosts.values():
            for address in host.addresses:
                self._places.setdefault(address, _Place(host.name))
        for endpoint in evaluator.endpoints:
            if endpoint.node not in self._hosts:
                continue
            if endpoint.kind == HOST_ENDPOINT:
                protected[endpoint.node].append(endpoint)
            elif endpoint.kind == WORKLOAD_ENDPOINT:
                for address in endpoint.addresses:
                    self._places.setdefault(address, _Place(endpoint.node, endpoint))
        #: From host to a mapping from interface to the HostEndpoint that governs it.
        self.governed = {
            name: governing(found, dict(self._hosts[name].interfaces)) for name, found in protected.items()
        }

    def of(self, flow: Flow, before_dnat: t.Optional[Flow] = None) -> Path:
        """Return the path of one flow from the host of its source to the host of its destination.

        A host that `Paths` was not given contributes no stages; without any stage the flow is allowed. With
        `before_dnat`, the flow arrives at the first of its hosts in that form, and DNAT there makes it `flow`. Errors
        of `Evaluator.verdict` and of a host's `interface_to` are passed on.
        """
        nowhere = _Place("")
        source, destination = (self._places.get(one, nowhere) for one in (flow.source, flow.destination))
        asked = _Asked(self)
        try:
            for host in dict.fromkeys((source.host, destination.host)):
                if host:
                    asked.at(self._hosts[host], source, destination, flow, before_dnat or flow)
                    before_dnat = None
        except _Denied:
            return Path(DENIED, tuple(asked.stages))
        return Path(ALLOWED, tuple(asked.stages))


class _Place(t.NamedTuple):
    """The place of an address: its host, "" if none of the known hosts, and the workload that has it.

    `workload` is None if the address is the host's own, or of none of these hosts.
    """

    host: str
    workload: t.Optional[Endpoint] = None


class _Asked:
    """The stages of a path so far. A method that adds a stage raises _Denied if that ends the path."""

    def __init__(self, paths: Paths) -> None:
        self.evaluator = paths.evaluator
        self.settings = paths.settings
        self.nodes = paths.nodes
        self.stages: list[Stage] = []
        self._governed = paths.governed

    def at(self, host: PathHost, source: _Place, destination: _Place, flow: Flow, arriving: Flow) -> None:
        """Add the stages at `host`. `arriving` is the flow before DNAT, `flow` after it.

        Raise _Denied on a denial, except one by policy in audit mode. Errors of `Evaluator.verdict` and
        `host.interface_to` are passed on. `source` and `destination` are the places of the two addresses of `flow`.
        """
        governed = self._governed[host.name]
        from_here, to_here = source.host == host.name, destination.host == host.name
        to_workload = destination.workload if to_here else None
        to_host = to_here and not to_workload
        if from_here and not source.workload:
            if to_workload:
                self._host_says(host, EGRESS, ALLOWED, "a host may always reach its own workloads")
            elif not to_host:
                self._out_of_host(host, _leading_to(flow.destination, host, governed), flow)
            return
        if from_here:
            self._unless_refused(host, flow)
        came_in = None if from_here else _leading_to(arriving.source, host, governed)
        accepted = self._before_routing(host, came_in, governed.get(WILDCARD) if from_here else came_in, arriving)
        if from_here and source.workload:
            self._from_workload(host, source.workload, flow, to_host)
            if to_host:
                return
        if to_host:
            self._into_host(host, came_in, flow, accepted)
            return
        if came_in and not accepted:
            self._ask(host, came_in, INGRESS, FORWARD, flow)
        if to_workload:
            self._ask(host, to_workload, INGRESS, NORMAL, flow)
        else:
            goes_out = _leading_to(flow.destination, host, governed)
            if goes_out:
                self._ask(host, goes_out, EGRESS, FORWARD, flow)

    def _before_routing(
        self, host: PathHost, untracked: t.Optional[Endpoint], pre_dnat: t.Optional[Endpoint], flow: Flow
    ) -> bool:
        """Return whether untracked or preDNAT policy lets the flow pass: later policy of that endpoint is skipped then.

        `untracked` and `pre_dnat` are the endpoints whose policies apply, or None. False if neither decides. A flow
        with an inbound failsafe is not evaluated, and one whose reply has an outbound failsafe not by untracked policy.
        Raise _Denied on a denial, except in audit mode: the result is True then. Errors of `Evaluator.verdict` are
        passed on.
        """
        failsafe = self._failsafe(INGRESS, flow)
        if untracked and not failsafe and not self._failsafe(EGRESS, _reply(flow)):
            if self._ask(host, untracked, INGRESS, UNTRACKED, flow):
                return True
        return bool(pre_dnat and not failsafe and self._ask(host, pre_dnat, INGRESS, PRE_DNAT, flow))

    def _unless_refused(self, host: PathHost, flow: Flow) -> None:
        """Raise _Denied, after adding a stage, if the host drops a workload's `flow` before policy.

        That is a flow to the host's loopback or a member of etcd, or one that is encapsulated where workloads may not
        send such.
        """
        settings = self.settings
        if cidr(LOOPBACK[flow.ip_version]).contains(cidr(flow.destination)):
            self._host_says(host, EGRESS, DENIED, "workloads may not send to the host's loopback")
        ipip = flow.protocol == _IPIP and not settings.allow_ipip_from_workloads
        vxlan = any(_is_udp(flow, port) for port in settings.vxlan_ports) and not settings.allow_vxlan_from_workloads
        if ipip or vxlan:
            self._host_says(host, EGRESS, DENIED, "workloads may not send encapsulated packets")
        tcp = flow.protocol == PROTOCOL_NUMBERS["tcp"]
        if tcp and flow.destination_port in ETCD_PORTS and flow.destination in settings.etcd_members:
            self._host_says(host, EGRESS, DENIED, "workloads may not connect to members of etcd")

    def _from_workload(self, host: PathHost, workload: Endpoint, flow: Flow, to_host: bool) -> None:
        if to_host and flow.protocol == PROTOCOL_NUMBERS["icmpv6"] and flow.icmp_type in _ALWAYS_FROM_WORKLOADS:
            self._host_says(host, EGRESS, ALLOWED, "IPv6 does not work without these messages")
            return
        self._ask(host, workload, EGRESS, NORMAL, flow)
        if to_host:
            action = self.settings.default_endpoint_to_host_action
            verdict = DENIED if action == DROP else ALLOWED
            self._host_says(host, INGRESS, verdict, f"defaultEndpointToHostAction is {action}")

    def _into_host(self, host: PathHost, endpoint: t.Optional[Endpoint], flow: Flow, accepted: bool) -> None:
        if self._is_tunnel(flow):
            known = flow.source in self.nodes
            reason = "the sender of an encapsulated packet is " + ("a node" if known else "no node of the fleet")
            self._host_says(host, INGRESS, ALLOWED if known else DENIED, reason)
        elif endpoint and not accepted:
            self._ask_unless_failsafe(host, endpoint, INGRESS, flow)

    def _out_of_host(self, host: PathHost, endpoint: t.Optional[Endpoint], flow: Flow) -> None:
        if not endpoint:
            return
        if not self._failsafe(EGRESS, flow) and not self._failsafe(INGRESS, _reply(flow)):
            if self._ask(host, endpoint, EGRESS, UNTRACKED, flow):
                return
        if self._is_tunnel(flow) and flow.destination in self.nodes:
            self._host_says(host, EGRESS, ALLOWED, "the receiver of an encapsulated packet is a node")
        else:
            self._ask_unless_failsafe(host, endpoint, EGRESS, flow)

    def _ask_unless_failsafe(self, host: PathHost, endpoint: Endpoint, direction: str, flow: Flow) -> None:
        failsafe = self._failsafe(direction, flow)
        if failsafe:
            reason = f"{failsafe.protocol} port {failsafe.port} is a failsafe"
            self._say(host, endpoint, direction, ALLOWED, reason)
        else:
            self._ask(host, endpoint, direction, NORMAL, flow)

    def _failsafe(self, direction: str, flow: Flow) -> t.Optional[Failsafe]:
        """Return the first failsafe for the flow's protocol, destination port and peer, or None.

        `direction` is that of the flow at the host: the peer is the source of an "Ingress" flow, else the destination.
        """
        inbound = direction == INGRESS
        other = flow.source if inbound else flow.destination
        for failsafe in self.settings.failsafe_inbound if inbound else self.settings.failsafe_outbound:
            wanted = (protocol_number(failsafe.protocol), failsafe.port)
            if wanted == (flow.protocol, flow.destination_port):
                if not failsafe.net or cidr(failsafe.net).contains(cidr(other)):
                    return failsafe
        return None

    def _is_tunnel(self, flow: Flow) -> bool:
        return any(
            flow.protocol == _IPIP if tunnel.kind == IPIP else _is_udp(flow, tunnel.port)
            for tunnel in self.settings.encapsulations
            if tunnel.ip_version == flow.ip_version
        )

    def _ask(self, host: PathHost, endpoint: Endpoint, direction: str, hook: str, flow: Flow) -> bool:
        """Return whether a policy, profile or default decides at this hook and the flow passes; False if none decides.

        Add a stage, unless none decides and no policy applies. Raise _Denied on a denial, except in audit mode: a
        denied flow passes then. Errors of `Evaluator.verdict` are passed on.
        """
        verdict = self.evaluator.verdict(endpoint, direction, flow, hook)
        if verdict.action != UNDECIDED or len(verdict.trace) > 1:
            self.stages.append(Stage(host.name, direction, hook, verdict, endpoint))
        if verdict.action == DENIED and not self.settings.audit:
            raise _Denied
        return verdict.action != UNDECIDED

    def _host_says(self, host: PathHost, direction: str, action: str, reason: str) -> None:
        self._say(host, None, direction, action, reason)

    def _say(self, host: PathHost, endpoint: t.Optional[Endpoint], direction: str, action: str, reason: str) -> None:
        step = EvaluationStep(ALLOW if action == ALLOWED else DENY, True, reason)
        self.stages.append(Stage(host.name, direction, NORMAL, Verdict(action, (step,)), endpoint))
        if action == DENIED:
            raise _Denied


def _leading_to(address: str, host: PathHost, governed: t.Mapping[str, Endpoint]) -> t.Optional[Endpoint]:
    """Return the HostEndpoint of the interface by which `host` reaches an address, or None.

    `governed` maps an interface, or "*" for all others, to its HostEndpoint. For an address without a route the result
    is the one of "*". Errors of `host.interface_to` are passed on.
    """
    return endpoint_of(host.interface_to(address), governed) if governed else None


def _reply(flow: Flow) -> Flow:
    return Flow(flow.protocol, flow.destination, flow.source, flow.destination_port, flow.source_port)


def _is_udp(flow: Flow, port: int) -> bool:
    return flow.protocol == PROTOCOL_NUMBERS["udp"] and flow.destination_port == port
