# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies, tiers, profiles, sets, endpoints: defaults, names, namespaces, errors, unsupported fields."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import (
    EntityRule,
    PortRange,
    ResourceError,
    Rule,
    check_supported,
    parse,
    parse_flat,
)


def written(kind: str, **flat: object) -> dict:
    """Return the document of a flat resource x, without apiVersion and kind; raise ResourceError if it is invalid."""
    document = parse_flat(kind, {"name": "x", **flat}).to_document()
    assert document.pop("apiVersion") == resources.API_VERSION
    assert document.pop("kind") == kind
    return document


# --- defaults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "flat", "spec"),
    [
        ("Tier", {}, {"order": 1000000, "defaultAction": "Deny"}),
        (
            "GlobalNetworkPolicy",
            {},
            {
                "tier": "default",
                "selector": "all()",
                "types": ["Ingress"],
                "doNotTrack": False,
                "preDNAT": False,
                "applyOnForward": False,
            },
        ),
        ("NetworkPolicy", {}, {"tier": "default", "selector": "all()", "types": ["Ingress"]}),
        ("Profile", {}, {}),
        ("GlobalNetworkSet", {"nets": ["", "FD00::1/64"]}, {"nets": ["FD00::1/64"]}),
        ("NetworkSet", {}, {}),
        (
            "HostEndpoint",
            {"node": "n", "expectedIPs": ["10.0.0.1"], "ports": [{"name": "a", "protocol": "6", "port": 1}]},
            {"node": "n", "expectedIPs": ["10.0.0.1"], "ports": [{"name": "a", "protocol": 6, "port": 1}]},
        ),
        (
            "WorkloadEndpoint",
            {"interfaceName": "cali0", "ipNetworks": ["10.0.0.1", ""]},
            {"interfaceName": "cali0", "ipNetworks": ["10.0.0.1"]},
        ),
    ],
)
def test_omitted_fields_of_a_resource_get_their_defaults(kind: str, flat: dict, spec: dict) -> None:
    assert written(kind, **flat)["spec"] == spec


@pytest.mark.parametrize(
    ("ingress", "egress", "types"),
    [
        (0, 0, ("Ingress",)),
        (1, 0, ("Ingress",)),
        (0, 1, ("Egress",)),
        (1, 1, ("Ingress", "Egress")),
    ],
)
@pytest.mark.parametrize("kind", ["NetworkPolicy", "GlobalNetworkPolicy"])
def test_types_follow_from_the_rules(kind: str, ingress: int, egress: int, types: tuple[str, ...]) -> None:
    rules = [{"action": "Allow"}]
    flat = {"name": "x", "ingress": rules * ingress, "egress": rules * egress}
    assert parse_flat(kind, flat).types == types
    assert parse_flat(kind, {**flat, "types": ["Egress"]}).types == ("Egress",)


def test_a_rule_and_what_is_written_of_it() -> None:
    rule = {
        "action": "Deny",
        "ipVersion": 4,
        "protocol": "17",
        "notProtocol": "TCP",
        "notICMP": {"type": 0, "code": 0},
        "source": {"nets": ["10.0.0.0/8"], "notPorts": ["080", "1:2", "dns", "7:7"], "serviceAccounts": {}},
        "destination": {"selector": "a == 'b'", "namespaceSelector": "global()"},
        "metadata": {"annotations": {"why": "because"}},
    }
    policy = parse_flat("GlobalNetworkPolicy", {"name": "x", "order": 2.0, "ingress": [rule, {"action": "Log"}]})
    assert isinstance(policy, resources.GlobalNetworkPolicy)
    assert policy.order == 2
    assert policy.ingress == (
        Rule(
            action="Deny",
            ipVersion=4,
            protocol=17,
            notProtocol="TCP",
            notICMP=resources.ICMPFields(0, 0),
            source=EntityRule(
                nets=("10.0.0.0/8",),
                notPorts=(PortRange(80, 80), PortRange(1, 2), "dns", PortRange(7, 7)),
                serviceAccounts=resources.ServiceAccountMatch(),
            ),
            destination=EntityRule(selector="a == 'b'", namespaceSelector="global()"),
            metadata=resources.RuleMetadata({"why": "because"}),
        ),
        Rule(action="Log"),
    )
    assert len({*policy.ingress, *policy.ingress}) == 2
    spec = policy.to_document()["spec"]
    rule["protocol"] = 17
    rule["source"] = {"nets": ["10.0.0.0/8"], "notPorts": [80, "1:2", "dns", 7], "serviceAccounts": {}}
    assert spec["ingress"] == [rule, {"action": "Log"}]
    assert repr(spec["order"]) == "2"


