# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of the action fleet: a renamed host, and the same refusal in check mode and in the run."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store

from tests.unit.fleet.fleets import LAB, build, pool, states
from tests.unit.plugin_utils import controller

Answers = dict[str, dict[str, t.Any]]
LIMITS = ("session_resets", "routes_withdrawn", "hosts_changed")
REFUSALS = ("needs approval", "cannot take part")


def folder_with(path: pathlib.Path, names: t.Mapping[str, str], mode: str = "ipip") -> str:
    """Make the folder `path` with an inventory of nodes {name: address} and the lockfile of LAB; return the hosts file.

    The pool's mode is `mode` in the inventory and ipip in the lockfile.
    """
    path.mkdir()
    nodes = {"hosts": {name: {"calico_node_address": address} for name, address in names.items()}}
    hosts = path / "hosts.yml"
    hosts.write_text(json.dumps({"calico_nodes": {**nodes, "vars": {"calico_ip_pools": [pool(mode)]}}}))
    plan = dataclasses.replace(build(pool("ipip"), workloads=[]).allocation, encapsulations={"default": "IPIP"})
    lockfile_store.write(str(path / ".calico.lock.yml"), plan)
    return str(hosts)


@pytest.fixture(scope="module")
def running() -> dict[str, NodeState]:
    """The states of LAB as it runs: one pool in mode ipip."""
    return states(build(pool("ipip"), workloads=[]))


def answers(found: t.Mapping[str, t.Optional[NodeState]]) -> Answers:
    return {name: {"seen": {"state": state.to_dict() if state else None}} for name, state in found.items()}


def test_a_renamed_host_stops_the_run(tmp_path: pathlib.Path, running: dict[str, NodeState]) -> None:
    """The run and check mode stop, and the lockfile stays, if a host is a node of the lockfile under a new name."""
    others = {name: address for name, address in LAB.items() if name != "node2"}
    hosts = folder_with(tmp_path / "one", {**others, "web2": LAB["node2"]})
    names = {"node1": "node1", "a": "node2", "b": "node3", "c": "node4"}
    two = folder_with(tmp_path / "two", {name: LAB[node] for name, node in names.items()})
    lockfile = tmp_path / "one" / ".calico.lock.yml"
    before = lockfile.read_text()
    seen = answers({**{name: running[name] for name in others}, "web2": running["node2"]})
    seen_two = answers({name: running[node] for name, node in names.items()})
    run, checked, many = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, hosts, seen),
            controller.Run("fleet", {"observed": "seen"}, hosts, seen, check_mode=True),
            controller.Run("fleet", {"observed": "seen"}, two, seen_two),
        ]
    )
    text = (
        "host web2 was renamed: it has the state of node2, which the lockfile has and the inventory has not, and this "
        "run would remove node2 from the fleet. Call it node2 in the inventory again. To give it another name, remove "
        "node2 with playbooks/remove_node.yml first. If it is not node2, run without it: --limit 'all:!web2'. Nothing "
        "was changed."
    )
    assert (run["failed"], run["msg"]) == (True, text)
    assert (checked["failed"], checked["msg"]) == (True, text)
    assert "would remove node2 from the fleet. Renamed, too: b and c. Call it node2" in many["msg"]
    assert lockfile.read_text() == before


