# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which route a destination takes: the kernel's longest-prefix match over routes already read, of both IP versions."""

from __future__ import annotations

import typing as t

from .port import KernelRoute, RouteAttributes
from .rtnetlink import packed_address


class Network(t.NamedTuple):
    """A CIDR as numbers: the bits of an address of its family, `10.244.0.0/16` without its host bits, 16."""

    bits: int
    number: int
    length: int

    def holds(self, other: Network) -> bool:
        """Whether all of `other` lies in it."""
        inner = self.bits == other.bits and other.length >= self.length
        return inner and other.number >> (other.length - self.length) == self.number


def network(cidr: str) -> Network:
    address, _slash, length = cidr.partition("/")
    packed = packed_address(address)
    bits = 8 * len(packed)
    return Network(bits, int.from_bytes(packed, "big") >> (bits - int(length or bits)), int(length or bits))


def within(cidr: str, other: Network) -> bool:
    """Whether a CIDR lies in a network of `network`."""
    return other.holds(network(cidr))


class Lookup:
    """Of equal prefixes the one with the lowest metric counts, as in the kernel."""

    def __init__(self, routes: t.Iterable[KernelRoute]) -> None:
        by_length: dict[tuple[int, int], dict[int, RouteAttributes]] = {}
        for destination, attributes in routes:
            bits, number, length = network(destination)
            same = by_length.setdefault((bits, length), {})
            if number not in same or attributes.metric < same[number].metric:
                same[number] = attributes
        self._by_length = sorted(by_length.items(), reverse=True)

    def route(self, address: str) -> t.Optional[RouteAttributes]:
        own_bits, number, _length = network(address)
        for (bits, length), routes in self._by_length:
            found = routes.get(number >> (bits - length)) if bits == own_bits else None
            if found is not None:
                return found
        return None