def test_an_order_is_written_as_people_write_it() -> None:
    written_as = {10.0: "10", 0.5: "0.5", -0.0: "0", 1e300: "1e+300"}
    for order, text in written_as.items():
        assert repr(written("Tier", order=order)["spec"]["order"]) == text


# --- names, tiers, namespaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tier", "expected"),
    [
        ("web", None, ("web", "default")),
        ("web", "default", ("web", "default")),
        ("default.web", "default", ("web", "default")),
        ("default.web", None, ("web", "default")),
        ("default.web", "platform", ("default.web", "platform")),
        ("a.b", None, ("a.b", "default")),
        ("a.b", "platform", ("a.b", "platform")),
        ("web", "platform", ("web", "platform")),
        ("platform.web", "platform", ("platform.web", "platform")),
        ("default", "default", ("default", "default")),
    ],
)
def test_names_of_policies_with_and_without_their_tier(name: str, tier: str, expected: tuple) -> None:
    policy = parse_flat("GlobalNetworkPolicy", {"name": name, "tier": tier})
    assert isinstance(policy, resources.GlobalNetworkPolicy)
    assert (policy.name, policy.tier) == expected
    assert parse(policy.to_document()) == policy


@pytest.mark.parametrize("kind", ["NetworkPolicy", "NetworkSet", "WorkloadEndpoint"])
def test_a_namespaced_resource_has_the_default_or_given_namespace(kind: str) -> None:
    spec = {"interfaceName": "cali0"} if kind == "WorkloadEndpoint" else {}
    made = parse({"kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert isinstance(made, resources.NamespacedResource)
    assert made.namespace == resources.DEFAULT_NAMESPACE == "default"
    assert made.to_document()["metadata"] == {"name": "x", "namespace": "default"}
    assert parse_flat(kind, {"name": "x", "namespace": "", **spec}) == made
    other = parse_flat(kind, {"name": "x", "namespace": "team", "labels": {"a": "b"}, **spec})
    assert isinstance(other, resources.NamespacedResource)
    assert other.namespace == "team"
    assert other.to_document()["metadata"] == {"name": "x", "namespace": "team", "labels": {"a": "b"}}
    assert made != other
    assert resources.json_schema(kind)["properties"]["metadata"]["properties"]["namespace"] == {"type": "string"}


def test_a_global_kind_drops_a_namespace_and_refuses_it_in_flat_form() -> None:
    made = parse({"kind": "GlobalNetworkSet", "metadata": {"name": "x", "namespace": "team"}, "spec": {}})
    assert made.to_document()["metadata"] == {"name": "x"}
    with pytest.raises(ResourceError) as caught:
        parse_flat("GlobalNetworkSet", {"name": "x", "namespace": "team"})
    assert str(caught.value) == (
        "GlobalNetworkSet x: namespace is not a field here: no GlobalNetworkSet is in a namespace. Leave it out."
    )


# --- errors ---------------------------------------------------------------------------------------------------------

POLICY = "GlobalNetworkPolicy"


def rule(**fields: object) -> dict:
    return {"ingress": [{"action": "Log"}, {"action": "Allow", **fields}]}


ERRORS = [
    (
        POLICY,
        {"ingress": [{"action": "Deny", "source": {"notNets": ["10.0.0.0/8", "0.0.0.0/0"]}}]},
        "ingress[0].source.notNets[1] 0.0.0.0/0 excludes all addresses, so that the rule matches no packet. "
        "Remove the rule, or write smaller ranges.",
    ),
    (
        POLICY,
        rule(action="allow"),
        "ingress[1].action allow is not one of Allow, Deny, Log, Pass. Did you mean Allow?",
    ),
    (POLICY, rule(action=None), "ingress[1].action is missing. Write Allow, Deny, Log or Pass."),
    (
        POLICY,
        rule(protcol="TCP"),
        "ingress[1].protcol is not a field here. Did you mean protocol?",
    ),
    (POLICY, rule(protocol="tcp"), "ingress[1].protocol tcp is not a protocol. Did you mean TCP?"),
    (
        POLICY,
        rule(protocol=256),
        "ingress[1].protocol 256 is not a protocol. "
        "Write TCP, UDP, ICMP, ICMPv6, SCTP, UDPLite or a number from 1 to 255.",
    ),
    (
        POLICY,
        rule(protocol="ICMP", destination={"ports": [80]}),
        "ingress[1].destination.ports are given for protocol ICMP, which has none. Set protocol to TCP, UDP or SCTP.",
    ),
    (
        POLICY,
        rule(source={"notPorts": [80]}),
        "ingress[1].source.notPorts are given without a protocol. Set protocol to TCP, UDP or SCTP.",
    ),
    (
        POLICY,
        rule(protocol="TCP", source={"ports": [80, "80-90"]}),
        "ingress[1].source.ports[1] 80-90 is neither a port nor a range of ports nor the name of a port. "
        "Write 80, 1000:2000, or a name of at most 15 lower case letters, digits and single '-'.",
    ),
    (
        POLICY,
        rule(protocol="TCP", source={"ports": ["90:80"]}),
        "ingress[1].source.ports[0] 90:80 ends before it begins. Write the lower port first.",
    ),
    (
        POLICY,
        rule(protocol="TCP", source={"ports": [0]}),
        "ingress[1].source.ports[0] 0 has a port that does not exist. Ports go from 1 to 65535.",
    ),
    (POLICY, rule(ipVersion=5), "ingress[1].ipVersion 5 is not a version of IP. Write 4 or 6, or leave it out."),
    (
        POLICY,
        rule(ipVersion=6, notProtocol="ICMP"),
        "ingress[1].ipVersion 6 does not fit notProtocol ICMP. Write 4, or leave it out.",
    ),
    (
        POLICY,
        rule(protocol=1, icmp={"type": 8}),
        "ingress[1].icmp is given for protocol 1. Set protocol to ICMP or ICMPv6, by name.",
    ),
    (
        POLICY,
        rule(icmp={"type": 8}),
        "ingress[1].icmp is given without a protocol. Set protocol to ICMP or ICMPv6, by name.",
    ),
    (
        POLICY,
        rule(notICMP={"code": 1}),
        "ingress[1].notICMP.code 1 stands without a type. Write the type that the code belongs to.",
    ),
    (
        POLICY,
        rule(source={"nets": ["10.0.0.1"]}),
        "ingress[1].source.nets[0] 10.0.0.1 is not a range of addresses. Write it as address/prefix length, "
        "without address bits beyond the prefix, for example 10.1.0.0/16 or 10.1.2.3/32.",
    ),
    (
        POLICY,
        rule(source={"notNets": ["10.0.0.0/8"]}, destination={"nets": ["fd00::/8"]}),
        "ingress[1].destination.nets[0] fd00::/8 is IPv6 while source.notNets[0] is IPv4. "
        "Write a rule for each version of IP.",
    ),
    (
        POLICY,
        rule(ipVersion=4, source={"nets": ["fd00::/8"]}),
        "ingress[1].source.nets[0] fd00::/8 is IPv6 while ipVersion is 4. Write a rule for each version of IP.",
    ),
    (
        POLICY,
        rule(source={"selector": "global()"}),
        "ingress[1].source.selector global() uses global(), which is for the namespaceSelector of a rule's source or "
        "destination. Write all() for everything.",
    ),
    (
        POLICY,
        rule(source={"namespaceSelector": "global() || has(a)"}),
        "ingress[1].source.namespaceSelector global() || has(a) combines global() with something else. "
        "Write global() alone, or a rule for each of both.",
    ),
    (
        POLICY,
        rule(source={"serviceAccounts": {"names": ["web", "'} || all() || a in {'"]}}),
        "ingress[1].source.serviceAccounts.names[1] '} || all() || a in {' is not a name of lower case letters, "
        "digits, '-' and '.'. Begin and end it, and each part between dots, with a letter or digit.",
    ),
    (
        "Profile",
        rule(destination={"serviceAccounts": {"names": ["a\"'x"]}}),
        "ingress[1].destination.serviceAccounts.names[0] a\"'x is not a name of lower case letters, digits, '-' and "
        "'.'. Begin and end it, and each part between dots, with a letter or digit.",
    ),
    (
        POLICY,
        rule(source={"services": {"namespace": "a"}}),
        "ingress[1].source.services.name is missing. Write the service's name.",
    ),
    (
        POLICY,
        rule(source={"services": {"name": "a"}, "nets": ["10.0.0.0/8"]}),
        "ingress[1].source.services a cannot stand together with nets. Keep one of them.",
    ),
    (
        POLICY,
        rule(source={"services": {"name": "a"}}),
        "ingress[1].source.services.namespace is missing. "
        "A GlobalNetworkPolicy is in no namespace: write that of the service.",
    ),
    (
        POLICY,
        rule(destination={"services": {"name": "a", "namespace": "b"}}),
        "ingress[1].destination.services a cannot stand in the destination of an ingress rule. "
        "A service is matched as the source there: move it, or remove it.",
    ),
    (
        POLICY,
        {"egress": [{"action": "Allow", "source": {"services": {"name": "a", "namespace": "b"}}}]},
        "egress[0].source.services a cannot stand in the source of an egress rule. "
        "A service is matched as the destination there: move it, or remove it.",
    ),
    (
        POLICY,
        {
            "egress": [
                {
                    "action": "Allow",
                    "protocol": "TCP",
                    "destination": {"services": {"name": "a", "namespace": "b"}, "ports": [80]},
                }
            ]
        },
        "egress[0].destination.ports cannot stand together with services, which have ports of their own. "
        "Keep one of them.",
    ),
    (
        POLICY,
        {"egress": [{"action": "Allow", "http": {}}]},
        "egress[0].http cannot stand in an egress rule. Match HTTP in ingress rules.",
    ),
    (
        POLICY,
        rule(action="Deny", http={}),
        "ingress[1].http cannot stand in a rule that says Deny. Write an Allow rule.",
    ),
    (
        POLICY,
        rule(protocol="UDP", http={}),
        "ingress[1].protocol UDP cannot stand together with http. Write TCP, or leave it out.",
    ),
    (
        POLICY,
        rule(http={"methods": ["GET", "GET"]}),
        "ingress[1].http.methods[1] GET stands in the list twice. Remove one of them.",
    ),
    (
        POLICY,
        rule(http={"paths": [{"exact": "/a", "prefix": "/a"}]}),
        "ingress[1].http.paths[0].prefix /a cannot stand together with exact. Keep one of them.",
    ),
    (POLICY, rule(http={"paths": [{}]}), "ingress[1].http.paths[0] has neither exact nor prefix. Write one of them."),
    (
        POLICY,
        rule(http={"paths": [{"prefix": "/a?"}]}),
        "ingress[1].http.paths[0].prefix /a? is not the path of a URL. "
        "Begin it with '/', and write it without '?', '#' and blanks.",
    ),
    (POLICY, {"types": ["Egress", "Egress"]}, "types[1] Egress stands in the list twice. Remove one of them."),
    (POLICY, {"order": "1"}, "order 1 is a text. Write a number, without quotes."),
    (
        POLICY,
        {"order": float("inf")},
        "order inf is not a finite number. Choose one that 64 bits of floating point can hold.",
    ),
    (
        POLICY,
        {"preDNAT": True, "doNotTrack": True},
        "preDNAT true cannot stand together with doNotTrack. Write a policy for each of both.",
    ),
    (
        POLICY,
        {"doNotTrack": True},
        "applyOnForward false does not go with doNotTrack, which is for forwarded packets too. "
        "Set applyOnForward: true.",
    ),
    (
        POLICY,
        {"preDNAT": True, "applyOnForward": True, "egress": [{"action": "Allow"}]},
        "egress cannot stand together with preDNAT, which is for packets that arrive. "
        "Move the rules to another policy.",
    ),
    (
        POLICY,
        {"preDNAT": True, "applyOnForward": True, "types": ["Ingress", "Egress"]},
        "types[1] Egress cannot stand together with preDNAT, which is for packets that arrive. "
        "Write [Ingress], or leave types out.",
    ),
    (
        POLICY,
        {"name": "x.y.z"},
        "name x.y.z is not a name that a policy can have. "
        "Use lower case letters, digits and '-', with at most one dot between them.",
    ),
    (
        POLICY,
        {"name": "platform.x.y", "tier": "platform"},
        "name platform.x.y is not a name that a policy can have. "
        "Use lower case letters, digits and '-', with at most one dot between them.",
    ),
    (
        POLICY,
        {"tier": "Platform"},
        "tier Platform is not a name that a tier can have. "
        "Use at most 63 lower case letters, digits and '-', without dots.",
    ),
    (
        "NetworkPolicy",
        {"preDNAT": True},
        "preDNAT is a field of GlobalNetworkPolicy only. Write a GlobalNetworkPolicy, or leave it out.",
    ),
    (
        "NetworkPolicy",
        {"namespace": "Team"},
        "namespace Team is not a name that a namespace can have. "
        "Use at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit.",
    ),
    (
        "Tier",
        {"name": "x.y"},
        "name x.y is not a name that a tier can have. Use at most 63 lower case letters, digits and '-', without dots.",
    ),
    (
        "Tier",
        {"name": "default", "order": 5},
        "order 5 is not that of the tier default, which stays at 1000000. "
        "Leave it out, and give the other tiers a lower or a higher one.",
    ),
    (
        "Tier",
        {"name": "default", "defaultAction": "Pass"},
        "defaultAction Pass is not that of the tier default. "
        "Leave it out: behind this tier come profiles, and its policies deny what they do not allow.",
    ),
    (
        "Profile",
        {"labelsToApply": {"a": "b c"}},
        "labelsToApply b c is not a label's value, as that of a. Use at most 63 letters, digits, '-', '_' and '.', "
        "beginning and ending with a letter or digit; or nothing.",
    ),
    (
        "NetworkSet",
        {"nets": ["10.0.0.0/8", "10.0.0.1-9"]},
        "nets[1] 10.0.0.1-9 is not a range of addresses. "
        "Write it as address/prefix length, for example 10.1.0.0/16, or as one address.",
    ),
    (
        "GlobalNetworkSet",
        {"labels": {"projectcalico.org/namespace": "a"}},
        "labels projectcalico.org/namespace is a label that Calico gives by itself. "
        "Remove it: a NetworkSet has it from its namespace.",
    ),
    (
        "HostEndpoint",
        {"interfaceName": "eth0"},
        "node is missing. Write the name of the node that the interface belongs to.",
    ),
    (
        "HostEndpoint",
        {"node": "n"},
        "interfaceName is missing, and so is expectedIPs. "
        "Write the interface's name or its addresses, or '*' for all interfaces.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth 0"},
        "interfaceName eth 0 is not the name of an interface. "
        "Use at most 15 letters, digits, '-', '_' and '.', or a single '*'.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth0", "ports": [{"name": "a", "protocol": "ICMP", "port": 1}]},
        "ports[0].protocol ICMP has no ports. Write TCP, UDP or SCTP.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth0", "ports": [{"name": "a", "protocol": "TCP"}]},
        "ports[0].port is missing. Write a number from 1 to 65535.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth0", "ports": [{"name": "80", "protocol": "TCP", "port": 80}]},
        "ports[0].name 80 is not the name of a port. "
        "Use at most 15 lower case letters, digits and single '-', one of them a letter.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth0", "ports": [{"name": "a", "port": 80}]},
        "ports[0].protocol is missing. Write TCP, UDP or SCTP.",
    ),
    (
        "HostEndpoint",
        {"node": "n", "interfaceName": "eth0", "ports": [{"protocol": "TCP", "port": 80}]},
        "ports[0].name is missing. Give the port a name for rules to use.",
    ),
    (
        "WorkloadEndpoint",
        {},
        "interfaceName is missing. Write the name of the workload's interface on the host.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "ports": [{"protocol": "TCP", "port": 80}]},
        "ports[0].name is missing. Give the port a name for rules to use.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "ipNetworks": ["10.0.0.0/24"]},
        "ipNetworks[0] 10.0.0.0/24 is more than one address. Write /32, or the address alone.",
    ),
    (
        "WorkloadEndpoint",
        {
            "interfaceName": "cali0",
            "ipNetworks": ["10.0.0.1"],
            "ipNATs": [{"internalIP": "10.0.0.2", "externalIP": "192.0.2.1"}],
        },
        "ipNATs[0].internalIP 10.0.0.2 is not an address of the endpoint. Write one of its ipNetworks.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "ipNATs": [{"internalIP": "10.0.0.2", "externalIP": "fd00::1"}]},
        "ipNATs[0].externalIP fd00::1 is IPv6 while internalIP is IPv4. Write addresses of the same version.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "ipNATs": [{"internalIP": "10.0.0.2"}]},
        "ipNATs[0].externalIP is missing. Write an address, as 10.0.0.1 or fd00::1.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "containerID": "-a"},
        "containerID -a is not the ID of a container. "
        "Use letters, digits and '-', beginning and ending with a letter or digit.",
    ),
]


