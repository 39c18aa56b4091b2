# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy's answer for a flow from an inventory: verdict, path and notes."""

from __future__ import annotations

import collections
import itertools
import json
import os
import pathlib
import re
import types
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import policy_explain
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_answer import FlowAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked, question
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.known_network import KnownNetwork
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.sources import Sources
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import all_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_network
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.inventory_network import known_network

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import write_route
from tests.unit.fleet.bad_inventories import ALL, HOSTS, Case
from tests.unit.fleet.fleets import ADDRESSES6, build, pool, workload
from tests.unit.fleet.run.test_policy_notices import variables_in
from tests.unit.plugin_utils import controller

ROOT = pathlib.Path(__file__).resolve().parents[4]
WORKLOADS = [
    workload("web", "node1", labels={"app": "web"}, address="10.244.1.1"),
    workload("db", "node3", labels={"app": "db"}, address="10.244.3.1"),
    workload("cache", "node1", labels={"app": "cache"}, address="10.244.1.2"),
]
DB = {
    "kind": "NetworkPolicy",
    "name": "db",
    "selector": "app == 'db'",
    "ingress": [
        {"action": "Allow", "protocol": "TCP", "source": {"selector": "app == 'web'"}, "destination": {"ports": [5432]}}
    ],
}


def fleet(*policies: t.Mapping[str, t.Any], mode: str = "ipip-crosssubnet", **more: t.Any) -> t.Any:
    named: dict[str, t.Any] = {"policies": list(policies)} if policies else {}
    return build(pool(mode, natOutgoing=True), workloads=WORKLOADS, **named, **more)


def explain(of: t.Any, line: str) -> str:
    return "\n".join(FlowAnswer(question(known_network(of), Asked(*line.split()))).lines())


@pytest.mark.parametrize("policies", [(), (DB,)], ids=["no-policy", "policy"])
def test_only_nodes_of_the_flow_are_compiled(monkeypatch: pytest.MonkeyPatch, policies: t.Any) -> None:
    """A question compiles the states of the two nodes that it is about: those of all grow quadratically."""
    compiled = []
    node_state = inventory_network.compiler.node_state

    def counted(of: Fleet, name: str) -> NodeState:
        compiled.append(name)
        return node_state(of, name)

    monkeypatch.setattr(inventory_network.compiler, "node_state", counted)
    assert explain(fleet(*policies), "web node3 5432/tcp").startswith("ALLOW")
    assert sorted(compiled) == ["node1", "node3"]


def test_endpoints_without_policy_are_those_of_the_states() -> None:
    """Without policy, the known endpoints are the workloads in the states of all nodes."""
    known = known_network(fleet())
    states = [known.states[node] for node in known.states]
    assert list(known.endpoints) == [one for state in states for one in all_endpoints(state, PolicyState())]
    assert len(known.endpoints) == len(WORKLOADS)


def test_from_one_node_to_another() -> None:
    assert explain(fleet(DB), "web db 5432/tcp") == (
        "ALLOW  by profile projectcalico-default-allow#1, egress of default/web, and default/db#1 (tier default), "
        "ingress of default/db\n"
        "  1 profile projectcalico-default-allow  egress   MATCH rule 1: Allow\n"
        "  2 default/db                           ingress  MATCH rule 1: Allow\n"
        "path   default/web cali68caf03a5f4 -> node1 -> tunl0 (IPIP to 10.10.2.13) -> node3 -> "
        "calie57ed5aa5ae default/db   mtu 1480\n"
        "known  default/web, default/db: as the inventory has it"
    )


@pytest.mark.parametrize(
    ("mode", "line", "way"),
    [
        ("direct", "web db icmp", "node1 -> by the underlay's routing to 10.10.2.13 -> node3 -> "),
        ("vxlan", "web db icmp", "node1 -> vxlan.calico (VXLAN to 10.10.2.13) -> node3 -> "),
        ("ipip-crosssubnet", "cache web icmp", "node1 -> cali68caf03a5f4 default/web   mtu 1480"),
        ("ipip", "web 192.0.2.7 53/udp", "node1 -> the underlay -> 192.0.2.7   mtu 1480"),
        ("ipip", "192.0.2.7 db 5432/tcp", "path   192.0.2.7 -> node3 -> calie57ed5aa5ae default/db   mtu 1480"),
        ("ipip", "10.10.1.12 node1 22/tcp", "path   node2 -> direct to 10.10.1.11 -> node1"),
    ],
)
def test_an_explanation_names_the_way_of_the_packets(mode: str, line: str, way: str) -> None:
    assert way in explain(fleet(DB, mode=mode), line)


