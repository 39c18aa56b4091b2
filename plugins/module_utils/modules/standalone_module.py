# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that changes or reads one kind of object, from its parameters to its answer."""

from __future__ import annotations

import typing as t

from ..dataplane.change import Change
from ..dataplane.kernel.port import Kernel
from ..dataplane.planning.plan import Part
from ..node import machine, standalone
from ..node.errors import ERRORS, InTheWay
from ..node.machine import Machine
from .error_report import errors_reported
from .module_call import ModuleCall

#: The name of this process in the node's lock, for the messages of others that wait for the lock.
_WHO = "ansible"
Params = t.Mapping[str, t.Any]


def run_change(module: ModuleCall, steps: t.Callable[[Params, Kernel], t.Sequence[Part]], **more: t.Any) -> t.NoReturn:
    """Make the changes that `steps` finds, unless in check mode, and answer with them and with `more`.

    The answer has `changed` (notes and problems alone are no change), `plan` (a line for each) and, in diff mode if
    anything changed, `diff`. It fails for an error of
    `node.errors.ERRORS`, an InTheWay or a ValueError. Wait at most `lock_timeout` seconds of the machine for
    each lock. In check mode, nothing is locked, and problems are part of the plan.
    """
    here = machine.here()
    with errors_reported(module, here, *ERRORS, InTheWay, ValueError):
        changes = standalone.bring_to(
            here, lambda kernel: steps(module.params, kernel), check=module.check_mode, who=_WHO
        )
    changed = any(change.action in "+~-" for change in changes)
    answer: dict[str, t.Any] = {**more, "changed": changed, "plan": [change.line() for change in changes]}
    if module._diff and changed:
        answer["diff"] = before_after(changes)
    module.exit_json(**answer)


def run_info(module: ModuleCall, observe: t.Callable[[Params, Machine], dict[str, t.Any]]) -> t.NoReturn:
    """Answer with what `observe` reads of this machine, and with `changed` False.

    It fails for an error of ERRORS or a ValueError. Others are raised.
    """
    here = machine.here()
    with errors_reported(module, here, *ERRORS, ValueError):
        answer = observe(module.params, here)
    module.exit_json(changed=False, **answer)


def before_after(changes: t.Iterable[Change]) -> dict[str, str]:
    """Return the diff as Ansible shows it: {"before": text, "after": text}.

    Each has a line for each object that has one in the change, then the lines of `detail` with - or +, without that
    sign.
    """
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
