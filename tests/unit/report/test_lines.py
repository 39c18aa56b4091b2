# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output at the end of a run and in each phase of a change."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import phase_lines, report_lines

HOSTS = ["node1", "node2", "node3"]
OK: dict[str, t.Any] = {"changed": True}
DOWN = {"unreachable": True, "msg": "Failed to connect to the host via ssh: timed out\nmore"}
FAILED = {"failed": True, "msg": "device tunl0: busy.\nTraceback"}


def probe(name: str, sent: int, lost: int, reason: str = "") -> dict[str, t.Any]:
    return {"name": name, "address": "10.244.0.1", "sent": sent, "lost": lost, "reason": reason}


@pytest.mark.parametrize(
    ("result", "usable", "reason"),
    [
        (None, False, "unreachable, or failed earlier in this run (its error stands above)"),
        (OK, True, "failed"),
        (DOWN, False, "unreachable: Failed to connect to the host via ssh: timed out"),
        (FAILED, False, "device tunl0: busy."),
        ({"skipped": True}, False, "failed"),
    ],
)
def test_a_result_of_a_host_is_usable_or_has_a_reason(result: t.Any, usable: bool, reason: str) -> None:
    assert outcome.usable(result) is usable
    assert outcome.reason(result) == reason


@pytest.mark.parametrize(
    ("phase", "line"),
    [
        ("prepare", "prepare   3/3  receive paths of both modes in place, packets held at the smaller MTU"),
        ("flip", "flip      3/3  routes replaced"),
        ("retire", "retire    3/3  the old mode is gone"),
    ],
)
def test_a_phase_that_succeeded_is_one_line(phase: str, line: str) -> None:
    assert phase_lines.phase(phase, HOSTS, dict.fromkeys(HOSTS, OK), Targets()) == (line, [])


def test_the_retire_line_names_what_a_node_keeps() -> None:
    kept = "tunl0 10.244.1.0 (2 open connections use it)"
    results = {**dict.fromkeys(HOSTS, OK), "node2": {"changed": True, "kept": [kept]}}
    line, problems = phase_lines.phase("retire", HOSTS, results, Targets())
    assert line == f"retire    3/3  the old mode is gone (node2: {kept})"
    assert problems == []


@pytest.mark.parametrize("phase", ["prepare", "links", "prove", "flip", "soak", "retire"])
def test_the_gate_stays_shut_for_every_host_that_failed_or_is_gone(phase: str) -> None:
    results = {"node1": OK, "node2": DOWN}
    dummy, problems = phase_lines.phase(phase, HOSTS, results, Targets())
    assert problems == [
        "node2: unreachable: Failed to connect to the host via ssh: timed out",
        "node3: unreachable, or failed earlier in this run (its error stands above)",
    ]


def test_proof_names_the_paths_that_do_not_answer() -> None:
    results = {
        "node1": {"targets": [probe("node2", 3, 0), probe("node3", 3, 3, "too large")]},
        "node2": {"targets": [probe("node1", 3, 0), probe("node3", 3, 1)]},
        "node3": {"targets": [probe("node1", 3, 0), probe("node2", 3, 0)]},
    }
    line, problems = phase_lines.phase("prove", HOSTS, results, Targets())
    assert line == "prove     4/6 paths answer over the new routes, full size (probes only, live traffic untouched)"
    assert problems == ["node1 -> node3: too large for the path", "node2 -> node3: 1 of 3 lost"]


def watched(name: str, sent: int, lost: int = 0, gap: float = 0.0, **more: t.Any) -> dict[str, t.Any]:
    target = {**probe(name, sent, lost, "no answer" if lost else ""), "longest_gap": gap, **more}
    return {"targets": [target], "watch": {"running": False, "complete": True, "reason": ""}}


def test_soaking_counts_what_is_lost_since_before_the_flip() -> None:
    results = {host: watched("x", 1604) for host in HOSTS}
    assert phase_lines.phase("soak", HOSTS, results, Targets()) == (
        "soak      0 lost of 4,812 probes over 3 paths since before the flip · longest gap 0.0 ms",
        [],
    )
    results["node2"] = watched("node3", 1604, 6, 300.2)
    results["node3"] = watched("node1", 1604, 1, 50.0)
    line, problems = phase_lines.phase("soak", HOSTS, results, Targets())
    assert line == (
        "soak      7 lost of 4,812 probes over 3 paths since before the flip · longest gap 300.2 ms (node2 -> node3)"
    )
    assert problems == [
        "node2 -> node3: 6 of 1,604 lost, longest gap 300.2 ms",
        "node3 -> node1: 1 of 1,604 lost, longest gap 50.0 ms",
    ]


