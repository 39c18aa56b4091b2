# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of answers of modules: plans, convergence, probes, status, exchanges of workloads; see `of_result`."""

from __future__ import annotations

import typing as t

from ...base.typed_json import (
    ENTRIES,
    TEXT,
    Reader,
    Unreadable,
    by_name,
    flag,
    items,
    maybe,
    number,
    one_of,
    open_table,
    text,
    whole,
)
from ...state.answers import limits
from ...state.derived import path_loss, path_status, probe_paths
from ...state.phase import Phase
from ..paths import directions

_COUNT = whole(0, ENTRIES)
_PLACE = text(512)
_SESSIONS = open_table({"expected": _COUNT, "established": _COUNT}, {"external_established": _COUNT})

#: The signs by which a plan says what a change does; they are the values of dataplane.change.ACTIONS.
ACTIONS = ("+", "~", "-", "=", "!")
_CHANGE = open_table(
    {"kind": _PLACE, "action": one_of(*ACTIONS), "by": _PLACE},
    {"subject": text(), "size": whole(0, 2**40), "digest": text(64)},
)

#: The reader of answers of the module `convergence_info`, with the fields that its action adds.
CONVERGENCE = open_table(
    {},
    {
        "sessions": _SESSIONS,
        "external_sessions": _COUNT,
        "converged": flag,
        "kept": items(text()),
    },
)

_MILLISECONDS = number(0.0, 1e9)
_TARGET = open_table(
    {"address": _PLACE, "sent": whole(0, 10**9), "lost": whole(0, 10**9)},
    {
        "name": _PLACE,
        "pool": _PLACE,
        "source": _PLACE,
        "reason": one_of("", *path_loss.REASONS),
        "by": text(64),
        "heard": maybe(whole(0, 10**6)),
        "longest_gap": _MILLISECONDS,
        "silent": _MILLISECONDS,
        "dead": flag,
    },
)

#: The reader of the paths that a node does not try, which actions add to answers; see fleet/paths/untried.py.
_UNTRIED = items(
    open_table({"pool": _PLACE, "reason": text(), "count": _COUNT, "nodes": items(_PLACE, probe_paths.NAMED)}),
    limits.BLOCKS,
)

#: The reader of answers of the module `probe`.
PROBES = open_table(
    {},
    {
        "targets": items(_TARGET),
        "watch": open_table({}, {"complete": flag, "reason": text()}),
        "untried": _UNTRIED,
        "window": directions.WINDOW,
    },
)

#: The reader of the field `settled` in an answer of the module `node`: the sessions, paths and probes that it found at
#: its end.
SETTLED = open_table(
    {
        "converged": flag,
        "sessions": _SESSIONS,
        "paths": _COUNT,
        "sent": whole(0, 10**9),
        "lost": whole(0, 10**9),
    },
    {"external_sessions": _COUNT, "untried": _UNTRIED, "targets": items(_TARGET)},
)

#: The reader of answers of the module `node`.
PLAN = open_table(
    {},
    {
        "changed": flag,
        "new": flag,
        "sessions_reset": _COUNT,
        "sessions_begun": _COUNT,
        "routes_withdrawn": _COUNT,
        "changes": items(_CHANGE),
        "phases": items(
            open_table({"phase": _PLACE, "changes": items(open_table({"kind": _PLACE, "action": one_of(*ACTIONS)}))}),
            16,
        ),
        "kept": items(text()),
        "cut": items(text(), 1024),
        "confirmed": flag,
        "settled": SETTLED,
    },
)

#: The reader of what the actions `node` and `preflight` remark about a host; see report/lines/remark_lines.py.
REMARKS = open_table({}, {"remarks": items(text(), 64)})

#: The reader of answers of the module `node` with `foresee`.
FORESEEN = open_table({"foreseen": items(open_table({"session": text(256), "by": _PLACE}), 16)})


def any_phase(value: t.Any) -> t.Any:
    """Return the known fields of a result of `node`, `probe` or `soak`. Raise Unreadable if one is invalid."""
    return {**PLAN(value), **CONVERGENCE(value), **PROBES(value)}


