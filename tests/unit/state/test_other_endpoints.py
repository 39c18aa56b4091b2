# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the collection of other nodes' endpoints, and of a compiler that takes only what changed in it."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import Compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.elsewhere import (
    EndpointsElsewhere,
    is_live,
    live_key,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    NamedPort,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import other_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    FAMILIES,
    NodePolicyTables,
    all_endpoints,
    chain_settings,
    with_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_tables import PolicyTables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import Collected
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.long_form import LONG
from tests.unit.policy.index.fresh_index import node_policy
from tests.unit.policy.random_policies import NODE, random_world
from tests.unit.state.test_node_policy_tables import state_of

NODES = (NODE, "node2", "node3", "node4")
NEW, OLD = "2026-11-27T06:00:00Z", "2026-11-26T06:00:00Z"

#: Rules that select by a label, by its absence, and by a named port.
SELECTING = policy_set(
    policies=[
        Policy(
            "p",
            ingress=(
                PolicyRule("Allow", source=Entity(selector='role == "web"')),
                PolicyRule("Deny", source=Entity(selector="!has(role)")),
                PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(NamedPort("http"),))),
            ),
        )
    ]
)


def workload(name: str, node: str, *addresses: str, interface: str = "cali1", role: str = "web") -> Endpoint:
    return Endpoint(
        WORKLOAD_ENDPOINT, f"default/{name}", node, interface, addresses, (("role", role),), namespace="default"
    )


def live(*endpoints: Endpoint) -> dict[tuple[str, str], Endpoint]:
    return {(one.node, one.interface): one for one in endpoints}


def from_nothing(state: NodeState, others: OtherEndpoints) -> t.Any:
    """Return the policy's tables and sets by the slow form: all endpoints are listed, and an index is made of them."""
    policy = state.policy
    assert policy is not None
    everybody = all_endpoints(state, policy, others.endpoints(state.node), others.live)
    node = node_policy(policy.policy_set, everybody, state.node)
    compiled = [Compiler(chain_settings(state, policy.settings), family).compile(node) for family in FAMILIES]
    return PolicyTables().render(compiled)


def compiled(kept: NodePolicyTables, state: NodeState, others: OtherEndpoints) -> t.Any:
    """Return the policy's tables and sets by the compiler, for a state without tables and sets of its own."""
    whole = kept.with_policy(state, others=others)
    return whole.iptables, list(whole.ipsets)


