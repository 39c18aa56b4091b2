# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of one kind of object, without a NodeState: drivers, order and lock are those of a whole node."""

from __future__ import annotations

import contextlib
import typing as t

from ..dataplane.change import ApplyError, Change, Failures
from ..dataplane.drivers import sysctl, workload
from ..dataplane.kernel.port import Kernel
from ..dataplane.node import ready_to_write
from .errors import InTheWay
from .machine import Machine
from .store import lock


class Step(t.NamedTuple):
    """Changes of one driver, a module with apply(kernel, changes). Steps stand in the order of their additions."""

    driver: t.Any
    changes: t.Sequence[Change]


#: What there is to do; called under the lock, with what the kernel has then.
Build = t.Callable[[Kernel], t.Sequence[Step]]

_AGENT_RUNS = (
    "The agent of this node runs, and it alone writes here: it would take this back. Nothing was changed. Put what you "
    "want into the node's inventory and run playbooks/site.yml, use the module baremetal.host_routing.workload for a "
    "workload, or stop the agent (systemctl stop calico-agent) for as long as this is to last."
)


def bring_to(machine: Machine, build: Build, *, check: bool, who: str) -> list[Change]:
    """Make the changes that `build` finds, unless `check`; return them in the order in which people read them.

    `who` is for others that wait for the lock. Raises InTheWay before anything is changed, also where an agent runs;
    LockError, or what drivers raise.
    """
    if check:
        return _shown(build(machine.kernel))
    with contextlib.ExitStack() as locks:
        locks.enter_context(lock.held(who, machine.lock_timeout, machine.lock))
        if lock.taken(machine.writer_lock):
            raise InTheWay(_AGENT_RUNS)
        locks.enter_context(lock.held(who, machine.lock_timeout, machine.writer_lock))
        steps = build(machine.kernel)
        problems = [change.note for step in steps for change in step.changes if change.action == "!"]
        if problems:
            raise InTheWay("\n".join(problems))
        _make(machine.kernel, steps)
        return _shown(steps)


def _make(kernel: Kernel, steps: t.Sequence[Step]) -> None:
    ready_to_write(kernel, [change for step in steps for change in step.changes])
    failures = Failures()
    for step in steps:
        additions = [change for change in step.changes if change.action in "+~"]
        _apply(kernel, step.driver.apply, additions, failures)
        if step.driver is sysctl:
            everything = [change for other in steps for change in other.changes]
            _apply(kernel, workload.activate, everything, failures)
    failures.raise_if_any()
    for step in reversed(steps):
        _apply(kernel, step.driver.apply, [change for change in step.changes if change.action == "-"], failures)
    failures.raise_if_any()


def _apply(kernel: Kernel, apply: t.Any, changes: t.Sequence[Change], failures: Failures) -> None:
    if changes:
        try:
            apply(kernel, changes)
        except ApplyError as error:
            failures.extend(error)


def _shown(steps: t.Sequence[Step]) -> list[Change]:
    everything = [change for step in steps for change in step.changes]
    return sorted(everything, key=lambda change: "!-~+=".index(change.action))
