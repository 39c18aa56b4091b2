# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fields that Calico accepts and this collection cannot apply.

A rule that loses a match would match more than its author meant, so a resource with such a field is refused whole.
"""

from __future__ import annotations

import typing as t

from ..base import selectors
from ..base.addresses import parse_cidr_or_address
from .errors import Refused, ResourceError
from .kinds.bgp_filter import BGPFilter, each_filter_rule
from .kinds.endpoints import WorkloadEndpoint
from .kinds.policies import GlobalNetworkPolicy, NetworkPolicy
from .kinds.profile import Profile
from .resource import Resource
from .rules import each_rule

_RULE = "is not supported here."


def check_supported(resource: Resource, flat: bool = False) -> None:
    """Raise ResourceError for the first field of a valid resource that cannot be applied here.

    With `flat`, the error names fields as `parse_flat` does, without "spec.".
    """
    for refused in _unsupported(resource):
        field = refused.field if flat else f"spec.{refused.field}"
        raise ResourceError(resource.KIND, resource.name, field, refused.value, refused.rule, refused.remedy)


def _unsupported(resource: Resource) -> t.Iterator[Refused]:
    if isinstance(resource, (GlobalNetworkPolicy, NetworkPolicy, Profile)):
        for dummy, path, rule in each_rule(resource):
            if rule.notICMP is not None and rule.notICMP.type is not None and rule.protocol is None:
                # Calico accepts a notICMP without a protocol, and writes a rule that iptables refuses.
                yield Refused(
                    None,
                    "is given without a protocol.",
                    "Set protocol to ICMP or ICMPv6, by name.",
                    f"{path}.notICMP",
                )
            if rule.http:
                yield Refused(
                    None,
                    _RULE,
                    "Nothing on a node reads HTTP: match addresses and ports, and leave the rest to the server.",
                    f"{path}.http",
                )
            for side, entity in rule.entities:
                if entity.services:
                    yield Refused(
                        entity.services.name,
                        _RULE,
                        "There are no Kubernetes services here: select the endpoints by labels, and name their ports.",
                        f"{path}.{side}.services",
                    )
                if entity.serviceAccounts and _quotes_global(entity.serviceAccounts.selector):
                    # It becomes a part of the entity's selector, which cannot be shown as a resource with this text.
                    yield Refused(
                        entity.serviceAccounts.selector,
                        "compares a label with a text that has global() in it.",
                        "No label has such a value: remove the comparison.",
                        f"{path}.{side}.serviceAccounts.selector",
                    )
    elif isinstance(resource, BGPFilter):
        yield from _unsupported_lengths(resource)
    elif isinstance(resource, WorkloadEndpoint):
        if resource.ipNATs:
            yield Refused(None, _RULE, "Route the address to the workload, or remove it.", "ipNATs")
        if resource.allowSpoofedSourcePrefixes:
            yield Refused(
                None,
                _RULE,
                "A workload sends from its own addresses only: give it those, or remove it.",
                "allowSpoofedSourcePrefixes",
            )
        for index, port in enumerate(resource.ports):
            if port.hostPort:
                yield Refused(
                    port.hostPort,
                    _RULE,
                    "Let clients use the workload's own address, or remove it.",
                    f"ports[{index}].hostPort",
                )


def _quotes_global(selector: str) -> bool:
    """Return whether a valid selector has the text "global()" within quotes."""
    leaves = selectors.leaves(selectors.parse(selector).root)
    return any("global()" in str(leaf) for leaf in leaves if not isinstance(leaf, selectors.Global))


def _unsupported_lengths(resource: BGPFilter) -> t.Iterator[Refused]:
    """Yield the refusals of prefixLengths with which BIRD refuses Calico's filter, or which no prefix in cidr has."""
    for path, rule in each_filter_rule(resource):
        length, cidr = rule.prefixLength, parse_cidr_or_address(rule.cidr)
        if length is None or cidr is None:
            continue
        if rule.matchOperator in ("Equal", "NotEqual"):
            other = "In" if rule.matchOperator == "Equal" else "NotIn"
            yield Refused(
                None,
                f"stands beside matchOperator {rule.matchOperator}, which compares the whole prefix.",
                f"Write matchOperator {other}, or remove it.",
                f"{path}.prefixLength",
            )
        shortest = max(length.min or 0, cidr.length)
        if length.max is not None and length.max < shortest:
            yield Refused(
                length.max,
                f"is less than {shortest}, the shortest prefix that this rule could match: it never does.",
                f"Write at least {shortest}, or remove it.",
                f"{path}.prefixLength.max",
            )
