# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pause between two looks at a condition that a test waits for.

Most looks start programs, often inside a lab's host: a test that looks every 50 ms spends more processor time on its
looks than all that it tests.
"""

from __future__ import annotations

import time


def pause(began: float, least: float = 0.05, most: float = 0.5) -> None:
    """Sleep a tenth of the time since `began`, a value of time.monotonic(): so a wait ends at most a tenth too late.

    The pause is at least `least` and at most `most` seconds.
    """
    time.sleep(min(most, max(least, (time.monotonic() - began) / 10)))
