# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on the paths of a run, also by answers that are wrong, incomplete or of another release."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import probed, verdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss
from hypothesis import given
from hypothesis import strategies as st

NODES = ("node1", "node2", "node3", "node4")
POOLS = ("default", "racks")

#: All nodes probed at the same time.
WINDOW = {"earliest": 100.0, "latest": 100.5, "seconds": 4.8}

Answers = dict[str, dict[str, t.Any]]


def address(node: str, pool: str) -> str:
    return f"10.{244 + POOLS.index(pool)}.{node[4:] or 0}.63"


def target(
    host: str, other: str, pool: str = "default", sent: int = 3, lost: int = 0, **more: t.Any
) -> dict[str, t.Any]:
    found = {
        "name": other,
        "pool": pool,
        "source": address(host, pool),
        "address": address(other, pool),
        "size": 1450,
        "sent": sent,
        "received": sent - lost,
        "lost": lost,
        "reason": "no answer" if lost else "",
        "by": "",
        "heard": sent,
    }
    return {**found, **more}


def answers(*targets: tuple[str, dict[str, t.Any]]) -> Answers:
    found: Answers = {}
    for host, one in targets:
        found.setdefault(host, {"targets": [], "window": WINDOW})["targets"].append(one)
    return found


class Try(t.NamedTuple):
    """One path of the generated fleets: lost probes of three, what its far end heard, and the reported reason."""

    host: str
    other: str
    pool: str
    lost: int
    heard: t.Optional[int]
    reason: str
    by: str


def tries() -> st.SearchStrategy[list[Try]]:
    one = st.builds(
        Try,
        st.sampled_from(NODES),
        st.sampled_from(NODES),
        st.sampled_from(POOLS),
        st.sampled_from((0, 0, 1, 2, 3, 3)),
        st.sampled_from((None, 0, 3)),
        st.sampled_from((*path_loss.REASONS, "", "too cold")),
        st.sampled_from(("", "10.10.1.12", "a text")),
    )
    return st.lists(one, max_size=24, unique_by=lambda path: (path.host, path.other, path.pool))


@given(tries(), st.sets(st.sampled_from(NODES)), st.integers(0, 4))
def test_the_verdict_agrees_with_the_rules_word_by_word(paths: list[Try], took_part: set[str], limit: int) -> None:
    """Each path is judged alone here, by a search through all answers."""
    found = verdict.of_run(
        answers(
            *(
                (
                    one.host,
                    target(one.host, one.other, one.pool, 3, one.lost, reason=one.reason, by=one.by, heard=one.heard),
                )
                for one in paths
            )
        ),
        took_part,
        limit,
    )
    dead, absent, single, errors = set(), set(), 0, False
    for one in paths:
        key = (one.host, one.other, one.pool)
        if one.host not in took_part:
            continue
        if one.other not in took_part:
            if one.lost == 3:
                absent.add(key)
        elif one.host == one.other:
            continue
        elif one.lost == 3:
            dead.add(key)
            (path,) = [path for path in found.dead if (path.host, path.other, path.pool) == key]
            heard = [
                back.heard for back in paths if (back.host, back.other, back.pool) == (one.other, one.host, one.pool)
            ]
            known = one.reason in path_loss.REASONS and one.reason != path_loss.NO_ANSWER
            assert path.loss == path_loss.PathLoss(
                one.reason if known else "no answer",
                one.by if one.by == "10.10.1.12" else "",
                "there" if known or heard == [0] else "back" if heard == [3] else "",
            )
        else:
            single += one.lost
    errors = bool(dead) or single > limit
    assert {(path.host, path.other, path.pool) for path in found.dead} == dead
    assert {(path.host, path.other, path.pool) for path in found.absent} == absent
    assert found.failed == errors and found.single_losses == single
    assert (found.count, found.sent, found.lost) == (len(paths), 3 * len(paths), sum(one.lost for one in paths))
    assert found.answered == sum(one.lost < 3 for one in paths)
    assert set(found.failing) == {*found.dead, *(found.lossy if single > limit else ())}
    assert not (set(found.dead) & set(found.lossy) or set(found.dead) & set(found.absent))
    for path in verdict.to_data(found):
        assert path["dead"] == (path["lost"] == 3) and path["reason"] in path_loss.REASONS


def test_sums_of_settled_hosts_count_with_the_paths_of_the_others() -> None:
    settled: Answers = {"node1": {"paths": 4, "sent": 12, "lost": 0}, "node2": {"paths": 4, "sent": 12, "lost": 1}}
    found = verdict.of_run({**settled, **answers(("node3", target("node3", "node1")))}, NODES)
    assert (found.count, found.answered, found.sent, found.lost) == (9, 5, 27, 1)
    assert not found.failed  # a host with a loss is asked again, with its paths


