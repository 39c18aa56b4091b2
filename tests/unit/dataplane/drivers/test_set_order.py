# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets and the chains that refer to them, checked after every single write to the kernel."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IpSet,
    IptablesTable,
    NodeState,
)

from tests.unit.dataplane.suites.drivers import underlay
from tests.unit.dataplane.suites.suite_chains import BAD


@pytest.fixture(params=["read", "cached"])
def bring(request, kernel):
    """A function that applies the sets and chains of a state, by drivers without caches or with caches.

    It raises ApplyError if a change fails, and AssertionError if anything of the state is left to change.
    """
    underlay(kernel)
    registry = REGISTRY if request.param == "read" else REGISTRY.replacing(CachedSets(), CachedTables())

    def act(state):
        for_agent = plan_node(kernel, state, ("ipset", "iptables"), registry=registry)
        apply_node(kernel, for_agent)
        assert plan_node(kernel, state).changes == ()
        assert plan_node(kernel, state, ("ipset", "iptables"), registry=registry).changes == ()

    return act


def workload(group, number):
    return f"cali40w:{group}", f"10.244.1.{number},cali{number}"


def guarding(*groups, sets=(), rules=()):
    """Return a state with a chain for each group, and rules that dispatch to them.

    Each of `groups` is (name, numbers of its workloads). `sets` and `rules` are added to those of the groups.
    """
    members = {}
    for name, numbers in groups:
        members[f"cali40w:{name}"] = tuple(workload(name, number)[1] for number in numbers)
    chains = {f"cali-fw-{name}": ("-j ACCEPT",) for name, _numbers in groups}
    chains["cali-FORWARD"] = (
        *rules,
        *(f"-m set --match-set cali40w:{name} src,src -g cali-fw-{name}" for name, _numbers in groups),
    )
    return NodeState(
        node="node1",
        address="10.10.1.11/24",
        ipsets=(*(IpSet(name, "hash:net,iface", found) for name, found in members.items()), *sets),
        iptables=(IptablesTable("filter", chains, (Hook("FORWARD", "-j cali-FORWARD"),)),),
    )


def members(kernel, name):
    found = kernel.netfilter.sets.get(name)
    return set(found.members) if found else set()


def dispatched(kernel):
    """Return the members, as one set, of all sets that the rules of cali-FORWARD look up; KeyError if it is missing."""
    rules = kernel.netfilter.tables["nft", "iptables"]["filter"]["cali-FORWARD"]
    names = [rule.split("--match-set ")[1].split()[0] for rule in rules if "--match-set" in rule]
    return set().union(*(members(kernel, name) for name in names))


@pytest.mark.parametrize(
    "after",
    [
        [("a", [1, 2]), ("b", [3, 4])],  # a move into another group
        [("a", [1]), ("b", [2]), ("c", [3, 4])],  # moves into an existing and into a new group
        [("c", [1, 2, 3, 4])],  # a move into a new group, while all others are deleted
        [("a", [1, *range(10, 200)]), ("b", [4, 3, 2])],  # a move, while many workloads are added
    ],
)
def test_a_workload_is_in_a_group_at_every_moment(kernel, bring, after):
    bring(guarding(("a", [1, 2, 3]), ("b", [4])))
    always = dispatched(kernel)
    assert len(always) == 4
    kernel.watch(lambda seen: lost.update(always - dispatched(seen)))
    for state in (guarding(*after), guarding(("a", [1, 2, 3]), ("b", [4]))):
        lost = set()
        bring(state)
        assert lost == set()


def test_a_group_that_nearly_empties_keeps_its_workloads_until_the_chains_are_there(kernel, bring):
    bring(guarding(("a", range(200))))
    always = dispatched(kernel)
    lost = set()
    kernel.watch(lambda seen: lost.update(always - dispatched(seen)))
    bring(guarding(("a", [1]), ("b", [0, *range(2, 200)])))
    assert lost == set()
    assert not any(name.startswith("cali4t") for name in kernel.netfilter.sets)


