# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of addresses and CIDRs that raise for invalid text, compared with Python's ipaddress."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import addresses
from hypothesis import given
from hypothesis import strategies as st

ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@given(ADDRESSES, st.data())
def test_valid_addresses_and_cidrs_are_read_as_by_ipaddress(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, data: st.DataObject
) -> None:
    """A valid address or CIDR is read as the numbers that ipaddress has, and an address is written as ipaddress does.

    A CIDR with bits set beyond its prefix is refused.
    """
    version, value = address.version, int(address)
    assert addresses.canonical_address(str(address)) == (version, value)
    assert addresses.format_address(version, value) == str(address)
    length = data.draw(st.integers(0, address.max_prefixlen))
    network = ipaddress.ip_network((address, length), strict=False)
    first = int(network.network_address)
    assert addresses.canonical_cidr(str(network)) == (version, first, length)
    if first != value:
        with pytest.raises(ValueError, match="has bits set behind its prefix"):
            addresses.canonical_cidr(f"{address}/{length}")


PARTS = ["0", "00", "1", "9", "10", "99", "100", "255", "256", "1000", "", "²", "٣"]


@given(st.lists(st.sampled_from(PARTS), min_size=3, max_size=5))
def test_texts_refused_by_ipaddress_are_refused(parts: list[str]) -> None:
    """A text of 3 to 5 parts is an address for all parsers if it is one for ipaddress, and for none otherwise."""
    text = ".".join(parts)
    try:
        expected = int(ipaddress.IPv4Address(text))
    except ValueError:
        with pytest.raises(ValueError, match="is not an IP address"):
            addresses.canonical_address(text)
        assert addresses.parse_address(text) is None
        assert addresses.parse_cidr(f"{text}/8") is None
    else:
        assert addresses.canonical_address(text) == (4, expected)
        assert addresses.parse_address(text) == (4, expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.0", "'10.0.0.0' has no prefix length"),
        ("10.0.0.0/", "'10.0.0.0/' has no prefix length"),
        ("10.0.0.0/x", "'10.0.0.0/x' has no prefix length"),
        ("10.0.0.0/08", "'10.0.0.0/08' has no prefix length"),
        ("10.0.0.0/٨", "'10.0.0.0/٨' has no prefix length"),
        ("10.0.0.0/-8", "'10.0.0.0/-8' has no prefix length"),
        ("10.0.0.0/33", "'10.0.0.0/33' has a prefix longer than 32"),
        ("fd00::/129", "'fd00::/129' has a prefix longer than 128"),
        ("10.0.0.1/31", "'10.0.0.1/31' has bits set behind its prefix"),
        ("fd00::1/127", "'fd00::1/127' has bits set behind its prefix"),
        ("10.0.0/8", "'10.0.0' is not an IP address"),
        ("fe80::1%eth0/64", "'fe80::1%eth0' has a zone"),
    ],
)
def test_why_a_text_is_no_canonical_cidr(text: str, words: str) -> None:
    """The error quotes the text, or the address in it, and says what is wrong with it."""
    with pytest.raises(ValueError) as caught:
        addresses.canonical_cidr(text)
    assert str(caught.value) == words


def test_a_mapped_address_stays_ipv6_in_its_canonical_form() -> None:
    """An IPv4-mapped IPv6 address is IPv6 for `canonical_address`, and IPv4 for the parsers that read as Calico.

    For them, a mapped range is IPv4 from a prefix length of 96 on, and a shorter one is IPv6.
    """
    assert addresses.canonical_address("::ffff:10.0.0.1") == (6, 0xFFFF0A000001)
    assert addresses.parse_address("::ffff:10.0.0.1") == (4, 0x0A000001)
    assert addresses.parse_cidr("::ffff:10.0.0.0/104") == (4, 0x0A000000, 0x0A000000, 8, 104)
    assert addresses.parse_cidr("::ffff:10.0.0.0/96") == (4, 0x0A000000, 0, 0, 96)
    wider = addresses.parse_cidr("::ffff:10.0.0.0/95")
    assert wider is not None
    assert (wider.version, wider.length) == (6, 95)


def test_a_range_is_read_with_or_without_a_length() -> None:
    """An address alone is a range of one address, bits beyond the prefix are kept, and other text is an error."""
    assert addresses.cidr("10.0.0.1") == (4, 0x0A000001, 0x0A000001, 32, 32)
    assert addresses.cidr("fd00::1") == (6, 0xFD << 120 | 1, 0xFD << 120 | 1, 128, 128)
    loose = addresses.cidr("10.0.0.1/8")
    assert (loose, loose.strict, str(loose)) == ((4, 0x0A000001, 0x0A000000, 8, 8), False, "10.0.0.0/8")
    assert addresses.cidr("10.0.0.0/8").strict
    with pytest.raises(ValueError, match=r"^'x' is neither an address nor a range of addresses$"):
        addresses.cidr("x")


@pytest.mark.parametrize(
    "text",
    ["10.0.0.0/0000032", "10.0.0.0/33", "fd00::/129", "10.0.0.0/ 8", "fd00::%1/8", "10.0.0.0"],
)
def test_an_invalid_cidr_parses_as_none(text: str) -> None:
    """A length that is too great, too long or missing, another character in it, or a zone makes a text no CIDR."""
    assert addresses.parse_cidr(text) is None


def test_the_longest_lengths_are_lengths() -> None:
    """Lengths from 0 to that of the whole address are valid, with leading zeros up to six digits in all."""
    for text, length in (("10.0.0.0/32", 32), ("10.0.0.0/000032", 32), ("fd00::/128", 128), ("0.0.0.0/0", 0)):
        found = addresses.parse_cidr(text)
        assert found is not None
        assert found.length == length


@given(ADDRESSES, ADDRESSES, st.integers(0, 32), st.integers(0, 32))
def test_ranges_overlap_as_in_ipaddress(
    one: ipaddress.IPv4Address | ipaddress.IPv6Address,
    other: ipaddress.IPv4Address | ipaddress.IPv6Address,
    length: int,
    longer: int,
) -> None:
    """Two ranges overlap exactly if they do for ipaddress; ranges of two IP versions never do."""
    first = ipaddress.ip_network((one, length), strict=False)
    for address in (one, other):
        second = ipaddress.ip_network((address, longer), strict=False)
        expected = first.version == second.version and first.overlaps(second)  # type: ignore[arg-type]
        assert addresses.cidr(str(first)).overlaps(addresses.cidr(str(second))) is expected
        assert addresses.cidr(str(second)).overlaps(addresses.cidr(str(first))) is expected
