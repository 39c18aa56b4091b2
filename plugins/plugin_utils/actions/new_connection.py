# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The confirmation of a host's change by a connection that is opened after it, with retries.

The process that changed a host also confirms it, at once. So no host waits for another one, however many hosts a task
has, and a host that fails the task ends no other host's time.
"""

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome

#: Seconds for which a host is still asked after its time is over: it reverts then, and answers that it did.
GOING_BACK = 45.0
_PAUSE = 1.0
#: Most sentences of a plan that an error repeats.
_NAMED = 20

Data = dict[str, t.Any]


def confirm(
    reset: t.Callable[[], None],
    ask: t.Callable[[], Data],
    seconds: float,
    clock: t.Callable[[], float] = time.monotonic,
    sleep: t.Callable[[float], None] = time.sleep,
) -> Data:
    """Return the host's answer to node_confirm, or {"unreachable": True, "msg": why} after the last attempt.

    `reset` closes the present connection, `ask` calls the module by a new one. If either raises
    AnsibleConnectionFailure, both are retried after a second. The last attempt is the first that fails `seconds`, the
    host's time to confirm, plus 45 seconds after the call of this function.
    """
    deadline = clock() + seconds + GOING_BACK
    while True:
        try:
            reset()
            return ask()
        except AnsibleConnectionFailure as error:
            if clock() >= deadline:
                return {"unreachable": True, "msg": outcome.first_line(error.message)}
        sleep(_PAUSE)


def problem(host: str, answer: Data, seconds: float, cut: t.Any) -> str:
    """Return why a change is not confirmed and what the host does next, "" if it is confirmed.

    It is also "" if a later change replaced it, or if the host had nothing to confirm. `answer` is the result of
    `confirm`, `seconds` the host's time to confirm, `cut` the host's sentences about connections.
    """
    kind = answer.get("outcome")
    if kind in ("confirmed", "replaced", "nothing"):
        return ""
    sentences = [outcome.first_line(text) for text in cut[:_NAMED]] if isinstance(cut, (list, tuple)) else []
    said = f" The plan said: {'; '.join(sentences)}." if sentences else ""
    after = f"{said} Correct the inventory, then run again."
    if kind == "went_back":
        return (
            f"{host} could not be reached by a new connection within {seconds:g} s of the change, and went back by"
            f" itself to what it had before.{after}"
        )
    if kind == "same_connection":
        return (
            f"{host} was asked by the connection that it was changed by, so that nothing is known of new ones. It goes"
            f" back to what it had before within {seconds:g} s of the change. Have Ansible open a new one for"
            " meta: reset_connection, or give calico_node_confirm_timeout: 0, which confirms nothing."
        )
    why = outcome.reason(answer)
    return (
        f"{host} did not confirm the change by a new connection ({why}). It goes back by itself to what it had before"
        f" {seconds:g} s after the change.{after}"
    )