_SESSION = open_table(
    {
        "node": maybe(_PLACE),
        "address": _PLACE,
        "established": flag,
        "state": _PLACE,
        "since": _PLACE,
        "error": text(),
        "routes_kept": flag,
    },
    {"name": _PLACE, "reason": text()},
)
_SIZE = whole(0, 2**128)
_BLOCK = open_table(
    {"cidr": _PLACE, "pool": _PLACE, "spare": flag, "size": _SIZE, "free": _SIZE},
    {"in_use": _SIZE, "reserved": _SIZE, "cooling": _SIZE},
)
_DRIFT = open_table({"day": whole(), "kinds": by_name(whole(), 256)}, {"total": whole()})
_AGENT = open_table(
    {"wanted": flag, "running": flag},
    {
        "uptime": whole(-(2**40), 2**40),
        "version": _PLACE,
        "since": _PLACE,
        "in_sync": flag,
        "problems": items(text(), 1024),
        "drift": _DRIFT,
        "paths": maybe(path_status.read),
    },
)
_PROBLEMS = {"problems": items(text(), 1024)}
_STATUS = open_table(
    {
        "node": _PLACE,
        "plan": _PLACE,
        "phase": one_of(*map(str, Phase)),
        "complete": flag,
        "bgp": open_table({"enabled": flag, "running": flag, "sessions": items(_SESSION)}),
        "routes": open_table({"expected": _COUNT, "present": _COUNT, "missing": items(text())}),
        "blocks": items(_BLOCK, limits.BLOCKS),
        "workloads": _COUNT,
        "agent": _AGENT,
        **_PROBLEMS,
    }
)
_NO_STATE = open_table({"node": maybe(_PLACE), "agent": _AGENT, **_PROBLEMS})


def status(value: t.Any) -> t.Any:
    """Return the answer of the module `node_status_info` as a dict of its known fields.

    If its `node` is None, the node has no state, and the dict has only node, agent and problems. Raise Unreadable if
    `value` is no mapping, or if a field is invalid or a required one missing.
    """
    found = _NO_STATE(value)
    if found["node"] is not None:
        found = _STATUS(value)
    agent = found["agent"]
    if agent["running"]:
        missing = {"uptime", "version", "in_sync", "problems", "drift"} - agent.keys()
        if missing:
            raise Unreadable(f"agent.{min(missing)}", "missing")
    return found


#: The reader of answers of the module `remote_endpoints`.
EXCHANGED = open_table({}, {"changes": items(open_table({"action": one_of("+", "-", "~"), "subject": text()}))})


def message(value: t.Any) -> str:
    """Return the message of a failed task, cut to 4,096 characters and "..." if it is longer; "" if it is no text."""
    if not isinstance(value, str):
        return ""
    cut = str.__str__(value[:TEXT])
    return cut if len(value) <= TEXT else f"{cut}..."


_TASK = open_table({}, {"failed": flag, "unreachable": flag, "skipped": flag, "changed": flag, "msg": message})


def of_result(result: t.Mapping[str, t.Any], reader: t.Optional[Reader]) -> dict[str, t.Any]:
    """Return a task's result as `reader` reads it, with the fields failed, unreachable, skipped, changed and msg.

    Of these five it has those that the task set; without a reader it has no others. If one of the five is invalid, or
    `reader` raises Unreadable, the result is {"failed": True, "msg": MESSAGE}. But if the task failed, was skipped or
    did not reach its host, an answer that `reader` refuses gives these five alone.
    """
    try:
        went: dict[str, t.Any] = _TASK(result)
    except Unreadable as error:
        return _failed(error)
    usable = not (went.get("failed") or went.get("unreachable") or went.get("skipped"))
    if reader is None:
        return went
    try:
        return {**reader(result), **went}
    except Unreadable as error:
        return _failed(error) if usable else went


def _failed(error: Unreadable) -> dict[str, t.Any]:
    why = f"its answer cannot be used: {error}. Look at the node: its modules do not answer so."
    return {"failed": True, "msg": why}
