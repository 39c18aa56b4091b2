# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of policy in an inventory's lists and files, up to each node's part. bad_inventories.yml has the errors."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains import settings as chains
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Failsafe
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

from tests.unit.fleet.fleets import LAB, build, hosts, pool, states, stored, workload

WEB = {"kind": "NetworkPolicy", "name": "web", "selector": "app == 'web'", "ingress": [{"action": "Allow"}]}
FROM_APP = {
    "kind": "GlobalNetworkPolicy",
    "metadata": {"name": "db"},
    "spec": {
        "selector": "app == 'db'",
        "ingress": [
            {
                "action": "Allow",
                "protocol": "TCP",
                "source": {"selector": "app == 'app'"},
                "destination": {"ports": ["sql"]},
            }
        ],
    },
}
TIERS = [
    workload("web", "node1", labels={"app": "web"}),
    workload("app", "node2", labels={"app": "app"}),
    workload("db", "node3", labels={"app": "db"}, ports=[{"name": "sql", "protocol": "TCP", "port": 5432}]),
]


def policy_of(node: str, *pools: t.Any, **rest: t.Any) -> PolicyState:
    found = states(build(*pools, **rest))[node]
    assert stored(found) == found
    assert found.policy is not None
    return found.policy


def document(content: t.Any) -> Document:
    lines = {"": 3, "spec.tier": 7, "metadata.name": 4}
    return Document(content, "policy/web.yml", lambda path: lines.get(path, 3))


def test_without_policy_nothing_is_different() -> None:
    plain = build()
    assert plain.policy is None
    assert all(state.policy is None for state in states(plain).values())
    off = build(policies=[WEB], policy_enabled=False)
    assert (off.digest, states(off)) == (plain.digest, states(plain))


def test_a_node_gets_all_policies_and_the_endpoints_that_rules_select() -> None:
    found = policy_of("node1", workloads=TIERS, policies=[WEB, FROM_APP])
    assert [policy.name for policy in found.policy_set.policies] == ["db", "default/web"]
    names = {endpoint.name: endpoint.node for endpoint in found.endpoints}
    assert names == {"default/web": "node1", "default/app": "node2", "default/db": "node3"}
    only_selector = dict(FROM_APP["spec"]["ingress"][0], destination={})
    without_port = {**FROM_APP, "spec": {**FROM_APP["spec"], "ingress": [only_selector]}}
    found = policy_of("node1", workloads=TIERS, policies=[WEB, without_port])
    assert {endpoint.name for endpoint in found.endpoints} == {"default/web", "default/app"}


def test_addresses_ports_and_profiles_of_workloads() -> None:
    found = policy_of("node3", workloads=TIERS, policies=[FROM_APP])
    db = next(endpoint for endpoint in found.endpoints if endpoint.name == "default/db")
    fleet = build(workloads=TIERS)
    assert db.addresses == (fleet.ipam_of("node3").workloads["db"],)
    assert db.ports == (DefinedPort("sql", "tcp", 5432),)
    assert db.profiles == ("projectcalico-default-allow",)
    assert ("projectcalico.org/namespace", "default") in db.labels


def test_profiles_of_ones_own_and_for_all() -> None:
    strict = {"kind": "Profile", "name": "strict", "labelsToApply": {"zone": "x"}}
    workloads = [
        workload("a", "node1"),
        workload("b", "node1", profiles=["strict"]),
        workload("c", "node1", profiles=[]),
    ]
    found = policy_of("node1", workloads=workloads, policies=[strict], workload_profiles=[])
    assert [(one.name, one.profiles) for one in found.endpoints] == [
        ("default/a", ()),
        ("default/b", ("strict",)),
        ("default/c", ()),
    ]
    assert [profile.name for profile in found.policy_set.profiles] == ["projectcalico-default-allow", "strict"]


def test_sets_that_no_rule_means_stay_away() -> None:
    sets = [
        {"kind": "GlobalNetworkSet", "name": "office", "nets": ["192.0.2.0/28"], "labels": {"app": "app"}},
        {"kind": "NetworkSet", "name": "other", "nets": ["198.51.100.0/24"]},
    ]
    found = policy_of("node1", workloads=TIERS, policies=[FROM_APP, *sets])
    assert [one.name for one in found.policy_set.network_sets] == ["office"]