def test_a_loss_within_the_limit_is_reported_and_is_no_problem() -> None:
    results = {"node1": watched("node2", 100, 2, 100.0), "node2": watched("node1", 100, 1, 50.0)}
    line, problems = phase_lines.phase("soak", HOSTS[:2], results, Targets(), max_lost_probes=3)
    assert line == (
        "soak      3 lost of 200 probes over 2 paths since before the flip · longest gap 100.0 ms (node1 -> node2) · "
        "calico_node_max_lost_probes is 3"
    )
    assert problems == []
    assert len(phase_lines.phase("soak", HOSTS[:2], results, Targets(), max_lost_probes=2)[1]) == 2
    # A host that failed adds no lost probes. A path is proven only if none of its probes was lost.
    results["node2"] = {"failed": True, "msg": "gone"}
    assert phase_lines.phase("soak", HOSTS[:2], results, Targets(), max_lost_probes=3)[1] == ["node2: gone"]
    results["node2"] = watched("node1", 3, 1)
    assert len(phase_lines.phase("prove", HOSTS[:2], results, Targets(), max_lost_probes=9)[1]) == 2


def test_a_path_that_died_at_the_flip_is_a_problem_whatever_the_limit_is() -> None:
    """The watch had answers before the flip, and no probe of full size was answered after it."""
    results = {"node1": watched("node2", 410, 30, 1500.0, dead=True, pool="racks"), "node2": watched("node1", 410)}
    line, problems = phase_lines.phase("soak", HOSTS[:2], results, Targets(), max_lost_probes=300)
    assert line.startswith("soak      30 lost of 820 probes over 2 paths since before the flip")
    assert problems == ["pool racks: node1 -> node2: no answer"]


def test_the_soak_line_names_nodes_whose_flip_was_not_watched() -> None:
    results = {host: watched("x", 100) for host in HOSTS}
    results["node2"]["watch"] = {"running": False, "complete": False, "reason": "the watch was killed"}
    line, problems = phase_lines.phase("soak", HOSTS, results, Targets())
    assert line == (
        "soak      0 lost of 300 probes over 3 paths · longest gap 0.0 ms · "
        "the flip is not all counted on node2 (the watch was killed)"
    )
    assert problems == []
    many = [f"n{n}" for n in range(5)]
    line, dummy = phase_lines.phase("soak", many, {host: {"targets": [probe("x", 1, 0)]} for host in many}, Targets())
    none = "(no watch was running)"
    assert line.endswith(f"the flip is not all counted on n0 {none}, n1 {none}, n2 {none} and 2 more")


def test_paths_down_before_the_flip_are_reported_and_no_problem() -> None:
    results = {"node1": watched("node2", 90, silent=1500.0), "node2": watched("node1", 100)}
    line, problems = phase_lines.phase("soak", HOSTS[:2], results, Targets())
    assert line == (
        "soak      0 lost of 190 probes over 2 paths since before the flip · longest gap 0.0 ms · "
        "1 path answered only since the flip"
    )
    assert problems == []


def test_a_node_without_probe_targets_is_not_reported_as_unwatched() -> None:
    results = {"node1": watched("node2", 100), "node2": {"targets": [], "msg": "has no other node's block to probe."}}
    line, dummy = phase_lines.phase("soak", HOSTS[:2], results, Targets())
    assert line == "soak      0 lost of 100 probes over 1 paths since before the flip · longest gap 0.0 ms"


def test_the_return_text_counts_restored_nodes_and_names_others() -> None:
    text = phase_lines.returned(HOSTS, {"node1": OK, "node2": OK}, ["node1 -> node3: no answer"], Targets())
    assert text.splitlines() == [
        "The change of mode did not go through.",
        "  node1 -> node3: no answer",
        "2 of 3 nodes run as before.",
        "  node3 could not be put back (unreachable, or failed earlier in this run (its error stands above)): it "
        "accepts both modes. Run the playbook again.",
    ]
    many = phase_lines.returned(HOSTS, dict.fromkeys(HOSTS, OK), [f"cause {n}" for n in range(25)], Targets())
    assert many.splitlines()[21:] == ["  ... and 5 more.", "3 of 3 nodes run as before."]


