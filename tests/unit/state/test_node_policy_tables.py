# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A state with its policy in its tables: for all workloads, merged with the node's other tables, cached or not."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import node_policy_tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    AttachedWorkload,
    with_workloads,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    NodePolicyTables,
    with_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    IptablesTable,
    NodeState,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import build, pool, states, workload
from tests.unit.policy.random_policies import NODE, World, random_world

ALLOW_FROM_APP = {
    "kind": "NetworkPolicy",
    "name": "web",
    "selector": "app == 'web'",
    "ingress": [{"action": "Allow", "source": {"selector": "app == 'app'"}}],
}


def fleet_state(*pools: t.Any, policies: t.Sequence[t.Any] = (ALLOW_FROM_APP,), **rest: t.Any) -> NodeState:
    workloads = [workload("web", "node1", labels={"app": "web"}), workload("app", "node2", labels={"app": "app"})]
    return states(build(*pools, workloads=workloads, policies=list(policies), **rest))["node1"]


def tables(state: NodeState) -> dict[tuple[int, str], IptablesTable]:
    found = {(table.family, table.name): table for table in state.iptables}
    assert len(found) == len(state.iptables)
    return found


def state_of(world: World) -> NodeState:
    """Return the state of NODE with the world's policy, and with its workloads at NODE, by their first IPv4 address.

    Raise RuntimeError for a workload without an IPv4 address.
    """
    workloads = tuple(
        VethEndpoint(
            one.name.partition("/")[2],
            one.interface,
            next(address for address in one.addresses if ":" not in address),
            1500,
            "pool",
            one.namespace,
            labels=dict(one.labels),
        )
        for one in world.local_workloads
    )
    return NodeState(NODE, "10.10.1.11/24", workloads=workloads, policy=PolicyState(world.policy_set, world.endpoints))


def test_without_policy_it_is_the_same_state() -> None:
    state = states(build())["node1"]
    assert with_policy(state) is state


def test_tables_of_policy_stand_beside_those_of_the_node() -> None:
    state = fleet_state(pool("ipip", natOutgoing=True))
    before, after = tables(state), tables(with_policy(state))
    assert set(after) == {(4, "raw"), (4, "filter"), (4, "nat"), (6, "raw"), (6, "filter")}
    assert after[4, "nat"] == before[4, "nat"]
    encapsulation = before[4, "filter"].chains["cali-INPUT"][:2]
    assert after[4, "filter"].chains["cali-INPUT"][:2] == encapsulation
    names = [one.name for one in with_policy(state).ipsets]
    assert names[0] == "cali40all-hosts-net" and len(set(names)) == len(names) > 2


def test_every_set_that_a_rule_names_is_there() -> None:
    state = with_policy(fleet_state(pool("vxlan")))
    sets = {one.name for one in state.ipsets}
    rules = [rule for table in state.iptables for chain in table.chains.values() for rule in chain]
    named = {words[words.index("--match-set") + 1] for words in map(str.split, rules) if "--match-set" in words}
    assert named and named <= sets


def test_no_workload_leaves_by_ipv6() -> None:
    state = with_policy(fleet_state())
    chains = tables(state)[6, "filter"].chains
    assert chains["cali-from-wl-dispatch"][-1] == "-j DROP"
    # These workloads have no IPv6 address. IPv6 chains of their policies would only double the tables.
    assert not any("--match-set cali60w" in rule for rules in chains.values() for rule in rules)
    assert not any(name.startswith(("cali-pi-", "cali-fw-", "cali-tw-")) for name in chains)
    assert [one for one in state.ipsets if one.name.startswith("cali60w")] == []


def test_a_workload_that_came_between_runs_is_guarded_too() -> None:
    state = fleet_state()
    came = AttachedWorkload("x", "web-2", interface="cali0123456789a", addresses=("10.244.0.9",), labels={"app": "web"})
    before, after = with_policy(state), with_policy(with_workloads(state, [came], ()))
    assert {one.name: one.chains for one in after.iptables} == {one.name: one.chains for one in before.iptables}
    pairs = zip(before.ipsets, after.ipsets)
    changed = [set(new.members) - set(old.members) for old, new in pairs if old.members != new.members]
    assert changed == [{"10.244.0.9,cali0123456789a"}]


