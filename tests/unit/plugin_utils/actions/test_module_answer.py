# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a module's answer that actions pass on; every module of the collection has an action.

Some modules share the action that meta/runtime.yml names.
"""

from __future__ import annotations

import ast
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import module_answer

PLUGINS = pathlib.Path(__file__).resolve().parents[4] / "plugins"
#: Modules that are documentation alone: their actions work on the controller.
ON_THE_CONTROLLER = {
    "datastore", "datastore_info", "endpoint_sync", "endpoint_sync_report", "etcd_files", "etcd_plan", "etcd_status",
    "fleet", "fleet_ipam_check", "fleet_lint", "fleet_load", "fleet_report", "fleet_resources", "fleet_status",
    "generation_choice", "host_warnings", "html_report",
    "node_removal", "phase_gate", "policy_explain", "pool_mode_in_inventory", "preflight", "resource",
    "resource_change", "resource_info", "run_check", "settle_gate",
}  # fmt: skip
MODULES = {path.stem: path for path in (PLUGINS / "modules").glob("*.py")}
ACTIONS = {path.stem: path for path in (PLUGINS / "action").glob("*.py") if path.stem != "__init__"}
#: {name of a module: the action of another module that it shares}
SHARED = {
    name: entry["action_plugin"].removeprefix("baremetal.host_routing.")
    for name, entry in yaml.safe_load((PLUGINS.parent / "meta" / "runtime.yml").read_text("utf-8"))["plugin_routing"][
        "modules"
    ].items()
    if "action_plugin" in entry
}


def assigned(path: pathlib.Path, name: str) -> str:
    for statement in ast.parse(path.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == name:
            return str(ast.literal_eval(statement.value))
    raise AssertionError(f"{path} has no {name}")


def test_every_module_is_either_filtered_or_on_the_controller() -> None:
    assert set(module_answer.DOCUMENTED) | ON_THE_CONTROLLER == set(MODULES)
    assert not set(module_answer.DOCUMENTED) & ON_THE_CONTROLLER


@pytest.mark.parametrize("name", sorted(module_answer.DOCUMENTED))
def test_the_keys_are_those_of_the_documentation(name: str) -> None:
    assert module_answer.DOCUMENTED[name] == set(yaml.safe_load(assigned(MODULES[name], "RETURN")) or {})


def test_every_module_has_an_action_with_the_filter() -> None:
    assert set(ACTIONS) | set(SHARED) == set(MODULES)
    assert set(SHARED.values()) == {"route", "etcd_operation"} <= set(ACTIONS)
    assert not set(ACTIONS) & set(SHARED)
    for path in ACTIONS.values():
        classes = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
        (action,) = (node for node in classes if node.name == "ActionModule")
        (base,) = action.bases
        assert isinstance(base, ast.Name), path
        assert base.id in ("AnswerAction", "EtcdAction", "GuardedAction", "PlainAction", "StateAction"), path
        methods = {node.name for node in action.body if isinstance(node, ast.FunctionDef)}
        assert not methods & {"run", "_execute_module"}, f"{path}: define act in the place of run"


@pytest.mark.parametrize(
    "key", ["ansible_facts", "add_host", "add_group", "ansible_stats", "results", "_ansible_notify"]
)
def test_nothing_that_ansible_obeys_is_passed_on(key: str) -> None:
    """The key, which Ansible obeys, is neither in OF_ANSIBLE nor documented by a module."""
    assert key not in module_answer.OF_ANSIBLE.union(*module_answer.DOCUMENTED.values())


@pytest.mark.parametrize(
    ("discovered", "facts"),
    [
        (None, {}),
        ("discovered_interpreter_python", {"ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3"}}),
    ],
)
def test_an_answer_with_and_without_a_discovered_interpreter(discovered: t.Optional[str], facts: t.Any) -> None:
    answer = {
        "changed": True, "plan": ["x"], "other": 1, "warnings": ["w"], "add_host": {},
        "ansible_facts": {"calico_policies": [], "discovered_interpreter_python": "/tmp/forged"},
    }  # fmt: skip
    passed = module_answer.passed_on("route", answer, discovered, "/usr/bin/python3")
    assert passed == {"changed": True, "plan": ["x"], "warnings": ["w"], **facts}
