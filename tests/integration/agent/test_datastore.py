# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agents as processes with three members of etcd, their gates, TLS and users: policy in the kernel follows other nodes.

tests/integration/datastore tries the faults of members against the agent's feed, and tests/unit/agent/datastore whole
agents against a cluster in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Operation, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.etcd_cluster import EtcdCluster, programs
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.host_under_test import HOST
from tests.long_form import LONG
from tests.unit.agent.datastore.test_agents_together import state

#: Nodes that only stand in the datastore, with a block of 256 addresses and as many workloads each.
ELSEWHERE = 40
OUTAGE = 300.0 if LONG else 15.0  # seconds without any member


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[EtcdCluster]:
    """Three running members behind gates, with the blocks and users of node1 and node2."""
    with EtcdCluster(programs("trixie"), tmp_path_factory.mktemp("etcd"), gates=True) as found:
        with found.inside():
            found.begin()
            asyncio.run(_with_nodes(found))
        yield found


async def _with_nodes(cluster: EtcdCluster) -> None:
    operator = cluster.operator()
    for number in (1, 2):
        await cluster.add_node(f"node{number}")
        blocks = documents.encode_blocks([f"10.244.{number}.0/24"])
        await operator.write([Put(keys.blocks_key(f"node{number}"), blocks)])
    await operator.close()


