# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An operator and a whole agent: what is asked is answered, and what is tried is kept or taken back."""

from __future__ import annotations

import asyncio
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import agreement
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import LiveChange, Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.datastore.live_node import node, ports, running, said, until
from tests.unit.agent.datastore.test_live_policy import with_host
from tests.unit.agent.virtual_time import run

Data = dict[str, t.Any]


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> FakeEtcd:
    found = FakeEtcd()
    monkeypatch.setattr(DatastoreSettings, "client", lambda given, *more: EtcdClient(found.members))
    found.put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.1.0/29"]))
    return found


def policy(name: str, port: int, selector: str = "all()") -> Data:
    rule = {"action": "Deny", "protocol": "TCP", "destination": {"ports": [port]}}
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ingress": [rule], "types": ["Ingress"]},
    }


async def apply(
    etcd: FakeEtcd, *contents: Data, plan: t.Optional[str] = None, seconds: int = 0, force: bool = False
) -> tuple[LiveChange, list[str]]:
    """Apply documents as calicoctl does."""
    store, told = LiveStore(EtcdClient(etcd.members), ""), list[str]()
    approve = agreement.approval(store, plan, seconds, told.append) if plan is not None or seconds else None
    listed = [{"content": content, "place": "here"} for content in contents]
    request = {"verb": "apply", "documents": listed, "namespace": "", "skip": False, "dry_run": False, "adopt": False}
    return await Writer(store, told.append, force=force, approve=approve).change(request), told


async def seen(etcd: FakeEtcd, *contents: Data) -> t.Any:
    store = LiveStore(EtcdClient(etcd.members), "")
    listed = [{"content": content, "place": "here"} for content in contents]
    request = {"verb": "apply", "documents": listed, "namespace": "", "skip": False, "dry_run": True, "adopt": False}
    return await agreement.ask(store, (await Writer(store, lambda dummy: None, True).change(request)).plan.changes)


def test_what_was_seen_is_tried_and_made(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await until(lambda: said(etcd).revision > 0, 30)
            plan = await seen(etcd, policy("a", 8080), policy("b", 9090))
            assert plan.is_complete and "Rules: " in plan.text() and ports(one) == set()
            (effect,) = [answer.effect for answer in plan.answers.values()]
            assert [found.name for found in effect.objects] == ["a", "b"]
            change, told = await apply(etcd, policy("a", 8080), policy("b", 9090), plan=plan.hash, seconds=60)
            assert told[0].startswith("trial    in force on 1 nodes after ") and ports(one) == {8080, 9090}
            await until(lambda: said(etcd).revision >= change.revision, 30)
            await asyncio.sleep(120)
            assert ports(one) == {8080, 9090} and one.differences() == []
            assert keys.OPEN_CHANGE.encode() not in etcd.data()

    run(scenario())


def test_a_node_that_would_cut_itself_off_ends_the_trial(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await until(lambda: said(etcd).revision > 0, 30)
            await one.agent.changes.apply(with_host(), True)
            before = one.kernel.run(["iptables-save"]).output
            plan = await seen(etcd, policy("a", 8080))
            assert plan.refusing["node1"].startswith("BGP from 10.10.1.12 would be cut")
            with pytest.raises(ChangeRefused, match=r"nothing is committed, .*node1: it has refused it: BGP from"):
                await apply(etcd, policy("a", 8080), seconds=60)
            await asyncio.sleep(5)
            assert one.kernel.run(["iptables-save"]).output == before and one.differences() == []
            left = (keys.DOCUMENTS.encode(), keys.CHANGES.encode())
            assert not [key for key in etcd.data() if key.startswith(left)]

    run(scenario())


def test_a_change_during_a_trial_ends_it_only_by_force(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """The node keeps what it tries after a refused change. A forced one puts it back, and the new policy in force."""
    tried = {DocumentKey("GlobalNetworkPolicy", "", "a"): documents.encoded(policy("a", 8080))}
    change = "20261130T160212.001-000001"

    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await until(lambda: said(etcd).revision > 0, 30)
            trial = OpenChange(change, "bob", open_change.TRIAL, 60, etcd.revision, tried)
            etcd.put(keys.OPEN_CHANGE, open_change.encode(trial))
            await until(lambda: ports(one) == {8080}, 30)
            with pytest.raises(ChangeRefused, match=r"bob tries a change .*--force, which ends it now"):
                await apply(etcd, policy("b", 9090))
            await asyncio.sleep(5)
            assert ports(one) == {8080}
            dummy, told = await apply(etcd, policy("b", 9090), force=True)
            assert told[0].endswith(" at the latest. --force ends that trial.")
            await until(lambda: ports(one) == {9090} and answer() == change_answer.REVERTED, 30)
            await asyncio.sleep(120)
            assert ports(one) == {9090} and one.differences() == []

    def answer() -> str:
        value = etcd.data()[keys.answer_key("node1", change).encode()].value
        return change_answer.decode("node1", change, value or b"").state

    run(scenario())
