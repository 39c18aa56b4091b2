# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kinds of tables that Calico's users know, and one of them with a limited width."""

from __future__ import annotations

import re
import typing as t

from ...base import terminal_text

#: The columns of a terminal that fitted tables need.
WIDTH = 120
#: The part of a cell up to a comma, behind which a cell may go on in the next line.
_ITEM = re.compile(r"[^,]+,? *|, *")
_LEAST = 8  # columns of the narrowest cell that is broken between any two characters
_NUMBER = re.compile(r"-?\d+(\.\d+)?%?", re.ASCII)

Row = t.Sequence[str]


def columns(heading: Row, rows: t.Iterable[Row]) -> str:
    """Return a table like `get` prints with Go's tabwriter: columns three wider than their cells, and at least five.

    Lines have no spaces at their ends. Control characters in cells are escaped.
    """
    lines = [tuple(heading), *(tuple(map(terminal_text.line, row)) for row in rows)]
    widths = [max(5, max(len(line[index]) for line in lines) + 3) for index in range(len(heading))]
    return "".join("".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n" for line in lines)


def fitted(heading: Row, rows: t.Iterable[Row], width: int = WIDTH) -> str:
    """Return a table like `columns`, of at most `width` columns if each cell can have at least eight or its heading.

    If its lines would be longer, its columns are closer together, and cells go on in further lines: first those that
    are lists, behind their commas, then the longest ones. Nothing is left out.
    """
    body = [tuple(map(terminal_text.line, row)) for row in rows]
    lines = [tuple(heading), *body]
    widths = [max(len(line[index]) for line in lines) for index in range(len(heading))]
    gap = 3 if sum(widths) + 3 * (len(widths) - 1) <= width else 2
    longest_items = [
        max(len(item.rstrip()) for line in lines for item in _ITEM.findall(line[index]) or ("",))
        for index in range(len(heading))
    ]
    for floors in (longest_items, [max(_LEAST, len(word)) for word in heading]):
        while sum(widths) + gap * (len(widths) - 1) > width:
            spare = [(size, index) for index, size in enumerate(widths) if size > floors[index]]
            if not spare:
                break
            widths[max(spare)[1]] -= 1
    wrapped = [list(map(_wrapped, line, widths)) for line in lines]
    return "".join(
        "".join(
            (cell[number] if number < len(cell) else "").ljust(size + gap) for cell, size in zip(line, widths)
        ).rstrip()
        + "\n"
        for line in wrapped
        for number in range(max(map(len, line)))
    )


def _wrapped(cell: str, width: int) -> list[str]:
    """Return a cell in parts of at most `width` characters, broken behind commas where that is possible."""
    parts = [""]
    for item in _ITEM.findall(cell):
        if len(parts[-1]) + len(item.rstrip()) > width and parts[-1]:
            parts.append("")
        parts[-1] += item
        while len(parts[-1].rstrip()) > width:
            parts[-1:] = parts[-1][:width], parts[-1][width:]
    return [part.rstrip() for part in parts]


def boxed(heading: Row, rows: t.Iterable[Row]) -> str:
    """Return a table with rules like `node status`: headings centred, numbers to the right, controls escaped."""
    body = [tuple(map(terminal_text.line, row)) for row in rows]
    widths = [max(len(line[index]) for line in [tuple(heading), *body]) for index in range(len(heading))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    head = "|" + "|".join(f" {_middle(cell, width)} " for cell, width in zip(heading, widths)) + "|\n"
    lines = ["|" + "|".join(f" {_side(cell, width)} " for cell, width in zip(line, widths)) + "|\n" for line in body]
    return rule + head + rule + "".join(lines) + (rule if lines else "")


def percent(part: int, total: int) -> str:
    """Return a part of a total in whole percent, "0" of nothing."""
    return f"{100 * part / total:.0f}" if total else "0"


def _middle(cell: str, width: int) -> str:
    left = (width - len(cell)) // 2
    return (" " * left + cell).ljust(width)


def _side(cell: str, width: int) -> str:
    return cell.rjust(width) if _NUMBER.fullmatch(cell) else cell.ljust(width)
