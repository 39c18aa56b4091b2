# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole agents that share a datastore in memory: policy follows what comes and goes on other nodes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import re
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.remote_feed import RemoteFeed
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import of_machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Route,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.container_description import (
    ContainerDescription,
)

from tests.conftest import ROOT
from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.node_under_test import STATE, Node
from tests.unit.agent.virtual_time import run

FROM_WEB = Policy(
    "from-web", selector="app == 'db'", ingress=(PolicyRule("Allow", source=Entity(selector="app == 'web'")),)
)
#: A row of the table in architecture.md that names each function between a key of etcd and a member of a set.
_ROW = re.compile(r"\| (\d+) \| `([a-z_/]+\.py)` \| `([A-Za-z_.]+)` \|")
_ROOM = "/plugins/module_utils/"
RULES = policy_set([], [FROM_WEB], [allow_all()])


def state(number: int, *inventory: Endpoint, plan: str = "first") -> NodeState:
    block = f"10.244.{number}.0/29"
    return dataclasses.replace(
        STATE,
        node=f"node{number}",
        plan=plan,
        ipam=NodeIpam(1, (Block(block, "default-pool"),)),
        routes=(Route(block, "blackhole"),),
        bird=None,
        policy=PolicyState(RULES, inventory),
    )


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> FakeEtcd:
    """A cluster that all agents use, with the blocks of two nodes."""
    found = FakeEtcd()
    monkeypatch.setattr(DatastoreSettings, "client", lambda given: EtcdClient(found.members))
    for number in (1, 2):
        found.put(keys.blocks_key(f"node{number}"), documents.encode_blocks([f"10.244.{number}.0/29"]))
    return found


def node(folder: pathlib.Path, number: int, *inventory: Endpoint, datastore: bool = True) -> Node:
    found = Node(folder / f"node{number}", state(number, *inventory), cleanup_grace=0.0)
    found.machine.datastore = str(folder / f"node{number}" / "datastore.json")
    if datastore:
        pathlib.Path(found.machine.datastore).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(found.machine.datastore).write_text(json.dumps({"endpoints": ["https://192.0.2.1:2379"]}))
    return found


@contextlib.asynccontextmanager
async def running(*nodes: Node) -> t.AsyncIterator[None]:
    for one in nodes:
        await one.start()
    await asyncio.sleep(6)  # listings begin after a random pause
    try:
        yield
    finally:
        for one in nodes:
            await one.kill()


def web_set(one: Node) -> set[str]:
    """Return the members of the kernel's set of those that `app == 'web'` selects; no set has none."""
    saved = [line.split() for line in one.kernel.run(["ipset", "save"]).output.splitlines()]
    return {words[2] for words in saved if words[0] == "add" and words[1].startswith("cali40s")}


