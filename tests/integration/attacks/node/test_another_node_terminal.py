# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by root on a node, who writes texts that Ansible prints on the operator's terminal."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import module_answer

from tests.integration.ansible_playbook import ROOT
from tests.integration.attacks import hostile_answers
from tests.integration.attacks.forging_fleet import Fleet
from tests.unit.plugin_utils import controller
from tests.unit.preflight.test_judge import GOOD

SOAK = os.environ.get("HOST_ROUTING_SOAK") == "1"
#: Commands to terminals in 7 and 8 bits, a backspace, a carriage return, a line separator, and marks that change the
#: direction of text.
HOSTILE = "ATTACK\x1b]0;owned\x07\x1b[2J\x9b2J\x08\r\u202eread\u2066\u200f\u2028"
_COMMAND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: {module: arguments}: of modules that need some, and of those whose actions need a fleet unless `state` is given.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "convergence_info": {"state": {}},
    "etcd_member_info": {"url": "https://192.0.2.1:2379"},
    "etcd_operation": {"url": "https://192.0.2.1:2379", "operation": "wait"},
    "interface_sysctl": {"interface": "eth0", "proxy_arp": True},
    "interface_sysctl_info": {"interface": "eth0"},
    "node": {"state": {}},
    "probe": {"targets": []},
    "remote_endpoints": {"told": {}, "nodes": []},
    "route": {"routes": []},
    "soak": {"state": {}},
    "tunnel_device": {"kind": "ipip"},
    "workload": {"name": "web"},
    "workload_endpoint": {"name": "web", "address": "10.244.0.1"},
}
EVENT = {"__ansible_type": "Event", "msg": HOSTILE, "help_text": HOSTILE}
#: Outcomes of a task. Ansible makes objects of its own of warnings and errors with `__ansible_type`.
OUTCOMES: dict[str, dict[str, t.Any]] = {
    "ok": {"failed": False, "unreachable": False, "skipped": False},
    "failed": {"failed": True, "unreachable": False, "skipped": False},
    "unreachable": {"unreachable": True, "failed": False, "skipped": False},
    "typed": {
        "failed": True,
        "unreachable": False,
        "skipped": False,
        "warnings": [{"__ansible_type": "WarningSummary", "event": EVENT}],
        "exception": {"__ansible_type": "ErrorSummary", "event": EVENT},
    },
}


