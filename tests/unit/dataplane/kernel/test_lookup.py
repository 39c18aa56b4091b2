# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Longest-prefix match, compared with the standard library's networks."""

from __future__ import annotations

import ipaddress

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import network, within
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.lookup import Lookup
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import RouteAttributes
from hypothesis import given
from hypothesis import strategies as st

networks = st.builds(
    lambda number, length: str(ipaddress.ip_network((number, length), strict=False)),
    st.integers(0x0A000000, 0x0A0000FF),
    st.integers(0, 32),
)
routes = st.lists(
    st.tuples(networks, st.builds(RouteAttributes, device=st.sampled_from(["a", "b", "c"]), metric=st.integers(0, 3))),
    unique_by=lambda route: (route[0], route[1].metric),
)


@given(routes, st.integers(0x0A000000, 0x0A0000FF))
def test_longest_prefix_then_lowest_metric(table, number):
    address = ipaddress.ip_address(number)
    matching = [
        (-ipaddress.ip_network(destination).prefixlen, attributes.metric, attributes.device)
        for destination, attributes in table
        if address in ipaddress.ip_network(destination)
    ]
    found = Lookup(table).route(str(address))
    assert (found and found.device) == (min(matching)[2] if matching else None)


BASES = (int(ipaddress.ip_address("fd00::10.0.0.0")), 0x0A000000)  # Both end in the same 32 bits.
either = st.builds(
    lambda base, number, length: str(
        ipaddress.ip_network(
            ((ipaddress.IPv6Address if base >> 32 else ipaddress.IPv4Address)(base + number), length), strict=False
        )
    ),
    st.sampled_from(BASES),
    st.integers(0, 255),
    st.integers(0, 32),
)


@given(st.lists(either, unique=True), st.sampled_from(BASES), st.integers(0, 255))
def test_families_are_kept_apart(table, base, number):
    address = (ipaddress.IPv6Address if base >> 32 else ipaddress.IPv4Address)(base + number)
    matching = [one for one in map(ipaddress.ip_network, table) if one.version == address.version and address in one]
    found = Lookup((one, RouteAttributes(device=one)) for one in table).route(str(address))
    assert (found and found.device) == (str(max(matching, key=lambda one: one.prefixlen)) if matching else None)


@given(either, either)
def test_within_tells_families_apart(inner, outer):
    one, other = ipaddress.ip_network(inner), ipaddress.ip_network(outer)
    assert within(inner, network(outer)) == (one.version == other.version and one.subnet_of(other))


@given(networks, networks)
def test_within_is_subnet_of(inner, outer):
    assert within(inner, network(outer)) == ipaddress.ip_network(inner).subnet_of(ipaddress.ip_network(outer))
