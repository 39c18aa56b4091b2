# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which route a destination takes: the kernel's longest-prefix match over routes already read (IPv4)."""

from __future__ import annotations

import socket
import typing as t

from .kernel import KernelRoute, RouteAttributes


def network(cidr: str) -> tuple[int, int]:
    """(`10.244.0.0/16` as a number without its host bits, 16)."""
    address, _slash, bits = cidr.partition("/")
    length = int(bits or 32)
    return int.from_bytes(socket.inet_aton(address), "big") >> (32 - length), length


def within(cidr: str, other: tuple[int, int]) -> bool:
    """Whether a CIDR lies in a network of `network`."""
    number, length = network(cidr)
    return length >= other[1] and number >> (length - other[1]) == other[0]


class Lookup:
    """Of equal prefixes the one with the lowest metric counts, as in the kernel."""

    def __init__(self, routes: t.Iterable[KernelRoute]) -> None:
        by_length: dict[int, dict[int, RouteAttributes]] = {}
        for destination, attributes in routes:
            number, length = network(destination)
            same = by_length.setdefault(length, {})
            if number not in same or attributes.metric < same[number].metric:
                same[number] = attributes
        self._by_length = sorted(by_length.items(), reverse=True)

    def route(self, address: str) -> t.Optional[RouteAttributes]:
        number = int.from_bytes(socket.inet_aton(address), "big")
        for length, routes in self._by_length:
            found = routes.get(number >> (32 - length))
            if found is not None:
                return found
        return None
