# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a page: one line without unsafe characters, cut, because nodes write some of them."""

from __future__ import annotations

from ..base import terminal_text

#: The most characters of a text that a page shows, and those of a name.
LONGEST = 500
LONGEST_NAME = 80
#: The most entries of a list that a page shows. The others are counted.
MOST = 200


def cut(value: object, most: int = LONGEST) -> str:
    r"""Return `str(value)` on one line without unsafe characters, cut to `most` characters and "..." if it is longer.

    Control characters and marks of text direction are shown as `\x1b` and `\u202e`.
    """
    given = str(value)
    text = terminal_text.line(given[: most + 1])
    return text if len(text) <= most else f"{text[:most]}..."


def name(value: object) -> str:
    """Return the name of something, cut."""
    return cut(value, LONGEST_NAME)


def plural(count: int, noun: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
