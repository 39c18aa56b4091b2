# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random policies, sets and endpoints are read back as themselves, or refused for simple, slowly checked reasons."""

from __future__ import annotations

import functools
import ipaddress
import json

import jsonschema
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import (
    ResourceError,
    parse,
    parse_flat,
)
from hypothesis import given, settings
from hypothesis import strategies as st

# --- random documents, valid as they are ----------------------------------------------------------------------------

labels = st.dictionaries(st.sampled_from(["a", "b.c/d"]), st.sampled_from(["", "x", "Y_1"]), max_size=2)
names = st.sampled_from(["a", "web-1", "0"])
namespaces = st.sampled_from(["default", "team"])
selectors = st.sampled_from(["", "all()", "a == 'b'", "!has(a) && b in {'c', 'd'}"])
port_names = st.sampled_from(["http", "a-1"])
port_numbers = st.integers(1, 65535)
with_ports = st.sampled_from(["TCP", "UDP", "SCTP", 6, 17, 132, "6", "0132"])
orders = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
rule_ports = st.one_of(
    port_numbers,
    port_numbers.map(str),
    port_numbers.map(lambda port: f"00{port}"),
    st.tuples(port_numbers, port_numbers).map(lambda ends: f"{min(ends)}:{max(ends)}"),
    port_names,
)


def networks(version: int) -> st.SearchStrategy[str]:
    """Return a strategy for CIDRs of one IP version without bits beyond their prefix length."""
    bits = 32 if version == 4 else 128
    # Only the upper half of the numbers: IPv4-mapped addresses are in the lower half of IPv6.
    numbers = st.integers(1 << (bits - 1), (1 << bits) - 1)
    return st.builds(
        lambda number, length: str(ipaddress.ip_network((number, length), strict=False)), numbers, st.integers(0, bits)
    )


def not_all(nets: list[str]) -> list[str]:
    return [net for net in nets if not net.endswith("/0")]


