# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy explain`: verdict, path and exit status, as whole texts."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import agent_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import policy_explain
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow import flow_sweep, packet_way
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import age
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_reader import ReadDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy as stored_live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import remote_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.live_policy import StoredLivePolicy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Icmp,
    NamedPort,
    Policy,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Neighbor,
    NodeState,
    Pool,
    Route,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    ALLOW_ALL,
    PolicySettings,
    PolicyState,
    allow_all,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
)

from tests.unit.cli.conftest import STATE, Node

IN_SYNC = {"in_sync": True, "problems": []}
WHEN = "2026-11-21T14:02:09Z"
NOW = 1795327329.0  # 16 hours after WHEN


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_explain, "now", lambda: NOW)


def port(number: int) -> Entity:
    return Entity(ports=(PortRange(number, number),))


TO_DB = PolicyRule("Allow", protocol="tcp", destination=dataclasses.replace(port(5432), selector='app == "db"'))
TO_ALL = PolicyRule("Allow", protocol="tcp")
POLICIES = policy_set(
    [PolicyTier("platform", 1.0)],
    [
        Policy(
            "platform.allow-dns", tier="platform", order=1.0, selector='app == "web"', types=("Egress",),
            egress=(PolicyRule("Allow", protocol="udp", destination=port(53)),),
        ),
        Policy(
            "platform.default-deny", tier="platform", order=2.0, selector='app == "web"', types=("Egress",),
            egress=(PolicyRule("Pass", protocol="tcp", destination=port(80)), PolicyRule("Deny")),
        ),
        Policy("default/db-access", kind="NetworkPolicy", selector='app == "web"', types=("Egress",), egress=(TO_DB,)),
        Policy(
            "default/db-clients", kind="NetworkPolicy", selector='app == "db"',
            ingress=(PolicyRule("Allow", protocol="tcp", source=Entity(selector='tier == "back"')),),
        ),
    ],
    [allow_all()],
)  # fmt: skip
#: The database of node1, and as DB_2 that of node3. They have the same labels, and are as the inventory has them.
DB = Endpoint(
    "WorkloadEndpoint", "default/db", "node1", "cali0d3f1c11aa2", ("10.244.3.1",), (("app", "db"),), (ALLOW_ALL,),
    namespace="default",
)  # fmt: skip
DB_2 = dataclasses.replace(
    DB, name="default/db-2", node="node3", interface="cali9ab4c1d2e3f", addresses=("10.244.70.65",)
)
GUARDED = dataclasses.replace(
    STATE,
    routes=(
        Route("10.244.3.0/26", "blackhole"),
        Route("10.244.3.1/32", device="cali0d3f1c11aa2"),
    ),
    bird_routes=(
        BirdRoute("10.244.50.0/26", "10.10.1.12", node="node2", next_hop="10.10.1.12"),
        BirdRoute("10.244.70.64/26", "10.10.2.13", "tunl0", True, "node3", next_hop="10.10.2.13"),
    ),
    policy=PolicyState(POLICIES, (DB, DB_2)),
)


def settled(node: Node, state: NodeState = GUARDED) -> Node:
    """Set the node up with this state, eth0, and an agent that is in sync and lists web-1 and shop; return the node."""
    settle(node, state)
    node.agent().answers["status"] = IN_SYNC
    return node


def settle(node: Node, state: NodeState = GUARDED) -> None:
    """Give the node eth0 with 10.10.1.11/24, and store the state; no agent is started."""
    kernel = node.machine.kernel
    kernel.link_add(NewLink("eth0", "bridge"))
    kernel.link_set("eth0", up=True)
    kernel.address_add(InterfaceAddress("eth0", "10.10.1.11", 24))
    Store(node.machine.store).save(Stored(state, None, (), "ops@control", WHEN, complete=True))


def with_policy(*more: Endpoint, policies: t.Sequence[Policy] = (), **settings: t.Any) -> NodeState:
    made = policy_set(POLICIES.tiers, (*POLICIES.policies, *policies), POLICIES.profiles)
    return dataclasses.replace(GUARDED, policy=PolicyState(made, (DB, DB_2, *more), PolicySettings(**settings)))


def explain(node: Node, line: str) -> tuple[int, str, str]:
    source, destination, port, *more = line.split()
    return node.run("policy", "explain", "--from", source, "--to", destination, "--port", port, *more)


def test_denied_on_the_way_to_another_node(node: Node) -> None:
    expected = """\
DENY   by platform.default-deny#2 (tier platform), egress of default/web-1
  1 platform.allow-dns     egress  no match: tcp is not udp
  2 platform.default-deny  egress  rule 1 no match: destination port 5432 is not 80
                                   MATCH rule 2: Deny
other  1 policy does not apply (verbose: which, and why)
path   default/web-1 cali1f2e3d4c5b6 -> node1 -> tunl0 (IPIP to 10.10.2.13) -> node3 -> \
cali9ab4c1d2e3f default/db-2   mtu 1480
hint   default/db-access allows this, but its tier comes later
known  default/db-2: on node3, from the run of 2026-11-21 14:02 UTC, 16 h ago
"""
    assert explain(settled(node), "web-1 db-2 5432/tcp") == (1, expected, "")


