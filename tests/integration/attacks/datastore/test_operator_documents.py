# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by what an operator writes, on purpose or by a slip: ada writes, node1 follows, and berta puts it right."""

from __future__ import annotations

import asyncio
import json
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import nodes

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore.live_agent import (
    Data,
    following,
    in_force,
    prepare,
    put,
    request,
    said,
    until,
    writing,
)
from tests.unit.agent.datastore.live_node import KEYS, deny, document, ports
from tests.unit.agent.datastore.test_live_policy import for_hosts, with_host
from tests.unit.agent.node_under_test import Node

RELEASE = "trixie"
WEB, BLUE = keys.document_key(KEYS["web"]), keys.document_key(KEYS["blue"])
GOOD = json.loads(deny(KEYS["web"], 8080))


def hostile(spec: Data, **metadata: t.Any) -> bytes:
    body = {**GOOD, "metadata": {"name": "web", **metadata}, "spec": {**GOOD["spec"], **spec}}
    return json.dumps(body).encode()


RULE = GOOD["spec"]["ingress"][0]
#: Values of the key of a policy: what they attack, and the bytes.
DOCUMENTS = {
    "nothing": b"",
    "no text": b"\xff\xfe",
    "depth": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a list": b"[]",
    "a number": b"1" * 100_000,
    "a kind that its key has not": json.dumps({**GOOD, "kind": "Tier"}).encode(),
    "a name that its key has not": hostile({}, name="own"),
    "a kind that is not live": json.dumps({**GOOD, "kind": "HostEndpoint"}).encode(),
    "more bytes than a document may have": hostile({}, annotations={"note": "x" * keys.DOCUMENT_BYTES}),
    "a deep selector": hostile({"selector": "(" * 120_000}),
    "a wide selector": hostile({"selector": " || ".join(["a == 'b'"] * 15_000) + " ||"}),
    "a text of the terminal": hostile({"selector": "\x1b[2J\x1b]0;mine\x07"}),
    "an injected rule": hostile({"ingress": [{**RULE, "protocol": "TCP\n-A FORWARD -j ACCEPT"}]}),
    "nets that are none": hostile({"ingress": [{**RULE, "source": {"nets": ["10.0.0.0/33"] * 10_000}}]}),
    "ports that are none": hostile({"ingress": [{**RULE, "destination": {"ports": [70_000] * 10_000}}]}),
    "a number without an end": hostile({}).replace(b'"tier"', b'"order": 1e99999, "tier"'),
}


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    asyncio.run(prepare(cluster, "ada", "berta"))


def attacked(
    cluster: EtcdCluster, folder: pathlib.Path, attack: t.Callable[[Node, EtcdClient, EtcdClient], t.Awaitable[None]]
) -> None:
    """Run an attack by ada, beside the client of root. No document and no open change is left."""

    async def run() -> None:
        root, ada = cluster.operator(), cluster.settings("ada", cluster.urls).client()
        async with following(cluster, folder) as one:
            try:
                await attack(one, ada, root)
            finally:
                await root.delete(keys.under(keys.DOCUMENTS))
                await root.write([Delete(keys.OPEN_CHANGE)])
        await ada.close()
        await root.close()

    asyncio.run(run())


