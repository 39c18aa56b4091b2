# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of plays, blocks and tasks, which people read while a run goes on."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.conftest import ROOT

VERBS = frozenset((ROOT / "tests" / "run" / "verbs.txt").read_text("utf-8").split())
#: Verbs and pronouns that do not say what a task does, and to what. Install, Write, Copy, Observe, Check, Show ... do.
VAGUE = re.compile(r"^(bring|have|let|look|make|say|see|take|tell)\b|\b(it|them|they|what)\b", re.IGNORECASE)
FILES = sorted([*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").glob("*.yml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_tasks_are_imperatives(path: pathlib.Path) -> None:
    """Each name begins with a verb of tests/run/verbs.txt that says what the task does, and names its object."""
    names = re.findall(r"^ *- name: [\"']?(.*)$", path.read_text("utf-8"), re.MULTILINE)
    assert [name for name in names if name.split()[0].lower() not in VERBS or VAGUE.search(name)] == []