def test_a_workload_of_the_inventory_that_is_not_here_is_none() -> None:
    state = with_policy(dataclasses.replace(fleet_state(), workloads=()))
    assert not any(",cali" in member for one in state.ipsets for member in one.members)


def test_endpoints_that_the_inventory_does_not_know_are_an_input() -> None:
    state = fleet_state()
    labels = (("app", "app"), ("projectcalico.org/namespace", "default"))
    other = Endpoint("WorkloadEndpoint", "default/web", "node3", "cali9", ("10.244.9.9",), labels)
    found = with_policy(state, others=[other])
    assert [one.name for one in found.ipsets if "10.244.9.9" in one.members] == [
        one.name for one in with_policy(state).ipsets if one.name.startswith("cali40s:")
    ]


def test_a_host_endpoint_by_address_needs_to_know_the_interfaces() -> None:
    endpoint = {"kind": "HostEndpoint", "name": "e", "node": "node1", "expectedIPs": ["10.10.1.11"]}
    state = fleet_state(policies=[endpoint])
    assert node_policy_tables.needs_interfaces(state) and not node_policy_tables.needs_interfaces(fleet_state())
    interfaces = {"eth0": ("10.10.1.11",), "eth1": ("192.0.2.1",)}
    chains = tables(with_policy(state, interfaces))[4, "filter"].chains
    assert "cali-fh-eth0" in chains and "cali-fh-eth1" not in chains
    assert "cali-fh-eth0" not in tables(with_policy(state))[4, "filter"].chains


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_again_and_again_is_as_from_nothing(one: int, other: int) -> None:
    """NodePolicyTables gives what with_policy() gives from nothing, and the same chain objects if nothing changed."""
    kept = NodePolicyTables()
    worlds = [random_world(random.Random(seed)) for seed in (one, other, one)]
    for world in worlds:
        state = state_of(world)
        assert kept.with_policy(state) == with_policy(state)
    state = state_of(worlds[-1])
    first, second = kept.with_policy(state), kept.with_policy(state)
    for before, after in zip(first.iptables, second.iptables):
        assert all(after.chains[name] is rules for name, rules in before.chains.items())


@given(st.integers(0, 10**9))
@settings(max_examples=12, deadline=None)
def test_tables_after_random_changes_equal_those_from_scratch(seed: int) -> None:
    """NodePolicyTables gives the same result after any changes as with_policy() does from nothing.

    Workloads, labels, endpoints of other nodes, interfaces, HostEndpoints and whole states change.
    """
    chance = random.Random(seed)
    kept, collection = NodePolicyTables(), OtherEndpoints()
    worlds = [state_of(random_world(random.Random(seed + number))) for number in range(2)]
    state, others, interfaces = worlds[0], (), {}
    for _step in range(10):
        what = chance.randrange(6)
        if what == 0:
            state = chance.choice(worlds)
        elif what == 1 and state.workloads:
            kept_ones = tuple(one for one in state.workloads if chance.random() < 0.7)
            state = dataclasses.replace(state, workloads=kept_ones)
        elif what == 2 and state.workloads:
            labels = {"app": chance.choice(["web", "db"])}
            changed = chance.choice(state.workloads)
            workloads = [dataclasses.replace(one, labels=labels) if one is changed else one for one in state.workloads]
            state = dataclasses.replace(state, workloads=tuple(workloads))
        elif what == 3:
            known = [endpoint for world in worlds for endpoint in world.policy.endpoints]
            others = tuple(
                dataclasses.replace(one, node="elsewhere")
                for one in chance.sample(known, min(len(known), 3))
                if one.kind == "WorkloadEndpoint"
            )
        elif what == 4:
            interfaces = {"eth0": chance.sample(["10.0.0.1", "10.0.0.2"], chance.randrange(3))}
        else:  # another HostEndpoint or none, with the same policies
            hosts = [Endpoint("HostEndpoint", "h", NODE, chance.choice(["eth0", "*"]), ("10.0.0.1",))]
            endpoints = [one for one in state.policy.endpoints if one.kind != "HostEndpoint"]
            more = tuple(chance.sample(hosts, chance.randrange(2)))
            state = dataclasses.replace(state, policy=dataclasses.replace(state.policy, endpoints=(*endpoints, *more)))
        collection.replace_reports(OtherEndpoints.from_endpoints(others).reports)
        assert kept.with_policy(state, interfaces, collection) == with_policy(state, interfaces, others)


