# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BGPFilter: the routes that a session advertises and accepts, and how it changes them.

Source: https://docs.tigera.io/calico/latest/reference/resources/bgpfilter
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import BITS, parse_cidr
from ..errors import Refused
from ..fields import AS_NUMBER, Fields, Filled, Integer, Items, OneOf, Text, field
from ..resource import Resource
from .bgp import COMMUNITY_REMEDY, INTERFACE_PATTERN, is_community

#: The greatest priority of a route, Calico's measure of preference: the lowest wins. BGP carries 2147483647 minus the
#: priority as its local preference.
MAX_PRIORITY = 2147483646
_OPERATIONS_LIMIT = 10

#: A community: two or three numbers, as text that is never empty.
_COMMUNITY = Filled(is_community, "is not a BGP community.", COMMUNITY_REMEDY)


class _Whole(Integer):
    """A whole number for which 0 is a value of its own. Integer would read 0 as the default."""

    def read(self, value: t.Any) -> int:
        super().read(value)
        return int.__int__(value)


def _network(version: int, example: str) -> Text:
    def check(text: str) -> bool:
        cidr = parse_cidr(text)
        return bool(cidr and cidr.strict and cidr.version == version)

    return Text(
        check,
        f"is not a range of IPv{version} addresses.",
        f"Write it as address/prefix length, without address bits beyond the prefix, for example {example}.",
    )


@dataclasses.dataclass(frozen=True)
class PrefixLength:
    """The least and the greatest length of a matching IPv4 prefix, in bits.

    `min` None means the length of cidr, `max` None the longest possible.
    """

    min: t.Optional[int] = field(_Whole(0, BITS[4]))
    max: t.Optional[int] = field(_Whole(0, BITS[4]))


@dataclasses.dataclass(frozen=True)
class PrefixLengthV6(PrefixLength):
    """The least and the greatest length of a matching IPv6 prefix, in bits."""

    min: t.Optional[int] = field(_Whole(0, BITS[6]))
    max: t.Optional[int] = field(_Whole(0, BITS[6]))


@dataclasses.dataclass(frozen=True)
class CommunityMatch:
    """The communities that a route must have: exactly one, as in Calico."""

    values: t.Optional[tuple[str, ...]] = field(Items(_COMMUNITY))

    def checked(self) -> CommunityMatch:
        if self.values is None or len(self.values) != 1:
            raise Refused(
                None if self.values is None else list(self.values),
                "is not a list of one community.",
                "Write one rule for each community.",
                "values",
            )
        return self


@dataclasses.dataclass(frozen=True)
class AddCommunity:
    value: str = field(_COMMUNITY, "")

    def checked(self) -> AddCommunity:
        if not self.value:
            raise Refused(None, "is missing.", COMMUNITY_REMEDY, "value")
        return self


@dataclasses.dataclass(frozen=True)
class PrependASPath:
    """1 to 10 AS numbers to put before the path, in this order."""

    prefix: tuple[int, ...] = field(Items(AS_NUMBER), ())

    def checked(self) -> PrependASPath:
        if not 1 <= len(self.prefix) <= _OPERATIONS_LIMIT:
            raise Refused(
                list(self.prefix), "is not a list of 1 to 10 AS numbers.", "Write for example [65000, 65000].", "prefix"
            )
        return self


@dataclasses.dataclass(frozen=True)
class SetPriority:
    value: t.Optional[int] = field(_Whole(1, MAX_PRIORITY))

    def checked(self) -> SetPriority:
        if self.value is None:
            raise Refused(None, "is missing.", f"Write a number from 1 to {MAX_PRIORITY}, lower ones win.", "value")
        return self


@dataclasses.dataclass(frozen=True)
class Operation:
    """One change of a route: exactly one of its fields is set."""

    addCommunity: t.Optional[AddCommunity] = field(Fields(AddCommunity))
    prependASPath: t.Optional[PrependASPath] = field(Fields(PrependASPath))
    setPriority: t.Optional[SetPriority] = field(Fields(SetPriority))

    def checked(self) -> Operation:
        made = [name for name in ("addCommunity", "prependASPath", "setPriority") if getattr(self, name) is not None]
        if len(made) != 1:
            raise Refused(
                ", ".join(made) or None,
                "is not exactly one operation.",
                "Write addCommunity, prependASPath or setPriority, each as an entry of the list.",
            )
        return self