def test_allowed_on_this_node(node: Node) -> None:
    expected = """\
ALLOW  by profile projectcalico-default-allow#1, egress of prod/shop, and \
default/db-clients#1 (tier default), ingress of default/db
  1 profile projectcalico-default-allow  egress   MATCH rule 1: Allow
  2 default/db-clients                   ingress  MATCH rule 1: Allow
other  3 policies do not apply (verbose: which, and why)
path   prod/shop cali99aabbccdde -> node1 -> cali0d3f1c11aa2 default/db   mtu 1480
"""
    state = with_policy()
    assert state.policy is not None
    rule = PolicyRule("Allow", source=Entity(nets=("10.244.3.3/32",)))
    policies = [
        dataclasses.replace(one, ingress=(rule,)) if one.name == "default/db-clients" else one
        for one in state.policy.policy_set.policies
    ]
    made = policy_set(POLICIES.tiers, policies, POLICIES.profiles)
    state = dataclasses.replace(state, policy=dataclasses.replace(state.policy, policy_set=made))
    assert explain(settled(node, state), "shop default/db 5432/tcp") == (0, expected, "")


def test_live_policy_is_explained_and_listed_like_that_of_the_inventory(node: Node) -> None:
    live = Policy("block-shop", order=-1.0, selector='app == "db"', ingress=(PolicyRule("Deny"),))
    key = DocumentKey("GlobalNetworkPolicy", "", "block-shop")
    resolved = live_policy.resolve(POLICIES, [live])
    stored = StoredLivePolicy(resolved, {key: ReadDocument(live, live_documents.pack(live))}, 1, 1)
    settled(node, with_policy(live=True))
    stored_live_policy.save(node.machine.store, stored)
    status, shown, dummy = explain(node, "shop default/db 5432/tcp")
    decided = "DENY   by block-shop#1 (tier default, live document), ingress of default/db\n"
    assert status == 1 and shown.startswith(decided), shown
    assert f"  {decided}" in node.run("policy", "explain", "--from", "shop", "--to", "default/db")[1]
    found = json.loads(explain(node, "shop default/db 5432/tcp -o json")[1])
    assert [(step["policy"], step["source"]) for stage in found["stages"] for step in stage["tried"]] == [
        ("", ""),
        ("block-shop", "live"),
    ]
    web = json.loads(explain(node, "default/web-1 default/db 80/tcp -o json")[1])
    assert {step["source"] for stage in web["stages"] for step in stage["tried"]} == {"inventory"}
    assert "block-shop" in node.run("get", "gnp")[1]


def test_live_policy_is_not_explained_where_it_is_not_allowed(node: Node) -> None:
    live = Policy("block-shop", order=-1.0, selector='app == "db"', ingress=(PolicyRule("Deny"),))
    settled(node, with_policy())
    stored_live_policy.save(node.machine.store, StoredLivePolicy(live_policy.resolve(POLICIES, [live]), {}, 1, 1))
    assert "block-shop" not in explain(node, "shop default/db 5432/tcp")[1]
    assert "block-shop" not in node.run("get", "gnp")[1]


def test_traffic_from_another_node_is_explained(node: Node) -> None:
    expected = """\
DENY   by the default of tier default, ingress of default/db
  1 profile projectcalico-default-allow  egress   MATCH rule 1: Allow
  2 default/db-clients                   ingress  no match: source 10.244.70.66 (default/jobs: no tier) \
is not selected by tier == "back"
  3 tier default                         ingress  Deny: no policy of the tier that applies decides
other  3 policies do not apply (verbose: which, and why)
path   default/jobs calijobs -> node3 -> tunl0 (IPIP to 10.10.1.11) -> node1 -> cali0d3f1c11aa2 default/db   mtu 1480
known  default/jobs: on node3, from the run of 2026-11-21 14:02 UTC, 16 h ago
"""
    jobs = dataclasses.replace(
        DB_2, name="default/jobs", interface="calijobs", addresses=("10.244.70.66",), labels=(("app", "jobs"),)
    )
    assert explain(settled(node, with_policy(jobs)), "10.244.70.66 10.244.3.1 5432/tcp") == (1, expected, "")


def test_a_workload_of_another_node_that_is_not_known_here(node: Node) -> None:
    expected = """\
ALLOW  by profile projectcalico-default-allow#1, egress of prod/shop
  1 profile projectcalico-default-allow  egress  MATCH rule 1: Allow
other  4 policies do not apply (verbose: which, and why)
path   prod/shop cali99aabbccdde -> node1 -> eth0 (direct to 10.10.1.12) -> node2 -> 10.244.50.9   mtu 1480
note   10.244.50.9 is in a block of node2 and of nobody that is known here: node2 asks policy of its own. Run this \
there, or playbooks/sync_workloads.yml
"""
    assert explain(settled(node), "shop 10.244.50.9 icmp") == (0, expected, "")


def test_traffic_to_an_outside_address_is_explained_with_its_nat(node: Node) -> None:
    settled(node)
    expected = """\
ALLOW  by platform.allow-dns#1 (tier platform), egress of default/web-1
  1 platform.allow-dns  egress  MATCH rule 1: Allow
other  1 policy does not apply (verbose: which, and why)
path   default/web-1 cali1f2e3d4c5b6 -> node1 -> eth0 -> 10.10.1.53   mtu 1480
note   natOutgoing: beyond node1 it comes from 10.10.1.11
"""
    assert explain(node, "web-1 10.10.1.53 53/udp") == (0, expected, "")


