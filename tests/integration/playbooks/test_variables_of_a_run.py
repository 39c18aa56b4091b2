# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of the fleet's variables in a user's playbook, with Ansible's default configuration."""

from __future__ import annotations

import json
import pathlib
import re
import sys
import typing as t

import pytest
import yaml

from tests.integration.ansible_playbook import play

DENY = [
    {
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": "closed"},
        "spec": {"selector": "app == 'w2'", "types": ["Ingress"], "ingress": []},
    }
]
GIVEN = {"calico_policies": DENY}
EXPLAIN = {"baremetal.host_routing.policy_explain": {"from": "w1", "to": "w2", "port": "80/tcp"}, "run_once": True}
CACHED = {"name": "cached", "ansible.builtin.set_fact": {**GIVEN, "cacheable": True}}
CACHE = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": "cache"}
UNDEFINED = (
    "calico_node_address of n1 is a template that cannot be evaluated: 'ansible_default_ipv4' is undefined. Define what"
    " it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for ansible_default_ipv4."
)


class Controller:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.inventory = folder / "hosts.yml"
        (folder / "default.cfg").touch()
        (folder / "closed.yml").write_text(json.dumps(GIVEN))
        role = folder / "roles" / "closing"
        for part, content in (("vars", GIVEN), ("tasks", [EXPLAIN])):
            (role / part).mkdir(parents=True)
            (role / part / "main.yml").write_text(json.dumps(content))
        self.hosts("10.0.0.1/24")

    def hosts(self, address: str) -> None:
        fleet = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16"}],
            "calico_workloads": [{"name": w, "node": "n1", "labels": {"app": w}} for w in ("w1", "w2")],
        }
        nodes = {"vars": fleet, "hosts": {"n1": {"calico_node_address": address}}}
        self.inventory.write_text(yaml.safe_dump({"calico_nodes": nodes}))

    def run(self, *plays: t.Mapping[str, t.Any], options: t.Sequence[str] = (), **environment: str) -> str:
        path = self.folder / "play.yml"
        path.write_text(json.dumps([{"hosts": "calico_nodes", "gather_facts": False, **entry} for entry in plays]))
        config = {"ANSIBLE_CONFIG": str(self.folder / "default.cfg"), **environment}
        done = play(path, self.inventory, *options, environment=config)
        return re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.fixture
def controller(tmp_path: pathlib.Path) -> Controller:
    return Controller(tmp_path)


def test_variables_come_from_plays_roles_and_tasks(controller: Controller) -> None:
    said = controller.run(
        {"tasks": [EXPLAIN]},
        {"tasks": [EXPLAIN], "vars": GIVEN},
        {"tasks": [EXPLAIN], "vars_files": ["closed.yml"]},
        {"roles": ["closing"]},
        {"tasks": [{**EXPLAIN, "vars": GIVEN}]},
        {"tasks": [EXPLAIN]},
        {"tasks": [{"ansible.builtin.include_vars": "closed.yml"}, EXPLAIN]},
    )
    assert re.findall("ALLOW|DENY", said) == ["ALLOW", *["DENY"] * 4, "ALLOW", "DENY"]


@pytest.mark.parametrize(
    "tasks",
    [[{"ansible.builtin.set_fact": GIVEN}], [CACHED], [CACHED, {"ansible.builtin.set_fact": GIVEN}]],
    ids=["set_fact", "cacheable", "both"],
)
def test_set_fact_sets_variables(controller: Controller, tasks: list[dict[str, t.Any]]) -> None:
    assert re.findall("ALLOW|DENY", controller.run({"tasks": [EXPLAIN, *tasks, EXPLAIN]})) == ["ALLOW", "DENY"]


def test_a_value_that_an_earlier_run_cached_is_left_out_as_a_fact(controller: Controller) -> None:
    cache = {**CACHE, "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(controller.folder / "cache")}
    controller.run({"tasks": [CACHED]}, **cache)
    said = controller.run({"tasks": [EXPLAIN]}, **cache)
    assert "ALLOW" in said
    assert "host n1: calico_policies is a fact, no variable, and is left out." in said


def test_extra_variables(controller: Controller) -> None:
    said = controller.run({"tasks": [EXPLAIN], "vars": {"calico_policies": []}}, options=["-e", json.dumps(GIVEN)])
    assert "DENY" in said


def test_a_template_takes_facts_from_ansible_facts(controller: Controller) -> None:
    facts = {"ansible.builtin.setup": {"gather_subset": ["!all", "min"]}}
    controller.hosts("{{ ansible_facts.python.version.major }}.0.0.1/24")
    assert "ALLOW" in controller.run({"tasks": [facts, EXPLAIN]})
    controller.hosts("{{ ansible_default_ipv4.address }}/24")
    assert UNDEFINED in controller.run({"tasks": [facts, EXPLAIN]})


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("{{ '10.0.0.1/24' | no_such_filter }}", "'no_such_filter'"),
        ("{{ 1 // 0 }}", "by zero"),
        ("{{ nowhere }}", "'nowhere' is undefined"),
    ],
    ids=["unknown filter", "failing expression", "undefined variable"],
)
def test_a_template_that_cannot_be_evaluated_is_named(controller: Controller, address: str, words: str) -> None:
    controller.hosts(address)
    said = controller.run({"tasks": [EXPLAIN]})
    assert "calico_node_address of n1 is a template that cannot be evaluated: " in said
    assert words in said
    assert "Traceback" not in said
