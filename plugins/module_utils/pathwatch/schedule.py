# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of the watch: how many probes a second each pool gets, and within which time each of its paths is tried.

A node sends at most PACKETS probes a second. Up to WHOLE paths are all tried in one round, which takes

    max(SHORTEST, paths / PACKETS) seconds, at most 30.

With more paths, each round of ROUND seconds takes a sample of every pool, which moves on. Each pool gets an equal share
of the probes, and at most one for each of its paths; what a small pool leaves is shared by the others. So each path of
a pool is tried within

    paths of the pool / probes a second of the pool

seconds. Paths that are suspected or down are tried more often. They leave at least PACKETS - FAST - RETRIED probes a
second to the round, which then takes up to five times as long.
"""

from __future__ import annotations

import math
import typing as t

#: The most probes that a node sends in a second.
PACKETS = 10
#: The most probes a second to suspected paths, and to paths that are down.
FAST, RETRIED = 6, 2
#: The seconds of a round: at least, and with as many paths as one round can try.
SHORTEST, ROUND = 5.0, 30.0
#: The most paths that are all tried in each round.
WHOLE = int(PACKETS * ROUND)


def rates(counts: t.Sequence[int]) -> list[float]:
    """Return the probes a second of each pool, by the number of its paths. Together they are at most PACKETS."""
    total = sum(counts)
    if total <= WHOLE:
        seconds = max(SHORTEST, total / PACKETS)
        return [count / seconds for count in counts]
    found = [0.0] * len(counts)
    left, pools = float(PACKETS), len(counts)
    for position in sorted(range(len(counts)), key=lambda position: counts[position]):
        found[position] = min(counts[position] / ROUND, left / pools)
        left -= found[position]
        pools -= 1
    return found


def tried_within(count: int, rate: float) -> int:
    """Return the whole seconds within which each of `count` paths is tried at `rate` probes a second; 0 for none."""
    return math.ceil(count / rate - 1e-6) if count else 0


class Round:
    """The round over the paths of all pools. The paths of a pool are a range of numbers: `ranges` has (first, end).

    Each pool begins at the path that `offset` selects, so that the nodes of a fleet do not all begin with one node.
    """

    def __init__(self, ranges: t.Sequence[tuple[int, int]], offset: int = 0) -> None:
        self._ranges = list(ranges)
        self.rates = rates([end - first for first, end in ranges])
        self._credit = [1.0] * len(ranges)
        self._next = [first + offset % (end - first) if end > first else first for first, end in ranges]

    def add(self, seconds: float) -> None:
        """Let `seconds` pass. A pool saves up at most the probes of two seconds, and one more."""
        for pool, rate in enumerate(self.rates):
            self._credit[pool] = min(self._credit[pool] + rate * seconds, 2 * rate + 1)

    def take(self, most: int, usable: t.Callable[[int], bool]) -> list[int]:
        """Return up to `most` paths that are due. Paths that are not `usable` are skipped at no cost."""
        found: list[int] = []
        for dummy in range(most):
            pool = max(range(len(self._credit)), key=self._credit.__getitem__, default=-1)
            if pool < 0 or self._credit[pool] < 1 - 1e-6:
                break
            path = self._step(pool, usable, found)
            if path is None:
                self._credit[pool] = 0.0
                continue
            self._credit[pool] -= 1
            found.append(path)
        return found

    def _step(self, pool: int, usable: t.Callable[[int], bool], found: t.Sequence[int]) -> t.Optional[int]:
        first, end = self._ranges[pool]
        # At most a few paths are not usable at a time: those with a probe under way.
        for dummy in range(min(end - first, 8 * PACKETS)):
            path = self._next[pool]
            self._next[pool] = path + 1 if path + 1 < end else first
            if path not in found and usable(path):
                return path
        return None