def test_a_host_that_only_claims_to_be_renamed_stops_no_run(
    tmp_path: pathlib.Path, running: dict[str, NodeState]
) -> None:
    """Only the lying host is refused if the lockfile has it by its own name, or lacks the node that it claims to be.

    The same holds for the name of a node that stays.
    """
    three = {name: address for name, address in LAB.items() if name != "node4"}
    gone = folder_with(tmp_path / "gone", three)
    unknown = folder_with(tmp_path / "unknown", {**LAB, "node9": "10.10.2.19/24"})
    stays = folder_with(tmp_path / "stays", {**LAB, "node9": "10.10.2.19/24"})
    lying = {"node1": running["node1"], "node2": running["node2"], "node3": running["node4"]}
    stranger = dataclasses.replace(running["node4"], node="stranger")
    results = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, gone, answers(lying)),
            controller.Run("fleet", {"observed": "seen"}, unknown, answers({**running, "node9": stranger})),
            controller.Run("fleet", {"observed": "seen"}, stays, answers({**running, "node9": running["node4"]})),
        ]
    )
    for result, host, node in zip(results, ("node3", "node9", "node9"), ("node4", "stranger", "node4")):
        assert not result.get("failed"), result["msg"]
        refusal = f"stored state of {host} is that of another node, {node}"
        assert [text for text in result["warnings"] if refusal in text]


# --- the same refusal in check mode and in the run ------------------------------------------------------------------


def variants() -> dict[str, dict[str, NodeState]]:
    """Return the states of LAB by what differs from the inventory of mode ipip."""
    made = {
        "same": build(pool("ipip"), workloads=[]),
        "as": build(pool("ipip"), workloads=[], bgp_as_number=64999),
        "mode": build(pool("vxlan"), workloads=[]),
        "mtu": build(pool("ipip"), workloads=[], underlay_mtu=1400),
    }
    found = {name: states(fleet) for name, fleet in made.items()}
    found["no bgp"] = {name: dataclasses.replace(state, bird=None) for name, state in found["same"].items()}
    return found


def test_check_mode_and_the_run_give_the_same_refusal(tmp_path: pathlib.Path) -> None:
    """For random fleets and answers, what refuses the run or a node is in check mode what it is in the run."""
    chance = random.Random(32)
    known = variants()
    cases = []
    runs = []
    for number in range(60):
        most = chance.choice(["same", "same", "as", "mode", "mtu"])
        found: dict[str, t.Optional[NodeState]] = {}
        for name in LAB:
            kind = chance.choice([most] * 6 + [*known, "absent", "fresh", "foreign"])
            if kind == "foreign":
                found[name] = known["same"][chance.choice([other for other in LAB if other != name])]
            elif kind != "absent":
                found[name] = None if kind == "fresh" else known[kind][name]
        if not found:
            continue
        limits = {name: chance.choice([-1, 0, 0, 1, 3]) for name in LIMITS}
        mode = chance.choice(["ipip", "ipip", "ipip", "vxlan"])
        cases.append((number, most, sorted(found), limits, mode))
        for check in (False, True):
            hosts = folder_with(tmp_path / f"{number}-{check}", LAB, mode)
            runs.append(controller.Run("fleet", {"observed": "seen", "limits": limits}, hosts, answers(found), check))
    results = controller.run(runs)
    kinds: collections.Counter[str] = collections.Counter()
    for case, run, checked in zip(cases, results[::2], results[1::2]):
        assert "exception" not in run and "exception" not in checked, (case, run, checked)
        of_run, of_check = _refusals(run, case[0]), _refusals(checked, case[0])
        if run.get("failed"):
            lacking = {text for text in of_check if "needs approval" in text}
            assert of_run <= of_check and lacking <= of_run, case
        else:
            assert not checked.get("failed") and of_run == of_check, case
        kinds[next((kind for kind in REFUSALS if kind in run.get("msg", "")), "other")] += 1
    assert all(kinds[kind] > 3 for kind in (*REFUSALS, "other")), kinds


def _refusals(result: t.Mapping[str, t.Any], number: int) -> set[str]:
    """Return the texts that refuse the whole run or a host; the two folders of a case have the same name in them."""
    texts = [result["msg"]] if result.get("failed") else result["warnings"]
    words = (*REFUSALS, "stored state of", "differs from how")
    found = {text.replace(f"/{number}-True/", "/").replace(f"/{number}-False/", "/") for text in texts}
    return {text for text in found if result.get("failed") or any(word in text for word in words)}
