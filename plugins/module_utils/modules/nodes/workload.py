# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module workload attaches a workload between runs, or detaches it."""

from __future__ import annotations

import typing as t

from ...base.addresses import family_of
from ...cli.commands import add_params
from ...dataplane.change import Change
from ...node import machine
from ...state.attachment import is_of_pools
from ...wire import protocol
from ...wire.client import AgentClient
from ...wire.protocol import AgentError
from ...wire.request import AddRequest
from .. import standalone_module
from ..module_call import ModuleCall

Data = dict[str, t.Any]


def texts(labels: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return labels with texts as keys and values: the values 1, true and null become "1", "true" and "None"."""
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in labels.items()}


def wanted_of(params: t.Mapping[str, t.Any]) -> Data:
    names = ("netns", "pid", "peer_interface", "address", "address6", "families", "pools", "mac", "mtu")
    chosen = {name: params[name] for name in names}
    return add_params.add_params(params["name"], params["namespace"], labels=texts(params["labels"]), **chosen)


def present(agent: AgentClient, wanted: Data) -> t.Optional[Data]:
    """Return the workload as the agent has it, None if it has none of that id. Raise AgentError for other refusals."""
    try:
        return t.cast(Data, agent.call("workload.get", id=identity(wanted))["workload"])
    except AgentError as error:
        if error.code != protocol.NOT_FOUND:
            raise
        return None


def identity(wanted: Data) -> str:
    return add_params.identity(wanted["namespace"], wanted["name"])


def change_of(wanted: Data, have: t.Optional[Data], state: str) -> t.Optional[Change]:
    if state == "absent":
        return Change("workload", "-", identity(wanted), ", ".join(have["addresses"])) if have else None
    if have is None:
        return Change("workload", "+", identity(wanted), None, add_params.described(wanted))
    found = add_params.differences(wanted, have)
    if not found:
        return None
    before, after = ("  ".join(f"{entry[0]} {entry[side]}" for entry in found) for side in (1, 2))
    return Change("workload", "~", identity(wanted), before, after)


def bring_about(agent: AgentClient, change: Change, wanted: Data, have: t.Optional[Data]) -> t.Optional[Data]:
    """Make `change` through the agent; return the workload afterwards, None if it was deleted. Raise AgentError.

    `have` is the workload before, None if there was none. If only labels differ, they are set. Other differences delete
    the workload and add it again, with those of its addresses that `with_addresses` keeps. An invalid request is
    refused before that; if the add fails for another reason, the workload stays deleted.
    """
    if have is not None and change.action == "~":
        if {entry[0] for entry in add_params.differences(wanted, have)} == {"labels"}:
            labels = {**dict.fromkeys(have["labels"]), **wanted["labels"]}
            return t.cast(Data, agent.call("workload.label", id=have["id"], labels=labels)["workload"])
    if have is not None and change.action == "~":
        wanted = with_addresses(wanted, have)
        AddRequest.from_params(wanted)
    if have is not None:
        agent.call("workload.delete", id=have["id"])
    if change.action == "-":
        return None
    return t.cast(Data, agent.call("workload.add", **wanted)["workload"])


def with_addresses(wanted: Data, have: Data) -> Data:
    """Return `wanted` with the addresses of the workload `have`, because other hosts may have stored them.

    An address is left out if `wanted` names one of its IP version or does not want its version. It is also left out if
    it may be of a pool that is not wanted: only the first address's pool is known by name.
    """
    kept: Data = {}
    for index, address in enumerate(have["addresses"]):
        family = family_of(address)
        field = "address" if family == 4 else "address6"
        of_pools = not wanted["pools"] or is_of_pools(wanted["pools"], "" if index else have["pool"], (address,))
        if wanted.get(field) is None and family in (wanted.get("families") or (4, 6)) and of_pools:
            kept[field] = address
    return {**wanted, **kept}


def run(module: ModuleCall) -> t.NoReturn:
    """Attach a workload between runs, or detach it, and answer as the module workload; an error has its `code`."""
    wanted = wanted_of(module.params)
    with AgentClient(machine.here().agent_socket) as agent:
        try:
            have = present(agent, wanted)
            change = change_of(wanted, have, module.params["state"])
            if change is not None and not module.check_mode:
                have = bring_about(agent, change, wanted, have)
        except AgentError as error:
            module.fail_json(msg=error.message, code=error.code)
    changes = [change] if change else []
    answer: Data = {"changed": bool(changes), "plan": [found.line() for found in changes]}
    if have is not None and not (module.check_mode and changes):
        answer["workload"] = have
    if module._diff and changes:
        answer["diff"] = standalone_module.before_after(changes)
    module.exit_json(**answer)
