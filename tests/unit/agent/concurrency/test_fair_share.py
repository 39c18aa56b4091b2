# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of how callers other than root share the agent: one at a time, after root, by used time, within a share."""

from __future__ import annotations

import asyncio
import gc
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency import fair_share
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.fair_share import (
    Coalesced,
    FairShare,
)

from tests.unit.agent.virtual_time import run


def shared(**settings: t.Any) -> FairShare:
    """Return a FairShare with these arguments; `clock` and `meter` are by default the loop's time in seconds."""
    clock = asyncio.get_running_loop().time
    return FairShare(**{"clock": clock, "meter": clock, **settings})


async def take(share: FairShare, key: str, seconds: float, done: list[tuple[str, float]]) -> None:
    async with share.turn(key):
        await asyncio.sleep(seconds)
        done.append((key, asyncio.get_running_loop().time()))


def test_turns_use_no_more_than_their_share() -> None:
    async def scenario() -> float:
        share, done = shared(share=0.2), []
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*[take(share, "a", 0.1, done) for dummy in range(10)])
        return done[-1][1] - began

    assert run(scenario()) == pytest.approx(9 * 0.5 + 0.1, rel=0.02)


def test_time_of_other_processes_is_not_charged() -> None:
    """Let turns of 0.1 s use 1 ms of the processor each, as on a machine with a hundred busy processes."""

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        share, done = shared(share=0.2, meter=lambda: loop.time() / 100), []
        began = loop.time()
        await asyncio.gather(*[take(share, "a", 0.1, done) for dummy in range(10)])
        return done[-1][1] - began

    assert run(scenario()) == pytest.approx(10 * 0.1 + 9 * 4 * (0.001 + fair_share._OVERHEAD), rel=0.02)


def test_the_caller_that_has_used_less_time_is_next() -> None:
    """The caller that has used less time is next. A round robin would give most time to the one with long turns."""

    async def scenario() -> list[str]:
        share, done = shared(), []
        greedy = [take(share, "greedy", 1.0, done) for dummy in range(4)]
        modest = [take(share, "modest", 0.1, done) for dummy in range(6)]
        await asyncio.gather(*greedy, *modest)
        return [key for key, dummy in done]

    assert run(scenario()) == ["greedy", *["modest"] * 6, *["greedy"] * 3]


def test_a_later_caller_starts_equal_to_the_earlier_ones() -> None:
    async def scenario() -> list[str]:
        share, done = shared(), []
        await asyncio.gather(*[take(share, "old", 1.0, done) for dummy in range(5)])
        both = [take(share, key, 1.0, done) for key in ("old", "new") for dummy in range(3)]
        await asyncio.gather(*both)
        return [key for key, dummy in done[5:]]

    assert sorted(run(scenario())[:4]) == ["new", "new", "old", "old"]


def test_no_turn_begins_while_root_is_served() -> None:
    async def scenario() -> tuple[list[tuple[str, float]], float]:
        share, done = shared(patience=100.0), []
        began = asyncio.get_running_loop().time()
        share.begin_urgent()
        waiting = [asyncio.ensure_future(take(share, f"reader{number}", 0.0, done)) for number in range(200)]
        await asyncio.sleep(5.0)
        assert done == []
        share.end_urgent()
        await asyncio.gather(*waiting)
        return done, began

    done, began = run(scenario())
    assert len(done) == 200 and done[0][1] - began >= 5.0