def test_traffic_to_an_unassigned_address_does_not_arrive(node: Node) -> None:
    settled(node)
    path = "path   prod/shop cali99aabbccdde -> node1 -> "
    note = "note   whatever policy says, it does not arrive"
    lines = explain(node, "shop 10.244.3.40 80/tcp")[1].splitlines()
    assert lines[3:] == [f"{path}blackhole 10.244.3.0/26: nobody has 10.244.3.40   mtu 1480", note]
    lines = explain(node, "shop 10.244.99.1 80/tcp")[1].splitlines()
    assert lines[3:] == [f"{path}no route: nobody has 10.244.99.1   mtu 1480", note]


def test_traffic_from_and_to_hosts_is_explained(node: Node) -> None:
    """A host sends from its tunnel's address, and a workload's packets reach another host from its node's address."""
    own = Endpoint("HostEndpoint", "node1-all", "node1", "*", profiles=(ALLOW_ALL,))
    other = Endpoint("HostEndpoint", "node2-eth0", "node2", "eth0", ("10.10.1.12",), (("role", "host"),))
    rule = PolicyRule("Allow", protocol="tcp", source=Entity(nets=("10.10.1.11/32",)))
    policies = [Policy("ssh", selector='role == "host"', ingress=(rule,))]
    settled(node, with_policy(own, other, policies=policies))
    assert explain(node, "node1 db-2 5432/tcp")[1].splitlines()[:3] == [
        "DENY   by the default of tier default, ingress of default/db-2",
        "  1 profile projectcalico-default-allow  egress   MATCH rule 1: Allow",
        "  2 default/db-clients                   ingress  no match: source 10.244.3.0 (of no endpoint and no network "
        'set) is not selected by tier == "back"',
    ]
    assert explain(node, "shop node2 8080/tcp") == (
        0,
        """\
ALLOW  by profile projectcalico-default-allow#1, egress of prod/shop, and ssh#1 (tier default), ingress of node2-eth0
  1 default                              forward ingress  Allow: what is forwarded is allowed unless a policy denies it
  2 profile projectcalico-default-allow  egress           MATCH rule 1: Allow
  3 default                              forward egress   Allow: what is forwarded is allowed unless a policy denies it
  4 ssh                                  ingress          MATCH rule 1: Allow
other  4 policies do not apply (verbose: which, and why)
path   prod/shop cali99aabbccdde -> node1 -> eth0 (direct to 10.10.1.12) -> node2   mtu 1480
note   natOutgoing: beyond node1 it comes from 10.10.1.11
note   which ports node2 publishes is known there alone: if 8080/tcp leads to a workload, its policy decides. Run \
calicoctl policy explain there
note   of HostEndpoints and settings of node2 is known here what rules mean. Run this there to be certain
""",
        "",
    )
    assert explain(node, "db-2 10.10.1.12 8080/tcp")[1].splitlines()[-2:] == [
        "path   not through node1: from default/db-2 to node2",
        "known  default/db-2: on node3, from the run of 2026-11-21 14:02 UTC, 16 h ago",
    ]


#: Policy that denies jobs of other nodes by selector, and allows all other clients of the database.
JOBS = dataclasses.replace(
    DB_2, name="default/jobs", interface="calijobs", addresses=("10.244.70.66",), labels=(("app", "jobs"),)
)
NO_JOBS = Policy(
    "no-jobs", order=1.0, selector='app == "db"',
    ingress=(
        PolicyRule("Deny", source=Entity(selector='app == "jobs"')), PolicyRule("Allow", protocol="tcp"),
    ),
)  # fmt: skip
DB_VETH = VethEndpoint("db", "cali0d3f1c11aa2", "10.244.3.1", 1480, "default-pool")


def publishing(excludes: bool, *ports: PublishedPort) -> NodeState:
    """Return a state whose workload db publishes these ports; `excludes`: natOutgoing excludes nodes' addresses."""
    state = with_policy(JOBS, policies=[NO_JOBS])
    nat = firewall.tables(state.pools, (), excludes_hosts=excludes)
    veth = dataclasses.replace(DB_VETH, ports=ports)
    return dataclasses.replace(state, workloads=(veth,), iptables=nat)


@pytest.mark.parametrize("excludes", [False, True])
def test_a_denied_workload_by_a_published_port(node: Node, excludes: bool) -> None:
    """The node of the destination knows its ports. It says what comes by them beside what comes to the workload."""
    port = PublishedPort("tcp", 8080, 5432)
    settled(node, publishing(excludes, port, PublishedPort("udp", 5353, 53)))
    status, out, dummy = explain(node, "10.244.70.66 db 5432/tcp")
    seen, word = ("10.244.70.66", "denies") if excludes else ("10.10.2.13", "allows")
    assert status == 1
    assert out.splitlines()[0] == "DENY   by no-jobs#1 (tier default), ingress of default/db"
    assert f"note   by port 8080/tcp of node1 it comes from {seen}: policy {word} it" in out.splitlines()
    assert "5353" not in out
    # The same, asked as the client sends it.
    status, out, dummy = explain(node, "10.244.70.66 node1 8080/tcp")
    assert (status, out.splitlines()[0]) == (
        (1, "DENY   by no-jobs#1 (tier default), ingress of default/db")
        if excludes
        else (
            0,
            "ALLOW  by profile projectcalico-default-allow#1, egress of default/jobs, and no-jobs#2 (tier default), "
            "ingress of default/db",
        )
    )
    path = "path   default/jobs calijobs -> node3 -> direct to 10.10.1.11 -> node1 -> "
    assert [line.partition("   mtu")[0] for line in out.splitlines() if line.startswith(("path", "note"))][:3] == [
        f"{path}cali0d3f1c11aa2 default/db",
        *([] if excludes else ["note   natOutgoing: beyond node3 it comes from 10.10.2.13"]),
        "note   port 8080/tcp of node1 leads to default/db, port 5432",
    ][:3]
    # Another port of the host leads nowhere.
    assert explain(node, "10.244.70.66 node1 8081/tcp")[1].splitlines()[0].startswith("ALLOW  by profile")


