# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why blocks cannot be planned: always what, where and how to go on."""

from __future__ import annotations

import typing as t


class IpamError(Exception):
    """`variable` is what to look for, `value` what stands there (None: nothing worth showing), `rule` one sentence on
    what is wrong, `remedy` one on how to go on."""

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
    """The inventory asks for something that cannot be planned."""


class LockfileError(IpamError):
    """The lockfile cannot be understood or contradicts itself."""


class RebuildError(IpamError):
    """Lockfile and nodes disagree, or too little is known to plan safely."""


def names(items: t.Iterable[str], limit: int = 8) -> str:
    """`a, b and 12 more`: sorted, and short enough for a sentence."""
    ordered = sorted(items)
    if len(ordered) <= limit:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:limit])} and {len(ordered) - limit} more"
