# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and members of IP sets."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import NamedPortKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets import ip_sets
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(max_size=300), st.text(max_size=300), st.sampled_from((4, 6)))
def test_a_name_is_short_and_tells_things_apart(one: str, other: str, family: int) -> None:
    name = ip_sets.selector_set(one, family)
    assert len(name) <= ip_sets.NAME_LIMIT
    assert name.startswith(f"cali{family}0s:")
    assert (name == ip_sets.selector_set(other, family)) == (one == other)


def test_a_named_port_differs_by_each_part() -> None:
    keys = [NamedPortKey(*key) for key in (("a", "tcp", "b"), ("a", "udp", "b"), ("at", "cp", "b"), ("a", "tcp", ""))]
    assert len({ip_sets.named_port_set(key, 4) for key in keys}) == len(keys)


def test_members_are_of_one_family_each_once() -> None:
    found = ip_sets.addresses("cali40x", 4, ["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"])
    assert found == ("cali40x", "hash:net", "inet", ("10.0.0.1", "10.0.0.2"))
    pairs = (("10.0.0.1", 80), ("fd00::1", 80))
    assert ip_sets.addresses_and_ports("cali60x", 6, ("tcp", pairs)).members == ("fd00::1,tcp:80",)
    assert ip_sets.addresses_and_interfaces("cali40x", 4, (("10.0.0.1", "cali1"),)).members == ("10.0.0.1,cali1",)


def test_all_addresses_are_two_halves() -> None:
    """The set of all addresses consists of two halves, since hash:net cannot hold a prefix of length 0."""
    assert ip_sets.addresses("x", 4, ["0.0.0.0/0"]).members == ("0.0.0.0/1", "128.0.0.0/1")
    assert ip_sets.addresses("x", 6, ["::/0"]).members == ("8000::/1", "::/1")
