# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are replaced as a whole: the new file, its rights, the steps to the disk, and what is left after an error.

Each step is refused or killed in turn. A power failure is the order of the steps: the content is on the disk before the
name leads to it.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import replacement

STEPS = ("open", "fchown", "fchmod", "write", "fsync", "close", "replace")
REFUSED = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state").write_text("old")
    return tmp_path / "state"


def logged(patch: pytest.MonkeyPatch, steps: list[str], refused: str = "") -> None:
    """Log the steps, and refuse the one that `refused` names; "fsync of a folder" is one of its own."""

    def through(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            step = name
            if name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode):  # type: ignore[call-overload]
                step = "fsync of a folder"
            steps.append(step)
            if step == refused:
                raise REFUSED
            return real(*arguments, **named)

        return call

    for name in STEPS:
        patch.setattr(os, name, through(name, getattr(os, name)))


def test_the_new_file_is_empty_private_and_lies_beside_the_other(path: Path) -> None:
    with replacement.beside(str(path), 0o640) as new:
        assert (os.path.dirname(new.path), mode(Path(new.path))) == (str(path.parent), 0o640)
        assert re.fullmatch(r"\.state\.[0-9a-f]{8}", os.path.basename(new.path))
        new.write(b"ne")
        new.write(b"w")
        assert (Path(new.path).read_text(), path.read_text()) == ("new", "old")
        new.put()
        assert path.read_text() == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["state"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_mode_is_the_same_whatever_the_umask_is(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        for wanted in (0o600, 0o640, 0o644):
            replacement.replace(str(path), b"new", wanted)
            assert mode(path) == wanted
    finally:
        os.umask(before)


def test_the_owner_is_set_before_others_may_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    with monkeypatch.context() as patch:
        logged(patch, steps)
        replacement.replace(str(path), b"new", 0o640, (os.geteuid(), os.getegid()))
    assert steps == ["open", "fchown", "fchmod", "write", "fsync", "close", "replace", "open", "fsync of a folder",
                     "close"]  # fmt: skip


def test_content_is_on_the_disk_before_its_name_unless_it_need_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for sync in (True, False):
        steps: list[str] = []
        with monkeypatch.context() as patch:
            logged(patch, steps)
            replacement.replace(str(path), b"new", 0o600, sync=sync)
        synced = ["fsync"] if sync else []
        folder = ["open", "fsync of a folder", "close"] if sync else []
        assert steps == ["open", "fchmod", "write", *synced, "close", "replace", *folder]


@pytest.mark.parametrize("refused", STEPS)
def test_a_refused_step_leaves_the_old_file_alone(path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    with monkeypatch.context() as patch:
        logged(patch, [], refused)
        with pytest.raises(OSError) as caught:
            replacement.replace(str(path), b"new", 0o600, (os.geteuid(), os.getegid()))
    assert caught.value is REFUSED and not isinstance(caught.value, replacement.NotSynced)
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [("state", "old")]


def test_a_folder_that_is_not_synced_has_the_new_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        logged(patch, [], "fsync of a folder")
        with pytest.raises(replacement.NotSynced) as caught:
            replacement.replace(str(path), b"new", 0o600)
    assert (caught.value.errno, caught.value.strerror) == (errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [("state", "new")]


def test_a_check_that_fails_leaves_no_new_file(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacement.beside(str(path), 0o600) as new:
        new.write(b"new")
        raise ZeroDivisionError
    with replacement.beside(str(path), 0o600) as new:
        new.write(b"checked only")
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [("state", "old")]


@pytest.mark.parametrize("step", STEPS[2:])
def test_a_writer_killed_at_any_step_leaves_one_of_both_and_a_sweep_removes_the_rest(path: Path, step: str) -> None:
    program = f"""
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from files import replacement
def killed(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)
os.{step} = killed
replacement.replace(sys.argv[2], b"new", 0o600)
"""
    folder = os.path.dirname(os.path.dirname(replacement.__file__))
    done = subprocess.run([sys.executable, "-I", "-c", program, folder, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    (path.parent / ".state.of-somebody-else").touch()
    (path.parent / ".state2.00000000").touch()
    replacement.sweep(str(path))
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".state.of-somebody-else", ".state2.00000000",
                                                                    "state"]  # fmt: skip


def test_a_sweep_of_a_missing_folder_does_nothing(tmp_path: Path) -> None:
    replacement.sweep(str(tmp_path / "none" / "state"))


def test_a_taken_name_is_left_alone_and_another_one_tried(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / ".state.00000000").symlink_to(path.parent / "of-somebody-else")
    numbers = iter([bytes(4), b"\0\0\0\1"])
    monkeypatch.setattr(os, "urandom", lambda size: next(numbers))
    with replacement.beside(str(path), 0o600) as new:
        assert os.path.basename(new.path) == ".state.00000001"
    assert not (path.parent / "of-somebody-else").exists()


def test_a_folder_in_which_all_names_are_taken_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / ".state.00000000").touch()
    monkeypatch.setattr(os, "urandom", bytes)
    with pytest.raises(FileExistsError):
        replacement.replace(str(path), b"new", 0o600)
    assert (path.parent / ".state.00000000").exists()


def test_a_missing_folder_is_an_error_except_for_a_stored_text(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state"
    with pytest.raises(FileNotFoundError):
        replacement.replace(str(path), b"new", 0o600)
    replacement.store(str(path), "new \udcff", 0o600)
    assert (path.read_bytes(), mode(path.parent), mode(path)) == (b"new \xff", 0o755, 0o600)


def test_a_link_is_replaced_by_a_file_and_followed_by_a_stored_text(path: Path) -> None:
    link = path.parent / "link"
    link.symlink_to("state")
    replacement.store(str(link), "stored", 0o600)
    assert link.is_symlink() and path.read_text() == "stored"
    replacement.replace(str(link), b"new", 0o600)
    assert not link.is_symlink() and (link.read_text(), path.read_text()) == ("new", "stored")


def test_a_file_in_the_working_directory_is_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    replacement.replace("state", b"new", 0o600)
    assert path.read_text() == "new"


def test_a_name_may_have_all_characters_that_a_name_can_have(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127, "\U0001f40d" * 63):
        replacement.replace(str(tmp_path / name), b"new", 0o600)
        assert (tmp_path / name).read_bytes() == b"new"
