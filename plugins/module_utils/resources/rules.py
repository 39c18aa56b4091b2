# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of policies and profiles: an action, and the packets that it is for.

Source: https://docs.tigera.io/calico/latest/reference/resources/networkpolicy#rule
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import parse_cidr
from .errors import Refused
from .fields import (
    BOUNDED_NAME,
    FILLED_RANGE,
    NAME,
    TEXT,
    Fields,
    Integer,
    Items,
    OneOf,
    SelectorText,
    field,
)
from .metadata import ANNOTATIONS
from .policy_selectors import EndpointSelector, NamespaceSelector, ScopedSelector
from .ports import PROTOCOL, PROTOCOLS_WITH_PORTS, RULE_PORT, Port

ACTIONS = ("Allow", "Deny", "Log", "Pass")
#: Words of BGPFilters, of iptables and of other firewalls for actions.
_OTHER_ACTIONS = (
    ("accept", "Allow"),
    ("permit", "Allow"),
    ("drop", "Deny"),
    ("reject", "Deny"),
    ("block", "Deny"),
    ("return", "Pass"),
    ("next-tier", "Pass"),
)
#: The IP version of a protocol. By name only, as in Calico.
_IP_VERSION_OF = {"ICMP": 4, "ICMPv6": 6}


#: Ranges in rules have a prefix length and no address bits beyond it, unlike ranges in network sets.
_NETS = Items(FILLED_RANGE)
_PORTS = Items(RULE_PORT)


@dataclasses.dataclass(frozen=True)
class ICMPFields:
    """A match on ICMP type and code. Without a code it matches any code, without a type it is no condition.

    `checked` raises Refused for a code without a type.
    """

    type: t.Optional[int] = field(Integer(0, 254))
    code: t.Optional[int] = field(Integer(0, 255))

    def checked(self) -> ICMPFields:
        if self.code is not None and self.type is None:
            raise Refused(self.code, "stands without a type.", "Write the type that the code belongs to.", "code")
        return self


@dataclasses.dataclass(frozen=True)
class ServiceMatch:
    """A match on the endpoints of a Kubernetes service. `checked` raises Refused without a name."""

    name: str = field(BOUNDED_NAME, "")
    namespace: str = field(BOUNDED_NAME, "")

    def checked(self) -> ServiceMatch:
        if not self.name:
            raise Refused(None, "is missing.", "Write the service's name.", "name")
        return self


@dataclasses.dataclass(frozen=True)
class ServiceAccountMatch:
    """A match on endpoints by the service account that they run as."""

    names: tuple[str, ...] = field(Items(NAME), ())
    selector: str = field(ScopedSelector(), "")


@dataclasses.dataclass(frozen=True)
class EntityRule:
    """A match on the source or destination of packets. All fields that are set must hold; without any, all match.

    `checked` raises Refused for services beside selectors, serviceAccounts or ranges, and for notNets of all addresses.
    """

    nets: tuple[str, ...] = field(_NETS, ())
    notNets: tuple[str, ...] = field(_NETS, ())
    selector: str = field(EndpointSelector(), "")
    notSelector: str = field(SelectorText(), "")
    namespaceSelector: str = field(NamespaceSelector(), "")
    ports: tuple[Port, ...] = field(_PORTS, ())
    notPorts: tuple[Port, ...] = field(_PORTS, ())
    serviceAccounts: t.Optional[ServiceAccountMatch] = field(Fields(ServiceAccountMatch))
    services: t.Optional[ServiceMatch] = field(Fields(ServiceMatch))

    def checked(self) -> EntityRule:
        for index, text in enumerate(self.notNets):
            cidr = parse_cidr(text)
            if cidr and not cidr.length:
                raise Refused(
                    text,
                    "excludes all addresses, so that the rule matches no packet.",
                    "Remove the rule, or write smaller ranges.",
                    f"notNets[{index}]",
                )
        if self.services:
            for name in ("namespaceSelector", "selector", "notSelector", "serviceAccounts", "nets", "notNets"):
                # An empty serviceAccounts counts as given.
                if getattr(self, name) not in ("", (), None):
                    raise Refused(
                        self.services.name, f"cannot stand together with {name}.", "Keep one of them.", "services"
                    )
        return self


@dataclasses.dataclass(frozen=True)
class HTTPPath:
    """A match on the path of a URL, or on its beginning: exactly one, with "/" first and no "?", "#" or space."""

    exact: str = field(TEXT, "")
    prefix: str = field(TEXT, "")

    def checked(self) -> HTTPPath:
        if self.exact and self.prefix:
            raise Refused(self.prefix, "cannot stand together with exact.", "Keep one of them.", "prefix")
        path = self.exact or self.prefix
        if not path:
            raise Refused(None, "has neither exact nor prefix.", "Write one of them.")
        if not path.startswith("/") or any(character in path for character in "? #"):
            raise Refused(
                path,
                "is not the path of a URL.",
                "Begin it with '/', and write it without '?', '#' and blanks.",
                "exact" if self.exact else "prefix",
            )
        return self


@dataclasses.dataclass(frozen=True)
class HTTPMatch:
    """A match on HTTP requests by one of these methods, each once, to one of these paths. An empty list means any."""

    methods: tuple[str, ...] = field(Items(TEXT), ())
    paths: tuple[HTTPPath, ...] = field(Items(Fields(HTTPPath)), ())

    def checked(self) -> HTTPMatch:
        for index, method in enumerate(self.methods):
            if method in self.methods[:index]:
                raise Refused(method, "stands in the list twice.", "Remove one of them.", f"methods[{index}]")
        return self


