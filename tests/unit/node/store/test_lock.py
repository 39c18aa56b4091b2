# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the lock: one writer at a time, and a process that waits in vain learns who holds it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock

HOLDER = """
import sys, time
sys.path[:0] = {path!r}
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
with lock.held("ansible by me@here", path={lock!r}):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    path = str(tmp_path / "run" / "node.lock")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(path=sys.path, lock=path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_error_names_the_holder(holder):
    path, process = holder
    with pytest.raises(lock.LockError) as error, lock.held("second", timeout=0.1, path=path):
        pass
    assert re.fullmatch(
        rf"this node is being changed by ansible by me@here \(pid {process.pid}, since [0-9T:+-]+\)\. It holds "
        rf"{path} and "
        r"did not let go within 0\.1 seconds\. Wait until it is done, or look at that process, then run again\.",
        str(error.value),
    )


def test_a_lock_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "run").write_text("a file in the place of the folder")
    path = str(tmp_path / "run" / "node.lock")
    with pytest.raises(lock.LockError) as error:
        lock.taken(path)
    assert str(error.value) == (
        f"the lock {path} cannot be opened: Not a directory. Nothing was changed. Run as root, and correct the file"
        " system or what is in its place, then run again."
    )
    with pytest.raises(lock.LockUnusable, match="cannot be opened: File exists"), lock.held("me", path=path):
        pass


def test_a_file_that_takes_no_name_is_a_lock_all_the_same(tmp_path):
    """As on a full disk: a pipe takes none either."""
    path = str(tmp_path / "node.lock")
    os.mkfifo(path)
    with lock.held("first", timeout=0.1, path=path):
        assert lock.taken(path)
        with pytest.raises(lock.LockError, match=r"this node is being changed by another process\. It holds"):
            with lock.held("second", timeout=0.1, path=path):
                pass
    assert not lock.taken(path)


def test_a_killed_holder_holds_nothing(holder):
    path, process = holder
    process.kill()
    process.wait()
    with lock.held("second", timeout=60, path=path):
        pass


def test_it_is_free_again_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: pytest.fail("it waits"))
    path = str(tmp_path / "node.lock")
    with pytest.raises(ZeroDivisionError), lock.held("first", path=path):
        raise ZeroDivisionError
    assert pathlib.Path(path).read_text() == ""  # A process that waits must not be told the name of an earlier holder.
    with lock.held("second", timeout=5, path=path):
        assert str(os.getpid()) in pathlib.Path(path).read_text()


def test_a_waiter_for_a_removed_lock_file_locks_the_new_one(holder):
    """A teardown removes the file. The process that waited and a later one lock the same file, not one each."""
    path, process = holder
    pathlib.Path(path).unlink()
    handle = lock._opened(path)
    os.close(handle)
    pathlib.Path(path).unlink()
    process.kill()
    process.wait()
    with lock.held("waiting", path=path):
        assert lock.taken(path)
        with pytest.raises(lock.LockError), lock.held("later", 0, path=path):
            pass
