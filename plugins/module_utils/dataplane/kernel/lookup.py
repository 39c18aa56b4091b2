# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The route that a destination takes: the kernel's longest-prefix match, over routes that were read before."""

from __future__ import annotations

import typing as t

from ...base.addresses import network
from .port import KernelRoute, RouteAttributes


class Lookup:
    """A table of routes of both IP versions; of equal prefixes only the route with the lowest metric counts."""

    def __init__(self, routes: t.Iterable[KernelRoute]) -> None:
        by_length: dict[tuple[int, int], dict[int, RouteAttributes]] = {}
        for destination, attributes in routes:
            bits, number, length = network(destination)
            same = by_length.setdefault((bits, length), {})
            if number not in same or attributes.metric < same[number].metric:
                same[number] = attributes
        self._by_length = sorted(by_length.items(), reverse=True)

    def route(self, address: str) -> t.Optional[RouteAttributes]:
        """Return the longest-prefix route that contains `address`, a valid address without prefix length, or None."""
        own_bits, number, _length = network(address)
        for (bits, length), routes in self._by_length:
            found = routes.get(number >> (bits - length)) if bits == own_bits else None
            if found is not None:
                return found
        return None
