# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole agents that are asked what a change of live policy would do: they answer, and change nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Connection
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_effect import (
    ChangedObject,
    ChangeEffect,
    DeniedFlow,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.datastore.live_node import (
    KEYS,
    delete,
    deny,
    document,
    node,
    ports,
    put,
    running,
    said,
    state,
    until,
    write,
)
from tests.unit.agent.datastore.test_live_policy import for_hosts, with_host
from tests.unit.agent.node_under_test import Node
from tests.unit.agent.virtual_time import run

_WAIT = 15.0


async def ask(
    etcd: FakeEtcd,
    documents: t.Mapping[str, bytes | None],
    change: str = "q1",
    **more: t.Any,
) -> ChangeAnswer:
    """Return the answer of node1 to a question about documents by their names in KEYS."""
    wanted = {KEYS[name]: value for name, value in documents.items()}
    question = OpenChange(change, "ada", "question", 10, etcd.revision, wanted)
    return await answer_to(etcd, open_change.encode(dataclasses.replace(question, **more)), change)


async def answer_to(etcd: FakeEtcd, value: bytes, change: str = "q1") -> ChangeAnswer:
    etcd.put(keys.OPEN_CHANGE, value)
    key = keys.answer_key("node1", change).encode()
    await until(lambda: key in etcd.data(), _WAIT)
    etcd.delete(keys.OPEN_CHANGE)
    return change_answer.decode("node1", change, etcd.data()[key].value or b"")


def kernel_rules(one: Node) -> tuple[dict[tuple[str, str, str], list[str]], set[tuple[str, str]]]:
    """Return our chains in the kernel, by program, table and name, with their rules, and all members of our sets."""
    chains: dict[tuple[str, str, str], list[str]] = {}
    for program in ("iptables-save", "ip6tables-save"):
        table = ""
        for line in one.kernel.run([program]).output.splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":cali-"):
                chains[program, table, line[1:].split()[0]] = []
            elif line.startswith("-A cali-"):
                chains[program, table, line.split()[1]].append(line)
    names = [name for name in one.kernel.ipset_headers() if name.startswith("cali")]
    return chains, {(name, member) for name in names for member in one.kernel.ipset_members(name) or ()}


def effect_of(answer: ChangeAnswer) -> ChangeEffect:
    assert answer.state == "answered", answer
    assert answer.effect is not None and answer.effect.unknown == "", answer
    return answer.effect


