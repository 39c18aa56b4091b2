# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kinds of tables that Calico's users know."""

from __future__ import annotations

import re
import typing as t

from ...base import terminal_text

_NUMBER = re.compile(r"-?\d+(\.\d+)?%?", re.ASCII)

Row = t.Sequence[str]


def columns(heading: Row, rows: t.Iterable[Row]) -> str:
    """Return a table like `get` prints with Go's tabwriter: columns three wider than their cells, and at least five.

    Lines have no spaces at their ends. Control characters in cells are escaped.
    """
    lines = [tuple(heading), *(tuple(map(terminal_text.line, row)) for row in rows)]
    widths = [max(5, max(len(line[index]) for line in lines) + 3) for index in range(len(heading))]
    return "".join("".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n" for line in lines)


def boxed(heading: Row, rows: t.Iterable[Row]) -> str:
    """Return a table with rules like `node status`: headings centred, numbers to the right, controls escaped."""
    body = [tuple(map(terminal_text.line, row)) for row in rows]
    widths = [max(len(line[index]) for line in [tuple(heading), *body]) for index in range(len(heading))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    head = "|" + "|".join(f" {_middle(cell, width)} " for cell, width in zip(heading, widths)) + "|\n"
    lines = ["|" + "|".join(f" {_side(cell, width)} " for cell, width in zip(line, widths)) + "|\n" for line in body]
    return rule + head + rule + "".join(lines) + (rule if lines else "")


def _middle(cell: str, width: int) -> str:
    left = (width - len(cell)) // 2
    return (" " * left + cell).ljust(width)


def _side(cell: str, width: int) -> str:
    return cell.rjust(width) if _NUMBER.fullmatch(cell) else cell.ljust(width)
