# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the agent cuts the connections that a new policy denies, once, when it is in force, if that is wanted."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent_metrics import watch_agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Completed,
    Connection,
    InterfaceAddress,
    KernelError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import remote_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.remote_endpoints import KnownEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.marks import marks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
)

from tests.unit.agent.gate import Gate
from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.remote_workloads import publish
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.test_dual_stack import DUAL

ALLOWED = Connection(*[Flow(6, "192.0.2.9", "10.244.1.2", 40000, 80)] * 2, b"allowed", b"allowed")
DENIED = Connection(*[Flow(6, "192.0.2.9", "10.244.1.2", 40000, 23)] * 2, b"denied", b"denied")


def with_policy(cut: bool = True, port: int = 80) -> NodeState:
    rule = PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(PortRange(port, port),)))
    policies = policy_set(policies=[Policy("web", ingress=(rule,))], profiles=[allow_all()])
    return with_state(policy=PolicyState(policies, settings=PolicySettings(cut_denied_flows=cut)))


async def settled(folder: pathlib.Path, state: NodeState | None = None) -> Node:
    """Return a started node with a workload at 10.244.1.2 and two tracked connections to it, ALLOWED and DENIED.

    `state` is the node's; None means STATE, which has no policy.
    """
    node = Node(folder, *([state] if state else []))
    await node.start()
    await node.add("web", address="10.244.1.2")
    node.kernel.machine.tracked = [ALLOWED, DENIED]
    return node


def cut(node: Node) -> list[Connection]:
    """Return copies, with mark 0, of the tracked connections that have a mark, which means cut."""
    return [one._replace(mark=0) for one in node.kernel.machine.tracked if one.mark]


