# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the parts of an idle agent do what they do about once a second: all at the same moment.

The process is woken once then, instead of once for each of them. That is most of what an idle agent costs: whoever
wakes finds the caches of the processor cold.
"""

from __future__ import annotations

PERIOD = 1.0  # seconds


def after(now: float, period: float = PERIOD) -> float:
    """The first beat that is later than `now`, in seconds of the event loop's clock."""
    return (now // period + 1) * period
