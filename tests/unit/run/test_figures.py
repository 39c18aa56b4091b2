# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/run/figures.py: what it counts, and what its page shows of it."""

from __future__ import annotations

import pathlib

import pytest

from tests.run import figures
from tests.run.figures import Figure

SOURCE = '''\
"""The docstring of a module,
in two lines."""

# a comment
import os
from sys import (
    path,
)

DOCUMENTATION = """
module: x
"""


def function() -> int:
    """Return the answer."""

    text = """no docstring
    but text"""
    return len(text)
'''


def test_lines_are_code_or_docstrings(tmp_path: pathlib.Path) -> None:
    """Blank lines, comments, imports and the documentation of modules count as neither."""
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert figures.lines_of(path) == (4, 3)


@pytest.mark.parametrize(
    ("arrows", "up"),
    [
        ([], 0),
        ([("a", "b"), ("b", "c"), ("a", "c")], 0),
        ([("a", "b"), ("b", "a")], 1),
        ([("a", "b"), ("b", "c"), ("c", "a")], 1),
        ([("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "a")], 2),
    ],
)
def test_arrows_run_up_in_the_best_order(
    monkeypatch: pytest.MonkeyPatch, arrows: list[tuple[str, str]], up: int
) -> None:
    monkeypatch.setattr(figures, "folder_arrows", lambda room: frozenset(arrows))
    assert figures.arrows_up("agent") == up


def test_the_arrows_of_a_room_are_between_its_folders() -> None:
    arrows = figures.folder_arrows("agent")
    assert (".", "workloads") in arrows
    assert all(here != there for here, there in arrows)


@pytest.mark.parametrize(
    ("now", "goal", "step", "row"),
    [
        (0, 0, 1, "| x | 9 | 0 | 0 | met |"),
        (7, 60, 20, "| x | 9 | at most 60 | 60 | met |"),
        (61, 60, 20, "| x | 9 | at most 80 | 60 | missed |"),
        (80, 60, 20, "| x | 9 | at most 80 | 60 | missed |"),
        (3, 0, 1, "| x | 9 | 3 | 0 | missed |"),
    ],
)
def test_the_page_rounds_what_misses_its_goal(now: int, goal: int, step: int, row: str) -> None:
    """So it changes when a goal is met or missed, and not with each line of code."""
    assert figures.table([Figure("x", 9, now, goal, step)], page=True).splitlines()[-1] == row


def test_the_script_shows_exact_counts() -> None:
    assert figures.table([Figure("x", 9, 53, 60, 20)]).splitlines()[-1] == "| x | 9 | 53 | 60 | met |"


def test_calicoctls_help_meets_its_goal() -> None:
    assert figures.modules_of("--help") <= 60