def test_a_settled_host_names_its_paths_with_losses_which_its_sums_contain() -> None:
    lost = [target("node1", "node2", lost=3), target("node1", "node3", lost=1)]
    settled = {"paths": 4, "sent": 12, "lost": 4, "targets": lost}
    found = verdict.of_run({"node1": settled, "node2": {"paths": 4, "sent": 12, "lost": 0, "targets": []}}, NODES)
    assert (found.count, found.answered, found.sent, found.lost) == (8, 7, 24, 4)
    assert [str(path) for path in found.dead] == ["node1 -> node2"] and found.single_losses == 1


def test_an_answer_of_an_older_release_leaves_reason_and_direction_unknown() -> None:
    old = {"name": "node2", "address": "10.244.2.63", "sent": 3, "lost": 3, "reason": "2 not answered, alas"}
    (path,) = verdict.of_run({"node1": {"targets": [old]}, "node2": {}}, NODES).dead
    assert (path.pool, path.loss) == ("", path_loss.PathLoss("no answer"))


class TestHostileAnswers:
    """Root on a node writes its answers. It may harm the words about its own paths, and nothing else."""

    def test_a_node_that_claims_to_have_heard_moves_only_the_direction(self) -> None:
        lost = ("node1", target("node1", "node2", lost=3))
        for heard, direction in ((0, "there"), (10**9, "back"), (None, "")):
            (path,) = verdict.of_run(answers(lost, ("node2", target("node2", "node1", heard=heard))), NODES).dead
            assert path.loss == path_loss.PathLoss("no answer", "", direction)

    def test_a_node_cannot_speak_for_what_another_one_heard(self) -> None:
        forged = ("node3", target("node3", "node1", heard=3, name="node1"))
        (path,) = verdict.of_run(answers(("node1", target("node1", "node2", lost=3)), forged), NODES).dead
        assert path.loss == path_loss.PathLoss("no answer")

    def test_paths_that_are_repeated_or_lead_to_itself_or_to_unknown_nodes_add_nothing(self) -> None:
        many = [target("node1", "node2", lost=3)] * 1000
        odd = [target("node1", name, lost=3, address="10.9.9.9") for name in ("node1", "", "node9")]
        found = verdict.of_run({"node1": {"targets": [*many, *odd]}}, NODES)
        assert [str(path) for path in found.dead] == ["node1 -> node2"] and found.count == 4
        assert [str(path) for path in found.absent] == ["node1 -> 10.9.9.9", "node1 -> node9"]

    def test_huge_counts_are_read_and_added_up(self) -> None:
        found = verdict.of_run(answers(("node1", target("node1", "node2", sent=10**9, lost=10**9 - 1))), NODES)
        assert found.failed and found.single_losses == 10**9 - 1
        assert verdict.of_run(answers(("node1", target("node1", "node2", sent=0, lost=7))), NODES).dead == ()

    @pytest.mark.parametrize(
        "answer",
        [
            {"targets": [target("node1", "node2")] * 10**6},
            {"targets": [target("node1", "node2", lost=-1)]},
            {"targets": [target("node1", "node2", sent=10**10)]},
            {"targets": "all"},
            {"targets": [["node2", 3, 0]]},
        ],
        ids=["a million targets", "less than none lost", "too many sent", "no list", "no mapping"],
    )
    def test_the_reader_refuses_what_no_node_answers(self, answer: dict[str, t.Any]) -> None:
        with pytest.raises(Unreadable):
            readers.PROBES(answer)

    def test_the_result_names_a_hundred_paths_of_many_the_dead_ones_first(self) -> None:
        lossy = [target("node1", "node2", lost=1, address=f"10.7.0.{n}") for n in range(90)]
        dead = [target("node1", "node3", lost=3, address=f"10.8.0.{n}") for n in range(90)]
        found = verdict.to_data(verdict.of_run({"node1": {"targets": [*lossy, *dead]}}, NODES))
        assert len(found) == 100 and [path["dead"] for path in found] == [True] * 90 + [False] * 10
        assert found[0] == {
            "pool": "default", "from": "node1", "to": "node3", "address": "10.8.0.0", "sent": 3, "lost": 3,
            "dead": True, "reason": "no answer", "by": "", "direction": "",
        }  # fmt: skip


def test_a_flip_that_was_not_watched_is_named_with_its_reason() -> None:
    watched = {"targets": [target("node1", "node2")], "watch": {"complete": True}}
    killed = {**watched, "watch": {"complete": False, "reason": "the watch was killed"}}
    assert probed.unwatched({"node1": watched, "node2": killed, "node3": {"targets": []}}) == [
        "node2 (the watch was killed)"
    ]
