# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of an ad-hoc task: the process of its first host compiles them, and those of the others read them.

Compiling reads the variables of the whole inventory, so if every host did it, the cost would grow quadratically with
the hosts. Ansible forks a process per host. The processes of one run share the run's temporary folder on the
controller. It has mode 0700, is created for each run and removed at its end, so nothing remains for another run. Within
a run, a result is used for one task and one batch of hosts only. So a task sees what an earlier task changed in the
inventory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pickle
import typing as t

from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import folders, locks, replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import pool_modes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from . import fleet_source, inventory_source

_FOLDER = "host_routing-shared"
_BACKGROUND = ".background"


def of_task(
    task_vars: t.Mapping[str, t.Any],
    task: str,
    host: str,
    current: t.Optional[NodeState],
    pool: t.Optional[str] = None,
    mode: t.Optional[str] = None,
) -> Targets:
    """Return the targets of a task, with `hold`. The first caller compiles them, while the others wait for it.

    There is no time limit. If the first process ends without a result, the next one compiles. `task` identifies the
    task in this run; `current` is the host's stored state, None for a new host. `pool` and `mode` are those of
    RunRequest. Raise FleetError as `fleet_source.planned`, for every host alike, and if a new host would use other
    modes than the fleet.
    """
    folder = os.path.join(constants.DEFAULT_LOCAL_TMP, _FOLDER)
    folders.make(folder, folders.PRIVATE)
    path = os.path.join(folder, _key(task_vars, task, pool, mode))
    found = _read(path)
    if found is None:
        with locks.held(f"{path}.lock"):
            found = _read(path)
            if found is None:
                found, background = _compiled(task_vars, pool, mode)
                replacement.replace(path + _BACKGROUND, pickle.dumps(background), 0o600, sync=False)
                replacement.replace(path, pickle.dumps(found), 0o600, sync=False)
    if isinstance(found, _Refusal):
        raise FleetError(found.variable, found.value, found.rule, found.remedy, found.origin)
    if current is None:
        remembered, origins = _read(path + _BACKGROUND)
        pool_modes.check_newcomers(found.fleet, remembered, {host: None}, [pool or ""], origins)
    return t.cast(Targets, found)


@dataclasses.dataclass(frozen=True)
class _Refusal:
    """A stored FleetError, which the process of every host raises."""

    variable: str
    value: t.Any
    rule: str
    remedy: str
    origin: str


def _compiled(
    task_vars: t.Mapping[str, t.Any], pool: t.Optional[str], mode: t.Optional[str]
) -> tuple[t.Union[Targets, _Refusal], t.Any]:
    """Return (the targets or the error, what only new hosts need).

    The latter is (lockfile's plan, origins of pools), or None with an error.
    """
    try:
        run = fleet_source.planned(task_vars, pool=pool, mode=mode)
    except FleetError as error:
        return _Refusal(error.variable, error.value, error.rule, error.remedy, error.origin), None
    # The phases of an ad-hoc task may be for a change of sessions: not all nodes were read, so hold is always needed.
    return dataclasses.replace(run.targets, fleet=run.fleet.named(), hold=True), (run.remembered, run.origins)


def _key(task_vars: t.Mapping[str, t.Any], task: str, pool: t.Optional[str], mode: t.Optional[str]) -> str:
    groups = task_vars.get("groups", {})
    members = [list(groups.get(name, ())) for name in (inventory_source.NODES_GROUP, inventory_source.REFLECTORS_GROUP)]
    batch = list(task_vars.get("ansible_play_batch", ()))
    content = [task, pool, mode, task_vars.get("inventory_dir"), members, batch]
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()


def _read(path: str) -> t.Any:
    try:
        with open(path, "rb") as stream:
            return pickle.load(stream)
    except FileNotFoundError:
        return None
