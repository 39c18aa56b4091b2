#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long live policy takes from the write of a document to the kernel, and the same policy from the inventory.

Run as root. Two agents, each a process of its own on a host of its own, and three members of Debian's etcd with gates,
TLS and users, all in network namespaces of this machine. Both know 10,000 workloads elsewhere and have 20 of their own.
One has its policies from documents, the other from its state, by node.apply. Figures:

  effect    milliseconds from the answer to the write of one policy until the node says that it is in force
  all       seconds until 500 policies with 30,000 rules are in force, and as a multiple of node.apply of the same
  one       processor seconds of the agent for one changed policy of these 500, as a part of node.apply's for it
  memory    MiB of the agent's resident memory with these policies, more than that of the other
  load      seconds in which a process without an agent, such as the boot unit, reads these policies from the disk
  add       a workload is added on both nodes in turns: the agent with live policy as a multiple of the other
  asked     the same on the node with live policy alone: at the moment of an operator's question, and in peace
  told      milliseconds of processor time of all members for one of 1,000 nodes that say what they have in force

Ratios of add and asked are medians of the ratio within each turn.
The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (  # noqa: E402
    live_documents,
    open_change,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import (  # noqa: E402
    QUESTION,
    OpenChange,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (  # noqa: E402
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import (  # noqa: E402
    from_resources,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (  # noqa: E402
    PolicySettings,
    PolicyState,
    allow_all,
)

from tests.etcd_cluster import EtcdCluster, programs  # noqa: E402
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine  # noqa: E402
from tests.integration.agent.test_datastore import elsewhere, elsewhere_blocks, state_of  # noqa: E402
from tests.integration.host_under_test import HOST  # noqa: E402

GOALS = {
    "effect_median_ms": 300.0,
    "effect_p99_ms": 1000.0,
    "all_seconds": 30.0,
    "all_to_apply": 2.0,
    "one_to_apply": 0.1,
    "memory_more_mib": 2.0,
    "add_to_other": 1.03,
}
POLICIES, RULES, APPS, ELSEWHERE = 500, 60, 20, 10_000
_REST = 5.0  # seconds after which nothing of a change is under way

Document = dict[str, t.Any]


def policy(number: int, port: int = 0) -> Document:
    rules = [
        {
            "action": "Allow",
            "protocol": "TCP",
            "source": {"selector": f"app == 'a{(number * 7 + rule) % 100}'"},
            "destination": {"ports": [1000 + rule + (port if not rule else 0)]},
        }
        for rule in range(RULES)
    ]
    spec = {"selector": f"app == 'a{number % APPS}'", "order": number, "types": ["Ingress"], "ingress": rules}
    name = {"name": f"p{number:03}"}
    return {"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy", "metadata": name, "spec": spec}


def put(document: Document) -> Put:
    key = DocumentKey(document["kind"], "", document["metadata"]["name"])
    return Put(keys.document_key(key), live_documents.encode(document))


def state(number: int, found: t.Sequence[Document], live: bool) -> NodeState:
    policy_set = from_resources.policy_set([resources.parse(one) for one in found])
    policy_set = dataclasses.replace(policy_set, profiles=(allow_all(),))
    return dataclasses.replace(
        state_of(number), policy=PolicyState(policy_set, settings=PolicySettings(live=live)), plan="bench"
    )


class Store:
    """The store of a cluster, as an operator writes it and sees what node1 says."""

    def __init__(self, cluster: EtcdCluster, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._operator: EtcdClient = cluster.operator()

    def write(self, found: t.Sequence[Document]) -> int:
        """Write documents in transactions of at most 50, and return the last revision."""
        revision = 0
        for at in range(0, len(found), 50):
            operations = [put(one) for one in found[at : at + 50]]
            assert self._loop.run_until_complete(self._operator.write(operations))
            entry = self._loop.run_until_complete(self._operator.get(operations[-1].key))
            assert entry is not None
            revision = entry.mod_revision
        return revision

    def until_in_force(self, revision: int) -> float:
        """Wait until node1 says that it has the revision in force; return the time of the monotonic clock."""
        key = keys.policy_heartbeat_key("node1")
        while True:
            found = self._loop.run_until_complete(self._operator.get(key))
            if found is not None and policy_heartbeat.decode("node1", found.value).revision >= revision:
                return time.perf_counter()
            time.sleep(0.005)

    def ask(self, identity: str, document: Document) -> None:
        """Ask all nodes what a document would change."""
        change = put(document)
        key = keys.parse_document_key(change.key)
        assert key is not None
        entry = self._loop.run_until_complete(self._operator.get(change.key))
        assert entry is not None
        question = OpenChange(identity, "bench", QUESTION, 10, entry.mod_revision, {key: change.value})
        written = [Put(keys.OPEN_CHANGE, open_change.encode(question))]
        assert self._loop.run_until_complete(self._operator.write(written))

    def until_answered(self, identity: str) -> None:
        key = keys.answer_key("node1", identity)
        while self._loop.run_until_complete(self._operator.get(key)) is None:
            time.sleep(0.005)

    def close(self) -> None:
        self._loop.run_until_complete(self._operator.close())


async def grant(cluster: EtcdCluster) -> None:
    operator = cluster.operator()
    for number in (1, 2):
        node = f"node{number}"
        await cluster.add_user(node, [(one.kind, one.keys) for one in rights.permissions(node, live=True)])
        await operator.write([Put(keys.blocks_key(node), documents.encode_blocks([f"10.244.{number}.0/24"]))])
    await operator.write(elsewhere_blocks())
    workloads = elsewhere(0, ELSEWHERE)
    for at in range(0, len(workloads), 100):
        await operator.write(workloads[at : at + 100])
    await operator.close()


def apply(node: Daemon, found: NodeState) -> tuple[float, float]:
    """Put a state in force; return the seconds and the processor seconds of the agent."""
    node.desire(found)
    began, used = time.perf_counter(), node.processor_seconds()
    assert node.call("node.apply", removals=True)["problems"] == []
    return time.perf_counter() - began, node.processor_seconds() - used


def added(node: Daemon, name: str, number: int) -> float:
    """Add a workload, delete it again, and return the seconds until the answer to the first."""
    netns = node.netns(name)
    began = time.perf_counter()
    node.call("workload.add", name=name, netns=netns, labels={"app": f"a{number % APPS}"})
    seconds = time.perf_counter() - began
    node.delete(name)
    node.settled()
    return seconds


def adds(store: Store, live: Daemon, other: Daemon, turns: int) -> dict[str, float]:
    """Return the figures `add` and `asked`."""
    to_other, asked = [], []
    for number in range(turns):
        pair = (live, other) if number % 2 else (other, live)
        times = {node: added(node, "turn", number) for node in pair}
        to_other.append(times[live] / times[other])
    for number in range(turns // 2):
        quiet = added(live, "quiet", number)
        store.ask(f"bench{number}", policy(number, 3))
        asked.append(added(live, "asked", number) / quiet)
        store.until_answered(f"bench{number}")
    return {
        "add_to_other": statistics.median(to_other),
        "asked_to_quiet": statistics.median(asked),
    }


async def told(cluster: EtcdCluster) -> float:
    """Return the milliseconds of the members' processor time for the word of one of 1,000 nodes."""

    async def say(client: EtcdClient, numbers: t.Iterable[int]) -> None:
        for number in numbers:
            said = PolicyHeartbeat(f"far{number}", time.time(), VERSION, 1, 1)
            await client.write([Put(keys.policy_heartbeat_key(said.node), policy_heartbeat.encode(said))])

    clients = [cluster.operator() for _ in range(100)]
    used = sum(processor_seconds(member.pid) for member in cluster.members)
    await asyncio.gather(*(say(one, range(first, 1000, 100)) for first, one in enumerate(clients)))
    used = sum(processor_seconds(member.pid) for member in cluster.members) - used
    for one in clients:
        await one.close()
    return used


def processor_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(cluster: EtcdCluster, live: Daemon, other: Daemon, count: int) -> dict[str, float]:
    loop = asyncio.new_event_loop()
    store = Store(cluster, loop)
    times = []
    for number in range(count):
        revision = store.write([policy(0, number + 1)])
        began = time.perf_counter()
        times.append(store.until_in_force(revision) - began)
        time.sleep(0.6)  # what a node says is written at most twice a second
    times.sort()
    everything = [policy(number) for number in range(POLICIES)]
    began = time.perf_counter()
    whole = store.until_in_force(store.write(everything)) - began
    applied, dummy = apply(other, state(2, everything, live=False))
    one, one_applied = [], []
    for number in range(5):
        time.sleep(_REST)
        changed = policy(7, number + 1)
        used = live.processor_seconds()
        store.until_in_force(store.write([changed]))
        one.append(live.processor_seconds() - used)
        time.sleep(_REST)
        after = [*everything[:7], changed, *everything[8:]]
        one_applied.append(apply(other, state(2, after, live=False))[1])
    time.sleep(3 * _REST)
    more = (live.memory("VmRSS") - other.memory("VmRSS")) / 1024
    began = time.perf_counter()
    stored = live_policy.load(str(live.folder / "lib"))
    load = time.perf_counter() - began
    assert len(stored.documents) == POLICIES
    figures = adds(store, live, other, count)
    figures["told_ms"] = loop.run_until_complete(told(cluster))
    store.close()
    loop.close()
    return {
        "effect_median_ms": 1e3 * statistics.median(times),
        "effect_p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "all_seconds": whole,
        "all_to_apply": whole / applied,
        "one_seconds": statistics.median(one),
        "one_to_apply": statistics.median(one) / statistics.median(one_applied),
        "memory_more_mib": more,
        "load_seconds": load,
        **figures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="trixie", choices=["bookworm", "trixie"])
    parser.add_argument("--count", type=int, default=100, help="changes whose effect is timed (default: %(default)s)")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calico-bench-")))
        engine = install_engine(folder / "engine")
        cluster = stack.enter_context(EtcdCluster(programs(options.release), folder / "etcd", gates=True))
        with cluster.inside():
            cluster.begin()
            asyncio.run(grant(cluster))
        nodes = []
        for number in (1, 2):
            (folder / f"node{number}").mkdir()
            found = state(number, [], live=number == 1)
            node = stack.enter_context(daemon_under_test(engine, folder / f"node{number}", found))
            cluster.join(str(folder / f"node{number}" / "netns" / HOST), 100 + number, "etcd0")
            node.follow(cluster.settings(f"node{number}"))
            node.start()
            for app in range(APPS):
                node.add(f"w{app}", labels={"app": f"a{app}"})
            nodes.append(node)
        for node in nodes:
            node.until(lambda n=node: n.call("status")["datastore"]["synced"], "the datastore is followed")
            node.in_sync()
        with cluster.inside():
            figures = measure(cluster, *nodes, options.count)
    if options.output == "json":
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            goal = GOALS.get(name)
            verdict = "" if goal is None else f"   goal {goal:g}: {'met' if value <= goal else 'MISSED'}"
            print(f"{name:<20} {value:8.2f}{verdict}")
    return 1 if any(figures[name] > goal for name, goal in GOALS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
