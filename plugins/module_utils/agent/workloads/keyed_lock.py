# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock for each of many names, which costs nothing while nobody holds it."""

from __future__ import annotations

import asyncio
import typing as t


class OneAtATime:
    """`async with one("name"):` lets in one at a time for each name, in the order of asking.

    `name in one` says whether somebody is in or waits.
    """

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._locks

    def __call__(self, name: str) -> t.AsyncContextManager[None]:
        return _Held(self._locks, name)


class _Held(t.AsyncContextManager[None]):
    def __init__(self, locks: dict[str, tuple[asyncio.Lock, int]], name: str) -> None:
        self._locks = locks
        self._name = name

    async def __aenter__(self) -> None:
        lock, users = self._locks.get(self._name) or (asyncio.Lock(), 0)
        self._locks[self._name] = lock, users + 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *dummy: object) -> None:
        self._locks[self._name][0].release()
        self._leave()

    def _leave(self) -> None:
        lock, users = self._locks.pop(self._name)
        if users > 1:
            self._locks[self._name] = lock, users - 1
