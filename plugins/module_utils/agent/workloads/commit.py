# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group commit: one write, to the disk or to the kernel's tables, serves everybody who was waiting when it began.

An fdatasync takes 1.5 ms whatever it has to write, and so does a program that writes sets. Whoever asks while one is
under way gets the next, together with all others who ask until that begins: eight adds in parallel wait for two writes
and not for eight.
"""

from __future__ import annotations

import asyncio
import functools
import time
import typing as t

from ..reconcile.driver_thread import Worker


class Write:
    """A write that is under way or to come: who awaits it waits for its end, and is told why it failed.

    Whoever gives up waiting gives up for himself alone. `stands` may be set as soon as it is done, and looked at, in
    any thread: the news of its end takes a way.
    """

    def __init__(self) -> None:
        self.stands = False
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Somebody whose add failed for another reason does not wait for its write; asyncio is not to complain of that.
        self._done.add_done_callback(lambda done: done.exception())

    def __await__(self) -> t.Generator[t.Any, None, None]:
        return asyncio.shield(self._done).__await__()

    def end(self, error: t.Optional[Exception] = None) -> None:
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


class GroupCommit:
    """`work` does all that is asked for by then; see `flushing`."""

    def __init__(self, work: t.Callable[[Write], t.Awaitable[None]]) -> None:
        self._work = work
        self._next: t.Optional[Write] = None
        self._writing = False
        self.writes = 0

    def written(self) -> Write:
        """Is done when everything that is asked for by now is written, and raises what `work` raised for it.

        The write starts at once or after the one under way, whether or not anybody awaits this.
        """
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
                await asyncio.sleep(0)  # those who are ready to ask in this turn of the loop come along
                write, self._next = self._next, None
                try:
                    await self._work(write)
                except Exception as error:  # noqa: BLE001  it is theirs who wait
                    write.end(error)
                else:
                    self.writes += 1
                    write.end()
        finally:
            self._writing = False


def flushing(
    prepare: t.Callable[[], t.Callable[[], None]],
    thread: Worker,
    observed: t.Callable[[float], None] = lambda seconds: None,
) -> t.Callable[[Write], t.Awaitable[None]]:
    """`prepare` takes all that is queued and returns what writes it; that blocks, so it runs in `thread`.

    `observed(seconds)` is told how long each write took.
    """

    async def work(write: Write) -> None:
        began = time.perf_counter()
        await thread(functools.partial(_flush, prepare(), write))
        observed(time.perf_counter() - began)

    return work


def _flush(flush: t.Callable[[], None], write: Write) -> None:
    flush()
    write.stands = True