def test_a_workload_more_of_a_known_group_changes_no_chain() -> None:
    kept = NodePolicyTables()
    state = fleet_state()
    (known,) = state.workloads
    more = dataclasses.replace(known, name="other", interface="cali999", address="10.99.0.9")
    before = kept.with_policy(state)
    after = kept.with_policy(dataclasses.replace(state, workloads=(known, more)))
    assert all(one is other for one, other in zip(before.iptables, after.iptables))
    changed = [one for one, other in zip(after.ipsets, before.ipsets) if one is not other]
    assert {one.name[:8] for one in changed} == {"cali40w:"}


def test_other_settings_are_other_rules() -> None:
    kept = NodePolicyTables()
    state = fleet_state()
    accepting = fleet_state(default_endpoint_to_host_action="Accept")
    assert kept.with_policy(state) == with_policy(state)
    assert kept.with_policy(accepting) == with_policy(accepting) != with_policy(state)


def other(name: str, node: str, *addresses: str, app: str = "app") -> Endpoint:
    labels = (("app", app), ("projectcalico.org/namespace", "default"))
    return Endpoint("WorkloadEndpoint", f"default/{name}", node, "cali9", addresses, labels, namespace="default")


def meant(state: NodeState, *others: Endpoint) -> set[str]:
    """Return, as one set, the members of the IPv4 sets of all selectors if other nodes reported `others`."""
    ipsets = with_policy(state, others=others).ipsets
    return {member for one in ipsets if one.name.startswith("cali40s:") for member in one.members}


def test_a_reported_workload_loses_an_address_that_is_planned() -> None:
    """The plan is newer than reports of other nodes: `web` here, and `app` on node2, keep their addresses.

    A reported workload loses such an address, and is left out if it has no other.
    """
    state = fleet_state(
        policies=[{**ALLOW_FROM_APP, "ingress": [{"action": "Allow", "source": {"selector": "has(app)"}}]}]
    )
    (own,) = [one.address for one in state.workloads]
    (planned,) = [one.addresses[0] for one in state.policy.endpoints if one.node == "node2"]
    before = meant(state)
    stale = [other("gone", "node2", own, app="gone"), other("gone-too", "node3", planned, "10.244.9.9", app="gone")]
    assert meant(state, *stale) == before | {"10.244.9.9"}
    names = {one.name: one.addresses for one in node_policy_tables.all_endpoints(state, state.policy, stale)}
    assert "default/gone" not in names and names["default/gone-too"] == ("10.244.9.9",)


def test_workloads_of_one_name_on_several_nodes_are_several() -> None:
    state = fleet_state()
    others = [
        other("web", "node3", "10.244.9.1"),
        other("app", "node3", "10.244.9.2"),
        other("app", "node4", "10.244.9.3"),
    ]
    assert meant(state, *others) == meant(state) | {"10.244.9.1", "10.244.9.2", "10.244.9.3"}
    names = [
        one.name
        for one in node_policy_tables.all_endpoints(state, state.policy, others)
        if one.node in ("node3", "node4")
    ]
    assert names == ["default/web on node3", "default/app on node3", "default/app on node4"]


def test_a_workload_of_this_node_is_never_taken_from_what_others_tell() -> None:
    state = fleet_state()
    assert meant(state, other("ghost", "node1", "10.244.9.1")) == meant(state)


def test_a_workload_whose_labels_change_is_selected_anew() -> None:
    """If a workload's labels change, NodePolicyTables gives what with_policy() gives from nothing, each time."""
    kept = NodePolicyTables()
    state = fleet_state()
    (web,) = state.workloads
    for labels in ({"app": "web"}, {"app": "db"}, {"app": "app"}, {"app": "app"}, {"app": "web"}):
        now = dataclasses.replace(state, workloads=(dataclasses.replace(web, labels=labels),))
        assert kept.with_policy(now) == with_policy(now)
        assert kept.with_policy(now) == with_policy(now)
