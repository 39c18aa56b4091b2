# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one thread in which the drivers plan and apply, so that the event loop never waits for a kernel or a program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import typing as t

_T = t.TypeVar("_T")


class Worker(t.Protocol):
    """Runs blocking work, one piece at a time in the order of asking, and gives its result or raises its error."""

    async def __call__(self, work: t.Callable[[], _T]) -> _T: ...


class DriverThread:
    """A Worker with one thread.

    Cancelling whoever awaits a piece of work takes effect when that piece is done: the kernel is never left to a thread
    that nobody waits for, and a lock held meanwhile is not let go under it.
    """

    def __init__(self, name: str = "drivers") -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def __call__(self, work: t.Callable[[], _T]) -> _T:
        running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # looked at: nobody else will
            raise

    def close(self) -> None:
        """Waits for the piece that runs."""
        self._pool.shutdown(wait=True)
