# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derived names: Calico's test vectors, and properties of all names."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from hypothesis import given
from hypothesis import strategies as st

CASES = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "naming_cases.json").read_text(encoding="utf-8"))


def test_every_group_of_vectors_is_used() -> None:
    assert {group for group in CASES if group != "source"} == {
        "veth_k8s_style",
        "handle_id",
        "router_id_hash",
        "bird_filter_name",
        "bird_peer_name",
    }


@pytest.mark.parametrize("case", [case for case in CASES["veth_k8s_style"]["cases"] if case["prefix"] == "cali"])
def test_interface_names(case: dict) -> None:
    assert naming.interface_name(case["namespace"], case["name"]) == case["expected"]


@pytest.mark.parametrize("tunnel", ["ipip", "vxlan", "vxlan-v6", "wireguard", "wireguard-v6"])
def test_handles_of_tunnels(tunnel: str) -> None:
    assert naming.tunnel_handle_id(tunnel, "node-1") == f"{tunnel}-tunnel-addr-node-1"
    assert f"{tunnel}-tunnel-addr-<node>" in CASES["handle_id"]["rule"]


@pytest.mark.parametrize("case", CASES["router_id_hash"]["cases"])
def test_router_ids(case: dict) -> None:
    assert naming.router_id(case["node"]) == case["expected"]


@pytest.mark.parametrize("case", CASES["bird_filter_name"]["cases"])
def test_bird_filter_names(case: dict) -> None:
    assert naming.bird_filter_name(case["name"], case["direction"], case["version"]) == case["expected"]


@pytest.mark.parametrize("case", CASES["bird_peer_name"]["cases"])
def test_bird_peer_names(case: dict) -> None:
    assert naming.bird_peer_name(case["type"], case["ip"], case.get("port")) == case["expected"]


def test_vtep_macs_are_those_of_felix() -> None:
    # 66 is followed by the beginning of `printf node1 | sha1sum`.
    assert naming.vtep_mac("node1") == "66:f9:37:c3:7e:94"


def test_a_vtep_has_the_link_local_address_that_its_mac_makes() -> None:
    # 64 is 66 with its second lowest bit inverted, and ff:fe is in the middle.
    assert naming.vtep_link_local("node1") == "fe80::64f9:37ff:fec3:7e94"


@pytest.mark.parametrize("name", ["a", "cali0123456789a", "vxlan.calico", "vxlan-v6.calico", "eth0@x", "a" * 15])
def test_device_names_that_the_kernel_takes(name: str) -> None:
    assert naming.check_device_name(name) == name


@pytest.mark.parametrize("name", ["", "a" * 16, "a b", "a/b", "a:b", ".", "..", "a\n", "ü" * 8, "a\0", "àx"])
def test_device_names_that_it_refuses(name: str) -> None:
    with pytest.raises(naming.NamingError):
        naming.check_device_name(name)


def test_errors_say_what_where_and_how_to_go_on() -> None:
    with pytest.raises(naming.NamingError) as too_long:
        naming.check_device_name("workload-interface")
    assert str(too_long.value) == (
        "device name 'workload-interface' cannot be the name of a device. "
        "Use 1 to 15 characters without white space, '/' and ':'."
    )
    with pytest.raises(naming.NamingError) as tunnel:
        naming.tunnel_handle_id("gre", "n")
    assert str(tunnel.value) == (
        "tunnel 'gre' is not a kind of tunnel. Use one of ipip, vxlan, vxlan-v6, wireguard, wireguard-v6."
    )


names = st.text(min_size=1, max_size=80).filter(lambda text: text.isprintable())


@given(names, names)
def test_an_interface_name_is_a_device_name(namespace: str, name: str) -> None:
    assert naming.check_device_name(naming.interface_name(namespace, name)).startswith("cali")


@given(names)
def test_a_vtep_mac_is_local_and_unicast(node: str) -> None:
    octets = [int(octet, 16) for octet in naming.vtep_mac(node).split(":")]
    assert len(octets) == 6
    assert octets[0] & 0b11 == 0b10


@given(names)
def test_a_router_id_is_a_usable_address(node: str) -> None:
    address = ipaddress.IPv4Address(naming.router_id(node))
    assert not address.is_multicast
    assert not address.is_reserved


@given(st.text(alphabet="abc-.", min_size=1, max_size=90))
def test_a_filter_name_fits_a_bird_symbol(name: str) -> None:
    assert len(naming.bird_filter_name(name, "import", 4).strip("'")) <= 64


@pytest.mark.parametrize(("node", "first"), [("node137", 222), ("node818", 223), ("node371", 192), ("node67", 223)])
def test_a_router_id_is_below_the_multicast_addresses(node: str, first: int) -> None:
    """The router ID's first byte is that of the hash up to 223, and is 32 less than a byte from 224 to 255."""
    assert naming.router_id(node).split(".")[0] == str(first)


def test_a_host_that_permits_no_sha1_for_security_has_vteps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In FIPS mode SHA-1 is refused unless it serves no security, and a MAC address is no secret."""
    real = hashlib.sha1

    def fips(data: bytes, usedforsecurity: bool = True) -> t.Any:
        if usedforsecurity:
            raise ValueError("[digital envelope routines] unsupported")
        return real(data, usedforsecurity=False)

    monkeypatch.setattr(hashlib, "sha1", fips)
    assert naming.vtep_mac("node1") == "66:f9:37:c3:7e:94"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("02:00:00:00:00:01", True),
        ("66:aa:bb:cc:dd:ee", True),
        ("66:AA:bb:cc:dd:ee", False),
        ("66aa.bbcc.ddee", False),
        ("66-aa-bb-cc-dd-ee", False),
        ("66:aa:bb:cc:dd", False),
        ("01:00:5e:00:00:01", False),
        ("00:00:00:00:00:00", False),
    ],
)
def test_a_mac_address_is_of_one_device(text: str, is_one: bool) -> None:
    """A MAC address has six lower-case pairs with colons between, and is neither multicast nor all zeros."""
    assert naming.is_mac(text) is is_one
