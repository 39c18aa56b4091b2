# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alignment of the agent's periodic work: most of what runs about once a second runs at the same moment.

The process then wakes up once a second instead of once for each part. That is most of what an idle agent costs, because
each wake-up finds the processor's caches cold.
"""

from __future__ import annotations

PERIOD = 1.0  # seconds between two moments at which aligned timers fire, by default


def after(now: float, period: float = PERIOD) -> float:
    """Return the first multiple of `period` later than `now`, in seconds of the event loop's clock."""
    return (now // period + 1) * period
