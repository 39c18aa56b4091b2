# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of an agent with policy: workloads are guarded, and it programs what the module would."""

from __future__ import annotations

import asyncio
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.node.dump import dump
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import of_machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.api.refusal import refused
from tests.unit.agent.node_under_test import BLOCK, Node, with_state
from tests.unit.agent.virtual_time import run

FROM_APP = Policy("db", selector='app == "db"', ingress=(PolicyRule("Allow", source=Entity(selector='app == "app"')),))
POLICY = PolicyState(policy_set([], [FROM_APP], [allow_all()]))
HOST = Endpoint("HostEndpoint", "by-address", "node1", "", ("10.10.1.11",))


def members(node, prefix):
    """Return all members, as one set, of the IPv4 sets of the kind `prefix`: w: workloads, s: selectors, "" all."""
    saved = [line.split() for line in node.kernel.run(["ipset", "save"]).output.splitlines()]
    return {words[2] for words in saved if words[0] == "add" and words[1].startswith(f"cali40{prefix}")}


def written_chains(node):
    """Return the names of our chains in the kernel's table filter for IPv4."""
    saved = node.kernel.run(["iptables-save", "-t", "filter"]).output.splitlines()
    return {line.split()[0][1:] for line in saved if line.startswith(":cali-")}


def sets_of(node, prefix):
    """Return the names of the IPv4 sets of the kind `prefix`, as in `members`."""
    saved = [line.split() for line in node.kernel.run(["ipset", "save"]).output.splitlines()]
    return {words[1] for words in saved if words[0] == "create" and words[1].startswith(f"cali40{prefix}")}


def test_a_workload_is_known_to_policy_as_soon_as_it_comes(tmp_path):
    async def scenario():
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        agent = await node.start()
        await node.settle()
        assert members(node, "w:") == set()
        db = await agent.transactions.add(node.request("db", labels={"app": "db"}))
        app = await agent.transactions.add(node.request("app", labels={"app": "app"}))
        await node.settle()
        pairs = {f"{one.addresses[0]},{one.interface}" for one in (db, app)}
        assert members(node, "w:") == pairs
        assert members(node, "s:") == {app.addresses[0]}
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0
        assert agent.desired_state.whole() == of_machine(node.machine, node.store.load().state)
        await agent.transactions.delete("default/app")
        await node.settle()
        assert members(node, "w:") == pairs - {f"{app.addresses[0]},{app.interface}"}
        assert members(node, "s:") == set()
        assert node.differences() == []

    run(scenario())


def test_policy_of_a_deleted_workload_goes_while_another_transaction_is_under_way(tmp_path):
    async def scenario():
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        agent = await node.start()
        before = written_chains(node)
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        await node.settle()
        assert written_chains(node) > before
        async with agent.host.rwlock.shared():
            await agent.transactions.delete("default/db")
            await node.settle()
            assert members(node, "w") == set() and written_chains(node) == before
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_an_add_does_not_wait_for_a_set_that_the_kernel_releases_late(tmp_path):
    async def scenario():
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        agent = await node.start()
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        await node.settle()
        before = written_chains(node)
        (name,) = sets_of(node, "s:")
        rule = f"-m set --match-set {name} src -j ACCEPT"
        node.kernel.run(["iptables-restore", "--noflush"], stdin=f"*raw\n-A PREROUTING {rule}\nCOMMIT\n")
        await agent.transactions.delete("default/db")
        while written_chains(node) == before:
            await asyncio.sleep(0.001)
        await agent.transactions.add(node.request("web", labels={"app": "web"}))
        assert sets_of(node, "s:") == {name} and agent.passes.problems == {}
        node.kernel.run(["iptables-restore", "--noflush"], stdin=f"*raw\n-D PREROUTING {rule}\nCOMMIT\n")
        await node.settle()
        assert sets_of(node, "s:") == set()
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_relabel_returns_after_the_sets_have_the_new_labels(tmp_path):
    """When relabel() returns, the sets have the new labels. Link and address stay, and labels survive a restart."""

    async def scenario():
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        agent = await node.start()
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        one = await agent.transactions.add(node.request("one", labels={"app": "web", "tier": "front"}))
        await node.settle()
        assert members(node, "s:") == set()
        index = node.kernel.link(one.interface).index
        found = await agent.transactions.relabel("default/one", {"app": "app", "tier": None, "new": "yes"})
        assert (found.labels, found.addresses) == ({"app": "app", "new": "yes"}, one.addresses)
        assert members(node, "s:") == set(one.addresses)
        assert f"{one.addresses[0]},{one.interface}" in members(node, "w:")
        assert node.kernel.link(one.interface).index == index
        await node.settle()
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0
        assert (await node.restart()).transactions.get("default/one").labels == found.labels
        assert members(node, "s:") == set(one.addresses)
        await node.agent.transactions.relabel("default/one", {"app": "web"})
        assert members(node, "s:") == set()
        with pytest.raises(AgentError, match="there is no workload default/none on this node"):
            await node.agent.transactions.relabel("default/none", {"app": "web"})

    run(scenario())