class History:
    """Random changes of a small world in which names and addresses collide often."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.others = OtherEndpoints()
        self.worlds = [random_world(chance, families=(4,)) for _number in range(2)]
        self.policies = [
            PolicyState(world.policy_set, tuple(self.moved(one) for one in world.endpoints)) for world in self.worlds
        ]
        self.policies.append(dataclasses.replace(self.policies[0], policy_set=SELECTING))
        self.state = dataclasses.replace(state_of(self.worlds[0]), policy=self.policies[0])

    def moved(self, one: Endpoint) -> Endpoint:
        """Return an endpoint of the inventory; a workload of another node with a node and an address that collide."""
        if one.kind != WORKLOAD_ENDPOINT or one.node == NODE:
            return one
        return dataclasses.replace(one, node=self.chance.choice(NODES[1:]), addresses=self.addresses())

    def addresses(self) -> tuple[str, ...]:
        known = [*(f"10.65.9.{number}" for number in range(1, 5)), "10.65.0.1", "fd65::9"]
        return tuple(self.chance.sample(known, self.chance.choice([0, 1, 1, 1, 2])))

    def endpoint(self, node: str) -> Endpoint:
        made = random_world(self.chance, families=(4,)).local_workloads[0]
        name, interface = f"default/w{self.chance.randrange(4)}", f"cali{self.chance.randrange(3)}"
        return dataclasses.replace(made, name=name, node=node, interface=interface, addresses=self.addresses())

    def report(self, node: str) -> Collected:
        found = {one.interface: one for one in (self.endpoint(node) for _one in range(self.chance.randrange(4)))}
        return Collected(self.chance.choice([OLD, NEW]), tuple(found.values()))

    def step(self) -> None:
        chance = self.chance
        nodes = frozenset(chance.sample(NODES, chance.randrange(3)))
        what = chance.randrange(7)
        if what < 2:
            changes: dict[tuple[str, str], t.Optional[Endpoint]] = {}
            for _number in range(chance.randrange(1, 4)):
                one = self.endpoint(chance.choice(NODES))
                changes[one.node, one.interface] = chance.choice([one, one, None])
            self.others.apply(changes, chance.choice([None, nodes]))
        elif what == 2:
            everything: dict[tuple[str, str], t.Optional[Endpoint]] = {
                (key[1], key[2]): None for key in self.others.changes_since(-1).endpoints if is_live(key)
            }
            everything.update(live(*(self.endpoint(chance.choice(NODES)) for _one in range(4))))
            self.others.apply(everything, nodes)
        elif what == 3:
            told = {node: self.report(node) for node in chance.sample(NODES, chance.randrange(4))}
            kept = {node: one for node, one in self.others.reports.items() if chance.random() < 0.5}
            self.others.replace_reports({**told, **kept})
        elif what == 4:
            known = state_of(chance.choice(self.worlds)).workloads
            named = [
                dataclasses.replace(
                    one, name=f"w{chance.randrange(4)}", interface=f"cali9{place}", address=f"10.65.9.{1 + place}"
                )
                for place, one in enumerate(known)
            ]
            self.state = dataclasses.replace(self.state, workloads=tuple(chance.choice([named[:2], known])))
        elif what == 5:
            self.state = dataclasses.replace(self.state, policy=chance.choice(self.policies))
        else:
            policy = self.state.policy
            assert policy is not None
            endpoints = tuple(one for one in policy.endpoints if chance.random() < 0.8)
            self.state = dataclasses.replace(self.state, policy=dataclasses.replace(policy, endpoints=endpoints))


@settings(max_examples=500 if LONG else 15, deadline=None)
@given(st.integers(0, 2**32))
@example(417720137)  # a node's report and the datastore have workloads of one name and interface
def test_tables_after_a_random_history_equal_those_from_scratch(seed: int) -> None:
    """After each step of a random history, the compiler has the tables and sets of the slow form.

    Another compiler that looks only now and then has them too.
    """
    history = History(random.Random(seed))
    kept, seldom = NodePolicyTables(), NodePolicyTables()
    for step in range(12):
        history.step()
        expected = from_nothing(history.state, history.others)
        assert compiled(kept, history.state, history.others) == expected
        if step % 4 == 3:
            assert compiled(seldom, history.state, history.others) == expected


def state_with(*workloads: VethEndpoint, endpoints: tuple[Endpoint, ...] = ()) -> NodeState:
    own = workloads or (VethEndpoint("own", "cali0", "10.65.0.1", 1400, "pool", labels={"role": "db"}),)
    return NodeState(NODE, "10.10.1.11/24", workloads=own, policy=PolicyState(SELECTING, endpoints))


def members(state: NodeState, others: OtherEndpoints, kept: t.Optional[NodePolicyTables] = None) -> set[str]:
    """Return the IPv4 addresses in the sets of selectors."""
    whole = (kept or NodePolicyTables()).with_policy(state, others=others)
    return {member for one in whole.ipsets if one.name.startswith("cali40s:") for member in one.members}


def test_the_datastore_says_what_a_live_node_has_and_nothing_else_does() -> None:
    state = state_with(endpoints=(workload("planned", "node2", "10.65.2.1"), workload("planned", "node3", "10.65.3.1")))
    others = OtherEndpoints({"node2": Collected(NEW, (workload("reported", "node2", "10.65.2.2"),))})
    kept = NodePolicyTables()
    others.apply(live(workload("live", "node2", "10.65.2.3")))
    assert members(state, others, kept) == {"10.65.2.1", "10.65.2.2", "10.65.2.3", "10.65.3.1"}
    others.apply({}, {"node2"})
    assert members(state, others, kept) == {"10.65.2.3", "10.65.3.1"}
    others.replace_reports({"node2": Collected(NEW, (workload("reported", "node2", "10.65.2.9"),))})
    assert members(state, others, kept) == {"10.65.2.3", "10.65.3.1"}
    others.apply({}, set())
    assert members(state, others, kept) == {"10.65.2.1", "10.65.2.3", "10.65.2.9", "10.65.3.1"}


def test_a_host_endpoint_of_a_live_node_stays() -> None:
    """The datastore has workloads alone, so the inventory goes on to say which HostEndpoints a live node has."""
    host = Endpoint("HostEndpoint", "h", "node2", "eth0", ("10.10.1.12",), (("role", "web"),))
    others = OtherEndpoints()
    others.apply({}, {"node2"})
    assert members(state_with(endpoints=(host,)), others) == {"10.10.1.12"}


@pytest.mark.parametrize("order", [1, -1])
def test_an_address_belongs_to_the_same_node_whatever_came_first(order: int) -> None:
    """The datastore is before reports, a newer report before an older one, and a name that sorts last before others."""
    steps = [
        lambda others: others.apply(live(workload("a", "node2", "10.65.9.1", role="web"))),
        lambda others: others.apply(live(workload("b", "node3", "10.65.9.1", "10.65.9.2", role="db"))),
        lambda others: others.replace_reports(
            {
                "node4": Collected(NEW, (workload("c", "node4", "10.65.9.1", "10.65.9.3", role="c"),)),
                "node5": Collected(OLD, (workload("d", "node5", "10.65.9.3", "10.65.9.4", role="d"),)),
            }
        ),
    ]
    others = OtherEndpoints()
    for step in steps[::order]:
        step(others)
    assert {one.name: one.addresses for one in others.endpoints()} == {
        "default/b": ("10.65.9.1", "10.65.9.2"),
        "default/c": ("10.65.9.3",),
        "default/d": ("10.65.9.4",),
    }


def test_an_address_that_is_released_goes_to_the_next_that_has_it() -> None:
    state, others, kept = state_with(), OtherEndpoints(), NodePolicyTables()
    others.apply(live(workload("a", "node2", "10.65.9.1"), workload("b", "node3", "10.65.9.1", role="db")))
    assert members(state, others, kept) == set()
    others.apply({("node3", "cali1"): None})
    assert members(state, others, kept) == {"10.65.9.1"}
    own = VethEndpoint("new", "cali0", "10.65.9.1", 1400, "pool", labels={"role": "db"})
    assert members(state_with(own), others, kept) == set()
    assert members(state, others, kept) == {"10.65.9.1"}


def test_endpoints_of_the_own_node_in_the_datastore_are_ignored() -> None:
    others = OtherEndpoints()
    others.apply(live(workload("own", NODE, "10.65.9.1"), workload("other", "node0", "10.65.9.1")), {NODE})
    assert members(state_with(endpoints=(workload("planned", NODE, "10.65.9.2"),)), others) == {"10.65.9.1"}
    assert [one.name for one in others.endpoints(NODE)] == ["default/other"]


def test_three_workloads_of_one_name_and_node_are_three() -> None:
    others = OtherEndpoints()
    others.apply(
        live(*(workload("web", "node2", f"10.65.9.{n}", interface=f"cali{n}", role="web") for n in range(1, 4)))
    )
    state = state_with()
    assert members(state, others) == {"10.65.9.1", "10.65.9.2", "10.65.9.3"}
    names = [one.name for one in all_endpoints(state, t.cast(PolicyState, state.policy), others.endpoints())]
    assert names == ["default/web", "default/web on node2", "default/web on node2 (cali3)", "default/own"]


def test_a_node_that_gives_one_address_to_all_of_its_workloads_costs_no_more_than_another() -> None:
    """Each of its changes concerns one workload, however many have the address."""
    elsewhere, others = EndpointsElsewhere(NODE), OtherEndpoints()
    others.apply(live(*(workload("w", "node2", "10.65.9.1", interface=f"c{n}") for n in range(5000))))
    changes = others.changes_since(-1)
    assert len(elsewhere.update((), frozenset(), changes)) == 5000
    for change in (workload("w", "node2", "10.65.9.1", interface="more"), None):
        others.apply({("node2", "more"): change})
        following = others.changes_since(changes.version)
        assert list(elsewhere.update((), frozenset(), following)) == [live_key("node2", "more")]
        changes = following


def test_an_address_that_an_endpoint_has_twice_is_one() -> None:
    """It can be withdrawn while another node has it as well."""
    others, kept, state = OtherEndpoints(), NodePolicyTables(), state_with()
    twice = workload("a", "node3", "10.65.9.1", "10.65.9.1", role="db")
    others.apply(live(workload("b", "node2", "10.65.9.1"), twice))
    assert members(state, others, kept) == set()
    others.apply({("node3", "cali1"): None})
    assert members(state, others, kept) == {"10.65.9.1"}


def test_a_process_that_compiles_once_takes_a_collection_too() -> None:
    others, state = OtherEndpoints(), state_with(endpoints=(workload("planned", "node2", "10.65.2.1"),))
    others.apply(live(workload("a", "node2", "10.65.9.1")), {"node2"})
    whole = with_policy(state, others=others)
    assert whole == NodePolicyTables().with_policy(state, others=others)
    assert any("10.65.9.1" in one.members and "10.65.2.1" not in one.members for one in whole.ipsets)


def test_a_change_that_changes_nothing_has_no_version() -> None:
    others = OtherEndpoints()
    web = workload("web", "node2", "10.65.9.1")
    assert others.apply(live(web), {"node2"}) and others.version == 1
    assert not others.apply(live(dataclasses.replace(web)), {"node2"})
    assert not others.apply({("node3", "cali1"): None})
    assert not others.replace_reports({})
    assert others.version == 1
    assert others.changes_since(1).endpoints == {} and not others.changes_since(1).whole


def test_a_new_time_of_reports_alone_is_a_change() -> None:
    """It may give a contested address to another node."""
    a, b = workload("a", "node2", "10.65.9.1"), workload("b", "node3", "10.65.9.1", role="db")
    others, kept = OtherEndpoints({"node2": Collected(OLD, (a,)), "node3": Collected(OLD, (b,))}), NodePolicyTables()
    assert members(state_with(), others, kept) == set()
    assert others.replace_reports({"node2": Collected(NEW, (a,)), "node3": Collected(OLD, (b,))})
    assert members(state_with(), others, kept) == {"10.65.9.1"}


def test_a_reader_that_missed_too_many_changes_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of changes is bounded. It never has a part of a version."""
    monkeypatch.setattr(other_endpoints, "_LOG_LIMIT", 8)
    others = OtherEndpoints()
    for number in range(30):
        others.apply(live(*(workload("w", "node2", interface=f"c{number}-{part}") for part in range(3))))
        assert len(others._log) <= 8
    for version in range(30):
        changes = others.changes_since(version)
        missed = {live_key("node2", f"c{number}-{part}") for number in range(version, 30) for part in range(3)}
        assert changes.version == 30 and missed <= changes.endpoints.keys()
        assert changes.whole or missed == changes.endpoints.keys()
    assert not others.changes_since(29).whole and others.changes_since(20).whole
    assert others.changes_since(-1).whole and len(others.changes_since(-1).endpoints) == 90


