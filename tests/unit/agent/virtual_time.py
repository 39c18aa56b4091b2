# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event loop whose clock jumps to the next timer: hours pass at once, and always in the same way."""

from __future__ import annotations

import asyncio
import selectors
import typing as t

_T = t.TypeVar("_T")


class _Jumping(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now += max(timeout, 1e-6)  # time passes even if `timeout` is 0
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(scenario: t.Coroutine[t.Any, t.Any, _T]) -> _T:
    """Run `scenario` on a new VirtualLoop and return its result, or raise its error; cancel the tasks that it left.

    Raise AssertionError if all tasks wait and no timer is set, because then nothing would ever happen.
    """
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(scenario)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()


async def inline(work: t.Callable[[], _T]) -> _T:
    """Run `work` in the loop's thread at the loop's next turn, and return its result or raise its error: a Worker."""
    await asyncio.sleep(0)
    return work()
