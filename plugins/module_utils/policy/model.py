# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy as values: normalised, hashable, for both IP versions. The compiler and the evaluator use nothing else.

Selectors are texts in the canonical form of `selectors.py`, with namespaces and service accounts folded in. Names of
actions, policy types and kinds are those of Calico v3.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import typing as t

from ..base import selectors
from ..base.addresses import family_of
from ..base.ports import PortRange

INGRESS, EGRESS = "Ingress", "Egress"
ALLOW, DENY, LOG, PASS = "Allow", "Deny", "Log", "Pass"
WORKLOAD_ENDPOINT, HOST_ENDPOINT = "WorkloadEndpoint", "HostEndpoint"

DEFAULT_TIER = "default"
#: The order of the tier `default` if no Tier resource defines it, as in Calico.
DEFAULT_TIER_ORDER = 1_000_000.0

#: The HostEndpoint.interfaceName that means all interfaces without a HostEndpoint of their own.
WILDCARD = "*"

#: Names of protocols, as in `PolicyRule.protocol`, and their IANA numbers. All other protocols are written as numbers.
PROTOCOL_NUMBERS: dict[str, int] = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}
PROTOCOL_NAMES: dict[int, str] = {number: name for name, number in PROTOCOL_NUMBERS.items()}
#: The number of ICMP by IP version.
ICMP_NUMBERS = {4: PROTOCOL_NUMBERS["icmp"], 6: PROTOCOL_NUMBERS["icmpv6"]}
#: The protocols for which a rule may have ports, and endpoints may have named ports.
PROTOCOLS_WITH_PORTS = frozenset({"tcp", "udp", "sctp"})

Protocol = t.Union[str, int]

_COMBINED = 2048  # the most pairs of selectors whose combination is remembered


def protocol_number(protocol: Protocol) -> int:
    """Return the IANA number of a protocol; a number is returned unchanged. Raise KeyError for an unknown name."""
    return protocol if isinstance(protocol, int) else PROTOCOL_NUMBERS[protocol]


@dataclasses.dataclass(frozen=True, slots=True)
class NamedPort:
    """A port in a rule by its name. Each endpoint defines its own number for it, per protocol."""

    name: str

    @property
    def plain(self) -> str:
        """The port as Calico writes it."""
        return self.name


Port = t.Union[PortRange, NamedPort]


@dataclasses.dataclass(frozen=True, slots=True)
class Icmp:
    """An ICMP type and code to match. A code of None matches any code, a type of None any message."""

    type: t.Optional[int] = None
    code: t.Optional[int] = None


@dataclasses.dataclass(frozen=True, slots=True)
class Entity:
    """A match on the source or destination of packets: all fields that are set must match.

    `nets` and `ports` match if one of their items does, `not_nets` and `not_ports` if none does. CIDRs are canonical,
    of both IP versions. `selector` and `not_selector` are as written: `selects` and `excludes` say which addresses they
    mean. "all()" matches only addresses of endpoints and network sets, and "" every address.
    """

    nets: tuple[str, ...] = ()
    not_nets: tuple[str, ...] = ()
    selector: str = ""
    not_selector: str = ""
    ports: tuple[Port, ...] = ()
    not_ports: tuple[Port, ...] = ()

    @property
    def selects(self) -> str:
        """The canonical selector that an owner of the address must match, "" if the address needs no owner.

        With both selectors, the same endpoint or network set must match `selector` and not `not_selector`, as in Felix
        (rule_scanner.go). It raises SelectorError if both are set and one of them is not valid.
        """
        return _but_not(self.selector, self.not_selector) if self.not_selector and self.selector else self.selector

    @property
    def excludes(self) -> str:
        """The selector that no owner of the address may match, "" for none: `not_selector` without a `selector`."""
        return "" if self.selector else self.not_selector


