# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's locks and its group commit: which task waits for which."""

from __future__ import annotations

import asyncio

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import daemon
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.locks import KeyedLock, RWLock
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.commit import GroupCommit

from tests.unit.agent.virtual_time import run


def test_readers_share_the_lock_and_do_not_overtake_a_waiting_writer():
    async def scenario():
        turn, seen = RWLock(), []

        async def shares(name, seconds):
            async with turn.shared():
                seen.append(f"+{name}")
                await asyncio.sleep(seconds)
                seen.append(f"-{name}")

        async def alone():
            async with turn:
                seen.append("+alone")
                await asyncio.sleep(1)
                seen.append("-alone")

        first = [asyncio.ensure_future(shares("a", 1)), asyncio.ensure_future(shares("b", 2))]
        await asyncio.sleep(0.5)
        writer = asyncio.ensure_future(alone())
        await asyncio.sleep(0.1)
        late = asyncio.ensure_future(shares("c", 1))  # does not overtake the waiting writer
        await asyncio.gather(*first, writer, late)
        assert seen == ["+a", "+b", "-a", "-b", "+alone", "-alone", "+c", "-c"]

    run(scenario())


def test_a_cancelled_waiter_does_not_block_the_lock():
    async def scenario():
        turn = RWLock()
        async with turn.shared():
            waiting = asyncio.ensure_future(turn.__aenter__())
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with turn.shared():
                pass
        async with turn:
            pass

    run(scenario())


def test_the_lock_was_not_quiet_if_a_reader_that_waited_had_it_meanwhile():
    """Two readings of `quiet` differ if a reader got the lock between them, also one that asked before the first."""

    async def scenario():
        turn, seen = RWLock(), []

        async def shares():
            async with turn.shared():
                seen.append(turn.quiet)
                await asyncio.sleep(1)

        async with turn:
            waiting = asyncio.ensure_future(shares())
            await asyncio.sleep(1)
            assert turn.quiet is None
        before = turn.quiet  # the reader was not woken yet
        assert before is not None and seen == []
        await waiting
        assert seen == [None] and turn.quiet not in (None, before)

    run(scenario())


class Disk:
    """A disk for a GroupCommit: each write takes `seconds` seconds and writes everything in `queued`."""

    def __init__(self, seconds=0):
        self.queued, self.written, self.broken, self.seconds = [], [], False, seconds

    async def write(self, dummy):
        group, self.queued = self.queued, []
        await asyncio.sleep(self.seconds)
        if self.broken:
            raise OSError("full")
        self.written.append(group)


def test_work_that_can_wait_gives_way_to_those_who_share_the_lock() -> None:
    """It waits until the last of them has ended, but not longer than it wants to; a writer is not waited for."""

    async def scenario() -> None:
        loop, lock = asyncio.get_running_loop(), RWLock()

        async def share(seconds: float) -> None:
            async with lock.shared():
                await asyncio.sleep(seconds)

        async def waited(most: float) -> float:
            await asyncio.sleep(0.001)
            began = loop.time()
            await lock.give_way(most)
            return round(loop.time() - began, 3)

        assert await asyncio.gather(waited(1), waited(0.003), share(0.006), share(0.004)) == [0.005, 0.003, None, None]
        assert not lock.is_shared
        async with lock:
            assert await waited(1) == 0
        assert await asyncio.gather(waited(0.01), share(5)) == [0.01, None]

    run(scenario())


def test_all_who_ask_while_a_write_is_under_way_share_the_next():
    async def scenario():
        disk = Disk(seconds=1)
        commit = GroupCommit(disk.write)

        async def put(number):
            await asyncio.sleep(number * 0.3)
            disk.queued.append(number)
            await commit.written()
            assert any(number in group for group in disk.written)

        await asyncio.gather(*(put(number) for number in range(5)))
        assert disk.written == [[0], [1, 2, 3], [4]]

    run(scenario())


def test_a_failed_write_is_reported_to_its_waiters_alone():
    async def scenario():
        disk = Disk()
        commit = GroupCommit(disk.write)
        disk.queued.append(1)
        disk.broken = True
        waiting = [commit.written(), commit.written()]
        given_up = asyncio.ensure_future(commit.written())
        await asyncio.sleep(0)
        given_up.cancel()
        assert [str(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == ["full", "full"]
        disk.broken = False
        disk.queued.append(2)
        await commit.written()
        assert disk.written == [[2]]

    run(scenario())


def test_one_at_a_time_for_each_name():
    async def scenario():
        one, inside = KeyedLock(), []

        async def enter(name, fails=False):
            async with one(name):
                assert name not in inside and name in one
                inside.append(name)
                await asyncio.sleep(1)
                inside.remove(name)
                if fails:
                    raise ValueError

        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(enter(name, fails=name == "b") for name in "aabbc"), return_exceptions=True)
        assert asyncio.get_running_loop().time() - begun == pytest.approx(2, abs=0.1)
        assert not any(name in one for name in "abc")

    run(scenario())


def test_a_part_that_ends_ends_the_agent_and_is_named(caplog):
    async def scenario():
        async def fails():
            raise ValueError("a mistake")

        parts = {"reconciler": asyncio.ensure_future(fails()), "signals": asyncio.ensure_future(asyncio.sleep(9))}
        await asyncio.wait(parts.values(), return_when=asyncio.FIRST_COMPLETED)
        assert daemon._ended(parts) == 1

    run(scenario())
    (record,) = caplog.records
    assert record.message == "reconciler ended, and so does the agent; systemd starts it again."
    assert "a mistake" in caplog.text
