# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent under which the host's iptables is changed to the other backend: what it reports is in the kernel."""

from __future__ import annotations

import asyncio
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.polling import Polling
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Policy, policy_set
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all

from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run

NAMES = ("before", "in-nft", "in-legacy", "db")
# Each workload has chains of its own, because each has another policy.
POLICY = PolicyState(policy_set([], [Policy(name, selector=f'app == "{name}"') for name in NAMES], [allow_all()]))
OTHER = {"nft": "legacy", "legacy": "nft"}


def guarded(node: Node, backend: str) -> int:
    """Return the number of workloads to which this backend leads packets through chains of their own."""
    chains: t.Any = node.kernel.netfilter.tables[backend, "iptables"].get("filter", {})
    text = {name: " ".join(map(str, rules)) for name, rules in chains.items()}
    return text.get("cali-to-wl-dispatch", "").count(" -g cali-tw-") if "cali-FORWARD" in text.get("FORWARD", "") else 0


def ours(node: Node, backend: str) -> list[str]:
    tables: t.Any = node.kernel.netfilter.tables
    return [
        f"{program} {chain}"
        for program in ("iptables", "ip6tables")
        for chains in tables[backend, program].values()
        for chain, rules in chains.items()
        if chain.startswith("cali-") or "cali-" in " ".join(map(str, rules))
    ]


async def started(node: Node) -> Agent:
    """Start an agent that also polls the kernel, as the daemon does."""
    agent = await node.start()
    node.tasks.append(asyncio.ensure_future(Polling(agent.passes.stages).run()))
    return agent


@pytest.mark.parametrize("first", ["nft", "legacy"])
def test_an_add_after_a_switch_is_guarded_in_the_backend_of_the_host(tmp_path: pathlib.Path, first: str) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        node.kernel.netfilter.default = first
        agent = await started(node)
        await agent.transactions.add(node.request("before", labels={"app": "before"}))
        for count, now in ((2, OTHER[first]), (3, first)):
            node.kernel.netfilter.default = now
            await agent.transactions.add(node.request(f"in-{now}", labels={"app": f"in-{now}"}))
            assert guarded(node, now) == count
            await node.settle()
            assert ours(node, OTHER[now]) == [] and node.differences() == []
            assert agent.status.in_sync

    run(scenario())


@pytest.mark.parametrize("first", ["nft", "legacy"])
def test_rules_leave_the_other_backend_soon_without_policy_too(tmp_path: pathlib.Path, first: str) -> None:
    """An add that notices the switch before polling does has the old rules removed, long before the next resync."""

    async def scenario() -> None:
        node = Node(tmp_path, with_state(), cleanup_grace=0.0)
        node.kernel.netfilter.default = first
        agent = await started(node)
        await agent.transactions.add(node.request("before", ports=(PublishedPort("tcp", 0, 80),)))
        await node.settle()
        assert ours(node, first)
        node.kernel.netfilter.default = OTHER[first]
        await agent.transactions.add(node.request("after", ports=(PublishedPort("tcp", 0, 81),)))
        await asyncio.sleep(5)
        assert ours(node, first) == [] and ours(node, OTHER[first])
        assert agent.status.in_sync and node.differences() == []

    run(scenario())


@pytest.mark.parametrize("first", ["nft", "legacy"])
def test_a_switch_without_an_add_is_noticed_within_seconds(tmp_path: pathlib.Path, first: str) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        node.kernel.netfilter.default = first
        agent = await started(node)
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        await node.settle()
        node.kernel.netfilter.default = OTHER[first]
        for _second in range(3):
            await node.settle()
        assert guarded(node, OTHER[first]) == 1 and ours(node, first) == []
        assert agent.status.in_sync and node.differences() == []

    run(scenario())


@pytest.mark.parametrize("first", ["nft", "legacy"])
@pytest.mark.parametrize("programs", range(12))
def test_a_switch_at_any_moment_leaves_no_add_unguarded(tmp_path: pathlib.Path, first: str, programs: int) -> None:
    """The host's iptables changes before the program number `programs` that an add, and the passes after it, run."""

    async def scenario() -> None:
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        node.kernel.netfilter.default = first
        agent = await started(node)
        await agent.transactions.add(node.request("before", labels={"app": "before"}))
        await node.settle()
        node.kernel.run(["iptables-restore", "--noflush"], "*filter\n-F cali-FORWARD\nCOMMIT\n")
        ran, count = node.kernel.run, 0

        def switching(argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> t.Any:
            nonlocal count
            if count == programs:
                node.kernel.netfilter.default = OTHER[first]
            count += 1
            return ran(argv, stdin, timeout)

        node.kernel.run = switching  # type: ignore[method-assign]
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        assert 2 in (guarded(node, "nft"), guarded(node, "legacy"))
        node.kernel.run = ran  # type: ignore[method-assign]
        for _second in range(5):
            await node.settle()
        now = node.kernel.netfilter.default
        assert guarded(node, now) == 2 and ours(node, OTHER[now]) == []
        assert agent.status.in_sync and node.differences() == []

    run(scenario())