@functools.lru_cache(_COMBINED)
def _but_not(selector: str, not_selector: str) -> str:
    root = selectors.parse(selector).root
    operands = root.operands if isinstance(root, selectors.And) else (root,)
    return selectors.canonical(selectors.And((*operands, selectors.Not(selectors.parse(not_selector).root))))


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule of a policy or profile. A field that is not set matches every packet.

    `action` is "Allow", "Deny", "Log" or "Pass". `protocol` and `not_protocol` are a name of PROTOCOL_NUMBERS, or a
    number from 1 to 255 if the protocol has no name there. Ports occur only with a protocol that has ports, `icmp` and
    `not_icmp` only with "icmp" or "icmpv6". `annotations` are sorted pairs of key and value.
    """

    action: str
    ip_version: t.Optional[int] = None
    protocol: t.Optional[Protocol] = None
    not_protocol: t.Optional[Protocol] = None
    icmp: t.Optional[Icmp] = None
    not_icmp: t.Optional[Icmp] = None
    source: Entity = Entity()
    destination: Entity = Entity()
    annotations: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A GlobalNetworkPolicy or NetworkPolicy.

    `name` is unique among all policies: "web", or "<namespace>/web" for a NetworkPolicy, with "staged:web" instead of
    "web" for a staged kind. `types` are the directions in force; rules of another direction have no effect. An `order`
    of None comes last in the tier. A `staged` policy decides nothing: it is evaluated, and packets that it would deny
    are logged. For `do_not_track`, `pre_dnat` and `apply_on_forward` see `hooks.applies_at`.
    """

    name: str
    kind: str = "GlobalNetworkPolicy"
    tier: str = DEFAULT_TIER
    order: t.Optional[float] = None
    selector: str = "all()"
    types: tuple[str, ...] = (INGRESS,)
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()
    do_not_track: bool = False
    pre_dnat: bool = False
    apply_on_forward: bool = False
    performance_hints: tuple[str, ...] = ()
    staged: bool = False

    def rules(self, direction: str) -> tuple[PolicyRule, ...]:
        """Return the rules of a direction, in order; also if it is not among `types`."""
        return self.ingress if direction == INGRESS else self.egress


@dataclasses.dataclass(frozen=True)
class PolicyTier:
    """A group of policies. `default_action`, "Deny" or "Pass", is for flows that no policy of the tier decides.

    An `order` of None comes last.
    """

    name: str
    order: t.Optional[float] = None
    default_action: str = DENY


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyProfile:
    """Labels that endpoints inherit from it, and rules for flows that no policy decides."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()

    def rules(self, direction: str) -> tuple[PolicyRule, ...]:
        return self.ingress if direction == INGRESS else self.egress


@dataclasses.dataclass(frozen=True, slots=True)
class DefinedPort:
    """A named port of an endpoint; `protocol` is in PROTOCOLS_WITH_PORTS."""

    name: str
    protocol: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """An interface of a workload or a host, on any node.

    `kind` is "WorkloadEndpoint" or "HostEndpoint". `name` is unique within its kind: "default/web" for a workload.
    `interface` is the host side of a workload's interface ("cali..."). For a HostEndpoint it is the interfaceName, "*"
    for all, or "" for interfaces that have one of `addresses`. `addresses` are single addresses of both IP versions in
    canonical form, without a prefix length. `labels` are sorted, without those from profiles. `profiles` are names, in
    the order of evaluation. `namespace` is "" for a HostEndpoint.
    """

    kind: str
    name: str
    node: str
    interface: str = ""
    addresses: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    profiles: tuple[str, ...] = ()
    ports: tuple[DefinedPort, ...] = ()
    namespace: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyNetworkSet:
    """A NetworkSet ("<namespace>/<name>") or GlobalNetworkSet: CIDRs that selectors find by the set's labels."""

    name: str
    namespace: str = ""
    nets: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    profiles: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class PolicySet:
    """All policy besides endpoints. `policy_set` makes it, with tiers and policies in the order of evaluation."""

    tiers: tuple[PolicyTier, ...] = ()
    policies: tuple[Policy, ...] = ()
    profiles: tuple[PolicyProfile, ...] = ()
    network_sets: tuple[PolicyNetworkSet, ...] = ()

    def sharing(self, other: PolicySet) -> PolicySet:
        """Return an equal policy set that has the objects of `other` where they are equal."""
        return PolicySet(
            _shared(self.tiers, other.tiers),
            _shared(self.policies, other.policies),
            _shared(self.profiles, other.profiles),
            _shared(self.network_sets, other.network_sets),
        )


