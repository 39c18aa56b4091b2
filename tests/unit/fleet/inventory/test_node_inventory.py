# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of nodes as they are read from hosts: names, addresses and subnets. bad_inventories.yml has more errors."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import node_inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError


def read(name: str = "node1", **variables: t.Any) -> node_inventory.FleetNode:
    """Return the node of host `name` with these variables, given without calico_; raise FleetError if invalid."""
    given = {f"calico_{key}": value for key, value in variables.items()}
    return node_inventory.read([Host(name, given, workload_node=True)])[name]


@pytest.mark.parametrize("name", ["n", "n" * 63, "Rack-1.node_2", "7"])
def test_a_name_that_a_node_can_have(name: str) -> None:
    """A name is accepted if it can be the value of a label: at most 63 letters, digits, and, inside, '-', '_', '.'."""
    assert read(name, node_address="10.10.1.11/24").labels["kubernetes.io/hostname"] == name


@pytest.mark.parametrize("name", ["n" * 64, "-n", "n-", "n.", "node 1", "nöde"])
def test_a_name_that_no_node_can_have(name: str) -> None:
    """A name that is too long, has another character, or begins or ends with no letter or digit is refused."""
    with pytest.raises(FleetError) as caught:
        read(name, node_address="10.10.1.11/24")
    assert str(caught.value) == (
        f"host {name} is not a name that a node can have. "
        "Use at most 63 letters, digits, '-', '_' and '.' for its name in the inventory."
    )


@pytest.mark.parametrize(
    ("address", "subnet"),
    [
        ("10.10.1.11/24", "10.10.1.0/24"),
        ("10.10.1.254/25", "10.10.1.128/25"),
        ("10.10.1.11/31", "10.10.1.10/31"),
        ("10.10.1.11/32", "10.10.1.11/32"),
    ],
)
def test_the_subnet_of_an_ipv4_address(address: str, subnet: str) -> None:
    """A node with IPv4 alone has the subnet of its address, and nothing of IPv6."""
    node = read(node_address=address)
    assert (node.cidr, node.subnet) == (address, subnet)
    assert (node.cidr6, node.subnet6, node.prefix6, node.ip6) == ("", "", 0, 0)
    assert (node.address_of(4), node.address_of(6)) == (address.partition("/")[0], "")


@pytest.mark.parametrize(
    ("address", "subnet"), [("fd00:10::11/64", "fd00:10::/64"), ("fd00::ff/121", "fd00::80/121"), ("fd00::1/128",) * 2]
)
def test_the_subnet_of_an_ipv6_address(address: str, subnet: str) -> None:
    """A node with IPv6 alone has the subnet of its address, and nothing of IPv4."""
    node = read(node_address_ipv6=address)
    assert (node.cidr6, node.subnet6) == (address, subnet)
    assert (node.cidr, node.subnet, node.prefix, node.ip) == ("", "", 0, 0)
    assert (node.address_of(4), node.address_of(6)) == ("", address.partition("/")[0])


@pytest.mark.parametrize(("given", "spoofing"), [({}, False), ({"workload_source_spoofing": "yes"}, True)])
def test_source_spoofing_is_permitted_only_where_configured(given: dict[str, t.Any], spoofing: bool) -> None:
    """Source spoofing is forbidden by default, and permitted on a node that sets it to yes."""
    assert read(node_address="10.10.1.11/24", **given).workload_source_spoofing is spoofing


def test_a_node_that_is_made_without_ipv6_has_none() -> None:
    """The fields of IPv6 are "" and 0 for a node that is made without them, and its workloads cannot spoof."""
    node = node_inventory.FleetNode("n", "10.10.1.11", 24, 168427787, "10.10.1.0/24", {}, True, False)
    assert (node.address6, node.prefix6, node.ip6, node.subnet6, node.workload_source_spoofing) == ("", 0, 0, "", False)


