# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings in an inventory, as a table: a row for each finding, and beneath it an explanation and the remedy."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import (
    FindingKind,
    LintFinding,
    bounded,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import counted

from ..sources.lint_source import Looked
from . import shown_lines

HEADING = ("SEVERITY", "RULE", "WHERE")
FIRST = 3  # the number of findings that a message names if they are not printed


def text(looked: Looked) -> list[str]:
    """Return the table, a line that counts findings that are not in it, if any, the notes and the verdict."""
    return [*table(looked.findings), *(f"note   {note}" for note in looked.notes), _verdict(looked)]


def table(findings: t.Sequence[LintFinding]) -> list[str]:
    """Return the lines about the first findings of each kind, and one for each kind that counts the others."""
    found, more = bounded(findings)
    rows = [(one.severity, one.rule, one.origin or one.variable) for one in found]
    heading, *rest = tables.columns(HEADING, rows).splitlines()
    lines = [heading] if found else []
    for row, one in zip(rest, found):
        lines += [row, f"  {one.what}", f"  {one.remedy}"]
    return [*lines, *(_left_out(kind, count) for kind, count in more.items())]


def _left_out(kind: FindingKind, count: int) -> str:
    about = f" about {kind.subject}" if kind.subject else ""
    return f"and {counted(count, f'more {kind.severity}')} of rule {kind.rule}{about}"


def first_of(text: str, findings: t.Sequence[LintFinding]) -> str:
    """Print all findings if there are several, and return `text`, which says the first one, with their number."""
    more = len(findings) - 1
    if more < 1:
        return text
    shown_lines.show(table(findings))
    return f"{text} And {counted(more, 'more error')}, see above."


def failure(looked: Looked, printed: bool) -> str:
    """Return the message of a failed task: the verdict and, unless they are `printed` above it, the first findings."""
    if printed:
        return f"{_verdict(looked)}, see above."
    more = len(looked.findings) - FIRST
    parts = [f"{_verdict(looked)}.", *map(str, looked.findings[:FIRST])]
    return " ".join([*parts, *([f"And {more} more."] if more > 0 else [])])


def _verdict(looked: Looked) -> str:
    of = f"{counted(looked.nodes, 'node')} and {counted(looked.rules, 'rule')}" if looked.nodes else ""
    if not looked.findings:
        return f"nothing found: {of}"
    parts = [counted(count, word) for count, word in ((looked.errors, "error"), (looked.warnings, "warning")) if count]
    waiting = f", {counted(looked.waiting, 'more rule')} not run because of errors" if looked.waiting else ""
    rest = f": {of}{waiting}" if of else ": lint rules run once these errors are fixed"
    return " and ".join(parts) + rest + ("" if looked.complete else ", and there may be more errors")
