# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the journal: it returns what was written, whole lines or nothing, and raises an error when it cannot."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam import allocation_journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.allocation_journal import (
    AllocationJournal,
    IpamNotWritten,
    IpamUnreadable,
)

LINES = [[["a", 1]], [["b", "é\n"], ["c"]], [["d", {"e": "f"}]]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ipam" / "allocations"


def written(path, lines=LINES):
    journal = AllocationJournal(str(path))
    journal.load()
    for line in lines:
        journal.append(line)
    journal.close()
    return path.read_bytes()


def read(path):
    return AllocationJournal(str(path)).load()


def test_entries_are_read_back_and_only_the_owner_may_read_the_file(path):
    assert read(path) == []
    assert written(path).count(b"\n") == 3
    assert read(path) == [["a", 1], ["b", "é\n"], ["c"], ["d", {"e": "f"}]]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_every_length_of_a_file_that_was_cut_off_gives_the_whole_lines_in_it(path):
    data = written(path)
    ends = [position + 1 for position, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        assert read(path) == [record for line in LINES[:whole] for record in line], length
        assert path.read_bytes() == data[:length]  # reading changes nothing
        journal = AllocationJournal(str(path))
        journal.load()
        journal.append([["new"]])
        journal.close()
        assert read(path) == [record for line in [*LINES[:whole], [["new"]]] for record in line], length


def test_a_hole_of_zeros_at_the_end_was_never_answered_for(path):
    """All lines before a hole of zeros are read: a power failure during a write of several pages leaves such a hole."""
    data = written(path)
    last = data.rindex(b"\n", 0, len(data) - 1) + 1
    for torn in (data[:last] + b"\0" * 40, data[: last + 12] + b"\0" * 5 + data[last + 17 :], data + b"\0" * 9):
        path.write_bytes(torn)
        assert read(path)[: len(LINES[0] + LINES[1])] == LINES[0] + LINES[1]


def test_any_other_damage_is_refused_whole_and_nothing_is_overwritten(path):
    data = written(path)
    message = (
        f"{path} cannot be read: line %d is not what was written. It was damaged or written by another release. "
        "Nothing was changed, and no address is given meanwhile: one might be given twice. Use that release or bring "
        "the file back from a backup of just now. Else delete this node's workloads, move the file away and start "
        "calico-agent again."
    )
    for position in range(len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(IpamUnreadable) as error:
            read(path)
        assert str(error.value) == message % (data[:position].count(b"\n") + 1)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("order", [[0, 2], [1, 2], [1, 0, 2], [0, 0, 1, 2], [0, 1, 1]])
def test_lines_that_are_missing_doubled_or_out_of_place_are_noticed(path, order):
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(IpamUnreadable):
        read(path)


def test_a_permission_error_says_to_become_root(path, monkeypatch):
    def refused(*dummy, **more):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(IpamUnreadable) as error:
        read(path)
    assert str(error.value) == f"{path} may be read by root alone. Become root, then run again."


def test_a_file_that_cannot_be_opened_is_no_empty_one(path):
    path.mkdir(parents=True)
    with pytest.raises(IpamUnreadable, match=r"allocations cannot be read: Is a directory\. It was damaged"):
        read(path)


class Disk:
    """A disk that fails once, at the `nth` of the calls in CALLS, counted from 1; -1 means never.

    That call raises `error`, as on a full disk or in a killed process; a pwrite writes half of its bytes before.
    `calls` has the names of all calls so far.
    """

    CALLS = ("open", "pwrite", "fdatasync", "fsync", "ftruncate", "replace")

    def __init__(self, monkeypatch, nth, error):
        self.left = nth
        self.calls = []
        for name in self.CALLS:
            monkeypatch.setattr(allocation_journal.os, name, self.wrap(name, getattr(os, name), error))

    def wrap(self, name, real, error):
        def call(*arguments, **options):
            self.calls.append(name)
            self.left -= 1
            if self.left == 0:
                if name == "pwrite":  # half of the bytes are written before the error
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], arguments[2])
                raise error
            return real(*arguments, **options)

        return call


def steps(action, prepare):
    """Return the number of calls of Disk.CALLS that `action` makes; `prepare()` returns the journal that it gets.

    The journal is closed at the end, and calls of the close count too.
    """
    with pytest.MonkeyPatch.context() as patch:
        journal = prepare()
        disk = Disk(patch, -1, OSError())
        action(journal)
        journal.close()
        return len(disk.calls)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("error", [FULL, BROKEN, OSError(errno.EROFS, os.strerror(errno.EROFS))], ids=str)
def test_a_disk_that_refuses_at_any_step_leaves_the_file_as_it_was(path, error):
    def prepare():
        path.unlink(missing_ok=True)
        written(path)
        journal = AllocationJournal(str(path))
        journal.load()
        return journal

    def action(journal):
        journal.append([["new"]])

    total = steps(action, prepare)
    assert total >= 4
    for nth in range(1, total + 1):
        journal = prepare()
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, nth, error)
            with pytest.raises(IpamNotWritten) as refusal:
                action(journal)
        assert str(refusal.value) == (
            f"{path} could not be written: {error.strerror}. No address was given or taken back. Make room or correct "
            "the file system, then try again."
        )
        assert read(path) == [record for line in LINES for record in line]
        action(journal)  # the disk works again
        assert read(path)[-2:] == [["d", {"e": "f"}], ["new"]]
        journal.close()


