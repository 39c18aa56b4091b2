# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker whose work is delayed until a test releases it."""

from __future__ import annotations

import asyncio
import collections
import typing as t

_T = t.TypeVar("_T")


class Gate:
    """A Worker without a thread. While it is shut, work waits in the order of the calls."""

    def __init__(self) -> None:
        self.shut = False
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    async def __call__(self, work: t.Callable[[], _T]) -> _T:
        if self.shut or self._waiting:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]
        return work()

    def __len__(self) -> int:
        """Return the number of pieces of work that wait."""
        return len(self._waiting)

    def open(self) -> None:
        self.shut = False
        while self._waiting:
            self._waiting.popleft().set_result(None)