def test_the_return_text_ends_with_the_paths_that_do_not_answer() -> None:
    def text(probes: t.Mapping[str, t.Any], limit: int = 0, back: t.Sequence[str] = HOSTS) -> list[str]:
        done = dict.fromkeys(back, OK)
        lines = phase_lines.returned(HOSTS, done, [], Targets(), probes, limit, {"10.10.1.12": "node2"}).splitlines()
        return lines[2 + len(HOSTS) - len(back) :]

    good = {"node1": {"targets": [probe("node2", 3, 0), probe("node3", 3, 0)]}, "node2": {"targets": []}}
    assert text({}) == [] and text({"node1": {"targets": [], "msg": "has no path"}}) == []
    assert text(good) == ["All 2 paths answer as before."]
    assert text({"node1": {"targets": [probe("node2", 3, 0)]}}) == ["The only path answers as before."]
    refused = {**probe("node2", 3, 3), "reason": "unreachable", "by": "10.10.1.12"}
    dead = {**good, "node3": {"targets": [refused, probe("node1", 3, 1)]}}
    assert text(dead) == [
        "3 of 4 paths answer.",
        "  node3 -> node2: unreachable, says node2 (10.10.1.12)",
        "  node3 -> node1: 1 of 3 lost",
    ]
    assert text(dead, 1)[1:] == ["  node3 -> node2: unreachable, says node2 (10.10.1.12)"]
    assert text({**good, "node3": DOWN}) == [
        "2 of 2 paths answer.",
        "  node3 did not try its paths (unreachable: Failed to connect to the host via ssh: timed out).",
    ]
    # A node that could not be put back has its line: paths to it are no error of their own.
    apart = {"node1": {"targets": [probe("node2", 3, 0), probe("node3", 3, 3)]}, "node3": DOWN}
    assert text(apart, back=HOSTS[:2]) == [
        "1 of 2 paths answer.",
        "  no answer  on 1 path to node3, not in this run or failed in it",
    ]


def test_a_plan_with_nothing_to_change_is_one_line() -> None:
    plans = {host: {"changed": False} for host in HOSTS}
    assert report_lines.plan(HOSTS, plans) == ["fleet  nothing to change on 3 of 3 nodes"]


def test_a_plan_counts_what_it_would_disturb() -> None:
    plans = {
        "node1": {"changed": True, "sessions_reset": 2, "routes_withdrawn": 1},
        "node2": {"changed": False},
        "node3": DOWN,
    }
    assert report_lines.plan(HOSTS, plans) == [
        "! node3: unreachable: Failed to connect to the host via ssh: timed out",
        "fleet  1 of 3 nodes change · 2 BGP sessions reset · 1 routes withdrawn",
    ]


def test_a_plan_of_a_change_has_a_line_for_each_phase() -> None:
    def steps(*counts: int) -> list[dict[str, t.Any]]:
        others = [{"kind": "address", "action": "="}, {"kind": "session", "action": "!"}]
        return [
            {"phase": phase, "changes": [{"kind": "route", "action": "+"}] * count + others}
            for phase, count in zip(("prepare", "links"), counts)
        ]

    plans: dict[str, dict[str, t.Any]] = {
        "node1": {"changed": True, "phases": steps(12, 1)},
        "node2": {"changed": True, "phases": steps(11, 0)},
        "node3": {"changed": True, "phases": steps(12, 1)},
    }
    assert report_lines.plan(HOSTS, plans) == [
        "prepare   11 changes on node2 · 12 changes on node1, node3",
        "links     0 changes on node2 · 1 change on node1, node3",
        "fleet  3 of 3 nodes change · 0 BGP sessions reset · 0 routes withdrawn",
    ]
    many = {f"node{n}": {"changed": True, "phases": steps(3)} for n in range(7)}
    assert report_lines.plan(list(many), many)[0] == "prepare   3 changes on 7 nodes"


def test_the_verdict_of_a_run() -> None:
    sessions = {"sessions": {"established": 2, "expected": 2}}
    convergence = dict.fromkeys(HOSTS, sessions)
    reach = {host: {"targets": [probe("x", 3, 0), probe("y", 3, 0)]} for host in HOSTS}
    assert report_lines.converged(HOSTS, dict.fromkeys(HOSTS, OK), convergence, reach, 41.2).lines == [
        "converged  3/3 nodes · 3/3 sessions Established · 6/6 paths answer · 0 lost of 18 probes · 41 s"
    ]