@pytest.mark.parametrize(
    ("mode", "line", "way"),
    [
        ("vxlan", "fd00:10:244::1 db icmp", "node1 -> vxlan-v6.calico (VXLAN to fd00:10:10:2::13) -> node3 -> "),
        ("vxlan-crosssubnet", "fd00:10:244::1 fd00:10:10:1::12 22/tcp", "node1 -> direct to fd00:10:10:1::12 -> node2"),
        ("direct", "web fd00:10:244::103 icmp", "node1 -> by the underlay's routing to fd00:10:10:2::13 -> node3 -> "),
        ("direct", "web 2001:db8::7 53/udp", "node1 -> the underlay -> 2001:db8::7   mtu 1480"),
        ("direct", "web 2001:db8::7 53/udp", "note   natOutgoing: beyond node1 it comes from fd00:10:10:1::11"),
        ("direct", "fd00:10:10:1::12 node1 22/tcp", "path   node2 -> direct to fd00:10:10:1::11 -> node1"),
        ("vxlan", "node1 db 5432/tcp", "node1 -> tunl0 (IPIP to 10.10.2.13) -> node3"),
    ],
)
def test_an_explanation_names_the_way_of_ipv6_packets(mode: str, line: str, way: str) -> None:
    six = [{**one, "address_ipv6": f"fd00:10:244::{n}"} for one, n in zip(WORKLOADS, ("1", "103", "2"))]
    made = build(
        pool("ipip"), pool(mode, "six", "fd00:10:244::/64", natOutgoing=True), workloads=six, own=ADDRESSES6,
        policies=[DB],
    )  # fmt: skip
    assert way in explain(made, line)


def test_bgp_and_bfd_ports_are_exempt_from_outgoing_nat() -> None:
    made = build(pool("direct", natOutgoing=True), workloads=WORKLOADS)
    asked = {"80/tcp": True, "179/tcp": False, "179/udp": True, "4784/udp": False, "icmp": True}
    answers = {port: "natOutgoing" in explain(made, f"web 192.0.2.7 {port}") for port in asked}
    assert answers == asked


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("web db icmp", "node1 -> vxlan-v6.calico (VXLAN to fd00:10:10:2::13) -> node3 -> "),
        ("web node3 22/tcp", "node1 -> direct to fd00:10:10:2::13 -> node3"),
        ("node2 node1 22/tcp", "path   node2 -> direct to fd00:10:10:1::11 -> node1"),
    ],
)
def test_ways_of_nodes_with_ipv6_alone(line: str, way: str) -> None:
    ends = zip(WORKLOADS, ("1", "103", "2"))
    six = [{**one, "address": None, "address_ipv6": f"fd00:10:244::{number}"} for one, number in ends]
    made = build(
        pool("vxlan", "six", "fd00:10:244::/64", natOutgoing=True), workloads=six, policies=[DB],
        own={name: {**own, "calico_node_address": None} for name, own in ADDRESSES6.items()},
    )  # fmt: skip
    assert way in explain(made, line)


def test_a_node_sends_from_the_address_of_its_tunnel() -> None:
    made = fleet(DB, mode="ipip")
    tunnel = made.ipam_of("node1").tunnels["ipip"]
    unknown = f"no match: source {tunnel} (of no endpoint and no network set) is not selected"
    assert unknown in explain(made, "node1 db 5432/tcp")
    lines = explain(made, f"db {tunnel} 80/tcp").splitlines()
    path = next(line for line in lines if line.startswith("path"))
    assert path.endswith("(IPIP to 10.10.1.11) -> node1   mtu 1480")


def test_an_unknown_address_in_a_block_of_a_node_gets_a_note() -> None:
    block = fleet(DB).ipam_of("node1").blocks[0].cidr.partition("/")[0]
    unused = block.rpartition(".")[0] + ".60"
    assert explain(fleet(DB), f"db {unused} 80/tcp").splitlines()[-2] == (
        f"note   {unused} is in a block of node1 and of no workload of the inventory: node1 asks policy of its own. "
        "Run calicoctl policy explain there"
    )


HEP = {"kind": "HostEndpoint", "name": "node2-eth0", "interfaceName": "eth0", "labels": {"role": "host"}}
SSH = {
    "kind": "GlobalNetworkPolicy",
    "name": "ssh",
    "selector": "role == 'host'",
    "ingress": [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [2222]}}],
}


