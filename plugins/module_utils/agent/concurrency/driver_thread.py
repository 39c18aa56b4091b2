# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The thread in which the drivers plan and apply, so that the event loop never waits for a kernel or a program."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import typing as t
import weakref

_T = t.TypeVar("_T")


class Worker(t.Protocol):
    """An object that runs blocking functions, one at a time in the order of the calls.

    Awaiting the call returns the function's result or raises its error.
    """

    async def __call__(self, work: t.Callable[[], _T]) -> _T: ...


class _Piece(asyncio.Future[t.Any]):
    """A future that cannot be cancelled: a cancelled task that awaits it is interrupted when the work is done."""

    def cancel(self, msg: t.Optional[t.Any] = None) -> bool:
        return False


_Queue = queue.SimpleQueue[t.Optional[tuple[asyncio.AbstractEventLoop, _Piece, t.Callable[[], t.Any]]]]


class DriverThread:
    """A Worker with one thread, which starts at the first call.

    Cancelling a task that awaits a piece of work takes effect when that piece is done. So no thread writes the kernel
    while nothing waits for it, and a lock held meanwhile is not released too early. At its end, the process waits for
    all submitted work. A concurrent.futures executor, with futures chained to the loop's, would cost each add 0.1 ms a
    call.
    """

    def __init__(self, name: str = "drivers") -> None:
        self._name = name
        self._queue: _Queue = queue.SimpleQueue()
        self._end: t.Optional[weakref.finalize[t.Any, t.Any]] = None
        self._closed = False

    async def __call__(self, work: t.Callable[[], _T]) -> _T:
        if self._closed:
            raise RuntimeError(f"the thread {self._name} is closed and takes no more work: submit it before close()")
        if self._end is None:
            thread = threading.Thread(target=_work, args=(self._queue,), name=self._name, daemon=True)
            thread.start()
            self._end = weakref.finalize(self, _stop, self._queue, thread)
        loop = asyncio.get_running_loop()
        piece = _Piece(loop=loop)
        self._queue.put((loop, piece, work))
        return t.cast(_T, await piece)

    def close(self) -> None:
        """Run all work submitted so far, then end the thread; block until then. Later work raises RuntimeError."""
        self._closed = True
        if self._end is not None:
            self._end()


def _work(queue: _Queue) -> None:
    while True:
        asked = queue.get()
        if asked is None:
            return
        loop, piece, work = asked
        result: t.Any = None
        failure: t.Optional[BaseException] = None
        try:
            result = work()
        except StopIteration as error:  # A future refuses a StopIteration as its error.
            failure = RuntimeError(f"work in a thread raised {error!r}")
        except BaseException as error:  # noqa: BLE001  the waiter gets it
            failure = error
        with contextlib.suppress(RuntimeError):  # RuntimeError: the loop is closed, and no task waits.
            loop.call_soon_threadsafe(_settle, piece, result, failure)
        del asked, loop, piece, work, result, failure  # without this, they would live until the next piece of work


def _settle(piece: _Piece, result: t.Any, failure: t.Optional[BaseException]) -> None:
    if failure is None:
        piece.set_result(result)
    else:
        piece.set_exception(failure)


def _stop(queue: _Queue, thread: threading.Thread) -> None:
    queue.put(None)
    if thread is not threading.current_thread():
        thread.join()
