# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Defaults, the flat form, encapsulations, errors, and reading back written resources."""

from __future__ import annotations

import dataclasses
import ipaddress
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import parse_address, parse_cidr
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import (
    ResourceError,
    parse,
    parse_flat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.durations import parse_duration
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.errors import Refused
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.kinds.bgp import is_community
from hypothesis import assume, example, given
from hypothesis import strategies as st


def pool(**spec: object) -> resources.IPPool:
    made = parse({"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", **spec}})
    assert isinstance(made, resources.IPPool)
    return made


# --- These tests are about defaults, and about how values are read --------------------------------------------------


def test_defaults_of_an_ipv4_pool() -> None:
    assert pool().to_document() == {
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPPool",
        "metadata": {"name": "p"},
        "spec": {
            "cidr": "10.0.0.0/16",
            "blockSize": 26,
            "ipipMode": "Never",
            "vxlanMode": "Never",
            "natOutgoing": False,
            "nodeSelector": "all()",
            "disabled": False,
            "disableBGPExport": False,
            "allowedUses": ["Workload", "Tunnel"],
            "assignmentMode": "Automatic",
        },
    }


def test_defaults_of_an_ipv6_pool() -> None:
    six = pool(cidr="FD00:0:0::/64")
    assert (six.cidr, six.blockSize, six.version, six.encapsulation) == ("fd00::/64", 122, 6, "None")


def test_empty_texts_and_zero_leave_the_defaults() -> None:
    assert pool(ipipMode="", vxlanMode="", nodeSelector="", blockSize=0, allowedUses=[], assignmentMode="") == pool()


def test_defaults_of_a_bgp_configuration() -> None:
    made = parse({"kind": "BGPConfiguration", "metadata": {"name": "default"}, "spec": {"listenPort": 0}})
    assert made.to_document()["spec"] == {
        "asNumber": 64512,
        "nodeToNodeMeshEnabled": True,
        "listenPort": 179,
        "logSeverityScreen": "Info",
        "bindMode": "None",
        "serviceLoadBalancerAggregation": "Enabled",
    }


@pytest.mark.parametrize(("written", "number"), [(65000, 65000), ("65000", 65000), ("1.10", 65546), ("0.7", 7)])
def test_as_numbers_are_read_as_numbers(written: object, number: int) -> None:
    made = parse({"kind": "BGPConfiguration", "metadata": {"name": "default"}, "spec": {"asNumber": written}})
    assert isinstance(made, resources.BGPConfiguration)
    assert made.asNumber == number


def test_a_node_and_its_bgp() -> None:
    document = {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"rack": "a"}},
        "spec": {"bgp": {"ipv4Address": "10.0.0.1/24", "routeReflectorClusterID": "244.0.0.1"}},
        "status": {"podCIDRs": ["10.1.0.0/24"]},
    }
    node = parse(document)
    assert isinstance(node, resources.Node)
    assert node.bgp == resources.NodeBGP(ipv4Address="10.0.0.1/24", routeReflectorClusterID="244.0.0.1")
    assert (node.name, node.labels, node.wireguard, node.status.podCIDRs) == (
        "n1",
        {"rack": "a"},
        None,
        ("10.1.0.0/24",),
    )
    assert node.to_document() == {"apiVersion": "projectcalico.org/v3", **document}


def test_metadata_that_a_server_adds_is_dropped() -> None:
    metadata = {"name": "n", "uid": "7", "resourceVersion": "1", "creationTimestamp": None, "managedFields": [{}]}
    made = parse({"kind": "Node", "metadata": metadata, "spec": {}})
    assert made.to_document()["metadata"] == {"name": "n"}


def test_resources_do_not_change_and_can_stand_in_sets() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        pool().disabled = True  # type: ignore[misc]
    assert len({pool(), pool(), pool(disabled=True)}) == 2