def test_policy_in_the_variables_of_a_node_is_of_that_node_alone() -> None:
    eth0 = {"kind": "HostEndpoint", "name": "node2-eth0", "interfaceName": "eth0"}
    fleet = build(own={"node2": {"calico_node_policies": [eth0]}})
    found = {
        name: [one.name for one in state.policy.endpoints if one.kind == "HostEndpoint"]
        for name, state in states(fleet).items()
        if state.policy
    }
    assert found == {"node1": [], "node2": ["node2-eth0"], "node3": [], "node4": []}


def test_documents_of_files_count_as_well() -> None:
    tier = {"kind": "Tier", "metadata": {"name": "platform"}, "spec": {"order": 10}}
    content = {**FROM_APP, "spec": {**FROM_APP["spec"], "tier": "platform"}}
    read = inventory.read(hosts(policies=[WEB]), [document(content), document(tier)])
    assert read.policy is not None
    assert [(policy.name, policy.tier) for policy in read.policy.policy_set.policies] == [
        ("db", "platform"),
        ("default/web", "default"),
    ]


@pytest.mark.parametrize(("line", "place"), [(3, "in policy/web.yml:3"), (None, "in policy/web.yml:1")])
def test_a_resource_has_the_place_where_it_is_written(line: t.Optional[int], place: str) -> None:
    """A resource of a file has its first line as its place, which is line 1 if nothing is known about lines."""
    read = inventory.read(hosts(policies=[WEB]), [Document(FROM_APP, "policy/web.yml", lambda path: line)])
    assert read.policy is not None
    assert read.policy.places == {
        "NetworkPolicy default/web": "calico_policies[0]",
        "GlobalNetworkPolicy db": place,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {**FROM_APP, "spec": {**FROM_APP["spec"], "tier": "platfrom"}},
            "policy/web.yml:7: GlobalNetworkPolicy db: spec.tier platfrom does not exist. Define a Tier of that "
            "name, or write default.",
        ),
        (
            {"kind": "NetworkPolicy", "metadata": {"name": "web"}, "spec": {}},
            "policy/web.yml:4: NetworkPolicy web: metadata.name web is also the name of another NetworkPolicy of "
            "namespace default, calico_policies[0]. Rename one.",
        ),
        (
            {"kind": "IPPool", "metadata": {"name": "pool"}},
            "policy/web.yml:3: IPPool: kind IPPool is no policy. It belongs into calico_ip_pools.",
        ),
        (["a"], "policy/web.yml:3: document is not a dictionary. Write the fields of one resource there."),
        (
            {"kind": "GlobalNetworkPolicy", "metadata": {"name": "a"}, "spec": {"ingress": [{"action": "Alow"}]}},
            "policy/web.yml:3: GlobalNetworkPolicy a: spec.ingress[0].action Alow is not one of Allow, Deny, "
            "Log, Pass. Did you mean Allow?",
        ),
    ],
)
def test_errors_name_file_and_line(content: t.Any, message: str) -> None:
    with pytest.raises(FleetError) as caught:
        inventory.read(hosts(policies=[WEB]), [document(content)])
    assert str(caught.value) == message


# --- These tests are about staged policy, settings, the name of the plan, lists of groups, and parts of nodes -------


def test_staged_kinds_are_watched_beside_what_is_in_force() -> None:
    staged = {**WEB, "kind": "StagedNetworkPolicy", "ingress": [{"action": "Deny"}]}
    deletion = {"kind": "StagedGlobalNetworkPolicy", "name": "db", "stagedAction": "Delete"}
    found = policy_of("node1", policies=[WEB, staged, FROM_APP, deletion]).policy_set.policies
    assert {policy.name: policy.staged for policy in found} == {
        "db": False,
        "default/staged:web": True,
        "default/web": False,
    }


def test_connections_are_cut_only_if_that_is_wanted() -> None:
    assert policy_of("node1", policies=[WEB]).settings.cut_denied_flows is False
    assert policy_of("node1", policies=[WEB], policy_cut_denied_flows=True).settings.cut_denied_flows is True


def test_staged_and_audited() -> None:
    fleet = build(
        policies=[WEB, FROM_APP],
        staged_policies=["default/web"],
        own={"node2": {"calico_node_policy_audit": True}},
    )
    found = states(fleet)
    policies = found["node1"].policy.policy_set.policies if found["node1"].policy else ()
    assert {policy.name: policy.staged for policy in policies} == {"db": False, "default/web": True}
    assert {name: state.policy.settings.audit for name, state in found.items() if state.policy} == {
        "node1": False,
        "node2": True,
        "node3": False,
        "node4": False,
    }


