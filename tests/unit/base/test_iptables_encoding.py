# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens for iptables-restore that are just valid or just invalid.

Hostile texts are tested in tests/unit/dataplane/encoding.
"""

from __future__ import annotations

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
        (["back\\slash"], False),
        (["caf\xe9"], False),
        (['an odd "'], False),
    ],
)
def test_lines_are_good_at_a_glance(lines: list[str], good: bool) -> None:
    assert encoding.are_good(lines) is good


@pytest.mark.parametrize("line", ["-A x", 'a "quoted" word', "a" * 2000])
def test_a_line(line: str) -> None:
    encoding.check_line(line)


@pytest.mark.parametrize("line", ["a\nb", 'an odd "', "a" * 2001, f"-s {encoding.cidr('nonsense')}"])
def test_no_line(line: str) -> None:
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


@pytest.mark.parametrize("name", encoding.TABLES)
def test_a_table(name: str) -> None:
    encoding.check_table(name)


def test_no_table() -> None:
    with pytest.raises(NotEncodable):
        encoding.check_table("mine")
