# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One kind of object at a time, for modules that are used alone: drivers, order and lock are those of a whole node."""

from __future__ import annotations

import contextlib
import typing as t

from ..dataplane.apply import apply_parts
from ..dataplane.change import Change
from ..dataplane.kernel.port import Kernel
from ..dataplane.plan import Part
from .errors import ERRORS, InTheWay
from .machine import Machine
from .store import lock

#: What there is to do, in the order of additions; called under the lock, with what the kernel has then.
Build = t.Callable[[Kernel], t.Sequence[Part]]

_AGENT_RUNS = (
    "The agent of this node runs, and it alone writes here: it would take this back. Nothing was changed. Put what you "
    "want into the node's inventory and run playbooks/site.yml, use the module baremetal.host_routing.workload for a "
    "workload, or stop the agent (systemctl stop calico-agent) for as long as this is to last."
)


def bring_to(machine: Machine, build: Build, *, check: bool, who: str = "ansible") -> list[Change]:
    """Does what `build` finds, unless `check`. Returns the changes, in the order in which people read them.

    Raises InTheWay before anything is changed, also where an agent runs; LockError, or what drivers raise.
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
    everything = [change for part in parts for change in part.changes]
    return sorted(everything, key=lambda change: "!-~+=".index(change.action))


def changed(changes: t.Iterable[Change]) -> bool:
    """`=` is kept on purpose: no change."""
    return any(change.action in "+~-" for change in changes)


def before_after(changes: t.Iterable[Change]) -> dict[str, str]:
    """The diff as Ansible shows it: one line per object, without those that stay."""
    before, after = [], []
    for change in changes:
        head = f"{change.kind:<8} {change.subject}  "
        if change.before and change.action in "~-":
            before.append(head + change.before)
        if change.after and change.action in "~+":
            after.append(head + change.after)
        if change.detail:
            lines = change.detail.splitlines()
            before += [line[1:] for line in lines if line.startswith("-")]
            after += [line[1:] for line in lines if line.startswith("+")]
    return {"before": _text(before), "after": _text(after)}


def _text(lines: t.Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


class AnsibleModule(t.Protocol):
    """What is used of Ansible's class of this name, which this file must not know."""

    params: t.Any
    check_mode: bool
    _diff: bool

    def exit_json(self, **answer: t.Any) -> t.NoReturn: ...

    def fail_json(self, msg: str, **answer: t.Any) -> t.NoReturn: ...


def run(module: AnsibleModule, machine: Machine, build: Build, **more: t.Any) -> t.NoReturn:
    """A module that changes one kind of object, from its parameters to its answer, which has `more` as well."""
    try:
        changes = bring_to(machine, build, check=module.check_mode)
    except (*ERRORS, InTheWay, ValueError) as error:
        module.fail_json(msg=str(error))
    finally:
        machine.kernel.close()
    answer: dict[str, t.Any] = {**more, "changed": changed(changes), "plan": [change.line() for change in changes]}
    if module._diff and answer["changed"]:
        answer["diff"] = before_after(changes)
    module.exit_json(**answer)


def tell(module: AnsibleModule, machine: Machine, look: t.Callable[[Machine], dict[str, t.Any]]) -> t.NoReturn:
    """A module that reads."""
    try:
        answer = look(machine)
    except (*ERRORS, ValueError) as error:
        module.fail_json(msg=str(error))
    finally:
        machine.kernel.close()
    module.exit_json(changed=False, **answer)
