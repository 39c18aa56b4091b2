# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An index of values by network: which of many networks contain an address, without a look at each of them."""

from __future__ import annotations

import typing as t

from ...base.addresses import cidr

_BITS = {4: 32, 6: 128}

T = t.TypeVar("T")


class NetIndex(t.Generic[T]):
    """An index of values by the networks of `entries`, pairs of a valid CIDR and a value."""

    def __init__(self, entries: t.Iterable[tuple[str, T]]) -> None:
        #: For each IP version and number of bits behind the prefix: from the bits before it to places and values.
        self._tables: dict[tuple[int, int], dict[int, list[tuple[int, T]]]] = {}
        for place, (text, value) in enumerate(entries):
            net = cidr(text)
            behind = _BITS[net.version] - net.length
            table = self._tables.setdefault((net.version, behind), {})
            table.setdefault(net.network >> behind, []).append((place, value))

    def of(self, address: str) -> list[T]:
        """Return the values whose networks contain a valid address, in the order of the entries."""
        given = cidr(address)
        found: list[tuple[int, T]] = []
        for (version, behind), table in self._tables.items():
            if version == given.version:
                found += table.get(given.number >> behind, ())
        found.sort(key=lambda entry: entry[0])
        return [value for dummy, value in found]