def test_marked_values_become_plain_ones() -> None:
    class Marked(str):
        __slots__ = ()

    class MarkedNumber(int):
        __slots__ = ()

    made = parse_flat(
        "IPPool",
        {
            Marked("name"): Marked("p"),
            "cidr": Marked("10.0.0.0/16"),
            "blockSize": MarkedNumber(24),
            "ipipMode": Marked("Always"),
            "nodeSelector": Marked("has(a)"),
            "labels": {Marked("a"): Marked("b")},
        },
    )
    assert isinstance(made, resources.IPPool)
    values = [made.name, made.cidr, made.blockSize, made.nodeSelector, *made.labels, *made.labels.values()]
    assert {type(value) for value in values} == {str, int}
    assert type(made.ipipMode) is str


# --- the flat form, encapsulations, outgoing NAT and selectors of pools ---------------------------------------------


def test_the_flat_form_is_the_document_without_its_envelope() -> None:
    flat = parse_flat("IPPool", {"name": "p", "labels": {"a": "b"}, "cidr": "10.0.0.0/16", "ipipMode": "CrossSubnet"})
    assert flat == parse(
        {
            "kind": "IPPool",
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"cidr": "10.0.0.0/16", "ipipMode": "CrossSubnet"},
        }
    )
    assert parse_flat("IPPool", flat.to_document()) == flat
    document = flat.to_document()
    del document["apiVersion"], document["kind"]
    assert parse_flat("IPPool", document) == flat


@pytest.mark.parametrize(
    ("encapsulation", "modes"),
    [
        ("IPIP", ("Always", "Never")),
        ("IPIPCrossSubnet", ("CrossSubnet", "Never")),
        ("VXLAN", ("Never", "Always")),
        ("VXLANCrossSubnet", ("Never", "CrossSubnet")),
        ("None", ("Never", "Never")),
    ],
)
def test_encapsulations_in_the_words_of_the_operator(encapsulation: str, modes: tuple[str, str]) -> None:
    flat = parse_flat("IPPool", {"name": "p", "cidr": "10.0.0.0/16", "encapsulation": encapsulation})
    assert isinstance(flat, resources.IPPool)
    assert (flat.ipipMode, flat.vxlanMode, flat.encapsulation) == (*modes, encapsulation)
    assert pool(ipipMode=modes[0], vxlanMode=modes[1]) == flat
    assert pool(ipipMode="Always").with_encapsulation(encapsulation) == flat


@pytest.mark.parametrize(("word", "flag"), [("Enabled", True), ("Disabled", False), (True, True)])
def test_outgoing_nat_in_the_words_of_the_operator(word: object, flag: bool) -> None:
    flat = parse_flat("IPPool", {"name": "p", "cidr": "10.0.0.0/16", "natOutgoing": word})
    assert isinstance(flat, resources.IPPool)
    assert flat.natOutgoing is flag


def test_a_pool_with_another_encapsulation_is_a_copy() -> None:
    one = pool(ipipMode="Always", natOutgoing=True)
    other = one.with_encapsulation("VXLANCrossSubnet")
    assert (one.encapsulation, other.encapsulation) == ("IPIP", "VXLANCrossSubnet")
    assert dataclasses.replace(other, ipipMode="Always", vxlanMode="Never") == one


def test_the_selector_of_a_pool_matches_labels() -> None:
    assert pool(nodeSelector="rack == 'a'").selector.matches({"rack": "a"})
    assert not pool(nodeSelector="rack == 'a'").selector.matches({})


# --- errors ---------------------------------------------------------------------------------------------------------

