# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All playbooks that change the fleet end by one verdict on its paths, with one limit."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.conftest import ROOT

TASKS = ROOT / "roles" / "calico_node" / "tasks"
LIMIT = "{{ calico_node_max_lost_probes }}"
PREFIX = "baremetal.host_routing."
#: The tasks of the role calico_node by which each playbook ends.
ENDS = {
    "site": "main",
    "switch_pool_mode": "main",
    "switch_topology": "main",
    "rollback": "rollback",
    "remove_node": "main",
}


def load(path: pathlib.Path) -> list[t.Any]:
    return t.cast("list[t.Any]", yaml.safe_load(path.read_text("utf-8")))


def flat(tasks: t.Iterable[t.Any]) -> t.Iterator[dict[str, t.Any]]:
    for task in tasks:
        yield from flat(task["block"]) if "block" in task else (task,)


@pytest.mark.parametrize("path", sorted(TASKS.glob("*.yml")), ids=lambda path: path.stem)
def test_each_verdict_knows_how_many_probes_may_be_lost(path: pathlib.Path) -> None:
    for task in flat(load(path)):
        for module in ("fleet_report", "html_report"):
            if PREFIX + module in task:
                assert task[PREFIX + module]["max_lost_probes"] == LIMIT, task["name"]


@pytest.mark.parametrize(("playbook", "tasks"), ENDS.items())
def test_a_playbook_ends_by_the_verdict(playbook: str, tasks: str) -> None:
    """The role's last tasks are those of converge.yml, and their last one is the verdict: it fails the run."""
    roles = [
        entry
        for play in load(ROOT / "playbooks" / f"{playbook}.yml")
        for entry in [
            *(role["role"] for role in play.get("roles", ())),
            *(
                (
                    task["ansible.builtin.import_role"]["name"],
                    task["ansible.builtin.import_role"].get("tasks_from", "main"),
                )
                for task in flat(play.get("tasks", ()))
                if "ansible.builtin.import_role" in task
            ),
        ]
    ]
    assert f"{PREFIX}calico_node" in roles or (f"{PREFIX}calico_node", tasks) in roles
    last = load(TASKS / f"{tasks}.yml")[-1]
    assert last["ansible.builtin.import_tasks"] == "converge.yml"
    verdict = load(TASKS / "converge.yml")[-1]
    assert PREFIX + "fleet_report" in verdict
    assert not {"failed_when", "ignore_errors"} & verdict.keys()


def test_a_run_of_a_switch_alone_ends_by_the_same_verdict() -> None:
    """After it, nothing but failures and the end of the role follow."""
    tasks = load(TASKS / "switched.yml")
    assert PREFIX + "fleet_report" in tasks[-3] and not {"failed_when", "ignore_errors"} & tasks[-3].keys()
    assert "ansible.builtin.fail" in tasks[-2]
    assert tasks[-1]["ansible.builtin.meta"] == "end_role"


def test_all_hosts_are_probed_in_three_rounds_if_one_is_not_settled() -> None:
    for name in ("settle.yml", "switched.yml"):
        (probe,) = [task for task in load(TASKS / name) if PREFIX + "probe" in task]
        assert probe[PREFIX + "probe"]["attempts"] == 3
    (settle,) = [
        task for task in load(TASKS / "converge.yml") if "settle.yml" in str(task.get("ansible.builtin.include_tasks"))
    ]
    assert settle["when"] == "not (ansible_check_mode or calico_node_settled.ok)"
