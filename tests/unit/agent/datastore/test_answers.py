# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to open changes: the newest are in the datastore, whatever fails, and those of an earlier agent go."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.answers import (
    KEPT_ANSWERS,
    Answers,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.virtual_time import run


def answer(change: str, state: str = "in_force") -> ChangeAnswer:
    return ChangeAnswer("node1", change, 1.0, state)


def written(etcd: FakeEtcd) -> dict[str, str]:
    prefix = keys.answers_of("node1")
    found = {key.decode(): event.value for key, event in etcd.data().items() if key.decode().startswith(prefix)}
    return {
        key[len(prefix) :]: change_answer.decode("node1", key[len(prefix) :], value or b"").state
        for key, value in found.items()
    }


@contextlib.asynccontextmanager
async def writing(answers: Answers, etcd: FakeEtcd) -> t.AsyncIterator[None]:
    client = EtcdClient(etcd.members)
    task = asyncio.ensure_future(answers.run(client))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await client.close()


def test_the_newest_answers_are_there_and_those_of_an_earlier_agent_go() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        etcd.put(keys.answer_key("node1", "old"), change_answer.encode(answer("old")))
        other = keys.answer_key("node10", "old")
        etcd.put(other, b"{}")
        answers = Answers(lambda: "node1")
        async with writing(answers, etcd):
            await asyncio.sleep(1)
            assert written(etcd) == {}
            answers.put(answer("a"))
            await asyncio.sleep(0.1)
            assert written(etcd) == {"a": "in_force"} and other.encode() in etcd.data()
            answers.put(answer("a", "kept"))
            for number in range(KEPT_ANSWERS):
                answers.put(answer(f"b{number}"))
                await asyncio.sleep(0.1)
            assert set(written(etcd)) == {f"b{number}" for number in range(KEPT_ANSWERS)}

    run(scenario())


def test_what_could_not_be_written_is_written_later_and_by_another_connection() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        answers = Answers(lambda: "node1")
        async with writing(answers, etcd):
            for member in etcd.members.values():
                member.kill()
            answers.put(answer("a"))
            await asyncio.sleep(30)
            assert written(etcd) == {}
        for member in etcd.members.values():
            member.up = True
        async with writing(answers, etcd):
            await asyncio.sleep(1)
            assert written(etcd) == {"a": "in_force"}

    run(scenario())


def test_where_live_policy_is_not_allowed_nothing_is_read_or_written() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        answers = Answers(lambda: "")
        async with writing(answers, etcd):
            await asyncio.sleep(30)
        assert all(member.calls == [] for member in etcd.members.values())

    run(scenario())