def test_a_key_that_changed_often_is_in_the_log_once() -> None:
    others = OtherEndpoints()
    for number in range(10):
        others.apply(live(workload(f"w{number}", "node2", "10.65.9.1")))
    assert [one.name for one in others.changes_since(2).endpoints.values() if one] == ["default/w9"]
    others.apply({("node2", "cali1"): None})
    assert others.changes_since(9).endpoints == {live_key("node2", "cali1"): None}


def test_a_different_collection_is_read_from_the_beginning() -> None:
    kept, state = NodePolicyTables(), state_with()
    first, second = OtherEndpoints(), OtherEndpoints()
    first.apply(live(workload("a", "node2", "10.65.9.1")))
    second.apply(live(workload("b", "node3", "10.65.9.2")))
    assert [members(state, one, kept) for one in (first, second, first)] == [
        {"10.65.9.1"},
        {"10.65.9.2"},
        {"10.65.9.1"},
    ]


def test_a_change_elsewhere_leaves_all_tables_and_all_other_sets_the_same_objects() -> None:
    kept, state, others = NodePolicyTables(), state_with(), OtherEndpoints()
    before = kept.with_policy(state, others=others)
    others.apply(live(workload("a", "node2", "10.65.9.1")))
    after = kept.with_policy(state, others=others)
    assert all(one is other for one, other in zip(before.iptables, after.iptables))
    assert len(after.ipsets) == len(before.ipsets) > 3
    changed = [one.name for one, other in zip(after.ipsets, before.ipsets) if one is not other]
    assert len(changed) == 1 and changed[0].startswith("cali40s:")


def test_a_changed_policy_keeps_the_index_and_shared_chains() -> None:
    others = OtherEndpoints()
    others.apply(live(workload("a", "node2", "10.65.9.1")))
    kept, state = NodePolicyTables(), state_with()
    more = Policy("q", ingress=(PolicyRule("Allow", source=Entity(selector='role == "db"')),))
    parsed = PolicyState.from_dict(t.cast(PolicyState, state.policy).to_dict())
    planned = dataclasses.replace(
        state,
        policy=dataclasses.replace(
            parsed,
            policy_set=policy_set(
                policies=[*parsed.policy_set.policies, more],
            ),
        ),
    )
    before = kept.with_policy(state, others=others)
    index = kept._index
    with_more = kept.with_policy(planned, others=others)
    back = kept.with_policy(state, others=others)
    assert kept._index is index
    assert (with_more.iptables, list(with_more.ipsets)) == from_nothing(planned, others)
    assert all(one is other for one, other in zip(before.iptables, back.iptables))
    chains = {name: rules for one in before.iptables for name, rules in one.chains.items()}
    shared = [name for one in with_more.iptables for name, rules in one.chains.items() if chains.get(name) is rules]
    assert [name for name in shared if name.startswith("cali-pi-")]
