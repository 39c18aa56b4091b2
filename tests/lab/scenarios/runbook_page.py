# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of docs/how-to/runbook.md: the tests that they name, their commands, and what these print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.lab import page
from tests.lab.page import Command

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "runbook.md"
_ENTRY = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"^<!-- test: (\S+)::(\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """An entry of the page: its heading, its commands in their order, and its tests as (file, function)."""

    heading: str
    commands: tuple[Command, ...]
    tests: tuple[tuple[str, str], ...]


def entries(text: str) -> list[Entry]:
    """Return the entries of a page, in their order. Raise ValueError for a console block without a command."""
    found = []
    for heading, body in _ENTRY.findall(text):
        commands = tuple(step for step in page.steps(body) if isinstance(step, Command))
        found.append(Entry(heading, commands, tuple(_TEST.findall(body))))
    return found


def entry(heading: str) -> Entry:
    """Return the entry of docs/how-to/runbook.md with this heading; raise LookupError if there is none."""
    for found in entries(PAGE.read_text("utf-8")):
        if found.heading == heading:
            return found
    raise LookupError(heading)