@pytest.mark.parametrize(("kind", "flat", "message"), ERRORS, ids=lambda value: str(value)[:60])
def test_an_invalid_resource_is_refused_with_its_reason(kind: str, flat: dict, message: str) -> None:
    flat = {"name": "x", **flat}
    with pytest.raises(ResourceError) as caught:
        parse_flat(kind, flat)
    assert str(caught.value) == f"{kind} {flat['name']}: {message}"


def test_the_same_in_a_document_has_the_whole_path() -> None:
    with pytest.raises(ResourceError) as in_spec:
        parse({"kind": POLICY, "metadata": {"name": "x"}, "spec": rule(action="x")})
    with pytest.raises(ResourceError) as in_metadata:
        parse({"kind": POLICY, "metadata": {"name": "x.y.z"}, "spec": {}})
    assert (in_spec.value.field, in_metadata.value.field) == ("spec.ingress[1].action", "metadata.name")


# --- These tests are about what is valid and not supported, and staged policies -------------------------------------

UNSUPPORTED = [
    (
        "GlobalNetworkPolicy",
        {"egress": [{"action": "Allow"}, {"action": "Deny", "notICMP": {"type": 8}}]},
        "egress[1].notICMP is given without a protocol. Set protocol to ICMP or ICMPv6, by name.",
    ),
    (
        "NetworkPolicy",
        rule(http={"methods": ["GET"]}),
        "ingress[1].http is not supported here. "
        "Nothing on a node reads HTTP: match addresses and ports, and leave the rest to the server.",
    ),
    (
        POLICY,
        {"egress": [{"action": "Allow", "destination": {"services": {"name": "db", "namespace": "a"}}}]},
        "egress[0].destination.services db is not supported here. "
        "There are no Kubernetes services here: select the endpoints by labels, and name their ports.",
    ),
    (
        "Profile",
        rule(source={"services": {"name": "db"}}),
        "ingress[1].source.services db is not supported here. "
        "There are no Kubernetes services here: select the endpoints by labels, and name their ports.",
    ),
    (
        "WorkloadEndpoint",
        {
            "interfaceName": "cali0",
            "ipNetworks": ["10.0.0.1"],
            "ipNATs": [{"internalIP": "10.0.0.1", "externalIP": "192.0.2.1"}],
        },
        "ipNATs is not supported here. Route the address to the workload, or remove it.",
    ),
    (
        POLICY,
        rule(source={"serviceAccounts": {"selector": "has(a) || b in {'c', 'global()'}"}}),
        "ingress[1].source.serviceAccounts.selector has(a) || b in {'c', 'global()'} compares a label with a text "
        "that has global() in it. No label has such a value: remove the comparison.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "allowSpoofedSourcePrefixes": ["10.0.0.1"]},
        "allowSpoofedSourcePrefixes is not supported here. "
        "A workload sends from its own addresses only: give it those, or remove it.",
    ),
    (
        "WorkloadEndpoint",
        {"interfaceName": "cali0", "ports": [{"protocol": "TCP", "port": 80, "hostPort": 8080}]},
        "ports[0].hostPort 8080 is not supported here. Let clients use the workload's own address, or remove it.",
    ),
]


