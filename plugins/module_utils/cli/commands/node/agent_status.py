# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl status`, `resync`, `plan` and `log-level`: the agent's sync state, its changes, and what it logs."""

from __future__ import annotations

import argparse
import sys
import typing as t

from ....base import terminal_text
from ....base.typed_json import Unreadable
from ....dataplane.change import Change
from ....state.derived import path_status
from ...errors import DONE, PROBLEMS
from ...render import structured
from ...sources import Data, Sources


def status(arguments: argparse.Namespace, sources: Sources) -> int:
    found = sources.agent.status()
    if not structured.written(arguments.output, found):
        sys.stdout.write(text(found))
    return DONE if found["in_sync"] and not found["problems"] else PROBLEMS


def text(found: Data) -> str:
    drift = found["drift"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(drift["kinds"].items()))
    plan = found["plan"] or "none"
    lines = [
        f"node        {found['node']}",
        f"agent       {found['version']}, since {found['since']}, process {found['pid']}",
        f"plan        {plan[:12]}, phase {found['phase']}{'' if found['complete'] else ', not applied completely'}",
        f"in sync     {'yes' if found['in_sync'] else 'no'}, last resync {found['last_resync'] or 'none yet'}",
        f"workloads   {_workloads(found)}",
        *_paths(found),
        *_datastore(found.get("datastore") or {}),
        f"drift       {drift['day']} in 24 h{f' ({kinds})' if kinds else ''}, {drift['total']} since the start",
        *_problems(found["problems"]),
    ]
    return terminal_text.lines(lines)


def _workloads(found: Data) -> str:
    """Return how many workloads the node has, and whose. An agent of an earlier release counts its own alone."""
    own, inventorys = found["workloads"], found.get("inventory_workloads")
    deleting = f", {found['deleting']} being deleted" if found["deleting"] else ""
    if inventorys is None:
        return f"{own} attached by the agent{deleting}"
    return f"{own + inventorys}: {inventorys} of the inventory, {own} attached by the agent{deleting}"


def _paths(found: Data) -> list[str]:
    """Return the line about paths to other nodes, and those about what is down; [] for an agent that does not say."""
    try:
        status = path_status.decode(found["paths"]) if found.get("paths") else None
    except Unreadable as error:
        return [f"paths       the agent's answer cannot be used: {error}"]
    if status is None:
        return []
    return [f"paths       {status.summary()}", *(f"! {one}" for one in path_status.problems(found["node"], status))]


def _datastore(found: Data) -> list[str]:
    """Return the line about the datastore, and one for each key that is refused; [] for a fleet without one."""
    if not found:
        return []
    if found["synced"]:
        first = f"followed at {found['member']} since {found['since']}"
    elif found["known_until"]:
        first = f"not followed, known as of {found['known_until']}"
    else:
        first = "not followed, nothing is known of it"
    waiting = f", {found['waiting']} keys of this node wait" if found["waiting"] else ""
    counts = f"{found['workloads']} workloads of {found['nodes']} nodes"
    refused = [f"            refused {one['key']}: {one['reason']}" for one in found["refused"]]
    live = _live_policy(found.get("live_policy") or {})
    return [f"datastore   {first}, revision {found['revision']}, {counts}{waiting}", *refused, *live]


def _live_policy(found: Data) -> list[str]:
    """Return the line about live policy, and one for each document without an effect; [] where it is not allowed."""
    if not found:
        return []
    in_force = f"in force as of revision {found['revision']}" if found["revision"] else "not in force yet"
    lines = [f"live policy {found['documents']} document{'' if found['documents'] == 1 else 's'}, {in_force}"]
    if found["held_back"]:
        lines.append(f"! later ones are held back: {found['held_back']}")
    hidden = found["without_effect"]
    lines += [f"            {one} has no effect: the inventory has one of this name" for one in hidden]
    lines += [f"            refused {one['key']}: {one['reason']}" for one in found["refused"]]
    more = found["count_refused"] - len(found["refused"])
    return [*lines, f"            {more} more are refused"] if more > 0 else lines


def resync(arguments: argparse.Namespace, sources: Sources) -> int:
    return _outcome(arguments, sources.agent.ask("resync"), "in sync, nothing to repair")


def plan(arguments: argparse.Namespace, sources: Sources) -> int:
    return _outcome(arguments, sources.agent.ask("node.plan"), "nothing to change")


def log_level(arguments: argparse.Namespace, sources: Sources) -> int:
    found = sources.agent.ask("log.level", **({} if arguments.level is None else {"level": arguments.level}))
    until = f" until the agent restarts; it was {found['before']}" if arguments.level is not None else ""
    sys.stdout.write(terminal_text.line(f"{found['level']}{until}") + "\n")
    return DONE


def _outcome(arguments: argparse.Namespace, found: Data, nothing: str) -> int:
    changes = found["changes"]
    if not structured.written(arguments.output, found):
        width = max((len(change["subject"]) for change in changes), default=0)
        lines = [line_of(change, width) for change in changes]
        lines += [f"  {text}" for text in found.get("waiting", ())]
        lines += _problems(found["problems"])
        sys.stdout.write(terminal_text.lines(lines or [nothing]))
    return PROBLEMS if found["problems"] else DONE


def line_of(change: Data, width: int) -> str:
    fields = ("kind", "action", "subject", "before", "after", "note")
    return Change(**{name: change[name] for name in fields if name in change}).line(width)


def _problems(problems: t.Sequence[str]) -> list[str]:
    return [f"! {problem}" for problem in problems]
