# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose turn it is to write the kernel: adds and deletes among themselves, or the reconciler alone.

An add is half made between its link and its route, when its address goes to the disk. Two adds do not mind each other,
but a reconcile in between would take the half-made workload for a leftover.
"""

from __future__ import annotations

import asyncio
import typing as t


class Turn:
    """A lock with two ways in. `async with turn:` is alone; any number may hold `async with turn.shared():` together.

    Who waits to be alone goes before those who come later, so a stream of adds cannot keep the reconciler out.
    Belongs to the event loop that runs when it is first used.
    """

    def __init__(self) -> None:
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._taken = 0
        self._changed: t.Optional[asyncio.Condition] = None

    @property
    def quiet(self) -> t.Optional[int]:
        """A number that changes whenever somebody takes the lock, either way; None while somebody has it."""
        return None if self._sharing or self._alone else self._taken

    @property
    def _condition(self) -> asyncio.Condition:
        if self._changed is None:  # Python 3.9 binds it to the loop when it is made
            self._changed = asyncio.Condition()
        return self._changed

    async def __aenter__(self) -> None:
        async with self._condition:
            self._waiting_alone += 1
            try:
                await self._condition.wait_for(lambda: not self._alone and not self._sharing)
            finally:
                self._waiting_alone -= 1
                self._condition.notify_all()
            self._alone = True
            self._taken += 1

    async def __aexit__(self, *dummy: object) -> None:
        self._alone = False
        await self._wake()

    def shared(self) -> t.AsyncContextManager[None]:
        return _Shared(self)

    async def _share(self) -> None:
        self._taken += 1
        if self._alone or self._waiting_alone:
            async with self._condition:
                await self._condition.wait_for(lambda: not self._alone and not self._waiting_alone)
                self._sharing += 1
        else:
            self._sharing += 1

    async def _unshare(self) -> None:
        self._sharing -= 1
        if self._waiting_alone and not self._sharing:
            await self._wake()

    async def _wake(self) -> None:
        async with self._condition:
            self._condition.notify_all()


class _Shared(t.AsyncContextManager[None]):
    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def __aenter__(self) -> None:
        await self._turn._share()

    async def __aexit__(self, *dummy: object) -> None:
        await self._turn._unshare()