def test_readers_are_not_forgotten_while_root_never_rests() -> None:
    async def scenario() -> int:
        share, done = shared(patience=0.1), []
        share.begin_urgent()
        waiting = [asyncio.ensure_future(take(share, "a", 0.001, done)) for dummy in range(1000)]
        await asyncio.sleep(10.0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return len(done)

    assert 90 <= run(scenario()) <= 101


@pytest.mark.parametrize("when", [0, 1, 2, 3])
def test_a_cancelled_turn_does_not_block_the_next(when: int) -> None:
    async def scenario() -> list[str]:
        share, done = shared(), []
        first = asyncio.ensure_future(take(share, "first", 1.0, done))
        second = asyncio.ensure_future(take(share, "second", 0.0, done))
        for dummy in range(when):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return [key for key, dummy in done]

    assert run(scenario()) == ["second"]


def test_a_failing_step_does_not_block_the_next() -> None:
    async def scenario() -> list[int]:
        share, done = shared(), []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        share.soon("a", lambda: done.append(1 // 0))
        share.soon("a", lambda: done.append(2))
        await asyncio.sleep(1.0)
        return done

    assert run(scenario()) == [2]


def test_a_long_turn_gives_way_to_root_alone() -> None:
    async def scenario() -> list[str]:
        share = shared(patience=100.0)
        said = []

        async def long() -> None:
            async with share.turn("long"):
                for number in range(3):
                    await asyncio.sleep(0.1)
                    said.append(f"long {number}")
                    await fair_share.give_way()

        async def root() -> None:
            await asyncio.sleep(0.15)
            share.begin_urgent()
            await asyncio.sleep(50.0)
            said.append("root")
            share.end_urgent()

        async def short() -> None:
            async with share.turn("short"):
                said.append("short")

        await asyncio.gather(long(), short(), root())
        await fair_share.give_way()  # this task has no turn, so the call returns at once
        return said

    assert run(scenario()) == ["long 0", "root", "long 1", "long 2", "short"]


def test_callers_are_not_remembered_for_ever() -> None:
    async def scenario() -> int:
        share, done = shared(share=0.99), []
        always = asyncio.gather(*[take(share, "always", 0.0, done) for dummy in range(9000)])
        await asyncio.gather(*[take(share, f"uid {number}", 0.001, done) for number in range(3000)])
        known = len(share._spent)
        await always
        assert not share._spent
        return known

    assert run(scenario()) < 1000


def test_one_answer_for_all_who_ask_before_it_begins() -> None:
    async def scenario() -> tuple[list[int], int]:
        share = shared()
        coalesced = Coalesced(share)
        made = 0

        async def work() -> int:
            nonlocal made
            made += 1
            mine = made
            await asyncio.sleep(1.0)
            return mine

        early = [asyncio.ensure_future(coalesced(number, "plan", {}, work)) for number in range(200)]
        await asyncio.sleep(0.5)  # the first piece of work has begun: later callers do not share it
        late = [asyncio.ensure_future(coalesced(number, "plan", {}, work)) for number in range(200)]
        other = asyncio.ensure_future(coalesced(1, "plan", {"id": "x"}, work))
        await asyncio.sleep(0.1)
        assert len(coalesced) == 2
        return await asyncio.gather(*early, *late, other), made

    answers, made = run(scenario())
    # `other` runs before `late`: its caller, 1, has used no time yet. Both other pieces run in turns of caller 0.
    assert answers == [1] * 200 + [3] * 200 + [2] and made == 3


def test_coalesced_work_without_a_waiting_caller_is_not_begun(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[str]:
        share = shared(patience=100.0)
        coalesced = Coalesced(share)
        begun = []

        async def work(name: str) -> None:
            begun.append(name)
            await asyncio.sleep(1.0)
            raise ValueError(name)

        share.begin_urgent()
        gone = asyncio.ensure_future(coalesced(1, "a", {}, lambda: work("a")))
        await asyncio.sleep(0.1)
        gone.cancel()
        await asyncio.sleep(0.1)
        share.end_urgent()
        leaves = asyncio.ensure_future(coalesced(1, "b", {}, lambda: work("b")))
        await asyncio.sleep(0.5)
        leaves.cancel()  # work that has begun is finished, and no caller receives its error
        with pytest.raises(ValueError):
            await coalesced(1, "c", {}, lambda: work("c"))
        assert len(coalesced) == 0
        return begun

    assert run(scenario()) == ["b", "c"]
    gc.collect()
    assert caplog.records == []
