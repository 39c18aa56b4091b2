# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the drivers' thread: one thread, one piece of work at a time, and no abandoned work."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.driver_thread import (
    DriverThread,
)


def test_work_is_done_in_turn_in_one_thread_that_is_not_the_loops():
    async def scenario():
        thread = DriverThread()
        order = []

        def work(number):
            order.append(number)
            return threading.get_ident()

        threads = await asyncio.gather(*(thread(lambda n=n: work(n)) for n in range(20)))
        assert order == list(range(20))
        assert len(set(threads)) == 1 and threads[0] != threading.get_ident()
        thread.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("used", [False, True])
def test_a_closed_thread_refuses_work(used):
    async def scenario():
        thread = DriverThread("disk")
        if used:
            await thread(lambda: None)
        thread.close()
        thread.close()
        with pytest.raises(RuntimeError) as caught:
            thread(lambda: None).send(None)  # not awaited: accepted work would never be done, nor be cancelled
        assert str(caught.value) == "the thread disk is closed and takes no more work: submit it before close()"

    asyncio.run(scenario())


def test_an_error_comes_back():
    async def scenario():
        thread = DriverThread()
        with pytest.raises(ZeroDivisionError):
            await thread(lambda: 1 // 0)
        thread.close()

    asyncio.run(scenario())


def test_a_cancelled_caller_ends_only_after_its_work_is_done():
    """A cancelled caller ends only when its work in the thread is done, so it keeps a lock that it holds until then."""

    async def scenario():
        thread = DriverThread()
        lock, begun, go_on, done = asyncio.Lock(), threading.Event(), threading.Event(), []

        def work():
            begun.set()
            assert go_on.wait(60)
            done.append(True)

        async def holder():
            async with lock:
                await thread(work)

        task = asyncio.ensure_future(holder())
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        for dummy in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done() and lock.locked()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done and not lock.locked()
        thread.close()

    asyncio.run(scenario())


def test_a_stop_iteration_of_the_work_becomes_a_runtime_error():
    async def scenario():
        thread = DriverThread()
        with pytest.raises(RuntimeError, match="StopIteration"):
            await thread(lambda: next(iter(())))
        assert await thread(lambda: 1) == 1
        thread.close()

    asyncio.run(scenario())


def test_an_error_of_work_whose_caller_was_cancelled_is_not_logged():
    async def scenario():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        thread, begun, go_on = DriverThread(), threading.Event(), threading.Event()

        def work():
            begun.set()
            assert go_on.wait(60)
            raise OSError("refused")

        task = asyncio.ensure_future(thread(work))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        assert complaints == []
        thread.close()

    asyncio.run(scenario())


def test_the_thread_goes_with_who_had_it():
    async def scenario():
        thread = DriverThread("short-lived")
        await thread(lambda: None)
        assert [found.name for found in threading.enumerate()].count("short-lived") == 1
        del thread
        gc.collect()
        assert [found.name for found in threading.enumerate()].count("short-lived") == 0

    asyncio.run(scenario())


def test_the_end_of_the_process_waits_for_the_work():
    program = (
        "import asyncio, os, sys, time\n"
        "from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency"
        ".driver_thread import DriverThread\n"
        "async def scenario():\n"
        "    thread = DriverThread()\n"
        "    asked = asyncio.ensure_future(thread(lambda: (time.sleep(0.1), os.write(1, b'done'))))\n"
        "    await asyncio.sleep(0)\n"
        "    kept.append((thread, asked))\n"
        "kept = []\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(scenario())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"done"
