# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock for each of many names, which costs nothing while nobody holds it."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t


class OneAtATime:
    """`async with one("name"):` lets in one at a time for each name, in the order of asking.

    `name in one` says whether somebody is in or waits.
    """

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._locks

    @contextlib.asynccontextmanager
    async def __call__(self, name: str) -> t.AsyncIterator[None]:
        lock, users = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1
