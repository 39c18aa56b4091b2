# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for rules that deny workloads by selector, but not if they come by a published port as their node.

A node gives packets of its workloads to addresses of other nodes its own address (natOutgoing). By a published port
they arrive with that address, which no selector of workloads matches. The inventory does not say which workloads
publish ports, so each rule is a finding that a published port would make ineffective.
"""

from __future__ import annotations

import itertools
import typing as t

from ....base import selectors
from ....base.addresses import bounds, family_of, format_address
from ....base.ports import PortRange
from ....policy.explain.evaluator import ALLOWED, DENIED, Evaluator
from ....policy.index.labels import effective_labels, labels_by_profile
from ....policy.model import (
    DENY,
    INGRESS,
    PROTOCOLS_WITH_PORTS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Flow,
    Policy,
    PolicyRule,
    PolicySet,
    protocol_number,
)
from ...fleet import Fleet
from .policy_lint import PolicyFinding

#: The most rules that are examined, and for each the most endpoints of a kind and ports that are tried.
_RULES, _ENDPOINTS, _PORTS = 1000, 3, 16
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
    family = next((pool.version for pool in fleet.pools if pool.natOutgoing), None)
    nodes = [node for node in fleet.nodes.values() if node.workload_node and family and node.address_of(family)]
    if fleet.policy is None or fleet.settings.nat_excludes_hosts or family is None or len(nodes) < 2:
        return []
    policy_set = fleet.policy.policy_set
    endpoints = [one for own in fleet.policy.own.values() for one in own]
    made = _Endpoints(fleet, endpoints, family)
    rules = list(itertools.islice(_rules(policy_set, made), _RULES))
    evaluator = Evaluator(policy_set, [*endpoints, *made.all])
    node = nodes[0].address_of(family)
    found: dict[str, PolicyFinding] = {}
    for one in rules:
        if one.policy.name not in found:
            by = _allowed_by(evaluator, one, node, family)
            if by:
                found[one.policy.name] = _finding(one, by)
    return list(found.values())


class _Endpoints:
    """Workloads with addresses of their own, made for a try. `all` are those that were made."""

    def __init__(self, fleet: Fleet, known: t.Iterable[Endpoint], family: int) -> None:
        if fleet.policy is None:
            raise ValueError("a fleet without policy has nothing to try")
        self.all: list[Endpoint] = []
        self._given = labels_by_profile(fleet.policy.policy_set.profiles)
        self._known = list({(one.labels, one.profiles): one for one in known if one.kind == WORKLOAD_ENDPOINT}.values())
        self._profiles = fleet.policy.policy.settings.workload_profiles
        pool = next(pool for pool in fleet.pools if pool.natOutgoing and pool.version == family)
        self._family = family
        self._last = bounds(pool.cidr)[1]
        self._by_labels: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], Endpoint] = {}

    def that(self, matches: t.Callable[[_Labels], bool], named: str) -> tuple[Endpoint, ...]:
        """Return endpoints whose labels match: some like those of the inventory, else one that is made up.

        That one has the labels that the selector `named` asks for, or none.
        """
        found = []
        for one in self._known:
            if matches(effective_labels(one.labels, one.profiles, self._given)):
                found.append(self._made(one.labels, one.profiles))
                if len(found) == _ENDPOINTS:
                    break
        for labels in (tuple(sorted(_labels_in(named).items())), ()):
            if not found and matches(effective_labels(labels, self._profiles, self._given)):
                found.append(self._made(labels, self._profiles))
        return tuple(found)

    def _made(self, labels: tuple[tuple[str, str], ...], profiles: tuple[str, ...]) -> Endpoint:
        key = (labels, profiles)
        if key not in self._by_labels:
            number = self._last - 1 - len(self.all)
            address = format_address(self._family, number)
            made = Endpoint(WORKLOAD_ENDPOINT, f"({address})", "", "", (address,), labels, profiles)
            self._by_labels[key] = made
            self.all.append(made)
        return self._by_labels[key]


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
        for number, rule in enumerate(policy.rules(INGRESS), 1):
            source = rule.source
            if rule.action != DENY or not source.selector:
                continue
            if rule.protocol is not None and rule.protocol not in PROTOCOLS_WITH_PORTS:
                continue
            if workloads is None:
                workloads = made.that(selectors.parse(policy.selector).matches, policy.selector)
            clients = made.that(selectors.parse(source.selects).matches, source.selector)
            if workloads and clients:
                yield _Rule(policy, number, rule, clients, workloads)


def _allowed_by(evaluator: Evaluator, tried: _Rule, node: str, family: int) -> str:
    """Return the rule or tier that allows packets from the address `node` that `tried` denies clients, "" for none."""
    rule = tried.rule
    protocols = [rule.protocol] if rule.protocol is not None else ["tcp", "udp"]
    for protocol, workload, client in itertools.product(protocols, tried.workloads, tried.clients):
        number = protocol_number(protocol)
        for port in _ports(evaluator, workload, rule):
            if workload is client or number is None:
                continue
            to = next(one for one in workload.addresses if family_of(one) == family)
            flow = Flow(number, client.addresses[0], to, _SOURCE_PORT, port)
            denied = evaluator.verdict(workload, INGRESS, flow)
            step = denied.decided_by
            if denied.action != DENIED or (step.policy, step.rule) != (tried.policy.name, tried.number):
                continue
            allowed = evaluator.verdict(workload, INGRESS, Flow(number, node, to, _SOURCE_PORT, port))
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
    return PolicyFinding(
        tried.policy.kind,
        tried.policy.name,
        f"rule {tried.number} of {INGRESS} denies by selector what a published port lets in: by a port that such a "
        "workload publishes, workloads of other nodes arrive with the address of their node (natOutgoing), which "
        f"{by} allows. Set calico_nat_outgoing_exclusions: IPPoolsAndHostIPs (docs/how-to/ports.md), or deny the "
        "nodes' addresses as well.",
    )