@pytest.mark.parametrize("excludes", [False, True])
def test_a_denied_workload_by_a_port_that_is_not_known_here(node: Node, excludes: bool) -> None:
    """The node of the client does not know which ports the other one publishes. It says what would differ."""
    own = dataclasses.replace(NO_JOBS, ingress=(PolicyRule("Deny", source=Entity(selector="!has(app)")), TO_ALL))
    state = dataclasses.replace(
        with_policy(policies=[own]), iptables=firewall.tables(GUARDED.pools, (), excludes_hosts=excludes)
    )
    settled(node, state)
    status, out, dummy = explain(node, "shop db-2 5432/tcp")
    assert (status, out.splitlines()[0]) == (1, "DENY   by no-jobs#1 (tier default), ingress of default/db-2")
    notes = [line for line in out.splitlines() if line.startswith(("note   by", "note   which"))]
    expected = [
        "note   by a published port of node3 it comes from 10.10.1.11: policy allows it",
        "note   which ports node3 publishes is known there alone: 5432/tcp, that of the workload, stands for them. "
        "Run calicoctl policy explain there",
    ]
    assert notes == ([] if excludes else expected)


@pytest.mark.parametrize(
    ("flow", "node3_alone_knows"),
    [
        ("shop node3 8080/tcp", True),
        ("shop node3 5353/udp", True),
        ("node1 node3 8080/tcp", True),
        ("shop node3 22/tcp", False),  # a failsafe port
        ("shop node3 179/tcp", False),  # BGP's
        ("shop node3 icmp", False),
        ("shop node1 8080/tcp", False),
        ("shop 192.0.2.1 8080/tcp", False),
        ("shop db-2 5432/tcp", False),
    ],
)
def test_a_port_of_another_node_may_lead_to_a_workload(node: Node, flow: str, node3_alone_knows: bool) -> None:
    settled(node, with_policy())
    port = flow.split()[-1]
    note = (
        f"note   which ports node3 publishes is known there alone: if {port} leads to a workload, its policy decides. "
        "Run calicoctl policy explain there"
    )
    notes = [line for line in explain(node, flow)[1].splitlines() if line.startswith("note   which")]
    assert notes == ([note] if node3_alone_knows else [])


def test_a_port_of_one_address_comes_first(node: Node) -> None:
    other = dataclasses.replace(
        DB_VETH, name="shop", namespace="prod", interface="cali99aabbccdde", address="10.244.3.3",
        ports=(PublishedPort("tcp", 8080, 80, "10.10.1.11"),),
    )  # fmt: skip
    state = publishing(False, PublishedPort("tcp", 8080, 5432))
    settled(node, dataclasses.replace(state, workloads=(*state.workloads, other)))
    assert (
        "note   port 8080/tcp of node1 leads to prod/shop, port 80" in explain(node, "10.244.70.66 node1 8080/tcp")[1]
    )


def test_an_answer_that_policy_without_tracking_drops(node: Node) -> None:
    """The answer to masqueraded packets comes to the node's own address. The exit status is that of a denial."""
    own = Endpoint("HostEndpoint", "node1-eth0", "node1", "eth0", (), (("role", "host"),), (ALLOW_ALL,))
    to_node = PolicyRule("Deny", protocol="tcp", destination=Entity(nets=("10.10.1.11/32",)))
    raw = Policy("raw", selector='role == "host"', ingress=(to_node,), do_not_track=True, apply_on_forward=True)
    settled(node, with_policy(own, policies=[raw]))
    status, out, errors = explain(node, "shop node2 8080/tcp")
    assert (status, errors) == (1, "")
    assert out.splitlines()[:4] == [
        "DENY   by raw#1 (tier default), untracked ingress of node1-eth0 for the answer",
        "  1 profile projectcalico-default-allow  egress                      MATCH rule 1: Allow",
        "  2 default                              forward egress              Allow: what is forwarded is allowed "
        "unless a policy denies it",
        "  3 raw                                  untracked ingress (answer)  MATCH rule 1: Deny",
    ]
    assert "hint   policies with doNotTrack decide on each packet alone: an answer needs rules of its own" in out
    document = json.loads(explain(node, "shop node2 8080/tcp -o json")[1])
    assert (document["verdict"], [stage["answer"] for stage in document["stages"]]) == ("deny", [False, False, True])


def test_a_node_without_policy(node: Node) -> None:
    expected = """\
ALLOW  node1 has no policy: all that can be routed passes
path   default/web-1 cali1f2e3d4c5b6 -> node1 -> tunl0 (IPIP to 10.10.2.13) -> node3 -> 10.244.70.65   mtu 1480
"""
    settled(node, dataclasses.replace(GUARDED, policy=None))
    assert explain(node, "web-1 10.244.70.65 5432/tcp") == (0, expected, "")
    document = json.loads(explain(node, "web-1 10.244.70.65 5432/tcp -o json")[1])
    assert (document["policy"], document["verdict"], document["stages"]) == (False, "allow", [])


