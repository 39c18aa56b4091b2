# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads of the agent on a node with a probe endpoint."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.node_under_test import STATE, Node
from tests.unit.agent.virtual_time import run

ADDRESS = "10.244.1.3"
PROBED = with_probe_endpoint(
    dataclasses.replace(STATE, ipam=dataclasses.replace(STATE.ipam, probes={STATE.pools[0].name: ADDRESS})),
    probe_endpoint([ADDRESS], STATE.pools),
)


def settled(node: Node, agent: Agent) -> None:
    assert node.differences() == []
    assert agent.passes.in_sync, agent.passes.problems
    assert f"{ADDRESS}/32" in node.routes
    assert node.kernel.netns_owners()["calico-probe"] == "calico-system/probe"


def test_endpoint_is_no_leftover_and_no_workload(tmp_path: pathlib.Path) -> None:
    """A restarted agent keeps the endpoint, in no list of workloads, and the check of a workload leaves it out."""

    async def scenario() -> None:
        node = Node(tmp_path, PROBED)
        agent = await node.start()
        await agent.transactions.add(node.request("web"))
        settled(node, agent)
        await node.restart()
        await asyncio.sleep(90)
        settled(node, node.agent)
        assert [one.id for one in node.agent.transactions.list()] == ["default/web"]
        node.kernel.link_delete("caliprobe")
        assert await node.agent.transactions.check("default/web") == []

    run(scenario())


def test_its_namespace_is_refused(tmp_path: pathlib.Path) -> None:
    """A workload cannot be attached to the endpoint's namespace, which stays as it is."""

    async def scenario() -> None:
        node = Node(tmp_path, PROBED)
        agent = await node.start()
        before = node.kernel.inside("calico-probe").snapshot()
        for netns in ("calico-probe", "/run/netns/calico-probe"):
            try:
                await agent.transactions.add(dataclasses.replace(node.request("web"), netns=netns, netns_owned=False))
            except AgentError as error:
                assert (error.code, error.data["field"]) == ("invalid_params", "netns")
                assert "belongs to the node's own probe endpoint" in error.message
            else:
                raise AssertionError(f"{netns} was accepted")
        assert node.kernel.inside("calico-probe").snapshot() == before
        settled(node, agent)

    run(scenario())
