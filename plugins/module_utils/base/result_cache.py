# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of a function for the items of a mapping, computed again only for the items that changed."""

from __future__ import annotations

import typing as t

K = t.TypeVar("K", bound=t.Hashable)
V = t.TypeVar("V")
T = t.TypeVar("T")

_NONE = object()


class ResultCache(t.Generic[K, V, T]):
    """The results of the last call, with the mapping from which they were computed; it must not change afterwards."""

    def __init__(self) -> None:
        self._given: t.Mapping[K, V] = {}
        self._made: dict[K, T] = {}

    def copy(self) -> ResultCache[K, V, T]:
        made = ResultCache[K, V, T]()
        made._given, made._made = self._given, self._made
        return made

    def map(self, given: t.Mapping[K, V], make: t.Callable[[K, V], T]) -> dict[K, T]:
        """Return {key: make(key, value)}. A value equal to that of the last call gives the same result object.

        It takes about 0.1 microseconds for a value that is the same object. Raise what `make` raises; the results of
        the last call are kept then.
        """
        before, made = self._given, self._made

        def other(key: K, value: V) -> T:
            return made[key] if key in made and before[key] == value else make(key, value)

        found = {
            key: made[key] if before.get(key, _NONE) is value else other(key, value) for key, value in given.items()
        }
        self._given, self._made = given, found
        return found
