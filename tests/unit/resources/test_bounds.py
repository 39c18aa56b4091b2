# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of AS numbers, ports, protocols and lists, in values and in schemas, and the words of errors."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.errors import Refused, shown
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.fields import ASNumber, OneOf
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.kinds.bgp import split_peer_ip
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.ports import Protocol, RulePort


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (2**32 - 1, 2**32 - 1),
        (2**32, None),
        (-1, None),
        ("4294967295", 2**32 - 1),
        ("4294967296", None),
        ("65535.65535", 2**32 - 1),
        ("1.0", 65536),
        ("65536.0", None),
        ("0.65536", None),
        (True, None),
    ],
)
def test_an_as_number_has_32_bits(value: t.Any, number: t.Optional[int]) -> None:
    """An AS number has 32 bits (RFC 6793), also in the notation with a dot (RFC 5396); all else is refused."""
    if number is None:
        with pytest.raises(Refused):
            ASNumber().read(value)
    else:
        assert ASNumber().read(value) == number


def test_the_schema_of_an_as_number_has_the_same_bounds() -> None:
    number, _text = ASNumber().schema()["anyOf"]
    assert (number["minimum"], number["maximum"]) == (0, 4294967295)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1", ("10.0.0.1", 0)),
        ("fd00::1", ("fd00::1", 0)),
        ("10.0.0.1:179", ("10.0.0.1", 179)),
        ("[fd00::1]:65535", ("fd00::1", 65535)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("10.0.0.1:0", None),
        ("10.0.0.1:65536", None),
        ("router", None),
    ],
)
def test_a_peer_ip_may_have_a_port(text: str, found: t.Optional[tuple[str, int]]) -> None:
    assert split_peer_ip(text) == found


@pytest.mark.parametrize(
    ("text", "word"), [("ACCEPT", "Accept"), ("Acept", "Accept"), ("rejct", "Reject"), ("deny", None)]
)
def test_a_word_that_is_nearly_right_is_suggested(text: str, word: t.Optional[str]) -> None:
    with pytest.raises(Refused) as caught:
        OneOf(("Accept", "Reject")).read(text)
    assert caught.value.remedy == (f"Did you mean {word}?" if word else "Choose one of these.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 77 + "..."),
        (" x", "' x'"),
        ("x ", "x "),
        ("", "''"),
        ("a\nb", "'a\\nb'"),
        (7, "7"),
    ],
)
def test_an_error_shows_a_value_in_one_line_of_80_characters(value: t.Any, text: str) -> None:
    assert shown(value) == text


def bgp_filter(**rule: t.Any) -> t.Any:
    return resources.parse_flat("BGPFilter", {"name": "f", "importV4": [{"action": "Accept", **rule}]})


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (10, True), (11, False)])
def test_a_path_is_lengthened_by_one_to_ten_numbers(count: int, fits: bool) -> None:
    operations = [{"prependASPath": {"prefix": [65000] * count}}]
    if fits:
        bgp_filter(operations=operations)
    else:
        with pytest.raises(resources.ResourceError, match="is not a list of 1 to 10 AS numbers"):
            bgp_filter(operations=operations)


@pytest.mark.parametrize(("count", "fits"), [(10, True), (11, False)])
def test_a_rule_has_at_most_ten_operations(count: int, fits: bool) -> None:
    operations = [{"setPriority": {"value": 100}}] * count
    if fits:
        bgp_filter(operations=operations)
    else:
        with pytest.raises(resources.ResourceError, match="has more than 10 entries"):
            bgp_filter(operations=operations)


def test_schemas_of_protocols_and_ports_have_the_bounds_of_ip() -> None:
    """A protocol has eight bits and is not 0, which is HOPOPT; a port has 16 bits and is not 0."""
    _names, _text, protocol = Protocol().schema()["anyOf"]
    port, _other = RulePort().schema()["anyOf"]
    assert (protocol["minimum"], protocol["maximum"]) == (1, 255)
    assert (port["minimum"], port["maximum"]) == (1, 65535)


@pytest.mark.parametrize(("value", "fits"), [(0, False), (1, True), (2147483646, True), (2147483647, False)])
def test_a_priority_fits_a_local_preference(value: int, fits: bool) -> None:
    operations = [{"setPriority": {"value": value}}]
    if fits:
        bgp_filter(operations=operations)
    else:
        with pytest.raises(resources.ResourceError):
            bgp_filter(operations=operations)


@pytest.mark.parametrize(
    ("value", "fits"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_a_number_of_allowed_as_numbers_is_an_int32_of_calico(value: int, fits: bool) -> None:
    peer = {"name": "p", "peerIP": "10.0.0.1", "asNumber": 65001, "numAllowedLocalASNumbers": value}
    if fits:
        assert resources.parse_flat("BGPPeer", peer).numAllowedLocalASNumbers == value
    else:
        with pytest.raises(resources.ResourceError):
            resources.parse_flat("BGPPeer", peer)