@pytest.mark.parametrize("policy", [{}, {"policies": [WEB], "policy_enabled": False}, {"policies": [WEB]}])
def test_the_audit_mode_is_checked_without_policy_too(policy: dict[str, t.Any]) -> None:
    with pytest.raises(FleetError) as caught:
        build(own={"node2": {"calico_node_policy_audit": "maybe"}}, **policy)
    assert str(caught.value) == (
        "calico_node_policy_audit of node2 maybe is not true or false. Write for example false, which is the default."
    )


def test_enabled_without_any_resource() -> None:
    found = policy_of("node1", policy_enabled=True)
    assert [tier.name for tier in found.policy_set.tiers] == ["default"]
    assert found.settings.default_endpoint_to_host_action == "Drop"


def test_failsafe_ports_include_the_ssh_port_of_a_node() -> None:
    inbound = policy_of("node1", policies=[WEB]).settings.failsafe_inbound
    assert inbound == chains.FAILSAFE_INBOUND
    moved = [host if host.name != "node1" else host_at(2222, host) for host in hosts(policies=[WEB])]
    read = inventory.read(moved).policy
    assert read is not None
    assert Failsafe("tcp", 2222) in read.settings_of("node1").failsafe_inbound
    assert Failsafe("tcp", 2222) not in read.settings_of("node2").failsafe_inbound


def test_no_policy_closes_the_ways_of_bgp() -> None:
    found = policy_of(
        "node1",
        policies=[WEB],
        bgp_listen_port=1179,
        bgp_bfd=True,
        bgp_peers=[{"peerIP": "192.0.2.1:1180", "asNumber": 65000, "listenPort": 1181}],
    ).settings
    added = {Failsafe("tcp", port) for port in (1179, 1180, 1181)} | {Failsafe("udp", 4784)}
    for own, default in (
        (found.failsafe_inbound, chains.FAILSAFE_INBOUND),
        (found.failsafe_outbound, chains.FAILSAFE_OUTBOUND),
    ):
        assert set(own) == {*default} - {Failsafe("tcp", 179)} | added


def test_an_empty_list_is_no_failsafe_at_all() -> None:
    """With an empty list of inbound failsafes no port is exempt from policy, not even that of SSH, here 2222.

    Outbound failsafes keep their default.
    """
    moved = [host_at(2222, host) for host in hosts(policies=[WEB], failsafe_inbound_host_ports=[])]
    read = inventory.read(moved).policy
    assert read is not None
    assert {read.settings_of(node).failsafe_inbound for node in ("node1", "node2")} == {()}
    assert read.settings_of("node1").failsafe_outbound == chains.FAILSAFE_OUTBOUND


def host_at(port: int, host: Host) -> Host:
    return Host(host.name, host.variables, ssh_port=port)


def test_failsafes_of_ones_own() -> None:
    settings = policy_of(
        "node1",
        policies=[WEB],
        failsafe_inbound_host_ports=[{"port": 22, "net": "10.0.0.0/8"}, {"protocol": "UDP", "port": 500}],
        failsafe_outbound_host_ports=[],
    ).settings
    assert settings.failsafe_inbound == (Failsafe("tcp", 22, "10.0.0.0/8"), Failsafe("udp", 500))
    assert settings.failsafe_outbound == ()


def test_variables_permit_invalid_and_encapsulated_packets() -> None:
    def switches(**variables: bool) -> tuple[bool, bool, bool]:
        found = policy_of("node1", pool("direct"), policies=[WEB], **variables).settings
        return found.drop_invalid, found.allow_vxlan_from_workloads, found.allow_ipip_from_workloads

    assert switches() == (True, False, False)
    assert switches(disable_conntrack_invalid_check=True) == (False, False, False)
    assert switches(allow_vxlan_packets_from_workloads=True) == (True, True, False)
    assert switches(allow_ipip_packets_from_workloads=True) == (True, False, True)


def test_the_sessions_port_is_that_of_the_fleet() -> None:
    settings = policy_of("node1", pool("direct"), policies=[WEB], bgp_listen_port=1790).settings
    for failsafes in (settings.failsafe_inbound, settings.failsafe_outbound):
        assert Failsafe("tcp", 1790) in failsafes
        assert Failsafe("tcp", 179) not in failsafes


