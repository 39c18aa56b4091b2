# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seconds that never go back, whatever is done to the wall clock, and not over a reboot either.

CLOCK_BOOTTIME (clock_gettime(2)) goes on while a machine sleeps and begins anew when it boots. So whoever stores times
also stores the boot that they belong to and the offset that was added in it; the next boot begins at the latest time
that is stored. What passed while the machine was off is not counted: nothing is over too early, and a wait is never
longer than it would have been.
"""

from __future__ import annotations

import time
import typing as t

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boottime() -> float:
    """Seconds since this machine was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Another text for each boot (proc_sys_kernel(5))."""
    with open(BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()


class Epoch(t.NamedTuple):
    """What has to be stored beside times: the boot in which they were taken, and what to add to its seconds."""

    boot: str
    offset: float = 0.0


class SteadyClock:
    """`seconds` are those since the boot that `boot` names."""

    def __init__(self, seconds: t.Callable[[], float] = boottime, boot: t.Callable[[], str] = boot_id) -> None:
        self._seconds = seconds
        self._boot = boot
        self._offset = 0.0
        self._last = 0.0

    def __call__(self) -> float:
        self._last = max(self._last, self._seconds() + self._offset)
        return self._last

    def resume(self, stored: t.Optional[Epoch], latest: float) -> Epoch:
        """Goes on from what is stored: `latest` is the latest time in it. Returns what has to be stored from now on."""
        boot = self._boot()
        if stored is None or stored.boot != boot:
            offset = latest
        else:
            # A frozen process that was thawed on another machine, for one, may see its seconds go back in one boot.
            offset = max(stored.offset, latest - self._seconds())
        self._offset, self._last = offset, latest
        return Epoch(boot, offset)
