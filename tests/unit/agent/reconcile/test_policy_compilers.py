# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the cache of compiled policies in the agent."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known import policy_compilers
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known.policy_compilers import (
    PolicyCompilers,
    PolicyNotCompiled,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Policy,
    PolicyProfile,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    NodePolicyTables,
    with_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.unit.agent.node_under_test import with_state


def state(group: int):
    return with_state(policy=PolicyState(settings=PolicySettings(nflog_group=group)))


OTHERS = OtherEndpoints()


def whole(guards, given, coming=(), interfaces=None, others=OTHERS):
    return guards.with_policy(given, coming, interfaces or {}, others)


def same_rules(one, other):
    return all(a is b for a, b in zip(one.iptables, other.iptables))


def test_the_same_question_has_the_same_answer():
    guards, asked = PolicyCompilers(), state(1)
    first = whole(guards, asked)
    assert first == with_policy(asked)
    assert whole(guards, asked) is first
    assert whole(guards, state(1)) == first
    assert whole(guards, with_state()) == with_state()


def test_a_workload_that_is_coming_is_in_the_sets_and_not_in_the_state():
    guards, asked = PolicyCompilers(), state(1)
    web = VethEndpoint("web", "cali1", "10.244.1.2", 1400, "default-pool", netns="web")
    found = whole(guards, asked, (web,))
    assert found.workloads == ()
    arrived = dataclasses.replace(asked, workloads=(web,))
    assert (found.ipsets, found.iptables) == (with_policy(arrived).ipsets, with_policy(arrived).iptables)
    assert whole(guards, arrived, (web,)) == with_policy(arrived)
    assert whole(guards, asked) == with_policy(asked)


def test_interfaces_and_endpoints_of_others_count():
    guards = PolicyCompilers()
    host = Endpoint("HostEndpoint", "h", "node1", "", ("10.10.1.11",))
    asked = with_state(policy=PolicyState(endpoints=(host,)))
    interfaces = {"eth0": ["10.10.1.11"]}
    assert whole(guards, asked, interfaces=interfaces) == with_policy(asked, interfaces) != with_policy(asked)
    assert whole(guards, asked) == with_policy(asked)


def test_endpoints_of_others_are_those_of_the_time_of_the_question():
    """An unchanged collection has the same answer, and a changed one the answer that it has from nothing."""
    web = Endpoint("WorkloadEndpoint", "default/web", "node2", "cali1", ("10.244.2.2",), (("app", "web"),))
    profile = PolicyProfile("open", ingress=(PolicyRule("Allow", source=Entity(selector="app == 'web'")),))
    own = VethEndpoint("own", "cali1", "10.244.1.2", 1400, "default-pool", netns="own")
    policy = PolicyState(policy_set(profiles=[profile]), settings=PolicySettings(workload_profiles=("open",)))
    guards, asked, others = PolicyCompilers(), with_state(policy=policy, workloads=(own,)), OtherEndpoints()
    first = whole(guards, asked, others=others)
    assert whole(guards, asked, others=others) is first and guards.version_of(first) == 0
    others.apply({("node2", "cali1"): web})
    second = whole(guards, asked, others=others)
    assert second == with_policy(asked, others=[web]) != first
    assert whole(guards, asked, others=others) is second
    assert (guards.version_of(first), guards.version_of(second), guards.version_of(asked)) == (0, 1, None)


def test_a_new_policy_reuses_the_index_of_the_previous_one(monkeypatch):
    """Only an error makes the next policy start from nothing."""
    compilers = []
    monkeypatch.setattr(
        policy_compilers, "NodePolicyTables", lambda: compilers.append(NodePolicyTables()) or compilers[-1]
    )
    guards = PolicyCompilers()
    for group in (1, 2, 1, 3):
        assert whole(guards, state(group)) == with_policy(state(group))
    assert len(compilers) == 1
    wrong = with_state(policy=PolicyState(policy_set(policies=[Policy("p", selector="a ==")])))
    with pytest.raises(PolicyNotCompiled):
        whole(guards, wrong)
    assert whole(guards, state(2)) == with_policy(state(2))
    assert len(compilers) == 2


def test_the_one_in_force_stays_while_another_is_planned():
    guards = PolicyCompilers()
    present, planned = whole(guards, state(1)), whole(guards, state(2))
    assert same_rules(whole(guards, state(1)), present)
    assert same_rules(whole(guards, state(2)), planned)
    assert same_rules(whole(guards, state(1)), present)
    whole(guards, state(3))
    assert same_rules(whole(guards, state(1)), present)
    assert not same_rules(whole(guards, state(2)), planned)


def test_a_policy_that_cannot_be_compiled_is_refused_each_time(monkeypatch):
    """The compiler that stopped halfway is not used again, and the same question is not compiled again."""
    wrong = policy_set(policies=[Policy("p", selector="a ==")])
    web = Endpoint("WorkloadEndpoint", "web", "node1", "cali1", ("10.244.1.2",))
    guards, asked = PolicyCompilers(), with_state(policy=PolicyState(wrong, (web,)))
    compilers: list[NodePolicyTables] = []
    monkeypatch.setattr(
        policy_compilers, "NodePolicyTables", lambda: compilers.append(NodePolicyTables()) or compilers[-1]
    )
    for question in (asked, asked, dataclasses.replace(asked)):
        with pytest.raises(PolicyNotCompiled) as caught:
            whole(guards, question)
        assert str(caught.value) == (
            "The node's policy cannot be compiled: selector 'a ==' cannot be read at column 5: expected a string in"
            " quotes, found the end of the text. Another release may have stored it. Sets and rules stay as they are."
            " Run playbooks/site.yml, which writes the policy anew."
        )
    assert len(compilers) == 2


@pytest.mark.parametrize("field", ["protocol", "not_protocol"])
@pytest.mark.parametrize("kind", ["policy", "profile"])
def test_a_protocol_that_only_another_release_knows_is_named_with_its_policy(kind: str, field: str) -> None:
    rules = (PolicyRule("Deny", protocol="tcp"), PolicyRule("Allow", **{field: "gre"}))
    wrong = (
        policy_set(policies=[Policy("p", selector="all()", types=("Egress",), egress=rules)])
        if kind == "policy"
        else policy_set(profiles=[PolicyProfile("p", egress=rules)])
    )
    web = VethEndpoint("web", "cali1", "10.244.1.2", 1400, "default-pool", netns="web")
    stored = PolicyState(wrong, settings=PolicySettings(workload_profiles=("p",))).to_dict()
    asked = with_state(policy=PolicyState.from_dict(stored), workloads=(web,))
    with pytest.raises(PolicyNotCompiled) as caught:
        whole(PolicyCompilers(), asked)
    assert str(caught.value) == (
        f"The node's policy cannot be compiled: egress rule 2 of {kind} p has the protocol 'gre', which this release"
        " does not know. Valid are numbers and icmp, tcp, udp, icmpv6, sctp, udplite. Another release may have stored"
        " it. Sets and rules stay as they are. Run playbooks/site.yml, which writes the policy anew."
    )


def test_a_policy_that_is_dropped_is_freed_without_a_collection():
    """The garbage collector does not visit what was compiled, so nothing of a policy may refer to itself."""
    own = VethEndpoint("own", "cali1", "10.244.1.2", 1400, "default-pool", netns="own")
    guards, others = PolicyCompilers(), OtherEndpoints()
    web = Endpoint("WorkloadEndpoint", "default/web", "node2", "cali1", ("10.244.2.2",), (("app", "web"),))
    others.apply({("node2", "cali1"): web})

    def compiled(number):
        rule = PolicyRule("Allow", source=Entity(selector=f"app == 'web{number}'"))
        policy = PolicyState(policy_set(policies=[Policy(f"p{number}", ingress=(rule,))]))
        whole(guards, with_state(policy=policy, workloads=(own,)), others=others)
        return [weakref.ref(one) for one in (policy, policy.policy_set)]

    gc.disable()
    try:
        first = compiled(0)
        assert all(one() for one in first)
        for number in range(1, 5):
            compiled(number)
        assert not any(one() for one in first)
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("number", [None, 2], ids=["no policy", "another policy"])
def test_nothing_of_a_policy_is_left_when_another_one_is_in_force(number):
    own = VethEndpoint("own", "cali1", "10.244.1.2", 1400, "default-pool", netns="own")

    def made(number):
        rule = PolicyRule("Allow", source=Entity(selector=f"app == 'web{number}'"))
        others = Policy("same", ingress=(PolicyRule("Allow", source=Entity(selector="app == 'same'")),))
        return PolicyState(policy_set(policies=[Policy(f"p{number}", ingress=(rule,)), others]))

    guards = PolicyCompilers()
    gc.disable()
    try:
        policy = made(1)
        guards.put_in_force(policy)
        result = whole(guards, with_state(policy=policy, workloads=(own,)))
        gone = [weakref.ref(one) for one in (policy, policy.policy_set, result, *result.iptables)]
        after = None if number is None else made(number)
        # The policy before stays while its successor is planned.
        planned = whole(guards, with_state(policy=after, workloads=(own,)))
        assert all(one() for one in gone)
        guards.put_in_force(after)
        del policy, result
        assert whole(guards, with_state(policy=after, workloads=(own,))) == planned
        assert not any(one() for one in gone)
    finally:
        gc.enable()
        gc.unfreeze()
