# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BGPConfiguration and BGPPeer: the BGP sessions and their settings."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import Address, parse_address
from ...base.ports import BGP_PORT
from ..errors import Refused
from ..fields import (
    ADDRESS,
    AS_NUMBER,
    BOUNDED_NAME,
    DURATION,
    FLAG,
    IPV4,
    IPV6,
    NAME,
    NETWORK,
    TEXT,
    Fields,
    Integer,
    Items,
    OneOf,
    SelectorText,
    Text,
    field,
)
from ..resource import Resource

DEFAULT_AS_NUMBER = 64512

_NUMBER = r"(\d+)"
#: The forms of a community: two numbers (RFC 1997), or three (RFC 8092).
_STANDARD = re.compile(f"{_NUMBER}:{_NUMBER}", re.ASCII)
_LARGE = re.compile(f"{_NUMBER}:{_NUMBER}:{_NUMBER}", re.ASCII)
_DIGITS = 10  # a number of 32 bits has no more
COMMUNITY_REMEDY = "Write 65000:100, two numbers of 16 bits, or 65000:1:100, three of 32 bits."


def is_community(text: str) -> bool:
    """Return whether `text` is a community: two numbers of 16 bits, or three of 32 bits, with colons.

    Raise Refused if it has this form and a number that is too large.
    """
    for form, bits in ((_STANDARD, 16), (_LARGE, 32)):
        found = form.fullmatch(text)
        if found:
            numbers = [number.lstrip("0") or "0" for number in found.groups()]
            # Python refuses to convert thousands of digits.
            if any(len(number) > _DIGITS or int(number) >= 1 << bits for number in numbers):
                raise Refused(text, f"has a number of more than {bits} bits.", COMMUNITY_REMEDY)
            return True
    return False


@dataclasses.dataclass(frozen=True)
class ServiceIPBlock:
    """A range of service addresses."""

    cidr: str = field(NETWORK, "")


@dataclasses.dataclass(frozen=True)
class Community:
    """A BGP community with a name of its own. `checked` raises Refused without a name or without a valid value."""

    name: str = field(NAME, "")
    value: str = field(TEXT, "")

    def checked(self) -> Community:
        if not self.name:
            raise Refused(
                None, "is missing.", "Give the community a name, or write its value where it is used.", "name"
            )
        if not self.value:
            raise Refused(None, "is missing.", COMMUNITY_REMEDY, "value")
        try:
            if not is_community(self.value):
                raise Refused(self.value, "is not a BGP community.", COMMUNITY_REMEDY)
        except Refused as refused:
            raise refused.inside("value")
        return self


@dataclasses.dataclass(frozen=True)
class PrefixAdvertisement:
    """The BGP communities that nodes add to each route that they advertise for a range, by value or by name."""

    cidr: str = field(NETWORK, "")
    communities: t.Optional[tuple[str, ...]] = field(Items(TEXT))

    def checked(self) -> PrefixAdvertisement:
        if not self.cidr:
            raise Refused(None, "is missing.", "Write the range that the communities are for.", "cidr")
        if self.communities is None:
            raise Refused(None, "is missing.", "List the communities for this range.", "communities")
        return self


@dataclasses.dataclass(frozen=True)
class SecretKeyRef:
    """A reference to one key of a secret."""

    name: str = field(TEXT, "")
    key: str = field(TEXT, "")
    optional: t.Optional[bool] = field(FLAG)


@dataclasses.dataclass(frozen=True)
class BGPPassword:
    """The place of a password, never the password itself."""

    secretKeyRef: t.Optional[SecretKeyRef] = field(Fields(SecretKeyRef))


class PasswordReference(Fields[BGPPassword]):
    """The field type of a BGPPassword. Its errors do not show a text in its place, which may be the password."""

    def __init__(self) -> None:
        super().__init__(BGPPassword)

    def read(self, value: t.Any) -> BGPPassword:
        """Return the reference, maybe an empty one. Raise Refused if `value` is not a mapping of valid fields."""
        try:
            return super().read(value)
        except Refused as refused:
            if refused.field not in ("", "secretKeyRef"):
                raise
            remedy = "Write {secretKeyRef: {name: tor-a, key: password}}: a reference, never the password."
            raise Refused(None, refused.rule, remedy, refused.field) from None


