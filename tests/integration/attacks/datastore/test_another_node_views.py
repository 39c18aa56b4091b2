# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node on people who list the workloads and addresses of the fleet: node1 writes, node2 shows."""

from __future__ import annotations

import asyncio
import json
import pathlib
import resource
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore.test_another_node_documents import HOSTILE, OWN, WORKLOADS, write_bytes
from tests.integration.datastore.reader import blocks, put
from tests.unit.cli.commands.test_ipam import fill
from tests.unit.cli.conftest import Node

RELEASE = "trixie"
QUOTA = 256 << 20
#: Commands about all nodes, each with a word of its answer that is of an honest node.
COMMANDS = {
    ("workload", "list", "-o", "json"): "node10",
    ("get", "workloadendpoints", "-A"): "node10",
    ("ipam", "show", "--show-blocks"): "Node node10",
}


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks; node10 has workloads."""

    async def write() -> None:
        operator = cluster.operator()
        await operator.write([*blocks(), *WORKLOADS])
        for node in ("node1", "node2"):
            await cluster.add_node(node)
        await operator.close()

    asyncio.run(write())


@pytest.fixture
def node(cluster: EtcdCluster, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> t.Iterator[Node]:
    """The host of calicoctl, with the datastore's user node2."""
    made = Node(tmp_path, capsys.readouterr)
    fill(made)
    path = pathlib.Path(made.machine.root) / "etc" / "calico" / "datastore.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(cluster.settings("node2").to_dict()))
    yield made
    made.close()


def attacked(cluster: EtcdCluster, attack: t.Callable[[EtcdClient], t.Awaitable[None]]) -> None:
    """Let node1 write below its own prefix, after what it wrote before is gone."""

    async def run() -> None:
        attacker, operator = cluster.settings("node1").client(), cluster.operator()
        own = dict(zip(("key", "range_end"), map(gateway.encoded, keys.under(OWN))))
        await operator.call("/v3/kv/deleterange", gateway.to_bytes(own))
        await attack(attacker)
        await attacker.close()
        await operator.close()

    asyncio.run(run())


def shown(node: Node) -> list[str]:
    """Return all that the commands about all nodes print. Each has to succeed, with what node10 has, in seconds."""
    texts = []
    for words, honest in COMMANDS.items():
        began, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status, out, err = node.run(*words)
        assert status == 0 and honest in out, err
        assert time.process_time() - began < 8
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 << 10  # KiB
        texts.append(out + err)
    return texts


def test_documents_for_people_who_list_the_fleet(cluster: EtcdCluster, node: Node) -> None:
    """Write workloads with commands for terminals, addresses and names of others, or without end, for people to list.

    Gain: Control of an administrator's terminal, or a list that hides or forges workloads of other nodes.
    Precedent: CWE-150, CWE-20, CWE-345.
    Closed: 0.3.0
    Result: calicoctl shows none of them, names the first and counts the rest. Workloads of other nodes are all shown.
    """

    async def attack(attacker: EtcdClient) -> None:
        for number, value in enumerate(HOSTILE.values()):
            await write_bytes(attacker, f"{OWN}x{number}".encode(), value)
        for name in (b"\x1b]0;owned\x07", b"\xff\xfe", b"a/b", b"y" * 100_000, b"\r\ndefault  forged  node10"):
            await write_bytes(attacker, OWN.encode() + name, put(1, "node1").value)

    attacked(cluster, attack)
    for text in shown(node):
        assert text.isprintable() or set(text) - set("\n") <= {one for one in text if one.isprintable()}
        assert "more keys are left out" in text and "forged" not in text.split("calicoctl:")[0]


def test_more_than_a_list_of_the_fleet_may_have(cluster: EtcdCluster, node: Node) -> None:
    """Write thousands of workloads with as many labels as possible, for calicoctl to read and show.

    Gain: A list that takes the memory or the time of an administrator, or that fails for the whole fleet.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: calicoctl reads 4 MiB of the node at most, says so, and shows the workloads of all other nodes.
    """
    labels = [[f"key{number}/{'k' * 60}", "v" * 63] for number in range(60)]
    large = json.dumps({**json.loads(put(1, "node1").value), "labels": dict(labels)}).encode()

    async def attack(attacker: EtcdClient) -> None:
        for first in range(0, 1500, 50):
            await attacker.write([Put(f"{OWN}k{number}", large) for number in range(first, first + 50)])

    attacked(cluster, attack)
    for text in shown(node):
        assert "of node1 are not read: of a node, 16384 keys and 4 MiB are the most" in text
        assert "node1" in text
