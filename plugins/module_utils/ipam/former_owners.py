# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The former owners of released addresses: a workload that comes back soon gets its address again.

A workload is recognized by its handle, by the name of its container, which another container of that name inherits, or
by the pools that a container engine asked for. The last is no identity: it counts only while a single address that was
asked for so is remembered.
"""

from __future__ import annotations

import typing as t

#: (IP version, address as a number).
Key = tuple[int, int]

#: The attributes that name a container: with the same values, another container is its successor.
_NAMED = ("namespace", "network", "interface")
#: The attribute of a reservation that says what its engine asked for.
ASKED = "asked"


class Formerly(t.Protocol):
    """An allocation that ended: its handle, and texts about its workload."""

    @property
    def handle(self) -> str: ...

    @property
    def attributes(self) -> t.Mapping[str, str]: ...


_Allocation = t.TypeVar("_Allocation", bound=Formerly)
#: A kind of name, and the name.
_Name = tuple[str, ...]


class FormerOwners(t.Generic[_Allocation]):
    """The last allocations of released addresses. It has at most one of each address, and forgets them on request."""

    def __init__(self) -> None:
        self._by_key: dict[Key, _Allocation] = {}
        self._by_name: dict[_Name, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: Key) -> t.Optional[_Allocation]:
        return self._by_key.get(key)

    def remember(self, key: Key, allocation: _Allocation) -> None:
        """Record that `allocation` of the address ended, in place of an earlier one."""
        self.forget(key)
        self._by_key[key] = allocation
        for name in _names(allocation.handle, allocation.attributes):
            self._by_name.setdefault(name, {})[key] = None

    def forget(self, key: Key) -> None:
        """Forget who had the address, if that is known."""
        allocation = self._by_key.pop(key, None)
        if allocation is None:
            return
        for name in _names(allocation.handle, allocation.attributes):
            keys = self._by_name[name]
            del keys[key]
            if not keys:
                del self._by_name[name]

    def addresses_of(
        self, handle: str, attributes: t.Mapping[str, str], recency: t.Callable[[Key], t.Optional[float]]
    ) -> list[Key]:
        """Return the addresses that this workload had, those of its handle first, and the most recent first.

        `recency` returns a number that grows with the time of an address's release, None for one that does not count.
        """
        found: list[Key] = []
        for name in _names(handle, attributes):
            recent = [(age, key) for key in self._by_name.get(name, ()) for age in [recency(key)] if age is not None]
            if name[0] != ASKED or len(recent) == 1:
                found += [key for _age, key in sorted(recent, reverse=True)]
        return found


def _names(handle: str, attributes: t.Mapping[str, str]) -> list[_Name]:
    """Return the names by which a workload is recognized, the surest first."""
    if ASKED in attributes:
        return [(ASKED, attributes[ASKED])]  # the handle names the address, and a later one is another workload's
    name, container = attributes.get("name", ""), attributes.get("container", "")
    given, digits, rest = name.rpartition(f".{container[:12]}.")
    if container and given and digits and rest:
        return [("handle", handle), ("name", given, *(attributes.get(key, "") for key in _NAMED))]
    return [("handle", handle)]
