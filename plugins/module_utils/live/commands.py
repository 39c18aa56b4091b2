# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl create|apply|replace|delete|patch|label|diff|history|rollback` of live documents, in the datastore."""

from __future__ import annotations

import argparse
import sys
import typing as t

from ..base import terminal_text
from ..cli.commands import inventory_change
from ..cli.errors import DONE, PROBLEMS, CommandError, UsageError
from ..cli.render import structured, tables
from ..cli.sources import Sources
from ..datastore.live.history import is_change_id
from ..editing.live import differences
from ..editing.live.live_plan import Data
from . import history_view, outcome
from .change import LiveChange
from .connection import with_store
from .outcome import LiveOutcome, WriteOptions

#: The most seconds of --wait.
_LONGEST_WAIT = 3600


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    """Run one of the commands, and return its exit status."""
    if sources.is_node:
        raise CommandError("live policy is not written from a node. Run this on the controller.")
    if arguments.command == "history":
        return _history(arguments, sources)
    if arguments.command == "rollback":
        return _rollback(arguments, sources)
    return _diff(arguments, sources) if arguments.command == "diff" else _change(arguments, sources)


def _change(arguments: argparse.Namespace, sources: Sources) -> int:
    if arguments.run_playbook or arguments.playbook or arguments.yes or arguments.of_ansible:
        raise UsageError("--run, --playbook, --yes and words behind -- are for -i INVENTORY.")
    if getattr(arguments, "adopt", False):
        raise UsageError("--adopt moves resources out of an inventory's variables: add -i INVENTORY.")
    request = _request(arguments)
    if request is None:
        sys.stdout.write("No resources specified\n")
        return DONE
    return _written(arguments, sources, outcome.request_change(request))


def _written(arguments: argparse.Namespace, sources: Sources, change: outcome.Change) -> int:
    """Write a change, and wait for the nodes if that is asked. Return the exit status: 1 if nodes do not have it."""
    if arguments.wait is not None and not 0 <= arguments.wait <= _LONGEST_WAIT:
        raise UsageError(f"--wait takes seconds, at most {_LONGEST_WAIT}.")
    if arguments.output != "text" and not arguments.ask_nodes:
        raise UsageError("-o is for --dry-run=server.")
    is_dry = arguments.dry_run or arguments.ask_nodes
    if is_dry and (arguments.plan is not None or arguments.confirm):
        raise UsageError("--plan and --confirm make a change, and a dry run makes none. Leave one of them out.")

    def tell(found: LiveChange) -> None:
        _warn(found.plan.warnings, sources)
        if arguments.output == "text":
            _say(outcome.lines_of(found, is_dry))

    wait = outcome.WAIT_AFTER_TRIAL if arguments.confirm and arguments.wait is None else arguments.wait
    options = WriteOptions(
        is_dry, arguments.force, wait, arguments.ask_nodes, plan=arguments.plan, confirm=arguments.confirm
    )
    made = outcome.make(sources.connection, change, options, lambda text: _say([text]), tell)
    if arguments.ask_nodes:
        return _shown(made, arguments.output, sources)
    if made.waited is not None:
        _warn(outcome.complaints_of(made.waited), sources)
        _say([outcome.effect_of(made.waited)])
    return DONE if made.is_everywhere else PROBLEMS


def _shown(made: LiveOutcome, output: str, sources: Sources) -> int:
    """Print what nodes say of a dry run. Return the exit status: 1 if a node would hold it back, or it is not known."""
    plan = made.asked
    if plan is None:
        structured.written(output, {"plan": "", "documents": []})
        return DONE
    _warn(plan.problems(), sources)
    if not structured.written(output, plan.to_dict()):
        sys.stdout.write(f"\n{plan.text()}This is plan {plan.hash}: --plan {plan.hash} applies nothing else.\n")
    return DONE if plan.is_complete else PROBLEMS


def _request(arguments: argparse.Namespace) -> t.Optional[Data]:
    found = inventory_change.request_of(arguments)
    owner = getattr(arguments, "owner", "")
    if getattr(arguments, "prune", False) and not owner:
        raise UsageError("--prune deletes the documents of one owner: name it by --owner NAME.")
    return None if found is None else {**found, "owner": owner, "prune": getattr(arguments, "prune", False)}


def _rollback(arguments: argparse.Namespace, sources: Sources) -> int:
    _check_id(arguments.id)

    return _written(arguments, sources, lambda writer: writer.undo(arguments.id))


def _diff(arguments: argparse.Namespace, sources: Sources) -> int:
    """Print the unified diff of the documents as they are and as `apply` would make them; 1 if they differ."""
    if arguments.output != "text" and not arguments.nodes:
        raise UsageError("-o is for --nodes.")
    arguments.command, arguments.dry_run = "apply", True
    request = _request(arguments)
    if request is None:
        return DONE

    def tell(found: LiveChange) -> None:
        _warn(found.plan.warnings, sources)
        if arguments.output == "text":
            _say(differences.lines_of(found.plan.changes))

    options = WriteOptions(True, ask=arguments.nodes)
    made = outcome.make(sources.connection, outcome.request_change(request), options, lambda dummy: None, tell)
    if arguments.nodes:
        _shown(made, arguments.output, sources)
    return PROBLEMS if made.change.plan.changes else DONE


def _history(arguments: argparse.Namespace, sources: Sources) -> int:
    if arguments.id:
        _check_id(arguments.id)
    if arguments.last < 1:
        raise UsageError("--last is the number of changes to show, at least 1.")
    rows = with_store(sources.connection, lambda store: history_view.read(store, arguments.last, arguments.id))
    if arguments.id and not rows:
        raise CommandError(f"the history has no change {arguments.id}. `calicoctl history` lists all.")
    if structured.written(arguments.output, [row.to_dict() for row in rows]):
        return DONE
    if arguments.id:
        sys.stdout.write(terminal_text.lines(line for row in rows for line in row.differences()))
        return DONE
    cells = [(row.id or "-", row.user or "-", row.time(), row.said(), row.documents_said()) for row in rows]
    sys.stdout.write(tables.columns(("ID", "USER", "WHEN", "CHANGE", "DOCUMENTS"), cells))
    return DONE


def _check_id(text: str) -> None:
    if not is_change_id(text):
        raise UsageError(f"{terminal_text.cut(text)} is not the id of a change. `calicoctl history` lists them.")


def _say(lines: t.Iterable[str]) -> None:
    sys.stdout.write(terminal_text.lines(lines))
    sys.stdout.flush()


def _warn(warnings: t.Iterable[str], sources: Sources) -> None:
    for warning in warnings:
        sources.warn(warning)
