# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a flow through the hosts that apply policy, with every decision on it, in order.

At one host (Felix, rules/static.go), the first decisions are those of untracked policy and preDNAT policy of the host
endpoint by which the packet comes in. If the host is the destination, that endpoint's normal policy follows. If the
host forwards the packet, these follow: the endpoint's applyOnForward policy, the egress policy of a source workload,
the ingress policy of a destination workload, and applyOnForward policy of the host endpoint by which the packet leaves.
The host endpoint "*" is also that of the interfaces of workloads for preDNAT and applyOnForward policy. A packet that
untracked or preDNAT policy allows skips the other policies of that host endpoint only. A workload's egress policy also
applies if it sends to its own host. Packets of the host itself meet untracked and normal policy of the host endpoint by
which they leave.

Answers belong to a tracked connection and pass without policy, with two exceptions. Untracked policy decides on each
packet alone, so also on answers. And a host does not track what its untracked policy allows: unless untracked policy
allows an answer, too, it meets all policy like the first packet of a flow. Connection tracking finds it invalid if the
protocol begins in another way.

The host also decides without policy: a host may always reach its own workloads, failsafe ports are open, other nodes
may send encapsulated packets and workloads, by default, may not. Workloads may not connect to members of etcd. A
default action follows the policy of a workload that sends to its own host. No workload's policy applies to a node's
probe endpoint: it exchanges echo messages with those of other nodes and nothing else.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import cidr
from ...base.ports import ETCD_PORTS
from ..chains.probe_rules import ECHOES
from ..chains.settings import DROP, IPIP, NEIGHBOR_DISCOVERY, ChainSettings
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
_ICMP = {4: "icmp", 6: "icmpv6"}  # the name of the protocol, by IP version

#: The protocols whose answers connection tracking finds invalid without the packet that they answer.
_WITH_FIRST_PACKETS = frozenset(PROTOCOL_NUMBERS[name] for name in ("tcp", "sctp", "icmp", "icmpv6"))
#: The ICMP types of requests, by protocol, and those of the answers (Linux, nf_conntrack_proto_icmp.c). Other messages
#: have no answer.
_ICMP_ANSWERS = {
    PROTOCOL_NUMBERS["icmp"]: {8: 0, 13: 14, 15: 16, 17: 18},
    PROTOCOL_NUMBERS["icmpv6"]: {128: 129, 139: 140},
}