_V = t.TypeVar("_V", PolicyTier, Policy, PolicyProfile, PolicyNetworkSet)


def _shared(own: tuple[_V, ...], known: tuple[_V, ...]) -> tuple[_V, ...]:
    """Return `own` with the objects of `known` that have the same name and are equal; `known` itself if all are."""
    by_name = {one.name: one for one in known}
    found = tuple(by_name[one.name] if by_name.get(one.name) == one else one for one in own)
    return known if found == known else found


class LiveNames(t.NamedTuple):
    """The names of the tiers and policies of a PolicySet that are those of live documents."""

    tiers: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()


def policy_set(
    tiers: t.Iterable[PolicyTier] = (),
    policies: t.Iterable[Policy] = (),
    profiles: t.Iterable[PolicyProfile] = (),
    network_sets: t.Iterable[PolicyNetworkSet] = (),
) -> PolicySet:
    """Return the PolicySet of these values, sorted, with a tier `default` added if it is missing.

    Tiers, and policies within a tier, are sorted by order and then by name; those without an order come last (Felix,
    policy_sorter.go). Raise ValueError if two policies have the same name, or if a policy's tier does not exist,
    because that policy would have no effect.
    """
    by_name = {tier.name: tier for tier in tiers}
    by_name.setdefault(DEFAULT_TIER, PolicyTier(DEFAULT_TIER, DEFAULT_TIER_ORDER))
    ordered = sorted(by_name.values(), key=_place)
    place_of_tier = {tier.name: index for index, tier in enumerate(ordered)}
    policies = list(policies)
    names = collections.Counter(policy.name for policy in policies)
    if len(names) < len(policies):
        raise ValueError(f"there are {names.most_common(1)[0][1]} policies {names.most_common(1)[0][0]}")
    for policy in policies:
        if policy.tier not in place_of_tier:
            raise ValueError(f"policy {policy.name} is in tier {policy.tier}, which does not exist")
    return PolicySet(
        tiers=tuple(ordered),
        policies=tuple(sorted(policies, key=lambda policy: (place_of_tier[policy.tier], *_place(policy)))),
        profiles=tuple(sorted(profiles, key=lambda profile: profile.name)),
        network_sets=tuple(sorted(network_sets, key=lambda network_set: network_set.name)),
    )


def _place(ordered: t.Union[PolicyTier, Policy]) -> tuple[bool, float, str]:
    return (ordered.order is None, ordered.order or 0.0, ordered.name)


@dataclasses.dataclass(frozen=True)
class Flow:
    """The first packet of a flow. `protocol` is an IANA number, addresses are canonical.

    Ports, or ICMP type and code, are None if the protocol does not have them.
    """

    protocol: int
    source: str
    destination: str
    source_port: t.Optional[int] = None
    destination_port: t.Optional[int] = None
    icmp_type: t.Optional[int] = None
    icmp_code: t.Optional[int] = None

    @property
    def ip_version(self) -> int:
        return family_of(self.destination)


@dataclasses.dataclass(frozen=True)
class Failsafe:
    """A port that no policy for a host can close. `net` limits this to peers in that CIDR, "" is for all peers.

    `protocol` is a name of PROTOCOLS_WITH_PORTS. Felix calls the pair ProtoPort.
    """

    protocol: str
    port: int
    net: str = ""


class NamedPortKey(t.NamedTuple):
    """The key of the set of (address, port) pairs that a named port means, at endpoints that match `selector`.

    The selector "" matches all endpoints.
    """

    name: str
    protocol: str
    selector: str


#: The key of a set that rules refer to: the canonical text of a selector, or a named port.
SetKey = t.Union[str, NamedPortKey]
