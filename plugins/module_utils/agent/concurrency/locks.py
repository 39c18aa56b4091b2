# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of the event loop: write access to the kernel, and one transaction at a time for each workload."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t


class RWLock:
    """A reader-writer lock that prefers writers: `async with lock:` is exclusive, `async with lock.shared():` shared.

    The reconciler holds it exclusively; adds and deletes share it, since two of them do not touch the same objects. A
    reconcile in the middle of an add would take its link, which has no route yet, for a leftover. The writer goes
    before readers that come later, so a stream of adds cannot keep the reconciler out.

    It belongs to the event loop that runs when it is first used.
    """

    def __init__(self) -> None:
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._taken = 0
        self._changed = asyncio.Condition()
        self._giving_way: set[asyncio.Future[None]] = set()

    @property
    def quiet(self) -> t.Optional[int]:
        """A number that changes whenever the lock is acquired; None while it is held."""
        return None if self._sharing or self._alone else self._taken

    @property
    def is_shared(self) -> bool:
        """Whether somebody holds the lock shared: an add or a delete is under way."""
        return self._sharing > 0

    async def give_way(self, most: float = 0.01) -> None:
        """Let other tasks run, and those that hold the lock shared finish, for which wait at most so many seconds.

        It is for work that can wait and does not need the lock: an add takes a few milliseconds if nothing else runs.
        """
        if not self._sharing:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._giving_way.add(waiter)
        alarm = asyncio.get_running_loop().call_later(most, _finish, waiter)
        try:
            await waiter
        finally:
            alarm.cancel()
            self._giving_way.discard(waiter)

    async def __aenter__(self) -> None:
        async with self._changed:
            self._waiting_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and not self._sharing)
            finally:
                self._waiting_alone -= 1
                self._changed.notify_all()
            self._alone = True
            self._taken += 1

    async def __aexit__(self, *dummy: object) -> None:
        self._alone = False
        await self._wake()

    @contextlib.asynccontextmanager
    async def shared(self) -> t.AsyncIterator[None]:
        """Hold the lock shared. Wait while a writer has or wants it."""
        if self._alone or self._waiting_alone:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._alone and not self._waiting_alone)
        self._sharing += 1
        self._taken += 1
        try:
            yield
        finally:
            self._sharing -= 1
            if not self._sharing:
                for waiter in self._giving_way:
                    _finish(waiter)
            if self._waiting_alone and not self._sharing:
                await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class KeyedLock:
    """A lock for each of many names: `async with locks("name"):` excludes others with this name, in order of arrival.

    A name uses no memory while its lock is neither held nor waited for. `name in locks` says whether it is either.
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