@dataclasses.dataclass(frozen=True)
class PathHost:
    """A node and its network, without interfaces of workloads.

    `interfaces` are pairs of interface and its addresses, `routes` pairs of CIDR and interface, in any order.
    """

    name: str
    interfaces: tuple[tuple[str, tuple[str, ...]], ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    @property
    def addresses(self) -> frozenset[str]:
        return frozenset(address for _name, held in self.interfaces for address in held)

    def interface_to(self, address: str) -> str:
        """Return the interface of the route with the longest prefix that contains `address`, or "" if there is none."""
        leading = [(cidr(net).length, interface) for net, interface in self.routes if cidr(net).contains(cidr(address))]
        return max(leading)[1] if leading else ""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One verdict on a path, at the node `host`, in `direction` and at one of `hooks.HOOKS`.

    `endpoint` is the one whose policy is evaluated or whose failsafe decides, or None if the host decides by itself.
    With `answer`, the verdict is on the answer to the flow.
    """

    host: str
    direction: str
    hook: str
    verdict: Verdict
    endpoint: t.Optional[Endpoint] = None
    answer: bool = False


@dataclasses.dataclass(frozen=True)
class Path:
    """The decisions on a flow, and on its answer as far as hosts decide on that. `action` is "allow" or "deny".

    If it is "deny", the last stage denied. Without stages, the flow is allowed. In audit mode, stages may deny without
    effect.
    """

    action: str
    stages: tuple[Stage, ...] = ()


class _Denied(Exception):
    pass


class Paths:
    """A finder of the paths of many flows through the same hosts.

    `hosts` are the hosts that contribute stages. `settings` are those of all hosts, None means the defaults. `nodes`
    are the addresses of nodes that may send and receive encapsulated packets. `probes` maps the addresses of all probe
    endpoints to their nodes. Methods pass on errors of `Evaluator.verdict` and of a host's `interface_to`.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        hosts: t.Iterable[PathHost],
        settings: t.Optional[ChainSettings] = None,
        nodes: t.Collection[str] = (),
        probes: t.Optional[t.Mapping[str, str]] = None,
    ) -> None:
        self.evaluator = evaluator
        self.settings = settings or ChainSettings()
        self.nodes = nodes
        self.probes = probes or {}
        self._hosts = {host.name: host for host in hosts}
        self._untracked = any(policy.do_not_track for policy in evaluator.policy_set.policies)
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
        """Return the result of `there` and, if that allows the flow, of `back`, as one path."""
        there = self.there(flow, before_dnat)
        if there.action == DENIED:
            return there
        back = self.back(flow, there)
        return Path(back.action, (*there.stages, *back.stages))

    def there(self, flow: Flow, before_dnat: t.Optional[Flow] = None) -> Path:
        """Return the path of a flow's first packet from the host of its source to the host of its destination.

        With `before_dnat`, the flow arrives at the first of its hosts in that form, and DNAT there makes it `flow`.
        """
        source, destination = self._place(flow.source), self._place(flow.destination)
        asked = _Asked(self)
        try:
            for host in dict.fromkeys((source.host, destination.host)):
                if host:
                    asked.at(self._hosts[host], source, destination, flow, before_dnat or flow)
                    before_dnat = None
        except _Denied:
            return Path(DENIED, tuple(asked.stages))
        return Path(ALLOWED, tuple(asked.stages))

    def back(self, flow: Flow, there: Path, beyond: t.Optional[Flow] = None) -> Path:
        """Return the path of the answer to `flow`, whose own path is `there`; all of its stages are of the answer.

        Without untracked policy there are none, because answers then belong to a connection that is tracked. With
        `beyond`, the flow left its host in that form because of SNAT, and the answer arrives in the form that fits.
        """
        answer, arriving = answer_to(flow), answer_to(beyond or flow)
        if not self._untracked or answer is None or arriving is None:
            return Path(ALLOWED)
        source, destination = self._place(answer.source), self._place(answer.destination)
        asked = _Asked(self, there)
        try:
            for host in dict.fromkeys((source.host, destination.host)):
                if host:
                    asked.at(self._hosts[host], source, destination, answer, arriving)
        except _Denied:
            return Path(DENIED, tuple(asked.stages))
        return Path(ALLOWED, tuple(asked.stages))

    def is_here(self, address: str) -> bool:
        """Return whether an address is one of the hosts, of their workloads, or of a probe endpoint."""
        return address in self._places or address in self.probes

    def endpoints_to(self, address: str) -> tuple[str, ...]:
        """Return for each host the HostEndpoint of the interface by which it reaches an address, "" for none."""
        found = [_leading_to(address, host, self.governed[name]) for name, host in self._hosts.items()]
        return tuple(endpoint.name if endpoint else "" for endpoint in found)

    def _place(self, address: str) -> _Place:
        if address in self._places:
            return self._places[address]
        node = self.probes.get(address, "")
        return _Place(node if node in self._hosts else "", is_probe=bool(node))


class _Place(t.NamedTuple):
    """The place of an address: its host, "" if none of the known hosts, and the workload that has it.

    `workload` is None if the address is the host's own, that of a probe endpoint, or of none of these hosts.
    """

    host: str
    workload: t.Optional[Endpoint] = None
    is_probe: bool = False

    @property
    def forwarded(self) -> bool:
        """Whether the host forwards the packets of this address, which is not its own."""
        return self.is_probe or self.workload is not None


