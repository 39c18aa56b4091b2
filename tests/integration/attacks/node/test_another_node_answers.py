# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by root on a node, who writes the answers of all modules that Ansible runs there.

Ansible has its default configuration here: facts become variables, which the repository's ansible.cfg switches off.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from tests.integration.ansible_playbook import ROOT
from tests.integration.attacks.forging_fleet import Fleet

ALLOW_ALL = [
    {
        "apiVersion": "projectcalico.org/v3",
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": "opened"},
        "spec": {"order": 1, "types": ["Ingress"], "ingress": [{"action": "Allow"}]},
    }
]
#: {key: forged value} of a module's answer: keys that Ansible obeys, and one that is not documented.
OBEYED = {
    "ansible_facts": {"calico_policies_rack_a": ALLOW_ALL, "seen_as_variable": True},
    "add_host": {"host_name": "n9", "groups": ["calico_nodes"], "host_vars": {}},
    "add_group": "calico_rr",
    "parent_groups": ["all"],
    "ansible_stats": {"data": {"forged_statistics": 1}, "per_host": False, "aggregate": False},
    "_ansible_notify": ["forged"],
    "_ansible_facts_cacheable": True,
    "_ansible_delegated_vars": {"ansible_delegated_host": "n2"},
    "undocumented": "forged",
}
#: {module: arguments of a task}: given these, the module's action calls it and needs no compiled fleet. The modules
#: have several kinds of actions.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "convergence_info": {"state": {}},
    "node": {"state": {}},
    "node_info": {},
    "probe": {"targets": []},
    "remote_endpoints": {"told": {}, "nodes": []},
    "soak": {"state": {}},
    "remote_endpoints_info": {},
}

EXPLAIN = {"baremetal.host_routing.policy_explain": {"from": "w1", "to": "w2", "port": "80/tcp"}, "run_once": True}