DIRECT = {"pool": "racks", "reason": "without a tunnel it has no address to probe", "count": 2, "nodes": ["node2"]}


def test_the_verdict_of_a_run_names_what_was_not_tried() -> None:
    convergence = {host: {"sessions": {"established": 2, "expected": 2}} for host in HOSTS}
    reach = {host: {"targets": [probe("x", 3, 0)], "untried": [DIRECT]} for host in HOSTS}
    members = [*HOSTS, "node4"]
    verdict = report_lines.converged(HOSTS, dict.fromkeys(HOSTS, OK), convergence, reach, None, members)
    assert verdict.lines == [
        "not tried  6 paths of pool racks (without a tunnel it has no address to probe) · paths of node4 (not in this "
        "run)",
        "converged  3/3 nodes · 3/3 sessions Established · 3/3 paths answer · 0 lost of 9 probes · 6 paths and 1 node "
        "not tried",
    ]
    settled = {host: {"converged": True, "paths": 2, "sent": 6, "lost": 0, "untried": [DIRECT]} for host in HOSTS}
    assert report_lines.converged(HOSTS, dict.fromkeys(HOSTS, OK), settled, settled, None, HOSTS).lines == [
        "not tried  6 paths of pool racks (without a tunnel it has no address to probe)",
        "converged  3/3 nodes · 6/6 paths answer · 0 lost of 18 probes · 6 paths not tried",
    ]


def test_a_path_without_any_answer_between_nodes_that_took_part_is_no_success() -> None:
    """A path to a node that took no part may stay silent: it is listed."""
    convergence: dict[str, t.Any] = {host: {"sessions": {}} for host in HOSTS}
    reach = {
        "node1": {"targets": [probe("node2", 3, 3, "too large"), probe("node3", 3, 0), probe("node4", 3, 3)]},
        "node2": {"targets": [probe("node1", 3, 0), probe("node3", 3, 3)]},
    }
    verdict = report_lines.converged(HOSTS, dict.fromkeys(HOSTS, OK), convergence, reach, None)
    assert verdict.lines == [
        "! node1 -> node2: too large for the path",
        "! node2 -> node3: no answer",
        "no answer  on 1 path to node4, not in this run or failed in it",
        "incomplete  3/3 nodes · 2/5 paths answer · 9 lost of 15 probes",
    ]
    assert verdict.problem == (
        "2 paths get no answer, see above: packets of workloads may not arrive there. docs/troubleshooting.md says "
        "what each reason means. Correct what is named there, and run again."
    )
    verdict = report_lines.converged(HOSTS, {"node1": OK, "node3": OK}, convergence, reach, None)
    assert verdict.problem == "" and verdict.paths.dead == ()


def test_single_losses_fail_a_run_if_there_are_more_than_the_limit() -> None:
    convergence: dict[str, t.Any] = {host: {"sessions": {}} for host in HOSTS}
    reach = {host: {"targets": [probe(other, 3, 1) for other in HOSTS if other != host]} for host in HOSTS[:2]}

    def verdict(limit: int) -> report_lines.RunVerdict:
        return report_lines.converged(HOSTS, dict.fromkeys(HOSTS, OK), convergence, reach, None, (), limit)

    assert verdict(3).lines == [
        "! node1 -> node2: 1 of 3 lost",
        "! node1 -> node3: 1 of 3 lost",
        "! node2 -> node1: 1 of 3 lost",
        "! node2 -> node3: 1 of 3 lost",
        "incomplete  3/3 nodes · 4/4 paths answer · 4 lost of 12 probes",
    ]
    assert verdict(3).problem.startswith("4 probes were lost, more than calico_node_max_lost_probes (3), see above:")
    assert verdict(4).lines == [
        "converged  3/3 nodes · 4/4 paths answer · 4 lost of 12 probes · calico_node_max_lost_probes is 4"
    ]
    assert verdict(4).problem == ""


def test_the_phases_name_what_was_not_tried() -> None:
    results = {host: {**watched("x", 10), "untried": [DIRECT]} for host in HOSTS}
    assert phase_lines.phase("prove", HOSTS, results, Targets()) == (
        "prove     3/3 paths answer over the new routes, full size (probes only, live traffic untouched) · not tried: "
        "6 paths of pool racks (without a tunnel it has no address to probe)",
        [],
    )
    assert phase_lines.phase("soak", HOSTS, results, Targets())[0].endswith(" ms · 6 paths not tried")