DOCUMENT_ERRORS = [
    (
        {"kind": "BGPConfiguration", "metadata": {"name": "default"}, "spec": {"nodeMeshMaxRestartTime": ""}},
        "BGPConfiguration default: spec.nodeMeshMaxRestartTime '' is not a length of time. "
        "Write a number and a unit, as 120s.",
    ),
    (
        {"kind": "BGPPeer", "metadata": {"name": "tor"}, "spec": {"node": "a" * 254}},
        f"BGPPeer tor: spec.node {'a' * 77}... is not a name of at most 253 lower case letters, digits, '-' and '.'. "
        "Begin and end it, and each part between dots, with a letter or digit.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "blockSize": 19}},
        "IPPool p: spec.blockSize 19 is out of range. A block of an IPv4 pool is between /20 and /32. "
        "Choose a length in between, or leave it out for /26.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {}},
        "IPPool p: spec.cidr is missing. Write the pool's range, for example 10.244.0.0/16.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0"}},
        "IPPool p: spec.cidr 10.0.0.0 is not a range of addresses. "
        "Write it as address/prefix length, for example 10.244.0.0/16.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.244.3.0/16"}},
        "IPPool p: spec.cidr 10.244.3.0/16 has address bits beyond its prefix length. "
        "The range around it is 10.244.0.0/16: write that.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "169.254.8.0/24"}},
        "IPPool p: spec.cidr 169.254.8.0/24 overlaps the link-local range 169.254.0.0/16. "
        "Choose a range that is routed, for example 10.244.0.0/16.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/28"}},
        "IPPool p: spec.cidr 10.0.0.0/28 is smaller than one block (/26). "
        "Choose a larger range, or a blockSize from 28 to 32.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "::ffff:10.0.0.0/116"}},
        "IPPool p: spec.cidr ::ffff:10.0.0.0/116 is an IPv4 range in the writing of IPv6. Write 10.0.0.0/20.",
    ),
    (
        {
            "kind": "IPPool",
            "metadata": {"name": "p"},
            "spec": {"cidr": "10.0.0.0/16", "ipipMode": "Always", "vxlanMode": "CrossSubnet"},
        },
        "IPPool p: spec.vxlanMode CrossSubnet cannot stand together with ipipMode Always. Set one of them to Never.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "fd00::/64", "ipipMode": "Always"}},
        "IPPool p: spec.ipipMode Always is not possible for an IPv6 pool: IPIP carries IPv4 only. "
        "Leave it out for direct routing, or set vxlanMode instead.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "ipipMode": "always"}},
        "IPPool p: spec.ipipMode always is not one of Always, CrossSubnet, Never. Did you mean Always?",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "nodeSelector": "rack = 'a'"}},
        "IPPool p: spec.nodeSelector rack = 'a' is not a selector: at column 6, expected \"==\". "
        "Write for example rack == 'a' && !has(spare).",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "blocksize": 26}},
        "IPPool p: spec.blocksize is not a field here. Did you mean blockSize?",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "nat-outgoing": True}},
        "IPPool p: spec.nat-outgoing is a field of an older API. Set natOutgoing instead.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "cidr": "10.0.0.0/16"},
        "IPPool p: cidr is in the wrong place. Move it into spec: cidr is a field of its own there.",
    ),
    (
        {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "natOutgoing": "yes"}},
        "IPPool p: spec.natOutgoing yes is not true or false. Write true or false, without quotes.",
    ),
    (
        {"kind": "Node", "metadata": {"name": "n", "labels": {"rack": True}}},
        "Node n: metadata.labels true is not a text, as the value of rack. Write it in quotes.",
    ),
    (
        {"kind": "Node", "metadata": {}},
        "Node: metadata.name is missing. Give the resource a name, as default-ipv4-ippool.",
    ),
    (
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"bgp": {"ipv4Adress": "10.0.0.1"}}},
        "Node n: spec.bgp.ipv4Adress is not a field here. Did you mean ipv4Address?",
    ),
    (
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"wireguard": {"zzz": 1}}},
        "Node n: spec.wireguard.zzz is not a field here. "
        "The fields here are interfaceIPv4Address, interfaceIPv6Address.",
    ),
    (
        {
            "kind": "BGPConfiguration",
            "metadata": {"name": "default"},
            "spec": {"prefixAdvertisements": [{"cidr": "10.0.0.0/8", "communities": ["1:1", "bleu"]}]},
        },
        "BGPConfiguration default: spec.prefixAdvertisements[0].communities[1] bleu is neither a BGP community nor a "
        "name given in communities. Write 65000:100, two numbers of 16 bits, or 65000:1:100, three of 32 bits.",
    ),
    (
        {"kind": "BGPPeer", "metadata": {"name": "p"}, "spec": {"peerIP": "tor1"}},
        "BGPPeer p: spec.peerIP tor1 is not the address of a peer. "
        "Write 10.0.0.1 or fd00::1, with a port 10.0.0.1:179 or [fd00::1]:179.",
    ),
    (
        {
            "kind": "BGPPeer",
            "metadata": {"name": "p"},
            "spec": {"peerSelector": "all()", "localWorkloadSelector": "all()"},
        },
        "BGPPeer p: spec.peerSelector all() cannot stand together with localWorkloadSelector. Keep one of them.",
    ),
    (
        {"kind": "IPPools", "metadata": {"name": "p"}},
        "p: kind IPPools is not a kind of resource that is known here. Did you mean IPPool?",
    ),
    (
        {"kind": "Deployment", "metadata": {"name": "p"}},
        f"p: kind Deployment is not a kind of resource that is known here. Known are {', '.join(resources.KINDS)}.",
    ),
    (
        {"kind": "KubeControllersConfiguration", "metadata": {"name": "default"}},
        "default: kind KubeControllersConfiguration is not a kind of resource here. Variables have its settings, "
        "as far as they apply here: see docs/how-to/migrate-from-calico.md.",
    ),
    (
        {},
        "document: kind is missing. Write one of IPPool, BGPConfiguration, BGPPeer, BGPFilter, Node, Tier, "
        "GlobalNetworkPolicy, NetworkPolicy, StagedGlobalNetworkPolicy, StagedNetworkPolicy, Profile, "
        "GlobalNetworkSet, NetworkSet, HostEndpoint, WorkloadEndpoint, IPReservation, IPAMConfiguration, "
        "FelixConfiguration.",
    ),
    (
        {"kind": "StagedKubernetesNetworkPolicy", "metadata": {"name": "n"}},
        "n: kind StagedKubernetesNetworkPolicy is for policies of Kubernetes, which is not here. Write a "
        "StagedNetworkPolicy, with Calico's selectors and rules.",
    ),
    (
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
        "Node n: apiVersion v1 is not an API that is known here. Write projectcalico.org/v3.",
    ),
    (["a"], "document [a] is not a mapping. Write apiVersion, kind, metadata and spec."),
]


