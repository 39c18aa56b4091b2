# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of the reconciler: passes at once after quiet times, ten a second in a storm, retries after failures."""

from __future__ import annotations

import random
import typing as t

RESYNC = 90.0  # seconds between two resyncs, on average and by default

FIRST_RETRY, LAST_RETRY = 0.1, 10.0  # seconds before the first retry, and before each one after many failures
_RATE = 10.0  # the passes that the bucket forgets per second, so the most passes per second in the long run
_WINDOW = 0.1  # the most seconds that a pass is delayed, to gather more marks for it


class Pace:
    """A leaky bucket for passes, and intervals with jitter, so that nodes which started together do not stay in step.

    `interval` is the time between two resyncs in seconds; `chance` returns a random number from 0 to 1.
    """

    def __init__(self, interval: float = RESYNC, chance: t.Callable[[], float] = random.random) -> None:
        self._interval = interval
        self._chance = chance
        self._level = 0.0
        self._at = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds to wait before a pass, from 0 to 0.1. `now` is in seconds of the loop's clock.

        Of the passes that `passed` has counted, at most 20, ten are forgotten per second. The result is 0.01 for each
        that is left, at most 0.1, and 0 if less than one is left.
        """
        self._level = max(0.0, self._level - (now - self._at) * _RATE)
        self._at = now
        return min(_WINDOW, self._level * _WINDOW / 10) if self._level >= 1 else 0.0

    def passed(self) -> None:
        """Count a pass."""
        self._level = min(self._level + 1, 20.0)

    def resync(self) -> float:
        """Return the seconds until the next resync: the interval, give or take 10 %."""
        return self._jittered(self._interval)

    def retry(self, attempts: int) -> float:
        """Return the seconds until the next retry: 0.1 after the first failure, doubling up to 10, give or take 10 %.

        `attempts` is the number of earlier failures in a row.
        """
        return self._jittered(min(LAST_RETRY, FIRST_RETRY * 2 ** min(attempts, 10)))

    def _jittered(self, seconds: float) -> float:
        return seconds * (0.9 + 0.2 * self._chance())
