# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in memory whose datastore has live policy: documents, transactions, and what the kernel then denies."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Operation, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    live_documents,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Policy,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Route,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.node_under_test import STATE, Node

INVENTORY = policy_set(
    [PolicyTier("security", 10.0)],
    [Policy("own", selector="app == 'db'", ingress=(PolicyRule("Allow"),))],
    [allow_all()],
)
KEYS = {
    "web": DocumentKey("GlobalNetworkPolicy", "", "web"),
    "own": DocumentKey("GlobalNetworkPolicy", "", "own"),
    "blue": DocumentKey("NetworkPolicy", "default", "web"),
    "tier": DocumentKey("Tier", "", "early"),
    "nets": DocumentKey("GlobalNetworkSet", "", "bad"),
}


def state(live: bool = True) -> NodeState:
    block = "10.244.1.0/29"
    return dataclasses.replace(
        STATE,
        plan="first",
        ipam=NodeIpam(1, (Block(block, "default-pool"),)),
        routes=(Route(block, "blackhole"),),
        bird=None,
        policy=PolicyState(INVENTORY, settings=PolicySettings(live=live)),
    )


def document(key: DocumentKey, spec: dict[str, t.Any], **metadata: t.Any) -> bytes:
    name = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {}), **metadata}
    body = {"apiVersion": "projectcalico.org/v3", "kind": key.kind, "metadata": name, "spec": spec}
    return live_documents.encode(body)


def deny(key: DocumentKey, port: int, tier: str = "default") -> bytes:
    rule = {"action": "Deny", "protocol": "TCP", "destination": {"ports": [port]}}
    return document(key, {"tier": tier, "selector": "all()", "ingress": [rule], "types": ["Ingress"]})


def node(folder: pathlib.Path, live: bool = True) -> Node:
    found = Node(folder / "node1", state(live), cleanup_grace=0.0)
    found.machine.datastore = str(folder / "node1" / "datastore.json")
    pathlib.Path(found.machine.datastore).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(found.machine.datastore).write_text(json.dumps({"endpoints": ["https://192.0.2.1:2379"]}))
    return found


@contextlib.asynccontextmanager
async def running(one: Node) -> t.AsyncIterator[None]:
    await one.start()
    await one.add("db", labels={"app": "db"})
    await asyncio.sleep(6)  # listings begin after a random pause
    try:
        yield
    finally:
        await one.kill()


async def write(etcd: FakeEtcd, *operations: Operation) -> int:
    """Do operations as one transaction; return its revision."""
    client = EtcdClient(etcd.members)
    assert await client.write(operations)
    await client.close()
    return etcd.revision


def put(name: str, value: bytes) -> Put:
    return Put(keys.document_key(KEYS[name]), value)


def delete(name: str) -> Delete:
    return Delete(keys.document_key(KEYS[name]))


def said(etcd: FakeEtcd) -> PolicyHeartbeat:
    """Return what the node says of its live policy in the datastore."""
    event = etcd.data()[keys.policy_heartbeat_key("node1").encode()]
    return policy_heartbeat.decode("node1", event.value or b"")


def ports(one: Node) -> set[int]:
    """Return the ports that policy denies in the kernel."""
    saved = one.kernel.run(["iptables-save", "-t", "filter"]).output
    words = [line.split() for line in saved.splitlines() if "--dport" in line or "--dports" in line]
    chains = [line for line in words if line[1].startswith("cali-p")]
    return {int(line[line.index(word) + 1]) for line in chains for word in ("--dport", "--dports") if word in line}


async def until(condition: t.Callable[[], bool], seconds: float = 1.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        await asyncio.sleep(0.005)
        assert asyncio.get_running_loop().time() < end


def status(one: Node) -> dict[str, t.Any]:
    found: dict[str, t.Any] = one.agent.datastore.to_dict()["live_policy"]
    return found


def problems(one: Node) -> str:
    return " ".join(one.agent.status.problems)