def test_a_new_policy_ends_what_it_denies_and_nothing_else(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        agent = node.agent
        watch_agent(agent.instruments, agent)
        await agent.changes.apply(with_policy(), removals=False)
        assert cut(node) == [DENIED]
        assert agent.instruments.flows_cut.value() == 1
        # No connection is cut when the same policy is applied again, or when a workload is added.
        node.kernel.machine.tracked = [ALLOWED, DENIED]
        await agent.changes.apply(with_policy(), removals=True)
        await node.add("db")
        await node.settle()
        assert cut(node) == []
        await agent.changes.apply(with_policy(port=23), removals=True)
        assert cut(node) == [ALLOWED]
        await agent.changes.apply(with_policy(), removals=True)
        assert cut(node) == [DENIED]

    run(scenario())


@pytest.mark.parametrize("cutting", [True, False])
def test_other_labels_end_what_they_deny_before_the_answer(tmp_path: pathlib.Path, cutting: bool) -> None:
    """Connections of both IP versions are cut when the relabelling is answered, if `cutting`, and none otherwise.

    A container that is added again keeps labels that were set by hand, so none of its connections is cut.
    """
    to6 = Connection(*[Flow(6, "2001:db8::9", "fd00:10:244::1", 40000, 80)] * 2, b"six", b"six")

    def policy() -> PolicyState:
        allowed = Policy("web", selector="app == 'web'", ingress=(PolicyRule("Allow"),), order=1000.0)
        denied = Policy("rest", ingress=(PolicyRule("Deny"),), order=2000.0)
        policies = policy_set(policies=[allowed, denied], profiles=[allow_all()])
        return PolicyState(policies, settings=PolicySettings(cut_denied_flows=cutting))

    async def scenario() -> None:
        node = Node(tmp_path, dataclasses.replace(DUAL, policy=policy()))
        node.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
        agent = await node.start()
        request = node.request("web", id="pods.c.eth0", network="pods", container="c", labels={"app": "web"})
        held = (await agent.transactions.add(request)).addresses
        node.kernel.machine.tracked = connections = [
            one._replace(sent=flow, flow=flow)
            for one, address in zip((ALLOWED, to6), held)
            for flow in [dataclasses.replace(one.flow, destination=address)]
        ]
        await node.settle()
        assert cut(node) == []
        await agent.transactions.relabel("pods.c.eth0", {"app": "db"})
        assert cut(node) == (connections if cutting else [])
        await agent.transactions.relabel("pods.c.eth0", {"app": "web"})
        assert cut(node) == []
        await agent.transactions.relabel("pods.c.eth0", {"tier": "front"})
        again = await agent.transactions.add(
            dataclasses.replace(request, labels={"app": "other", "tier": "back", "new": "1"})
        )
        assert again.labels == {"app": "web", "tier": "front", "new": "1"}
        assert cut(node) == []

    run(scenario())


def test_a_container_that_is_added_again_brings_its_labels(tmp_path: pathlib.Path) -> None:
    """A container that is added again gets its new labels, except those that were set or removed by hand before.

    Its labels survive a restart of the agent. After a delete, an add forgets what was set by hand.
    """

    async def scenario() -> None:
        node = Node(tmp_path)
        agent = await node.start()
        request = node.request("web", id="pods.c.eth0", network="pods", container="c", labels={"app": "web", "a": "1"})
        first = await agent.transactions.add(request)
        await agent.transactions.relabel("pods.c.eth0", {"app": "db", "a": None})
        agent = await node.restart()
        later = dataclasses.replace(request, labels={"app": "web", "a": "2", "b": "3"})
        again = await agent.transactions.add(later)
        assert (again.labels, again.addresses) == ({"app": "db", "b": "3"}, first.addresses)
        assert (await agent.transactions.add(later)).labels == again.labels
        agent = await node.restart()
        assert agent.transactions.get("pods.c.eth0").labels == again.labels
        assert (await agent.transactions.add(dataclasses.replace(request, labels={}))).labels == {"app": "db"}
        await agent.transactions.delete("pods.c.eth0")
        assert (await agent.transactions.add(request)).labels == {"app": "web", "a": "1"}

    run(scenario())


def test_connections_are_cut_only_if_the_policy_settings_want_it(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        await node.agent.changes.apply(with_policy(cut=False), removals=True)
        assert cut(node) == []
        await node.agent.changes.apply(with_policy(cut=True), removals=True)
        assert cut(node) == [DENIED]

    run(scenario())


def test_planning_ends_nothing(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        await node.agent.changes.plan(with_policy())
        await node.settle()
        assert cut(node) == []

    run(scenario())


def test_not_before_policy_is_in_force_and_then_without_being_asked(tmp_path: pathlib.Path) -> None:
    """Denied connections are cut only when the policy is in force, and then without another request.

    Otherwise they could be re-established under the old policy.
    """

    async def scenario() -> None:
        node = await settled(tmp_path)
        real = node.kernel.run

        def refusing(argv: t.Sequence[str], **more: t.Any) -> Completed:
            return Completed(1, "", "refused") if argv[0].endswith("-restore") else real(argv, **more)

        node.kernel.run = refusing  # type: ignore[method-assign]
        outcome = await node.agent.changes.apply(with_policy(), removals=False)
        assert not outcome.in_sync and cut(node) == []
        node.kernel.run = real  # type: ignore[method-assign]
        await node.settle()
        await node.settle()
        assert node.agent.status.in_sync and cut(node) == [DENIED]

    run(scenario())


def test_an_agent_that_starts_does_what_the_last_one_may_not_have_done(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        await node.agent.changes.apply(with_policy(), removals=True)
        node.store.save(dataclasses.replace(t.cast("t.Any", node.store.load()), state=with_policy()))
        node.kernel.machine.tracked = [ALLOWED, DENIED]
        await node.restart()
        await node.settle()
        assert cut(node) == [DENIED]

    run(scenario())


CLIENT = Endpoint(
    "WorkloadEndpoint", "default/c", "node2", "cali1", ("10.244.2.9",), (("app", "client"),), namespace="default"
)


def for_clients() -> NodeState:
    """Return a state that lets only workloads labelled as clients connect to workloads, and cuts denied flows."""
    rule = PolicyRule("Allow", source=Entity(selector='app == "client"'))
    policies = policy_set(policies=[Policy("web", ingress=(rule,))], profiles=[allow_all()])
    return with_state(policy=PolicyState(policies, settings=PolicySettings(cut_denied_flows=True)))


def of_client(address: str) -> Connection:
    return Connection(*[Flow(6, address, "10.244.1.2", 40000, 80)] * 2, address.encode(), address.encode())


def test_a_cut_uses_what_other_nodes_report_of_their_workloads(tmp_path: pathlib.Path) -> None:
    """If policy admits clients alone, the connection of a client on another node is cut by what that node reports.

    It is cut once the node no longer reports the client, not before, and goes on when the node reports it again.
    """
    connection = of_client("10.244.2.9")

    async def scenario() -> None:
        node = await settled(tmp_path, for_clients())
        node.kernel.machine.tracked = [connection]
        remote = RemoteEndpoints({"node2": Collected("2026-11-22T05:00:00Z", (CLIENT,))})
        for known, ended in ((remote, []), (remote, []), (RemoteEndpoints(), [connection]), (remote, [])):
            node.agent.persisted.remote = known
            await node.agent.changes.resync()
            assert cut(node) == ended

    run(scenario())


def test_not_before_sets_have_what_is_known_of_other_nodes(tmp_path: pathlib.Path) -> None:
    connection = of_client("10.244.2.9")

    async def scenario() -> None:
        node = Node(tmp_path, for_clients())
        drivers = node.threads["drivers"] = Gate()
        agent = await node.start()
        await node.add("web", address="10.244.1.2")
        told = RemoteEndpoints({"node2": Collected("2026-11-22T05:00:00Z", (CLIENT,))})
        remote_endpoints.save(node.machine.store, KnownEndpoints(told))
        await agent.changes.reload_remote_endpoints()
        node.kernel.machine.tracked = [connection]
        drivers.shut = True
        remote_endpoints.save(node.machine.store, KnownEndpoints(RemoteEndpoints()))
        reloading = asyncio.ensure_future(agent.changes.reload_remote_endpoints())
        await asyncio.sleep(15)
        assert cut(node) == []
        drivers.open()
        await reloading
        assert cut(node) == [connection]

    run(scenario())


def test_changes_from_the_datastore_cut_at_most_every_ten_seconds(tmp_path: pathlib.Path) -> None:
    """Each cut judges all connections, so changes of other nodes' workloads wait for each other, and for no request."""
    connection, place = of_client("10.244.2.9"), ("node2", "cali1")

    async def scenario() -> None:
        node = await settled(tmp_path, for_clients())
        agent, mirror = node.agent, node.agent.datastore.feed.mirror
        publish(mirror, {place: CLIENT})
        await asyncio.sleep(25)
        node.kernel.machine.tracked = [connection]
        publish(mirror, {place: None})
        await node.settle()
        assert cut(node) == [connection]
        publish(mirror, {place: CLIENT})
        await asyncio.sleep(5)
        assert cut(node) == [connection]
        await asyncio.sleep(15)
        assert cut(node) == []
        publish(mirror, {place: None})
        await node.settle()
        assert cut(node) == []
        await agent.changes.resync()
        assert cut(node) == [connection]
        assert not agent.cuts.problem

    run(scenario())


def test_the_inventory_does_not_count_for_a_node_that_the_datastore_knows(tmp_path: pathlib.Path) -> None:
    connection = of_client("10.244.2.9")

    async def scenario() -> None:
        state = for_clients()
        assert state.policy is not None
        node = await settled(
            tmp_path,
            dataclasses.replace(state, plan="first", policy=dataclasses.replace(state.policy, endpoints=(CLIENT,))),
        )
        node.kernel.machine.tracked = [connection]
        await node.agent.changes.resync()
        assert cut(node) == []
        publish(node.agent.datastore.feed.mirror, {}, "node2")
        node.agent.datastore.feed.synced(True)
        await asyncio.sleep(15)
        assert cut(node) == [connection]

    run(scenario())


def test_nothing_is_cut_while_sets_have_former_workloads_of_other_nodes(tmp_path: pathlib.Path) -> None:
    """A connection that only the sets still admit is not cut, because a new one could take its place."""
    connection = of_client("10.244.2.9")

    async def scenario() -> None:
        node = await settled(tmp_path, for_clients())
        agent = node.agent
        publish(agent.datastore.feed.mirror, {("node2", "cali1"): CLIENT})
        await asyncio.sleep(15)
        node.kernel.machine.tracked = [connection]
        agent.persisted.others.apply({("node2", "cali1"): None})
        await agent.cuts.cut()
        assert cut(node) == []
        await agent.changes.resync()
        assert cut(node) == [connection]

    run(scenario())


@pytest.mark.parametrize("answered", [True, False])
def test_a_workload_added_while_a_cut_waits_keeps_its_connections(tmp_path: pathlib.Path, answered: bool) -> None:
    """A connection is judged by the workloads that are there at the time of the cut.

    So one of a client that is added while the cut waits is kept. `answered` says whether the add was answered by then.
    """
    allowed, denied = of_client("10.244.1.3"), of_client("10.244.1.4")
    cut_before = of_client("10.244.1.5")._replace(mark=marks(PolicySettings().mark_mask).cut)

    async def late(work: t.Callable[[], t.Any]) -> t.Any:
        """Run `work` at once, and return its result five seconds later."""
        result = work()
        await asyncio.sleep(5)
        return result

    async def scenario() -> None:
        node = await settled(tmp_path)
        await node.add("d", address="10.244.1.5", labels={"app": "client"})
        flows = node.threads["flows"] = Gate()
        node.threads["plumbing"] = late
        await node.restart()
        flows.shut = True
        applying = asyncio.ensure_future(node.agent.changes.apply(for_clients(), removals=True))
        await node.settle()
        assert len(flows) == 1
        adding = asyncio.ensure_future(node.add("c", address="10.244.1.3", labels={"app": "client"}))
        await asyncio.sleep(30 if answered else 3)
        assert adding.done() == answered
        node.kernel.machine.tracked = [allowed, denied, cut_before]
        flows.open()
        await applying
        assert cut(node) == [denied]

    run(scenario())


def test_a_related_connection_is_cut_although_a_workload_is_added(tmp_path: pathlib.Path) -> None:
    """A RELATED connection of one that was cut before is cut although a workload comes during the search."""
    control = of_client("10.244.1.4")
    data = of_client("10.244.1.5")._replace(master=control.ends)

    async def scenario() -> None:
        node = await settled(tmp_path)
        flows = node.threads["flows"] = Gate()
        await node.restart()
        flows.shut = True
        applying = asyncio.ensure_future(node.agent.changes.apply(for_clients(), removals=True))
        await node.settle()
        assert len(flows) == 1
        await node.add("c", address="10.244.1.3", labels={"app": "client"})
        node.kernel.machine.tracked = [control._replace(mark=marks(PolicySettings().mark_mask).cut), data]
        flows.open()
        await applying
        assert cut(node) == [control, data]

    run(scenario())


def test_a_connection_that_a_newer_report_allows_is_kept(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        flows = node.threads["flows"] = Gate()
        agent = await node.start()
        await node.add("web", address="10.244.1.2")
        node.kernel.machine.tracked = [of_client("10.244.2.9")]
        flows.shut = True
        applying = asyncio.ensure_future(agent.changes.apply(for_clients(), removals=True))
        await node.settle()
        agent.persisted.remote = RemoteEndpoints({"node2": Collected("2026-11-22T05:00:00Z", (CLIENT,))})
        flows.open()
        await applying
        await agent.changes.resync()
        assert agent.instruments.flows_cut.value() == 0

    run(scenario())


def test_a_connection_that_a_newer_policy_allows_is_kept(tmp_path: pathlib.Path) -> None:
    """A connection stays if the newest policy allows it, even while the former one is in force."""

    async def scenario() -> None:
        node = Node(tmp_path)
        flows = node.threads["flows"] = Gate()
        await node.start()
        await node.add("web", address="10.244.1.2")
        node.kernel.machine.tracked = [ALLOWED, DENIED]
        flows.shut = True
        first = asyncio.ensure_future(node.agent.changes.apply(with_policy(), removals=True))
        await node.settle()
        node.store.save(dataclasses.replace(t.cast("t.Any", node.store.load()), state=with_policy(port=23)))
        node.agent.changes.reload()
        flows.open()
        await first
        await node.settle()
        assert cut(node) == [ALLOWED]
        assert node.agent.instruments.flows_cut.value() == 1

    run(scenario())


@pytest.mark.parametrize(
    ("operation", "said"),
    [("connections", "list tracked connections"), ("connections_mark", "mark 1 tracked connections")],
)
def test_a_cut_that_fails_is_a_problem_and_is_retried(tmp_path: pathlib.Path, operation: str, said: str) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        agent = node.agent
        watch_agent(agent.instruments, agent)
        real = getattr(node.kernel, operation)

        def failing(*arguments: t.Any) -> t.Any:
            raise KernelError(errno.ENOBUFS, said)

        setattr(node.kernel, operation, failing)
        outcome = await agent.changes.apply(with_policy(), removals=True)
        problem = (
            f"Connections that policy denies go on, because the kernel refused to cut them: {said}: No buffer space"
            " available. calico_policy_cut_denied_flows wants them cut. The agent tries again every ten seconds at"
            " least. If it stays, look at dmesg and at the connections (conntrack -L), and end the programs that hold"
            " them."
        )
        assert outcome.problems == (problem,) and not outcome.in_sync
        assert agent.status.problems == [problem] and not agent.status.in_sync
        assert agent.instruments.flows_cut.value() == 0 and cut(node) == []
        setattr(node.kernel, operation, real)
        await agent.changes.resync()
        assert cut(node) == [DENIED] and agent.instruments.flows_cut.value() == 1
        assert agent.status.problems == [] and agent.status.in_sync

    run(scenario())


def test_a_cut_that_failed_is_no_problem_once_it_is_not_wanted(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = await settled(tmp_path)
        node.kernel.fail_next("connections_mark", errno.ENOBUFS)
        assert (await node.agent.changes.apply(with_policy(), removals=True)).problems
        outcome = await node.agent.changes.apply(with_policy(cut=False), removals=True)
        assert outcome.problems == () and node.agent.status.problems == [] and cut(node) == []

    run(scenario())
