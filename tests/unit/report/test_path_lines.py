# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole texts about paths that lose packets, from one path to those of a thousand nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import verdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import path_lines
from hypothesis import given
from hypothesis import strategies as st

NAMES = {"10.10.1.12": "node2"}
Targets = dict[str, list[dict[str, t.Any]]]


def fleet(
    count: int, pools: t.Sequence[str], dead: t.Callable[[int, int, str], bool], **more: t.Any
) -> verdict.PathVerdict:
    """Return the verdict on the full mesh of so many nodes, n1 and so on, whose `dead` paths answer nothing."""
    answers = {
        f"n{one}": {
            "targets": [
                {
                    "name": f"n{other}",
                    "pool": pool,
                    "address": f"10.{pools.index(pool)}.{other}.1",
                    "sent": 3,
                    "lost": 3 if dead(one, other, pool) else 0,
                    **more,
                }
                for pool in pools
                for other in range(1, count + 1)
                if other != one
            ]
        }
        for one in range(1, count + 1)
    }
    return verdict.of_run(answers, list(answers))


def lost(host: str, other: str, pool: str, **more: t.Any) -> tuple[str, dict[str, t.Any]]:
    return host, {"name": other, "pool": pool, "address": f"{other} {pool}", "sent": 3, "lost": 3, **more}


def judged(*targets: tuple[str, dict[str, t.Any]], limit: int = 0) -> verdict.PathVerdict:
    answers: dict[str, dict[str, t.Any]] = {f"node{number}": {"targets": []} for number in (1, 2, 3)}
    for host, one in targets:
        answers[host]["targets"].append(one)
    return verdict.of_run(answers, list(answers), limit)


def test_each_of_few_dead_paths_has_its_pool_pair_reason_and_direction() -> None:
    found = judged(
        lost("node1", "node2", "racks", reason="too large", by="10.10.1.12"),
        lost("node1", "node3", "racks", reason="unreachable", by="192.0.2.1"),
        lost("node2", "node1", "racks", reason="no answer", source="x"),
        lost("node3", "node1", "racks", reason="refused", by="fd00::1"),
        lost("node2", "node3", "", reason="no route"),
        (
            "node1",
            {"name": "node2", "pool": "p", "address": "x", "source": "node1 racks", "sent": 3, "lost": 0, "heard": 3},
        ),
    )
    assert path_lines.problems(found, NAMES) == [
        "node2 -> node3: no route",
        "pool racks: node1 -> node2: too large for the path, says node2 (10.10.1.12)",
        "pool racks: node1 -> node3: unreachable, says 192.0.2.1",
        "pool racks: node2 -> node1: no answer (lost on the way back)",
        "pool racks: node3 -> node1: refused, says fd00::1",
    ]


def test_what_is_alike_in_several_pools_is_one_sentence() -> None:
    found = judged(*(lost("node1", "node2", pool) for pool in ("a", "b", "c")), lost("node1", "node3", "b"))
    assert path_lines.problems(found, NAMES) == [
        "pools a, b, c: node1 -> node2: no answer",
        "pool b: node1 -> node3: no answer",
    ]


def test_the_paths_of_a_node_are_named_together() -> None:
    to_one = fleet(12, ["a"], lambda one, other, pool: other == 3)
    assert path_lines.problems(to_one, NAMES) == ["pool a: all 11 paths to n3: no answer"]
    from_one = fleet(12, ["a"], lambda one, other, pool: one == 3, reason="refused", by="10.10.1.12")
    assert path_lines.problems(from_one, NAMES) == ["pool a: all 11 paths from n3: refused, says node2 (10.10.1.12)"]
    both = fleet(12, ["a", "b"], lambda one, other, pool: 3 in (one, other) and 4 not in (one, other))
    assert path_lines.problems(both, NAMES) == ["pools a, b: 20 of 22 paths from and to n3: no answer"]
    all_of_them = fleet(5, ["a", "b"], lambda one, other, pool: pool == "b")
    assert path_lines.problems(all_of_them, NAMES) == ["pool b: none of 20 paths answers: no answer"]
    some = fleet(30, ["a"], lambda one, other, pool: other == one + 2 and one % 4 == 1)
    assert sorted(path_lines.problems(some, NAMES)) == sorted(
        f"pool a: n{one} -> n{one + 2}: no answer" for one in range(1, 28, 4)
    )
    many = fleet(80, ["a"], lambda one, other, pool: other == one + 2 and one % 4 == 1)
    assert path_lines.problems(many, NAMES) == [
        "pool a: 20 of 6,320 paths, between 40 nodes (n1, n11, n13 and 37 more): no answer"
    ]


def test_reasons_of_paths_that_are_named_together_are_counted() -> None:
    reasons = ("no answer", "no answer", "no answer", "refused", "refused", "no route", "unreachable", "loop", "loop")
    answers: dict[str, t.Any] = {f"n{one}": {"targets": []} for one in range(13)}
    for one in range(1, 13):
        path = {"name": "n0", "address": "10.0.0.1", "pool": "a", "sent": 3, "lost": 3}
        answers[f"n{one}"]["targets"].append({**path, "reason": reasons[one % len(reasons)]})
        answers["n0"]["targets"].append({**path, "name": f"n{one}", "lost": 0})
    assert path_lines.problems(verdict.of_run(answers, list(answers)), {}) == [
        "pool a: all 12 paths to n0: 5 no answer; 3 refused; 4 for other reasons"
    ]
    two = {name: answer for name, answer in answers.items() if name in ("n0", "n9", "n3", "n4")}
    two = {name: {"targets": [{**one, "name": "n0"} for one in answer["targets"]] * 1} for name, answer in two.items()}
    assert path_lines.problems(verdict.of_run(two, list(two)), {}) == [
        "pool a: n3 -> n0: refused",
        "pool a: n4 -> n0: refused",
        "pool a: n9 -> n0: no answer",
    ]


