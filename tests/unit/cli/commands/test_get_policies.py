# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get` of policy: tables, and documents that `validate` accepts and that match the node's policy."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.live_reader import ReadDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy as stored_live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.live_policy import StoredLivePolicy
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import Resource, parse
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)

from tests.unit.cli.conftest import ALONE, STATE, Node


def resource(kind: str, name: str, **flat: t.Any) -> Resource:
    metadata = {"name": name, **{key: flat.pop(key) for key in ("namespace", "labels") if key in flat}}
    return parse({"kind": kind, "metadata": metadata, "spec": flat})


RESOURCES = [
    resource("Tier", "platform", order=10, defaultAction="Pass"),
    resource("GlobalNetworkPolicy", "platform.dns", tier="platform", order=2.5, egress=[{"action": "Allow"}]),
    resource(
        "NetworkPolicy", "db", selector="app == 'db'",
        ingress=[{"action": "Allow", "protocol": "TCP", "source": {"selector": "app == 'web'"}}],
    ),
    resource("NetworkPolicy", "shop", namespace="prod"),
    resource("StagedNetworkPolicy", "db", selector="app == 'db'"),
    resource("GlobalNetworkPolicy", "watched", selector="has(x)"),
    resource("Profile", "strict", labelsToApply={"zone": "x", "a": "b"}),
    resource("GlobalNetworkSet", "offices", nets=["192.0.2.0/24", "198.51.100.0/24"], labels={"who": "us"}),
    resource("NetworkSet", "friends", nets=["203.0.113.0/24"], namespace="prod", labels={"who": "they"}),
]  # fmt: skip
HOST = model.Endpoint(
    "HostEndpoint", "node1-eth0", "node1", "eth0", ("10.10.1.11",), (("role", "gateway"),), ("strict",),
    (model.DefinedPort("ssh", "tcp", 22),),
)  # fmt: skip
DB = model.Endpoint(
    "WorkloadEndpoint", "default/db", "node1", "cali0d3f1c11aa2", ("10.244.3.1",), profiles=("strict",),
    ports=(model.DefinedPort("sql", "tcp", 5432),), namespace="default",
)  # fmt: skip
_FOUND = from_resources.policy_set(RESOURCES, staged=["watched"])
POLICY = PolicyState(
    model.policy_set(_FOUND.tiers, _FOUND.policies, [*_FOUND.profiles, allow_all()], _FOUND.network_sets),
    (HOST, DB),
    PolicySettings(workload_profiles=("strict", "other")),
)
KINDS = (
    "felixconfig", "ipamconfig", "gnp", "np", "sgnp", "snp", "tiers", "profiles", "gnetsets", "netsets", "heps", "wep",
)  # fmt: skip


@pytest.fixture
def guarded(node: Node) -> Node:
    node.store(dataclasses.replace(STATE, policy=POLICY))
    node.agent()
    return node


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("globalnetworkpolicy", "NAME           TIER\nplatform.dns   platform\n\n"),
        ("gnp -o wide", "NAME           TIER       ORDER   SELECTOR\nplatform.dns   platform   2.5     all()\n\n"),
        ("np", "NAME   TIER\ndb     default\n\n"),
        (
            "np -A -o wide",
            'NAMESPACE   NAME   TIER      ORDER   SELECTOR\ndefault     db     default           app == "db"\n'
            "prod        shop   default           all()\n\n",
        ),
        ("snp", "NAME   TIER\ndb     default\n\n"),
        ("sgnp -o wide", "NAME      TIER      ORDER   SELECTOR\nwatched   default           has(x)\n\n"),
        ("tier", "NAME       ORDER\nplatform   10\ndefault    1e+06\n\n"),
        (
            "pro -o wide",
            "NAME                           LABELS\nprojectcalico-default-allow   \nstrict  a=b,zone=x\n\n",
        ),
        ("gnetsets -o wide", "NAME      NETS\noffices   192.0.2.0/24,198.51.100.0/24\n\n"),
        ("netsets -n prod", "NAMESPACE   NAME\nprod        friends\n\n"),
        (
            "hep -o wide",
            "NAME         NODE    INTERFACE   IPS          PROFILES\n"
            "node1-eth0   node1   eth0        10.10.1.11   strict\n\n",
        ),
        (
            "wep -o custom-columns=WORKLOAD,PROFILES",
            "WORKLOAD   PROFILES\ndb         strict\nweb-1      strict,other\n\n",
        ),
    ],
)
def test_get_prints_tables_of_policies(guarded: Node, arguments: str, expected: str) -> None:
    status, out, err = guarded.run("get", *arguments.split())
    assert (status, err) == (0, ALONE if arguments.startswith("wep") else "")
    if "LABELS" in expected:
        assert [line.split() for line in out.splitlines()] == [line.split() for line in expected.splitlines()]
    else:
        assert out == expected


