# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the direction of a loss, by what the other end heard and when it listened."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import directions, probed

A, B = "10.244.3.63", "10.244.7.63"


def entry(name: str, address: str, source: str, heard: int | None = 0) -> dict[str, t.Any]:
    return {"name": name, "address": address, "source": source, "heard": heard, "sent": 3, "lost": 3}


def direction(answers: dict[str, t.Any], path: dict[str, t.Any]) -> str:
    """Return the direction of the loss on a path of node1, by all answers."""
    (found,) = [one for one in probed.probed(answers) if (one.host, one.address) == ("node1", path["address"])]
    assert found.loss is not None
    return found.loss.direction


def at(earliest: float, latest: float, seconds: float) -> dict[str, float]:
    return {"earliest": earliest, "latest": latest, "seconds": seconds}


SAME = at(100.0, 100.5, 4.8)


@pytest.mark.parametrize(
    ("heard", "own", "other", "expected"),
    [
        (0, SAME, SAME, "there"),
        (2, SAME, SAME, "back"),
        (None, SAME, SAME, ""),
        # The other node listened long enough, or perhaps not.
        (0, SAME, at(99.0, 99.5, 4.8), "there"),
        (0, SAME, at(98.0, 98.5, 4.8), ""),
        (0, SAME, at(101.0, 101.5, 4.8), "there"),
        (0, SAME, at(101.5, 102.5, 4.8), ""),
        (0, SAME, at(100.0, 100.5, 0.6), ""),
        (0, SAME, at(90.0, 95.0, 20.0), "there"),
        (0, SAME, at(200.0, 201.0, 4.8), ""),
        # A probe that was heard arrived, whatever the clocks say.
        (1, SAME, at(200.0, 201.0, 4.8), "back"),
        (0, None, SAME, ""),
        (0, SAME, None, ""),
    ],
)
def test_direction_by_what_was_heard(
    heard: int | None, own: dict[str, float] | None, other: dict[str, float] | None, expected: str
) -> None:
    """Silence of the other node gives a direction only if it listened for two thirds of the time of the probes."""
    path = entry("node2", B, A)
    answers: dict[str, dict[str, t.Any]] = {
        "node1": {"targets": [path]},
        "node2": {"targets": [entry("node1", "10.244.3.62", B, 5), entry("node1", A, B, heard)]},
    }
    for name, window in (("node1", own), ("node2", other)):
        answers[name].update({} if window is None else {"window": window})
    assert direction(answers, path) == expected


@pytest.mark.parametrize(
    ("sent", "lost", "heard", "expected"),
    [
        (3, 0, 3, "there"),
        (3, 0, 5, "there"),
        (3, 0, 2, ""),
        (3, 0, 0, ""),
        (3, 0, None, ""),
        (3, 1, 3, ""),
        (1, 0, 1, ""),
        (0, 0, 0, ""),
    ],
)
def test_another_path_shows_that_the_other_node_listened(
    sent: int, lost: int, heard: int | None, expected: str
) -> None:
    """If it heard a whole round on a path that answers, it heard none on the silent one, whatever the clocks say."""
    path = entry("node2", B, A)
    also = {**entry("node2", "10.245.7.63", "10.245.3.63"), "sent": sent, "lost": lost}
    back = entry("node1", "10.245.3.63", "10.245.7.63", heard)
    answers: dict[str, dict[str, t.Any]] = {
        "node1": {"targets": [path, also], "window": SAME},
        "node2": {"targets": [entry("node1", A, B, 0), back], "window": at(102.0, 103.0, 4.8)},
    }
    assert direction(answers, path) == expected
    # What node3 heard says nothing about node2.
    other = {**answers["node1"], "targets": [path, {**also, "name": "node3"}]}
    assert direction({**answers, "node1": other, "node3": {"targets": [back]}}, path) == ""
    answers["node2"]["targets"][0]["heard"] = 1
    assert direction(answers, path) == "back"


def test_without_the_other_nodes_answer_the_direction_is_unknown() -> None:
    path = entry("node2", B, A)
    assert direction({"node1": {"targets": [path], "window": SAME}}, path) == ""
    unknown = entry("", B, "")
    answers = {"node1": {"targets": [unknown]}, "node2": {"targets": [entry("node1", A, "", 3)]}}
    assert direction(answers, unknown) == ""


def test_the_window_of_a_call() -> None:
    """The window leaves open what happened before and after the module ran."""
    found = directions.window({"began": 0.1, "ended": 4.9, "total": 5.0}, 1000.0, 1006.5)
    assert found == pytest.approx({"earliest": 1000.1, "latest": 1001.6, "seconds": 4.8})
    assert directions.WINDOW(found) == found


@pytest.mark.parametrize(
    "clock",
    [
        None,
        {},
        {"began": 3.0, "ended": 2.0, "total": 5.0},
        {"began": 0.0, "ended": 6.0, "total": 5.0},
        {"began": 0.0, "ended": 1.0, "total": 7.0},
        {"began": -1.0, "ended": 1.0, "total": 2.0},
        {"began": "now", "ended": 1.0, "total": 2.0},
        {"began": float("nan"), "ended": 1.0, "total": 2.0},
    ],
)
def test_an_impossible_clock_gives_no_window(clock: t.Any) -> None:
    assert directions.window(clock, 1000.0, 1006.5) is None