def test_audit_mode_lets_it_through_and_says_so(node: Node) -> None:
    expected = """\
ALLOW  audit mode: platform.default-deny#2 (tier platform), egress of default/web-1, would deny
  1 platform.allow-dns     egress  no match: tcp is not udp
  2 platform.default-deny  egress  rule 1 no match: destination port 5432 is not 80
                                   MATCH rule 2: Deny (audit mode: logged and let through)
other  1 policy does not apply (verbose: which, and why)
path   default/web-1 cali1f2e3d4c5b6 -> node1 -> eth0 -> 10.10.1.53   mtu 1480
note   node1 is in audit mode: what policy denies is logged and let through
note   natOutgoing: beyond node1 it comes from 10.10.1.11
"""
    settled(node, with_policy(audit=True))
    assert explain(node, "web-1 10.10.1.53 5432/tcp") == (0, expected, "")
    document = json.loads(explain(node, "web-1 10.10.1.53 5432/tcp -o json")[1])
    assert (document["verdict"], document["would_deny"]) == ("allow", True)


def test_policies_that_do_not_apply(node: Node) -> None:
    settled(node)
    out = explain(node, "web-1 10.10.1.53 53/udp -v")[1]
    assert 'does not apply: app == "db" does not select default/web-1 (app=web, ' in out
    assert "other" not in out
    assert (
        out
        == explain(node, "web-1 10.10.1.53 53/udp --all")[1]
        == explain(node, "web-1 10.10.1.53 53/udp --verbose")[1]
    )


def test_the_source_port(node: Node) -> None:
    rule = PolicyRule("Allow", protocol="tcp", source=port(20))
    state = with_policy(policies=[Policy("first", tier="platform", order=0.5, types=("Egress",), egress=(rule,))])
    settled(node, state)
    assert "no match: source port 40000 is not 20\n" in explain(node, "web-1 db-2 5432/tcp")[1]
    assert (
        "first               egress   MATCH rule 1: Allow\n" in explain(node, "web-1 db-2 5432/tcp --source-port 20")[1]
    )


def test_explain_prints_json(node: Node) -> None:
    status, out, dummy = explain(settled(node), "web-1 db-2 5432/tcp -o json")
    document = json.loads(out)
    assert status == 1
    assert {name: value for name, value in document.items() if name != "stages"} == {
        "policy": True,
        "from": {"address": "10.244.3.2", "node": "node1", "workload": "default/web-1"},
        "to": {"address": "10.244.70.65", "node": "node3", "workload": "default/db-2"},
        "flow": {
            "protocol": 6, "source": "10.244.3.2", "destination": "10.244.70.65", "source_port": 40000,
            "destination_port": 5432, "icmp_type": None, "icmp_code": None,
        },
        "verdict": "deny",
        "would_deny": False,
        "path": {
            "text": "default/web-1 cali1f2e3d4c5b6 -> node1 -> tunl0 (IPIP to 10.10.2.13) -> node3 -> "
            "cali9ab4c1d2e3f default/db-2",
            "mtu": 1480,
        },
        "known": {"default/db-2": "on node3, from the run of 2026-11-21 14:02 UTC, 16 h ago"},
        "notes": [],
    }  # fmt: skip
    assert [(stage["host"], stage["endpoint"], stage["verdict"]) for stage in document["stages"]] == [
        ("node1", "default/web-1", "deny")
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("web-1 db-2 5432", "--port 5432 says no protocol. Write 5432/tcp or 5432/udp."),
        ("web-1 db-2 tcp", "--port tcp says no port. Write it as 5432/tcp."),
        ("web-1 db-2 0/tcp", "--port 0/tcp: '0' is no port, a number from 1 to 65535."),
        ("web-1 db-2 x/icmp", "--port x/icmp: 'x' is no ICMP type, a number from 0 to 254."),
        (
            "web-1 db-2 80/http",
            "--port 80/http: 'http' is none of the protocols icmp, icmpv6, sctp, tcp, udp. Write it as 5432/tcp.",
        ),
        (
            "web-1 db-2 80/tcp --source-port 0",
            "--source-port 0 is no port, a number from 1 to 65535.",
        ),
        (
            "web-2 db-2 80/tcp",
            "--from web-2 is neither an address nor a workload or node that node1 knows. Did you mean default/web-1? "
            "Workloads: default/db, default/db-2, default/web-1, prod/shop. Nodes: node1, node2, node3. "
            "Other nodes' workloads are known here if a rule means them; give others by address, or run "
            "playbooks/sync_workloads.yml.",
        ),
        (
            "web-1 10.244.3.2 80/tcp",
            "--from and --to are both 10.244.3.2: what one sends to itself meets no policy.",
        ),
        (
            "web-1 fd00::1 80/tcp",
            "--from 10.244.3.2 and --to fd00::1 are of different families: there is no such flow.",
        ),
        (
            "web-1 ::ffff:10.244.3.2 80/tcp",
            "--from and --to are both 10.244.3.2: what one sends to itself meets no policy.",
        ),
        (
            "fe80::1%eth0 web-1 80/tcp",
            "--from fe80::1%eth0 has a zone, and policy knows addresses without one. Write fe80::1, or the name of the "
            "workload or node.",
        ),
        (
            f"web-1 {'a' * 801} 80/tcp",
            f"--to {'a' * 40}... has 801 characters, and a name or address has at most 800. Give the address.",
        ),
    ],
)
def test_an_invalid_question_is_refused_with_the_reason(node: Node, line: str, error: str) -> None:
    assert explain(settled(node), line) == (2, "", f"calicoctl: {error}\n")


