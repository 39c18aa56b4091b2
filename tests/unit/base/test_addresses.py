# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic on valid addresses and CIDRs, compared with Python's ipaddress."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import addresses
from hypothesis import given
from hypothesis import strategies as st

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def _network(version: int, number: int, length: int) -> Network:
    bits = addresses.BITS[version]
    make: t.Any = ipaddress.IPv4Network if version == 4 else ipaddress.IPv6Network
    return make(((number % (1 << bits)) >> (bits - length) << (bits - length), length))


#: Only a few bits vary, so that one network is often in another.
NUMBERS = st.builds(lambda high, low: high << 120 | high << 24 | low, st.integers(0, 3), st.integers(0, 3))
NETWORKS = st.one_of(
    st.builds(_network, st.just(4), NUMBERS, st.integers(0, 32)),
    st.builds(_network, st.just(6), NUMBERS, st.integers(0, 128)),
)


@given(NETWORKS, NETWORKS)
def test_inside_is_subnet_of(one: Network, other: Network) -> None:
    expected = one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
    assert addresses.inside(str(one), str(other)) == expected
    assert addresses.within(str(one), addresses.network(str(other))) == expected
    assert addresses.cidr(str(other)).contains(addresses.cidr(str(one))) == expected
    assert addresses.contains(str(other), str(one.network_address)) == (one.network_address in other)


@given(NETWORKS)
def test_numbers_are_those_of_ipaddress(one: Network) -> None:
    first, last = one.network_address, one.broadcast_address
    assert addresses.family_of(str(one)) == addresses.family_of(str(first)) == one.version
    assert addresses.number(str(last)) == addresses.number(last.exploded) == int(last)
    assert addresses.number(str(first)) == int(first)
    assert addresses.bounds(str(one)) == (int(first), int(last))
    assert addresses.host(str(first)) == f"{first}/{one.max_prefixlen}"


def test_a_network_has_no_host_bits() -> None:
    assert addresses.network("10.244.3.7/16") == (32, 0x0AF4, 16)
    assert addresses.network("10.244.3.7") == (32, 0x0AF40307, 32)
    assert addresses.network("fd00::1/16") == (128, 0xFD00, 16)


def test_an_ipv6_address_may_end_as_an_ipv4_one() -> None:
    assert addresses.number("64:ff9b::10.0.0.1") == int(ipaddress.IPv6Address("64:ff9b::a00:1"))


def test_a_cached_range_is_an_address_as_well() -> None:
    assert addresses.cidr("10.0.0.1") == addresses.parse_cidr("10.0.0.1/32")
    with pytest.raises(ValueError, match=r"'10\.0\.0' is neither an address nor a range of addresses"):
        addresses.cidr("10.0.0")
