# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd units that a node needs: enabled, running, or masked. Whatever is not asked for stays as it is."""

from __future__ import annotations

import subprocess
import typing as t

from ...base.not_encodable import NotEncodable
from ...dataplane.change import Action, Change, Failures, ObserveError
from .unit_encoding import unit_name

PROGRAM = "systemctl"
AGENT_UNIT = "calico-agent.service"
BIRD_UNIT = "calico-bird.service"
NETNS_UNIT = "calico-netns@.service"
#: The units that restore missing files, and that of an earlier release.
RESTORING_UNITS = ("calico-files.path", "calico-files.timer", "calico-files.service", "calico-podman-networks.path")
_SECONDS = 150.0  # the most seconds for one call of systemctl; systemd gives up a unit that does not start in 90
_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
_RUNNING = ("active", "activating", "reloading", "refreshing")


class WantedUnit(t.NamedTuple):
    """The wanted state of a unit.

    `enabled` and `started` None leave it as it is. `masked` True masks the unit, False leaves it as it is, masked or
    not. `restart` is the reason to restart the unit if it runs, "" for no restart.
    """

    name: str
    enabled: t.Optional[bool] = None
    started: t.Optional[bool] = None
    masked: bool = False
    restart: str = ""


class ObservedUnit(t.NamedTuple):
    """The state of a unit. `stale` is True if its file has changed since systemd read it.

    `started` is True also while the unit activates or reloads.
    """

    enabled: bool
    started: bool
    masked: bool
    stale: bool = False


def observe(wanted: t.Sequence[WantedUnit], program: str = PROGRAM) -> dict[str, ObservedUnit]:
    """Return a mapping from unit name to its state.

    A unit that does not exist counts as disabled and stopped. One whose UnitFileState is not `enabled`, such as a
    static one, counts as disabled. Raise ObserveError for an invalid name, or if systemctl fails or takes 150 seconds.
    """
    if not wanted:
        return {}
    try:
        names = [unit_name(unit.name) for unit in wanted]
    except NotEncodable as refused:
        raise ObserveError(f"{refused} Correct the unit's name, then run again.") from refused
    command = [program, "show", f"--property={','.join(_PROPERTIES)}", "--", *names]
    code, output, error = _run(command)
    answers = [dict(line.partition("=")[::2] for line in text.splitlines()) for text in output.split("\n\n")]
    if code != 0 or len(answers) != len(wanted):
        raise _unreadable(command, error)
    return {
        unit.name: ObservedUnit(
            answer.get("UnitFileState") == "enabled",
            answer.get("ActiveState") in _RUNNING,
            answer.get("LoadState") == "masked",
            answer.get("NeedDaemonReload") == "yes",
        )
        for unit, answer in zip(wanted, answers)
    }


def running_instances(template: str, program: str = PROGRAM) -> list[str]:
    """Return the sorted names of the running units of a template, such as calico-netns@.service. Raise ObserveError."""
    pattern = unit_name(template).replace("@.", "@*.")
    states = f"--state={','.join((*_RUNNING, 'deactivating'))}"
    command = [program, "list-units", "--plain", "--no-legend", "--full", states, "--", pattern]
    code, output, error = _run(command)
    if code != 0:
        raise _unreadable(command, error)
    return sorted(line.split()[0] for line in output.splitlines() if line.strip())


def _unreadable(command: t.Sequence[str], error: str) -> ObserveError:
    return ObserveError(
        f"The units of systemd cannot be read: {' '.join(command[:2])} said {error or 'nothing'!r}. "
        "Nodes are hosts that systemd runs; see that it does (systemctl is-system-running), then run again."
    )


