# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node: answers of many kinds, changed at random places."""

from __future__ import annotations

import collections
import ipaddress
import os
import pathlib
import random
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import endpoint_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import (
    node_info,
    observed_nodes,
    outcome,
    results,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.decision import (
    Approval,
    cannot_take_part,
    other_routing,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import ImpactLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import (
    phase_lines,
    report_lines,
    status_lines,
    sync_lines,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import sentences
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import read_updates
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source, lockfile_store

from tests.integration.attacks import hostile_answers as answers
from tests.unit.fleet import fleets

COUNT = 10_000 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 1_000
#: The numbers of answers that the tests try: on workloads, on a node (compiled, which takes the longest), and reports.
EXCHANGES, COMPILED, REPORTED = COUNT * 4 // 10, COUNT * 2 // 10, COUNT * 4 // 10
SEED = 14

HOSTS = ["node1", "node2", "node3"]
NODES = {name: fleets.LAB[name] for name in HOSTS}
BLOCKS = {f"node{n}": (f"10.244.{n}.0/26", f"10.244.{n}.64/26") for n in (1, 2, 3)}
LIAR = "node3"
POOL = fleets.pool("ipip")
WORKLOADS = [fleets.workload("w1", "node1"), fleets.workload("w3", "node3")]


def taken(part: t.Mapping[str, t.Any]) -> list[t.Any]:
    told, dummy = read_updates(part["told"])
    return [one for entry in told.values() for one in entry.endpoints or ()]


def test_hostile_answers_about_workloads() -> None:
    """Change a node's answer about its workloads at random places.

    Gain: Addresses of others in the rules of other nodes, or a line in another program's input.
    Precedent: CWE-20, CWE-93.
    Closed: 0.2.0
    Result: Only single addresses in the node's own blocks pass, and the answers of other nodes are passed on.
    """
    chance = random.Random(SEED)
    honest = {
        host: answers.remote_endpoints_info(host, answers.endpoint(host, f"10.244.{host[-1]}.2", app="web"))
        for host in HOSTS
    }
    for number in range(EXCHANGES):
        said = {**honest, LIAR: answers.tampered(honest[LIAR], chance)}
        asked = {host: dict(answer) for host, answer in said.items()}
        tellers = {}
        left_out: list[t.Any] = []
        for host, answer in asked.items():
            if sync_lines.answered(host, answer):
                tellers[host], odd = endpoint_sync.teller(host, answer, BLOCKS[host])
                left_out += odd
        assert {"node1", "node2"} <= tellers.keys(), number
        assert {one.node for one in left_out} <= {LIAR}, number
        assert all(line.startswith(f"{LIAR}: ") and line.isprintable() for line in sentences(left_out)), number
        parts = endpoint_sync.parts(tellers, HOSTS, "2026-11-22T07:00:00Z")
        for host in ("node1", "node2"):
            other = "node2" if host == "node1" else "node1"
            found = taken(parts[host])
            assert [one.node for one in found if one.node != LIAR] == [other], number
            for one in found:
                inside = [ipaddress.ip_network(cidr) for cidr in BLOCKS[one.node]]
                for text in one.addresses:
                    address = ipaddress.ip_address(text)
                    assert str(address) == text and any(address in block for block in inside), (number, text)
                texts = [one.name, one.interface, one.namespace, *one.profiles, *(port.name for port in one.ports)]
                texts += [text for label in one.labels for text in label]
                assert all(re.fullmatch(r"[A-Za-z0-9_./-]*", text) for text in texts), (number, texts)
        lines = sync_lines.lines(HOSTS, asked, {}, False)
        assert len(lines) <= 4, number


class Fleet:
    """A fleet of three nodes with a lockfile, and the answers of its nodes."""

    def __init__(self, folder: pathlib.Path) -> None:
        hosts = fleets.hosts(POOL, nodes=NODES, workloads=WORKLOADS)
        self.task_vars = {
            "groups": {"calico_nodes": HOSTS},
            "hostvars": {host.name: host.variables for host in hosts},
            "inventory_dir": str(folder),
            "ansible_play_hosts_all": HOSTS,
        }
        self.lockfile = folder / ".calico.lock.yml"
        first = fleet_source.planned(self.task_vars, observed_nodes.ObservedNodes(dict.fromkeys(HOSTS)))
        lockfile_store.write(first.lockfile, first.fleet.allocation)
        self.states = {host: first.targets.state(host) for host in HOSTS}
        self.answers = {
            host: answers.node_info(state, _in(state, 9), opened=[state.ipam.spare_blocks[0].cidr])
            for host, state in self.states.items()
        }
        self.honest = self.compile(self.answers)

    def compile(self, said: t.Mapping[str, t.Any]) -> FleetRun:
        """Return what a run compiles from these answers; nothing is written. Raise FleetError if it cannot be compiled.

        `said` has the answers of the module node_info by node; a node without one is down.
        """
        return fleet_source.planned(self.task_vars, observed_nodes.read(said))


#: The role's default limits, but no session between nodes may be reset either (the default sets no limit).
LIMITS = ImpactLimits(session_resets=0, external_resets=0, routes_withdrawn=10)


def left_out(compiled: FleetRun, read: observed_nodes.ObservedNodes) -> set[str]:
    """Return the nodes that the action fleet refuses after compiling once, because of what they alone say.

    `read` are the nodes' answers. Raise FleetError if the action stops
    the run. Raise AssertionError if an error's text is not printable or has 1,500 characters or more.
    """
    alone = other_routing(compiled, read) or cannot_take_part(compiled, read)
    if not alone and LIMITS.exceeded(compiled.impact):
        alone = Approval(LIMITS).too_far(compiled, compiled.impact, "0" * 12, read)
        if not alone:
            raise FleetError("plan", None, "; ".join(LIMITS.exceeded(compiled.impact)), "")
    assert all(str(error).isprintable() and len(str(error)) < 1_500 for error in alone.values())
    return set(alone)


def _in(state: t.Any, offset: int) -> str:
    return str(ipaddress.ip_network(state.ipam.blocks[0].cidr)[offset])


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> Fleet:
    return Fleet(tmp_path)


def test_hostile_answers_about_a_node(fleet: Fleet) -> None:
    """Change a node's answer about its state, its blocks or its journal at random places.

    Gain: Blocks or addresses of others, or no plan for any node.
    Precedent: CWE-20, CWE-345.
    Closed: 0.2.0
    Result: The plan of the other nodes is the same as with honest answers, and nothing is written. Only the attacker is
    left out if it asks for a change of all nodes, also while another node is down.
    """
    chance = random.Random(SEED)
    before = fleet.lockfile.read_text()
    expected = {host: fleet.honest.fleet.allocation.nodes[host] for host in ("node1", "node2")}
    others = [grant.cidr for part in expected.values() for grant in (*part.blocks, *part.spare_blocks)]
    honest_modes = fleet.honest.modes, fleet.honest.targets.encapsulations
    counts: collections.Counter[bool] = collections.Counter()
    for number in range(COMPILED):
        answer = answers.tampered(fleet.answers[LIAR], chance)
        if number % 2:
            answer = answers.lying(fleet.answers[LIAR], others, "default", chance)
        compiled = fleet.compile({**fleet.answers, LIAR: answer})
        found = compiled.fleet.allocation.nodes
        assert {host: found[host] for host in expected} == expected, number
        assert set(compiled.targets.refused) <= {LIAR}, number
        for host in ("node1", "node2"):
            compiled.targets.phase(host, fleet.states[host], Phase.CONVERGE)
        mine = found[LIAR]
        assert set(others).isdisjoint(grant.cidr for grant in (*mine.blocks, *mine.spare_blocks)), number
        assert all(line.isprintable() for line in compiled.notices), number
        assert (compiled.modes, compiled.targets.encapsulations) == honest_modes, number
        assert compiled.fleet.allocation.encapsulations == {"default": "IPIP"}, number
        assert not compiled.fleet_change and set(compiled.interrupted) <= {LIAR}, number
        assert compiled.change is bool(compiled.interrupted), number
        out = left_out(compiled, observed_nodes.read({**fleet.answers, LIAR: answer}))
        assert out <= {LIAR}, number
        counts[bool(out)] += 1
        if number % 4 < 2:
            down = {"node1": fleet.answers["node1"], LIAR: answer}
            compiled = fleet.compile(down)
            assert left_out(compiled, observed_nodes.read(down)) <= {LIAR}, number
    assert min(counts.values()) > COMPILED // 20, counts
    assert fleet.lockfile.read_text() == before


def test_hostile_generations() -> None:
    """Change a node's list of generations at random places.

    Gain: an error on the controller that ends the run for all.
    Precedent: CWE-755.
    Closed: 0.2.0
    Result: The generations have the documented types, or are refused with a message.
    """
    chance = random.Random(SEED)
    honest = answers.node_info(None)
    for number in range(REPORTED):
        try:
            found = node_info.generations(answers.tampered(honest, chance))
        except Unreadable as error:
            assert str(error).isprintable(), number
            continue
        assert all(type(entry["n"]) is int and type(entry["plan"]) is str for entry in found), number


def _read(said: t.Mapping[str, t.Any], reader: t.Any) -> dict[str, t.Any]:
    hostvars = {host: {"seen": answer} for host, answer in said.items()}
    return dict(run_results.of_hosts({"hostvars": hostvars}, "seen", HOSTS, reader))


def test_hostile_reports() -> None:
    """Change a node's report on a change, on probes and on its state at random places.

    Gain: An error on the controller, or forged lines about other nodes in the report.
    Precedent: CWE-20, CWE-755.
    Closed: 0.2.0
    Result: No report ends with a traceback. The answers of others are used, and their lines of the status are the same.
    """
    chance = random.Random(SEED)
    targets = Targets()
    for number in range(REPORTED):
        kind = number % 5
        if kind == 0:
            said = {**dict.fromkeys(HOSTS, answers.plan()), LIAR: answers.tampered(answers.plan(), chance)}
            read = _read(said, results.PLAN)
            report_lines.plan(HOSTS, read)
            phase_lines.phase(Phase.RETIRE, HOSTS, _read(said, results.any_phase), targets)
        elif kind == 1:
            said = {
                **dict.fromkeys(HOSTS, answers.convergence()),
                LIAR: answers.tampered(answers.convergence(), chance),
            }
            read = _read(said, results.CONVERGENCE)
            report_lines.converged(HOSTS, {host: {"changed": True} for host in HOSTS}, read, {}, 1.0)
            phase_lines.phase(Phase.FLIP, HOSTS, _read(said, results.any_phase), targets)
        elif kind == 2:
            said = {**dict.fromkeys(HOSTS, answers.probes()), LIAR: answers.tampered(answers.probes(), chance)}
            read = _read(said, results.PROBES)
            good = {host: {"changed": True} for host in HOSTS}
            verdict = report_lines.converged(HOSTS, good, good, read, 1.0)
            assert len(verdict.lines) < 40 and not [path for path in verdict.paths.dead if path.host != LIAR], number
            for phase in ("prove", "soak"):
                phase_lines.phase(phase, HOSTS, _read(said, results.any_phase), targets)
        elif kind == 3:
            said = {**dict.fromkeys(HOSTS, answers.settled()), LIAR: answers.tampered(answers.settled(), chance)}
            read = _read(said, results.PLAN)
            found = {host: read[host]["settled"] for host in HOSTS if read[host].get("settled")}
            assert {"node1", "node2"} <= found.keys(), number
            report_lines.converged(HOSTS, read, found, found, 1.0)
        else:
            said = {host: answers.status(host) for host in HOSTS}
            honest = status_lines.text(HOSTS, _read(said, results.status))
            said[LIAR] = answers.tampered(said[LIAR], chance)
            read = _read(said, results.status)
            lines = status_lines.text(HOSTS, read)
            assert [line.split() for line in lines[1:3]] == [line.split() for line in honest[1:3]], number
        assert all(outcome.usable(read[host]) for host in ("node1", "node2")), number
        if not outcome.usable(read[LIAR]):
            assert outcome.reason(read[LIAR]), number


def test_a_refusal_is_one_sentence(fleet: Fleet) -> None:
    """Put line breaks and control characters into texts that the controller prints in an error.

    Gain: forged lines on the operator's terminal.
    Precedent: CWE-117, CWE-150.
    Closed: 0.2.0
    Result: The error is one line of less than 600 printable characters.
    """
    chance = random.Random(SEED)
    for number in range(REPORTED // 10):
        answer = answers.tampered(fleet.answers[LIAR], chance)
        try:
            observed_nodes.state(LIAR, answer)
        except FleetError as error:
            assert str(error).isprintable() and len(str(error)) < 600, number
