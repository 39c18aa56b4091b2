# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens for iptables-restore that are just valid or just invalid.

Hostile texts are tested in tests/unit/dataplane/encoding.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import iptables_encoding as encoding
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable


@pytest.mark.parametrize(
    ("lines", "good"),
    [
        ([], True),
        (["-A cali-x -j ACCEPT", '-A cali-x -m comment --comment "a b" -j ACCEPT'], True),
        (["a" * 2000], True),
        (["a" * 2001], False),
        (["a\nb"], False),
        (["a\tb"], False),
        (["a\x1fb", "a"], False),
        (["a\x7fb"], False),
        ([" [a] ~", "]^"], True),
        (["back\\slash"], False),
        (["caf\xe9"], False),
        (['an odd "'], False),
    ],
)
def test_lines_are_good_at_a_glance(lines: list[str], good: bool) -> None:
    assert encoding.are_good(lines) is good


@pytest.mark.parametrize("line", ["-A x", 'a "quoted" word', "a" * 2000])
def test_a_valid_line_is_accepted(line: str) -> None:
    encoding.check_line(line)


@pytest.mark.parametrize("line", ["a\nb", 'an odd "', "a" * 2001, f"-s {encoding.cidr('nonsense')}"])
def test_an_invalid_line_is_refused(line: str) -> None:
    with pytest.raises(NotEncodable):
        encoding.check_line(line)


@pytest.mark.parametrize(
    ("name", "ours", "fits"),
    [
        ("cali-FORWARD", True, True),
        ("cali-FORWARD", False, True),
        ("FORWARD", True, False),
        ("FORWARD", False, True),
        ("c" * 28, False, True),
        ("c" * 29, False, False),
        ("two words", False, False),
        ("cali-two words", True, False),
    ],
)
def test_a_chains_name(name: str, ours: bool, fits: bool) -> None:
    if fits:
        encoding.check_chain(name, ours)
    else:
        with pytest.raises(NotEncodable):
            encoding.check_chain(name, ours)


@pytest.mark.parametrize(
    ("name", "ours", "words"),
    [
        ("INPUT", True, "a chain of ours for iptables-restore: Allowed are 28 letters, digits and _.:/=+~@- , the"),
        ("x" * 29, False, "a chain for iptables-restore: Allowed are 28 letters, digits and _.:/=+~@- , the"),
    ],
)
def test_a_refused_chain_is_named_with_what_is_allowed(name: str, ours: bool, words: str) -> None:
    """An error about a chain of ours says that it begins with cali-, and one about a chain of others does not."""
    with pytest.raises(NotEncodable) as caught:
        encoding.check_chain(name, ours)
    end = "first cali-" if ours else "first a letter, digit, _, . or :"
    assert f"cannot be {words} {end}" in str(caught.value)


@pytest.mark.parametrize("name", encoding.TABLES)
def test_the_name_of_a_table_is_accepted(name: str) -> None:
    encoding.check_table(name)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(NotEncodable):
        encoding.check_table("mine")


@pytest.mark.parametrize(
    ("encode", "good", "bad", "words"),
    [
        (
            encoding.cidr,
            ["10.0.0.1", "10.0.0.0/8", "fd00::1", "fd00::/64", "::ffff:10.0.0.1"],
            ["", "10.0.0", "10.0.0.0/", "10.0.0.0/1234", "fd00::1/x", "10.0.0.1 -j ACCEPT"],
            "an address for iptables-restore: Allowed is an IPv4 or IPv6 address, with or without a prefix length",
        ),
        (
            encoding.interface,
            ["e", "a" * 15, "a" * 15 + "+", "eth0.7", "_x", ".x"],
            ["", "a" * 16, "a" * 16 + "+", "-x", "+", "a+b", "a b"],
            "an interface for iptables-restore: Allowed are 15 letters, digits and _.:@~=#$%&^- ,"
            " the first a letter, digit, _ or ., and a + at the end",
        ),
        (
            encoding.set_name,
            ["c", "c" * 31, "cali40s:x", "_x"],
            ["", "c" * 32, "-x", ".x", "a b"],
            "an IP set for iptables-restore: Allowed are 31 letters, digits and _.:=~- ,"
            " the first a letter, digit or _",
        ),
        (
            encoding.chain,
            ["c", "c" * 28, "cali-tw-x", ".x", ":x"],
            ["", "c" * 29, "-x", "a b"],
            "a chain for iptables-restore: Allowed are 28 letters, digits and _.:/=+~@- ,"
            " the first a letter, digit, _, . or :",
        ),
        (
            encoding.word,
            ["tcp", "c" * 63, "calico/x:~"],
            ["", "c" * 64, "-x", "_x", "a b"],
            "a word for iptables-restore: Allowed are 63 letters, digits and _.:~/- , the first a letter or digit",
        ),
    ],
)
def test_a_token_is_just_valid_or_refused_in_words(
    encode: t.Callable[[str], str], good: list[str], bad: list[str], words: str
) -> None:
    """A valid token stays as it is. A line with an invalid one is refused, with the token and what is allowed."""
    for value in good:
        assert encode(value) == value
        encoding.check_line(f"-A cali-x {encode(value)}")
    for value in bad:
        with pytest.raises(NotEncodable) as caught:
            encoding.check_line(f"-A cali-x {encode(value)}")
        assert caught.value.value == "-A cali-x (refused)"
        assert f"cannot be {words}" in str(caught.value)
        assert f"'{value[:40]}" in str(caught.value)