def test_nodes_of_one_subnet_have_the_same_one() -> None:
    """Nodes share a subnet exactly if it has the same first address and the same length."""
    addresses = {"a": "10.10.1.11/24", "b": "10.10.1.12/24", "c": "10.10.1.13/25", "d": "10.10.2.11/24"}
    hosts = [Host(name, {"calico_node_address": one}, workload_node=True) for name, one in addresses.items()]
    nodes = node_inventory.read(hosts)
    assert {name: node.subnet for name, node in nodes.items()} == {
        "a": "10.10.1.0/24",
        "b": "10.10.1.0/24",
        "c": "10.10.1.0/25",
        "d": "10.10.2.0/24",
    }


UNREACHABLE = "is not an address that other nodes can reach."
NO_LENGTH4, NO_LENGTH6 = (f"has no prefix length from /1 to /{bits}." for bits in (32, 128))
NO_ADDRESS4, NO_ADDRESS6 = (f"is not an IPv{version} address with a prefix length." for version in (4, 6))


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("node_address", "10.10.1.11/0", NO_LENGTH4),
        ("node_address", "10.10.1.11/33", NO_LENGTH4),
        ("node_address", "10.10.1.11/", NO_LENGTH4),
        ("node_address", "10.10.1.11", NO_LENGTH4),
        ("node_address", "10.10.1.11/٨", NO_LENGTH4),
        ("node_address", "10.10.1.256/24", NO_ADDRESS4),
        ("node_address", "fd00::1/64", NO_ADDRESS4),
        ("node_address", "10.10.1.12/30", "is the network address of its subnet."),
        ("node_address", "10.10.1.15/30", "is the broadcast address of its subnet."),
        *(("node_address", f"{one}/24", UNREACHABLE) for one in ("127.0.0.5", "224.0.0.5", "169.254.0.5", "0.10.1.5")),
        ("node_address", "0.0.0.0/24", UNREACHABLE),
        ("node_address_ipv6", "fd00::1/0", NO_LENGTH6),
        ("node_address_ipv6", "fd00::1/129", NO_LENGTH6),
        ("node_address_ipv6", "10.10.1.11/24", NO_ADDRESS6),
        ("node_address_ipv6", "fd00::1%2/64", NO_ADDRESS6),  # a zone, which is not a part of the address
        ("node_address_ipv6", "fd00::1%eth0/64", NO_ADDRESS6),
        ("node_address_ipv6", "fd00::4/126", "is the subnet-router anycast address of its subnet."),
        *(("node_address_ipv6", f"{one}/64", UNREACHABLE) for one in ("::1", "::", "ff02::5", "fe80::5")),
    ],
)
def test_an_address_that_no_node_can_have(variable: str, value: str, rule: str) -> None:
    """An address without a valid length, that is none of the IP version, or that stands for a whole subnet is refused.

    So is one with a zone, or that is unspecified, loopback, multicast, link-local or reserved.
    """
    with pytest.raises(FleetError) as caught:
        read(**{variable: value})
    assert str(caught.value).startswith(f"calico_{variable} of node1 {value} {rule} Write ")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("node_address", "10.10.1.11/1"),
        ("node_address", "10.10.1.13/30"),
        ("node_address", "10.10.1.14/30"),
        ("node_address", "10.10.1.12/31"),  # RFC 3021: both addresses are those of hosts
        ("node_address", "10.10.1.15/31"),
        ("node_address", "10.10.1.12/32"),
        ("node_address_ipv6", "fd00::1/1"),
        ("node_address_ipv6", "fd00::7/126"),  # IPv6 has no broadcast
        ("node_address_ipv6", "fd00::4/127"),  # RFC 6164
        ("node_address_ipv6", "fd00::4/128"),
    ],
)
def test_an_address_at_the_end_of_its_subnet(variable: str, value: str) -> None:
    """An address is accepted from /1 to a single one, and at the ends of a link of two hosts."""
    node = read(**{variable: value})
    assert value in (node.cidr, node.cidr6)


def test_a_prefix_length_that_python_would_not_read_is_refused() -> None:
    """Python turns at most 4,300 digits into a number, and raises ValueError for more."""
    with pytest.raises(FleetError, match=r"has no prefix length from /1 to /32\."):
        read(node_address=f"10.10.1.11/{'9' * 5000}")
