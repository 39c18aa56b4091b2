# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NetworkPolicy and GlobalNetworkPolicy: rules for the endpoints that a selector finds.

Sources: https://docs.tigera.io/calico/latest/reference/resources/networkpolicy and .../globalnetworkpolicy
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import Refused
from ..fields import FLAG, NUMBER, SUBDOMAIN, Items, OneOf, Text, field, is_label
from ..policy_selectors import EndpointSelector, PolicyScopeSelector
from ..resource import NamespacedResource, Resource
from ..rules import RULES, Rule, each_rule
from .tier import DEFAULT_TIER, TIER_NAME_REMEDY, TIER_NAME_RULE, is_tier_name

POLICY_TYPES = ("Ingress", "Egress")

_TYPES = Items(OneOf(POLICY_TYPES))
_TIER = Text(is_tier_name, TIER_NAME_RULE, TIER_NAME_REMEDY)
_HINTS = Items(OneOf(("AssumeNeededOnEveryNode",)))
#: Names of policies that Calico converts from policies of Kubernetes and OpenStack.
_CONVERTED = re.compile(rf"(knp|ossg)\.default\.({SUBDOMAIN.pattern})", re.ASCII)

P = t.TypeVar("P", bound="_Policy")


@dataclasses.dataclass(frozen=True)
class _Policy(Resource):
    """The base of both kinds of policies. `tier` is "default" if none is given.

    A policy without `order` comes last in its tier. `types` are as written, or derived from the rules if none are,
    except in a staged deletion. Refused are a repeated type or hint, services on the wrong side of a rule, and http in
    an egress rule.
    """

    tier: str = field(_TIER, "")
    order: t.Optional[float] = field(NUMBER)
    selector: str = field(EndpointSelector("all()"), "all()")
    serviceAccountSelector: str = field(PolicyScopeSelector(), "")
    types: tuple[str, ...] = field(_TYPES, ())
    ingress: tuple[Rule, ...] = field(RULES, ())
    egress: tuple[Rule, ...] = field(RULES, ())
    performanceHints: tuple[str, ...] = field(_HINTS, ())

    def checked(self: P) -> P:
        for name in ("types", "performanceHints"):
            entries = getattr(self, name)
            for index, entry in enumerate(entries):
                if entry in entries[:index]:
                    raise Refused(entry, "stands in the list twice.", "Remove one of them.", f"{name}[{index}]")
        for direction, path, rule in each_rule(self):
            theirs, other = ("source", "destination") if direction == "ingress" else ("destination", "source")
            misplaced = getattr(rule, other).services
            if misplaced:
                raise Refused(
                    misplaced.name,
                    f"cannot stand in the {other} of an {direction} rule.",
                    f"A service is matched as the {theirs} there: move it, or remove it.",
                    f"{path}.{other}.services",
                )
            if direction == "egress" and rule.http:
                raise Refused(None, "cannot stand in an egress rule.", "Match HTTP in ingress rules.", f"{path}.http")
        return dataclasses.replace(self, types=self.types or _types_of_rules(self.ingress, self.egress))

    def checked_metadata(self: P) -> P:
        """Return the policy with its final name and its tier, "default" if none is given.

        As in Calico, a name may have one dot ("platform.web"), whatever the tier is. In the tier "default" the prefix
        "default." is removed.
        """
        name, tier = self.name, self.tier or DEFAULT_TIER
        parts = name.split(".")
        if not (len(parts) <= 2 and all(map(is_label, parts))) and not self._is_converted(name):
            raise Refused(
                name,
                "is not a name that a policy can have.",
                "Use lower case letters, digits and '-', with at most one dot between them.",
                "name",
            )
        if tier == DEFAULT_TIER and len(parts) == 2 and parts[0] == DEFAULT_TIER:
            name = parts[1]
        return dataclasses.replace(self, tier=tier, metadata=dataclasses.replace(self.metadata, name=name))

    def _is_converted(self, name: str) -> bool:
        return False


def _types_of_rules(ingress: tuple[Rule, ...], egress: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the policy types by the rules, as Calico's client does: a policy without rules is one for ingress."""
    if not egress:
        return ("Ingress",)
    return POLICY_TYPES if ingress else ("Egress",)


@dataclasses.dataclass(frozen=True)
class GlobalNetworkPolicy(_Policy):
    """A policy for endpoints of all namespaces, and for endpoints without one.

    `checked` also refuses preDNAT beside doNotTrack or egress, either flag without applyOnForward, and services without
    a namespace.
    """

    KIND: t.ClassVar[str] = "GlobalNetworkPolicy"

    namespaceSelector: str = field(PolicyScopeSelector(), "")
    doNotTrack: bool = field(FLAG, False)
    preDNAT: bool = field(FLAG, False)
    applyOnForward: bool = field(FLAG, False)

    def checked(self) -> GlobalNetworkPolicy:
        if self.preDNAT and self.doNotTrack:
            raise Refused(True, "cannot stand together with doNotTrack.", "Write a policy for each of both.", "preDNAT")
        for name in ("preDNAT", "doNotTrack"):
            if getattr(self, name) and not self.applyOnForward:
                raise Refused(
                    False,
                    f"does not go with {name}, which is for forwarded packets too.",
                    "Set applyOnForward: true.",
                    "applyOnForward",
                )
        if self.preDNAT and self.egress:
            raise Refused(
                None,
                "cannot stand together with preDNAT, which is for packets that arrive.",
                "Move the rules to another policy.",
                "egress",
            )
        if self.preDNAT and "Egress" in self.types:
            raise Refused(
                "Egress",
                "cannot stand together with preDNAT, which is for packets that arrive.",
                "Write [Ingress], or leave types out.",
                f"types[{self.types.index('Egress')}]",
            )
        for direction, path, rule in each_rule(self):
            side = "source" if direction == "ingress" else "destination"
            services = getattr(rule, side).services
            if services and not services.namespace:
                raise Refused(
                    None,
                    "is missing.",
                    "A GlobalNetworkPolicy is in no namespace: write that of the service.",
                    f"{path}.{side}.services.namespace",
                )
        return super().checked()


@dataclasses.dataclass(frozen=True)
class NetworkPolicy(_Policy, NamespacedResource):
    """A policy for the workload endpoints of its namespace. Fields that only GlobalNetworkPolicy has are refused."""

    KIND: t.ClassVar[str] = "NetworkPolicy"

    @classmethod
    def readable(cls, spec: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
        for name in ("namespaceSelector", "doNotTrack", "preDNAT", "applyOnForward"):
            if name in spec:
                raise Refused(
                    None,
                    "is a field of GlobalNetworkPolicy only.",
                    "Write a GlobalNetworkPolicy, or leave it out.",
                    name,
                )
        return spec

    def _is_converted(self, name: str) -> bool:
        return bool(_CONVERTED.fullmatch(name))