@dataclasses.dataclass(frozen=True)
class BGPFilterRule:
    """A rule that applies its action to routes that match all fields that are set.

    `checked` raises Refused without an action, for cidr without matchOperator or the reverse, for prefixLength without
    cidr, and for operations beside action Reject or more than 10 of them.
    """

    cidr: str = field(_network(4, "10.1.0.0/16"), "")
    prefixLength: t.Optional[PrefixLength] = field(Fields(PrefixLength))
    matchOperator: str = field(OneOf(("Equal", "NotEqual", "In", "NotIn"), ""), "")
    source: str = field(OneOf(("RemotePeers",), ""), "")
    interface: str = field(INTERFACE_PATTERN, "")
    peerType: str = field(OneOf(("eBGP", "iBGP"), ""), "")
    communities: t.Optional[CommunityMatch] = field(Fields(CommunityMatch))
    asPathPrefix: tuple[int, ...] = field(Items(AS_NUMBER), ())
    priority: t.Optional[int] = field(_Whole(1, MAX_PRIORITY))
    action: str = field(
        OneOf(("Accept", "Reject"), others=(("allow", "Accept"), ("permit", "Accept"), ("deny", "Reject"))), ""
    )
    operations: tuple[Operation, ...] = field(Items(Fields(Operation)), ())

    def checked(self) -> BGPFilterRule:
        if not self.action:
            raise Refused(None, "is missing.", "Write Accept or Reject.", "action")
        if self.cidr and not self.matchOperator:
            raise Refused(None, "is missing beside cidr.", "Write Equal, NotEqual, In or NotIn.", "matchOperator")
        if self.matchOperator and not self.cidr:
            raise Refused(
                self.matchOperator,
                "stands without cidr.",
                "Add the range to compare with, or remove it.",
                "matchOperator",
            )
        if self.prefixLength is not None and not self.cidr:
            raise Refused(None, "stands without cidr.", "Add the range that it is about, or remove it.", "prefixLength")
        if self.operations and self.action != "Accept":
            raise Refused(None, "stands beside action Reject.", "Change what is accepted, or remove it.", "operations")
        if len(self.operations) > _OPERATIONS_LIMIT:
            raise Refused(None, f"has more than {_OPERATIONS_LIMIT} entries.", "Use fewer operations.", "operations")
        return self


@dataclasses.dataclass(frozen=True)
class BGPFilterRuleV6(BGPFilterRule):
    """A rule for routes to IPv6 prefixes."""

    cidr: str = field(_network(6, "fd00:1::/48"), "")
    prefixLength: t.Optional[PrefixLength] = field(Fields(PrefixLengthV6))


@dataclasses.dataclass(frozen=True)
class BGPFilter(Resource):
    """Ordered rules for routes advertised to peers (export) or accepted from them (import). The first match decides."""

    KIND: t.ClassVar[str] = "BGPFilter"

    exportV4: tuple[BGPFilterRule, ...] = field(Items(Fields(BGPFilterRule)), ())
    importV4: tuple[BGPFilterRule, ...] = field(Items(Fields(BGPFilterRule)), ())
    exportV6: tuple[BGPFilterRuleV6, ...] = field(Items(Fields(BGPFilterRuleV6)), ())
    importV6: tuple[BGPFilterRuleV6, ...] = field(Items(Fields(BGPFilterRuleV6)), ())

    def rules(self, direction: str, family: int) -> tuple[BGPFilterRule, ...]:
        """Return the rules of `direction` ("import" or "export") for IP version `family` (4 or 6), in their order."""
        found: tuple[BGPFilterRule, ...] = getattr(self, f"{direction}V{family}")
        return found


def each_filter_rule(resource: BGPFilter) -> t.Iterator[tuple[str, BGPFilterRule]]:
    """Yield (path in spec, such as "exportV4[0]", rule) for every rule: exportV4, importV4, exportV6, importV6."""
    for direction in ("exportV4", "importV4", "exportV6", "importV6"):
        for index, rule in enumerate(getattr(resource, direction)):
            yield f"{direction}[{index}]", rule
