# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of policy routing rules by mark, of both IP versions.

Our rules carry our protocol number. An equal rule without it satisfies a desired one, too, but is never removed.
"""

from __future__ import annotations

import errno
import typing as t

from ...state.node_state import ROUTE_PROTOCOL, RoutingRule
from ..change import Change, apply_each, refused
from ..driver import DriverStep
from ..kernel.port import Kernel, KernelError, RuleEntry

#: The key of a rule: (priority, mark, number of the table, IP version).
Key = tuple[int, int, int, int]


def observe(kernel: Kernel, desired: t.Iterable[RoutingRule]) -> dict[Key, RuleEntry]:
    wanted = {_key(rule) for rule in desired}
    observed: dict[Key, RuleEntry] = {}
    for entry in (*kernel.rules(), *kernel.rules(6)):
        key = (entry.priority, entry.fwmark, entry.table, entry.family)
        if not entry.plain or entry.fwmask != 0xFFFFFFFF:
            continue
        if entry.protocol == ROUTE_PROTOCOL or (key in wanted and key not in observed):
            observed[key] = entry
    return observed


def _key(rule: RoutingRule) -> Key:
    return rule.priority, rule.fwmark, rule.table, rule.family


def _entry(priority: int, mark: int, table: int, family: int) -> RuleEntry:
    return RuleEntry(priority, table, mark, protocol=ROUTE_PROTOCOL, family=family)


def _text(mark: int, table: int, family: int) -> str:
    return f"{'IPv6 ' if family == 6 else ''}fwmark {mark:#x} lookup {table}"


def diff(desired: t.Iterable[RoutingRule], observed: t.Mapping[Key, RuleEntry]) -> list[Change]:
    wanted = {_key(rule): rule for rule in desired}
    changes = [
        Change("rule", "+", str(key[0]), None, _text(*key[1:]), new=_entry(*key))
        for key in wanted
        if key not in observed
    ]
    changes += [
        Change("rule", "-", str(key[0]), _text(*key[1:]), None, old=entry)
        for key, entry in observed.items()
        if key not in wanted and entry.protocol == ROUTE_PROTOCOL
    ]
    return changes


def apply(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    apply_each(changes, lambda change: _write(kernel, change), _reason)


def _write(kernel: Kernel, change: Change) -> None:
    if change.action == "+":
        kernel.rule_add(change.new)
    elif change.action == "-":
        kernel.rule_delete(change.old)


def _reason(change: Change, error: KernelError) -> t.Optional[str]:
    done = error.errno == (errno.EEXIST if change.action == "+" else errno.ENOENT)
    return None if done else refused(error)


STEP: DriverStep[t.Sequence[RoutingRule], dict[Key, RuleEntry]] = DriverStep(
    name="rule",
    kinds=("rule",),
    stage="routing",
    desired=lambda state: state.rules,
    needs=("rule", "route"),
    by_library=("rule",),
)