def test_a_stored_policy_that_cannot_be_compiled_does_not_end_the_agent(tmp_path):
    """Routes are still repaired, adds are refused in words, and a policy that can be compiled ends the problem."""

    async def scenario():
        wrong = Policy("p", selector="a ==", ingress=(PolicyRule("Deny"),))
        node = Node(tmp_path, with_state(policy=PolicyState(policy_set([], [wrong], [allow_all()]))))
        agent = await node.start()
        reason = (
            "The node's policy cannot be compiled: selector 'a ==' cannot be read at column 5: expected a string in"
            " quotes, found the end of the text. Another release may have stored it. Sets and rules stay as they are."
            " Run playbooks/site.yml, which writes the policy anew."
        )
        assert set(agent.passes.problems["iptables"]) == {reason} and node.routes == {BLOCK}
        assert not any(task.done() for task in node.tasks)
        assert await refused(agent.transactions.add(node.request("web"))) == (
            "kernel",
            f"policy for workload default/web cannot be put in force: {reason}",
        )
        assert await refused(agent.changes.plan()) == ("kernel", reason)
        assert reason in (await agent.changes.resync()).problems
        dump(agent.status, agent.desired_state, agent.transactions, agent.changes, str(tmp_path / "dump.json"))
        await node.settle()
        known = json.loads((tmp_path / "dump.json").read_text())
        assert (known["desired"], known["plan"]) == (reason, reason)
        await agent.changes.apply(with_state(policy=POLICY), removals=True)
        await node.add("web")
        await node.settle()
        assert agent.status.in_sync and agent.status.problems == []

    run(scenario())


def test_policy_that_ansible_brings_and_takes_away(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await agent.transactions.add(node.request("db", labels={"app": "db"}))
        planned = await agent.changes.plan(with_state(policy=POLICY))
        assert {change.kind for change in planned.additions} == {"ipset", "iptables"}
        outcome = await agent.changes.apply(with_state(policy=POLICY), removals=True)
        assert outcome.in_sync and len(members(node, "w:")) == 1
        outcome = await agent.changes.apply(with_state(), removals=True)
        assert outcome.in_sync and members(node, "") == set()
        assert node.differences() == []

    run(scenario())


def test_a_host_endpoint_by_address_is_on_the_interface_that_has_it(tmp_path):
    async def scenario():
        state = with_state(policy=PolicyState(POLICY.policy_set, (HOST,)))
        node = Node(tmp_path, state)
        agent = await node.start()
        tables = {(table.family, table.name): table for table in agent.desired_state.whole().iptables}
        assert "cali-fh-eth0" in tables[4, "filter"].chains
        assert agent.desired_state.whole() == of_machine(node.machine, state)

    run(scenario())


def chains_of(node, family=4):
    return {
        chain for table in node.agent.desired_state.whole().iptables if (table.family, table.name) == (family, "filter")
        for chain in table.chains
    }  # fmt: skip


def test_a_host_endpoint_by_address_goes_where_its_address_goes(tmp_path):
    async def scenario():
        node = Node(tmp_path, with_state(policy=PolicyState(POLICY.policy_set, (HOST,))))
        agent = await node.start()
        await node.settle()
        assert "cali-fh-eth0" in chains_of(node) and "cali-fh-eth1" not in chains_of(node)
        node.kernel.link_add(NewLink("eth1", "bridge", 1500))
        node.kernel.address_add(InterfaceAddress("eth1", "10.10.1.11", 24))
        agent.changes.interfaces.changed()
        await node.settle()
        assert {"cali-fh-eth0", "cali-fh-eth1"} <= chains_of(node)
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0
        assert agent.desired_state.whole() == of_machine(node.machine, node.store.load().state)

    run(scenario())


def test_a_host_endpoint_goes_where_its_address_goes_although_a_plan_saw_that_first(tmp_path):
    async def scenario():
        node = Node(tmp_path, with_state(policy=PolicyState(POLICY.policy_set, (HOST,))))
        agent = await node.start()
        await node.settle()
        node.kernel.link_add(NewLink("eth1", "bridge", 1500))
        node.kernel.address_add(InterfaceAddress("eth1", "10.10.1.11", 24))
        await agent.changes.plan()
        agent.changes.interfaces.changed()
        await node.settle()
        assert agent.status.in_sync and node.differences() == [] and agent.drift.to_dict()["total"] == 0
        assert "cali-fh-eth1" in chains_of(node)

    run(scenario())


def test_a_host_endpoint_by_its_ipv6_address(tmp_path):
    """A HostEndpoint's IPv6 address that is added later is found at the next periodic resync without a notification."""

    async def scenario():
        host = Endpoint("HostEndpoint", "by-address", "node1", "", ("2001:db8::1",))
        node = Node(tmp_path, with_state(policy=PolicyState(POLICY.policy_set, (host,))), resync_interval=20.0)
        await node.start()
        assert "cali-fh-eth0" not in chains_of(node, 6)
        node.kernel.address_add(InterfaceAddress("eth0", "2001:db8::1", 64))
        await asyncio.sleep(25)
        assert "cali-fh-eth0" in chains_of(node, 6) and "cali-fh-eth0" in chains_of(node, 4)
        assert node.differences() == []

    run(scenario())
