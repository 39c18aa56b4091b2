# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of the compiled chains on simulated packets, compared with those of the evaluator."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import hypothesis
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules import log_prefix
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Verdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import answer_to
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.hooks import HOOKS
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DENY,
    EGRESS,
    INGRESS,
    LOG,
    Failsafe,
    Flow,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.chains.simulated_netfilter import Netfilter, Packet
from tests.unit.policy.explain.node_between import OWN_ADDRESSES, Crossings
from tests.unit.policy.index.obvious_node_policy import node_policy
from tests.unit.policy.random_policies import NODE, World, random_flow, random_world, worlds

FAILSAFES = (Failsafe("tcp", 8080), Failsafe("udp", 53, "10.65.0.0/24"), Failsafe("tcp", 443, "fd65::/64"))
SETTINGS = ChainSettings(
    failsafe_inbound=FAILSAFES[:2], failsafe_outbound=FAILSAFES[1:], default_endpoint_to_host_action="Accept"
)


class Node:
    """The NODE of a random world, with its evaluator and its compiled chains."""

    def __init__(self, world: World, settings: ChainSettings = SETTINGS) -> None:
        self.world = world
        self.crossings = Crossings(world, settings)
        policy = node_policy(world.policy_set, world.endpoints, NODE)
        self.netfilter = {family: Netfilter(compile_node(policy, settings, family)) for family in (4, 6)}

    def compare(self, flow: Flow) -> tuple[bool, bool, Packet]:
        """Return (whether the flow should pass, whether it passes the chains, the packet)."""
        expected = self.crossings.of(flow)
        packet = Packet(**dataclasses.asdict(flow), comes_in_by=expected.comes_in_by, goes_out_by=expected.goes_out_by)
        return expected.allowed, self._passes(packet), packet

    def _passes(self, packet: Packet) -> bool:
        kernel = self.netfilter[6 if ":" in packet.source else 4]
        if not packet.comes_in_by:
            return kernel.sent(packet)
        return kernel.forwarded(packet) if packet.goes_out_by else kernel.received(packet)

    def compare_answer(self, flow: Flow) -> t.Optional[tuple[bool, bool]]:
        """Return (whether the answer should pass, whether it passes the chains), None if there is none."""
        answer = answer_to(flow)
        happens, sent = self.compare(flow)[1:]
        if answer is None or not happens:
            return None
        begins = flow.protocol not in (1, 6, 58, 132)
        state = "ESTABLISHED" if sent.state != "UNTRACKED" else "NEW" if begins else "INVALID"
        packet = Packet(**dataclasses.asdict(answer), comes_in_by=sent.goes_out_by, goes_out_by=sent.comes_in_by)
        packet.state = state
        return self.crossings.of(flow).answered, self._passes(packet)


def flows(rng: random.Random, world: World, count: int) -> t.Iterator[Flow]:
    endpoints = (*world.local_workloads, *world.local_host_endpoints)
    for _dummy in range(count):
        flow = random_flow(rng, world, rng.choice(endpoints), rng.choice((INGRESS, EGRESS)), rng.choice(HOOKS))
        # Packets to their own sender do not cross the node; those of the host to itself use the loopback.
        if (
            flow is not None
            and flow.source != flow.destination
            and not {flow.source, flow.destination} <= OWN_ADDRESSES
        ):
            yield flow


@pytest.mark.parametrize("seed", range(15))
def test_packets_meet_the_verdict_of_the_evaluator(seed: int) -> None:
    rng = random.Random(seed)
    node = Node(random_world(rng))
    for flow in flows(rng, node.world, 60):
        expected, happens, packet = node.compare(flow)
        assert happens == expected, (flow, packet)


def test_answers_meet_the_verdict_of_the_evaluator() -> None:
    """Also with untracked policy, which makes an answer a packet like any other."""
    denied = 0
    for seed in range(400, 430):
        rng = random.Random(seed)
        node = Node(random_world(rng), dataclasses.replace(SETTINGS, drop_invalid=bool(seed % 3)))
        for flow in flows(rng, node.world, 60):
            found = node.compare_answer(flow)
            if found is not None:
                expected, happens = found
                assert happens == expected, (seed, flow)
                denied += not expected
    assert denied > 5


@pytest.mark.parametrize("seed", range(100, 120))
def test_records_say_what_the_evaluator_says(seed: int) -> None:
    """For flows between a workload and eth0, the chains pass and log what the evaluator's verdict says."""
    rng = random.Random(seed)
    node = Node(random_world(rng, host_endpoints=False))
    for workload in node.world.local_workloads:
        for direction in (INGRESS, EGRESS):
            for _dummy in range(5):
                flow = random_flow(rng, node.world, workload, direction)
                assert flow is not None
                packet = Packet(**dataclasses.asdict(flow))
                packet.comes_in_by, packet.goes_out_by = (
                    ("eth0", workload.interface) if direction == INGRESS else (workload.interface, "eth0")
                )
                verdict = node.crossings.evaluator.verdict(workload, direction, flow)
                assert node.netfilter[flow.ip_version].forwarded(packet) == (verdict.action == "allow")
                assert packet.log == list(expected_records(verdict, direction))


def expected_records(verdict: Verdict, direction: str) -> t.Iterator[str]:
    for step in verdict.trace:
        if not step.matched:
            continue
        kind = "policy" if step.policy else "profile" if step.profile else "tier" if step.tier else "no-profile"
        name = step.policy or step.profile or step.tier
        if step.action == LOG:
            said = log_prefix.LOG
        elif step.action != DENY:
            continue
        else:
            said = log_prefix.AUDIT if step.staged else log_prefix.DENY
        yield log_prefix.prefix(log_prefix.Reason(said, direction, kind, step.rule, name))


@pytest.mark.parametrize("seed", range(200, 205))
def test_in_audit_mode_all_pass_and_denials_are_recorded(seed: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng)
    node, denied = Node(world, dataclasses.replace(SETTINGS, audit=True)), Node(world)
    for flow in flows(rng, world, 30):
        happens, packet = node.compare(flow)[1:]
        assert happens
        assert denied.compare(flow)[0] or any(record.startswith("audit:") for record in packet.log)
        assert not any(record.startswith("deny:") for record in packet.log)


@pytest.mark.parametrize(
    "settings",
    [
        dataclasses.replace(SETTINGS, allow_action="Return"),
        dataclasses.replace(SETTINGS, deny_action="Reject", nflog_group=0, mark_mask=0x1F),
        dataclasses.replace(SETTINGS, default_endpoint_to_host_action="Drop", drop_invalid=False),
    ],
    ids=["return", "reject", "drop"],
)
def test_settings_change_no_verdict(settings: ChainSettings) -> None:
    for seed in range(300, 304):
        rng = random.Random(seed)
        node = Node(random_world(rng), settings)
        for flow in flows(rng, node.world, 30):
            expected, happens, packet = node.compare(flow)
            assert happens == expected, (flow, packet)
            assert settings.nflog_group or not packet.log


@given(worlds(local=3, remote=2, policies=5), st.randoms(use_true_random=False))
@hypothesis.settings(max_examples=12, deadline=None)
def test_compiled_chains_decide_as_the_evaluator_in_random_worlds(world: World, rng: random.Random) -> None:
    node = Node(world)
    for flow in flows(rng, world, 10):
        expected, happens, packet = node.compare(flow)
        assert happens == expected, (flow, packet)
