# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the first seconds of the wait for a confirmation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import short_wait

from tests.conftest import ROOT


class Clock:
    """A clock that only `sleep` moves; `at` maps seconds since its start to a function to call once they passed."""

    def __init__(self, monkeypatch):
        self.now, self.at = 100.0, {}
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.passed]:
            self.at.pop(moment)()

    @property
    def passed(self):
        return self.now - 100.0


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def save(folder, *changes, within=60):
    passing = folder / "new"
    passing.write_text(json.dumps({"changes": changes, "within": within}))
    os.replace(passing, folder / short_wait.NAME)


def test_a_confirmed_change_ends_the_wait(tmp_path, clock):
    save(tmp_path, "one", "two")
    clock.at[1.0] = (tmp_path / short_wait.NAME).unlink
    assert short_wait.is_over("two", str(tmp_path))
    assert 1.0 <= clock.passed < 1.3


def test_a_later_change_ends_the_wait(tmp_path, clock):
    save(tmp_path, "one")
    clock.at[1.0] = lambda: save(tmp_path, "one", "two")
    assert short_wait.is_over("one", str(tmp_path))
    assert 1.0 <= clock.passed < 1.3


@pytest.mark.parametrize(("within", "seconds"), [(600, 15.0), (60, 15.0), (4, 1.0), (0, 0.0)])
def test_a_change_that_still_waits_is_left_to_the_code_that_reverts(tmp_path, clock, within, seconds):
    save(tmp_path, "one", within=within)
    assert not short_wait.is_over("one", str(tmp_path))
    assert seconds <= clock.passed < seconds + 0.2


def test_a_renewed_time_does_not_end_the_wait(tmp_path, clock):
    save(tmp_path, "one")
    clock.at[1.0] = lambda: save(tmp_path, "one", within=61)
    assert not short_wait.is_over("one", str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"changes": []}', '{"changes": ["one"], "within": []}'])
def test_a_file_that_cannot_be_read_is_left_to_the_code_that_reverts(tmp_path, clock, text):
    (tmp_path / short_wait.NAME).write_text(text)
    assert not short_wait.is_over("one", str(tmp_path))
    assert clock.passed == 0


def test_the_wait_loads_little():
    """The process that waits for a confirmation loads none of the engine's code but short_wait and its packages."""
    engine = ROOT / "plugins"
    code = (
        "import sys; from module_utils.node.store import short_wait; "
        "print(*sorted(name for name in sys.modules if 'module_utils' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], env={"PYTHONPATH": str(engine)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "module_utils",
        "module_utils.node",
        "module_utils.node.store",
        "module_utils.node.store.short_wait",
    ]
