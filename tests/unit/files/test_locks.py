# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks between processes: taken once, free when their holder ends, however it ends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import locks

ROOM = os.path.dirname(os.path.dirname(locks.__file__))
HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from files import locks
with locks.held(sys.argv[2]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "folder" / "lock")


def holder(path: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-I", "-c", HOLD, ROOM, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_one_process_holds_a_lock_until_it_is_killed(path: str) -> None:
    assert not locks.is_taken(path) and not os.path.exists(os.path.dirname(path))
    with holder(path) as process:
        handle = locks.opened(path)
        assert (locks.is_taken(path), locks.take(handle)) == (True, False)
        process.kill()
        process.wait(60)
        assert (locks.is_taken(path), locks.take(handle), locks.is_taken(path)) == (False, True, True)
        os.close(handle)
    assert not locks.is_taken(path)


def test_a_process_waits_for_a_lock(path: str) -> None:
    with holder(path) as first:
        second = subprocess.Popen([sys.executable, "-I", "-c", HOLD, ROOM, path], stdout=subprocess.PIPE, text=True)
        with second:
            first.kill()
            assert second.stdout is not None and second.stdout.readline() == "held\n"
            second.kill()


def test_an_error_in_the_block_releases_the_lock(path: str) -> None:
    with pytest.raises(ZeroDivisionError), locks.held(path):
        assert locks.is_taken(path)
        raise ZeroDivisionError
    assert not locks.is_taken(path)


def test_the_file_is_its_owners_and_what_cannot_be_opened_is_an_error(path: str) -> None:
    before = os.umask(0)
    try:
        os.close(locks.opened(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for below in (locks.opened, locks.is_taken):
        with pytest.raises(NotADirectoryError):
            below(f"{path}/below/lock")
