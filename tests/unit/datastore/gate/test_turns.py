# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turns of requests: those without a token, and those of users."""

from __future__ import annotations

import asyncio
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.places import (
    ConnectionPlace,
    ConnectionPlaces,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.turns import (
    FairTurns,
    Newcomers,
    PutOff,
    Users,
)

PLACES = ConnectionPlaces()


def place(source: str, of_fleet: bool = True) -> ConnectionPlace:
    return ConnectionPlace(source, of_fleet, "own", PLACES)


class Served:
    """Requests that hold their turns until they are let go, in the order in which they had them."""

    def __init__(self, newcomers: Newcomers) -> None:
        self.newcomers, self.turns = newcomers, newcomers._turns
        self.order: list[str] = []
        self.put_off: list[int] = []
        self.goes = asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, source: str, of_fleet: bool = True, times: int = 1) -> None:
        async def one() -> None:
            try:
                async with self.newcomers.turn(place(source, of_fleet)):
                    self.order.append(source)
                    await self.goes.acquire()
            except PutOff as later:
                self.put_off.append(later.seconds)

        self.tasks += [asyncio.ensure_future(one()) for dummy in range(times)]
        await asyncio.sleep(0)

    async def end(self) -> None:
        for dummy in self.tasks:
            self.goes.release()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def run(scenario: t.Callable[[Served], t.Awaitable[None]]) -> None:
    async def inside() -> None:
        await scenario(Served(Newcomers(1)))

    asyncio.run(inside())


def test_each_address_has_its_turn_and_the_fleet_the_first() -> None:
    """One that asks again and again, such as a revoked node, delays nobody else by more than one of its own."""

    async def scenario(served: Served) -> None:
        await served.ask("10.0.0.9", times=6)
        await served.ask("192.0.2.1", of_fleet=False, times=2)
        for agent in ("10.0.0.1", "10.0.0.2"):
            await served.ask(agent, times=2)
        await served.end()
        agents = ["10.0.0.9", "10.0.0.1", "10.0.0.2"]
        assert served.order == ["10.0.0.9", *agents, *agents, *["10.0.0.9"] * 3, *["192.0.2.1"] * 2]

    run(scenario)


def test_few_of_an_address_wait_and_more_are_put_off() -> None:
    async def scenario(served: Served) -> None:
        await served.ask("10.0.0.9", times=20)
        assert len(served.put_off) == 11 and set(served.put_off) == {1}
        await served.ask("10.0.0.1")
        assert len(served.put_off) == 11
        await served.end()
        assert len(served.order) == 10

    run(scenario)


def test_an_address_is_served_at_a_rate() -> None:
    """The next one is put off until there is one again."""

    async def scenario(served: Served) -> None:
        for dummy in range(40):
            served.goes.release()
            await served.ask("10.0.0.9")
            await asyncio.gather(*served.tasks)
        assert 32 <= len(served.order) < 40 and served.put_off

    run(scenario)


def test_one_that_leaves_keeps_no_turn() -> None:
    async def scenario(served: Served) -> None:
        await served.ask("10.0.0.1")
        await served.ask("10.0.0.2", times=2)
        served.tasks[1].cancel()
        await asyncio.sleep(0)
        await served.end()
        assert served.order == ["10.0.0.1", "10.0.0.2"]
        assert served.turns._running == 0 and served.turns._queues == {True: {}, False: {}}

    run(scenario)


def test_a_turn_that_comes_with_a_cancellation_is_given_on() -> None:
    async def scenario(served: Served) -> None:
        await served.ask("10.0.0.1")
        await served.ask("10.0.0.2")
        await served.ask("10.0.0.3")
        served.goes.release()
        while served.tasks[1]._fut_waiter is None or not served.tasks[1]._fut_waiter.done():  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        served.tasks[1].cancel()
        await served.end()
        assert served.turns._running == 0
        assert served.order[-1] == "10.0.0.3"

    run(scenario)


def test_a_turn_that_ends_early_is_given_on_once() -> None:
    async def scenario() -> None:
        turns = FairTurns(1)
        async with turns.turn("a") as end:
            end()
            end()
            async with turns.turn("b"):
                assert turns._running == 1
                waiting = asyncio.ensure_future(turns.turn("a").__aenter__())
                await asyncio.sleep(0)
                assert not waiting.done()
            await waiting
        assert turns._running == 1

    asyncio.run(scenario())


def test_the_text_for_one_that_is_put_off() -> None:
    assert [str(PutOff(seconds)) for seconds in (0.1, 7.6, 1000.0)] == [
        f"it is busy; ask again in {seconds} s" for seconds in (1, 8, 30)
    ]


def test_a_users_requests_are_few_at_the_same_time_and_those_of_others_go_on() -> None:
    async def scenario() -> None:
        users, running, most = Users(), 0, 0
        ended = asyncio.Event()

        async def one() -> None:
            nonlocal running, most
            async with users.turn("node1"):
                running += 1
                most = max(most, running)
                await ended.wait()
                running -= 1

        tasks = [asyncio.ensure_future(one()) for dummy in range(20)]
        await asyncio.sleep(0)
        async with users.turn("node2"):
            assert running == most == 4
        tasks[-1].cancel()
        ended.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most == 4 and not users._turns

    asyncio.run(scenario())