class _Asked:
    """The stages of a path so far. A method that adds a stage raises _Denied if that ends the path.

    In audit mode, a denial by policy does not end it. `answered` is the path of the flow to which this one is the
    answer.
    """

    def __init__(self, paths: Paths, answered: t.Optional[Path] = None) -> None:
        self.evaluator = paths.evaluator
        self.settings = paths.settings
        self.nodes = paths.nodes
        self.stages: list[Stage] = []
        self._governed = paths.governed
        self._answered = answered
        self._invalid = False  # whether the host at hand drops the packet because of connection tracking

    def at(self, host: PathHost, source: _Place, destination: _Place, flow: Flow, arriving: Flow) -> None:
        """Add the stages at `host`. `arriving` is the flow before DNAT, `flow` after it."""
        self._invalid = False
        governed = self._governed[host.name]
        from_here, to_here = source.host == host.name, destination.host == host.name
        to_workload = destination.workload if to_here else None
        to_host = to_here and not destination.forwarded
        if from_here and not source.forwarded:
            if to_workload and self._answered is None:
                self._host_says(host, EGRESS, ALLOWED, "a host may always reach its own workloads")
            elif not to_here:
                self._out_of_host(host, _leading_to(flow.destination, host, governed), flow)
            return
        if from_here:
            self._unless_refused(host, flow)
        # The interface of a workload has no HostEndpoint but "*".
        came_in = governed.get(WILDCARD) if from_here else _leading_to(arriving.source, host, governed)
        accepted = not from_here and self._untracked(host, came_in, INGRESS, arriving)
        if not accepted:
            if self._is_established(host, flow):
                return
            if came_in and not self._failsafe(INGRESS, arriving):
                accepted = self._ask(host, came_in, INGRESS, PRE_DNAT, arriving)
        if came_in and not to_host and not accepted:
            self._ask(host, came_in, INGRESS, FORWARD, flow)
        if from_here and source.workload:
            self._from_workload(host, source.workload, flow, to_host)
        elif from_here:
            self._by_probes(host, EGRESS, flow, destination)
        elif to_host:
            self._into_host(host, came_in, flow, accepted)
        if to_host:
            return
        if to_workload:
            self._ask(host, to_workload, INGRESS, NORMAL, flow)
        elif to_here:
            self._by_probes(host, INGRESS, flow, source)
        goes_out = governed.get(WILDCARD) if to_here else _leading_to(flow.destination, host, governed)
        if goes_out:
            self._ask(host, goes_out, EGRESS, FORWARD, flow)

    def _untracked(self, host: PathHost, endpoint: t.Optional[Endpoint], direction: str, flow: Flow) -> bool:
        """Return whether untracked policy of `endpoint` lets the flow pass: its other policies are skipped then.

        Flows with a failsafe, and their replies, are not evaluated.
        """
        other = EGRESS if direction == INGRESS else INGRESS
        if not endpoint or self._failsafe(direction, flow) or self._failsafe(other, _reply(flow)):
            return False
        return self._ask(host, endpoint, direction, UNTRACKED, flow)

    def _is_established(self, host: PathHost, flow: Flow) -> bool:
        """Return whether `flow` is the answer to one that the host tracks, and so passes it without further policy."""
        if self._answered is None:
            return False
        ours = [one for one in self._answered.stages if one.host == host.name and one.hook == UNTRACKED]
        tracked = all(one.verdict.action == UNDECIDED for one in ours)
        self._invalid = not tracked and self.settings.drop_invalid and flow.protocol in _WITH_FIRST_PACKETS
        return tracked

    def _unless_refused(self, host: PathHost, flow: Flow) -> None:
        """Raise _Denied, after adding a stage, if the host drops a workload's `flow` before policy."""
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
        if to_host and flow.protocol == PROTOCOL_NUMBERS["icmpv6"] and flow.icmp_type in NEIGHBOR_DISCOVERY:
            self._host_says(host, EGRESS, ALLOWED, "IPv6 does not work without these messages")
            return
        self._ask(host, workload, EGRESS, NORMAL, flow)
        if to_host:
            action = self.settings.default_endpoint_to_host_action
            verdict = DENIED if action == DROP else ALLOWED
            self._host_says(host, INGRESS, verdict, f"defaultEndpointToHostAction is {action}")

    def _by_probes(self, host: PathHost, direction: str, flow: Flow, other: _Place) -> None:
        """Add the stage of a probe endpoint of `host`, whose flow has `other` at its other end."""
        echo = ECHOES[flow.ip_version] if flow.protocol == PROTOCOL_NUMBERS[_ICMP[flow.ip_version]] else ()
        if other.is_probe and flow.icmp_type in echo:
            self._host_says(host, direction, ALLOWED, "probe endpoints of nodes may always exchange echo messages")
        else:
            reason = "a probe endpoint exchanges only echo messages, and only with probe endpoints of other nodes"
            self._host_says(host, direction, DENIED, reason)

    def _into_host(self, host: PathHost, endpoint: t.Optional[Endpoint], flow: Flow, accepted: bool) -> None:
        if self._is_tunnel(flow):
            known = flow.source in self.nodes
            reason = "the sender of an encapsulated packet is " + ("a node" if known else "no node of the fleet")
            self._host_says(host, INGRESS, ALLOWED if known else DENIED, reason)
        elif endpoint and not accepted:
            self._ask_unless_failsafe(host, endpoint, INGRESS, flow)

    def _out_of_host(self, host: PathHost, endpoint: t.Optional[Endpoint], flow: Flow) -> None:
        if not endpoint or self._untracked(host, endpoint, EGRESS, flow) or self._is_established(host, flow):
            return
        if self._is_tunnel(flow) and flow.destination in self.nodes:
            self._host_says(host, EGRESS, ALLOWED, "the receiver of an encapsulated packet is a node")
        else:
            self._ask_unless_failsafe(host, endpoint, EGRESS, flow)

    def _ask_unless_failsafe(self, host: PathHost, endpoint: Endpoint, direction: str, flow: Flow) -> None:
        failsafe = self._failsafe(direction, flow)
        if failsafe and not self._invalid:
            reason = f"{failsafe.protocol} port {failsafe.port} is a failsafe"
            self._say(host, endpoint, direction, ALLOWED, reason)
        else:
            self._ask(host, endpoint, direction, NORMAL, flow)

    def _failsafe(self, direction: str, flow: Flow) -> t.Optional[Failsafe]:
        """Return the first failsafe for the flow's protocol, destination port and peer, or None."""
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
        """Add the stage of this hook, and return whether something decides there and the flow passes."""
        verdict = self.evaluator.verdict(endpoint, direction, flow, hook)
        if verdict.action != UNDECIDED or len(verdict.trace) > 1:
            if self._invalid:
                reason = "the answer to a flow that is not tracked is an invalid packet"
                self._say(host, endpoint, direction, DENIED, reason)
            self._add(Stage(host.name, direction, hook, verdict, endpoint))
        if verdict.action == DENIED and not self.settings.audit:
            raise _Denied
        return verdict.action != UNDECIDED

    def _host_says(self, host: PathHost, direction: str, action: str, reason: str) -> None:
        self._say(host, None, direction, action, reason)

    def _say(self, host: PathHost, endpoint: t.Optional[Endpoint], direction: str, action: str, reason: str) -> None:
        step = EvaluationStep(ALLOW if action == ALLOWED else DENY, True, reason)
        self._add(Stage(host.name, direction, NORMAL, Verdict(action, (step,)), endpoint))
        if action == DENIED:
            raise _Denied

    def _add(self, stage: Stage) -> None:
        self.stages.append(stage if self._answered is None else dataclasses.replace(stage, answer=True))


def _leading_to(address: str, host: PathHost, governed: t.Mapping[str, Endpoint]) -> t.Optional[Endpoint]:
    """Return the HostEndpoint of the interface by which `host` reaches an address, or None.

    `governed` maps an interface, or "*" for all others, to its HostEndpoint. "*" is also for an address without a
    route.
    """
    return endpoint_of(host.interface_to(address), governed) if governed else None


def _reply(flow: Flow) -> Flow:
    """Return the flow of packets the other way, without an ICMP message."""
    return Flow(flow.protocol, flow.destination, flow.source, flow.destination_port, flow.source_port)


def answer_to(flow: Flow) -> t.Optional[Flow]:
    """Return the answer to a flow: its reply or, for ICMP, the message that answers it, None if none does."""
    answers = _ICMP_ANSWERS.get(flow.protocol)
    if answers is None:
        return _reply(flow)
    if flow.icmp_type not in answers:
        return None
    return dataclasses.replace(_reply(flow), icmp_type=answers[flow.icmp_type], icmp_code=0)


def _is_udp(flow: Flow, port: int) -> bool:
    return flow.protocol == PROTOCOL_NUMBERS["udp"] and flow.destination_port == port