LIVE = [
    resource("Tier", "platform", order=99),
    resource("Tier", "shops", order=20),
    resource("GlobalNetworkPolicy", "platform.dns", tier="platform", order=7),
    resource("GlobalNetworkPolicy", "shops.open", tier="shops", order=3),
    resource("NetworkPolicy", "shop", namespace="test"),
    resource("StagedNetworkPolicy", "later"),
    resource("GlobalNetworkSet", "blocked", nets=["203.0.113.7/32"]),
    resource("NetworkSet", "friends", nets=["203.0.113.9/32"], namespace="prod"),
]


def with_live(node: Node, allowed: bool = True) -> None:
    """Let the node have a live policy on its disk."""
    settings = dataclasses.replace(POLICY.settings, live=allowed)
    node.store(dataclasses.replace(STATE, policy=dataclasses.replace(POLICY, settings=settings)))
    documents = {}
    for one in LIVE:
        key = DocumentKey(one.KIND, getattr(one.metadata, "namespace", ""), one.name)
        value = live_documents.value_of(one)
        documents[key] = ReadDocument(value, live_documents.pack(value))
    values = [one.value for one in documents.values() if one.value is not None]
    stored = StoredLivePolicy(live_policy.resolve(POLICY.policy_set, values), documents, 1, 1)
    stored_live_policy.save(node.machine.store, stored)


@pytest.mark.parametrize(
    ("arguments", "sources"),
    [
        ("gnp", {"platform.dns": "inventory, hiding a live one", "shops.open": "live"}),
        ("np -A", {"db": "inventory", "shop": "inventory", "shop test": "live"}),
        ("snp", {"db": "inventory", "later": "live"}),
        ("tiers", {"platform": "inventory, hiding a live one", "shops": "live", "default": "inventory"}),
        ("gnetsets", {"offices": "inventory", "blocked": "live"}),
        ("netsets -A", {"friends": "inventory, hiding a live one"}),
    ],
)
def test_a_node_says_what_is_live(guarded: Node, arguments: str, sources: t.Mapping[str, str]) -> None:
    """The column is there with -o wide alone, and documents stay as they are."""
    with_live(guarded)
    status, out, err = guarded.run("get", *arguments.split(), "-o", "wide")
    assert (status, err) == (0, "")
    heading, *rows = out.strip().splitlines()
    place = heading.index("SOURCE")
    first = heading.index("NAME ")
    found = {}
    for row in rows:
        name = row[first:].split()[0]
        found[f"{name} test" if row.startswith("test ") else name] = row[place:]
    assert found == sources
    assert "SOURCE" not in guarded.run("get", *arguments.split())[1]
    assert "host-routing/source" not in guarded.run("get", *arguments.split(), "-o", "yaml")[1]


def test_a_node_without_live_policy_has_calicos_columns(guarded: Node) -> None:
    with_live(guarded, allowed=False)
    for kind in ("gnp", "np", "tiers", "gnetsets"):
        assert "SOURCE" not in guarded.run("get", kind, "-o", "wide")[1]
    with_live(guarded)
    assert "SOURCE" not in guarded.run("get", "profiles", "-o", "wide")[1]


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_what_validate_takes_and_mean_what_the_node_has(guarded: Node, kind: str) -> None:
    namespaces = ("-A",) if kind in ("np", "snp", "netsets", "wep") else ()
    status, text, dummy = guarded.run("get", kind, *namespaces, "-o", "yaml")
    assert status == 0
    found = yaml.safe_load(text)
    assert found == json.loads(guarded.run("get", kind, *namespaces, "-o", "json")[1])
    path = guarded.folder / "found.yaml"
    path.write_text(text)
    assert guarded.run("validate", "-f", str(path)) == (
        0, f"Successfully validated {len(found['items'])} resource(s)\n", ""
    )  # fmt: skip
    if kind == "wep":
        db = next(item["spec"] for item in found["items"] if item["spec"]["workload"] == "db")
        assert db["ports"] == [{"name": "sql", "protocol": "TCP", "port": 5432}]
        return
    if kind == "heps":
        back = [from_resources.host_endpoint(t.cast(t.Any, parse(item))) for item in found["items"]]
        assert back == [HOST]
        return
    tiers = [parse(item) for item in json.loads(guarded.run("get", "tiers", "-o", "json")[1])["items"]]
    others = [parse(item) for item in found["items"] if item["kind"] != "Tier"]
    again = from_resources.policy_set([*tiers, *others])
    known = {**{one.name: one for one in POLICY.policy_set.policies}, "staged:watched": _WATCHED}
    assert again.tiers == POLICY.policy_set.tiers
    assert all(known[one.name] == one for one in again.policies)
    assert set(again.profiles) <= set(POLICY.policy_set.profiles)
    assert set(again.network_sets) <= set(POLICY.policy_set.network_sets)
    assert len(found["items"]) == {"gnp": 1, "np": 2, "sgnp": 1, "snp": 1, "tiers": 2, "profiles": 2}.get(kind, 1)