def test_with_live_policy_nodes_know_whatever_a_rule_may_select() -> None:
    """Without it they know only what rules of the inventory select, as they did before there was live policy."""
    given: dict[str, t.Any] = {
        "policies": [
            WEB,
            {"kind": "HostEndpoint", "name": "outer", "node": "node2", "interfaceName": "eth0"},
            {"kind": "GlobalNetworkSet", "name": "offices", "nets": ["192.0.2.0/24"]},
        ]
    }
    without, live = policy_of("node1", **given), policy_of("node1", **given, live_policy=True)
    assert (without.settings.live, live.settings.live) == (False, True)
    assert without.policy_set.network_sets == ()
    assert [one.name for one in live.policy_set.network_sets] == ["offices"]
    assert not any(one.node != "node1" for one in without.endpoints)
    assert {one.name for one in live.endpoints} == {"outer", *(f"default/w{number}" for number in range(1, 5))}
    fleet = build(**given, live_policy=True)
    assert fleet.policy is not None and fleet.digest != build(**given).digest
    sent = fleet.policy.wire().of("node1")
    assert sent is not None and sent["settings"]["live"] is True
    shared = packed_json.unpack(sent["shared"])
    assert len(shared["endpoints"]) == 5 and len(shared["network_sets"]) == 1


def test_the_plan_has_another_name_with_another_policy() -> None:
    digests = {
        build().digest,
        build(policies=[WEB]).digest,
        build(policies=[FROM_APP]).digest,
        build(policies=[WEB], policy_log_group=0).digest,
        build(policies=[WEB], own={"node1": {"calico_node_policy_audit": True}}).digest,
    }
    assert len(digests) == 5


def in_groups(own: t.Mapping[str, t.Mapping[str, t.Any]], **variables: t.Any) -> inventory.Inventory:
    """Return the inventory of two hosts: node1 in groups rack-a and dmz, node2 in dmz.

    Both are in calico_nodes, too. `own` has the variables of each host, and `variables` those of the fleet without the
    prefix calico_. Raise FleetError if the inventory is invalid.
    """
    groups = {"node1": ("calico_nodes", "dmz", "rack-a"), "node2": ("calico_nodes", "dmz")}
    nodes = {name: address for name, address in LAB.items() if name in groups}
    found = hosts(nodes=nodes, workloads=[], own=own, **variables)
    return inventory.read([dataclasses.replace(host, groups=groups[host.name]) for host in found])


def test_lists_of_the_fleet_of_groups_and_of_nodes_add_up() -> None:
    dmz = [WEB, {"kind": "HostEndpoint", "interfaceName": "eth0", "labels": {"zone": "dmz"}}]
    rack = [{"kind": "Tier", "name": "rack", "order": 5}]
    policy = in_groups(
        {
            "node1": {
                "calico_policies_dmz": dmz,
                "calico_policies_rack_a": rack,
                "calico_node_policies": [{"kind": "HostEndpoint", "interfaceName": "*"}],
            },
            "node2": {"calico_policies_dmz": dmz},
        },
        policies=[FROM_APP],
    ).policy
    assert policy is not None
    assert sorted(one.name for one in policy.policy_set.policies) == ["db", "default/web"]
    assert [tier.name for tier in policy.policy_set.tiers] == ["rack", "default"]
    assert [(one.name, one.node, one.interface) for one in policy.host_endpoints] == [
        ("node1-all", "node1", "*"),
        ("node1-eth0", "node1", "eth0"),
        ("node2-eth0", "node2", "eth0"),
    ]


def test_lists_of_groups_that_a_host_is_not_in_do_not_hide_its_own() -> None:
    """Only the list of its own group counts for a host, also if its variables have those of other groups first."""
    point = {"kind": "HostEndpoint", "interfaceName": "eth0"}
    rack = {"kind": "HostEndpoint", "interfaceName": "eth1"}
    lists = {"calico_policies_dmz": [point], "calico_policies_rack_a": [rack], "calico_policies_spine": [point]}
    groups = {"node1": ("calico_nodes", "rack-a"), "node2": ("calico_nodes", "dmz", "spine")}
    nodes = {name: address for name, address in LAB.items() if name in groups}
    found = hosts(nodes=nodes, workloads=[], own={"node1": lists})
    policy = inventory.read([dataclasses.replace(host, groups=groups[host.name]) for host in found]).policy
    assert policy is not None
    assert [(one.node, one.interface) for one in policy.host_endpoints] == [("node1", "eth1")]


