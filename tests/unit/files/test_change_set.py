# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes to several files: made together or not at all, whatever refuses or kills the writer."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded, change_set, replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.files.change_set import (
    ChangedMeanwhile,
    FileChange,
    InterruptedChange,
)

REFUSED = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
#: One file that changes, one in a folder that is missing, one that goes.
BEFORE = {"a.yml": b"old a", "gone.yml": b"old"}
AFTER = {"a.yml": b"new a", "tier/new.yml": b"new"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in BEFORE.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def journal(folder: Path) -> str:
    return str(folder / ".change.json")


def changes(folder: Path) -> list[FileChange]:
    names = dict.fromkeys([*BEFORE, *AFTER])
    return [FileChange(str(folder / name), BEFORE.get(name), AFTER.get(name)) for name in names]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make(folder: Path, wanted: t.Sequence[FileChange] = ()) -> list[str]:
    with change_set.held(journal(folder)) as finished:
        change_set.write(wanted or changes(folder), journal(folder))
    return finished


def test_files_are_changed_made_and_removed(folder: Path) -> None:
    assert make(folder) == []
    assert content(folder) == AFTER


def test_a_changed_file_keeps_its_mode_and_a_new_one_has_its_folder_s(folder: Path) -> None:
    (folder / "a.yml").chmod(0o600)
    folder.chmod(0o750)
    before = os.umask(0o077)
    try:
        make(folder)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in ("a.yml", "tier", "tier/new.yml")}
    assert modes == {"a.yml": 0o600, "tier": 0o750, "tier/new.yml": 0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_changed_file_keeps_its_owner(folder: Path) -> None:
    os.chown(folder / "a.yml", 65534, 65534)
    make(folder)
    assert ((folder / "a.yml").stat().st_uid, (folder / "a.yml").stat().st_gid) == (65534, 65534)


def test_a_link_stays_and_leads_to_the_new_content(folder: Path) -> None:
    (folder / "other").mkdir()
    os.replace(folder / "a.yml", folder / "other" / "real.yml")
    (folder / "a.yml").symlink_to("other/real.yml")
    make(folder)
    assert (folder / "a.yml").is_symlink()
    assert (folder / "other" / "real.yml").read_bytes() == b"new a"


@pytest.mark.parametrize("name", ["a.yml", "gone.yml", "tier/new.yml"])
def test_a_file_that_changed_meanwhile_stops_all(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"by an editor")
    seen = content(folder)
    with pytest.raises(ChangedMeanwhile) as raised:
        make(folder)
    assert str(raised.value) == f"{folder / name} was changed by somebody else meanwhile. Nothing was written."
    assert content(folder) == seen


def test_a_second_writer_waits_and_sees_the_first_one_s_files(folder: Path) -> None:
    """The second of two writers that planned on the same files is refused; it does not mix with the first."""
    errors: list[Exception] = []

    def second() -> None:
        try:
            make(folder, [FileChange(str(folder / "a.yml"), b"old a", b"of the second")])
        except ChangedMeanwhile as error:
            errors.append(error)

    with change_set.held(journal(folder)):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        change_set.write(changes(folder), journal(folder))
    thread.join(60)
    assert (len(errors), content(folder)) == (1, AFTER)


@pytest.mark.parametrize("step", ["open", "fchmod", "write", "fsync", "close"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_full_disk_leaves_all_files_and_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, which: int
) -> None:
    """The steps of the first new file, the second and the journal are refused in turn."""
    real, made = getattr(os, step), -1
    first = os.open

    def opened(path: t.Any, flags: int, *rest: t.Any, **named: t.Any) -> int:
        nonlocal made
        if flags & os.O_CREAT:
            made += 1
            if made == which and step == "open":
                raise REFUSED
        return first(path, flags, *rest, **named)

    def refused(*arguments: t.Any, **named: t.Any) -> t.Any:
        if made == which and not stat.S_ISDIR(os.fstat(arguments[0]).st_mode):
            raise REFUSED
        return real(*arguments, **named)

    with change_set.held(journal(folder)), monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        if step != "open":
            patch.setattr(os, step, refused)
        if step == "close" and which < 2:
            patch.setattr(bounded, "read", lambda path, dummy: BEFORE.get(os.path.relpath(path, folder)))
        with pytest.raises(OSError) as raised:
            change_set.write(changes(folder), journal(folder))
    assert raised.value is REFUSED
    assert (content(folder), (folder / "tier").exists()) == (BEFORE, False)


def killed_at(folder: Path, step: str, count: int) -> None:
    """Make the changes in a process that is killed before the `count`-th call of a function of os."""
    program = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from module_utils.files import change_set
step, left, real = sys.argv[2], int(sys.argv[3]), getattr(os, sys.argv[2])
def counted(*arguments, **named):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)
setattr(os, step, counted)
journal, changes = eval(sys.argv[4])
with change_set.held(journal):
    change_set.write([change_set.FileChange(*change) for change in changes], journal)
"""
    plugins = os.path.dirname(os.path.dirname(os.path.dirname(change_set.__file__)))
    told = repr((journal(folder), [tuple(change) for change in changes(folder)]))
    command = [sys.executable, "-I", "-c", program, plugins, step, str(count), told]
    done = subprocess.run(command, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("step", "count", "finished"),
    [
        ("fsync", 1, False),
        ("fsync", 2, False),
        ("fsync", 3, False),
        ("replace", 1, False),  # of the journal
        ("replace", 2, True),
        ("unlink", 1, True),
        ("replace", 3, True),
        ("unlink", 2, True),  # of the journal
    ],
)
def test_the_next_call_finishes_the_change_of_a_killed_writer(
    folder: Path, step: str, count: int, finished: bool
) -> None:
    killed_at(folder, step, count)
    left = {name: found for name, found in content(folder).items() if not name.rpartition("/")[2].startswith(".")}
    if not finished:
        assert left == BEFORE
        (folder / ".a.yml.original").touch()
    with change_set.held(journal(folder)) as paths:
        assert sorted(paths) == (sorted(change.path for change in changes(folder)) if finished else [])
    left = {name: found for name, found in content(folder).items() if not name.rpartition("/")[2].startswith(".")}
    assert left == (AFTER if finished else BEFORE)
    if not finished:
        make(folder)
        (folder / ".a.yml.original").unlink()
    assert content(folder) == AFTER


def test_a_file_that_changed_since_the_kill_is_named_and_nothing_is_changed(folder: Path) -> None:
    killed_at(folder, "replace", 3)
    (folder / "gone.yml").write_bytes(b"by an editor")
    seen = content(folder)
    with pytest.raises(InterruptedChange) as raised:
        make(folder)
    assert str(raised.value) == (
        f"a change of several files was interrupted, and {folder / 'gone.yml'} changed since. "
        f"Look whether the files are as wanted, and remove {journal(folder)}."
    )
    assert content(folder) == seen


def test_an_error_in_the_midst_is_finished_by_the_next_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.replace, []

    def refused(*arguments: t.Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise REFUSED
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refused)
        with pytest.raises(InterruptedChange):
            make(folder)
    with change_set.held(journal(folder)) as paths:
        assert len(paths) == 3
    assert content(folder) == AFTER


@pytest.mark.parametrize(
    "entry",
    [
        {"target": "/etc/hosts", "new": "/tmp/.hosts.00000000", "before": None, "after": "x"},
        {"target": "/etc/hosts", "new": "/etc/shadow", "before": None, "after": "x"},
        {"target": "a", "new": ".a.00000000", "before": None, "after": "x"},
        {"target": "/etc/hosts", "new": None, "before": None, "after": "x"},
        {"target": 1, "new": None, "before": None, "after": None},
        {"target": "/etc/hosts"},
        {"other": 1},
        5,
    ],
)
def test_a_journal_that_no_writer_wrote_is_named_and_left(folder: Path, entry: t.Any) -> None:
    for text in (json.dumps([entry]), json.dumps(entry), "{"):
        Path(journal(folder)).write_text(text)
        Path(journal(folder)).chmod(0o600)
        with pytest.raises(InterruptedChange) as raised:
            make(folder)
        assert raised.value.paths == (journal(folder),)
    assert content(folder) == {**BEFORE, ".change.json": b"{"}


def test_a_journal_that_others_may_write_or_a_link_is_not_read(folder: Path) -> None:
    Path(journal(folder)).write_text("[]")
    Path(journal(folder)).chmod(0o666)
    with pytest.raises(InterruptedChange):
        make(folder)
    Path(journal(folder)).unlink()
    Path(journal(folder)).symlink_to("a.yml")
    with pytest.raises(InterruptedChange):
        make(folder)
    assert {name: content(folder)[name] for name in BEFORE} == BEFORE


def test_a_folder_that_is_not_synced_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*dummy: t.Any) -> None:
        raise REFUSED

    with monkeypatch.context() as patch:
        patch.setattr(replacement.folders, "sync", refused)
        make(folder)
    assert content(folder) == AFTER