_WATCHED = dataclasses.replace(
    next(one for one in POLICY.policy_set.policies if one.name == "watched"), name="staged:watched"
)


def test_a_policy_is_shown_by_name(guarded: Node) -> None:
    status, text, dummy = guarded.run("get", "np", "db", "-o", "yaml")
    assert status == 0
    assert text == (
        "apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata:\n  name: db\n  namespace: default\nspec:\n"
        "  ingress:\n  - action: Allow\n    protocol: TCP\n    source:\n"
        '      selector: "app == \\"web\\""\n  selector: "app == \\"db\\""\n'
        "  tier: default\n  types:\n  - Ingress\n"
    )  # fmt: skip


def test_without_policy_there_is_none(node: Node) -> None:
    node.store()
    assert node.run("get", "gnp") == (0, "NAME   TIER\n\n", "")
    assert node.run("get", "hep") == (0, "NAME   NODE\n\n", "")


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (1000000, "1e+06"),
        (1000001, "1.000001e+06"),
        (123456, "123456"),
        (100.1234567, "100.1234567"),
        (-2500000, "-2.5e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e100, "1e+100"),
        (0, "0"),
    ],
)
def test_an_order_is_shown_as_go_prints_it(guarded: Node, order: float, shown: str) -> None:
    """The column ORDER has all digits of an order, as Go's fmt prints a float64 by %v."""
    policies = from_resources.policy_set([resource("Tier", "platform", order=order)])
    guarded.store(dataclasses.replace(STATE, policy=PolicyState(policies)))
    status, out, err = guarded.run("get", "tier", "platform")
    assert (status, err) == (0, "") and out.split() == ["NAME", "ORDER", "platform", shown]


def ingress(source: str = "", protocol: str = "tcp") -> tuple[model.PolicyRule, ...]:
    return (model.PolicyRule("Allow", protocol=protocol, source=model.Entity(selector=source)),)


SELECTOR = (
    "app == is not a selector: at column 7, expected a string in quotes. Write for example rack == 'a' && !has(spare)."
)
PROTOCOL = "gre is not a protocol. Write TCP, UDP, ICMP, ICMPv6, SCTP, UDPLite or a number from 1 to 255."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selector": "app =="}, f"spec.selector {SELECTOR}"),
        ({"ingress": ingress("app ==")}, f"spec.ingress[0].source.selector {SELECTOR}"),
        ({"ingress": ingress(protocol="gre")}, f"spec.ingress[0].protocol {PROTOCOL}"),
    ],
)
def test_a_policy_of_another_release(guarded: Node, changes: dict[str, t.Any], message: str) -> None:
    """A stored policy that this release cannot read is named with the field, and is no fault of calicoctl."""
    kept = from_resources.policy_set([resource("NetworkPolicy", "db", selector="app == 'db'")])
    policies = dataclasses.replace(kept, policies=(dataclasses.replace(kept.policies[0], **changes),))
    guarded.store(dataclasses.replace(STATE, policy=PolicyState(policies)))
    problem = f"state.json has a NetworkPolicy that this release does not know: NetworkPolicy db: {message}"
    assert guarded.run("get", "np") == (1, "", f"calicoctl: {problem}\n")


def test_a_profile_and_a_host_endpoint_of_another_release(guarded: Node) -> None:
    profile = model.PolicyProfile("strict", ingress=ingress("app =="))
    host = dataclasses.replace(HOST, ports=(model.DefinedPort("tunnel", "gre", 22),))
    policies = dataclasses.replace(POLICY.policy_set, profiles=(profile,))
    guarded.store(dataclasses.replace(STATE, policy=PolicyState(policies, (host,))))
    problem = (
        "state.json has a Profile that this release does not know: Profile strict: spec.ingress[0].source.selector"
    )
    assert guarded.run("get", "profiles") == (1, "", f"calicoctl: {problem} {SELECTOR}\n")
    problem = "state.json has a HostEndpoint that this release does not know: HostEndpoint node1-eth0: "
    problem += f"spec.ports[0].protocol {PROTOCOL}"
    assert guarded.run("get", "heps") == (1, "", f"calicoctl: {problem}\n")


def test_felix_s_settings_are_those_of_the_node_s_policy(guarded: Node) -> None:
    (document,) = yaml.safe_load(guarded.run("get", "felixconfig", "-o", "yaml")[1])["items"]
    spec = document["spec"]
    assert (spec["defaultEndpointToHostAction"], spec["iptablesFilterDenyAction"]) == ("Drop", "Drop")
    assert spec["disableConntrackInvalidCheck"] is False
    assert {"protocol": "TCP", "port": 22} in spec["failsafeInboundHostPorts"]