def some(**fields: st.SearchStrategy) -> st.SearchStrategy[dict]:
    """Return a strategy for dictionaries with any subset of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def entities(version: int, ports: bool) -> st.SearchStrategy[dict]:
    nets = st.lists(networks(version), max_size=2)
    fields: dict = {
        "nets": nets,
        "notNets": nets.map(not_all),
        "selector": selectors,
        "notSelector": selectors,
        "namespaceSelector": st.one_of(selectors, st.just("global()")),
        "serviceAccounts": some(names=st.lists(names, max_size=2), selector=selectors),
    }
    if ports:
        listed = st.lists(rule_ports, max_size=3)
        fields.update(ports=listed, notPorts=listed)
    return some(**fields)


@st.composite
def rules(draw: st.DrawFn) -> dict:
    version = draw(st.sampled_from([4, 6]))
    kind = draw(st.sampled_from(["any", "ports", "icmp", "number"]))
    rule = draw(
        some(
            ipVersion=st.just(version),
            source=entities(version, kind == "ports"),
            destination=entities(version, kind == "ports"),
            notICMP=st.fixed_dictionaries({"type": st.integers(0, 254)}, optional={"code": st.integers(0, 255)}),
            notProtocol=st.sampled_from(["UDPLite", 253, "255"]),
            metadata=some(annotations=labels),
        )
    )
    rule["action"] = draw(st.sampled_from(["Allow", "Deny", "Log", "Pass"]))
    if kind == "ports":
        rule["protocol"] = draw(with_ports)
    elif kind == "icmp":
        rule["protocol"] = "ICMP" if version == 4 else "ICMPv6"
        rule["icmp"] = draw(some(type=st.integers(0, 254)))
    elif kind == "number":
        rule["protocol"] = draw(st.integers(1, 255))
    return rule


listed_rules = st.lists(rules(), max_size=2)
types = st.lists(st.sampled_from(["Ingress", "Egress"]), unique=True, max_size=2)
policy_fields = {
    "tier": st.sampled_from(["", "default", "platform"]),
    "order": orders,
    "selector": selectors,
    "serviceAccountSelector": selectors,
    "types": types,
    "ingress": listed_rules,
    "egress": listed_rules,
    "performanceHints": st.just(["AssumeNeededOnEveryNode"]),
}
endpoint_ports = {"name": port_names, "protocol": with_ports, "port": port_numbers}
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
profiles = st.lists(names, max_size=2)
FLAT = {
    "Tier": some(order=orders, defaultAction=st.sampled_from(["", "Deny", "Pass"])),
    "GlobalNetworkPolicy": some(
        **policy_fields, namespaceSelector=selectors, doNotTrack=st.booleans(), applyOnForward=st.just(True)
    ).map(lambda flat: {**flat, "applyOnForward": True}),
    "NetworkPolicy": some(**policy_fields, namespace=namespaces),
    "Profile": some(labelsToApply=labels, ingress=listed_rules, egress=listed_rules),
    "GlobalNetworkSet": some(nets=st.lists(st.one_of(addresses, networks(4), networks(6), st.just("")), max_size=3)),
    "NetworkSet": some(nets=st.lists(addresses, max_size=2), namespace=namespaces),
    "HostEndpoint": st.fixed_dictionaries(
        {"node": names, "interfaceName": st.sampled_from(["*", "eth0.100"])},
        optional={
            "expectedIPs": st.lists(addresses, max_size=2),
            "profiles": profiles,
            "ports": st.lists(st.fixed_dictionaries(endpoint_ports), max_size=2),
        },
    ),
    "WorkloadEndpoint": st.fixed_dictionaries(
        {"interfaceName": st.just("cali0")},
        optional={
            "namespace": namespaces,
            "node": names,
            "workload": names,
            "ipNetworks": st.lists(addresses, max_size=2),
            "profiles": profiles,
            "mac": st.just("66:aa:bb:cc:dd:ee"),
            "ports": st.lists(
                st.fixed_dictionaries(endpoint_ports, optional={"hostPort": st.integers(0, 65535)}), max_size=2
            ),
        },
    ),
}


@functools.cache
def schema_of(kind: str, flat: bool) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(resources.json_schema(kind, flat=flat))


@pytest.mark.parametrize("kind", FLAT)
def test_a_written_document_reads_back_equal(kind: str) -> None:
    @settings(max_examples=30)
    @given(names, labels, FLAT[kind])
    def check(name: str, own_labels: dict, flat: dict) -> None:
        made = parse_flat(kind, {"name": name, "labels": own_labels, **flat})
        written = made.to_document()
        again = parse(json.loads(json.dumps(written)))
        assert again == made
        assert again.to_document() == written
        assert hash(again) == hash(made)
        schema_of(kind, False).validate(written)
        document = {key: value for key, value in written.items() if key in ("metadata", "spec")}
        assert parse_flat(kind, document) == made

    check()


# --- slow and obvious -----------------------------------------------------------------------------------------------


def is_valid(kind: str, **flat: object) -> bool:
    try:
        parse_flat(kind, {"name": "x", **flat})
    except ResourceError:
        return False
    return True


some_nets = st.lists(st.one_of(networks(4), networks(6)), max_size=2)


@settings(max_examples=60)
@given(st.sampled_from([None, 4, 6]), st.lists(some_nets, min_size=4, max_size=4))
def test_all_ranges_of_a_rule_are_of_one_version(version: object, nets: list[list[str]]) -> None:
    versions = {ipaddress.ip_network(net).version for listed in nets for net in listed}
    versions |= {version} - {None}
    rule = {
        "action": "Allow",
        "ipVersion": version,
        "source": {"nets": nets[0], "notNets": nets[1]},
        "destination": {"nets": nets[2], "notNets": nets[3]},
    }
    of_none = any(net.endswith("/0") for net in (*nets[1], *nets[3]))
    assert is_valid("Profile", ingress=[rule]) is (len(versions) <= 1 and not of_none)


def expected_port(text: str) -> object:
    """Return the PortRange or the name (as a text) that `text` stands for, None if it is neither."""
    numbers = text.split(":")
    if all(number and set(number) <= set("0123456789") for number in numbers) and len(numbers) <= 2:
        first, last = int(numbers[0]), int(numbers[-1])
        return resources.PortRange(first, last) if 0 < first <= last < 65536 else None
    letters = "abcdefghijklmnopqrstuvwxyz"
    parts = text.split("-")
    named = all(part and set(part) <= set(letters + "0123456789") for part in parts)
    return text if named and len(text) <= 15 and set(text) & set(letters) else None


@settings(max_examples=150)
@given(st.text(alphabet="0169a-:A_ \n", max_size=6) | st.text(alphabet="a9-", min_size=13, max_size=17))
def test_ports_in_text(text: str) -> None:
    rule = {"action": "Allow", "protocol": "TCP", "source": {"ports": [text]}}
    expected = expected_port(text)
    assert is_valid("Profile", ingress=[rule]) is (expected is not None)
    if expected is not None:
        made = parse_flat("Profile", {"name": "x", "ingress": [rule]})
        assert isinstance(made, resources.Profile)
        assert made.ingress[0].source.ports == (expected,)


@settings(max_examples=60)
@given(
    st.sampled_from(["global()", "global( )", "has(a)", "all()"]),
    st.sampled_from(["{}", " {} ", "({})", "!{}", "{0} || {0}", "{0} && has(b)"]),
)
def test_global_alone_and_only_for_namespaces(term: str, form: str) -> None:
    text = form.format(term)
    is_global = term.startswith("global")
    alone = not is_global or form.strip() == "{}"
    for name, valid in (("selector", not is_global), ("notSelector", True), ("namespaceSelector", alone)):
        assert is_valid("Profile", ingress=[{"action": "Allow", "source": {name: text}}]) is valid
    for name in ("selector", "namespaceSelector", "serviceAccountSelector"):
        assert is_valid("GlobalNetworkPolicy", **{name: text}) is not is_global
