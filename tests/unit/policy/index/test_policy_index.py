# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's policy after many changes, compared with the same policy computed at once.

The numbers in names of tests are those of LINES in tests/integration/policy/semantics.py.
"""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.policy_index import (
    Changes,
    PolicyIndex,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    HOST_ENDPOINT,
    WORKLOAD_ENDPOINT,
    DefinedPort,
    Endpoint,
    Entity,
    NamedPort,
    NamedPortKey,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import (
    LocalEndpoint,
    NodePolicy,
    TierPolicies,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets.set_members import MemberChange
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.unit.policy.index.fresh_index import node_policy
from tests.unit.policy.random_policies import NODE, OTHER_NODE, RANDOMS, World, random_world

INTERFACES = [
    {},
    {"eth0": ("10.65.2.1", "fd65:0:0:2::1")},
    {"eth0": (), "eth1": ("10.65.4.1", "192.0.2.99")},
    {"eth1": ("fd65:0:0:4::1",), "eth2": ("10.65.4.1",)},
]


def reference(policies: PolicySet, endpoints: t.Iterable[Endpoint], interfaces: t.Mapping) -> NodePolicy:
    """Return the policy that NODE has to program, computed without indexes.

    `interfaces` is {name: addresses} of NODE's interfaces.
    """
    endpoints = list(endpoints)
    given = {profile.name: dict(profile.labels) for profile in policies.profiles}

    def labels(owner: t.Union[Endpoint, PolicyNetworkSet]) -> dict:
        found: dict = {}
        for name in owner.profiles:
            found = {**given.get(name, {}), **found}
        return {**found, **dict(owner.labels)}

    def selects(selector: str, owner: t.Union[Endpoint, PolicyNetworkSet]) -> bool:
        return selectors.parse(selector).matches(labels(owner))

    by_name = sorted((one for one in endpoints if one.node == NODE), key=lambda one: one.name)
    governed: dict[str, Endpoint] = {}
    for one in by_name:
        if one.kind == WORKLOAD_ENDPOINT and one.interface not in governed:
            governed[one.interface] = one
    for one in by_name:
        if one.kind == HOST_ENDPOINT:
            held = [name for name, addresses in interfaces.items() if set(addresses) & set(one.addresses)]
            for name in [one.interface] if one.interface else held:
                governed.setdefault(name, one)

    def tiers(one: Endpoint, wanted: t.Callable[[Policy], bool], directions: tuple[str, ...]) -> tuple:
        found = []
        for tier in policies.tiers:
            applying = [
                policy for policy in policies.policies
                if policy.tier == tier.name and wanted(policy) and selects(policy.selector, one)
            ]  # fmt: skip
            ingress, egress = (
                tuple(policy.name for policy in applying if direction in policy.types and direction in directions)
                for direction in ("Ingress", "Egress")
            )
            if ingress or egress:
                found.append(TierPolicies(tier.name, tier.default_action, ingress, egress))
        return tuple(found)

    both = ("Ingress", "Egress")
    local = []
    for interface, one in governed.items():
        host = one.kind == HOST_ENDPOINT
        local.append(
            LocalEndpoint(
                one,
                interface,
                tiers(one, lambda policy: not policy.do_not_track and not policy.pre_dnat, both),
                tiers(
                    one,
                    lambda policy: (
                        host and policy.apply_on_forward and not policy.do_not_track and not policy.pre_dnat  # noqa: B023
                    ),
                    both,
                ),
                tiers(one, lambda policy: host and policy.pre_dnat, ("Ingress",)),  # noqa: B023
                tiers(one, lambda policy: host and policy.do_not_track and one.interface != "*", both),  # noqa: B023
            )
        )
    local.sort(key=lambda one: (one.endpoint.kind, one.interface))
    names = {
        name
        for one in local
        for hook in (one.tiers, one.forward, one.pre_dnat, one.untracked)
        for tier in hook
        for name in (*tier.ingress, *tier.egress)
    }
    used = {policy.name: policy for policy in policies.policies if policy.name in names}
    listed = {name for one in local for name in one.endpoint.profiles}
    profiles = {profile.name: profile for profile in policies.profiles if profile.name in listed}
    rules = [rule for policy in used.values() for direction in policy.types for rule in policy.rules(direction)]
    rules += [rule for profile in profiles.values() for rule in (*profile.ingress, *profile.egress)]
    by_selector: dict = {}
    by_port: dict = {}
    for one_rule in rules:
        for entity in (one_rule.source, one_rule.destination):
            wanted, unwanted = entity.selector, entity.not_selector
            if not wanted:
                wanted, unwanted = unwanted, ""  # the set of what must not match

            def is_member(one: t.Any, wanted: str = wanted, unwanted: str = unwanted) -> bool:
                return selects(wanted, one) and not (unwanted and selects(unwanted, one))

            if wanted:
                members = {a for one in endpoints if is_member(one) for a in one.addresses}
                for network_set in policies.network_sets:
                    if is_member(network_set):
                        members |= {net.replace("/32", "").replace("/128", "") for net in network_set.nets}
                by_selector[entity.selects or entity.excludes] = tuple(sorted(members))
            for port in (*entity.ports, *entity.not_ports):
                if isinstance(port, NamedPort):
                    pairs = {
                        (address, one_port.port)
                        for one in endpoints
                        if not entity.selector or is_member(one)
                        for one_port in one.ports
                        if (one_port.name, one_port.protocol) == (port.name, one_rule.protocol)
                        for address in one.addresses
                    }
                    key = NamedPortKey(port.name, str(one_rule.protocol), entity.selects)
                    by_port[key] = tuple(sorted(pairs))
    return NodePolicy(tuple(local), used, profiles, by_selector, by_port)


class History(RuleBasedStateMachine):
    """Random changes of a world. A node that only applies the reported changes is compared as well."""

    @initialize(rng=RANDOMS)
    def begin(self, rng: random.Random) -> None:
        self.index = PolicyIndex(NODE)
        self.policies = PolicySet()
        self.endpoints: dict = {}
        self.interfaces: dict = {}
        self.programmed = NodePolicy()
        self.sets: dict = {}
        self.new_policies(rng)
        for endpoint in random_world(rng).endpoints:
            self.endpoints[endpoint.kind, endpoint.name] = endpoint
            self.index.update_endpoint(endpoint)

    @rule(rng=RANDOMS)
    def new_policies(self, rng: random.Random) -> None:
        self.policies = random_world(rng).policy_set
        self.index.update_policy_set(self.policies)

    @rule(rng=RANDOMS)
    def one_part_of_the_policies(self, rng: random.Random) -> None:
        part = rng.choice(("policies", "profiles", "network_sets"))
        values = list(getattr(self.policies, part))
        if values:
            del values[rng.randrange(len(values))]
        self.policies = dataclasses.replace(self.policies, **{part: tuple(values)})
        self.index.update_policy_set(self.policies)

    @rule(rng=RANDOMS)
    def one_policy_or_profile_is_another(self, rng: random.Random) -> None:
        """Change one part of a policy or profile, if there is one: a policy's rules, or a profile's labels."""
        others = random_world(rng).policy_set
        part, what = rng.choice((("policies", "ingress"), ("policies", "egress"), ("profiles", "labels")))
        values = list(getattr(self.policies, part))
        donors = getattr(others, part)
        if values and donors:
            place = rng.randrange(len(values))
            other = getattr(rng.choice(donors), what)
            values[place] = dataclasses.replace(values[place], **{what: other})
        self.policies = dataclasses.replace(self.policies, **{part: tuple(values)})
        self.index.update_policy_set(self.policies)

    @rule(rng=RANDOMS)
    def an_endpoint(self, rng: random.Random) -> None:
        endpoint = rng.choice(random_world(rng).endpoints)
        if rng.random() < 0.3:
            # The endpoint may move to another node, and claims an interface that another one may have.
            endpoint = dataclasses.replace(endpoint, node=rng.choice((NODE, OTHER_NODE)), interface="cali00000000000")
        self.endpoints[endpoint.kind, endpoint.name] = endpoint
        self.index.update_endpoint(endpoint)

    @rule(pick=RANDOMS)
    def an_endpoint_leaves(self, pick: random.Random) -> None:
        if self.endpoints:
            key = pick.choice(sorted(self.endpoints))
            del self.endpoints[key]
            self.index.remove_endpoint(*key)

    @rule(interfaces=st.sampled_from(INTERFACES))
    def other_interfaces(self, interfaces: dict) -> None:
        self.interfaces = interfaces
        self.index.update_interfaces(interfaces)

    @rule()
    def compare(self) -> None:
        changes = self.index.commit()
        expected = reference(self.policies, self.endpoints.values(), self.interfaces)
        assert self.index.node_policy() == expected
        before = self.programmed
        local = {one.interface: one for one in expected.endpoints}
        old = {one.interface: one for one in before.endpoints}
        assert changes.interfaces == {name for name in local.keys() | old.keys() if local.get(name) != old.get(name)}
        for part in ("policies", "profiles"):
            now, then = getattr(expected, part), getattr(before, part)
            assert getattr(changes, part) == {n for n in now.keys() | then.keys() if now.get(n) != then.get(n)}
        self.program(changes, {**expected.selector_members, **expected.named_port_members})
        assert not self.index.commit()
        self.programmed = expected

    def program(self, changes: Changes, wanted: dict) -> None:
        assert not changes.sets_added & self.sets.keys()
        for key in changes.sets_removed:
            del self.sets[key]
        for key, change in changes.members.items():
            assert not change.added & self.sets[key]
            assert change.removed <= self.sets[key]
            self.sets[key] = (self.sets[key] - change.removed) | change.added
        for key in changes.sets_added:
            self.sets[key] = set(wanted[key])
        assert self.sets == {key: set(members) for key, members in wanted.items()}

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.compare()


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


def workload(name: str, node: str = NODE, **fields: t.Any) -> Endpoint:
    return Endpoint(WORKLOAD_ENDPOINT, f"default/{name}", node, f"cali{name}", **fields)


WEB = (("role", "web"),)


def test_26_an_address_of_several_owners_stays_while_one_has_it() -> None:
    """An address of an endpoint and two network sets remains a member while one of them has it."""
    policies = [Policy("p", ingress=(PolicyRule("Allow", source=Entity(selector='role == "web"')),))]
    sets = [
        PolicyNetworkSet("one", nets=("10.0.0.1/32", "10.1.0.0/16"), labels=WEB),
        PolicyNetworkSet("two", nets=("10.0.0.1/32", "10.1.0.0/16"), labels=WEB),
    ]
    index = PolicyIndex(NODE)
    index.update_policy_set(policy_set(policies=policies, network_sets=sets))
    index.update_endpoint(workload("a"))
    index.update_endpoint(workload("b", OTHER_NODE, addresses=("10.0.0.1",), labels=WEB))
    key = 'role == "web"'
    assert index.commit().sets_added == {key}
    assert index.node_policy().selector_members == {key: ("10.0.0.1", "10.1.0.0/16")}
    index.update_policy_set(policy_set(policies=policies, network_sets=sets[:1]))
    assert not index.commit()
    index.remove_endpoint(WORKLOAD_ENDPOINT, "default/b")
    assert not index.commit()
    index.update_policy_set(policy_set(policies=policies))
    changes = index.commit()
    assert changes == Changes(members={key: MemberChange(removed=frozenset({"10.0.0.1", "10.1.0.0/16"}))})
    assert not changes.chains


def test_a_label_of_a_remote_endpoint_touches_sets_only() -> None:
    policies = [
        Policy("p", ingress=(PolicyRule("Allow", source=Entity(selector=f'role == "{role}"')),)) for role in ("web",)
    ] + [Policy("q", ingress=(PolicyRule("Allow", "x", source=Entity(selector="has(spare)")),))]
    index = PolicyIndex(NODE)
    index.update_policy_set(policy_set(policies=policies))
    index.update_endpoint(workload("a"))
    index.update_endpoint(workload("b", OTHER_NODE, addresses=("10.0.0.2", "fd00::2")))
    index.commit()
    index.update_endpoint(workload("b", OTHER_NODE, addresses=("10.0.0.2", "fd00::2"), labels=WEB))
    assert index.commit() == Changes(members={'role == "web"': MemberChange(added=frozenset({"10.0.0.2", "fd00::2"}))})
    # An address that is added and removed between two commits is no change.
    index.update_endpoint(workload("b", OTHER_NODE, addresses=("10.0.0.3",), labels=WEB))
    index.update_endpoint(workload("b", OTHER_NODE, addresses=("10.0.0.2", "fd00::2"), labels=WEB))
    assert not index.commit()


def test_a_set_that_changes_hands_stays() -> None:
    """A set remains when the policy that needed it is removed and a profile that needs it is added."""
    needing = (PolicyRule("Allow", source=Entity(selector="all()")),)
    index = PolicyIndex(NODE)
    index.update_endpoint(workload("a", addresses=("10.0.0.1",), profiles=("open",)))
    index.update_policy_set(policy_set(policies=[Policy("p", ingress=needing)]))
    assert index.commit().sets_added == {"all()"}
    index.update_policy_set(policy_set(profiles=[PolicyProfile("open", ingress=needing)]))
    changes = index.commit()
    assert (changes.sets_added, changes.sets_removed, changes.members) == (frozenset(), frozenset(), {})
    assert (changes.policies, changes.profiles) == ({"p"}, {"open"})


def test_other_rules_of_a_policy_touch_no_endpoint() -> None:
    index = PolicyIndex(NODE)
    index.update_endpoint(workload("a", addresses=("10.0.0.1",)))
    index.update_policy_set(policy_set(policies=[Policy("p")]))
    index.commit()
    index.update_policy_set(
        policy_set(policies=[Policy("p", ingress=(PolicyRule("Allow", source=Entity(selector="all()")),))])
    )
    assert index.commit() == Changes(sets_added=frozenset({"all()"}), policies=frozenset({"p"}))


def test_only_what_is_in_use_is_programmed() -> None:
    """Unused profiles and policies that apply to no local endpoint are left out; inactive directions need no sets."""
    rules = (PolicyRule("Allow", source=Entity(selector="has(x)")),)
    policies = policy_set(
        policies=[
            Policy("other-direction", types=("Ingress",), egress=rules),
            Policy("nobody", selector="has(nothing)", ingress=rules),
            Policy("elsewhere", selector='role == "web"', ingress=rules),
            Policy("host", pre_dnat=True, apply_on_forward=True, ingress=rules),
        ],
        profiles=[PolicyProfile("unused", ingress=rules)],
    )
    found = node_policy(policies, [workload("a"), workload("b", OTHER_NODE, labels=WEB)], NODE)
    assert list(found.policies) == ["other-direction"]
    assert (found.profiles, found.selector_members) == ({}, {})


def test_the_next_host_endpoint_governs_when_the_first_one_goes() -> None:
    """An interface belongs to the HostEndpoint of the lowest name; when that is removed, the next one takes over."""
    first, second = (
        Endpoint(HOST_ENDPOINT, name, NODE, "eth0", labels=(("role", name),)) for name in ("first", "second")
    )
    policies = policy_set(policies=[Policy(name, selector=f"role == '{name}'") for name in ("first", "second")])
    index = PolicyIndex(NODE)
    index.update_policy_set(policies)
    index.update_interfaces({"eth0": ()})
    for endpoint in (first, second):
        index.update_endpoint(endpoint)
    index.commit()
    assert list(index.node_policy().policies) == ["first"]
    index.remove_endpoint(HOST_ENDPOINT, "first")
    changes = index.commit()
    assert (changes.interfaces, list(index.node_policy().policies)) == ({"eth0"}, ["second"])
    index.update_endpoint(first)
    assert index.commit().interfaces == {"eth0"}
    assert list(index.node_policy().policies) == ["first"]


def test_15_a_new_order_sorts_an_endpoint_anew() -> None:
    """A new order sorts an endpoint's policies again."""
    index = PolicyIndex(NODE)
    index.update_endpoint(workload("a"))
    index.update_policy_set(policy_set(policies=[Policy("p", order=1.0), Policy("q", order=2.0)]))
    index.commit()
    assert index.node_policy().endpoints[0].tiers[0].ingress == ("p", "q")
    index.update_policy_set(policy_set(policies=[Policy("p", order=3.0), Policy("q", order=2.0)]))
    assert index.commit().interfaces == {"calia"}
    assert index.node_policy().endpoints[0].tiers[0].ingress == ("q", "p")


