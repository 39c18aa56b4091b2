# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's command line on a node: `python3 -I /usr/local/lib/calico/start apply`, or another command."""

from __future__ import annotations

import json
import sys
import typing as t

from ...base import terminal_text
from ...wire.running_agent import connect
from .. import machine as machines
from .. import report
from ..errors import ERRORS
from ..store import unconfirmed
from ..store.store import Store
from . import auto_revert, boot, firewall, missing_files
from .plan import plan_change

USAGE = """usage: python3 -I /usr/local/lib/calico/start [--mounts FILE] COMMAND
  apply  bring this node to its stored state; what the boot unit does
  files  write the node's missing files again; what calico-files.service does
  firewall
         write the stored state's IP sets and iptables alone; what calico-firewall.service does before the network is up
  plan   print what apply would change
  show   print the stored state and what the node has of it, as JSON
  wait CHANGE
         wait until a change is confirmed, and go back from it if nobody does; what the node module leaves behind

  --mounts FILE
         mount namespace in which network namespaces are mounted, for a process in a sandbox (/proc/1/ns/mnt)
"""


def main(
    arguments: t.Sequence[str],
    machine: t.Optional[machines.Machine] = None,
) -> int:
    """Run one command and return its exit status: 0 for success, 1 for a failure, 2 for wrong arguments.

    `arguments` are as in USAGE. Results go to standard output, messages and the usage to standard error. `machine` is
    for tests; its kernel is closed at the end. Only the errors of node.errors.ERRORS become status 1; others, such as
    an OSError of a file, are raised.
    """
    mounts = None
    if len(arguments) > 1 and arguments[0] == "--mounts":
        mounts, arguments = arguments[1], arguments[2:]
    commands = {"apply": _apply, "files": _files, "firewall": _firewall, "plan": _plan, "show": _show}
    change = arguments[1] if len(arguments) == 2 and arguments[0] == unconfirmed.WAIT else ""
    if not change and (len(arguments) != 1 or arguments[0] not in commands):
        sys.stderr.write(USAGE)
        return 2
    here = machine or machines.here(connect, mounts)
    try:
        if change:
            auto_revert.wait(here, change)
            return 0
        return commands[arguments[0]](here)
    except ERRORS as error:
        sys.stderr.write(f"{terminal_text.text(error)}\n")
        return 1
    finally:
        here.kernel.close()


def _apply(here: machines.Machine) -> int:
    waiting = unconfirmed.UnconfirmedStore(here.store)
    waits = waiting.any()
    planned = boot.restore(here)
    if planned is None:
        sys.stdout.write(f"nothing is stored in {here.store}\n")
        return 0
    for line in planned.lines:
        sys.stdout.write(terminal_text.lines([line]))
    sys.stdout.write(terminal_text.lines([f"{planned.target.state.node}: {len(planned.node.changes)} changes made"]))
    revert = waiting.unseen_revert() if waits and not waiting.any() else None
    if revert is not None:
        sys.stdout.write(terminal_text.lines([f"{planned.target.state.node} {revert.sentence}"]))
    return 0


def _files(here: machines.Machine) -> int:
    for change in missing_files.restore(here):
        sys.stdout.write(f"<5>{terminal_text.line(change.line())}\n")  # journald stores it with the priority `notice`
    said = missing_files.watch(here)
    if said:
        sys.stderr.write(f"<4>{said}\n")
    return 0


def _firewall(here: machines.Machine) -> int:
    try:
        plan = firewall.restore(here)
    except firewall.NothingStored:
        sys.stdout.write(f"nothing is stored in {here.store}\n")
    except firewall.AgentWrites:
        sys.stdout.write("the agent runs and sees to the firewall\n")
    else:
        sys.stdout.write(f"{plan.state.node}: {len(plan.changes)} changes made to the firewall\n")
    return 0


def _plan(here: machines.Machine) -> int:
    stored = Store(here.store).load()
    if stored is None:
        sys.stdout.write(f"nothing is stored in {here.store}\n")
        return 0
    for line in plan_change(here, stored).lines or ["nothing to change"]:
        sys.stdout.write(terminal_text.lines([line]))
    return 0


def _show(here: machines.Machine) -> int:
    store = Store(here.store)
    stored = store.load()
    shown = {
        "state": stored.state.to_dict() if stored else None,
        "complete": stored.complete if stored else False,
        "generations": [entry._asdict() for entry in store.generations()],
        "devices": report.devices(here.kernel),
        "routes": report.routes(here.kernel),
        "workloads": report.workloads(here.kernel, stored.state if stored else None),
        "bgp": report.bgp(here),
    }
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    return 0