#: In `make test` only the tests that need it run without an engine: an answer passes the same border by either start.
@pytest.fixture(params=[pytest.param(False, id="archive", marks=pytest.mark.soak), pytest.param(True, id="engine")])
def fleet(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Fleet:
    return Fleet(tmp_path, engine=request.param)


#: Runs a test without an engine. Ansible's own modules, and tasks with async, never answer through one.
archive_alone = pytest.mark.parametrize("fleet", [False], ids=["archive"], indirect=True)


def seen(*names: str) -> dict[str, t.Any]:
    """Return a task that prints which of these variables are defined."""
    shown = " ".join(f"{name}={{{{ {name} is defined }}}}" for name in names)
    return {"ansible.builtin.debug": {"msg": shown}}


def test_facts_in_a_modules_answer_open_no_policy(fleet: Fleet) -> None:
    """Return from modules ansible_facts with a policy for the whole fleet, and other keys that Ansible acts on.

    Gain: Any policy for the fleet, other hosts in the inventory, any variable.
    Precedent: CVE-2016-9587 (root on a node ran commands on the controller through returned facts).
    Closed: 0.2.0
    Result: Only documented keys and those that report the outcome of the task pass, and policy_explain still answers
    DENY.
    """
    fleet.answers(OBEYED)
    names = sorted(ARGUMENTS)
    asked = [
        {f"baremetal.host_routing.{name}": ARGUMENTS[name], "register": f"answer_{name}", "run_once": True}
        for name in names
    ]
    keys = f"[{', '.join(f'answer_{name}' for name in names)}] | map('list') | sum(start=[]) | unique | sort"
    said = fleet.play(
        *asked,
        {"ansible.builtin.debug": {"msg": f"keys: {{{{ {keys} | join(' ') }}}}."}, "run_once": True},
        seen("seen_as_variable", "calico_policies_rack_a"),
        {"ansible.builtin.debug": {"msg": "hosts: {{ groups['all'] | join(' ') }}."}},
        EXPLAIN,
    )
    warned = "" if fleet.engine else " warnings"  # of Ansible, about keys that it removes itself
    assert f"keys: bgp changed external_sessions failed untried{warned}." in said
    assert said.count("seen_as_variable=False calico_policies_rack_a=False") == 2
    assert "hosts: n1 n2." in said
    assert "DENY" in said
    assert "ALLOW" not in said
    assert "CUSTOM STATS" not in said


def test_facts_in_an_answer_to_an_ad_hoc_task_pass_neither(fleet: Fleet) -> None:
    """Return keys that Ansible acts on to an ad hoc call (`ansible -m`) of a module.

    Gain: Facts that a cache keeps for later runs.
    Precedent: CVE-2016-9587.
    Closed: 0.2.0
    Result: The answer is printed without them.
    """
    fleet.answers({**OBEYED, "routes": []})
    done = fleet.run("ansible", "n1", "-m", "baremetal.host_routing.route_info")
    assert done.stdout.splitlines() == ["n1 | SUCCESS => {", '    "changed": false,', '    "routes": []', "}"]


@archive_alone
@pytest.mark.parametrize("poll", [1, 0])
def test_facts_in_an_answer_that_is_waited_for_open_no_policy(fleet: Fleet, poll: int) -> None:
    """Return keys that Ansible acts on from an async task, whose result Ansible reads from a file on the node.

    With `poll` 1 Ansible itself waits for the result; with 0 a task with async_status reads it.

    Gain: Any policy for the fleet.
    Precedent: CVE-2016-9587.
    Closed: 0.2.0
    Result: The final answer is filtered. Facts that async_status, a module of Ansible, sets from it are not read by the
    compiler.
    """
    fleet.answers({**OBEYED, "routes": []})
    status = {"ansible.builtin.async_status": {"jid": "{{ job.ansible_job_id }}"}, "register": "end"}
    waiting = {**status, "until": "end.finished", "delay": 1, "retries": 20}
    said = fleet.play(
        {"baremetal.host_routing.route_info": {}, "async": 20, "poll": poll, "register": "job"},
        {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} has {{ job | list | sort | join(' ') }}."}},
        *([] if poll else [waiting]),
        seen("seen_as_variable"),
        EXPLAIN,
    )
    passed = "ansible_job_id changed failed finished results_file"
    passed += " routes started stderr stderr_lines stdout stdout_lines warnings" if poll else " started"
    assert f"n1 has {passed}." in said
    assert said.count("seen_as_variable=False") == (2 if poll else 1)
    assert "DENY" in said
    assert "ALLOW" not in said


@archive_alone
def test_facts_that_are_gathered_open_no_policy(fleet: Fleet) -> None:
    """Return a policy for the fleet among the facts that Ansible gathers itself.

    Gain: any policy for the fleet.
    Precedent: CVE-2016-9587.
    Closed: 0.2.0
    Result: the variable is left out, and a warning names it with the host.
    """
    fleet.answers({"ansible_facts": {"calico_policies_rack_a": ALLOW_ALL, "calico_policies": ALLOW_ALL}})
    said = fleet.play(EXPLAIN, gather=True)
    assert "DENY" in said
    assert "ALLOW" not in said
    assert (
        "host n1: calico_policies, calico_policies_rack_a is a fact, no variable, and is left out. Set variables in the"
        " inventory; if no module, local fact or set_fact of yours is behind it, look into who is root on this host."
    ) in said


def test_a_node_does_not_become_another_one(fleet: Fleet) -> None:
    """Take another node's name by the fact inventory_hostname, and hide that by a fact ansible_facts.

    Gain: another node's state, policy and BGP passwords.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: the host is refused and named, and the others go on.
    """
    fleet.answers({"ansible_facts": {"inventory_hostname": "n2", "ansible_facts": {}}})
    said = fleet.play({"baremetal.host_routing.node_info": {}}, gather=True)
    assert (
        "host n1 calls itself n2 by a fact inventory_hostname. Remove the module, the local fact or the cached set_fact"
        " that it comes from and set it in the inventory; if there is none, look into who is root on this host. Facts"
        " that are cached go with --flush-cache."
    ) in said
    assert "ok: [n2]" in said
    assert re.search(r"n1 : ok=1 .* failed=1 .*n2 : ok=2 .* failed=0", said)


@pytest.mark.parametrize("name", ["calico_node_mode", "inventory_dir"])
def test_a_fact_is_no_variable_of_a_role(fleet: Fleet, name: str) -> None:
    """Set the mode of the run, or the folder of its inventory, by a fact with the name of that variable.

    Gain: Another encapsulation for the whole fleet, interrupted sessions, another lockfile.
    Precedent: CWE-915.
    Closed: 0.2.0
    Result: the host is refused and named before a task of the role reads the variable, and the others go on.
    """
    fleet.answers({"ansible_facts": {name: "direct", "ansible_facts": {}}})
    said = fleet.play({"baremetal.host_routing.node_info": {}}, gather=True)
    assert f"host n1 has a fact {name}, which is a variable and no fact. Remove the module" in said
    assert re.search(r"n1 : ok=1 .* failed=1 .*n2 : ok=2 .* failed=0", said)


@archive_alone
def test_a_fact_is_no_option_of_a_playbook(fleet: Fleet) -> None:
    """Make playbooks/explain.yml write its answer to a path on the controller that the node chooses.

    Gain: A file on the controller with the attacker's text.
    Precedent: CWE-73.
    Closed: 0.2.0
    Result: Options of playbooks come only from the command line.
    """
    target = fleet.folder / "written"
    fleet.answers({"ansible_facts": {"answer_file": str(target), "output": "none", "expect": "allow"}})
    flow = {"from": "w1", "to": "w2", "to_port": "80/tcp"}
    explain = {"ansible.builtin.import_playbook": str(ROOT / "playbooks" / "explain.yml"), "vars": flow}
    said = fleet.play(gather=True, more=[explain])
    assert "DENY" in said
    assert "failed=1" not in said
    assert not target.exists()
