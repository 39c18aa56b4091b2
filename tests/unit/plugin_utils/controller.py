# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our actions as Ansible runs them on the controller, with real inventories: one process for any number of runs.

    results = controller.run([Run("fleet", {"observed": "seen"}, hosts_file, {"node1": {"seen": {...}}})])

The process is one of its own because Ansible loads collections by an importer that has to be there first. It is a copy
of a process that has only imported Ansible and the actions: that takes longer than most runs, and is done once.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import types
import typing as t

#: The most seconds that the runs of one call may take together.
LIMIT = 600


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
    strategy: str = "linear"


def run(runs: t.Sequence[Run]) -> list[dict[str, t.Any]]:
    """Return the actions' results, in order.

    A result has `exception` if the action connects to a host or fails with a traceback. Raise AssertionError if the
    process fails, or takes longer than LIMIT.
    """
    return printed(runs)[1]


def printed(runs: t.Sequence[Run]) -> tuple[str, list[dict[str, t.Any]]]:
    """Return all that the actions print (stderr first), and their results. Raise what `run` raises."""
    environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8"}
    environment.pop("PYTEST_CURRENT_TEST", None)  # differs from test to test
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder, name) for name in ("stdout", "stderr", "results")}
        for path in files.values():
            path.touch()
        request = {
            "runs": [dataclasses.asdict(entry) for entry in runs],
            "folder": os.getcwd(),
            "largest_file": resource.getrlimit(resource.RLIMIT_FSIZE),
            "files": {name: str(path) for name, path in files.items()},
        }
        prepared = _prepared(tuple(sorted(environment.items())))
        assert prepared.stdin and prepared.stdout
        prepared.stdin.write(json.dumps(request) + "\n")
        prepared.stdin.flush()
        status = prepared.stdout.readline()
        stdout, stderr = (files[name].read_text("utf-8") for name in ("stdout", "stderr"))
        assert status == "0\n", f"status {status.strip()}: {stderr}"
        return stderr + stdout.removesuffix("\n"), json.loads(files["results"].read_text("utf-8"))


@functools.cache
def _prepared(environment: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """Start a process with this environment, which reads one request from each line of its stdin until that is closed.

    It runs each request in a copy of itself, and answers with the copy's exit status on a line of its stdout.
    """
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=dict(environment),
    )

    def end() -> None:
        assert process.stdin and process.stdout
        process.stdin.close()
        process.wait()
        process.stdout.close()

    atexit.register(end)
    return process


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
        {"name": "play", "hosts": names, "gather_facts": False, "tasks": [task_data], "strategy": entry["strategy"]},
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


def _perform(request: t.Mapping[str, t.Any]) -> None:
    """Run the actions of a request, and write what they print and their results to its files."""
    import traceback

    signal.alarm(LIMIT)
    os.chdir(request["folder"])
    for name, number in (("stdout", 1), ("stderr", 2)):
        file = os.open(request["files"][name], os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    resource.setrlimit(resource.RLIMIT_FSIZE, request["largest_file"])
    answers = []
    for entry in request["runs"]:
        try:
            answers.append(json.loads(json.dumps(_result(entry), default=str)))
        except Exception:  # noqa: BLE001 - all of it belongs into the answer
            answers.append({"exception": traceback.format_exc()})
    pathlib.Path(request["files"]["results"]).write_text(json.dumps(answers), "utf-8")
    sys.stdout.flush()
    sys.stderr.flush()


def _main() -> None:
    import traceback

    from ansible.plugins.loader import action_loader, init_plugin_loader

    init_plugin_loader()
    for path in sorted((pathlib.Path(__file__).parents[3] / "plugins" / "action").glob("[!_]*.py")):
        action_loader.get(f"baremetal.host_routing.{path.stem}", class_only=True)
    for line in sys.stdin:
        child = os.fork()
        if child:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        status = 1
        try:
            _perform(json.loads(line))
            status = 0
        except BaseException:  # noqa: BLE001 - the copy ends here, and not in the loop of its original
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)


if __name__ == "__main__":
    # Python put this folder into sys.path. Ansible's importer finds the collection by ANSIBLE_COLLECTIONS_PATH.
    sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != pathlib.Path(__file__).parent]
    _main()