def test_live_documents_of_any_content(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Write values that are no document, too deep, too large, of another kind or name, or with rules of iptables.

    Gain: Agents that stop, lose their policy, or write other rules.
    Precedent: CWE-20, CWE-674, CWE-770, CWE-88.
    Closed: 0.3.0
    Result: Each is set aside and named in the node's heartbeat, and the last good one of its key stays in force. What
        others write beside it is in force as always, and workloads come and go.
    """

    async def attack(one: Node, ada: EtcdClient, root: EtcdClient) -> None:
        await in_force(root, await put(ada, WEB, deny(KEYS["web"], 8080)))
        for number, (what, value) in enumerate(DOCUMENTS.items()):
            await put(ada, WEB, value)
            await in_force(root, await put(ada, BLUE, deny(KEYS["blue"], 9000 + number)))
            assert ports(one) == {8080, 9000 + number}, what
            found = await said(root)
            assert [key for key, dummy in found.refused] == [WEB] and found.held_back == "", what
            assert "\x1b" not in json.dumps(found.refused) and "\n" not in found.refused[0][1], what
        begun = time.monotonic()
        await one.add("late", labels={"app": "db"})
        assert time.monotonic() - begun < 10 and one.differences() == []
        async with writing(cluster, "berta") as berta:
            await in_force(root, (await berta.change(request("apply", {**GOOD, "spec": GOOD["spec"]}))).revision)
        assert (await said(root)).count_refused == 0 and 8080 in ports(one)

    attacked(cluster, tmp_path, attack)


def trial(change: str, seconds: int, port: int) -> bytes:
    return open_change.encode(
        OpenChange(change, "ada", open_change.TRIAL, seconds, 1, {KEYS["web"]: deny(KEYS["web"], port)})
    )


ID = "20261130T160212.001-00000{}"
OPEN = json.loads(trial(ID.format(0), 60, 1234))
#: Values of the key of the open change that no node may try.
CHANGES = {
    "nothing": b"",
    "no text": b"\xff",
    "depth": b"[" * 100_000,
    "a time without an end": json.dumps({**OPEN, "seconds": 10**9}).encode(),
    "a name of a path": json.dumps({**OPEN, "id": "../../x"}).encode(),
    "a key that is no document": json.dumps({**OPEN, "documents": [[keys.FLEET_SETTINGS, {}]]}).encode(),
    "a document twice": json.dumps({**OPEN, "documents": OPEN["documents"] * 2}).encode(),
    "too many documents": json.dumps({**OPEN, "documents": [[f"{WEB}{n}", None] for n in range(101)]}).encode(),
    "a text of the terminal": json.dumps({**OPEN, "user": "\x1b[2J"}).encode(),
    "a document of no kind": json.dumps({**OPEN, "id": "mine", "documents": [[WEB, {"a": 1}]]}).encode(),
}


def test_open_changes_of_any_content(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Write an open change that is none, has no end, or too much, and a trial whose key nobody removes.

    Gain: Policy on trial for ever, agents that stop, or operators that can change nothing any more.
    Precedent: CWE-20, CWE-400.
    Closed: 0.3.0
    Result: Nodes pass over what they cannot read, or refuse it. A trial ends by its time on each node and is not tried
        again, though its key stays. Other operators are refused in words, and remove the key by --force.
    """

    async def attack(one: Node, ada: EtcdClient, root: EtcdClient) -> None:
        await in_force(root, await put(ada, WEB, deny(KEYS["web"], 8080)))
        number = 0
        for number, (what, value) in enumerate(CHANGES.items()):
            await put(ada, keys.OPEN_CHANGE, value)
            await in_force(root, await put(ada, BLUE, deny(KEYS["blue"], 9000 + number)))
            assert ports(one) == {8080, 9000 + number}, what
            async with writing(cluster, "berta") as berta:
                with pytest.raises(ChangeRefused, match=r"or add --force, which ends it now$") as refused:
                    await berta.change(request("delete", GOOD))
                assert str(refused.value).isprintable(), what
        await put(ada, keys.OPEN_CHANGE, trial(ID.format(1), 3, 1234))
        await until(lambda: tried(one))
        await until(lambda: ended(root))
        assert ports(one) == {8080, 9000 + number} and await root.get(keys.OPEN_CHANGE) is not None
        await put(ada, keys.OPEN_CHANGE, trial(ID.format(2), 3, 1235))
        await put(ada, keys.OPEN_CHANGE, trial(ID.format(1), 600, 1234))
        await asyncio.sleep(2)
        assert ports(one) == {8080, 9000 + number}
        async with writing(cluster, "berta", force=True) as berta:
            await in_force(root, (await berta.change(request("delete", GOOD))).revision)
        assert ports(one) == {9000 + number} and await root.get(keys.OPEN_CHANGE) is None

    async def tried(one: Node) -> bool:
        return 1234 in ports(one)

    async def ended(root: EtcdClient) -> bool:
        entry = await root.get(keys.answer_key("node1", ID.format(1)))
        return entry is not None and change_answer.decode("node1", ID.format(1), entry.value).state == "reverted"

    attacked(cluster, tmp_path, attack)


def test_a_slip_that_would_cut_every_node_off(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Apply a policy that closes hosts to all but one port, without a plan and without a trial.

    Gain: None; the fleet cannot be reached any more, and etcd cannot be asked to take it back.
    Precedent: Calico's own failsafe ports.
    Closed: 0.3.0
    Result: Each node that would be cut off keeps the policy that it has as a whole, and says why. The writer learns it
        by --wait, and one rollback puts all right.
    """

    async def attack(one: Node, ada: EtcdClient, root: EtcdClient) -> None:
        await one.agent.changes.apply(with_host(), True)
        await in_force(root, await put(ada, BLUE, deny(KEYS["blue"], 9000)))
        before = one.kernel.run(["iptables-save"]).output
        async with writing(cluster, "ada") as writer:
            slip = json.loads(for_hosts([{"way": "ingress", "net": "0.0.0.0/0", "port": 443}]))
            made = await writer.change(request("apply", slip))
            changed = [change.key for change in made.plan.changes]
            member = await root.status()
            waited = await nodes.wait(root, member.header.cluster, made.revision, changed, 30.0, made.written)
            assert waited.in_force == 0 and " would be cut by " in waited.lacking["node1"], waited
            assert one.kernel.run(["iptables-save"]).output == before
        async with writing(cluster, "berta") as berta:
            await in_force(root, (await berta.undo(made.change)).revision)
        found = await said(root)
        assert found.held_back == "" and one.kernel.run(["iptables-save"]).output == before

    attacked(cluster, tmp_path, attack)


def test_a_folder_that_prunes_what_others_have(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Put an empty folder in force with the owner of another one and --prune.

    Gain: None; all policy of another team is gone.
    Precedent: A run of `kubectl apply --prune` in the wrong folder.
    Closed: 0.3.0
    Result: Documents of other owners stay. The history says who deleted what, and one rollback by anybody restores each
        document byte for byte.
    """
    owned = [json.loads(document(KEYS["tier"], {"order": 5})), json.loads(deny(KEYS["web"], 8080, "default"))]

    async def attack(one: Node, ada: EtcdClient, root: EtcdClient) -> None:
        async with writing(cluster, "berta") as berta:
            await berta.change(request("apply", *owned, owner="web"))
            await in_force(root, (await berta.change(request("apply", json.loads(deny(KEYS["blue"], 9000))))).revision)
            before = await root.named([WEB, BLUE, keys.document_key(KEYS["tier"])])
            async with writing(cluster, "ada") as writer:
                slip = await writer.change(
                    request("apply", json.loads(document(KEYS["nets"], {})), owner="web", prune=True)
                )
            await in_force(root, slip.revision)
            assert ports(one) == {9000} and {change.key.name for change in slip.plan.changes} == {"early", "web", "bad"}
            await in_force(root, (await berta.undo(slip.change)).revision)
        after = await root.named([WEB, BLUE, keys.document_key(KEYS["tier"])])
        assert [(entry.key, entry.value) for entry in after] == [(entry.key, entry.value) for entry in before]
        assert len(after) == 3 and ports(one) == {8080, 9000}

    attacked(cluster, tmp_path, attack)
