# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports that end: their rules and chains leave the kernel soon, and nothing of it is drift."""

from __future__ import annotations

import asyncio
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort

from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run


def chains(node: Node) -> set[str]:
    """Return the names of the workloads' chains of published ports."""
    tables: t.Any = node.kernel.netfilter.tables["nft", "iptables"]
    return {name for name in tables.get("nat", {}) if name.startswith("cali-pub-")}


@pytest.mark.parametrize("grace", [0.0, 60.0])
@pytest.mark.parametrize("how", ["delete", "withdraw", "other ports"])
def test_chains_of_ports_that_ended_are_gone_before_the_next_resync(
    tmp_path: pathlib.Path, how: str, grace: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while an agent that has just started removes nothing else."""

    async def scenario() -> None:
        node = Node(tmp_path, with_state(), cleanup_grace=grace)
        agent = await node.start()
        await agent.transactions.add(node.request("stays", ports=(PublishedPort("tcp", 0, 80),)))
        await node.settle()
        (stays,) = chains(node)
        await agent.transactions.add(node.request("web", ports=(PublishedPort("tcp", 0, 80),)))
        assert len(chains(node)) == 2
        if how == "delete":
            await agent.transactions.delete("default/web")
        elif how == "withdraw":
            await agent.transactions.withdraw("default/web")
        else:
            await agent.transactions.publish("default/web", ())
        await asyncio.sleep(5)
        assert chains(node) == {stays}
        assert agent.status.in_sync and node.differences() == []
        assert agent.drift.to_dict()["day"] == 0

    run(scenario())
    assert not [record for record in caplog.records if record.getMessage().startswith("Repaired")]