def test_a_failed_truncation_is_repeated_before_the_next_write(path, monkeypatch):
    written(path)
    journal = AllocationJournal(str(path))
    journal.load()
    journal.append([["last"]])

    def refuse(*arguments):
        raise BROKEN

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(IpamNotWritten):
            journal.append([["never"] * 20])
    assert read(path)[-1][0] == "never"
    journal.append([["new"]])
    assert read(path)[-2:] == [["last"], ["new"]]


class TestCompaction:
    def test_the_new_file_says_what_it_was_told_and_goes_on(self, path):
        written(path)
        journal = AllocationJournal(str(path))
        journal.load()
        assert journal.compact([["sum"]]) is True
        journal.append([["next"]])
        assert read(path) == [["sum"], ["next"]]
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.listdir(path.parent) == ["allocations"]

    def test_the_new_file_is_on_the_disk_before_it_takes_the_name(self, path):
        written(path)
        journal = AllocationJournal(str(path))
        journal.load()
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, -1, FULL)
            journal.compact([["sum"]])
        assert disk.calls == ["open", "pwrite", "fsync", "replace", "open", "fsync"]

    def test_it_is_time_when_the_file_has_grown_and_not_soon_again(self, path, monkeypatch):
        monkeypatch.setattr(allocation_journal, "COMPACT_ABOVE", 100)
        journal = AllocationJournal(str(path))
        journal.load()
        assert not journal.grown
        while not journal.grown:
            journal.append([["x" * 30]])
        journal.compact([["y" * 70]])
        assert not journal.grown
        journal.append([["x" * 30]])
        assert not journal.grown
        while not journal.grown:
            journal.append([["x" * 30]])
        assert path.stat().st_size > 160

    def test_killed_or_refused_at_any_step_the_one_file_or_the_other_is_there(self, path):
        def prepare():
            path.unlink(missing_ok=True)
            written(path)
            journal = AllocationJournal(str(path))
            journal.load()
            journal.append([["last"]])
            return journal

        def action(journal):
            journal.compact([["sum"]])

        old, new = [*(record for line in LINES for record in line), ["last"]], [["sum"]]
        total = steps(action, prepare)
        assert total >= 4
        for error in (KeyboardInterrupt(), FULL):
            for nth in range(1, total + 1):
                journal = prepare()
                with pytest.MonkeyPatch.context() as patch:
                    Disk(patch, nth, error)
                    try:
                        action(journal)
                    except KeyboardInterrupt:
                        found = read(path)
                        assert found in (old, new)
                        continue
                found = read(path)
                journal.append([["next"]])  # the journal goes on, with the old file or the new one
                assert read(path) == [*found, ["next"]]
                assert found in (old, new)

    def test_until_the_rename_is_certain_nothing_is_answered_for(self, path):
        written(path)
        journal = AllocationJournal(str(path))
        journal.load()

        def refuse(folder):
            raise BROKEN

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(allocation_journal.folders, "sync", refuse)
            assert journal.compact([["sum"]]) is True
            with pytest.raises(IpamNotWritten):
                journal.append([["new"]])
        assert read(path) == [["sum"]]
        journal.append([["new"]])
        assert read(path) == [["sum"], ["new"]]
