# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy as values: normalised, of no particular IP family, hashable. Compiler and evaluator know nothing else of it.

Selectors are texts in the canonical form of `selectors.py`; namespaces and service accounts are folded in. Names of
actions, policy types and kinds are those of Calico v3.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..base.addresses import family_of
from ..base.ports import PortRange

INGRESS, EGRESS = "Ingress", "Egress"
ALLOW, DENY, LOG, PASS = "Allow", "Deny", "Log", "Pass"
WORKLOAD_ENDPOINT, HOST_ENDPOINT = "WorkloadEndpoint", "HostEndpoint"

DEFAULT_TIER = "default"
#: Order of the tier `default` where nobody defines it, as Calico makes it.
DEFAULT_TIER_ORDER = 1_000_000.0

#: HostEndpoint.interfaceName that stands for all interfaces without a HostEndpoint of their own.
WILDCARD = "*"

#: Names of protocols, as in `PolicyRule.protocol`, and their numbers (IANA). All others go by number.
PROTOCOL_NUMBERS: dict[str, int] = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}
PROTOCOL_NAMES: dict[int, str] = {number: name for name, number in PROTOCOL_NUMBERS.items()}
#: Those together with which a rule may give ports, and for which ports have names.
PROTOCOLS_WITH_PORTS = frozenset({"tcp", "udp", "sctp"})

Protocol = t.Union[str, int]


def protocol_number(protocol: Protocol) -> int:
    """The IANA number of a name, or the number itself. Raises KeyError."""
    return protocol if isinstance(protocol, int) else PROTOCOL_NUMBERS[protocol]


@dataclasses.dataclass(frozen=True)
class NamedPort:
    """The port that each endpoint gives this name, for the rule's protocol."""

    name: str


Port = t.Union[PortRange, NamedPort]


@dataclasses.dataclass(frozen=True)
class Icmp:
    """An ICMP type, and a code or any code. Both None: any message."""

    type: t.Optional[int] = None
    code: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Entity:
    """A rule's source or destination: all fields that are given must match.

    `nets` and `ports` match when one of them does, `not_nets` and `not_ports` when none does. `nets` and `not_nets` are
    canonical CIDRs of both families. The empty selector is that which was not given: it matches addresses that
    nobody has as well, where "all()" matches those of endpoints and network sets only.
    """

    nets: tuple[str, ...] = ()
    not_nets: tuple[str, ...] = ()
    selector: str = ""
    not_selector: str = ""
    ports: tuple[Port, ...] = ()
    not_ports: tuple[Port, ...] = ()


@dataclasses.dataclass(frozen=True)
class PolicyRule:
    """One rule: what is not given matches everything.

    `action` is "Allow", "Deny", "Log" or "Pass". `protocol` and `not_protocol` are canonical: a name of
    PROTOCOL_NUMBERS, else a number from 1 to 255. Ports are given together with a protocol that has ports only, `icmp`
    and `not_icmp` together with "icmp" or "icmpv6". `annotations` are the rule's own, sorted.
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


@dataclasses.dataclass(frozen=True)
class Policy:
    """A GlobalNetworkPolicy or NetworkPolicy.

    `name` is unique among all policies: "web", or "<namespace>/web" for a NetworkPolicy. `types` are those in force, so
    rules of a direction that is not among them count for nothing. A `staged` policy decides nothing: it is evaluated,
    and what it would deny is logged.
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
        """Those of a direction, "Ingress" or "Egress"."""
        return self.ingress if direction == INGRESS else self.egress


@dataclasses.dataclass(frozen=True)
class PolicyTier:
    """A group of policies. What they apply to and do not decide meets `default_action`, "Deny" or "Pass"."""

    name: str
    order: t.Optional[float] = None
    default_action: str = DENY


@dataclasses.dataclass(frozen=True)
class PolicyProfile:
    """Labels for those that list it to inherit, and rules for where no policy decides."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()

    def rules(self, direction: str) -> tuple[PolicyRule, ...]:
        """Those of a direction, "Ingress" or "Egress"."""
        return self.ingress if direction == INGRESS else self.egress


@dataclasses.dataclass(frozen=True)
class DefinedPort:
    """A port with a name; `protocol` is a name of PROTOCOLS_WITH_PORTS."""

    name: str
    protocol: str
    port: int


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A workload's interface or a host's, on any node.

    `kind` is "WorkloadEndpoint" or "HostEndpoint". `name` is unique among its kind: "default/web" (the workload), or
    the HostEndpoint's. `interface` is the host end ("cali..."); of a HostEndpoint its interfaceName, "*" for all, or
    "" where the interface is that which bears one of `addresses`. These are single addresses without a prefix length,
    of both families, in canonical form. `labels` are its own, sorted.
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


@dataclasses.dataclass(frozen=True)
class PolicyNetworkSet:
    """A NetworkSet ("<namespace>/<name>") or GlobalNetworkSet: addresses that selectors find by its labels."""

    name: str
    namespace: str = ""
    nets: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    profiles: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class PolicySet:
    """All there is besides endpoints, in the order in which it is evaluated. Made by `policy_set`."""

    tiers: tuple[PolicyTier, ...] = ()
    policies: tuple[Policy, ...] = ()
    profiles: tuple[PolicyProfile, ...] = ()
    network_sets: tuple[PolicyNetworkSet, ...] = ()


def policy_set(
    tiers: t.Iterable[PolicyTier] = (),
    policies: t.Iterable[Policy] = (),
    profiles: t.Iterable[PolicyProfile] = (),
    network_sets: t.Iterable[PolicyNetworkSet] = (),
) -> PolicySet:
    """The set, sorted, and with a tier `default` in any case.

    Tiers and the policies within one go by order, those without an order last, then by name (Felix, policy_sorter.go).
    Raises ValueError for a policy whose tier is not among `tiers`, for it would be in force nowhere, and for two of
    one name.
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
    """The first packet of a flow. `protocol` is a number; it has ports, or type and code, where its protocol has."""

    protocol: int
    source: str
    destination: str
    source_port: t.Optional[int] = None
    destination_port: t.Optional[int] = None
    icmp_type: t.Optional[int] = None
    icmp_code: t.Optional[int] = None

    @property
    def ip_version(self) -> int:
        """That of the destination; a flow from one family to the other is no flow."""
        return family_of(self.destination)


@dataclasses.dataclass(frozen=True)
class Failsafe:
    """A port that no policy for a host can close, to nobody or only for those in `net` (Felix, ProtoPort)."""

    protocol: str
    port: int
    net: str = ""


class NamedPortKey(t.NamedTuple):
    """Which (address, port) pairs a named port stands for: of endpoints that `selector` matches, "" for all."""

    name: str
    protocol: str
    selector: str


#: What a set's members are asked for by: a selector's canonical text, or a named port.
SetKey = t.Union[str, NamedPortKey]