def diff(wanted: t.Sequence[WantedUnit], observed: t.Mapping[str, ObservedUnit]) -> list[Change]:
    """Return the changes that bring the observed units to the wanted state.

    There is at most one per unit, in the order of `wanted`. One that runs and needs no other change is restarted (`~`)
    if it has a `restart`. Every wanted unit must be in `observed`.
    """
    changes = []
    for unit in wanted:
        have = observed[unit.name]
        if unit.masked:
            if not have.masked:
                changes.append(Change("unit", "+", unit.name, None, "masked", "", have, unit))
            continue
        before = [] if unit.enabled is None else ["enabled" if have.enabled else "disabled"]
        after = [] if unit.enabled is None else ["enabled" if unit.enabled else "disabled"]
        before += [] if unit.started is None else ["started" if have.started else "stopped"]
        after += [] if unit.started is None else ["started" if unit.started else "stopped"]
        if before == after:
            if unit.restart and have.started:
                changes.append(Change("unit", "~", unit.name, "started", "started anew", unit.restart, have, unit))
            continue
        action: Action = "+" if not _does(before) else "-" if not _does(after) else "~"
        texts = None if action == "+" else ", ".join(before), None if action == "-" else ", ".join(after)
        changes.append(Change("unit", action, unit.name, *texts, "", have, unit))
    return changes


def _does(words: t.Collection[str]) -> bool:
    return "enabled" in words or "started" in words


def apply(changes: t.Sequence[Change], reload: bool, program: str = PROGRAM) -> None:
    """Make the changes that `diff` returned, by calling systemctl, and wait for each call.

    Units are first masked, enabled and disabled. Then systemd reads all unit files again, once, if `reload`, if it has
    not read one of these units' files, or if a unit was to be masked, enabled or disabled. Then units are started,
    stopped and restarted. All changes are tried; of a unit, the steps after one that failed are not. A call may take
    150 seconds. Raise ApplyError with those that failed.

    If the reading fails, each change fails that does not stop its unit, because systemd would start it with its former
    definition.
    """
    failures = Failures()
    left = []
    for change in changes:
        links = _links(change.old, change.new)
        reload = reload or change.old.stale or bool(links)
        if _called(failures, change, links, program, "--no-reload"):
            left.append(change)
    unread = _reloaded(program) if reload else ""
    for change in left:
        jobs = _jobs(change.old, change.new)
        if unread and jobs != ["stop"]:
            failures.add(change, unread)
        else:
            _called(failures, change, jobs, program)
    failures.raise_if_any()


def _links(have: ObservedUnit, unit: WantedUnit) -> list[str]:
    """Return the commands of systemctl that change links to the unit's file, in their order; [] for no change."""
    verbs = ["mask"] if unit.masked else []
    if unit.enabled is not None and unit.enabled != have.enabled:
        verbs.append("enable" if unit.enabled else "disable")
    return verbs


def _jobs(have: ObservedUnit, unit: WantedUnit) -> list[str]:
    """Return the command of systemctl that starts, stops or restarts the unit, as a list; [] for no change."""
    if unit.started is not None and unit.started != have.started:
        return ["start" if unit.started else "stop"]
    return ["restart"] if unit.restart and have.started else []


def _reloaded(program: str) -> str:
    code, dummy, error = _run([program, "daemon-reload"])
    if code == 0:
        return ""
    return (
        f"systemctl daemon-reload failed: {(error or f'status {code}').rstrip('.')}. systemd may not know the unit as"
        " its files are, so it was not started. See journalctl _PID=1, correct what it names, then run again."
    )


def _called(failures: Failures, change: Change, verbs: t.Iterable[str], program: str, *options: str) -> bool:
    """Call systemctl with each of `verbs` for the unit of `change` until one fails; return whether none did."""
    name = change.new.name
    for verb in verbs:
        code, dummy, error = _run([program, verb, *options, "--", unit_name(name)])
        if code != 0:
            reason = (
                f"systemctl {verb} failed: {error or f'status {code}'} "
                f"See journalctl -u {name}, correct what it names, then run again."
            )
            failures.add(change, reason)
            return False
    return True


def _run(command: t.Sequence[str]) -> tuple[int, str, str]:
    """Return a command's exit status, its standard output, and the first line of its standard error.

    The status is 127 if the program cannot be started, and 124 if it was killed after 150 seconds; the line says why.
    """
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except OSError as error:
        return 127, "", str(error.strerror)
    except subprocess.TimeoutExpired:
        return 124, "", f"it did not end within {_SECONDS:.0f} seconds."
    complaint = done.stderr.decode(errors="replace").strip()
    return done.returncode, done.stdout.decode(errors="replace").strip("\n"), complaint.partition("\n")[0]
