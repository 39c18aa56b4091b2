# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters that tasks of a change get from the defaults of their block, and the tasks of each phase."""

from __future__ import annotations

import pytest
import yaml

from tests.conftest import ROOT

TASKS = ROOT / "roles" / "calico_node" / "tasks"
FLEET, OBSERVED = "{{ calico_node_fleet.path }}", "calico_node_observed"
OF_EACH = {
    "node": {
        "fleet": FLEET,
        "observed": OBSERVED,
        "generations_kept": "{{ calico_node_generations_kept }}",
        "confirm_timeout": "{{ calico_node_confirm_timeout }}",
    },
    "probe": {"fleet": FLEET, "observed": OBSERVED, "sample": "{{ calico_node_probe_sample }}"},
    "soak": {
        "fleet": FLEET,
        "observed": OBSERVED,
        "sample": "{{ calico_node_probe_sample }}",
        "timeout": "{{ calico_node_convergence_timeout }}",
    },
    "phase_gate": {"fleet": FLEET},
}
OWN = [
    ("node", {"phase": "prepare", "files": "{{ calico_node_files }}", "units": "{{ calico_node_units }}"}),
    ("node", {"phase": "prepare"}),
    ("phase_gate", {"phase": "prepare", "results": "calico_node_prepare"}),
    ("node", {"phase": "links"}),
    (
        "probe",
        {
            "proof": True,
            "watch": "start",
            "limit": "{{ calico_node_convergence_timeout | int + calico_node_soak_seconds | int }}",
        },
    ),
    ("phase_gate", {"phase": "prove", "results": "calico_node_prove"}),
    ("node", {"phase": "flip"}),
    ("phase_gate", {"phase": "flip", "results": "calico_node_flip"}),
    ("soak", {"seconds": "{{ calico_node_soak_seconds }}"}),
    (
        "phase_gate",
        {"phase": "soak", "results": "calico_node_soak", "max_lost_probes": "{{ calico_node_max_lost_probes }}"},
    ),
    (
        "node",
        {
            "phase": "retire",
            "look": "{{ calico_node_switches_only }}",
            "sample": "{{ calico_node_probe_sample }}",
        },
    ),
    ("phase_gate", {"phase": "retire", "results": "calico_node_retire"}),
]
DIVERT = [
    ("node", {"phase": "divert"}),
    ("phase_gate", {"phase": "divert", "results": "calico_node_divert"}),
]
PREFIX = "baremetal.host_routing."


def load(name):
    return yaml.safe_load((TASKS / name).read_text("utf-8"))


def modules(tasks):
    """Return a list of (module, its own parameters) of each task that is a module of this collection."""
    return [
        (key.removeprefix(PREFIX), parameters)
        for task in tasks
        for key, parameters in task.items()
        if key.startswith(PREFIX)
    ]


def test_the_block_says_what_all_tasks_of_a_module_get():
    block, *_rest = load("change.yml")
    assert {name.removeprefix(PREFIX): given for name, given in block["module_defaults"].items()} == OF_EACH


def test_tasks_say_what_is_their_own():
    block, *_rest = load("change.yml")
    assert modules(block["block"]) == OWN
    assert modules(load("divert.yml")) == DIVERT


@pytest.mark.parametrize("name", ["return.yml", "return_phase.yml"])
def test_the_return_does_not_get_the_parameters_of_the_change(name):
    """The return gets no parameters of the change: its fleet is another one, and it has no observations."""
    block, back = load("change.yml")
    assert "ansible.builtin.include_tasks" in back
    assert "module_defaults" not in back
    assert name not in str(block)
    for parameters in [parameters for module, parameters in modules(load(name)) if module == "node"]:
        assert "observed" not in parameters
        assert parameters["fleet"] != FLEET


def test_no_phase_asks_a_host_twice():
    """Between two gates each host is called once, but for new hosts and the proof, which needs all hosts' links."""
    block, *_rest = load("change.yml")
    calls, found = [], []
    for module, _parameters in modules(block["block"]):
        if module == "phase_gate":
            found.append(calls)
            calls = []
        else:
            calls.append(module)
    assert found == [["node", "node"], ["node", "probe"], ["node"], ["soak"], ["node"]]