#: An answer passes the same border by either start, with an engine on the node and without one.
@pytest.fixture(params=[pytest.param(False, id="archive", marks=pytest.mark.soak), pytest.param(True, id="engine")])
def fleet(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Fleet:
    return Fleet(tmp_path, engine=request.param)


def _commands(printed: str) -> list[str]:
    """Return an excerpt of `printed`, as its repr, around each character that controls a terminal; [] without any.

    Tabs and line feeds do not count.
    """
    return [repr(printed[max(found.start() - 60, 0) : found.end() + 20]) for found in _COMMAND.finditer(printed)]


@pytest.mark.parametrize("shift", range(len(OUTCOMES)) if SOAK else (0,))
def test_answers_command_no_terminal(fleet: Fleet, shift: int) -> None:
    """Write terminal commands into the answers of all modules, also into the keys that report the outcome.

    Each module has one of OUTCOMES, in turn from the number `shift` on. With HOST_ROUTING_SOAK=1 each gets all of them.

    Gain: Forged or hidden lines on the operator's screen, or a command in the input of a terminal that answers.
    Precedent: CVE-2003-0063 (title of a window as input), CVE-2021-42574, CWE-150.
    Closed: 0.2.0
    Result: Whatever the task's outcome, Ansible prints no control character, and later tasks quote none.
    """
    outcomes = itertools.islice(itertools.cycle(OUTCOMES.values()), shift, None)
    answers = {
        module: {**{key: {HOSTILE: [HOSTILE]} for key in module_answer.OF_ANSIBLE | keys}, **outcome}
        for (module, keys), outcome in zip(module_answer.DOCUMENTED.items(), outcomes)
    }
    for answer in answers.values():
        answer.update({"msg": HOSTILE, "changed": True, "diff": [{"prepared": HOSTILE, "before_header": HOSTILE}]})
        for key in ("warnings", "stdout_lines", "stderr_lines"):
            if not isinstance(answer[key], list):
                answer[key] = [HOSTILE]
        for key in ("stdout", "stderr", "module_stdout", "module_stderr"):
            answer[key] = HOSTILE
        del answer["_ansible_parsed"], answer["deprecations"]
        if "__ansible_type" not in answer["exception"]:
            answer["exception"] = HOSTILE
    fleet.answers({}, **answers)
    path = fleet.folder / "play.yml"
    tasks: list[t.Any] = []
    for module in sorted(answers):
        called = {f"baremetal.host_routing.{module}": ARGUMENTS.get(module, {}), "register": "seen"}
        tasks.append({**called, "ignore_errors": True, "ignore_unreachable": True})
    tasks.append({"ansible.builtin.debug": {"msg": "quoted {{ seen }}"}})
    path.write_text(json.dumps([{"hosts": "n1", "gather_facts": False, "tasks": tasks}]))
    printed = fleet.printed(path, "--diff", "-v")
    assert _commands(printed) == []
    assert printed.count("ATTACK") > len(answers)


@pytest.mark.parametrize("after", ["", '{"changed": false}'])
def test_output_that_is_no_answer_commands_no_terminal(fleet: Fleet, after: str) -> None:
    """Print terminal commands after an answer, or instead of one.

    `after` is the answer, "" for none.

    Gain: Forged or hidden lines on the operator's screen, by the warning that Ansible itself prints.
    Precedent: CWE-150.
    Closed: 0.2.0
    Result: The warning shows the characters as escapes. Of an engine's output, only the answer is printed.
    """
    fleet.answers(f"{after}\nATTACK{HOSTILE}\n")
    path = fleet.folder / "play.yml"
    path.write_text(json.dumps([{"hosts": "n1", "gather_facts": False, "tasks": [
        {"baremetal.host_routing.route_info": {}, "ignore_errors": True},
    ]}]))  # fmt: skip
    printed = fleet.printed(path, "-v")
    assert _commands(printed) == []
    # The controller takes one line of an engine's output, and prints no other one beside an answer.
    assert ("ATTACK" in printed) == (not fleet.engine or not after)


def test_names_of_facts_command_no_terminal(fleet: Fleet) -> None:
    """Give a fact the name of a variable of the fleet, followed by terminal commands.

    Gain: Forged or hidden lines on the operator's screen, by the warning that the fact is left out.
    Precedent: CWE-150.
    Closed: 0.2.0
    Result: The warning shows the characters as escapes.
    """
    fleet.answers({"ansible_facts": {f"calico_policies_{HOSTILE}": [], "ansible_facts": {}}})
    path = fleet.folder / "play.yml"
    explain = {"baremetal.host_routing.policy_explain": {"from": "w1", "to": "w2", "port": "80/tcp"}, "run_once": True}
    path.write_text(json.dumps([{"hosts": "calico_nodes", "gather_facts": True, "tasks": [explain]}]))
    printed = fleet.printed(path)
    assert _commands(printed) == []
    assert "calico_policies_ATTACK" in printed


@pytest.mark.parametrize(
    ("playbook", "options", "expected"),
    [
        ("remove_node", {"node": "n1", "confirm": True, "calico_workloads": []}, "still run there: ATTACK"),
        ("rollback", {"plan": ""}, "ATTACK"),
        ("status", {}, "ATTACK"),
        ("site", {}, "ATTACK"),
    ],
)
def test_playbooks_quote_no_command(fleet: Fleet, playbook: str, options: dict[str, t.Any], expected: str) -> None:
    """Write terminal commands into texts that the playbooks quote in messages of their own.

    Gain: Forged or hidden lines on the operator's screen.
    Precedent: CWE-150.
    Closed: 0.2.0
    Result: The playbooks quote texts in which the characters are escaped.
    """
    generation = {"n": 1, "when": HOSTILE, "who": HOSTILE, "plan": HOSTILE, "phase": "converge"}
    fleet.answers(
        {},
        drain={"workloads": [HOSTILE, f"default/{HOSTILE}"]},
        node_info={**hostile_answers.node_info(None), "generations": [generation], "preflight": _hostile(GOOD, "os")},
        node_status_info={**_hostile(hostile_answers.status("n1"), "problems", "agent", "plan"), "node": "n1"},
        remote_endpoints_info={"failed": True, "msg": HOSTILE},
        node={"failed": True, "msg": HOSTILE},
    )
    fleet.answers({}, "n2", node_info={**hostile_answers.node_info(None), "preflight": GOOD})
    words = [word for name, value in options.items() for word in ("-e", json.dumps({name: value}))]
    printed = fleet.printed(ROOT / "playbooks" / f"{playbook}.yml", "--diff", *words)
    assert _commands(printed) == []
    assert expected in printed, printed


def _hostile(value: t.Any, *keys: str) -> t.Any:
    """Return a copy of `value` with HOSTILE in place of each text and None, and as the entry of each empty list.

    With `keys`, this is done in these entries of the table `value` only.
    """
    if isinstance(value, t.Mapping):
        return {key: _hostile(entry) if not keys or key in keys else entry for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hostile(entry) for entry in value] or [HOSTILE]
    return HOSTILE if isinstance(value, str) or value is None else value


def _texts(value: t.Any) -> t.Iterator[str]:
    """Yield all texts in `value`, including the keys of tables."""
    if isinstance(value, str):
        yield value
    for entry in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(entry)


def _places(value: t.Any, above: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield the path (keys and indexes) of `value` itself, which is `above`, and of each value at any depth in it."""
    yield above
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*above, key))


def _with(value: t.Any, place: tuple[t.Any, ...], text: t.Any) -> t.Any:
    if not place:
        return text
    found = dict(value) if isinstance(value, dict) else list(value)
    found[place[0]] = _with(found[place[0]], place[1:], text)
    return found


def _mutants(answer: t.Any) -> t.Iterator[t.Any]:
    """Yield copies of the answer, each with one value in it replaced by HOSTILE, [HOSTILE] or {HOSTILE: HOSTILE}."""
    plain = json.loads(json.dumps(answer))
    for place in _places(plain):
        if not place:
            continue
        yield _with(plain, place, HOSTILE)
        yield _with(plain, place, [HOSTILE])
        yield _with(plain, place, {HOSTILE: HOSTILE})


def test_no_place_of_an_answer_commands_a_terminal(tmp_path: pathlib.Path) -> None:
    """Write terminal commands into each place of an answer in turn, and run the actions that read it.

    Without HOST_ROUTING_SOAK=1 one of five such answers is tried.

    Gain: Forged or hidden lines on the operator's screen.
    Precedent: CWE-150.
    Closed: 0.2.0
    Result: Neither the printed lines nor the results of the controller's actions contain a control character.
    """
    inventory = tmp_path / "hosts.yml"
    nodes = {f"node{n}": {"calico_node_address": f"10.0.0.{n}/24"} for n in (1, 2)}
    pools = {"calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}]}
    inventory.write_text(yaml.safe_dump({"calico_nodes": {"hosts": nodes, "vars": pools}}))
    honest = {
        "info": {**hostile_answers.node_info(None), "preflight": GOOD},
        "plan": hostile_answers.plan(),
        "status": hostile_answers.status("node1"),
        "probes": hostile_answers.probes(),
        "convergence": hostile_answers.convergence(),
        "endpoints": hostile_answers.remote_endpoints_info(
            "node1", hostile_answers.endpoint("node1", "10.244.0.2", app="web")
        ),
        "exchanged": {"changes": [{"action": "+", "subject": "x"}]},
    }

    def run(action: str, registered: t.Mapping[str, t.Any], **args: t.Any) -> controller.Run:
        hosts = {"node1": {**honest, **registered}, "node2": honest}
        return controller.Run(action, args, str(inventory), hosts)

    (first,) = controller.run([run("fleet", {}, observed="info")])
    path = first["path"]
    asked: dict[str, list[tuple[str, dict[str, t.Any]]]] = {
        "info": [
            ("preflight", {"fleet": path, "observed": "info"}),
            ("generation_choice", {"observed": "info", "plan": ""}),
            ("generation_choice", {"observed": "info", "plan": "7f"}),
            ("generation_choice", {"observed": "info", "plan": "none"}),
            ("fleet", {"observed": "info"}),
        ],
        "plan": [
            ("fleet_report", {"plan": "plan"}),
            ("phase_gate", {"fleet": path, "phase": "retire", "results": "plan"}),
            ("phase_gate", {"fleet": path, "phase": "return", "results": "plan", "failed": ["plan"]}),
        ],
        "convergence": [("fleet_report", {"plan": "plan", "convergence": "convergence"})],
        "probes": [("fleet_report", {"plan": "plan", "convergence": "convergence", "reachability": "probes"})],
        "status": [("fleet_status", {"status": "status"}), ("fleet_status", {"status": "status", "output": "json"})],
        "endpoints": [("endpoint_sync", {"asked": "endpoints"})],
        "exchanged": [("endpoint_sync_report", {"asked": "endpoints", "taken": "exchanged"})],
    }
    every = 1 if SOAK else 5
    runs = []
    for name, actions in asked.items():
        failed = {"failed": True, "msg": HOSTILE}
        for mutant in (failed, {"unreachable": True, "msg": HOSTILE}, *list(_mutants(honest[name]))[::every]):
            runs += [run(action, {name: mutant}, **args) for action, args in actions]
    printed, results = controller.printed(runs)
    assert _commands(printed) == []
    texts = ["\n".join(_texts(result)) for result in results]
    assert [command for text in texts for command in _commands(text)] == []
    assert sum("ATTACK" in text for text in texts) > len(texts) // 20
