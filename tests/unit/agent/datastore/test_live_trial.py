# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trials of live policy on whole agents: in force for their time, and kept only if a new connection shows the commit.

The datastore and the kernel are in memory, and the clock jumps.
"""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore import new_connection
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Connection
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Operation, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import UnconfirmedStore
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.datastore.live_node import (
    INVENTORY,
    KEYS,
    delete,
    deny,
    document,
    node,
    ports,
    problems,
    put,
    running,
    said,
    state,
    status,
    until,
    write,
)
from tests.unit.agent.virtual_time import run

SECONDS = 60


def trial(documents: dict[DocumentKey, bytes | None], name: str = "first", kind: str = "trial") -> Put:
    change = OpenChange(name, "alice", kind, SECONDS, 1, documents)
    return Put(keys.OPEN_CHANGE, open_change.encode(change))


def commit(documents: dict[DocumentKey, bytes | None]) -> list[Operation]:
    """Return the transaction that makes a change that was tried."""
    made: list[Operation] = [Delete(keys.OPEN_CHANGE)]
    for key, value in documents.items():
        text = keys.document_key(key)
        made.append(Delete(text) if value is None else Put(text, value))
    return made


def answer(etcd: FakeEtcd, name: str = "first") -> tuple[str, str]:
    """Return the state of the node's answer and its reason, ("", "") without one."""
    event = etcd.data().get(keys.answer_key("node1", name).encode())
    if event is None:
        return "", ""
    found = change_answer.decode("node1", name, event.value or b"")
    return found.state, found.reason


WEB = {KEYS["web"]: deny(KEYS["web"], 8080)}


@pytest.mark.parametrize("committed", [True, False])
def test_connections_that_a_trial_denies_are_cut_once_it_is_kept(
    tmp_path: pathlib.Path, etcd: FakeEtcd, committed: bool
) -> None:
    """Neither a pass over the whole node nor another label cuts them meanwhile."""

    async def scenario() -> None:
        one = node(tmp_path)
        settings = PolicySettings(live=True, cut_denied_flows=True)
        wanted = dataclasses.replace(state(), policy=PolicyState(INVENTORY, settings=settings))
        one.store.save(Stored(wanted, complete=True))
        async with running(one):
            flow = Flow(6, "192.0.2.9", await one.add("shop"), 40000, 8080)
            one.kernel.machine.tracked = [Connection(flow, flow, b"web", b"web")]
            await write(etcd, trial(WEB))
            await until(lambda: answer(etcd)[0] == "in_force")
            await one.agent.changes.reload_remote_endpoints()
            await one.agent.transactions.relabel(one.agent.transactions.list()[0].id, {"version": "2"})
            assert [found.mark for found in one.kernel.machine.tracked] == [0]
            if committed:
                await write(etcd, *commit(WEB))
            await asyncio.sleep(2 * SECONDS)
            assert answer(etcd)[0] == ("kept" if committed else "reverted")
            assert [bool(found.mark) for found in one.kernel.machine.tracked] == [committed]

    run(scenario())


def test_a_trial_is_in_force_and_stays_if_it_is_committed(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, trial(WEB))
            await until(lambda: answer(etcd)[0] == "in_force")
            assert ports(one) == {8080}
            before = said(etcd).revision
            revision = await write(etcd, *commit(WEB))
            await until(lambda: answer(etcd)[0] == "kept")
            await until(lambda: said(etcd).revision >= revision > before)
            await asyncio.sleep(2 * SECONDS)
            assert ports(one) == {8080} and problems(one) == "" and one.differences() == []
            await one.restart()
            await asyncio.sleep(6)
            assert ports(one) == {8080}

    run(scenario())