@dataclasses.dataclass(frozen=True)
class RuleMetadata:
    """The metadata of a rule, which has no effect on packets."""

    annotations: t.Mapping[str, str] = field(ANNOTATIONS, dict)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of a policy or profile. `protocol` and `notProtocol` are a name of PROTOCOLS, a number, or None if absent.

    `checked` raises Refused without an action, for an ipVersion other than 4 and 6, and for fields that do not fit
    together.
    """

    action: str = field(OneOf(ACTIONS, others=_OTHER_ACTIONS), "")
    ipVersion: t.Optional[int] = field(Integer())
    protocol: t.Union[str, int, None] = field(PROTOCOL)
    notProtocol: t.Union[str, int, None] = field(PROTOCOL)
    icmp: t.Optional[ICMPFields] = field(Fields(ICMPFields))
    notICMP: t.Optional[ICMPFields] = field(Fields(ICMPFields))
    source: EntityRule = field(Fields(EntityRule), EntityRule())
    destination: EntityRule = field(Fields(EntityRule), EntityRule())
    http: t.Optional[HTTPMatch] = field(Fields(HTTPMatch))
    metadata: t.Optional[RuleMetadata] = field(Fields(RuleMetadata))

    @property
    def entities(self) -> tuple[tuple[str, EntityRule], ...]:
        return (("source", self.source), ("destination", self.destination))

    def checked(self) -> Rule:
        if not self.action:
            raise Refused(None, "is missing.", f"Write {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}.", "action")
        self._check_ports()
        self._check_ip_version()
        self._check_icmp()
        self._check_nets()
        self._check_http()
        return self

    def _check_ports(self) -> None:
        for side, entity in self.entities:
            for name in ("ports", "notPorts"):
                if getattr(entity, name) and self.protocol not in PROTOCOLS_WITH_PORTS:
                    raise Refused(
                        None,
                        f"are given for protocol {self.protocol}, which has none."
                        if self.protocol
                        else "are given without a protocol.",
                        "Set protocol to TCP, UDP or SCTP.",
                        f"{side}.{name}",
                    )
        for name in ("ports", "notPorts"):
            if self.destination.services and getattr(self.destination, name):
                raise Refused(
                    None,
                    "cannot stand together with services, which have ports of their own.",
                    "Keep one of them.",
                    f"destination.{name}",
                )

    def _check_ip_version(self) -> None:
        if self.ipVersion not in (None, 4, 6):
            raise Refused(self.ipVersion, "is not a version of IP.", "Write 4 or 6, or leave it out.", "ipVersion")
        for name in ("protocol", "notProtocol"):
            protocol = getattr(self, name)
            version = _IP_VERSION_OF.get(protocol)
            if version and self.ipVersion not in (None, version):
                raise Refused(
                    self.ipVersion,
                    f"does not fit {name} {protocol}.",
                    f"Write {version}, or leave it out.",
                    "ipVersion",
                )

    def _check_icmp(self) -> None:
        # notICMP needs no protocol: a packet that is not ICMP is not such a message.
        if self.icmp and self.protocol not in _IP_VERSION_OF:
            raise Refused(
                None,
                f"is given for protocol {self.protocol}." if self.protocol else "is given without a protocol.",
                "Set protocol to ICMP or ICMPv6, by name.",
                "icmp",
            )

    def _check_nets(self) -> None:
        """Raise Refused unless all ranges of the rule are of one IP version, that of `ipVersion` if it is set."""
        version, because = self.ipVersion, "ipVersion"
        for side, entity in self.entities:
            for name in ("nets", "notNets"):
                for index, text in enumerate(getattr(entity, name)):
                    cidr = parse_cidr(text)
                    if cidr and version is None:
                        version, because = cidr.version, f"{side}.{name}[{index}]"
                    elif cidr and cidr.version != version:
                        raise Refused(
                            text,
                            f"is IPv{cidr.version} while {because} is IPv{version}."
                            if because != "ipVersion"
                            else f"is IPv{cidr.version} while ipVersion is {version}.",
                            "Write a rule for each version of IP.",
                            f"{side}.{name}[{index}]",
                        )

    def _check_http(self) -> None:
        if not self.http:
            return
        if self.protocol not in (None, "TCP"):
            raise Refused(self.protocol, "cannot stand together with http.", "Write TCP, or leave it out.", "protocol")
        if self.action != "Allow":
            raise Refused(None, f"cannot stand in a rule that says {self.action}.", "Write an Allow rule.", "http")


RULES = Items(Fields(Rule))


class WithRules(t.Protocol):
    """A policy or a profile."""

    @property
    def ingress(self) -> tuple[Rule, ...]: ...

    @property
    def egress(self) -> tuple[Rule, ...]: ...


def each_rule(of: WithRules) -> t.Iterator[tuple[str, str, Rule]]:
    """Yield (direction, path inside spec, rule), such as ("ingress", "ingress[0]", rule), ingress rules first."""
    for direction, rules in (("ingress", of.ingress), ("egress", of.egress)):
        for index, rule in enumerate(rules):
            yield direction, f"{direction}[{index}]", rule
