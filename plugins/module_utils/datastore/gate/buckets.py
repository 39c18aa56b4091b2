# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Token buckets: how much may be taken at once, and how much returns each second, by any one clock in seconds."""

from __future__ import annotations

#: The most buckets that are kept of those who have not used all of theirs.
_BUCKETS = 8192


class Bucket:
    """What may be taken at once, `burst`, and what comes back within a second, `rate`."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = burst, now

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until so much can be taken, 0.0 for now. More than the burst is taken from a full one."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
        return max(0.0, (min(amount, self._burst) - self._left) / self._rate)

    def take(self, amount: float) -> None:
        """Take `amount` from the bucket, which may owe some afterwards."""
        self._left -= amount


class Buckets:
    """A bucket for each key. The one that was used least recently is forgotten if there are too many."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._of: dict[str, Bucket] = {}

    def take(self, key: str, now: float) -> float:
        """Take one from a bucket and return 0.0, or return the seconds until there is one."""
        bucket = self._of.pop(key, None) or Bucket(self._burst, self._rate, now)
        self._of[key] = bucket
        if len(self._of) > _BUCKETS:
            del self._of[next(iter(self._of))]
        wait = bucket.wait(1, now)
        if not wait:
            bucket.take(1)
        return wait