def scoped(selector: str) -> list[tuple[str, dict, str]]:
    """Return (kind, flat form, field) for each selector over labels of namespaces or service accounts."""
    accounts = {"serviceAccounts": {"selector": selector}}
    return [
        (POLICY, {"namespaceSelector": selector}, "namespaceSelector"),
        (POLICY, {"serviceAccountSelector": selector}, "serviceAccountSelector"),
        ("NetworkPolicy", {"serviceAccountSelector": selector}, "serviceAccountSelector"),
        (POLICY, rule(source={"namespaceSelector": selector}), "ingress[1].source.namespaceSelector"),
        ("Profile", rule(destination=accounts), "ingress[1].destination.serviceAccounts.selector"),
    ]


@pytest.mark.parametrize("length", [508, 512])
def test_labels_that_get_a_prefix_leave_room_for_it(length: int) -> None:
    """Labels of namespaces and service accounts have at most 507 characters: "pcns." or "pcsa." stands before them."""
    selector = f"has({'a' * length})"
    for kind, flat, field in scoped(selector):
        with pytest.raises(ResourceError) as caught:
            parse_flat(kind, {"name": "x", **flat})
        assert str(caught.value) == (
            f"{kind} x: {field} {selector[:77]}... has a label of {length} characters, while those of namespaces and "
            "service accounts have at most 507. Write the name of a label that they have."
        )
    assert parse_flat(POLICY, {"name": "x", "selector": selector})
    for kind, flat, _field in scoped(f"has({'a' * 507})"):
        assert parse_flat(kind, {"name": "x", **flat})


