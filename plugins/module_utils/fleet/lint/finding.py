# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule says."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.errors import shown

#: An error does not work; a warning works, and breaks easily or is hardly meant.
ERROR, WARNING = "error", "warning"


class Issue(t.NamedTuple):
    """`variable` is what to look for in the inventory (`calico_ip_pools[0].cidr`, `calico_node_address of node1`),
    `value` what stands there (None: nothing worth showing), `what` a sentence that goes on from there, `remedy` how to
    go on, as in a FleetError. `origin` is the file and line, where that does not follow from the variable."""

    variable: str
    value: t.Any
    what: str
    remedy: str
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class LintFinding:
    """`origin` is file and line, "" where they are not known."""

    severity: str
    rule: str
    variable: str
    origin: str
    what: str
    remedy: str

    @classmethod
    def from_issue(cls, severity: str, rule: str, issue: Issue, origin: str) -> LintFinding:
        value = "" if issue.value is None else f" {shown(issue.value)}"
        return cls(
            severity,
            rule,
            issue.variable,
            issue.origin or origin,
            f"{issue.variable}{value} {issue.what}",
            issue.remedy,
        )

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        return f"{where}{self.severity}: {self.what} {self.remedy} [{self.rule}]"
