# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of rules: issues, and findings for people."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ...state.errors import shown

#: A setting with an error does not work. One with a warning works, but breaks easily or is probably a mistake.
ERROR, WARNING = "error", "warning"


#: The most findings of one kind that are shown.
MOST_OF_A_KIND = 20


class Issue(t.NamedTuple):
    """A problem that a rule found.

    `variable` is the place in the inventory (`calico_ip_pools[0].cidr`, `calico_node_address of node1`), `value` its
    value (None if it need not be shown). `what` continues the sentence that both begin. `remedy` is a sentence that
    says what to do, as in a FleetError. `origin` is the file and line, "" if it follows from the variable.
    """

    variable: str
    what: str
    remedy: str
    origin: str = ""
    value: t.Any = None


@dataclasses.dataclass(frozen=True)
class LintFinding:
    """A problem with its rule and severity, in full sentences. `origin` is the file and line, "" if unknown."""

    severity: str
    rule: str
    variable: str
    origin: str
    what: str
    remedy: str

    @classmethod
    def from_issue(cls, severity: str, rule: str, issue: Issue, origin: str) -> LintFinding:
        """Return the finding of an issue. `origin` is its file and line if the issue itself has none."""
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

    @property
    def kind(self) -> FindingKind:
        """The severity and rule, and for rule `refused` the variable without indexes and host, or its first word."""
        name = self.variable.partition(" of ")[0] if self.variable.startswith("calico_") else ""
        subject = re.sub(r"\[\d+\]", "[]", name) or re.split(r"[ :]", self.variable)[0]
        return FindingKind(self.severity, self.rule, subject if self.rule == "refused" else "")


class FindingKind(t.NamedTuple):
    """What findings that are counted together have in common. `subject` is "" unless the rule is `refused`."""

    severity: str
    rule: str
    subject: str


def bounded(found: t.Sequence[LintFinding]) -> tuple[list[LintFinding], dict[FindingKind, int]]:
    """Return the first MOST_OF_A_KIND findings of each kind, and how many more there are, by kind."""
    counts: collections.Counter[FindingKind] = collections.Counter()
    first = []
    for one in found:
        counts[one.kind] += 1
        if counts[one.kind] <= MOST_OF_A_KIND:
            first.append(one)
    return first, {kind: count - MOST_OF_A_KIND for kind, count in counts.items() if count > MOST_OF_A_KIND}