def test_a_broken_rack_among_many_racks_is_one_sentence() -> None:
    """A tenth of 200 nodes reach each other and nothing else, in 6 pools: 43,200 dead paths."""
    found = fleet(200, [f"p{n}" for n in range(6)], lambda one, other, pool: (one <= 20) != (other <= 20))
    assert len(found.dead) == 43_200
    assert path_lines.problems(found, {}) == [
        "6 pools (p0, p1, p2 and 3 more): 7,200 of 7,580 paths from and to 20 nodes (n1, n10, n11 and 17 more): "
        "no answer"
    ]
    other = fleet(60, [f"p{n}" for n in range(30)], lambda one, other, pool: int(pool[1:]) + 2 in (one, other))
    lines = path_lines.problems(other, {})
    assert len(lines) == 21 and lines[0] == "pool p0: all 118 paths from and to n2: no answer"
    assert lines[-1] == "... and 1,180 more paths without an answer."


def test_paths_with_single_losses_are_named_if_they_are_too_many() -> None:
    one = lost("node1", "node2", "a", sent=100, longest_gap=50.0)[1]
    targets = [("node1", {**one, "lost": 2, "address": f"10.0.0.{n}", "longest_gap": 10.0 * n}) for n in range(12)]
    assert path_lines.problems(judged(*targets, limit=24), {}) == []
    found = path_lines.problems(judged(*targets, ("node2", {**one, "name": "node1", "lost": 9}), limit=24), {})
    assert len(found) == 11
    assert found[0] == "pool a: node2 -> node1: 9 of 100 lost, longest gap 50.0 ms"
    assert found[9:] == [
        "pool a: node1 -> node2: 2 of 100 lost, longest gap 30.0 ms",
        "... and 3 more paths with losses.",
    ]
    loud = judged(("node1", {**one, "lost": 1, "reason": "refused", "by": "10.10.1.12", "longest_gap": 0.0}))
    assert path_lines.problems(loud, NAMES) == [
        "pool a: node1 -> node2: 1 of 100 lost (refused, says node2 (10.10.1.12))"
    ]
    dead_too = judged(("node1", {**one, "lost": 100}), ("node2", {**one, "name": "node1", "lost": 9}), limit=9)
    assert path_lines.problems(dead_too, NAMES) == ["pool a: node1 -> node2: no answer"]


def test_the_message_of_the_task_counts_what_failed() -> None:
    rest = (
        ", see above: packets of workloads may not arrive there. docs/troubleshooting.md says what each reason means. "
        "Correct what is named there, and run again."
    )
    one = lost("node1", "node2", "a")
    assert path_lines.failure(judged(one)) == f"1 path gets no answer{rest}"
    assert path_lines.failure(judged(one, lost("node2", "node1", "a"))) == f"2 paths get no answer{rest}"
    few = ("node1", {**one[1], "lost": 1})
    assert path_lines.failure(judged(few)) == (f"1 probe was lost, more than calico_node_max_lost_probes (0){rest}")
    assert path_lines.failure(judged(few, limit=1)) == ""


def test_silent_paths_to_absent_nodes_are_one_line() -> None:
    found = judged(*(lost("node1", f"node{n}", "a") for n in range(7, 12)), lost("node2", "node7", "a"))
    assert path_lines.problems(found, {}) == [] and path_lines.absent(judged()) == []
    assert path_lines.absent(found) == [
        "no answer  on 6 paths to 5 nodes (node10, node11, node7 and 2 more), not in this run or failed in it"
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from("abc"), st.sampled_from(("no answer", "loop"))),
        max_size=60,
        unique_by=lambda path: path[:3],
    )
)
def test_all_dead_paths_are_in_one_sentence_each_and_these_are_few(paths: list[tuple[int, int, str, str]]) -> None:
    answers: dict[str, dict[str, t.Any]] = {f"n{one}": {"targets": []} for one in range(8)}
    dead = {path[:3]: path[3] for path in paths if path[0] != path[1]}
    for one in range(8):
        for other in range(8):
            for pool in "abc":
                reason = dead.get((one, other, pool))
                target = {
                    "name": f"n{other}",
                    "pool": pool,
                    "address": "10.0.0.1",
                    "sent": 3,
                    "lost": 3 if reason else 0,
                }
                answers[f"n{one}"]["targets"].append({**target, "reason": reason or ""})
    found = verdict.of_run(answers, list(answers))
    lines = path_lines.problems(found, {})
    assert len(lines) <= path_lines.MOST + 1 and bool(lines) == bool(dead)
    if not any(line.startswith("...") for line in lines):
        assert sum(map(_paths_of, lines)) == len(dead)


def _paths_of(line: str) -> int:
    """Return how many dead paths a sentence stands for."""
    where, dummy, what = line.partition(": ")
    pools = where.count(",") + 1
    words = what.replace("none of", "all").split()
    if "->" in words[:2]:
        return pools
    return pools * int((words[1] if words[0] == "all" else words[0]).replace(",", ""))