def test_a_policy_follows_a_workload_that_comes_and_goes_on_another_node(
    tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one, two = node(tmp_path, 1), node(tmp_path, 2)
        async with running(one, two):
            await two.add("db", labels={"app": "db"})
            await two.settle()
            assert web_set(two) == set()
            address = await one.add("web", labels={"app": "web"})
            answered = asyncio.get_running_loop().time()
            while web_set(two) != {address}:
                await asyncio.sleep(0.005)
                assert asyncio.get_running_loop().time() < answered + 0.5
            await one.agent.transactions.relabel("default/web", {"app": "other"})
            await asyncio.sleep(0.5)
            assert web_set(two) == set()
            await one.agent.transactions.relabel("default/web", {"app": "web"})
            await asyncio.sleep(0.5)
            assert web_set(two) == {address}
            await one.agent.transactions.delete("default/web")
            await asyncio.sleep(0.5)
            assert web_set(two) == set() and two.differences() == []

    run(scenario())


def test_the_same_policy_is_in_force_while_etcd_is_away_and_agents_restart(
    tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one, two = node(tmp_path, 1), node(tmp_path, 2)
        async with running(one, two):
            await two.add("db", labels={"app": "db"})
            address = await one.add("web", labels={"app": "web"})
            await asyncio.sleep(3)
            assert web_set(two) == {address}
            for member in etcd.members.values():
                member.kill()
            await asyncio.sleep(3600)
            assert web_set(two) == {address}
            await two.restart()
            assert web_set(two) == {address} and two.differences() == []
            # The boot unit and a module without an agent know the same.
            stored = two.store.load()
            assert stored is not None and of_machine(two.machine, stored.state) == two.agent.desired_state.whole()
            late = await one.add("late", labels={"app": "web"})
            await two.add("more", labels={"app": "db"})  # adds go on
            assert web_set(two) == {address}
            assert any(text.startswith("The datastore is not followed: ") for text in two.agent.status.problems)
            for member in etcd.members.values():
                member.up = True
            await asyncio.sleep(10)
            assert web_set(two) == {address, late} and two.agent.status.problems == []

    run(scenario())


def inventory_endpoint(name: str, address: str) -> Endpoint:
    return Endpoint(
        kind="WorkloadEndpoint",
        name=f"default/{name}",
        node="node1",
        interface=f"cali{name}",
        addresses=(address,),
        labels=(("app", "web"),),
        namespace="default",
    )


def test_workloads_that_a_node_publishes_win_over_its_inventory(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """node1 has lost a workload of the inventory: a run that reached node2 alone must not bring its address back."""

    async def scenario() -> None:
        one = node(tmp_path, 1)
        two = node(tmp_path, 2, inventory_endpoint("planned", "10.244.1.6"), datastore=False)
        async with running(one, two):
            await two.add("db", labels={"app": "db"})
            await two.settle()
            assert web_set(two) == {"10.244.1.6"}
            pathlib.Path(two.machine.datastore).write_text(json.dumps({"endpoints": ["https://192.0.2.1:2379"]}))
            await asyncio.sleep(20)
            assert web_set(two) == set()
            for member in etcd.members.values():
                member.kill()
            await asyncio.sleep(60)
            assert web_set(two) == set()  # still the newest that is known
            newer = state(2, inventory_endpoint("planned", "10.244.1.6"), plan="second")
            await two.agent.changes.apply(newer, removals=True)
            assert web_set(two) == {"10.244.1.6"}  # a run has said more since then
            for member in etcd.members.values():
                member.up = True
            await asyncio.sleep(10)
            assert web_set(two) == set()

    run(scenario())


def test_a_node_that_claims_addresses_of_others_is_not_believed(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """Neither this node's own addresses count, nor those outside of its blocks, nor a node's."""

    async def scenario() -> None:
        etcd.put(keys.blocks_key("node3"), documents.encode_blocks(["10.244.0.0/16", "10.10.1.0/24"]))
        two = node(tmp_path, 2)
        async with running(two):
            address = await two.add("db", labels={"app": "db"})
            for number, claimed in enumerate((address, "10.10.1.11", "10.244.9.9", "192.0.2.9")):
                endpoint = dataclasses.replace(
                    inventory_endpoint("x", claimed), node="node3", interface=f"cali{number}"
                )
                document = documents.encode_endpoint(documents.PublishedEndpoint(endpoint))
                etcd.put(keys.endpoint_key("node3", f"cali{number}"), document)
            await asyncio.sleep(1)
            assert web_set(two) == {"10.244.9.9"}
            refused = {one["key"]: one["reason"] for one in two.agent.status.to_dict()["datastore"]["refused"]}
            assert refused == {
                keys.endpoint_key("node3", "cali0"): f"its address {address} lies in a block of node2.",
                keys.endpoint_key("node3", "cali1"): "its address 10.10.1.11 is that of a node.",
                keys.endpoint_key("node3", "cali3"): "one of its addresses lies in none of its node's blocks.",
            }
            assert two.agent.datastore.refused == 3

    run(scenario())


def stops() -> list[tuple[str, str]]:
    """Return the files and functions of the table."""
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    found = _ROW.findall(page)
    assert [int(number) for number, dummy, dummy in found] == list(range(1, len(found) + 1))
    return [(file, function) for dummy, file, function in found]


def test_a_key_passes_the_functions_of_the_table_in_their_order(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    called: list[tuple[str, str]] = []

    def see(frame: t.Any, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and _ROOM in code.co_filename:
            called.append((code.co_filename.rpartition(_ROOM)[2], code.co_qualname))

    async def scenario() -> None:
        two = node(tmp_path, 2)
        async with running(two):
            await two.add("db", labels={"app": "db"})
            await two.settle()
            document = documents.encode_endpoint(documents.PublishedEndpoint(inventory_endpoint("web", "10.244.1.5")))
            sys.setprofile(see)
            try:
                etcd.put(keys.endpoint_key("node1", "caliweb"), document)
                await asyncio.sleep(0.1)
            finally:
                sys.setprofile(None)
            assert web_set(two) == {"10.244.1.5"}

    run(scenario())
    at = 0
    for stop in stops():
        assert stop in called[at:], f"{stop} is not called after the function before it"
        at = called.index(stop, at)


def test_thousands_of_changes_at_once_come_to_policy_in_portions(
    tmp_path: pathlib.Path, etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pass has more than 1,000 of 5,000, a workload here is added meanwhile, and all are in the set soon."""
    applied: list[int] = []
    apply, passed = OtherEndpoints.apply, RemoteFeed.passed

    def counting(self: OtherEndpoints, changes: t.Any, live: t.Any = None) -> bool:
        applied[-1] += len(changes)
        return apply(self, changes, live)

    def passing(self: RemoteFeed, seconds: float) -> None:
        applied.append(0)
        passed(self, seconds)

    async def scenario() -> None:
        two = node(tmp_path, 2)
        async with running(two):
            await two.add("db", labels={"app": "db"})
            await two.settle()
            applied.append(0)
            monkeypatch.setattr(OtherEndpoints, "apply", counting)
            monkeypatch.setattr(RemoteFeed, "passed", passing)
            for number in range(5000):
                third, fourth = divmod(number, 250)
                elsewhere = f"elsewhere{third}"
                if not fourth:
                    etcd.put(keys.blocks_key(elsewhere), documents.encode_blocks([f"10.245.{third}.0/24"]))
                endpoint = Endpoint(
                    "WorkloadEndpoint",
                    f"default/w{number}",
                    elsewhere,
                    f"cali{number}",
                    (f"10.245.{third}.{fourth}",),
                    (("app", "web"), ("projectcalico.org/namespace", "default")),
                    namespace="default",
                )
                document = documents.encode_endpoint(documents.PublishedEndpoint(endpoint))
                etcd.put(keys.endpoint_key(elsewhere, endpoint.interface), document)
            await asyncio.sleep(0.02)
            await two.add("meanwhile")
            assert len(web_set(two)) < 5000
            await asyncio.sleep(2)
            assert len(web_set(two)) == 5000 and two.agent.status.in_sync
            assert max(applied) <= 1000 and sum(applied) == 5000

    run(scenario())


def test_workloads_of_the_inventory_stay_in_sets_while_the_datastore_is_read_first(
    tmp_path: pathlib.Path, etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The datastore counts in place of the inventory when policy has all of it: portion by portion none goes."""
    planned = [
        dataclasses.replace(
            inventory_endpoint(f"w{number}", f"10.245.0.{number}" if number < 250 else f"10.245.1.{number - 250}"),
            node="elsewhere",
            labels=(("app", "web"), ("projectcalico.org/namespace", "default")),
        )
        for number in range(500)
    ]
    more = [
        dataclasses.replace(
            one,
            interface=f"{one.interface}x{part}",
            addresses=(one.addresses[0].replace("10.245.0", f"10.246.{part}"),),
        )
        for part in range(4)
        for one in planned
        if one.addresses[0].startswith("10.245.0.")
    ]
    etcd.put(keys.blocks_key("elsewhere"), documents.encode_blocks(["10.245.0.0/16", "10.246.0.0/16"]))
    for one in [*planned, *more]:
        document = documents.encode_endpoint(documents.PublishedEndpoint(one, planned=one in planned))
        etcd.put(keys.endpoint_key("elsewhere", one.interface), document)
    etcd.put(keys.complete_key("elsewhere"), documents.COMPLETE)
    addresses = {address for one in planned for address in one.addresses}

    async def scenario() -> None:
        two = node(tmp_path, 2, *planned)
        for member in etcd.members.values():
            member.kill()
        await two.start()
        await two.add("db", labels={"app": "db"})
        await two.settle()
        passed, found = two.agent.datastore.feed.passed, [web_set(two)]

        def passing(seconds: float) -> None:
            found.append(web_set(two))
            passed(seconds)

        monkeypatch.setattr(two.agent.datastore.feed, "passed", passing)
        for member in etcd.members.values():
            member.up = True
        async with asyncio.timeout(600):
            while len(web_set(two)) < 1500 or two.agent.persisted.others.live != {"elsewhere"}:
                await asyncio.sleep(0.1)
        assert len({len(one) for one in found}) > 2 and all(addresses <= one for one in found)
        await two.kill()

    run(scenario())


def test_a_heartbeat_says_how_the_node_does(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, 1)
        async with running(one):
            await one.add("web")
            await asyncio.sleep(12)
            event = etcd.data()[keys.heartbeat_key("node1").encode()]
            found = heartbeats.decode("node1", event.value or b"")
            assert (found.plan, found.in_sync, found.workloads, found.feed_synced) == ("first", True, 1, True)

    run(scenario())


def test_published_workloads_stay_while_records_cannot_be_read(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, 1)
        async with running(one):
            await one.add("web")
            await asyncio.sleep(1)
        before = {key for key in etcd.data() if key.startswith(keys.endpoints_of("node1").encode())}
        assert len(before) == 2
        for record in (tmp_path / "node1" / "run" / "workloads").rglob("*.json"):
            record.write_text("{")
        async with running(one):
            await asyncio.sleep(60)
        assert before <= etcd.data().keys()

    run(scenario())


@pytest.mark.parametrize("while_down", [False, True], ids=["the agent runs", "the agent is down"])
def test_a_fleet_that_leaves_its_datastore_goes_on_with_what_it_knows(
    tmp_path: pathlib.Path, etcd: FakeEtcd, while_down: bool
) -> None:
    """Without the file of settings, what came to other nodes between runs counts as sent by sync_workloads.yml."""

    async def scenario() -> None:
        one, two = node(tmp_path, 1), node(tmp_path, 2)
        async with running(one, two):
            await two.add("db", labels={"app": "db"})
            address = await one.add("web", labels={"app": "web"})
            await asyncio.sleep(1)
            assert web_set(two) == {address}
            if while_down:
                await two.kill()
            pathlib.Path(two.machine.datastore).unlink()
            if while_down:
                await two.start()
            await asyncio.sleep(20)
            assert web_set(two) == {address} and two.agent.status.to_dict()["datastore"] == {}
            assert two.agent.status.problems == [] and list(two.agent.persisted.remote.nodes) == ["node1"]
            await two.restart()
            assert web_set(two) == {address} and two.differences() == []
            assert two.agent.persisted.remote.nodes["node1"].blocks == ("10.244.1.0/29",)
            two.machine.datastore = one.machine.datastore
            await two.restart()
            await asyncio.sleep(6)
            await one.agent.transactions.delete("default/web")
            await asyncio.sleep(1)
            assert web_set(two) == set()  # the datastore counts again, and not what was told before

    run(scenario())


def shown(etcd: FakeEtcd, number: int) -> dict[str, t.Any]:
    """Return the details of a node's published workloads by their names."""
    prefix = keys.endpoints_of(f"node{number}")
    values = [one.value for key, one in etcd.data().items() if key.decode().startswith(prefix) and one.value]
    found = [body for body in map(json.loads, values) if "name" in body]
    return {body["name"]: body.get("details") for body in found}


def test_details_are_published_as_long_as_all_nodes_read_them(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """node2 has an agent of an earlier release, which refuses such documents, then this release's, then that again."""
    old, new = documents.COMPLETE, b'{"reads":["details"]}'
    details = {"by": "api", "endpoint": "eth0", "pool": "default-pool"}

    async def scenario() -> None:
        etcd.put(keys.complete_key("node2"), old)
        one = node(tmp_path, 1)
        async with running(one):
            await one.add("web", labels={"app": "web"})
            await asyncio.sleep(30)
            assert shown(etcd, 1) == {"default/web": None}
            etcd.put(keys.complete_key("node2"), new)
            await asyncio.sleep(11)
            assert shown(etcd, 1) == {"default/web": details}
            etcd.put(keys.complete_key("node2"), old)
            await asyncio.sleep(11)
            assert shown(etcd, 1) == {"default/web": None}

    run(scenario())


def test_the_name_of_a_container_is_published_and_a_new_one_too(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, 1)
        async with running(one):
            container = "12" * 32
            await one.add("web", container=container, runtime="podman", container_name="web")
            await asyncio.sleep(30)
            assert shown(etcd, 1)["default/web"]["name"] == "web"
            renamed = ContainerDescription("podman", container, "shop")
            assert [found.id for found in await one.agent.transactions.describe(renamed)] == ["default/web"]
            await asyncio.sleep(11)
            assert shown(etcd, 1)["default/web"]["name"] == "shop"

    run(scenario())


def writes_of(etcd: FakeEtcd) -> int:
    """Return the revisions of all workloads of node1, added up: each write of one makes a greater number."""
    prefix = keys.endpoints_of("node1")
    return sum(one.revision for key, one in etcd.data().items() if key.decode().startswith(prefix))


def test_a_node_that_changes_its_mind_makes_others_write_twice(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    old, new = documents.COMPLETE, b'{"reads":["details"]}'

    async def scenario() -> None:
        etcd.put(keys.complete_key("node2"), new)
        one = node(tmp_path, 1)
        async with running(one):
            await one.add("web")
            await asyncio.sleep(1)
            seen = {writes_of(etcd)}
            for value in (old, new) * 20:
                etcd.put(keys.complete_key("node2"), value)
                await asyncio.sleep(11)
                seen.add(writes_of(etcd))
            assert len(seen) == 2 and shown(etcd, 1) == {"default/web": None}

    run(scenario())


@pytest.mark.parametrize("before", [documents.COMPLETE, b'{"reads":["details"]}'])
def test_a_restart_writes_no_workload_again(tmp_path: pathlib.Path, etcd: FakeEtcd, before: bytes) -> None:
    async def scenario() -> None:
        etcd.put(keys.complete_key("node2"), before)
        one = node(tmp_path, 1)
        async with running(one):
            await one.add("web")
            await asyncio.sleep(30)
            await one.agent.datastore.save()
            written = writes_of(etcd)
            await one.restart()
            await asyncio.sleep(30)
            assert writes_of(etcd) == written and list(shown(etcd, 1)) == ["default/web"]

    run(scenario())
