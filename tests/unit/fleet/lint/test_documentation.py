# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test of the list of rules in docs/reference/validate.md.

To write it anew after an intended change: DOCUMENTATION=write pytest tests/unit/fleet/lint/test_documentation.py
"""

from __future__ import annotations

import os
import pathlib
import re

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import rules

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "reference" / "validate.md"
_TABLE = re.compile(r"(<!-- rules: .* -->\n).*?(<!-- end of rules -->)", re.DOTALL)
#: Heading -> the modules of the rules below it. `written` is the package of the rules about files.
_GROUPS = {
    "Files and variables": ("written",),
    "Nodes": ("placement",),
    "Pools and MTU": ("pools", "underlay"),
    "BGP sessions": ("sessions", "reach"),
    "Route reflectors and mesh": ("reflectors",),
    "Timers and BFD": ("timers",),
    "BGP routes, filters and secrets": ("announcements",),
    "Policy": ("policies",),
}


def _module(rule: rules.LintRule) -> str:
    return rule.check.__module__.rpartition(".lint.")[2].split(".")[0]


def _row(rule: rules.LintRule) -> str:
    # The first line is "Report ...". The table has what is reported.
    verb, dummy, meaning = (rule.check.__doc__ or "").splitlines()[0].partition(" ")
    assert verb == "Report", f"the docstring of rule {rule.name} does not begin with Report"
    return f"| `{rule.name}` | {rule.severity} | {meaning[0].upper()}{meaning[1:]} |"


def test_the_table_of_rules() -> None:
    assert {_module(rule) for rule in rules.RULES} == {module for group in _GROUPS.values() for module in group}
    lines: list[str] = []
    for title, modules in _GROUPS.items():
        lines += ["", f"### {title}", "", "| rule | severity | what is found |", "|---|---|---|"]
        lines += [_row(rule) for rule in rules.RULES if _module(rule) in modules]
    text = PAGE.read_text("utf-8")
    table = "".join(f"{line}\n" for line in [*lines, ""])
    wanted = _TABLE.sub(lambda found: f"{found.group(1)}{table}{found.group(2)}", text)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(wanted, "utf-8")
    assert wanted == PAGE.read_text("utf-8")