@pytest.mark.parametrize(("kind", "flat", "message"), UNSUPPORTED, ids=lambda value: str(value)[:60])
def test_a_valid_but_unsupported_field_is_refused(kind: str, flat: dict, message: str) -> None:
    made = parse_flat(kind, {"name": "x", **flat})
    with pytest.raises(ResourceError) as in_flat:
        check_supported(made, flat=True)
    assert str(in_flat.value) == f"{kind} x: {message}"
    with pytest.raises(ResourceError) as in_document:
        check_supported(made)
    assert in_document.value.field == f"spec.{in_flat.value.field}"


def test_a_staged_policy_is_the_policy_with_an_action() -> None:
    staged = parse_flat("StagedNetworkPolicy", {"name": "x", "namespace": "n", "ingress": [{"action": "Deny"}]})
    plain = parse_flat("NetworkPolicy", {"name": "x", "namespace": "n", "ingress": [{"action": "Deny"}]})
    document = staged.to_document()
    assert document["spec"].pop("stagedAction") == "Set"
    assert {**document, "kind": "NetworkPolicy"} == plain.to_document()
    assert isinstance(staged, resources.NetworkPolicy)


def test_a_staged_deletion_names_a_policy_and_its_tier() -> None:
    flat = {"name": "x", "tier": "platform", "stagedAction": "Delete", "selector": "all()"}
    made = parse_flat("StagedGlobalNetworkPolicy", flat)
    assert isinstance(made, resources.StagedGlobalNetworkPolicy)
    assert (made.stagedAction, made.tier, made.types) == ("Delete", "platform", ())
    with pytest.raises(ResourceError) as error:
        parse_flat("StagedGlobalNetworkPolicy", {**flat, "ingress": [{"action": "Allow"}]})
    assert str(error.value) == (
        "StagedGlobalNetworkPolicy x: ingress cannot stand together with stagedAction Delete. Leave it out: a policy "
        "that is to go is named, with its tier."
    )


@pytest.mark.parametrize(
    ("kind", "flat"),
    [
        (POLICY, rule(source={"serviceAccounts": {"names": ["a"]}, "namespaceSelector": "global()"})),
        ("Profile", rule(protocol="TCP", destination={"ports": ["http"]})),
        ("Profile", rule(source={"serviceAccounts": {"selector": "global()"}})),
        ("WorkloadEndpoint", {"interfaceName": "cali0", "ports": [{"name": "a", "protocol": "TCP", "port": 80}]}),
        ("Tier", {}),
        ("IPPool", {"cidr": "10.0.0.0/16"}),
    ],
)
def test_a_resource_with_supported_fields_is_accepted(kind: str, flat: dict) -> None:
    check_supported(parse_flat(kind, {"name": "x", **flat}))
