# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the policy log: compiled rules log real packets to NFLOG, and the agent's listener reads them."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log import log_listener
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log.log_listener import LogListener
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log.policy_log import PolicyLog
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log.policy_names import PolicyNames
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.policy_drops import decided_by
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import nflog
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicyProfile,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

from tests.integration.policy.node_in_namespace import Node, workload_interface
from tests.integration.policy.packets import packet
from tests.integration.policy.policed_node import OUTSIDE, W0, W1, udp
from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.index.obvious_node_policy import node_policy
from tests.unit.policy.random_policies import NODE

LONG = "platform.a-policy-whose-name-is-longer-than-a-prefix-of-nflog-may-be"
CALI0, CALI1 = workload_interface(0), workload_interface(1)
OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))
WORKLOADS = tuple(
    Endpoint(
        WORKLOAD_ENDPOINT,
        f"w{index}",
        NODE,
        workload_interface(index),
        (f"10.65.0.{index + 1}", f"fd65::{index + 1:x}"),
        profiles=("open",),
    )
    for index in range(2)
)
TIERS = [PolicyTier("platform", 1.0)]


def to_port(action: str, port: int) -> PolicyRule:
    return PolicyRule(action, protocol="udp", destination=Entity(ports=(PortRange(port, port),)))


RULES = Policy(LONG, tier="platform", ingress=(to_port("Log", 5001), to_port("Deny", 5002), PolicyRule("Pass")))
STAGED = Policy("watched", staged=True, order=1.0, ingress=(to_port("Deny", 5003),))
REST = Policy("rest", order=2.0, ingress=(to_port("Allow", 5001), to_port("Allow", 5003)))


class Heard:
    """The policy log of a node with these policies, and a listener to NFLOG group `group` in the node's namespace.

    `problems` has what the listener reports: the text of a problem, or None when it listens or `group` is 0.
    """

    def __init__(self, node: Node, *policies: Policy, group: int = 179) -> None:
        state = NodeState(
            "host", "10.65.2.1/24", policy=PolicyState(policy_set(TIERS, policies, [OPEN]), tuple(WORKLOADS))
        )
        own = [
            AttachedWorkload(
                id=f"default/w{index}", name=f"w{index}", interface=one.interface, netns="", addresses=one.addresses
            )
            for index, one in enumerate(WORKLOADS)
        ]
        self.log = PolicyLog(PolicyNames(lambda: state, lambda: own, lambda: 0))
        self.group = group
        self.problems: list[str | None] = []
        self._node = node

    @contextlib.asynccontextmanager
    async def listening(self) -> t.AsyncIterator[None]:
        listener = LogListener(
            self.log,
            lambda: self.group,
            opener=lambda: self._node.kernel._there(nflog.open_socket),
            on_problem=self.problems.append,
        )
        task = asyncio.ensure_future(listener.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, holds: t.Callable[[], t.Any]) -> None:
        for dummy in range(6000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"not within 60 seconds: {self.told()} {self.problems}")

    def told(self) -> list[tuple[str, str, str, str, str, int]]:
        """Return the log's entries: (verdict, direction, deciding rule, source, destination, number of packets).

        Source and destination are a workload's id, or an address where no workload is known.
        """
        drops = [entry.to_dict() for entry in self.log.entries()]
        return [
            (
                drop["verdict"],
                drop["direction"],
                decided_by(drop),
                drop["source"]["workload"] or drop["source"]["address"],
                drop["destination"]["workload"] or drop["destination"]["address"],
                drop["packets"],
            )
            for drop in drops
        ]


def load(node: Node, *policies: Policy, **settings: t.Any) -> None:
    made = node_policy(policy_set(TIERS, policies, [OPEN]), WORKLOADS, NODE)
    node.load([compile_node(made, ChainSettings(**settings), family) for family in (4, 6)])