@pytest.mark.parametrize(("document", "message"), DOCUMENT_ERRORS, ids=lambda value: str(value)[:60])
def test_errors_in_documents(document: dict, message: str) -> None:
    with pytest.raises(ResourceError) as caught:
        parse(document)
    assert str(caught.value) == message


FLAT_ERRORS = [
    (
        {"name": "p", "cidr": "10.0.0.0/16", "blockSize": 33},
        ("blockSize", 33),
        "IPPool p: blockSize 33 is out of range. A block of an IPv4 pool is between /20 and /32. "
        "Choose a length in between, or leave it out for /26.",
    ),
    (
        {"name": "p", "cidr": "10.0.0/16"},
        ("cidr", "10.0.0/16"),
        "IPPool p: cidr 10.0.0/16 is not a range of addresses. "
        "Write it as address/prefix length, for example 10.244.0.0/16.",
    ),
    (
        {"cidr": "10.0.0.0/16"},
        ("name", None),
        "IPPool: name is missing. Give the resource a name, as default-ipv4-ippool.",
    ),
    (
        {"nam": "p", "cidr": "10.0.0.0/16"},
        ("nam", None),
        "IPPool: nam is not a field here. Did you mean name?",
    ),
    (
        {"name": "p", "cidr": "10.0.0.0/16", "encapsulation": "ipip"},
        ("encapsulation", "ipip"),
        "IPPool p: encapsulation ipip is not one of IPIP, IPIPCrossSubnet, VXLAN, VXLANCrossSubnet, None. "
        "Did you mean IPIP?",
    ),
    (
        {"name": "p", "cidr": "10.0.0.0/16", "encapsulation": "VXLAN", "vxlanMode": "Always"},
        ("encapsulation", "VXLAN"),
        "IPPool p: encapsulation VXLAN stands beside vxlanMode, which says it as well. Keep one of them.",
    ),
    (
        {"name": "p", "cidr": "10.0.0.0/16", "labels": {"a b": "c"}},
        ("labels", "a b"),
        "IPPool p: labels a b is not a label's name. Use at most 63 letters, digits, '-', '_' and '.', "
        "beginning and ending with a letter or digit, behind an optional example.org/.",
    ),
    (
        {"kind": "BGPPeer", "metadata": {"name": "p"}, "spec": {}},
        ("kind", "BGPPeer"),
        "IPPool p: kind BGPPeer is another kind of resource. Write IPPool.",
    ),
    (
        {"metadata": {"name": "p"}, "spec": {"cidr": "x"}},
        ("spec.cidr", "x"),
        "IPPool p: spec.cidr x is not a range of addresses. "
        "Write it as address/prefix length, for example 10.244.0.0/16.",
    ),
    (
        {"kind": "Node", "name": "p", "cidr": "10.0.0.0/16"},
        ("kind", "Node"),
        "IPPool p: kind Node is another kind of resource. Write IPPool.",
    ),
    (
        "10.0.0.0/16",
        ("", "10.0.0.0/16"),
        "IPPool 10.0.0.0/16 is not a mapping. Write its fields one a line, each with a colon.",
    ),
]


