# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy without gates: a node takes none from an etcd in which every node can write documents."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.rights_check import RightsCheck
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.datastore.live_node import (
    KEYS,
    deny,
    node,
    ports,
    problems,
    put,
    running,
    said,
    state,
    until,
    write,
)
from tests.unit.agent.node_under_test import Node
from tests.unit.agent.virtual_time import run

REASON = "m1 runs etcd 3.5.16, in which every node can write documents (CVE-2026-33343)"


def without_gates(folder: pathlib.Path) -> Node:
    found = node(folder)
    path = pathlib.Path(found.machine.datastore)
    path.write_text(json.dumps({**json.loads(path.read_text()), "check_rights": True}))
    return found


def test_nothing_is_taken_from_an_etcd_with_the_fault(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """A node names a vulnerable member among its problems and to operators, and asks again after its upgrade."""

    async def scenario() -> None:
        one = without_gates(tmp_path)
        async with running(one):
            await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).held_back != "")
            assert said(etcd).held_back == REASON and ports(one) == set()
            assert f"Live policy stays as it was at revision 0: {REASON}. Upgrade the members to" in problems(one)
            change = OpenChange(
                "20261130T160212.123-9f3a1c", "ada", "trial", 60, 1, {KEYS["blue"]: deny(KEYS["blue"], 1)}
            )
            etcd.put(keys.OPEN_CHANGE, open_change.encode(change))
            await asyncio.sleep(1)
            assert not any(key.startswith(keys.ANSWERS.encode()) for key in etcd.data())
            etcd.version = "3.5.28"
            await asyncio.sleep(70)
            assert ports(one) == {8080} and said(etcd).held_back == "" and problems(one) == ""
            etcd.version = "3.5.27"
            await asyncio.sleep(4_000)
            await write(etcd, put("web", deny(KEYS["web"], 9090)))
            await asyncio.sleep(5)
            assert ports(one) == {8080} and "runs etcd 3.5.27" in said(etcd).held_back

    run(scenario())


def test_a_node_whose_etcd_is_away_checks_it_at_the_next_contact(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """What was in force stays through a restart, and nothing newer is taken meanwhile, also not from the copy."""

    async def scenario() -> None:
        one = without_gates(tmp_path)
        etcd.version = "3.5.28"
        async with running(one):
            await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: ports(one) == {8080})
            etcd.version = "3.5.16"
            await one.kill()
            await write(etcd, put("web", deny(KEYS["web"], 9090)))
            for member in etcd.members.values():
                member.kill()
            await one.start()
            await asyncio.sleep(30)
            assert ports(one) == {8080} and "CVE" not in problems(one)
            for member in etcd.members.values():
                member.up = True
            await until(lambda: "CVE-2026-33343" in problems(one), 60)
            assert ports(one) == {8080}
            await one.kill()
            for member in etcd.members.values():
                member.kill()
            await one.start()
            await asyncio.sleep(30)
            assert ports(one) == {8080}

    run(scenario())


def test_a_run_that_allows_live_policy_has_members_asked(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """The settings that the run writes begin a new connection. Without gates, nothing is taken before its check."""

    async def scenario() -> None:
        one = node(tmp_path, live=False)
        etcd.version = "3.5.16"
        async with running(one):
            await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await asyncio.sleep(10)
            assert all("/version" not in member.calls for member in etcd.members.values())
            path = pathlib.Path(one.machine.datastore)
            replacement = path.with_suffix(".new")
            replacement.write_text(json.dumps({**json.loads(path.read_text()), "check_rights": True}))
            replacement.replace(path)
            await asyncio.sleep(6)
            await one.agent.changes.apply(dataclasses.replace(state(), plan="second"), True)
            await until(lambda: REASON in problems(one), 10)
            assert ports(one) == set()
            etcd.version = "3.5.28"
            await until(lambda: ports(one) == {8080}, 90)

    run(scenario())


def test_with_gates_members_are_not_asked(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080}
            assert all("/version" not in member.calls for member in etcd.members.values())

    run(scenario())


def test_a_silent_member_is_asked_again_soon(etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        etcd.version = "3.6.9"
        heard: list[str | None] = []
        check = RightsCheck(lambda: True, lambda: heard.append(check.problem))
        members = list(etcd.members.values())
        for member in members:
            member.kill()
        asking = asyncio.ensure_future(check.run(EtcdClient(etcd.members)))
        await asyncio.sleep(10)
        assert check.problem is None and heard == []
        members[0].up = True
        await asyncio.sleep(10)
        assert check.problem == "" and heard == [""]
        members[1].up = True
        etcd.version = "3.6.8"
        await asyncio.sleep(120)
        assert "runs etcd 3.6.8" in (check.problem or "") and len(heard) == 2
        etcd.version = "3.6.9"
        for member in members:
            member.up = True
        await asyncio.sleep(120)
        calls = len(members[0].calls)
        await asyncio.sleep(3_000)
        assert check.problem == "" and len(members[0].calls) <= calls + 1
        asking.cancel()

    run(scenario())


@pytest.mark.parametrize("version", ["\x1b[2J", "", "3.5.28\n", "9" * 10_000, "3.5.28 \u202e", None, 3])
def test_what_a_hostile_member_says_is_no_release(version: t.Any, etcd: FakeEtcd) -> None:
    """It is shown without control characters, and at most 40 characters of it."""

    async def scenario() -> None:
        etcd.version = version
        check = RightsCheck(lambda: True, lambda: None)
        asking = asyncio.ensure_future(check.run(EtcdClient(etcd.members)))
        await asyncio.sleep(5)
        assert check.problem and check.problem.isprintable() and len(check.problem) < 300
        asking.cancel()

    run(scenario())
