# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and CIDRs: parsing them as Calico (Go's net package) does, and arithmetic on valid ones.

`parse_address`, `parse_cidr` and `parse_cidr_or_address` accept any text. An IPv4 address has four decimal numbers
without leading zeros. An IPv6 address is as in RFC 4291, without a zone. An IPv4-mapped IPv6 address (::ffff:10.0.0.1)
is read as the IPv4 address.

`ip_address`, `canonical_address`, `canonical_cidr` and `cidr` raise ValueError for invalid text. All functions after
`cidr` assume valid text: from a state, from the kernel, or from a parser. For usual text they are much faster than
`ipaddress`. They never mix IP versions: no CIDR contains an address of the other version.
"""

from __future__ import annotations

import bisect
import functools
import ipaddress
import re
import typing as t

BITS = {4: 32, 6: 128}
#: The gateways of all workloads; the IPv6 one is the link-local address for HOST_MAC (RFC 4291, appendix A).
GATEWAY, GATEWAY6 = "169.254.1.1", "fe80::ecee:eeff:feee:eeee"
#: {the network of all addresses of an IP version: its two halves}. A set of networks (ipset's hash:net) cannot hold the
#: former, because no prefix length there may be 0.
HALVES = {"0.0.0.0/0": ("0.0.0.0/1", "128.0.0.0/1"), "::/0": ("::/1", "8000::/1")}

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_LENGTH = re.compile(r"\d{1,6}", re.ASCII)
_MAPPED = 0xFFFF << 32


class Address(t.NamedTuple):
    """An address: its IP version (4 or 6), and the address as a number."""

    version: int
    number: int

    @property
    def text(self) -> str:
        return _text(self.version, self.number)


class Cidr(t.NamedTuple):
    """An address with a prefix length.

    `version` is the IP version, 4 or 6. `number` is the address as a number, `network` the same without the bits
    beyond the prefix, `length` the prefix length in bits. `length_written` is the length as written, or `length` for an
    address alone. The two differ only for an IPv4-mapped range such as ::ffff:10.0.0.0/104, which has the length 8.
    """

    version: int
    number: int
    network: int
    length: int
    length_written: int

    @property
    def strict(self) -> bool:
        """Whether the address has no bits beyond the prefix."""
        return self.number == self.network

    def __str__(self) -> str:
        return f"{_text(self.version, self.network)}/{self.length}"

    def contains(self, other: Cidr) -> bool:
        """Return whether all addresses of `other` are in this range; False for another IP version."""
        return self.length <= other.length and self.overlaps(other)

    def overlaps(self, other: Cidr) -> bool:
        """Return whether the two ranges share an address; False if their IP versions differ."""
        if self.version != other.version:
            return False
        shift = BITS[self.version] - min(self.length, other.length)
        return self.network >> shift == other.network >> shift


def _text(version: int, number: int) -> str:
    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


def _ipv4(text: str) -> t.Optional[int]:
    found = _IPV4.fullmatch(text)
    if not found:
        return None
    number = 0
    for part in found.groups():
        if len(part) > 1 and part[0] == "0":
            return None
        octet = int(part)
        if octet > 255:
            return None
        number = number << 8 | octet
    return number


def _ipv6(text: str) -> t.Optional[int]:
    if ":" not in text or "%" in text:
        return None
    try:
        return int(ipaddress.IPv6Address(text))
    except ValueError:
        return None


def ip_address(text: str, version: int) -> t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]:
    """Return the address of IP `version` (4 or 6) that `text` spells, as `canonical_address` reads it."""
    found, value = canonical_address(text)
    if found != version:
        raise ValueError(f"{text!r} is not an IPv{version} address")
    return ipaddress.IPv4Address(value) if version == 4 else ipaddress.IPv6Address(value)


def parse_address(text: str) -> t.Optional[Address]:
    """Return the address that `text` spells, or None if it is not an address or has a zone."""
    number = _ipv4(text)
    if number is not None:
        return Address(4, number)
    number = _ipv6(text)
    if number is None:
        return None
    return Address(4, number & 0xFFFFFFFF) if number >> 32 << 32 == _MAPPED else Address(6, number)


def parse_cidr(text: str) -> t.Optional[Cidr]:
    """Return the address and prefix length that `text` spells, or None if it is no CIDR.

    The length may have leading zeros, up to six digits in all. Bits beyond the prefix are kept in `number`. An
    IPv4-mapped IPv6 range with a prefix length of 96 or more becomes the IPv4 range; a shorter one stays IPv6.
    """
    address, slash, length_text = text.partition("/")
    if not slash or not _LENGTH.fullmatch(length_text):
        return None
    length = int(length_text)
    version, number = 4, _ipv4(address)
    if number is None:
        version, number = 6, _ipv6(address)
    if number is None or length > BITS[version]:
        return None
    mapped = version == 6 and number >> 32 << 32 == _MAPPED
    if mapped and length >= 96:
        return _cidr(4, number & 0xFFFFFFFF, length - 96, length)
    return _cidr(version, number, length, length)


def parse_cidr_or_address(text: str) -> t.Optional[Cidr]:
    """Return the range that `text` spells, one address without a prefix length; None for any other text."""
    cidr = parse_cidr(text)
    if cidr:
        return cidr
    address = parse_address(text)
    if not address:
        return None
    bits = BITS[address.version]
    return Cidr(address.version, address.number, address.number, bits, bits)


def _cidr(version: int, number: int, length: int, written: int) -> Cidr:
    shift = BITS[version] - length
    return Cidr(version, number, number >> shift << shift, length, written)


def canonical_address(text: str) -> tuple[int, int]:
    """Return `text` as (IP version, address as a number). Raise ValueError if it is no address or has a zone.

    Unlike `parse_address`, an IPv4-mapped IPv6 address is IPv6.
    """
    if family_of(text) == 4:
        parts = text.split(".")
        if len(parts) == 4:
            value = 0
            for part in parts:
                # Leading zeros, and digits of other scripts, are refused: `str(int(part))` returns neither.
                if not part.isdecimal() or len(part) > 3 or int(part) > 255 or str(int(part)) != part:
                    break
                value = value << 8 | int(part)
            else:
                return 4, value
        raise ValueError(f"{text!r} is not an IP address")
    if "%" in text:
        raise ValueError(f"{text!r} has a zone")
    return 6, int(ipaddress.IPv6Address(text))


def format_address(version: int, value: int) -> str:
    """Return the text of an address that is given by its IP version (4 or 6) and its number."""
    if version == 4:
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
    return str(ipaddress.IPv6Address(value))


def canonical_cidr(text: str) -> tuple[int, int, int]:
    """Return a CIDR as (IP version, first address as a number, prefix length). An IPv4-mapped IPv6 range is IPv6.

    Raise ValueError for any other text, also for a length with leading zeros, and for bits set beyond the prefix.
    """
    address, slash, length = text.partition("/")
    version, value = canonical_address(address)
    if not slash or not length.isascii() or not length.isdecimal() or str(int(length)) != length:
        raise ValueError(f"{text!r} has no prefix length")
    prefix = int(length)
    bits = BITS[version]
    if prefix > bits:
        raise ValueError(f"{text!r} has a prefix longer than {bits}")
    if value & ((1 << (bits - prefix)) - 1):
        raise ValueError(f"{text!r} has bits set behind its prefix")
    return version, value, prefix


@functools.lru_cache(maxsize=65536)
def cidr(text: str) -> Cidr:
    """Return the range that `text` spells; an address alone is a range of one. Raise ValueError for any other text."""
    parsed = parse_cidr_or_address(text)
    if parsed is None:
        raise ValueError(f"{text!r} is neither an address nor a range of addresses")
    return parsed


def family_of(text: str) -> int:
    """Return the IP version, 4 or 6, of a valid address or CIDR."""
    return 6 if ":" in text else 4


def number(address: str) -> int:
    """Return a valid address as a number."""
    if ":" in address:
        return _number6(address)
    a, b, c, d = address.split(".")
    return int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d)


def _number6(address: str) -> int:
    if "." in address:
        return int(ipaddress.IPv6Address(address))
    head, gap, tail = address.partition("::")
    before, after = head.split(":") if head else [], tail.split(":") if tail else []
    zeros = ["0"] * (8 - len(before) - len(after)) if gap else []
    return int("".join([group.zfill(4) for group in (*before, *zeros, *after)]), 16)


def bounds(cidr: str) -> tuple[int, int]:
    """Return the first and the last address of a CIDR without bits beyond the prefix, as numbers."""
    address, dummy, length = cidr.partition("/")
    first = number(address)
    return first, first | (1 << (BITS[family_of(address)] - int(length))) - 1


def inside(cidr: str, outer: str) -> bool:
    """Return whether all of CIDR `cidr` is in `outer`, both without bits beyond their prefixes."""
    if family_of(cidr) != family_of(outer):
        return False
    first, last = bounds(cidr)
    outer_first, outer_last = bounds(outer)
    return outer_first <= first and last <= outer_last


def host(address: str) -> str:
    """Return the CIDR, with prefix length 32 or 128, that contains this address alone."""
    return f"{address}/{BITS[family_of(address)]}"


def contains(cidr: str, address: str) -> bool:
    """Return whether an address is in a CIDR without bits beyond its prefix."""
    return inside(host(address), cidr)


def special_word(subnet: Cidr) -> str:
    """Return "network", "broadcast" or "subnet-router anycast" if `subnet.number` is that address, "" if hosts have it.

    A /31 has neither network nor broadcast address (RFC 3021). In IPv6 the address with all host bits zero is the
    routers' anycast address (RFC 4291, 2.6.1), except on links of two addresses (RFC 6164). IPv6 has no broadcast.
    """
    host_bits = BITS[subnet.version] - subnet.length
    host_part = subnet.number - subnet.network
    if host_bits < 2:
        return ""
    if host_part == 0:
        return "network" if subnet.version == 4 else "subnet-router anycast"
    return "broadcast" if subnet.version == 4 and host_part == (1 << host_bits) - 1 else ""


#: Ranges from and to which no packet goes between two hosts, and what they are. The link-local ones are left out.
_NOT_CARRIED = (
    ("0.0.0.0/8", "means this network (RFC 6890)"),
    ("127.0.0.0/8", "is each host's loopback"),
    ("224.0.0.0/4", "is multicast"),
    ("255.255.255.255/32", "is the broadcast to a link"),
    ("::/128", "means no address"),
    ("::1/128", "is each host's loopback"),
    ("::ffff:0.0.0.0/96", "is IPv4 in the writing of IPv6"),
    ("ff00::/8", "is multicast"),
)


def not_carried(cidr: str) -> t.Optional[tuple[str, str]]:
    """Return the first of _NOT_CARRIED that overlaps with a CIDR without bits beyond its prefix, None if none does."""
    return next((found for found in _NOT_CARRIED if inside(cidr, found[0]) or inside(found[0], cidr)), None)


class Network(t.NamedTuple):
    """A CIDR as numbers, for fast repeated comparisons.

    `bits` is the number of bits of an address (32 or 128), `length` the prefix length, and `prefix` the first `length`
    bits of the address as a number.
    """

    bits: int
    prefix: int
    length: int

    def holds(self, other: Network) -> bool:
        inner = self.bits == other.bits and other.length >= self.length
        return inner and other.prefix >> (other.length - self.length) == self.prefix


def network(cidr: str) -> Network:
    """Return a CIDR as a Network, without bits beyond the prefix; an address alone is a network of one."""
    address, dummy, written = cidr.partition("/")
    bits = BITS[family_of(address)]
    length = int(written or bits)
    return Network(bits, number(address) >> (bits - length), length)


class AddressRanges:
    """The addresses of one IP version in some CIDRs, as sorted ranges of numbers that do not touch.

    The constructor takes CIDRs of any version, and raises ValueError if one is no CIDR or has host bits.
    """

    def __init__(self, cidrs: t.Iterable[str] = (), version: int = 4) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []  # the first address after each range
        for found, first, prefix in sorted(canonical_cidr(cidr) for cidr in cidrs):
            if found != version:
                continue
            end = first + (1 << BITS[version] - prefix)
            if self._ends and first <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(first)
                self._ends.append(end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> t.Iterator[tuple[int, int]]:
        """Yield (first address, address after the range) of each range."""
        return zip(self._starts, self._ends)

    def __contains__(self, address: int) -> bool:
        if not self._starts:
            return False
        position = bisect.bisect_right(self._starts, address) - 1
        return position >= 0 and address < self._ends[position]

    def count(self, first: int, end: int) -> int:
        """Return the number of addresses from `first` to before `end` that lie in the ranges."""
        return sum(max(0, min(end, behind) - max(first, start)) for start, behind in self)


def within(cidr: str, outer: Network) -> bool:
    """Return whether all of a CIDR or address is in a network; False for another IP version."""
    return outer.holds(network(cidr))
