# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and ranges as text: texts that are just valid, and texts that are just invalid."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import addresses


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.0.0.0", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("10.1.2.0", "10.1.2.0"),
        ("fd00:0::1", "fd00::1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::ffff:0:0", "0.0.0.0"),
        ("::fffe:10.1.2.3", "::fffe:a01:203"),
        ("::1:ffff:10.1.2.3", "::1:ffff:a01:203"),
    ],
)
def test_a_valid_address_is_parsed(text: str, canonical: str) -> None:
    found = addresses.parse_address(text)
    assert found is not None
    assert found.text == canonical
    assert found.version == (6 if ":" in canonical else 4)


@pytest.mark.parametrize("text", ["", "10.0.0", "256.0.0.1", "10.0.0.01", "00.0.0.0", "fe80::1%eth0", "1::2::3", "x"])
def test_an_invalid_address_parses_as_none(text: str) -> None:
    assert addresses.parse_address(text) is None
    assert addresses.parse_cidr_or_address(text) is None


@pytest.mark.parametrize(
    ("text", "canonical", "strict", "written"),
    [
        ("10.1.2.3/0", "0.0.0.0/0", False, 0),
        ("10.1.2.0/24", "10.1.2.0/24", True, 24),
        ("10.1.2.1/24", "10.1.2.0/24", False, 24),
        ("10.1.2.3/32", "10.1.2.3/32", True, 32),
        ("fd00::1/128", "fd00::1/128", True, 128),
        ("fd00::1/127", "fd00::/127", False, 127),
        ("::ffff:10.1.2.3/96", "0.0.0.0/0", False, 96),
        ("::ffff:10.1.2.0/120", "10.1.2.0/24", True, 120),
        ("::ffff:10.1.2.3/95", "::fffe:0:0/95", False, 95),
    ],
)
def test_a_valid_range_is_parsed(text: str, canonical: str, strict: bool, written: int) -> None:
    found = addresses.parse_cidr(text)
    assert found is not None
    assert (str(found), found.strict, found.length_written) == (canonical, strict, written)
    assert addresses.parse_cidr_or_address(text) == found


@pytest.mark.parametrize("text", ["10.1.2.3", "10.1.2.3/33", "fd00::/129", "10.1.2.3/", "10.1.2.3/-1", "/8"])
def test_an_invalid_range_parses_as_none(text: str) -> None:
    assert addresses.parse_cidr(text) is None


@pytest.mark.parametrize(("text", "whole"), [("10.1.2.3", "10.1.2.3/32"), ("fd00::1", "fd00::1/128")])
def test_an_address_alone_is_a_range_of_one(text: str, whole: str) -> None:
    found = addresses.parse_cidr_or_address(text)
    assert found == addresses.parse_cidr(whole)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("10.0.0.0/24", "10.0.0.128/25", True),
        ("10.0.0.0/25", "10.0.0.128/25", False),
        ("10.0.0.0/32", "10.0.0.1/32", False),
        ("0.0.0.0/0", "10.0.0.1/32", True),
        ("0.0.0.0/0", "::/0", False),
        ("fd00::/127", "fd00::1/128", True),
    ],
)
def test_ranges_overlap(one: str, other: str, overlap: bool) -> None:
    a, b = addresses.parse_cidr(one), addresses.parse_cidr(other)
    assert a is not None and b is not None
    assert (a.overlaps(b), b.overlaps(a)) == (overlap, overlap)