def test_external_sessions_that_are_up_are_counted_as_such() -> None:
    """A session with a router counts as one, and each end of a session between nodes as half, whichever is down."""
    inner = {"sessions": {"established": 1, "expected": 1, "external_established": 0}, "external_sessions": 0}
    down = {"sessions": {"established": 1, "expected": 2, "external_established": 0}, "external_sessions": 1}
    up = {"sessions": {"established": 1, "expected": 2, "external_established": 1}, "external_sessions": 1}
    plans = dict.fromkeys(["a", "b"], OK)
    for external, verdict in ((down, "1/2"), (up, "1/2")):
        lines = report_lines.converged(["a", "b"], plans, {"a": external, "b": inner}, {}, None).lines
        assert lines == [f"converged  2/2 nodes · {verdict} sessions Established"]
    alone = {"sessions": {"established": 2, "expected": 4, "external_established": 0}, "external_sessions": 2}
    lines = report_lines.converged(["a"], {"a": OK}, {"a": alone}, {}, None).lines
    assert lines == ["converged  1/1 nodes · 1/3 sessions Established"]


def test_the_verdict_names_the_host_that_is_down() -> None:
    sessions = {"sessions": {"established": 1, "expected": 2}}
    plans = {"node1": OK, "node2": OK}
    lines = report_lines.converged(HOSTS, plans, {"node1": sessions, "node2": sessions}, {}, None).lines
    assert lines == [
        "! node3: unreachable, or failed earlier in this run (its error stands above)",
        "incomplete  2/3 nodes · 1/2 sessions Established",
    ]


def test_the_confirm_line_counts_nodes_that_answered():
    plans = {"a": {"changed": True, "confirmed": True}, "b": {"changed": True, "confirmed": True}, "c": {}}
    answer = {"sessions": {}}
    lines = report_lines.converged(["a", "b", "c"], plans, dict.fromkeys("abc", answer), {}, None).lines
    assert lines == ["confirm  2/2 nodes answered a new connection", "converged  3/3 nodes"]
    plans["b"] = {"changed": True, "confirmed": False, "failed": True, "msg": "b went back.\nmore"}
    lines = report_lines.converged(["a", "b"], plans, dict.fromkeys("ab", answer), {}, None).lines
    assert lines == ["! b: b went back.", "confirm  1/2 nodes answered a new connection", "incomplete  1/2 nodes"]
    assert report_lines.converged(["c"], {"c": {}}, {"c": answer}, {}, None).lines == ["converged  1/1 nodes"]


def test_the_touched_line_names_changes_by_a_new_node_on_others() -> None:
    """The line `touched` says what a new node changes on other hosts: more sessions, resets, or the kernel's tables."""

    def change(kind: str, action: str = "+", by: str = "node") -> dict[str, t.Any]:
        return {"kind": kind, "action": action, "subject": "x", "by": by}

    client = {"changed": True, "sessions_begun": 1, "changes": [change("bird", "~"), change("file", "~")]}
    others: dict[str, t.Any] = {
        f"node{n}": {"changed": False, "changes": [change("route", by="bird")]} for n in range(9)
    }
    plans = {"node9": {"changed": True, "new": True, "sessions_begun": 2}, "rr1": client, "rr2": client, **others}
    assert report_lines.plan([*plans], plans) == [
        "touched  node9: new · rr1, rr2: 1 more session · 9 nodes: unchanged",
        "fleet  3 of 12 nodes change · 0 BGP sessions reset · 0 routes withdrawn",
    ]
    tunnels = {"changed": True, "changes": [change("fdb"), change("neighbor"), change("ipset", "~"), change("session")]}
    reset = {**client, "sessions_reset": 2}
    assert report_lines.touched({"node9": plans["node9"], "rr1": reset, "node1": tunnels}) == [
        "touched  node9: new · rr1: 1 more session, 2 interrupted · node1: FDB, neighbours, sets"
    ]
    assert report_lines.touched({"node1": tunnels, "node2": {"changed": False}}) == []
    password = {"changed": True, "changes": [{**change("bird", "~"), "subject": "password of 10.10.1.1"}]}
    assert report_lines.touched({"node9": plans["node9"], "node1": password}) == [
        "touched  node9: new · node1: BIRD's configuration"
    ]


