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


def test_the_table_of_rules() -> None:
    rows = ["| rule | severity | what is found |", "|---|---|---|"]
    for rule in rules.RULES:
        # The first line is "Report ...". The table has what is reported.
        verb, dummy, meaning = (rule.check.__doc__ or "").splitlines()[0].partition(" ")
        assert verb == "Report", f"the docstring of rule {rule.name} does not begin with Report"
        rows.append(f"| `{rule.name}` | {rule.severity} | {meaning[0].upper()}{meaning[1:]} |")
    text = PAGE.read_text("utf-8")
    table = "".join(f"{row}\n" for row in rows)
    wanted = _TABLE.sub(lambda found: f"{found.group(1)}{table}{found.group(2)}", text)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(wanted, "utf-8")
    assert wanted == PAGE.read_text("utf-8")
