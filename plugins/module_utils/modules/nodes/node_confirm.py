# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_confirm confirms a change of a node, which reverts it otherwise."""

from __future__ import annotations

import typing as t

from ...node import machine
from ...node.change import confirmation
from ...node.errors import ERRORS
from ...node.store.unconfirmed import UnconfirmedStore
from ..error_report import errors_reported
from ..module_call import ModuleCall

NOTHING = "nothing"


def confirm(here: machine.Machine, params: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    pending = UnconfirmedStore(here.store).load()
    change = params["change"] or (pending.change if pending else "")
    if not change:
        return {"changed": False, "outcome": NOTHING, "news": "", "generation": None}
    if check:
        waits = pending is not None and pending.change == change
        return {"changed": waits, "outcome": confirmation.CONFIRMED, "news": "", "generation": None}
    own = None if params["same_connection"] else next(iter(here.sessions()), None)
    answer = confirmation.confirm(
        here, change, own.text if own else "", params["generations_kept"], params["lock_timeout"]
    )
    return {
        "changed": pending is not None and answer.outcome == confirmation.CONFIRMED,
        "outcome": answer.outcome,
        "news": answer.revert.sentence if answer.revert else "",
        "generation": answer.generation,
    }


def run(module: ModuleCall) -> t.NoReturn:
    """Confirm a change of a node, which reverts it otherwise, and answer as the module node_confirm."""
    here = machine.here()
    with errors_reported(module, here, *ERRORS):
        answer = confirm(here, module.params, module.check_mode)
    module.exit_json(**answer)
