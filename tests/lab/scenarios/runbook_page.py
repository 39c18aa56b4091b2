# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of docs/runbook.md: the tests that they name, their commands, and what these print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"
_ENTRY = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"^<!-- test: (\S+)::(\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A command of the page and the text that it prints there, in which `...` stands for any text."""

    command: str
    expected: str

    def fits(self, output: str) -> bool:
        """Return whether `output` is what the page shows; a line `...` stands for any number of lines.

        `...` within a line stands for any text of that line. Empty lines are left out, and any white space is equal.
        Without expected lines, the output must be empty.
        """
        pattern = "".join(
            r"(?:[^\n]*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
            for line in _lines(self.expected)
        )
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(output))) is not None


@dataclass(frozen=True)
class Entry:
    """An entry of the page: its heading, its steps in their order, and its tests as (file, function)."""

    heading: str
    steps: tuple[Step, ...]
    tests: tuple[tuple[str, str], ...]


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def entries(page: str) -> list[Entry]:
    """Return the entries of a page, in their order. A block's text before its first command counts as nothing."""
    found = []
    for heading, body in _ENTRY.findall(page):
        steps = []
        for block in _BLOCK.findall(body):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _newline, expected = part.partition("\n")
                steps.append(Step(command, expected))
        found.append(Entry(heading, tuple(steps), tuple(_TEST.findall(body))))
    return found


def entry(heading: str) -> Entry:
    """Return the entry of docs/runbook.md with this heading; raise LookupError if there is none."""
    for found in entries(PAGE.read_text("utf-8")):
        if found.heading == heading:
            return found
    raise LookupError(heading)