@pytest.mark.parametrize(("flat", "where", "message"), FLAT_ERRORS, ids=lambda value: str(value)[:60])
def test_errors_in_the_flat_form(flat: dict, where: tuple, message: str) -> None:
    with pytest.raises(ResourceError) as caught:
        parse_flat("IPPool", flat)
    assert (caught.value.field, caught.value.value) == where
    assert str(caught.value) == message


def test_errors_of_with_encapsulation() -> None:
    with pytest.raises(ResourceError) as unknown:
        pool().with_encapsulation("vxlan")
    assert str(unknown.value) == (
        "IPPool p: encapsulation vxlan is not one of IPIP, IPIPCrossSubnet, VXLAN, VXLANCrossSubnet, None. "
        "Did you mean VXLAN?"
    )
    with pytest.raises(ResourceError) as six:
        pool(cidr="fd00::/64").with_encapsulation("IPIP")
    assert str(six.value) == (
        "IPPool p: encapsulation IPIP is not possible for an IPv6 pool: IPIP carries IPv4 only. "
        "Leave it out for direct routing, or set vxlanMode instead."
    )


def test_an_ipv6_pool_may_use_vxlan() -> None:
    six = pool(cidr="fd00::/64").with_encapsulation("VXLANCrossSubnet")
    assert (six.version, six.blockSize, six.encapsulation) == (6, 122, "VXLANCrossSubnet")


def test_long_and_odd_values_stay_on_one_line() -> None:
    with pytest.raises(ResourceError) as caught:
        pool(cidr="x\n" * 500)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


# --- properties -----------------------------------------------------------------------------------------------------

words = st.sampled_from(["", "Always", "CrossSubnet", "Never", "always", "Off"])
specs = st.fixed_dictionaries(
    {
        "cidr": st.one_of(
            st.builds(
                lambda number, length: str(ipaddress.ip_network((number, length), strict=False)),
                st.integers(1 << 24, 2**32 - 1),
                st.integers(8, 32),
            ),
            st.builds(
                lambda number, length: str(ipaddress.ip_network((0xFD << 120 | number, length), strict=False)),
                st.integers(0, 2**119),
                st.integers(8, 128),
            ),
            st.text(max_size=12),
        )
    },
    optional={
        "blockSize": st.one_of(st.none(), st.integers(-1, 130)),
        "ipipMode": words,
        "vxlanMode": words,
        "natOutgoing": st.booleans(),
        "disabled": st.booleans(),
        "disableBGPExport": st.booleans(),
        "nodeSelector": st.sampled_from(["", "all()", "has(a)", "a in {'b'}", "a ="]),
        "allowedUses": st.lists(st.sampled_from(["Workload", "Tunnel"]), max_size=2),
    },
)