def test_no_rule_ever_refers_to_a_set_that_is_not_filled(kernel, bring):
    blocked = IpSet("cali40s:blocked", "hash:net", tuple(f"192.0.2.{number}" for number in range(100)))
    kernel.watch(lambda seen: counts.add(len(members(seen, blocked.name)) if refers(seen) else 100))

    def refers(seen):
        chains = seen.netfilter.tables["nft", "iptables"].get("filter", {})
        return any(blocked.name in rule for rule in chains.get("cali-FORWARD", ()))

    counts = set()
    bring(guarding(("a", [1]), sets=[blocked], rules=[f"-m set --match-set {blocked.name} src -j DROP"]))
    assert refers(kernel) and counts == {100}


def test_a_refused_table_does_not_keep_an_address_in_a_label_set(kernel, bring):
    """A workload that lost its label leaves the label's set, whatever is wrong with other rules.

    It stays in the set of its former group, since the rules still look that up.
    """
    app = IpSet("cali40s:app", "hash:net", ("10.244.2.1", "10.244.2.2"))
    bring(guarding(("a", [1, 2]), sets=[app]))
    fewer = IpSet(app.name, app.type, app.members[:1])
    state = guarding(("a", [1]), ("b", [2]), sets=[fewer])
    table = IptablesTable("filter", state.iptables[0].chains, (Hook("NOWHERE", "-j cali-FORWARD"),))
    with pytest.raises(ApplyError, match="refused table filter"):
        bring(dataclasses.replace(state, iptables=(table,)))
    assert members(kernel, app.name) == {"10.244.2.1"}
    assert members(kernel, "cali40w:a") == {workload("a", 1)[1], workload("a", 2)[1]}
    bring(guarding(("a", [1]), ("b", [2]), sets=[fewer]))


def test_a_new_set_that_is_refused_half_way_is_not_there(kernel, bring):
    bring(guarding(("a", [1])))
    bad = IpSet("cali40s:bad", "hash:ip,port", ("10.0.0.1,tcp:1", "10.0.0.2,tcp:1", "10.0.0.3,nope:1"))
    good = IpSet("cali40s:good", "hash:net", ("10.0.0.3",))
    rules = [f"-m set --match-set {good.name} src -j ACCEPT", f"-m set --match-set {bad.name} src,src -j ACCEPT"]
    with pytest.raises(ApplyError, match=r"add cali40s:bad 10\.0\.0\.3,nope:1"):
        bring(guarding(("a", [1, 2]), sets=[bad, good], rules=rules))
    assert bad.name not in kernel.netfilter.sets
    assert members(kernel, good.name) == {"10.0.0.3"}
    assert members(kernel, "cali40w:a") == {workload("a", 1)[1], workload("a", 2)[1]}


def test_a_set_that_is_refused_while_it_grows_stays_as_it_was(kernel):
    kernel.run(["ipset", "restore"], "create cali40s hash:ip,port maxelem 2\nadd cali40s 10.0.0.1,tcp:1\n")
    wanted = [IpSet("cali40s", "hash:ip,port", ("10.0.0.1,tcp:1", "10.0.0.2,tcp:1", "10.0.0.3,nope:1"))]
    with pytest.raises(ApplyError):
        ipset.apply(kernel, ipset.diff(wanted, ipset.observe(kernel, wanted)))
    assert members(kernel, "cali40s") == {"10.0.0.1,tcp:1"}
    assert list(kernel.netfilter.sets) == ["cali40s"]


def test_a_set_of_another_policy_is_drained_when_a_chain_is_set_aside(kernel, bring):
    app = IpSet("cali40s:app", "hash:net", ("10.244.2.1", "10.244.2.2"))
    state = guarding(("a", [1]), sets=[app])
    bring(state)
    chains = {**state.iptables[0].chains, "cali-fw-a": (BAD,)}
    fewer = guarding(("a", [1]), sets=[IpSet(app.name, app.type, app.members[:1])])
    table = IptablesTable("filter", chains, state.iptables[0].hooks)
    with pytest.raises(ApplyError, match="Its former rules stay in force"):
        bring(dataclasses.replace(fewer, iptables=(table,)))
    assert members(kernel, app.name) == {"10.244.2.1"}
