# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges that are reserved: joined where they touch or overlap, each family for itself."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import AddressRanges

TEN = 10 << 24


def test_ranges_that_touch_or_overlap_are_one() -> None:
    found = AddressRanges(["10.0.0.8/30", "10.0.0.0/30", "10.0.0.4/30", "10.0.0.4/31", "10.0.0.16/32"])
    assert list(found) == [(TEN, TEN + 12), (TEN + 16, TEN + 17)]
    assert [number for number in range(20) if TEN + number in found] == [*range(12), 16]


def test_a_smaller_range_inside_a_larger_one_does_not_end_it() -> None:
    assert list(AddressRanges(["10.0.0.0/24", "10.0.0.0/30"])) == [(TEN, TEN + 256)]


@pytest.mark.parametrize("nested", range(3))
def test_a_smaller_range_belongs_to_the_one_that_contains_it(nested: int) -> None:
    ranges = [(TEN + (number << 16), TEN + (number << 16) + 1024) for number in range(3)]
    cidrs = [f"10.{number}.0.0/22" for number in range(3)]
    assert list(AddressRanges([*cidrs, f"10.{nested}.2.0/24"])) == ranges


def test_each_family_for_itself_and_ipv4_unless_said_otherwise() -> None:
    cidrs = ["10.0.0.0/32", "fd00::/127"]
    assert list(AddressRanges(cidrs)) == list(AddressRanges(cidrs, 4)) == [(TEN, TEN + 1)]
    assert list(AddressRanges(cidrs, 6)) == [(0xFD << 120, (0xFD << 120) + 2)]
    assert not AddressRanges() and not AddressRanges(["fd00::/64"])