def hosts_fleet(**endpoint: t.Any) -> t.Any:
    return fleet(SSH, own={"node2": {"calico_node_policies": [{**HEP, **endpoint}]}}, mode="direct")


def test_flows_between_hosts_are_explained() -> None:
    assert explain(hosts_fleet(), "node1 node2-eth0 8080/tcp") == (
        "DENY   by the default of tier default, ingress of node2-eth0\n"
        "  1 ssh           ingress  no match: destination port 8080 is not 2222\n"
        "  2 tier default  ingress  Deny: no policy of the tier that applies decides\n"
        "path   node1 -> direct to 10.10.1.12 -> node2   mtu 1500\n"
        "note   which ports node2 publishes is known there alone: if 8080/tcp leads to a workload, its policy decides. "
        "Run calicoctl policy explain there\n"
        "note   eth0 of HostEndpoint node2-eth0 is taken to be where node2 has 10.10.1.12; with expectedIPs: "
        "[10.10.1.12] it would be certain"
    )
    certain = hosts_fleet(expectedIPs=["10.10.1.12"])
    assert "is taken to be" not in explain(certain, "node1 node2 8080/tcp")
    assert explain(certain, "node1 node2 2222/tcp").startswith(
        "ALLOW  by ssh#1 (tier default), ingress of node2-eth0\n"
    )
    assert explain(certain, "198.51.100.1 node2-eth0 22/tcp").splitlines()[1] == (
        "  1 default  ingress  Allow: tcp port 22 is a failsafe"
    )


def test_an_inventory_without_policy() -> None:
    assert explain(fleet(), "web db 1/tcp").splitlines()[0] == (
        "ALLOW  the inventory has no policy: all that can be routed passes"
    )


def test_each_node_has_settings_of_its_own() -> None:
    audited = fleet(DB, own={"node3": {"calico_node_policy_audit": True}})
    lines = explain(audited, "cache db 5432/tcp").splitlines()
    assert lines[0].startswith("ALLOW")
    assert "note   node3 is in audit mode: what policy denies is logged and let through" in lines
    elsewhere = fleet(DB, own={"node1": {"calico_node_policy_audit": True}})
    assert explain(elsewhere, "cache db 5432/tcp").startswith("DENY")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "wbe db 80/tcp",
            "--from wbe is neither an address nor a workload or node that the inventory knows. Did you mean default/"
            "web? Workloads: default/cache, default/db, default/web. Nodes: node1, node2, node3, node4. HostEndpoints: "
            "node2-eth0. Workloads that agents attach between runs are not known to it; give those by address.",
        ),
        ("192.0.2.1 192.0.2.2 80/tcp", "neither --from 192.0.2.1 nor --to 192.0.2.2 is of this fleet."),
        (
            "web node2-eth1 80/tcp",
            "--to node2-eth1: the inventory does not say which address interface eth1 of node2 has. Give the address, "
            "or write it into expectedIPs of the HostEndpoint.",
        ),
    ],
)
def test_a_flow_with_unknown_ends_is_refused_with_a_remedy(line: str, error: str) -> None:
    two = [HEP, {**HEP, "name": "node2-eth1", "interfaceName": "eth1"}]
    made = fleet(SSH, own={"node2": {"calico_node_policies": two if "eth1" in line else [HEP]}})
    with pytest.raises(CommandError) as caught:
        explain(made, line)
    assert str(caught.value) == error


def as_node_knows(state: NodeState) -> KnownNetwork:
    """Return the network as calicoctl knows it on the node of `state`, which has no workloads of an agent."""
    kernel = FakeKernel()
    kernel.link_add(NewLink("eth0", "bridge"))
    kernel.link_set("eth0", up=True)
    kernel.address_add(InterfaceAddress("eth0", state.address.partition("/")[0], 16))
    write_route(kernel, "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.10.0.1"))
    sources = types.SimpleNamespace(
        stored_with_names=lambda: (Stored(state, None, when="2026-11-22T06:00:00Z"), None),
        workloads=list,
        state=lambda: state,
        machine=types.SimpleNamespace(kernel=kernel),
        paths=types.SimpleNamespace(store="/nonexistent"),
    )
    return policy_explain._known(t.cast(Sources, sources))