def test_an_ambiguous_name(node: Node) -> None:
    twin = dataclasses.replace(DB_2, name="prod/db", addresses=("10.244.70.70",))
    settled(node, with_policy(twin, dataclasses.replace(DB_2, name="default/node2")))
    assert explain(node, "web-1 db 80/tcp") == (
        2,
        "",
        "calicoctl: --to db is ambiguous: workload prod/db (10.244.70.70), workload default/db (10.244.3.1). "
        "Give a workload's namespace, too, or the address.\n",
    )
    assert explain(node, "node2 web-1 80/tcp")[2] == (
        "calicoctl: --from node2 is ambiguous: workload default/node2 (10.244.70.65), node node2 (10.10.1.12). "
        "Give a workload's namespace, too, or the address.\n"
    )
    assert explain(node, "default/db web-1 80/tcp")[0] == 0


def test_a_node_without_a_state(node: Node) -> None:
    expected = "calicoctl: this node has no state yet: there is no NODE/calico/state.json. Run playbooks/site.yml.\n"
    assert explain(node, "a b 80/tcp") == (2, "", expected)


def test_vxlan_without_bgp() -> None:
    state = NodeState(
        "node1",
        "10.10.1.11/24",
        devices=(TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11", "10.244.3.0"),),
        neighbors=(Neighbor("vxlan.calico", "10.244.50.0", "66:2d:bf:44:a6:8b"),),
        fdb=(FdbEntry("vxlan.calico", "66:2d:bf:44:a6:8b", "10.10.1.12"),),
        routes=(
            Route("10.244.50.0/26", device="vxlan.calico", gateway="10.244.50.0", onlink=True),
            Route("10.244.60.0/26", device="{underlay}", gateway="{via 10.10.2.13}", mtu=1400),
        ),
        nodes=(FleetMember("node2", "10.10.1.12/24", 64512), FleetMember("node3", "10.10.2.13/24", 64512)),
    )
    probed = with_probe_endpoint(state, probe_endpoint(["10.244.3.63"], [Pool("a", "10.244.0.0/16", 26, "VXLAN")]))
    leg = packet_way.leg_to(probed, "10.244.3.63")
    assert (leg.kind, leg.node, leg.device) == (packet_way.WORKLOAD, "node1", "caliprobe")
    leg = packet_way.leg_to(state, "10.244.50.7")
    assert (leg.node, leg.mtu, packet_way.hop_text(leg)) == ("node2", 1450, "vxlan.calico (VXLAN to 10.10.1.12)")
    leg = packet_way.leg_to(state, "10.244.60.7")
    said = packet_way.hop_text(leg, "eth0")
    assert (leg.node, leg.mtu, said) == ("node3", 1400, "eth0 (by the underlay's routing to 10.10.2.13)")


def test_a_name_that_is_taken_on_two_nodes_is_that_of_the_workload_here(node: Node) -> None:
    settled(node, with_policy(dataclasses.replace(DB_2, name="default/db", addresses=("10.244.70.71",))))
    end = json.loads(explain(node, "shop default/db 80/tcp -o json")[1])["to"]
    assert end == {"address": "10.244.3.1", "node": "node1", "workload": "default/db"}


def test_traffic_over_ipv6_is_explained(node: Node) -> None:
    """Flows over IPv6 to a workload and to a host are explained. `icmp` alone means ICMPv6; a type needs `/icmpv6`."""
    dual = dataclasses.replace(DB, addresses=("10.244.3.1", "fd00:244::1"))
    rule = PolicyRule("Allow", protocol="icmpv6", source=Entity(nets=("2001:db8::/32",)))
    ping = Policy("ping", selector='app == "db"', order=1.0, ingress=(rule,))
    state = with_policy(policies=[ping])
    assert state.policy is not None
    settled(node, dataclasses.replace(state, policy=dataclasses.replace(state.policy, endpoints=(dual, DB_2))))
    node.machine.kernel.address_add(InterfaceAddress("eth0", "2001:db8::11", 64))
    assert explain(node, "2001:db8::99 default/db icmp") == (
        0,
        """\
ALLOW  by ping#1 (tier default), ingress of default/db
  1 ping  ingress  MATCH rule 1: Allow
other  3 policies do not apply (verbose: which, and why)
path   2001:db8::99 -> eth0 -> node1 -> cali0d3f1c11aa2 default/db   mtu 1480
""",
        "",
    )
    assert explain(node, "2001:db8::99 node1 22/tcp")[1].splitlines()[0].startswith("ALLOW  nobody asks")
    assert explain(node, "2001:db8::99 default/db 3/icmp") == (
        2,
        "",
        "calicoctl: --port 3/icmp: the addresses are IPv6's, which has messages of its own. Write TYPE/icmpv6.\n",
    )


def test_the_age_of_what_was_collected(node: Node) -> None:
    """The output has the age of a workload that another node reported through the playbook."""
    settled(node)
    jobs = dataclasses.replace(
        DB_2, name="default/jobs", interface="calijobs", addresses=("10.244.70.66",), labels=(("tier", "back"),)
    )
    told = RemoteEndpoints({"node3": Collected("2026-11-22T05:30:00Z", (jobs,))})
    remote_endpoints.save(node.machine.store, remote_endpoints.KnownEndpoints(told))
    status, out, dummy = explain(node, "jobs default/db 5432/tcp")
    assert (status, out.splitlines()[-1]) == (
        0,
        "known  default/jobs: on node3, as playbooks/sync_workloads.yml found it at 2026-11-22 05:30 UTC, 32 min ago",
    )


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("2026-11-22T06:02:00Z", "2026-11-22 06:02 UTC, just now"),
        ("2026-11-19T06:02:00Z", "2026-11-19 06:02 UTC, 3 d ago"),
        ("2026-11-22T07:02:00Z", "2026-11-22 07:02 UTC"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_collection_time_is_shown_with_its_age(when: str, text: str) -> None:
    assert age.dated(when, NOW) == text


def test_a_node_that_is_not_as_it_is_to_be(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_source, "PATIENCE", 0.0)
    settled(node)
    answers = node.agents[-1].answers

    def note() -> str:
        return explain(node, "web-1 db-2 5432/tcp")[1].splitlines()[6]

    begin = "note   node1 differs from its state, and its kernel may decide otherwise: "
    answers["status"] = {"in_sync": False, "problems": []}
    assert note() == f"{begin}its agent is bringing it there"
    answers["status"] = {"in_sync": True, "problems": ["default/web is set aside.", "ipset: no.", "x"]}
    assert note() == f"{begin}default/web is set aside. And 2 more: calicoctl status says them."


def test_a_host_endpoint_as_an_end(node: Node) -> None:
    named = Endpoint("HostEndpoint", "node1-eth0", "node1", "eth0", labels=(("role", "host"),))
    everything = Endpoint("HostEndpoint", "all-of-node2", "node2", "*")
    unknown = Endpoint("HostEndpoint", "node3-eth7", "node3", "eth7")
    other = dataclasses.replace(unknown, name="node3-eth8", interface="eth8")
    settled(node, with_policy(named, everything, unknown, other))
    ends = json.loads(explain(node, "all-of-node2 node1-eth0 80/tcp -o json")[1])
    assert [ends[end]["address"] for end in ("from", "to")] == ["10.10.1.12", "10.10.1.11"]
    assert explain(node, "node1-eth0 node3-eth7 80/tcp") == (
        2,
        "",
        "calicoctl: --to node3-eth7: node1 does not say which address interface eth7 of node3 has. Give the address, "
        "or write it into expectedIPs of the HostEndpoint.\n",
    )


@pytest.mark.parametrize("device", ["tunl0", "vxlan.calico", "vxlan-v6.calico"])
def test_a_tunnel_is_not_taken_for_the_underlay_of_another_node(node: Node, device: str) -> None:
    """A HostEndpoint on a tunnel, of a node whose state is not known, gets no address, and leaves it to another one."""
    inside = Endpoint("HostEndpoint", "node3-tunnel", "node3", device)
    outside = Endpoint("HostEndpoint", "node3-eth0", "node3", "eth0")
    settled(node, with_policy(inside))
    error = (
        f"calicoctl: --to node3-tunnel: node1 does not say which address interface {device} of node3 has. Give the "
        "address, or write it into expectedIPs of the HostEndpoint.\n"
    )
    assert explain(node, "node1 node3-tunnel 80/tcp") == (2, "", error)
    both = Stored(with_policy(inside, outside), None, (), "ops@control", WHEN, complete=True)
    Store(node.machine.store).save(both)
    assert explain(node, "node1 node3-tunnel 80/tcp") == (2, "", error)
    assert json.loads(explain(node, "node1 node3-eth0 80/tcp -o json")[1])["to"]["address"] == "10.10.2.13"


def test_a_fault_is_no_verdict(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception or an interrupt ends `policy explain` with exit status 2, because 1 means denied."""

    def broken(*dummy: t.Any) -> t.Any:
        raise KeyError("labels")

    monkeypatch.setattr(flow_sweep, "question", broken)
    status, out, error = explain(settled(node), "web-1 db-2 5432/tcp")
    assert (status, out) == (2, "")
    assert re.sub(r"\(test_.*?\)", "(FILE:LINE)", error) == (
        "calicoctl: this is a fault of calicoctl, not of yours: KeyError: 'labels' (FILE:LINE). "
        f"Report it with release {VERSION} and the command line.\n"
    )
    monkeypatch.setattr(flow_sweep, "question", lambda *dummy: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert explain(node, "web-1 db-2 5432/tcp")[0] == 2


@pytest.mark.parametrize(
    ("peers", "said"),
    [
        ((2, 3), "eth0 (by 10.10.1.2 or 10.10.1.3 to 10.10.2.13)"),
        ((2,), "eth0 (by 10.10.1.2 to 10.10.2.13)"),
        ((), "eth0 (by the underlay's routing to 10.10.2.13)"),
    ],
)
def test_a_block_by_routers_alone(peers: tuple[int, ...], said: str) -> None:
    """The switches of the rack are named if no session of the fleet brings the route."""
    routers = tuple(BirdPeer(f"Node_{last}", f"10.10.1.{last}", 65101, "external", multihop=False) for last in peers)
    state = NodeState(
        "node1",
        "10.10.1.11/24",
        bird=Bird("10.10.1.11", "10.10.1.11", 64601, "10.10.1.0/24", peers=routers),
        bird_routes=(BirdRoute("10.244.60.0/26", "", node="node3", next_hop="10.10.2.13"),),
        nodes=(FleetMember("node3", "10.10.2.13/24", 64602),),
    )
    leg = packet_way.leg_to(state, "10.244.60.7")
    assert (leg.node, packet_way.hop_text(leg, "eth0")) == ("node3", said)
    assert packet_way.hop_text(leg, back_to="10.10.1.11") == "by the underlay's routing to 10.10.1.11"


def test_without_a_port_all_that_the_policies_distinguish_is_asked(node: Node) -> None:
    """Ranges end where a rule has a port, and ranges with one answer are one, with the answer for its ports."""
    settled(node)
    expected = """\
DENY   every kind of flow from default/web-1 to default/db-2
  DENY   by platform.default-deny#2 (tier platform), egress of default/web-1
         ping, 1-79/tcp, 81-65535/tcp, 1-52/udp, 54-65535/udp
  DENY   by the default of tier default, egress of default/web-1
         80/tcp
  DENY   by the default of tier default, ingress of default/db-2
         53/udp
path   default/web-1 cali1f2e3d4c5b6 -> node1 -> tunl0 (IPIP to 10.10.2.13) -> node3 -> \
cali9ab4c1d2e3f default/db-2   mtu 1480
"""
    asked = ("policy", "explain", "--from", "web-1", "--to", "db-2")
    assert node.run(*asked) == (1, expected, "")
    document = json.loads(node.run(*asked, "-o", "json")[1])
    assert (document["verdict"], [one["verdict"] for one in document["flows"]]) == ("deny", ["deny"] * 3)
    for one in document["flows"]:
        for kind in one["kinds"]:
            ports, dummy, protocol = kind.partition("/")
            for number in ports.split("-") if protocol else ():
                assert explain(node, f"web-1 db-2 {number}/{protocol}")[1].splitlines()[0] == one["text"]


def test_without_a_port_named_ports_and_types_of_icmp_count(node: Node) -> None:
    """What passes comes first; a name is a port of the receiver, and rules about another IP version are not asked."""
    rules = (
        PolicyRule("Allow", protocol="icmp", icmp=Icmp(3)),
        PolicyRule("Allow", protocol="icmpv6", icmp=Icmp(1)),
        PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(NamedPort("sql"), PortRange(8000, 8999)))),
        PolicyRule("Allow", protocol="sctp", destination=Entity(not_ports=(PortRange(7, 9),))),
        PolicyRule("Deny", protocol="udp"),
    )
    policies = [
        Policy("first", selector='app == "web"', tier="platform", order=0.1, types=("Egress",), egress=rules),
    ]
    named = dataclasses.replace(DB_2, ports=(DefinedPort("sql", "tcp", 5432), DefinedPort("sql", "udp", 99)))
    allowed = Policy("in", selector="all()", tier="platform", order=0.2, ingress=(PolicyRule("Allow"),))
    made = policy_set(POLICIES.tiers, (*POLICIES.policies, *policies, allowed), POLICIES.profiles)
    settled(node, dataclasses.replace(GUARDED, policy=PolicyState(made, (DB, named))))
    asked = ("policy", "explain", "--from", "web-1", "--to", "db-2")
    status, out, errors = node.run(*asked)
    assert (status, errors) == (0, "")
    assert out.splitlines()[:7] == [
        "SOME   flows pass, and others do not, from default/web-1 to default/db-2",
        "  ALLOW  by first#1 (tier platform), egress of default/web-1, and in#1 (tier platform), ingress of "
        "default/db-2",
        "         3/icmp",
        "  ALLOW  by first#3 (tier platform), egress of default/web-1, and in#1 (tier platform), ingress of "
        "default/db-2",
        "         5432/tcp, 8000-8999/tcp",
        "  ALLOW  by first#4 (tier platform), egress of default/web-1, and in#1 (tier platform), ingress of "
        "default/db-2",
        "         1-6/sctp, 10-65535/sctp",
    ]
    assert "         all udp" in out.splitlines()
    assert json.loads(node.run(*asked, "-o", "json")[1])["verdict"] == "some"


def test_without_a_port_a_node_without_policy_and_very_many_ports(node: Node) -> None:
    asked = ("policy", "explain", "--from", "web-1", "--to", "db-2")
    ports = Entity(ports=tuple(PortRange(number, number) for number in range(2, 2000, 2)))
    many = Policy(
        "many",
        selector='app == "web"',
        types=("Egress",),
        egress=(PolicyRule("Allow", protocol="tcp", destination=ports),),
    )
    settled(node, with_policy(policies=[many]))
    out = node.run(*asked)[1]
    assert "note   1717 more ranges of ports are told apart by rules: ask for a port" in out
    Store(node.machine.store).save(
        Stored(dataclasses.replace(GUARDED, policy=None), None, (), "ops@control", WHEN, complete=True)
    )
    status, out, errors = node.run(*asked[:-1], "10.244.70.65")
    assert (status, errors) == (0, "")
    assert out.splitlines()[0] == "ALLOW  node1 has no policy: all that can be routed passes"
    refusal = "calicoctl: --from is not set. Name the sender: a workload, a node or an address.\n"
    assert node.run("policy", "explain", "--from", "", "--to", "db-2") == (2, "", refusal)
