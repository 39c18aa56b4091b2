# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each phase of a change will do, before any phase is done.

A node can only be compared with what it has at this moment. So the state of each phase is planned from there. The
phases are told apart by their plans: an object that a plan does not name will be as it is at this moment. Only a
sysctl keeps the value that an earlier phase gave it.
"""

from __future__ import annotations

import typing as t

from ...dataplane.change import Action, Change, in_reading_order
from .plan import ChangePlan

#: Kinds whose objects keep the value that a phase gave them while later plans do not name them.
_LASTING = ("sysctl",)
_GAP = "  "  # separates the parts of a description of a workload, which may change separately

#: What distinguishes objects of one subject: a forwarding entry of both IP versions has the same MAC address.
_APART = {"route": "table", "fdb": "device"}
#: The key of an object: its kind, its subject, and the value that _APART names, None for other kinds.
_Key = t.Tuple[str, str, t.Any]


class _Value(t.NamedTuple):
    """What an object is like after a phase.

    `parts` is its description, in parts that can change separately; empty if the object does not exist. `exact` holds
    what the description leaves out, None for the object's value at this moment.
    """

    parts: tuple[str, ...]
    exact: t.Any = None


def steps(plans: t.Sequence[ChangePlan]) -> list[tuple[Change, ...]]:
    """Return, for each plan, the changes that its phase makes once the phase before it is done.

    `plans` are those of successive phases, all made at this moment. Changes have no `detail` and are sorted: problems,
    removals, changes, additions, notes. A problem or note that recurs is only in the first step that has it.
    """
    per_phase = [_changes(plan) for plan in plans]
    now = _now(per_phase)
    values = dict(now)
    known: set[tuple[str, str, str]] = set()
    found = []
    for plan, changes in zip(plans, per_phase):
        step = []
        for key, before in list(values.items()):
            planned = changes.get(key)
            if planned is None and key[0] in _LASTING:
                continue
            after = now[key] if planned is None else _after(planned, now[key])
            if after != before:
                step.append(_step(key, before, after, planned))
                values[key] = after
        for change in plan.shown:
            mark = (change.action, change.kind, change.subject)
            if change.action in "!=" and mark not in known:
                known.add(mark)
                step.append(change._replace(detail=""))
        found.append(tuple(in_reading_order(step)))
    return found


def _changes(plan: ChangePlan) -> dict[_Key, Change]:
    return {_key(change): change for change in plan.shown if change.action in ("+", "~", "-")}


def _key(change: Change) -> _Key:
    return change.kind, change.subject, getattr(change.new or change.old, _APART.get(change.kind, ""), None)


def _now(per_phase: t.Sequence[t.Mapping[_Key, Change]]) -> dict[_Key, _Value]:
    parts: dict[_Key, dict[str, None]] = {}
    for changes in per_phase:
        for key, change in changes.items():
            # The plan of a phase names only the parts of a workload that the phase changes, so parts are collected.
            parts.setdefault(key, {}).update(dict.fromkeys(_parts(change, change.before)))
    return {key: _Value(tuple(found)) for key, found in parts.items()}


def _parts(change: Change, text: t.Optional[str]) -> list[str]:
    if text is None:
        return []
    return text.split(_GAP) if (change.kind, change.action) == ("workload", "~") else [text]


def _after(change: Change, now: _Value) -> _Value:
    exact = (change.after, change.new, change.detail)
    before, after = _parts(change, change.before), _parts(change, change.after)
    if len(before) != len(after):  # The object is created or removed.
        return _Value(tuple(after), exact)
    becomes = dict(zip(before, after))
    return _Value(tuple(becomes.get(part, part) for part in now.parts), exact)


def _step(key: _Key, before: _Value, after: _Value, planned: t.Optional[Change]) -> Change:
    kind, subject, dummy = key
    note = planned.note if planned is not None and (before.exact is None or kind != "ipset") else ""
    if not before.parts or not after.parts:
        action: Action = "-" if before.parts else "+"
        return Change(kind, action, subject, _GAP.join(before.parts) or None, _GAP.join(after.parts) or None, note)
    pairs = list(zip(before.parts, after.parts))
    differing = [pair for pair in pairs if pair[0] != pair[1]] or pairs
    old, new = (_GAP.join(words) for words in zip(*differing))
    return Change(kind, "~", subject, old, new, note)
