# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of policy routing rules of both IP versions: by mark, or by interface and TOS.

Our rules carry our protocol number. An equal rule without it satisfies a desired one, too, but is never removed.
"""

from __future__ import annotations

import errno
import typing as t

from ...state.node_state import ROUTE_PROTOCOL, RoutingRule
from ..change import Change, apply_each, refused
from ..driver import DriverStep
from ..kernel.port import Kernel, KernelError, RuleEntry


class RuleKey(t.NamedTuple):
    """What distinguishes a rule from others. `interface` is "" and `tos` 0 for a rule by mark alone."""

    priority: int
    fwmark: int
    table: int
    family: int
    interface: str = ""
    tos: int = 0


def observe(kernel: Kernel, desired: t.Iterable[RoutingRule]) -> dict[RuleKey, RuleEntry]:
    wanted = {_key(rule) for rule in desired}
    observed: dict[RuleKey, RuleEntry] = {}
    for entry in (*kernel.rules(), *kernel.rules(6)):
        key = RuleKey(entry.priority, entry.fwmark, entry.table, entry.family, entry.interface, entry.tos)
        if not entry.plain or entry.fwmask != _mask(key) or not (key.fwmark or key.interface or key.tos):
            continue
        if entry.protocol == ROUTE_PROTOCOL or (key in wanted and key not in observed):
            observed[key] = entry
    return observed


def _mask(key: RuleKey) -> int:
    """Return the mask of a rule as this driver writes it: all bits of its mark, 0 for a rule without a mark."""
    return 0xFFFFFFFF if key.fwmark else 0


def _key(rule: RoutingRule) -> RuleKey:
    return RuleKey(rule.priority, rule.fwmark, rule.table, rule.family, rule.interface, rule.tos)


def _entry(key: RuleKey) -> RuleEntry:
    return RuleEntry(
        key.priority,
        key.table,
        key.fwmark,
        _mask(key),
        protocol=ROUTE_PROTOCOL,
        family=key.family,
        interface=key.interface,
        tos=key.tos,
    )


def _subject(key: RuleKey) -> str:
    """Return the name of a rule for people: its priority, such as `179` or `179 (IPv6)`."""
    return f"{key.priority} (IPv6)" if key.family == 6 else str(key.priority)


def _text(key: RuleKey) -> str:
    return f"{_entry(key).selector} lookup {key.table}"


def diff(desired: t.Iterable[RoutingRule], observed: t.Mapping[RuleKey, RuleEntry]) -> list[Change]:
    wanted = {_key(rule): rule for rule in desired}
    changes = [
        Change("rule", "+", _subject(key), None, _text(key), new=_entry(key)) for key in wanted if key not in observed
    ]
    changes += [
        Change("rule", "-", _subject(key), _text(key), None, old=entry)
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


STEP: DriverStep[t.Sequence[RoutingRule], dict[RuleKey, RuleEntry]] = DriverStep(
    name="rule",
    kinds=("rule",),
    stage="routing",
    desired=lambda state: state.rules,
    needs=("rule", "route"),
    by_library=("rule",),
)
