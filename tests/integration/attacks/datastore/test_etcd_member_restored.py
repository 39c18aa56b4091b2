# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members that come back with what etcd had earlier: one of three, and all of them from a snapshot."""

from __future__ import annotations

import asyncio
import json
import pathlib
import shutil

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore.live_agent import (
    Data,
    following,
    in_force,
    prepare,
    put,
    request,
    until,
    writing,
)
from tests.unit.agent.datastore.live_node import KEYS, deny, ports
from tests.unit.agent.node_under_test import Node

RELEASE = "trixie"
TRIED = "20261130T160212.001-000001"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    asyncio.run(prepare(cluster, "ada"))


def web(port: int) -> Data:
    found: Data = json.loads(deny(KEYS["web"], port))
    return found


async def apply(cluster: EtcdCluster, port: int) -> tuple[str, int]:
    """Let policy deny one port; return the id and the revision of the change."""
    async with writing(cluster, "ada") as ada:
        made = await ada.change(request("apply", web(port)))
        return made.change, made.revision


async def becomes(one: Node, denied: set[int]) -> None:
    async def is_so() -> bool:
        return ports(one) == denied

    await until(is_so)


def test_a_member_with_an_older_copy(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Start one member of three with the files that it had before the last changes.

    Gain: Policy that is no longer in force, on the nodes that ask this member.
    Precedent: https://github.com/etcd-io/etcd/issues/9630 and others: members of one cluster with different data.
    Closed: 0.3.0
    Result: The member ends, or gets what it lacks from the others. No node has an earlier policy in force for a moment:
        reads need a majority, and a node does not follow a member whose revision is behind its own.
    """

    async def attack() -> None:
        root = cluster.operator()
        async with following(cluster, tmp_path) as one:
            await in_force(root, (await apply(cluster, 8080))[1])
            member, older, newer = cluster.members[2], tmp_path / "older", tmp_path / "newer"
            files = cluster._data_of(member)
            cluster.kill(3)
            shutil.copytree(files, older)
            cluster.start(3)
            await cluster.answering(3)
            for port in range(9000, 9020):
                dummy, revision = await apply(cluster, port)
            await in_force(root, revision)
            cluster.kill(3)
            files.rename(newer)
            shutil.copytree(older, files)
            cluster.start(3)
            pathlib.Path(one.machine.datastore).write_text(
                json.dumps(cluster.settings("node1", [member.url, *cluster.urls[:2]]).to_dict())
            )
            end = asyncio.get_running_loop().time() + 10
            while asyncio.get_running_loop().time() < end:
                assert ports(one) == {9019}
                await asyncio.sleep(0.05)
            await in_force(root, (await apply(cluster, 9090))[1])
            assert ports(one) == {9090}
            await root.delete(keys.under(keys.DOCUMENTS))
            if member.process is None or member.process.poll() is not None:
                # One that goes on has confirmed to its leader what the newer files lack: with these it would end.
                shutil.rmtree(files)
                newer.rename(files)
                cluster.start(3)
        await root.close()

    asyncio.run(attack())


@pytest.mark.parametrize("restarted", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["", "restarted"])
def test_a_snapshot_with_an_open_trial(restarted: bool, cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Restore all members from a snapshot of a time when a policy was on trial that was taken back since.

    Gain: A policy that was withdrawn is in force again, and the changes since are gone.
    Precedent: etcd's own advice on restored clusters: revisions go back, and leases begin anew.
    Closed: 0.3.0
    Result: Nodes have the documents of the snapshot, as the page says. What was on trial is not tried again. An agent
        that has started since may try it once, for its time. The open change of that time forbids other changes until
        its lease ends, and --force removes it. A change that the snapshot lacks is not in the history, so nothing is
        undone by its id.
    """

    async def attack() -> None:
        root = cluster.operator()
        async with following(cluster, tmp_path) as one:
            await in_force(root, (await apply(cluster, 8080))[1])
            tried = OpenChange(TRIED, "ada", open_change.TRIAL, 3, 1, {KEYS["web"]: deny(KEYS["web"], 1234)})
            await put(root, keys.OPEN_CHANGE, open_change.encode(tried))
            await becomes(one, {1234})
            cluster.ctl("snapshot", "save", tmp_path / "snapshot")
            await becomes(one, {8080})
            async with writing(cluster, "ada", force=True) as ada:
                late = await ada.change(request("apply", web(9090)))
            await in_force(root, late.revision)
            assert ports(one) == {9090}
            if restarted:
                await one.kill()
                await one.start()
            cluster.restore(tmp_path / "snapshot")
            await cluster.answering()
            await becomes(one, {8080})
            if restarted:
                await asyncio.sleep(10)
            end = asyncio.get_running_loop().time() + 5
            while asyncio.get_running_loop().time() < end:
                assert ports(one) == {8080}
                await asyncio.sleep(0.05)
            async with writing(cluster, "ada") as ada:
                with pytest.raises(ChangeRefused, match=r"ada tries a change .* --force, which ends it now"):
                    await ada.change(request("apply", web(9091)))
                with pytest.raises(ChangeRefused, match=f"the history has no change {late.change}"):
                    await ada.undo(late.change)
            async with writing(cluster, "ada", force=True) as ada:
                await in_force(root, (await ada.change(request("apply", web(9091)))).revision)
            assert ports(one) == {9091}
            await root.delete(keys.under(keys.DOCUMENTS))
        await root.close()

    asyncio.run(attack())