def test_a_trial_that_nobody_commits_ends_by_its_time(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, put("blue", deny(KEYS["blue"], 1000)))
            await until(lambda: ports(one) == {1000})
            await write(etcd, trial(WEB))
            await until(lambda: ports(one) == {1000, 8080})
            await asyncio.sleep(SECONDS - 2)
            assert ports(one) == {1000, 8080}
            await until(lambda: ports(one) == {1000}, 3)
            await until(lambda: answer(etcd) == ("reverted", "it was not committed within 60 s"))
            # The key may stay: nothing is tried twice, and other changes are followed.
            await asyncio.sleep(SECONDS)
            await write(etcd, put("blue", deny(KEYS["blue"], 2000)))
            await until(lambda: ports(one) == {2000})

    run(scenario())


@pytest.mark.parametrize(
    ("operations", "reason", "left"),
    [
        ([Delete(keys.OPEN_CHANGE)], "it was withdrawn", set()),
        ([trial({KEYS["blue"]: deny(KEYS["blue"], 5)}, "second")], "it was withdrawn", {5}),
        ([put("blue", deny(KEYS["blue"], 5))], "other documents have changed meanwhile", {5}),
        ([Delete(keys.OPEN_CHANGE), put("web", deny(KEYS["web"], 5))], "it was withdrawn", {5}),
    ],
)
def test_a_trial_ends_if_something_else_is_written(
    operations: list[Operation], reason: str, left: set[int], tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, trial(WEB))
            await until(lambda: answer(etcd)[0] == "in_force")
            await write(etcd, *operations)
            await until(lambda: answer(etcd) == ("reverted", reason))
            await until(lambda: ports(one) == left)
            await asyncio.sleep(1)
            assert ports(one) == left and problems(one) == ""

    run(scenario())


