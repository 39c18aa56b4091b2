# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our actions as Ansible runs them on the controller, with real inventories: one process for any number of runs.

    results = controller.run([Run("fleet", {"observed": "seen"}, hosts_file, {"node1": {"seen": {...}}})])

The process is one of its own because Ansible loads collections by an importer that has to be there first.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import types
import typing as t


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of an action on the first host in `registered`, which is {host: its registered variables}.

    If the inventory does not have that host, the action runs on the first one that it has.
    """

    action: str
    args: t.Mapping[str, t.Any]
    hosts_file: str
    registered: t.Mapping[str, t.Mapping[str, t.Any]]
    check_mode: bool = False


def run(runs: t.Sequence[Run]) -> list[dict[str, t.Any]]:
    """Return the actions' results, in order.

    A result has `exception` if the action connects to a host or fails with a traceback. Raise AssertionError if the
    process fails, and subprocess.TimeoutExpired after 600 seconds.
    """
    return printed(runs)[1]


def printed(runs: t.Sequence[Run]) -> tuple[str, list[dict[str, t.Any]]]:
    """Return all that the actions print (stderr first), and their results. Raise what `run` raises."""
    environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([dataclasses.asdict(entry) for entry in runs]),
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    # The results are the last line of stdout, after the output of the actions.
    output, dummy, results = done.stdout.rpartition("\n")
    return done.stderr + output, json.loads(results)


class _NoConnection:
    """A connection that raises AssertionError for each attribute but `_shell`.

    `_shell` has only the name of a temporary folder, which ActionBase.run reads without making the folder.
    """

    _shell = types.SimpleNamespace(tmpdir="/nonexistent")

    def __getattr__(self, name: str) -> t.Any:
        raise AssertionError(f"a host was to be touched: connection.{name}")


def _result(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.playbook.play import Play
    from ansible.playbook.play_context import PlayContext
    from ansible.plugins.loader import action_loader
    from ansible.template import Templar
    from ansible.vars.hostvars import HostVars
    from ansible.vars.manager import VariableManager

    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[entry["hosts_file"]])
    manager = VariableManager(loader=loader, inventory=inventory)
    manager._hostvars = HostVars(inventory=inventory, variable_manager=manager, loader=loader)
    names = list(entry["registered"])
    for name, facts in entry["registered"].items():
        manager.set_nonpersistent_facts(name, facts)
    action_name = f"baremetal.host_routing.{entry['action']}"
    task_data = {"name": "task", action_name: entry["args"], "check_mode": entry["check_mode"]}
    play = Play.load(
        {"name": "play", "hosts": names, "gather_facts": False, "tasks": [task_data]},
        variable_manager=manager,
        loader=loader,
    )
    task = play.get_tasks()[0][0]
    first = inventory.get_host(names[0]) or next(iter(inventory.get_hosts()), None)
    task_vars = manager.get_vars(play=play, host=first, task=task, _hosts_all=names)
    templar = Templar(loader=loader, variables=task_vars)
    action = action_loader.get(
        action_name,
        task=task,
        connection=_NoConnection(),
        play_context=PlayContext(play=play),
        loader=loader,
        templar=templar,
        shared_loader_obj=None,
    )
    return t.cast("dict[str, t.Any]", action.run(task_vars=task_vars))


def _main() -> None:
    import traceback

    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader()
    answers = []
    for entry in json.load(sys.stdin):
        try:
            answers.append(json.loads(json.dumps(_result(entry), default=str)))
        except Exception:  # noqa: BLE001 - all of it belongs into the answer
            answers.append({"exception": traceback.format_exc()})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    # Python put this folder into sys.path. Ansible's importer finds the collection by ANSIBLE_COLLECTIONS_PATH.
    sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != pathlib.Path(__file__).parent]
    _main()