def test_each_record_says_who_decided_on_whom(node: Node) -> None:
    load(node, RULES, STAGED, REST)
    heard = Heard(node, RULES, STAGED, REST)

    async def scenario() -> None:
        async with heard.listening():
            await heard.until(lambda: heard.log.group)
            for port in (5001, 5002, 5002, 5003, 5004):
                node.comes_in(CALI0, packet(udp(W0, W1, port, 6000), 0, 1))
            node.comes_in(CALI0, packet(udp("fd65::1", "fd65::2", 5002), 0, 1))
            node.comes_in(CALI0, packet(udp(W1, OUTSIDE), 0, 1))
            node.comes_in(CALI0, packet(Flow(4, W0, OUTSIDE), 0, 1))
            await heard.until(lambda: heard.log.order >= 8)
        assert sorted(heard.told()) == [
            ("deny", EGRESS, "host: encapsulated", "default/w0", OUTSIDE, 1),
            ("deny", EGRESS, "host: forged address", "default/w1", OUTSIDE, 1),
            ("deny", "Ingress", "default of tier default", "default/w0", "default/w1", 1),
            ("deny", "Ingress", f"{LONG}#2", "default/w0", "default/w1", 1),
            ("deny", "Ingress", f"{LONG}#2", "default/w0", "default/w1", 2),
            ("log", "Ingress", f"{LONG}#1", "default/w0", "default/w1", 1),
            ("would deny", "Ingress", "watched#1", "default/w0", "default/w1", 1),
        ]
        dropped = next(entry for entry in heard.log.entries() if entry.packets == 2).to_dict()
        assert (dropped["in_interface"], dropped["out_interface"]) == (CALI0, CALI1)
        assert (dropped["protocol"], dropped["source_port"], dropped["destination_port"]) == ("udp", 6000, 5002)
        assert heard.log.counted()["deny", "Ingress", "policy", "platform", LONG] == 3
        assert heard.log.lost == 0

    asyncio.run(scenario())


def test_a_node_in_audit_mode_lets_pass_what_it_tells_of(node: Node) -> None:
    load(node, RULES, REST, audit=True)
    heard = Heard(node, RULES, REST)

    async def scenario() -> None:
        async with heard.listening():
            await heard.until(lambda: heard.log.group)
            node.comes_in(CALI0, packet(udp(W0, W1, 5002), 0, 7))
            assert node.seen([(0, 7)]) == {(0, 7): CALI1}
            await heard.until(heard.told)
        assert heard.told() == [("would deny", "Ingress", f"{LONG}#2", "default/w0", "default/w1", 1)]

    asyncio.run(scenario())


def test_a_flood_is_counted_without_the_node_being_eaten(node: Node) -> None:
    """More than 5,000 of 60,000 drops in a row are read; all others, and no more, are counted as lost."""
    load(node, RULES, REST)
    heard = Heard(node, RULES, REST)
    frame = packet(udp(W0, W1, 5002), 0, 1)
    flood = 60_000

    def send() -> None:
        for dummy in range(flood):
            node.comes_in(CALI0, frame)

    async def scenario() -> None:
        async with heard.listening():
            await heard.until(lambda: heard.log.group)
            await asyncio.get_running_loop().run_in_executor(None, send)
            (entry,) = heard.log.entries()
            before = 0
            while entry.packets > before:  # after an overflow the socket receives nothing until it has been emptied
                before = entry.packets
                await asyncio.sleep(0.5)
            node.comes_in(CALI0, frame)  # this packet's sequence number shows how many records before it were lost
            await heard.until(lambda: entry.packets + heard.log.lost > flood)
        assert entry.packets + heard.log.lost == flood + 1
        assert entry.packets > 5_000

    asyncio.run(scenario())


def test_a_taken_nflog_group_is_reported_and_joined_once_it_is_free(node: Node, monkeypatch: t.Any) -> None:
    monkeypatch.setattr(log_listener, "_RETRY", 0.1)
    load(node, RULES, REST)
    heard = Heard(node, RULES, REST)
    other = node.kernel._there(nflog.open_socket)
    nflog.subscribe(other, 179)

    async def scenario() -> None:
        async with heard.listening():
            await heard.until(lambda: heard.problems)
            assert heard.problems[-1] == (
                "What policy drops cannot be seen: NFLOG group 179: another program listens to it. Policy is enforced "
                "all the same. Choose another calico_policy_log_group, or 0 for no log."
            )
            other.close()
            await heard.until(lambda: heard.log.group)
            assert heard.problems[-1] is None
            node.comes_in(CALI0, packet(udp(W0, W1, 5002), 0, 1))
            await heard.until(heard.told)
            heard.group = 0  # 0 means that nothing is logged, as after the removal of all policy
            await heard.until(lambda: heard.log.group == 0)
            again = node.kernel._there(nflog.open_socket)
            nflog.subscribe(again, 179)
            again.close()

    asyncio.run(scenario())