@pytest.fixture(scope="module")
def nodes(
    cluster: EtcdCluster, engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> t.Iterator[tuple[Daemon, Daemon]]:
    """Two running agents; node2 has a workload `db` whose policy lets those with `app == 'web'` in."""
    with contextlib.ExitStack() as stack:
        found = []
        for number in (1, 2):
            folder = tmp_path_factory.mktemp(f"node{number}")
            node = stack.enter_context(daemon_under_test(engine, folder, state_of(number)))
            cluster.join(str(folder / "netns" / HOST), 100 + number, "etcd0")
            node.follow(cluster.settings(f"node{number}"))
            node.start()
            found.append(node)
        found[1].add("db", labels={"app": "db"})
        for node in found:
            _synced(node)
        yield found[0], found[1]


def state_of(number: int) -> NodeState:
    found = state(number)
    blocks = tuple(dataclasses.replace(block, cidr=f"10.244.{number}.0/24") for block in found.ipam.blocks)
    routes = tuple(dataclasses.replace(route, destination=f"10.244.{number}.0/24") for route in found.routes)
    return dataclasses.replace(found, ipam=dataclasses.replace(found.ipam, blocks=blocks), routes=routes)


@pytest.fixture(autouse=True)
def mended(cluster: EtcdCluster) -> t.Iterator[None]:
    """A cluster that the test before has left as it found it, also if it failed."""
    yield
    with cluster.inside():
        cluster.mend()
        asyncio.run(cluster.answering())


def _synced(node: Daemon) -> None:
    node.until(lambda: node.call("status")["datastore"]["synced"], "the datastore is followed")


def webs(node: Daemon) -> set[str]:
    """Return the members of the set of `app == 'web'` in the kernel."""
    saved = node.kernel.run(["ipset", "save"])
    assert saved.code == 0, saved.error
    lines = (line.split() for line in saved.output.splitlines())
    return {words[2] for words in lines if words[0] == "add" and words[1].startswith("cali40s")}


def test_a_policy_follows_workloads_of_another_node(nodes: tuple[Daemon, Daemon]) -> None:
    one, two = nodes
    before = webs(two)
    address = one.add("follow", labels={"app": "web"})["addresses"][0]
    two.until(lambda: webs(two) == {*before, address}, "the new workload is in the set")
    one.call("workload.label", id="default/follow", labels={"app": "other"})
    two.until(lambda: webs(two) == before, "its label takes it out of the set")
    one.call("workload.label", id="default/follow", labels={"app": "web"})
    two.until(lambda: webs(two) == {*before, address}, "and into it again")
    assert one.delete("follow")
    two.until(lambda: webs(two) == before, "a released address is in no set")
    for node in nodes:
        node.in_sync()
        assert node.call("status")["problems"] == []


def test_everything_goes_on_while_no_member_answers(cluster: EtcdCluster, nodes: tuple[Daemon, Daemon]) -> None:
    """All members end. Agents restart, one by SIGKILL, attach and detach; afterwards all is known."""
    one, two = nodes
    address = one.add("early", labels={"app": "web"})["addresses"][0]
    two.until(lambda: address in webs(two), "the workload is in the set")
    known = webs(two)
    assert two.call("datastore.save")["synced"]  # a crash may lose what was read within the last seconds
    cluster.kill()
    began = time.monotonic()
    two.kill()
    two.start()
    two.in_sync()
    assert webs(two) == known
    late = one.add("late", labels={"app": "web"})["addresses"][0]
    assert one.delete("early")
    assert one.stop() == 0
    one.start()
    assert {workload["id"] for workload in one.call("workload.list")["workloads"]} == {"default/late"}
    two.add("during")
    assert two.delete("during")
    two.until(
        lambda: any(text.startswith("The datastore is not followed: ") for text in two.call("status")["problems"]),
        "the outage is a problem in words",
    )
    time.sleep(max(0.0, OUTAGE - (time.monotonic() - began)))
    assert webs(two) == known
    cluster.start()
    two.until(lambda: webs(two) == known - {address} | {late}, "what happened meanwhile is known")
    for node in nodes:
        _synced(node)
        node.until(lambda n=node: n.call("status")["problems"] == [], "no problem is left")
    assert one.delete("late")


def test_no_add_waits_for_members_that_accept_and_say_nothing(
    cluster: EtcdCluster, nodes: tuple[Daemon, Daemon]
) -> None:
    one, two = nodes
    for number in cluster.numbers:
        cluster.stop(number)
    for number in range(20):
        one.add(f"hung{number}", labels={"app": "web"})
    waiting = [one.call("status")["datastore"]["waiting"]]
    for number in cluster.numbers:
        cluster.cont(number)
    assert waiting != [0]  # nothing of them was published when the last was answered
    two.until(lambda: len(webs(two)) >= 20, "all of them are known in the end")
    for number in range(20):
        assert one.delete(f"hung{number}")
    two.until(lambda: webs(two) == set(), "and all are gone in the end")


def elsewhere(first: int, last: int, app: str = "other") -> list[Operation]:
    """Return the puts of workloads of many other nodes, by their numbers."""
    found: list[Operation] = []
    for number in range(first, last):
        third, fourth = divmod(number, 250)
        node = f"elsewhere{third}"
        endpoint = Endpoint(
            kind="WorkloadEndpoint",
            name=f"default/w{number}",
            node=node,
            interface=f"cali{number}",
            addresses=(f"10.245.{third}.{fourth}",),
            labels=(("app", app), ("projectcalico.org/namespace", "default")),
            namespace="default",
        )
        document = documents.encode_endpoint(documents.PublishedEndpoint(endpoint))
        found.append(Put(keys.endpoint_key(node, endpoint.interface), document))
    return found


def elsewhere_blocks() -> list[Operation]:
    """Return the puts of the blocks of the nodes in `elsewhere`."""
    return [
        Put(keys.blocks_key(f"elsewhere{number}"), documents.encode_blocks([f"10.245.{number}.0/24"]))
        for number in range(ELSEWHERE)
    ]


async def written(cluster: EtcdCluster, operations: t.Sequence[Operation]) -> None:
    """Write operations as the operator, 120 in a transaction."""
    operator = cluster.operator()
    for first in range(0, len(operations), 120):
        await operator.write(operations[first : first + 120])
    await operator.close()


def test_ten_thousand_workloads_elsewhere(cluster: EtcdCluster, nodes: tuple[Daemon, Daemon]) -> None:
    """An agent that lists 10,000 takes at most 60 MiB; of 5,000 changes at once none is missed, and adds go on."""
    two = nodes[1]
    with cluster.inside():
        asyncio.run(written(cluster, [*elsewhere_blocks(), *elsewhere(0, 10_000)]))
    two.until(lambda: two.call("status")["datastore"]["workloads"] >= 10_000, "all of them are known")
    assert two.stop() == 0
    (two.folder / "lib" / "datastore.jsonl").unlink()  # so that it lists them all
    two.start()
    two.until(lambda: two.call("status")["datastore"]["workloads"] >= 10_000, "all of them are listed")
    time.sleep(3)
    with cluster.inside():
        asyncio.run(written(cluster, elsewhere(0, 5_000, "web")))
    two.add("burst")
    assert two.delete("burst")
    two.until(lambda: len(webs(two)) == 5_000, "all changes are in the kernel")
    assert two.memory() <= 60 << 10, f"{two.memory()} KiB"
    gone: list[Operation] = [Delete(one.key) for one in elsewhere(0, 10_000) if isinstance(one, Put)]
    with cluster.inside():
        asyncio.run(written(cluster, gone))
    two.until(lambda: webs(two) == set(), "they are gone")
