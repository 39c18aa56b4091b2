# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module convergence_info waits until a node's sessions and routes are in place."""

from __future__ import annotations

import typing as t

from ...bird.errors import BirdError
from ...dataplane.change import ObserveError
from ...dataplane.kernel.port import KernelError
from ...node import machine
from ...node.probe import convergence
from ...node.store.store import Store
from ...node.store.stored_file import StoreError
from ...state.node_state import NodeState
from ..error_report import errors_reported
from ..module_call import ModuleCall

# The most missing things that a message names; all are in `missing`.
_NAMED = 5


def state_of(params: t.Mapping[str, t.Any], here: machine.Machine) -> NodeState:
    """Return the state to wait for: the given one, else the stored one.

    Raise ValueError if a given one cannot be read or there is neither, and StoreError if the stored one cannot be read.
    """
    if params["state"] is not None:
        return NodeState.from_dict(params["state"])
    stored = Store(here.store).load()
    if stored is None:
        raise ValueError(
            f"there is nothing to wait for: no state was given, and none is stored in {here.store}. "
            "Bring the node to its state first (module baremetal.host_routing.node)."
        )
    return stored.state


def message(found: convergence.Convergence, timeout: int) -> str:
    more = len(found.missing) - _NAMED
    named = "; ".join(text.rstrip(".") for text in found.missing[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return f"not converged after {timeout} s: {named}. See `birdc -s /run/calico/bird.ctl show protocols all` there."


def sessions_of(found: convergence.Convergence) -> dict[str, int]:
    """Return the numbers of sessions: `expected`, `established`, and `external_established` among these."""
    return {
        "expected": found.sessions_expected,
        "established": found.sessions_established,
        "external_established": found.external_established,
    }


def answer_of(found: convergence.Convergence) -> dict[str, t.Any]:
    """Return the module's answer: `changed`, `converged`, `missing`, `sessions` (see `sessions_of`) and `routes`.

    `routes` has the keys `expected` and `present`.
    """
    return {
        "changed": False,
        "converged": found.converged,
        "sessions": sessions_of(found),
        "routes": {"expected": found.routes_expected, "present": found.routes_present},
        "missing": list(found.missing),
    }


def waited(module: ModuleCall, fail: bool) -> dict[str, t.Any]:
    """Wait until the node's sessions and routes are in place, and return the module's answer (see `answer_of`).

    The last look begins after at most `timeout` seconds, a parameter of the module. End in `fail_json` if there is no
    readable state to wait for or the kernel cannot be asked, and with `fail` also if something is missing then.
    """
    params = module.params
    here = machine.here()
    with errors_reported(module, here, BirdError, KernelError, ObserveError, StoreError, ValueError):
        found = convergence.wait(here, state_of(params, here), params["timeout"])
    answer = answer_of(found)
    if fail and not found.converged:
        module.fail_json(msg=message(found, params["timeout"]), **answer)
    return answer


def run(module: ModuleCall) -> t.NoReturn:
    """Wait until a node's sessions and routes are in place, and answer as the module convergence_info.

    A BIRD that cannot be asked is waited for: `missing` of the answer has its error.
    """
    module.exit_json(**waited(module, module.params["fail"]))
