# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache of one round's results for the next one, so that only changed parts are computed."""

from __future__ import annotations

import typing as t

T = t.TypeVar("T")


class ResultCache:
    """Results by key, each with the value from which it was computed.

    A round is one compilation, for example. Results that a round does not use are dropped when the next one begins.
    """

    def __init__(self) -> None:
        self._before: dict[t.Hashable, tuple[t.Any, t.Any]] = {}
        self._now: dict[t.Hashable, tuple[t.Any, t.Any]] = {}

    def copy(self) -> ResultCache:
        made = ResultCache()
        made._before, made._now = self._before, dict(self._now)
        return made

    def begin(self) -> None:
        self._before, self._now = self._now, {}

    def recall(self, key: t.Hashable, given: t.Any, make: t.Callable[[], T]) -> T:
        """Return the cached result for `key` if it was computed from a value equal to `given`, else `make()`."""
        found = self._now.get(key) or self._before.get(key)
        if found is None or not (found[0] is given or found[0] == given):
            found = (given, make())
        self._now[key] = found
        return t.cast(T, found[1])
