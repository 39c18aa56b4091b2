# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group commit: one write, to the disk or to the kernel's tables, serves all callers that waited when it began.

An fdatasync takes 1.5 ms however much it writes, and so does a program that writes sets. A request that comes while a
write is under way gets the next one, together with all other requests until that begins. Eight adds in parallel wait
for two writes and not for eight.
"""

from __future__ import annotations

import asyncio
import typing as t


class Write:
    """A write that is under way or to come. Awaiting it returns None when it is done, or raises why it failed.

    Cancelling one waiter does not cancel the write or other waiters. `in_force` is set to True by the work of the
    write, when it has written its data; it stays False if the write fails. Any thread may read or set it, earlier than
    the event loop learns that the write ended.
    """

    def __init__(self) -> None:
        self.in_force = False
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Some callers do not await their write, such as an add that failed for another reason. Without the callback,
        # asyncio would log the error of that write.
        self._done.add_done_callback(lambda done: done.exception())

    def __await__(self) -> t.Generator[t.Any, None, None]:
        return asyncio.shield(self._done).__await__()

    def end(self, error: t.Optional[Exception] = None) -> None:
        """Wake all waiters: with None, or with `error` if the write failed."""
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


class GroupCommit:
    """The queue of writes that serve several callers each. It belongs to the event loop.

    `work(write)` writes everything requested so far.
    """

    def __init__(self, work: t.Callable[[Write], t.Awaitable[None]]) -> None:
        self._work = work
        self._next: t.Optional[Write] = None
        self._writing = False

    def written(self) -> Write:
        """Return a Write of everything requested so far, which raises what `work` does. It need not be awaited."""
        if self._next is None:
            self._next = Write()
        write = self._next
        if not self._writing:
            self._writing = True
            self._task = asyncio.ensure_future(self._write())
        return write

    async def _write(self) -> None:
        try:
            while self._next is not None:
                await asyncio.sleep(0)  # tasks that are ready to request a write join this one
                write, self._next = self._next, None
                try:
                    await self._work(write)
                except Exception as error:  # noqa: BLE001  the waiters get it
                    write.end(error)
                else:
                    write.end()
        finally:
            self._writing = False