def test_a_commit_that_no_new_connection_shows_is_taken_back_and_held_back(
    tmp_path: pathlib.Path, etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch goes on, because connection tracking keeps it alive; new connections do not get through."""

    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, trial(WEB))
            await until(lambda: answer(etcd)[0] == "in_force")

            async def none(self: t.Any, change: OpenChange) -> bool:
                return False

            monkeypatch.setattr(one.agent.datastore.live_policy._trials, "_prove", lambda change: none(None, change))
            revision = await write(etcd, *commit(WEB))
            await asyncio.sleep(10)
            assert ports(one) == {8080}
            await until(lambda: ports(one) == set(), SECONDS)
            await until(lambda: answer(etcd) == ("reverted", "no new connection to the datastore within 60 s"))
            await until(lambda: said(etcd).held_back != "", 3)
            assert said(etcd).revision < revision
            assert "keeps this node from new connections to the datastore. Change the policies so" in problems(one)
            await one.agent.changes.apply(dataclasses.replace(state(), plan="second"), True)
            await asyncio.sleep(5)
            assert ports(one) == set()
            revision = await write(etcd, put("web", deny(KEYS["web"], 9090)))
            await until(lambda: said(etcd).revision >= revision, 3)
            assert ports(one) == {9090} and problems(one) == ""

    run(scenario())


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ({KEYS["web"]: deny(KEYS["web"], 1, "gone")}, "policy web is in tier gone, which does not exist. Create the"),
        ({KEYS["web"]: deny(KEYS["own"], 1)}, "/host-routing/v1/documents/globalnetworkpolicies/web: it is Global"),
        ({KEYS["web"]: document(KEYS["web"], {"selector": "=="})}, "/host-routing/v1/documents/globalnetworkpol"),
    ],
)
def test_what_cannot_be_in_force_is_not_tried(
    documents: dict[DocumentKey, bytes | None], reason: str, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, trial(documents))
            await until(lambda: answer(etcd)[0] == "refused")
            assert answer(etcd)[1].startswith(reason)
            assert ports(one) == set() and problems(one) == "" and status(one)["held_back"] == ""

    run(scenario())


@pytest.mark.parametrize("value", [b"", b"{}", b"rubbish", b"x" * (600 << 10), b"[" * 100_000])
def test_an_open_change_that_cannot_be_read_is_passed_over(
    value: bytes, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            etcd.put(keys.OPEN_CHANGE, value)
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080}

    run(scenario())


def test_a_node_that_starts_or_is_held_back_or_has_an_unconfirmed_run_tries_nothing(
    tmp_path: pathlib.Path, etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        await write(etcd, trial(WEB, "early"))
        async with running(one):
            assert answer(etcd, "early") == ("refused", "this node has just begun to follow the datastore")
            monkeypatch.setattr(UnconfirmedStore, "any", lambda self: True)
            await write(etcd, trial(WEB, "run"))
            await until(lambda: answer(etcd, "run")[0] == "refused")
            assert "waits for its confirmation on this node" in answer(etcd, "run")[1]
            monkeypatch.undo()
            monkeypatch.setattr(DatastoreSettings, "client", lambda given, *more: EtcdClient(etcd.members))
            await write(etcd, Delete(keys.OPEN_CHANGE), put("blue", deny(KEYS["blue"], 7, "gone")))
            await until(lambda: said(etcd).held_back != "")
            await write(etcd, trial(WEB, "held"))
            await until(lambda: answer(etcd, "held")[0] == "refused")
            assert answer(etcd, "held")[1].startswith("live policy is held back on this node: policy default/web is in")
            await write(etcd, Delete(keys.OPEN_CHANGE), delete("blue"))
            await until(lambda: said(etcd).held_back == "")
            await write(etcd, trial(WEB, "fine"))
            await until(lambda: answer(etcd, "fine")[0] == "in_force")
            await one.restart()
            await asyncio.sleep(6)
            assert ports(one) == set()
            assert answer(etcd, "fine")[0] in ("", "refused")  # a commit waits for in_force

    run(scenario())


def test_a_run_ends_a_trial(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await write(etcd, trial(WEB))
            await until(lambda: answer(etcd)[0] == "in_force")
            await one.agent.changes.apply(dataclasses.replace(state(), plan="second"), True)
            await until(lambda: answer(etcd) == ("reverted", "a run of Ansible has changed the node meanwhile"))
            await until(lambda: ports(one) == set())

    run(scenario())


def test_the_proof_asks_members_on_other_hosts_if_there_are_any() -> None:
    both = DatastoreSettings(("https://10.10.1.11:2380", "https://10.10.1.12:2380", "https://[fd00::b]:2380"), ca="x")
    assert new_connection.elsewhere(both, ["10.10.1.11", "fd00::b"]).endpoints == ("https://10.10.1.12:2380",)
    alone = dataclasses.replace(both, endpoints=both.endpoints[:1])
    assert new_connection.elsewhere(alone, ["10.10.1.11"]) == alone


def test_the_proof_is_that_all_documents_are_there_and_the_change_is_open_no_longer(etcd: FakeEtcd) -> None:
    settings = DatastoreSettings(("https://192.0.2.1:2379",), ca="x")
    prover = new_connection.NewConnection(lambda: settings, list, lambda given: EtcdClient(etcd.members))
    change = OpenChange("first", "alice", "trial", SECONDS, 1, {**WEB, KEYS["own"]: None})

    async def scenario() -> None:
        assert not await prover.shows(change)
        await write(etcd, trial(WEB), put("web", WEB[KEYS["web"]] or b""))
        assert not await prover.shows(change)  # it is still open
        await write(etcd, Delete(keys.OPEN_CHANGE))
        assert await prover.shows(change)
        await write(etcd, put("own", deny(KEYS["own"], 1)))
        assert not await prover.shows(change)
        await write(etcd, delete("own"), put("web", deny(KEYS["web"], 1)))
        assert not await prover.shows(change)
        await write(etcd, put("web", WEB[KEYS["web"]] or b""))
        assert await prover.shows(change)
        for member in etcd.members.values():
            member.kill()
        assert not await prover.shows(change)

    run(scenario())