def test_tiers_without_an_applying_policy_are_left_out() -> None:
    policies = policy_set(
        [PolicyTier("first", 1.0, "Pass"), PolicyTier("second", 2.0)],
        [Policy("second.p", tier="second", types=("Egress",)), Policy("x", tier="first", selector="has(x)")],
    )
    local = node_policy(policies, [workload("a")], NODE).endpoints[0]
    assert local.tiers == (TierPolicies("second", "Deny", (), ("second.p",)),)


def test_named_ports_of_both_families_and_protocols() -> None:
    """Named ports match by name and protocol, and the selector narrows them."""
    rules = (
        PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(NamedPort("http"),))),
        PolicyRule(
            "Deny", protocol="udp", destination=Entity(selector='role == "web"', not_ports=(NamedPort("http"),))
        ),
    )
    ports = (DefinedPort("http", "tcp", 80), DefinedPort("http", "tcp", 8080), DefinedPort("http", "udp", 81))
    endpoints = [
        workload("a", addresses=("10.0.0.1", "fd00::1"), ports=ports),
        workload("b", OTHER_NODE, addresses=("10.0.0.2",), ports=ports[2:], labels=WEB),
    ]
    found = node_policy(policy_set(policies=[Policy("p", ingress=rules)]), endpoints, NODE)
    assert found.named_port_members == {
        ("http", "tcp", ""): (("10.0.0.1", 80), ("10.0.0.1", 8080), ("fd00::1", 80), ("fd00::1", 8080)),
        ("http", "udp", 'role == "web"'): (("10.0.0.2", 81),),
    }


def test_random_worlds_from_scratch() -> None:
    for seed in range(60):
        world: World = random_world(random.Random(seed))
        interfaces = INTERFACES[seed % len(INTERFACES)]
        assert node_policy(world.policy_set, world.endpoints, NODE, interfaces) == reference(
            world.policy_set, world.endpoints, interfaces
        )
