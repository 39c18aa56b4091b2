# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of the agent's own process, which the kernel knows (proc(5)), and the lag of its event loop."""

from __future__ import annotations

import asyncio
import os
import re
import typing as t

from ..concurrency import timer_alignment
from .instruments import Instruments

PROC = "/proc"


def watch_process(instruments: Instruments, proc: str = PROC) -> None:
    """Set the start time of this process, and refresh its other metrics from `proc` before each reading of them."""
    ticks = os.sysconf("SC_CLK_TCK")
    counted = 0.0

    def refresh() -> None:
        nonlocal counted
        stat = _stat(os.path.join(proc, "self", "stat"))
        # User and system time, fields 14 and 15 in proc(5). `stat` begins with field 3, the first one after the name.
        used = (int(stat[11]) + int(stat[12])) / ticks
        instruments.cpu.add(amount=max(0.0, used - counted))
        counted = max(counted, used)
        status = _read(os.path.join(proc, "self", "status"))
        instruments.resident.set(value=_kibibytes(status, "VmRSS"))
        instruments.resident_max.set(value=_kibibytes(status, "VmHWM"))
        instruments.open_fds.set(value=len(os.listdir(os.path.join(proc, "self", "fd"))))

    stat = _stat(os.path.join(proc, "self", "stat"))
    booted = re.search(r"^btime (\d+)$", _read(os.path.join(proc, "stat")), re.MULTILINE)
    if booted:
        instruments.start_time.set(value=int(booted.group(1)) + int(stat[19]) / ticks)
    instruments.registry.refresh_with(refresh)


async def watch_loop(instruments: Instruments, period: float = timer_alignment.PERIOD) -> t.NoReturn:
    """Record the lag of the event loop, in seconds, every `period` seconds until cancelled; never return."""
    loop = asyncio.get_running_loop()
    while True:
        now = loop.time()
        due = timer_alignment.after(now, period)
        await asyncio.sleep(due - now)
        instruments.loop_lag.observe(value=max(0.0, loop.time() - due))


def _stat(path: str) -> list[str]:
    """Return the fields of a stat file of proc(5) from field 3, after the program's name, which may be any text."""
    return _read(path).rpartition(")")[2].split()


def _kibibytes(status: str, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024.0 * int(found.group(1)) if found else float("nan")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