def shop(*policies: t.Mapping[str, t.Any], **more: t.Any) -> Fleet:
    """Return the fleet of inventories/three-tier-policy with more policies, and `more` arguments of `build`.

    Raise FleetError if one is invalid.
    """
    folder = ROOT / "inventories" / "three-tier-policy"
    variables = variables_in(folder)
    groups = yaml.safe_load((folder / "hosts.yml").read_text("utf-8"))["calico_nodes"]["children"].values()
    return build(
        *variables["calico_ip_pools"],
        nodes={name: one["calico_node_address"] for group in groups for name, one in group["hosts"].items()},
        workloads=variables["calico_workloads"],
        policies=[*variables["calico_policies"], *policies],
        **more,
    )


def test_the_page_shows_what_a_node_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of docs/how-to/policy.md shows a node's answer; DOCUMENTATION=write renews it."""
    monkeypatch.setattr(policy_explain, "now", lambda: 1795338000.0)
    page = ROOT / "docs" / "how-to" / "policy.md"
    text = page.read_text("utf-8")

    def shown(found: re.Match[str]) -> str:
        words = dict(re.findall(r"--(\w+) (\S+)", found["command"]))
        asked = Asked(words["from"], words["to"], words["port"])
        lines = FlowAnswer(question(as_node_knows(known_network(shop()).states[found["node"]]), asked)).lines()
        return "\n".join(["```text", found["command"], *lines, "```"])

    actual = re.sub(r"```text\n(?P<command>(?P<node>node\d)# calicoctl[^\n]*)\n.*?```", shown, text, flags=re.DOTALL)
    if os.environ.get("DOCUMENTATION") == "write":
        page.write_text(actual, "utf-8")
    assert actual == text
    assert "node1# calicoctl" in text


def test_it_says_what_both_nodes_say() -> None:
    """The inventory allows a flow exactly if all its nodes do, in a shop of three tiers with policy for a host."""
    made = shop(SSH, own={"node2": {"calico_node_policies": [{**HEP, "expectedIPs": ["10.10.1.12"]}]}})
    whole = known_network(made)
    nodes = {name: as_node_knows(whole.states[name]) for name in whole.members}
    ends = [*(one.name for one in whole.endpoints if one.kind == "WorkloadEndpoint"), "node1", "node2", "192.0.2.9"]
    verdicts = collections.Counter[str]()
    for source, destination in itertools.permutations(ends, 2):
        for port in ("80/tcp", "8080/tcp", "2222/tcp", "5432/tcp"):
            asked = question(whole, Asked(source, destination, port))
            said = FlowAnswer(asked).path.action
            by_node = [
                FlowAnswer(
                    question(nodes[node], Asked(asked.source.address, asked.destination.address, port))
                ).path.action
                for node in asked.nodes
            ]
            assert said == ("deny" if "deny" in by_node else "allow"), (source, destination, port, by_node)
            verdicts[said] += 1
    assert min(verdicts["allow"], verdicts["deny"]) > 50


def test_the_action(tmp_path: pathlib.Path) -> None:
    """The action policy_explain answers without a connection to a host, and neither needs nor writes the lockfile.

    It fails if the verdict is not the expected one, or if an argument is invalid.
    """
    policies = f"calico_workloads: {json.dumps(WORKLOADS)}\ncalico_policies: {json.dumps([DB])}\n"
    text = ALL + policies.replace("node3", "node2")
    Case("one", text, HOSTS, None, {}, None, "", "").write(tmp_path)

    def run(**args: t.Any) -> controller.Run:
        asked = {"from": "web", "to": "db", "port": "5432/tcp", **args}
        return controller.Run("policy_explain", asked, str(tmp_path / "hosts.yml"), {"node1": {}})

    results = controller.run(
        [run(), run(port="80/tcp", output="json"), run(port="80/tcp", expect="allow"), run(to="dc"), run(port="80")]
    )
    assert [result.get("exception") for result in results] == [None] * 5
    allowed, denied, unexpected, unknown, no_protocol = results
    assert (allowed["verdict"], allowed["answer"]["verdict"], allowed["changed"]) == ("allow", "allow", False)
    assert allowed["lines"][-2:] == [
        f"note   {tmp_path}/.calico.lock.yml does not exist yet: addresses are those that a first run would plan",
        "known  default/web, default/db: as the inventory has it",
    ]
    assert (denied["verdict"], denied.get("failed")) == ("deny", None)
    assert (unexpected["failed"], unexpected["msg"]) == (
        True,
        "expected allow: DENY   by the default of tier default, ingress of default/db",
    )
    assert unknown["msg"].startswith(
        "to dc is neither an address nor a workload or node that the inventory knows. Workloads"
    )
    assert no_protocol["msg"] == "port 80 says no protocol. Write 80/tcp or 80/udp."
    assert not (tmp_path / ".calico.lock.yml").exists()