def test_a_question_is_answered_and_nothing_changes(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await one.add("other", labels={"app": "other"})
            first = await write(etcd, put("blue", deny(KEYS["blue"], 1000)))
            await until(lambda: said(etcd).revision >= first)
            before = one.kernel.run(["iptables-save"]).output
            chains, members = kernel_rules(one)
            tier = document(KEYS["tier"], {"order": 1})
            answer = await ask(etcd, {"web": deny(KEYS["web"], 8080, "early"), "tier": tier, "blue": None})
            found = effect_of(answer)
            assert found.objects == (
                ChangedObject("Tier", "early", "+", 2),
                ChangedObject("NetworkPolicy", "default/web", "-", 2),
                ChangedObject("GlobalNetworkPolicy", "web", "+", 2),
            )
            assert (found.count_objects, found.endpoints, found.denied) == (3, 2, 0)
            assert one.kernel.run(["iptables-save"]).output == before and ports(one) == {1000}
            assert one.differences() == [] and problems(one) == []
            # What it says of chains and sets is what differs in the kernel once the change is made.
            await made(one, etcd, tier)
            after, members_after = kernel_rules(one)
            assert found.chains == sum(chains.get(key) != after.get(key) for key in chains.keys() | after.keys()) > 0
            assert found.members == len(members ^ members_after)

    async def made(one: Node, etcd: FakeEtcd, tier: bytes) -> None:
        last = await write(etcd, put("web", deny(KEYS["web"], 8080, "early")), put("tier", tier), delete("blue"))
        await until(lambda: said(etcd).revision >= last)
        await asyncio.sleep(30)  # ended chains go later

    def problems(one: Node) -> list[str]:
        return list(one.agent.status.problems)

    run(scenario())


def test_members_of_sets_are_counted(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            rule = {"action": "Deny", "source": {"selector": "bad == 'yes'"}}
            policy = document(KEYS["web"], {"selector": "app == 'db'", "ingress": [rule], "types": ["Ingress"]})
            nets = document(KEYS["nets"], {"nets": ["192.0.2.0/24"]}, labels={"bad": "yes"})
            revision = await write(etcd, put("web", policy), put("nets", nets))
            await until(lambda: said(etcd).revision >= revision)
            more = document(KEYS["nets"], {"nets": ["192.0.2.0/25", "198.51.100.0/24"]}, labels={"bad": "yes"})
            found = effect_of(await ask(etcd, {"nets": more}))
            assert found.objects == (ChangedObject("GlobalNetworkSet", "bad", "~", 1),)
            assert (found.members, found.chains, found.endpoints) == (3, 0, 1)
            # One that no rule refers to concerns nobody.
            lonely = document(KEYS["nets"], {"nets": ["192.0.2.0/24"]}, labels={"bad": "no"})
            assert effect_of(await ask(etcd, {"nets": lonely}, "q2")).objects[0].endpoints == 1
            assert effect_of(await ask(etcd, {"nets": nets}, "q3")).count_objects == 0

    run(scenario())


def test_standing_connections_that_would_be_denied_are_named(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            address = (await asyncio.gather(one.add("web", labels={"app": "web"})))[0]

            def connection(port: int, source_port: int) -> Connection:
                flow = Flow(6, "203.0.113.9", address, source_port, port)
                return Connection(flow, flow, f"{port} {source_port}".encode())

            open_ports = [connection(8080, 40_000 + number) for number in range(30)]
            one.kernel.machine.tracked = [connection(9090, 1), connection(7070, 1), *open_ports]
            related = Flow(6, "203.0.113.9", address, 5, 6)
            one.kernel.machine.tracked.append(Connection(related, related, b"r", master=b"8080 40000"))
            revision = await write(etcd, put("web", closed(7070)))
            await until(lambda: said(etcd).revision >= revision)
            found = effect_of(await ask(etcd, {"web": closed(7070, 8080)}))
            assert found.denied == 31 and len(found.flows) == 20 and not found.cut
            by = "web#2 (ingress, WorkloadEndpoint default/web)"
            assert found.flows[0] == DeniedFlow(6, "203.0.113.9", 40_000, address, 8080, by)
            assert len([one for one in one.kernel.machine.tracked if one.mark]) == 0

    def closed(*ports: int) -> bytes:
        rules = [{"action": "Deny", "protocol": "TCP", "destination": {"ports": [port]}} for port in ports]
        spec = {"selector": "app == 'web'", "ingress": [*rules, {"action": "Allow"}], "types": ["Ingress"]}
        return document(KEYS["web"], spec)

    run(scenario())


def test_a_node_says_why_it_would_hold_a_change_back(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            answer = await ask(etcd, {"web": deny(KEYS["web"], 1, "early")})
            assert (answer.state, answer.reason) == ("refused", "policy web is in tier early, which does not exist")
            answer = await ask(etcd, {"web": b'{"kind":"Tier"}'}, "q2")
            assert answer.state == "refused" and answer.reason.startswith(keys.document_key(KEYS["web"]))
            await one.agent.changes.apply(with_host(), True)
            answer = await ask(etcd, {"web": for_hosts([])}, "q3")
            assert answer.state == "refused" and "the datastore at 192.0.2.1 port 2379 would be cut" in answer.reason
            assert answer.effect is not None and answer.effect.count_objects == 1
            await one.agent.changes.apply(state(), True)
            # A change that brings what is held back into force can be asked about.
            await write(etcd, put("web", deny(KEYS["web"], 8080, "early")))
            await until(lambda: said(etcd).held_back != "")
            answer = await ask(etcd, {"tier": document(KEYS["tier"], {"order": 1})}, "q4")
            assert {one.name for one in effect_of(answer).objects} == {"early", "web"}

    run(scenario())


def test_a_node_without_live_policy_is_silent(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, live=False)
        async with running(one):
            question = OpenChange("q1", "ada", "question", 10, etcd.revision, {KEYS["web"]: None})
            etcd.put(keys.OPEN_CHANGE, open_change.encode(question))
            await asyncio.sleep(5)
            assert not [key for key in etcd.data() if key.startswith(keys.ANSWERS.encode())]
            await one.agent.changes.apply(state(), True)
            answer = await ask(etcd, {"web": deny(KEYS["web"], 1)}, "q2", base=etcd.revision + 1000)
            assert (answer.state, answer.reason) == ("refused", "this node does not follow the datastore in sync")

    run(scenario())


def test_answers_are_few_and_a_question_is_answered_once(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            for number in range(keys.MOST_ANSWERS + 4):
                await ask(etcd, {"web": deny(KEYS["web"], 1)}, f"q{number}")
                await asyncio.sleep(1)
            answers = [key for key in etcd.data() if key.startswith(b"/host-routing/v1/answers/node1/")]
            assert 1 <= len(answers) <= keys.MOST_ANSWERS
            written = etcd.data()[keys.answer_key("node1", f"q{keys.MOST_ANSWERS + 3}").encode()].revision
            etcd.put(keys.OPEN_CHANGE, etcd.log[-2].value or b"x")
            await asyncio.sleep(5)
            assert written == etcd.data()[keys.answer_key("node1", f"q{keys.MOST_ANSWERS + 3}").encode()].revision

    run(scenario())


HOSTILE = [
    b"",
    b"nonsense",
    b"[" * 100_000,
    json.dumps({"id": "a/../b", "user": "\x1b[2J", "kind": "question"}).encode(),
    b'{"id":"q1","user":"a","kind":"question","seconds":10,"base":0,"documents":['
    + b",".join(b'["/host-routing/v1/documents/tiers/t%d",null]' % number for number in range(101))
    + b"]}",
    b'{"id":"q1","user":"a","kind":"question","seconds":1e30,"base":0,"documents":[]}',
    b'{"id":"q1","user":"a","kind":"question","seconds":10,"base":0,"documents":[["/host-routing/v1/blocks/x",{}]]}',
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value[:20]))
def test_what_is_no_question_changes_nothing(value: bytes, tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            etcd.put(keys.OPEN_CHANGE, value)
            await asyncio.sleep(5)
            assert not [key for key in etcd.data() if key.startswith(keys.ANSWERS.encode())]
            etcd.delete(keys.OPEN_CHANGE)
            assert effect_of(await ask(etcd, {"web": deny(KEYS["web"], 8080)}, "later")).count_objects == 1
            assert ports(one) == set() and one.differences() == []

    run(scenario())


def test_an_answer_that_cannot_be_completed_says_so(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            one.kernel.fail_next("connections", errno.EACCES)
            answer = await ask(etcd, {"web": deny(KEYS["web"], 8080)})
            assert answer.state == "answered" and answer.effect is not None
            assert answer.effect.denied is None and answer.effect.count_objects == 1
            assert "list tracked connections" in answer.effect.unknown

    run(scenario())


def test_many_objects_are_counted_and_the_answer_stays_small(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            wanted = {}
            for number in range(keys.CHANGE_DOCUMENTS):
                key = DocumentKey("GlobalNetworkPolicy", "", f"{'x' * 230}{number}")
                wanted[key] = deny(key, number + 1)
            question = OpenChange("q1", "ada", "question", 10, etcd.revision, wanted)
            found = effect_of(await answer_to(etcd, open_change.encode(question)))
            assert found.count_objects == keys.CHANGE_DOCUMENTS
            assert len(etcd.data()[keys.answer_key("node1", "q1").encode()].value or b"") <= keys.ANSWER_BYTES

    begun = time.monotonic()
    run(scenario())
    assert time.monotonic() - begun < 30
