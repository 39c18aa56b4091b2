# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for rules that deny workloads by selector or net, but not if they come by a published port as their node.

A node gives packets of its workloads to addresses of other nodes its own address (natOutgoing). By a published port
they arrive with that address, which no selector of workloads matches, and no net of theirs has. The inventory does not
say which workloads publish ports, so each rule is a finding that a published port would make ineffective.
"""

from __future__ import annotations

import bisect
import itertools
import typing as t

from ....base import selectors
from ....base.addresses import bounds, family_of, format_address, number
from ....base.ports import PortRange
from ....policy.explain.evaluator import ALLOWED, DENIED, Evaluator
from ....policy.index.labels import effective_labels, labels_by_profile
from ....policy.model import (
    DENY,
    INGRESS,
    PROTOCOLS_WITH_PORTS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicyRule,
    PolicySet,
    protocol_number,
)
from ...fleet import Fleet
from .policy_lint import PolicyFinding

#: The most rules that are examined, and for each the most endpoints of a kind, ports and nets that are tried.
_RULES, _ENDPOINTS, _PORTS, _NETS = 1000, 3, 16, 16
#: A port that rules hardly name, and the source port of what is tried.
_ANY_PORT, _SOURCE_PORT = 9, 40000

_Labels = t.Mapping[str, str]


class _Rule(t.NamedTuple):
    """A rule to try: clients that it denies, and workloads that its policy applies to."""

    policy: Policy
    number: int
    rule: PolicyRule
    clients: tuple[Endpoint, ...]
    workloads: tuple[Endpoint, ...]


def findings(fleet: Fleet) -> list[PolicyFinding]:
    """Return a finding for the first such rule of each policy, [] if no packet between nodes is masqueraded.

    A rule is tried with labels that workloads of the inventory have and with labels that its selectors name.
    """
    found: dict[str, PolicyFinding] = {}
    for family in dict.fromkeys(pool.version for pool in fleet.pools if pool.natOutgoing):
        for name, finding in _findings(fleet, family):
            found.setdefault(name, finding)
    return list(found.values())


def _findings(fleet: Fleet, family: int) -> t.Iterator[tuple[str, PolicyFinding]]:
    """Yield the name of each policy with such a rule for an IP version of a pool with natOutgoing, and the finding."""
    nodes = [node for node in fleet.nodes.values() if node.workload_node and node.address_of(family)]
    if fleet.policy is None or fleet.settings.nat_excludes_hosts or len(nodes) < 2:
        return
    policy_set = fleet.policy.policy_set
    endpoints = [one for own in fleet.policy.own.values() for one in own]
    made = _Endpoints(fleet, endpoints, family)
    rules = list(itertools.islice(_rules(policy_set, made), _RULES))
    evaluator = Evaluator(policy_set, [*endpoints, *made.all])
    node = nodes[0].address_of(family)
    found: set[str] = set()
    for one in rules:
        if one.policy.name not in found:
            by = _allowed_by(evaluator, one, node, family)
            if by:
                found.add(one.policy.name)
                yield one.policy.name, _finding(one, by)


class _Endpoints:
    """Workloads with addresses of their own, made for a try. `all` are those that were made."""

    def __init__(self, fleet: Fleet, known: t.Iterable[Endpoint], family: int) -> None:
        if fleet.policy is None:
            raise ValueError("a fleet without policy has nothing to try")
        self.all: list[Endpoint] = []
        self._given = labels_by_profile(fleet.policy.policy_set.profiles)
        self._known = list({(one.labels, one.profiles): one for one in known if one.kind == WORKLOAD_ENDPOINT}.values())
        self._profiles = fleet.policy.policy.settings.workload_profiles
        pools = [pool.cidr for pool in fleet.pools if pool.natOutgoing and pool.version == family]
        self._family = family
        self._last = bounds(pools[0])[1]
        self._pools = [bounds(cidr) for cidr in pools]
        self._made: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...], int], Endpoint] = {}
        self._taken = sorted(
            ((number(address), one) for one in known for address in one.addresses if family_of(address) == family),
            key=lambda pair: pair[0],
        )
        self._numbers = [at for at, _endpoint in self._taken]

    def that(
        self, matches: t.Callable[[_Labels], bool], named: str, addresses: t.Iterable[int] = (0,)
    ) -> tuple[Endpoint, ...]:
        """Return endpoints whose labels match: some like those of the inventory, else one that is made up.

        That one has the labels that the selector `named` asks for, or none. Each is there once with each of
        `addresses`, which are numbers: 0 stands for any that is free.
        """
        found: list[tuple[tuple[tuple[str, str], ...], tuple[str, ...]]] = []
        for one in self._known:
            if matches(effective_labels(one.labels, one.profiles, self._given)):
                found.append((one.labels, one.profiles))
                if len(found) == _ENDPOINTS:
                    break
        for labels in (tuple(sorted(_labels_in(named).items())), ()):
            if not found and matches(effective_labels(labels, self._profiles, self._given)):
                found.append((labels, self._profiles))
        return tuple(self._with(*labels, at) for at in addresses for labels in found)

    def denied_by(self, source: Entity) -> tuple[Endpoint, ...]:
        """Return endpoints in pools with natOutgoing that a rule with this `source` may be about."""
        matches = selectors.parse(source.selects).matches if source.selector else lambda labels: True
        if not source.nets and not source.not_nets:
            return self.that(matches, source.selector)
        known: list[Endpoint] = []
        free: list[int] = []
        for first, last in self._ranges(source.nets):
            begin, end = bisect.bisect_left(self._numbers, first), bisect.bisect_right(self._numbers, last)
            known += [
                one
                for _at, one in self._taken[begin : begin + _ENDPOINTS]
                if _at <= last
                and one.kind == WORKLOAD_ENDPOINT
                and matches(effective_labels(one.labels, one.profiles, self._given))
            ]
            free += {at for at in (first, (first + last) // 2, last) if at not in self._numbers[begin:end]}
        return (*known[:_ENDPOINTS], *self.that(matches, source.selector, sorted(free)[:_ENDPOINTS]))

    def _ranges(self, nets: t.Sequence[str]) -> list[tuple[int, int]]:
        """Return what `nets` and the pools have in common, as numbers of addresses; the pools for no nets."""
        wanted = [bounds(net) for net in nets if family_of(net) == self._family] if nets else self._pools
        both = ((max(a, b), min(y, z)) for a, y in wanted for b, z in self._pools)
        return list(itertools.islice(((first, last) for first, last in both if first <= last), _NETS))

    def _with(self, labels: tuple[tuple[str, str], ...], profiles: tuple[str, ...], at: int) -> Endpoint:
        key = (labels, profiles, at)
        if key not in self._made:
            address = format_address(self._family, at or self._last - 1 - len(self.all))
            made = Endpoint(WORKLOAD_ENDPOINT, f"({address})", "", "", (address,), labels, profiles)
            self._made[key] = made
            self.all.append(made)
        return self._made[key]


def _labels_in(selector: str) -> dict[str, str]:
    """Return labels that satisfy the parts of a selector that ask for a label or a value, the first of several."""
    found: dict[str, str] = {}
    for leaf in selectors.leaves(selectors.parse(selector).root) if selector else ():
        if isinstance(leaf, selectors.LabelEquals):
            found.setdefault(leaf.label, leaf.value)
        elif isinstance(leaf, selectors.LabelIn) and leaf.values:
            found.setdefault(leaf.label, leaf.values[0])
        elif isinstance(leaf, selectors.Has):
            found.setdefault(leaf.label, "true")
    return found


def _rules(policy_set: PolicySet, made: _Endpoints) -> t.Iterator[_Rule]:
    for policy in policy_set.policies:
        if policy.staged or policy.pre_dnat or policy.do_not_track or INGRESS not in policy.types:
            continue
        workloads: t.Optional[tuple[Endpoint, ...]] = None
        for position, rule in enumerate(policy.rules(INGRESS), 1):
            source = rule.source
            if rule.action != DENY or not (source.selector or source.nets or source.not_nets):
                continue
            if rule.protocol is not None and rule.protocol not in PROTOCOLS_WITH_PORTS:
                continue
            if workloads is None:
                workloads = made.that(selectors.parse(policy.selector).matches, policy.selector)
            clients = made.denied_by(source)
            if workloads and clients:
                yield _Rule(policy, position, rule, clients, workloads)


def _allowed_by(evaluator: Evaluator, tried: _Rule, node: str, family: int) -> str:
    """Return the rule or tier that allows packets from the address `node` that `tried` denies clients, "" for none."""
    rule = tried.rule
    protocols = [rule.protocol] if rule.protocol is not None else ["tcp", "udp"]
    for protocol, workload, client in itertools.product(protocols, tried.workloads, tried.clients):
        protocol_id = protocol_number(protocol)
        for port in _ports(evaluator, workload, rule):
            if workload is client or protocol_id is None:
                continue
            to = next(one for one in workload.addresses if family_of(one) == family)
            flow = Flow(protocol_id, client.addresses[0], to, _SOURCE_PORT, port)
            denied = evaluator.verdict(workload, INGRESS, flow)
            step = denied.decided_by
            if denied.action != DENIED or (step.policy, step.rule) != (tried.policy.name, tried.number):
                continue
            allowed = evaluator.verdict(workload, INGRESS, Flow(protocol_id, node, to, _SOURCE_PORT, port))
            if allowed.action == ALLOWED:
                step = allowed.decided_by
                return f"{step.policy or f'profile {step.profile}'}#{step.rule}" if step.rule else f"tier {step.tier}"
    return ""


def _ports(evaluator: Evaluator, workload: Endpoint, rule: PolicyRule) -> list[int]:
    """Return ports to try: those of the rule, or else those that policies for the workload name, and any other one."""
    own = [port.first for port in rule.destination.ports if isinstance(port, PortRange)]
    if own:
        return own[:_PORTS]
    others = (one for policy in evaluator.selecting(workload) for one in policy.rules(INGRESS))
    named = [port.first for one in others for port in one.destination.ports if isinstance(port, PortRange)]
    return list(dict.fromkeys([_ANY_PORT, *named]))[:_PORTS]


def _finding(tried: _Rule, by: str) -> PolicyFinding:
    how = "selector" if tried.rule.source.selector else "net"
    return PolicyFinding(
        tried.policy.kind,
        tried.policy.name,
        f"rule {tried.number} of {INGRESS} denies by {how} what a published port lets in: by a port that such a "
        "workload publishes, workloads of other nodes arrive with the address of their node (natOutgoing), which "
        f"{by} allows. Set calico_nat_outgoing_exclusions: IPPoolsAndHostIPs (docs/how-to/ports.md), or deny the "
        "nodes' addresses as well.",
    )