def test_a_list_of_a_group_counts_for_its_hosts_even_in_group_vars_all() -> None:
    """A list in group_vars/all is among the variables of all hosts, but counts for the hosts of its group only."""
    policy = in_groups({}, policies_rack_a=[{"kind": "HostEndpoint", "interfaceName": "eth0"}]).policy
    assert policy is not None and [one.node for one in policy.host_endpoints] == ["node1"]


def test_lists_that_differ_between_the_hosts_of_a_group_all_count() -> None:
    own = {
        name: {"calico_policies_dmz": [{"kind": "GlobalNetworkSet", "name": f"of-{name}", "nets": ["192.0.2.0/24"]}]}
        for name in ("node1", "node2")
    }
    policy = in_groups(own, policies=[FROM_APP]).policy
    assert policy is not None
    assert [one.name for one in policy.policy_set.network_sets] == ["of-node1", "of-node2"]
    twice = {name: {"calico_policies_dmz": [{**WEB, "selector": f"app == '{name}'"}]} for name in ("node1", "node2")}
    with pytest.raises(FleetError) as error:
        in_groups(twice)
    assert str(error.value) == (
        "calico_policies_dmz[0].name of node2 web is also the name of another NetworkPolicy of namespace default, "
        "calico_policies_dmz[0]. Rename one."
    )


def test_the_policy_that_all_nodes_share_is_made_a_text_once() -> None:
    """All nodes get one shared text of the policy, and a part of their own: each reads its whole state from both.

    A host that is no node has no part, and a state with the shared text alone cannot be read.
    """
    fleet = build(workloads=TIERS, policies=[WEB, FROM_APP], own={"node2": {"calico_node_policy_audit": True}})
    assert fleet.policy is not None
    wire = fleet.policy.wire()
    bare = dataclasses.replace(fleet.named(), policy=None)
    for name, state in states(fleet).items():
        part = wire.of(name)
        assert part is not None and part["shared"] is wire.shared
        data = {**states(bare)[name].to_wire(), "policy": json.loads(json.dumps(part))}
        assert NodeState.from_dict(data) == state
    assert wire.of("stranger") is None
    with pytest.raises(ValueError, match="what is shared of the policy cannot be read: 'own'"):
        NodeState.from_dict({**state.to_wire(), "policy": {"shared": wire.shared}})


def test_a_named_fleet_keeps_its_digest() -> None:
    """A copy without policy has the digest of the whole fleet, or another one if the fleet has no name."""
    fleet = build(policies=[WEB, FROM_APP])
    assert dataclasses.replace(fleet.named(), policy=None).digest == fleet.digest
    assert dataclasses.replace(fleet, policy=None).digest != fleet.digest
    assert fleet.named() == fleet.named().named()


def test_a_port_of_ansible_that_is_open_to_one_network_stays_so() -> None:
    """A failsafe for SSH from one network is not widened to all; beside other ports, SSH is added for all."""
    inside = {"protocol": "tcp", "port": 22, "net": "10.0.0.0/8"}
    found = policy_of("node1", policies=[WEB], failsafe_inbound_host_ports=[inside])
    assert found.settings.failsafe_inbound == (Failsafe("tcp", 22, "10.0.0.0/8"),)
    found = policy_of("node1", policies=[WEB], failsafe_inbound_host_ports=[{**inside, "port": 179}])
    assert found.settings.failsafe_inbound == (Failsafe("tcp", 22), Failsafe("tcp", 179, "10.0.0.0/8"))


@pytest.mark.parametrize(
    ("other", "remedy"), [({}, "Both are the same: remove one."), ({"selector": "app == 'sql'"}, "Rename one.")]
)
def test_one_policy_twice_in_a_file_is_named_with_both_places(other: dict[str, t.Any], remedy: str) -> None:
    """The remedy depends on whether the two documents differ."""
    lines = iter((4, 12))
    documents = []
    for extra in ({}, other):
        line = next(lines)
        content = {**FROM_APP, "spec": {**FROM_APP["spec"], **extra}}
        documents.append(Document(content, "policy/web.yml", lambda path, line=line: line if path else line - 3))
    with pytest.raises(FleetError) as caught:
        inventory.read(hosts(), documents)
    assert str(caught.value) == (
        "policy/web.yml:12: GlobalNetworkPolicy db: metadata.name db is also the name of another GlobalNetworkPolicy, "
        f"in policy/web.yml:4. {remedy}"
    )
