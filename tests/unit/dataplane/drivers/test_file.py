# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, and the texts of changes and errors."""

from __future__ import annotations

import errno
import os
import pathlib
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import file
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.file import WantedFile

from tests.unit.dataplane.suites.drivers import lines


def written(desired):
    """Write these files, and return the changes as lines. Nothing differs afterwards."""
    changes = file.changes(desired)
    file.apply(changes)
    assert file.changes(desired) == []
    return lines(changes)


def test_file_is_made_changed_and_deleted(tmp_path):
    path = tmp_path / "folder" / "bird.cfg"
    assert written([WantedFile(str(path), "a\nb\n", 0o640)]) == [f"+ file     {path}  2 lines, mode 0640"]
    assert path.read_text() == "a\nb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    written([WantedFile(str(path), "a\nc\n", 0o600)])
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("a\nc\n", 0o600)
    assert [entry.name for entry in path.parent.iterdir()] == ["bird.cfg"]
    assert written([WantedFile(str(path), None)]) == [f"- file     {path}  2 lines, mode 0600"]
    assert not path.exists()


def test_a_failed_sync_of_the_folder_reports_that_the_file_is_written(tmp_path, monkeypatch):
    path = tmp_path / "bird.cfg"

    sync = os.fsync

    def refuse_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with pytest.raises(ApplyError) as caught:
        file.apply(file.diff([WantedFile(str(path), "a\n")], {}))
    assert str(caught.value).endswith(
        "It is written, but a power failure may undo that: its folder cannot be synced: Input/output error. Correct the"
        " file system."
    )
    assert path.read_text() == "a\n"


def test_mode_alone_is_a_change(tmp_path):
    path = tmp_path / "file"
    path.write_text("same\n")
    path.chmod(0o666)
    assert written([WantedFile(str(path), "same\n", 0o644)]) == [
        f"~ file     {path}  1 lines, mode 0666  ->  1 lines, mode 0644"
    ]


def test_detail_is_a_unified_diff_unless_secret(tmp_path):
    path = str(tmp_path / "file")
    (tmp_path / "file").write_text("one\ntwo\n")
    desired = WantedFile(path, "one\n2\n")
    (change,) = file.diff([desired], file.observe([desired]))
    assert change.detail == f"--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    secret = desired._replace(secret=True)
    (change,) = file.diff([secret], file.observe([secret]))
    assert change.detail == ""


def test_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").write_text("old\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    written([WantedFile(str(tmp_path / "link"), "new\n")])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new\n"


def test_bytes_that_are_not_utf8_survive_a_plan(tmp_path):
    (tmp_path / "file").write_bytes(b"\xff\xfe old\n")
    written([WantedFile(str(tmp_path / "file"), "new\n")])


def test_folder_that_cannot_be_made_fails_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "below")
    with pytest.raises(ApplyError) as caught:
        written([WantedFile(path, "text\n")])
    assert str(caught.value) == (
        f"file {path}: It could not be written: {os.strerror(17)}. See that its folder exists and is writable."
    )


def test_the_old_content_is_kept_when_writing_fails(tmp_path, monkeypatch):
    path = pathlib.Path(tmp_path / "file")
    path.write_text("old\n")

    def full(_handle):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(file.os, "fsync", full)
    with pytest.raises(ApplyError, match="No space left on device"):
        written([WantedFile(str(path), "new\n")])
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_lines_of_a_plan():
    change = Change("route", "~", "10.244.7.0/26", "via 10.10.1.12 dev eth0", "via 10.10.1.12 dev tunl0 onlink")
    assert change.line() == "~ route    10.244.7.0/26  via 10.10.1.12 dev eth0  ->  via 10.10.1.12 dev tunl0 onlink"
    assert Change("device", "+", "tunl0", None, "mtu 1480  up").line() == "+ device   tunl0  mtu 1480  up"
    assert Change("route", "-", "10.244.7.0/26", "blackhole", None, "why").line() == (
        "- route    10.244.7.0/26  blackhole    why"
    )


def test_errors_name_every_failure_up_to_five():
    changes = [Change("route", "+", f"10.244.{n}.0/26") for n in range(7)]
    error = ApplyError(changes[0], "reason 0.", [(change, "reason.") for change in changes[1:]])
    assert str(error).splitlines()[0] == "route 10.244.0.0/26: reason 0."
    assert len(str(error).splitlines()) == 6
    assert str(error).splitlines()[5] == "... and 2 more failures of this kind."


def test_one_file_that_is_right_or_missing_does_not_hide_the_next(tmp_path):
    """Every file is compared, whatever the files before it are: missing, unwanted or as they should be."""
    (tmp_path / "right").write_text("same\n")
    (tmp_path / "right").chmod(0o644)
    (tmp_path / "wrong").write_text("old\n")
    (tmp_path / "odd").write_text("x\n")
    (tmp_path / "no-folder").write_text("")
    desired = [
        WantedFile(str(tmp_path / "missing"), None),
        WantedFile(str(tmp_path / "no-folder" / "x"), None),
        WantedFile(str(tmp_path / "right"), "same\n", 0o644),
        WantedFile(str(tmp_path / "odd"), None),
        WantedFile(str(tmp_path / "wrong"), "new\n", 0o644),
        WantedFile(str(tmp_path / "new"), "new\n", 0o644),
    ]
    changes = file.diff(desired, file.observe(desired))
    assert [(change.action, os.path.basename(change.subject)) for change in changes] == [
        ("-", "odd"),
        ("~", "wrong"),
        ("+", "new"),
    ]


def test_a_diff_shows_three_lines_around_a_change():
    """A unified diff has three lines of context, as that of `diff -u`, and /dev/null is the old name of a new file."""
    old = "".join(f"{number}\n" for number in range(10))
    new = old.replace("5\n", "five\n")
    assert file.unified_diff("f", old, new) == "--- f\n+++ f\n@@ -3,7 +3,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    assert file.unified_diff("f", "", "x\n", existed=False) == "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+x\n"
