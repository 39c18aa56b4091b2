# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of one kind of object, without a NodeState. Drivers, their order and the lock are those of a whole node."""

from __future__ import annotations

import contextlib
import typing as t

from ..dataplane.change import Change, in_reading_order
from ..dataplane.kernel.port import Kernel
from ..dataplane.planning.apply import apply_parts
from ..dataplane.planning.plan import Part
from .errors import InTheWay
from .machine import Machine
from .store import lock

#: A function that compares with the kernel and returns what to change, in the order of additions. It is called while
#: the node's lock and writer.lock are held, but in check mode without them.
Build = t.Callable[[Kernel], t.Sequence[Part]]

_AGENT_RUNS = (
    "The agent of this node runs, and it alone writes here: it would take this back. Nothing was changed. Put what you "
    "want into the node's inventory and run playbooks/site.yml, use the module baremetal.host_routing.workload for a "
    "workload, or stop the agent (systemctl stop calico-agent) for as long as this is to last."
)


def bring_to(machine: Machine, build: Build, *, check: bool, who: str) -> list[Change]:
    """Make the changes that `build` finds, unless `check`, and return them.

    Problems come first, then removals, changes, additions and notes. `who` names this process in the lock, for others
    that wait. With `check` nothing is locked, and problems are returned. Otherwise raise InTheWay, before anything is
    changed, if there are problems or another process holds writer.lock, as an agent does. Raise LockError if a lock is
    not free within `machine.lock_timeout` seconds or its file cannot be opened, or what `build` and drivers raise:
    ObserveError, KernelError, ApplyError or MissingLibrary, and ValueError for wrong parameters of a module.
    """
    if check:
        return _shown(build(machine.kernel))
    with contextlib.ExitStack() as locks:
        locks.enter_context(lock.held(who, machine.lock_timeout, machine.lock))
        if lock.taken(machine.writer_lock):
            raise InTheWay(_AGENT_RUNS)
        locks.enter_context(lock.held(who, machine.lock_timeout, machine.writer_lock))
        parts = build(machine.kernel)
        problems = [change.note for part in parts for change in part.changes if change.action == "!"]
        if problems:
            raise InTheWay("\n".join(problems))
        apply_parts(machine.kernel, parts)
        return _shown(parts)


def _shown(parts: t.Sequence[Part]) -> list[Change]:
    return in_reading_order(change for part in parts for change in part.changes)