PASSWORD_REFERENCE = PasswordReference()


#: Priorities of routes in the kernel; Felix uses the greatest one itself.
_PRIORITY = Integer(1, 2**31 - 2)
_SERVICE_BLOCKS = Items(Fields(ServiceIPBlock))
INTERFACE_PATTERN = Text(
    lambda text: bool(re.fullmatch(r"[a-zA-Z0-9_.*-]{1,15}", text)),
    "cannot match a device's name.",
    "Use at most 15 letters, digits, '-', '_', '.' and '*'.",
)


@dataclasses.dataclass(frozen=True)
class BGPConfiguration(Resource):
    """The settings of all BGP sessions, with every default filled in.

    `checked` raises Refused for `communities` without any prefixAdvertisements, and for a community in those that is
    neither valid nor a name in `communities`.
    """

    KIND: t.ClassVar[str] = "BGPConfiguration"

    asNumber: int = field(AS_NUMBER, DEFAULT_AS_NUMBER)
    nodeToNodeMeshEnabled: bool = field(FLAG, True)
    listenPort: int = field(Integer(0, 65535, BGP_PORT), BGP_PORT)
    logSeverityScreen: str = field(OneOf(("Debug", "Info", "Warning", "Error", "Fatal"), "Info"), "Info")
    bindMode: str = field(OneOf(("None", "NodeIP"), "None"), "None")
    communities: tuple[Community, ...] = field(Items(Fields(Community)), ())
    prefixAdvertisements: tuple[PrefixAdvertisement, ...] = field(Items(Fields(PrefixAdvertisement)), ())
    serviceClusterIPs: tuple[ServiceIPBlock, ...] = field(_SERVICE_BLOCKS, ())
    serviceExternalIPs: tuple[ServiceIPBlock, ...] = field(_SERVICE_BLOCKS, ())
    serviceLoadBalancerIPs: tuple[ServiceIPBlock, ...] = field(_SERVICE_BLOCKS, ())
    serviceLoadBalancerAggregation: str = field(OneOf(("Enabled", "Disabled"), "Enabled"), "Enabled")
    nodeMeshPassword: t.Optional[BGPPassword] = field(PASSWORD_REFERENCE)
    nodeMeshMaxRestartTime: str = field(DURATION, "")
    ignoredInterfaces: tuple[str, ...] = field(Items(INTERFACE_PATTERN), ())
    localWorkloadPeeringIPV4: str = field(IPV4, "")
    localWorkloadPeeringIPV6: str = field(IPV6, "")
    programClusterRoutes: t.Optional[str] = field(
        OneOf(("Enabled", "Disabled", "EnabledIPIPOnly", "EnabledNoEncapOnly"))
    )
    ipv4NormalRoutePriority: t.Optional[int] = field(_PRIORITY)
    ipv6NormalRoutePriority: t.Optional[int] = field(_PRIORITY)

    def checked(self) -> BGPConfiguration:
        if self.communities and not self.prefixAdvertisements:
            raise Refused(
                None,
                "are given names and then not used.",
                "Use them in prefixAdvertisements, or remove them.",
                "communities",
            )
        names = {community.name for community in self.communities}
        for index, advertisement in enumerate(self.prefixAdvertisements):
            for position, text in enumerate(advertisement.communities or ()):
                try:
                    if not is_community(text) and text not in names:
                        raise Refused(
                            text, "is neither a BGP community nor a name given in communities.", COMMUNITY_REMEDY
                        )
                except Refused as refused:
                    raise (refused.inside(position).inside("communities").inside(index).inside("prefixAdvertisements"))
        return self


# --- peers ----------------------------------------------------------------------------------------------------------

_WITH_PORT = re.compile(r"(?:([0-9.]+)|\[([0-9a-fA-F:.]+)\]):(\d{1,20})", re.ASCII)


