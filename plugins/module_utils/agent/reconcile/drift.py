# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of changes that other programs made to our objects: since the start, and in the last 23 to 24 hours."""

from __future__ import annotations

import collections
import typing as t

_HOUR = 3600.0
_HOURS = 24


class Drift:
    """Counts of drift by kind, `total` since the start. `clock` gives seconds; its hours are not the wall clock's."""

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self._hours: collections.deque[tuple[int, collections.Counter[str]]] = collections.deque()
        self.total: collections.Counter[str] = collections.Counter()

    def count(self, kind: str) -> None:
        """Count one drift of an object of this kind."""
        hour = int(self._clock() // _HOUR)
        self.total[kind] += 1
        if not self._hours or self._hours[-1][0] != hour:
            self._hours.append((hour, collections.Counter()))
            self._forget(hour)
        self._hours[-1][1][kind] += 1

    def day(self) -> dict[str, int]:
        """Return the counts of this clock hour and the 23 before it, by kind. Kinds without drift are left out."""
        self._forget(int(self._clock() // _HOUR))
        summed: collections.Counter[str] = collections.Counter()
        for dummy, counted in self._hours:
            summed.update(counted)
        return dict(sorted(summed.items()))

    def to_dict(self) -> dict[str, t.Any]:
        """Return {"total": drift since the start, "day": the sum of `day()`, "kinds": `day()`}."""
        day = self.day()
        return {"total": sum(self.total.values()), "day": sum(day.values()), "kinds": day}

    def _forget(self, hour: int) -> None:
        while self._hours and self._hours[0][0] <= hour - _HOURS:
            self._hours.popleft()
