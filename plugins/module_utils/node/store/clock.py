# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks for stored times: the wall clock as text, and seconds that never go back, not over a reboot either.

CLOCK_BOOTTIME (clock_gettime(2)) goes on while a machine sleeps and restarts when it boots. So a program that stores
times also stores the boot that they belong to and the offset that was added in it. The next boot begins at the latest
stored time. The time while the machine was off does not count, so that no wait ends too early.
"""

from __future__ import annotations

import datetime
import time
import typing as t

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def now() -> str:
    """Return the current time as it is stored: ISO 8601, UTC, whole seconds."""
    return utc(time.time())


def utc(seconds: float) -> str:
    """Return a time in seconds since 1970 as it is stored: ISO 8601, UTC, whole seconds."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def boottime() -> float:
    """Return the seconds since this machine was booted, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the kernel's text that differs for each boot (proc_sys_kernel(5)). Raise OSError if it cannot be read."""
    with open(BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()


class Epoch(t.NamedTuple):
    """What must be stored beside times: the id of the boot in which they were taken, and their offset in seconds.

    A time is the seconds since that boot plus the offset.
    """

    boot: str
    offset: float = 0.0


class SteadyClock:
    """A clock that returns seconds when it is called, and never fewer than before.

    `seconds` returns the seconds since the boot that `boot` names.
    """

    def __init__(self, seconds: t.Callable[[], float] = boottime, boot: t.Callable[[], str] = boot_id) -> None:
        self._seconds = seconds
        self._boot = boot
        self._offset = 0.0
        self._last = 0.0

    def __call__(self) -> float:
        self._last = max(self._last, self._seconds() + self._offset)
        return self._last

    def resume(self, stored: t.Optional[Epoch], latest: float) -> Epoch:
        """Let the clock go on from `latest`, the latest stored time in seconds, or from a later one.

        `stored` is the stored epoch, None if there is none. Return the epoch of this boot, for the caller to store.
        Raise OSError if the boot's id cannot be read.
        """
        boot = self._boot()
        if stored is None or stored.boot != boot:
            offset = latest
        else:
            # A process that is migrated to another machine, for example, may see its seconds go back in one boot.
            offset = max(stored.offset, latest - self._seconds())
        self._offset, self._last = offset, latest
        return Epoch(boot, offset)