@given(specs)
def test_a_pool_is_refused_in_words_or_reads_back(spec: dict) -> None:
    flat = {"name": "p", **spec}
    try:
        made = parse_flat("IPPool", flat)
    except ResourceError as error:
        assert error.field in flat
        with pytest.raises(ResourceError) as again:
            parse({"kind": "IPPool", "metadata": {"name": "p"}, "spec": spec})
        assert again.value.field == f"spec.{error.field}"
        assert (again.value.rule, again.value.remedy) == (error.rule, error.remedy)
        return
    assert isinstance(made, resources.IPPool)
    assert parse(made.to_document()) == made
    assert parse(made.to_document()).to_document() == made.to_document()
    assert made.encapsulation in resources.ENCAPSULATIONS
    assert resources.BLOCK_SIZES[made.version][1] <= made.blockSize <= resources.BLOCK_SIZES[made.version][2]
    assert made.disabled or ipaddress.ip_network(made.cidr).prefixlen <= made.blockSize


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
field_names = sorted(
    {name for kind in resources.KINDS for name in resources.json_schema(kind, flat=True)["properties"]}
)


@given(
    st.sampled_from(sorted(resources.KINDS)),
    st.dictionaries(st.sampled_from([*field_names, "kind", "spec"]), anything, max_size=4),
)
@example("IPPool", {"encapsulation": []})
def test_nothing_but_resource_errors(kind: str, flat: dict) -> None:
    for attempt in (
        lambda: parse_flat(kind, flat),
        lambda: parse({"kind": kind, "metadata": flat, "spec": flat}),
        lambda: parse({"kind": kind, "metadata": {"name": "x"}, "spec": flat, "status": flat}),
        lambda: parse(flat),
    ):
        try:
            attempt()
        except ResourceError as error:
            assert str(error)


@given(st.text(alphabet="0123456789./:afx ", max_size=20))
def test_addresses_agree_with_the_standard_library(text: str) -> None:
    try:
        expected = ipaddress.ip_address(text)
    except ValueError:
        assert parse_address(text) is None
    else:
        mapped = getattr(expected, "ipv4_mapped", None)
        assert parse_address(text) == ((4, int(mapped)) if mapped else (expected.version, int(expected)))


@given(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 2**128 - 1)), st.integers(0, 128))
def test_ranges_agree_with_the_standard_library(number: int, length: int) -> None:
    address = ipaddress.ip_address(number)
    assume(length <= address.max_prefixlen and getattr(address, "ipv4_mapped", None) is None)
    cidr = parse_cidr(f"{address}/{length}")
    assert cidr
    network = ipaddress.ip_network((number, length), strict=False)
    if network.version == cidr.version:
        assert str(cidr) == str(network)
        assert cidr.strict is (network.network_address == address)
        other = parse_cidr(f"{network.network_address}/{min(length + 1, address.max_prefixlen)}")
        assert other
        assert cidr.overlaps(other)
        assert other.overlaps(cidr)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120s", 120), ("1m30s", 90), ("1.5h", 5400), (".5s", 0.5), ("-1ms", -0.001), ("0", 0), ("1us", 1e-6)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


# --- purity ---------------------------------------------------------------------------------------------------------


def test_the_room_needs_neither_ansible_nor_anything_outside_the_standard_library() -> None:
    """The package needs neither Ansible nor other libraries, since nodes run it without Ansible."""
    root = pathlib.Path(resources.__file__).resolve().parent.parent
    script = (
        "import sys, types\n"
        "package = types.ModuleType('engine'); package.__path__ = [sys.argv[1]]; sys.modules['engine'] = package\n"
        "import engine.resources.api, engine.base.selectors, engine.base.naming\n"
        "print(engine.resources.api.parse_flat('IPPool', {'name': 'p', 'cidr': '10.0.0.0/16'}).blockSize)\n"
        "print(sorted(name for name in ('ansible', 'pyroute2', 'netaddr', 'yaml', 'jinja2') if name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(root)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "26\n[]\n"


def test_a_number_of_a_community_has_any_count_of_digits() -> None:
    """Leading zeros count for nothing, and thousands of digits are too many in words."""
    assert is_community(f"{'0' * 5000}1:{'0' * 5000}") is True
    for text in (f"1:{'9' * 5000}", "1:100000000000000000000"):
        with pytest.raises(Refused) as caught:
            is_community(text)
        assert caught.value.rule == "has a number of more than 16 bits."
