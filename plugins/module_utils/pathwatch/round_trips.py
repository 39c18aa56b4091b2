# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Round-trip times of a pool's paths, counted in fixed buckets."""

from __future__ import annotations

import array
import bisect

#: The upper bounds of the buckets, in seconds. A time above the last one is counted beyond it.
BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
#: No time is counted as more: the answer of another node can say anything.
_LONGEST = 10.0


class RoundTrips:
    """The times that were counted: `counts` has one number for each bound of BOUNDS, and one for longer times."""

    def __init__(self) -> None:
        self.counts = array.array("Q", [0] * (len(BOUNDS) + 1))
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a time. One that is negative or no number is left out."""
        if not seconds >= 0.0:
            return
        seconds = min(seconds, _LONGEST)
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