def test_a_change_of_sessions_has_its_own_phase_lines() -> None:
    hold, done = Targets(hold=True), dict.fromkeys(HOSTS, OK)
    assert [phase_lines.phase(name, HOSTS, done, hold) for name in ("prepare", "flip", "retire")] == [
        ("prepare   3/3  backup routes in place, sessions as they were", []),
        ("flip      3/3  sessions changed", []),
        ("retire    3/3  backup routes are gone", []),
    ]
    proof = {"node1": {"targets": [probe("node2", 3, 0)]}}
    assert phase_lines.phase("prove", ["node1"], proof, hold)[0] == (
        "prove     1/1 paths answer over the new routes, full size (probes only, live traffic untouched)"
    )
    results = {"node1": OK, "node2": {"changed": False, "skipped": True}, "node3": DOWN}
    assert phase_lines.returned(HOSTS, results, ["node1: no"], hold).splitlines() == [
        "The change of sessions did not go through.",
        "  node1: no",
        "1 of 3 nodes run as before.",
        "  node2 keeps backup routes: not all is there by BGP again. Run the playbook again.",
        "  node3 could not be put back (unreachable: Failed to connect to the host via ssh: timed out): backup routes "
        "hold its traffic. Run the playbook again.",
    ]


def test_a_change_of_addresses_has_its_own_phase_lines() -> None:
    """Without BGP no backup routes are needed; with it the phases are those of a change of sessions."""
    done, proof = dict.fromkeys(HOSTS, OK), {"node1": {"targets": [probe("node2", 3, 0)]}}
    alone, hold = Targets(moved=True), Targets(moved=True, hold=True)
    assert [phase_lines.phase(name, HOSTS, done, alone)[0] for name in ("prepare", "flip", "retire")] == [
        "prepare   3/3  receive paths of earlier and new addresses in place, packets held at the smaller MTU",
        "flip      3/3  routes replaced",
        "retire    3/3  the earlier modes and addresses are gone",
    ]
    assert [phase_lines.phase(name, HOSTS, done, hold)[0] for name in ("prepare", "flip", "retire")] == [
        "prepare   3/3  backup routes in place, sessions as they were",
        "flip      3/3  sessions changed to the new addresses",
        "retire    3/3  backup routes are gone",
    ]
    for targets in (alone, hold):
        assert phase_lines.phase("prove", ["node1"], proof, targets)[0] == (
            "prove     1/1 paths answer over the new routes, full size (probes only, live traffic untouched)"
        )
    assert phase_lines.returned(HOSTS, {**done, "node3": DOWN}, [], alone).splitlines() == [
        "The change of addresses did not go through.",
        "2 of 3 nodes run as before.",
        "  node3 could not be put back (unreachable: Failed to connect to the host via ssh: timed out): it accepts "
        "earlier and new addresses. Run the playbook again.",
    ]


def test_new_files_are_listed_once_with_the_hosts_that_get_them() -> None:
    """Files that differ on many hosts are one line, and so are files with secrets, which have no digest."""

    def answer(*files: tuple[str, int, str]) -> dict[str, t.Any]:
        changes = [
            {"kind": "file", "action": "+", "by": "node", "subject": path, "size": size, "digest": digest}
            for path, size, digest in files
        ]
        other = {"kind": "file", "action": "~", "by": "node", "subject": "/etc/changed"}
        return {"changed": True, "changes": [*changes, other]}

    plans = {
        f"node{number}": answer(
            ("/etc/same", 31, "aa"), ("/etc/own", 100 + number, f"o{number}"), ("/etc/secret", 9, ""),
            ("/etc/two", 5 + number % 2, f"t{number % 2}"),
        )
        for number in range(1, 8)
    }  # fmt: skip
    assert report_lines.new_files(plans) == [
        "new files  (-e files=true shows their contents)",
        "  /etc/own     101 to 107 bytes  7 nodes, each its own",
        "  /etc/same    31 bytes  7 nodes",
        "  /etc/secret  9 to 9 bytes  7 nodes, each its own",
        "  /etc/two     6 bytes  node1, node3, node5, node7 · 5 bytes  node2, node4, node6",
    ]
    assert report_lines.new_files({"node1": {"changed": True, "changes": []}}) == []