def split_peer_ip(text: str) -> t.Optional[tuple[str, int]]:
    """Return (address as written, port) of a peerIP, with port 0 if none is given, or None if `text` is not a peerIP.

    A peerIP is written 10.0.0.1, 10.0.0.1:179, fd00::1 or [fd00::1]:179, with a port from 1 to 65535. With a port, an
    IPv4 address may be in brackets, too. The returned address has no brackets.
    """
    found = _WITH_PORT.fullmatch(text)
    if not found:
        return (text, 0) if parse_address(text) else None
    address, port = found.group(1) or found.group(2), int(found.group(3))
    return (address, port) if parse_address(address) and 1 <= port <= 65535 else None


_PEER_IP = Text(
    lambda text: split_peer_ip(text) is not None,
    "is not the address of a peer.",
    "Write 10.0.0.1 or fd00::1, with a port 10.0.0.1:179 or [fd00::1]:179.",
)


@dataclasses.dataclass(frozen=True)
class BGPPeer(Resource):
    """A session, or the sessions between the nodes of two selectors.

    asNumber None or 0 means the peers' own AS numbers, and for a router outside of the fleet that of the node.
    `checked` raises Refused for fields that exclude each other, for one whose companion is missing, and for a
    reachableBy of another IP version than peerIP.
    """

    KIND: t.ClassVar[str] = "BGPPeer"

    node: str = field(BOUNDED_NAME, "")
    nodeSelector: str = field(SelectorText(), "")
    peerIP: str = field(_PEER_IP, "")
    asNumber: t.Optional[int] = field(AS_NUMBER)
    localASNumber: t.Optional[int] = field(AS_NUMBER)
    peerSelector: str = field(SelectorText(), "")
    localWorkloadSelector: str = field(SelectorText(), "")
    keepOriginalNextHop: bool = field(FLAG, False)
    nextHopMode: t.Optional[str] = field(OneOf(("Auto", "Self", "Keep")))
    password: t.Optional[BGPPassword] = field(PASSWORD_REFERENCE)
    sourceAddress: str = field(OneOf(("UseNodeIP", "None"), "UseNodeIP"), "UseNodeIP")
    maxRestartTime: str = field(DURATION, "")
    numAllowedLocalASNumbers: t.Optional[int] = field(Integer(-(2**31), 2**31 - 1))
    ttlSecurity: t.Optional[int] = field(Integer(0, 255))
    reachableBy: str = field(ADDRESS, "")
    filters: tuple[str, ...] = field(Items(NAME), ())
    reversePeering: str = field(OneOf(("Auto", "Manual"), "Auto"), "Auto")
    keepaliveTime: str = field(DURATION, "")

    def checked(self) -> BGPPeer:
        self._exclude("node", "nodeSelector")
        self._exclude("peerIP", "peerSelector")
        self._exclude("asNumber", "peerSelector")
        self._exclude("peerIP", "localWorkloadSelector")
        self._exclude("peerSelector", "localWorkloadSelector")
        if self.localWorkloadSelector and not self.asNumber:
            raise Refused(
                None, "is missing beside localWorkloadSelector.", "Write the workloads' AS number.", "asNumber"
            )
        if self.keepOriginalNextHop and self.nextHopMode:
            raise Refused(
                True, "cannot stand together with nextHopMode.", "Keep nextHopMode alone.", "keepOriginalNextHop"
            )
        if self.reachableBy:
            peer = split_peer_ip(self.peerIP)
            if not peer:
                raise Refused(self.reachableBy, "stands without peerIP.", "Add peerIP, or remove it.", "reachableBy")
            gateway, address = t.cast(Address, parse_address(self.reachableBy)), t.cast(Address, parse_address(peer[0]))
            if gateway.version != address.version:
                raise Refused(
                    self.reachableBy,
                    f"is IPv{gateway.version} while peerIP is IPv{address.version}.",
                    "Write a gateway of the peer's IP version.",
                    "reachableBy",
                )
        return self

    def _exclude(self, one: str, other: str) -> None:
        if getattr(self, one) and getattr(self, other):
            raise Refused(getattr(self, one), f"cannot stand together with {other}.", "Keep one of them.", one)
