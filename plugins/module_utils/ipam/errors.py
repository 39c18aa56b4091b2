# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors for blocks that cannot be planned. Each one says what is wrong, where, and how to go on."""

from __future__ import annotations

import typing as t


class IpamError(Exception):
    """The base of the errors of this package; its text is `variable`, `value`, `rule` and `remedy` in one line.

    `variable` names the place that is wrong. `value` is its content, None to show none. `rule` is the rest of the
    sentence that says what is wrong. `remedy` is a sentence that says how to go on.
    """

    def __init__(self, variable: str, value: t.Any, rule: str, remedy: str) -> None:
        self.variable = variable
        self.value = value
        self.rule = rule
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        shown = "" if self.value is None else f" {self.value}"
        return f"{self.variable}{shown} {self.rule} {self.remedy}"


class PlanError(IpamError):
    """The inventory or the last plan has something that cannot be planned."""


class LockfileError(IpamError):
    """The lockfile cannot be read, or it is not a valid plan."""


class RebuildError(IpamError):
    """A node's copy of its part of the plan is missing or invalid, or contradicts other copies or the lockfile."""


def names(items: t.Iterable[str], limit: int = 8) -> str:
    """Return `items` sorted and joined by ", "; beyond `limit` items the rest is a count: "a, b and 12 more"."""
    ordered = sorted(items)
    if len(ordered) <= limit:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:limit])} and {len(ordered) - limit} more"
