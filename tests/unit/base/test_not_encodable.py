# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a value that cannot be encoded: whole if it is short, and otherwise its beginning."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 10, f"'{'x' * 10}'"),
        ("x" * 11, f"'{'x' * 10}'... (11 characters)"),
        ("\n" * 10, f"'{chr(92)}n{f'{chr(92)}n' * 9}'"),
        (["x" * 36], f"['{'x' * 36}']"),
        (["x" * 37], "['xxxxxxxx..."),
        (7, "7"),
        (None, "None"),
    ],
)
def test_a_long_value_is_cut(value: t.Any, text: str) -> None:
    """A text is cut to ten characters here, and so is the representation of another value of more than forty."""
    assert shown(value, 10) == text


def test_by_default_400_characters_are_shown() -> None:
    """A text of 400 characters is shown whole."""
    assert shown("x" * 400) == f"'{'x' * 400}'"
    assert shown("x" * 401) == f"'{'x' * 400}'... (401 characters)"


def test_an_error_shows_60_characters_of_the_value() -> None:
    """The error names the value, the kind of text that is needed, its protocol, and what is allowed."""
    assert str(NotEncodable("ipset", "a name", "x" * 60, "Allowed is y")) == (
        f"'{'x' * 60}' cannot be a name for ipset: Allowed is y."
    )
    assert str(NotEncodable("ipset", "a name", "x" * 61, "Allowed is y")) == (
        f"'{'x' * 60}'... (61 characters) cannot be a name for ipset: Allowed is y."
    )
