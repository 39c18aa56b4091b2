# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that the lab kills must leave no process behind: a surviving worker would finish the phase."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from tests.lab.scenarios.killed_controller import kill_run, output_until, run_to_kill

pytestmark = pytest.mark.root

#: A run with a worker in a session of its own, and a daemon that is nobody's child. Each holds the lock of a file.
RUN = """
for name in worker daemon; do
    case $name in
    worker) setsid flock held-$name sleep 300 & ;;
    daemon) (setsid flock held-$name sleep 300 >/dev/null 2>&1 </dev/null &) ;;
    esac
    until [ -e held-$name ] && ! flock -n held-$name true; do sleep 0.01; done
done
echo "TASK [Flip the routes] ***"
wait
"""


def held(folder: pathlib.Path) -> list[str]:
    """Return the sorted names `held-<process>` of the files in `folder` whose locks are held: those processes live."""
    return [
        path.name
        for path in sorted(folder.glob("held-*"))
        if os.spawnlp(os.P_WAIT, "flock", "flock", "-n", str(path), "true") != 0
    ]


def test_a_killed_run_leaves_no_process_behind(tmp_path: pathlib.Path) -> None:
    with run_to_kill(["sh", "-c", RUN], tmp_path, os.environ) as process:
        assert output_until(process, "Flip the routes") == "TASK [Flip the routes] ***\n"
        assert held(tmp_path) == ["held-daemon", "held-worker"]
        kill_run(process)
        assert held(tmp_path) == []


def test_a_run_that_is_not_killed_ends_with_its_context(tmp_path: pathlib.Path) -> None:
    with run_to_kill(["sh", "-c", RUN], tmp_path, os.environ) as process:
        output_until(process, "Flip the routes")
    assert held(tmp_path) == []


def test_a_run_that_ended_by_itself_was_not_killed(tmp_path: pathlib.Path) -> None:
    with run_to_kill(["sh", "-c", "echo done; exit 3"], tmp_path, os.environ) as process:
        with pytest.raises(AssertionError) as caught:
            output_until(process, "Flip the routes")
        assert str(caught.value) == "Flip the routes never began:\ndone\n"
        while process.poll() is None:
            time.sleep(0.01)
        with pytest.raises(AssertionError) as caught:
            kill_run(process)
        assert str(caught.value) == "the run ended by itself, with status 3"
