# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings in an inventory, as a table: a row for each finding, and beneath it an explanation and the remedy."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import counted

from ..sources.lint_source import Looked

HEADING = ("SEVERITY", "RULE", "WHERE")


def text(looked: Looked) -> list[str]:
    """Return the lines of the table; the last line is the verdict, and the only one without findings."""
    found = looked.findings
    rows = [(one.severity, one.rule, one.origin or one.variable) for one in found]
    heading, *table = tables.columns(HEADING, rows).splitlines()
    lines = [heading] if found else []
    for row, one in zip(table, found):
        lines += [row, f"  {one.what}", f"  {one.remedy}"]
    return [*lines, _verdict(looked)]


def _verdict(looked: Looked) -> str:
    of = f"{counted(looked.nodes, 'node')} and {counted(looked.rules, 'rule')}" if looked.nodes else ""
    if not looked.findings:
        return f"nothing found: {of}"
    parts = [counted(count, word) for count, word in ((looked.errors, "error"), (looked.warnings, "warning")) if count]
    rest = f": {of}" if of else ": rules are asked when these are mended"
    return " and ".join(parts) + rest
