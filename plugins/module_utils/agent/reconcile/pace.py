# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the reconciler looks: at once after quiet times, ten times a second in a storm, and again after failures."""

from __future__ import annotations

import random
import typing as t

RESYNC = 90.0  # seconds between two looks at everything, on the average

FIRST_RETRY, LAST_RETRY = 0.1, 10.0  # seconds
_RATE = 10.0  # passes a second in the long run
_WINDOW = 0.1  # seconds that marks are gathered at most


class Pace:
    """A leaky bucket for passes, and intervals with some chance in them: nodes that started together do not stay so.

    `interval` is in seconds; `chance` returns a number from 0 to 1.
    """

    def __init__(self, interval: float = RESYNC, chance: t.Callable[[], float] = random.random) -> None:
        self._interval = interval
        self._chance = chance
        self._level = 0.0
        self._at = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds to wait before a pass."""
        self._level = max(0.0, self._level - (now - self._at) * _RATE)
        self._at = now
        return min(_WINDOW, self._level * _WINDOW / 10) if self._level >= 1 else 0.0

    def passed(self) -> None:
        """Count a pass."""
        self._level = min(self._level + 1, 20.0)

    def resync(self) -> float:
        """Return the seconds until the next look at everything."""
        return self._jittered(self._interval)

    def retry(self, attempts: int) -> float:
        """Return the seconds until the next try of what has failed so many times before."""
        return self._jittered(min(LAST_RETRY, FIRST_RETRY * 2 ** min(attempts, 10)))

    def _jittered(self, seconds: float) -> float:
        return seconds * (0.9 + 0.2 * self._chance())
