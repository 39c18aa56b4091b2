# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the store: it survives crashes and full disks, and keeps the last generations to return to."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import atomic_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import (
    File,
    Store,
    Stored,
    StoreError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase


def stored(block="10.244.3.0/26", plan="p1", phase=Phase.CONVERGE, **fields):
    state = NodeState("node1", "10.10.1.11/24", plan=plan, phase=phase, routes=(Route(block, "blackhole"),))
    return Stored(state, "router id 10.10.1.11;\n", (File("/etc/x", "y"),), "me@here", "2026-11-21T07:00:00Z", **fields)


def test_a_fresh_node_has_nothing(tmp_path):
    store = Store(str(tmp_path / "calico"))
    assert store.load() is None
    assert store.generations() == []


def test_a_saved_state_is_read_back_and_only_the_owner_may_read_it(tmp_path):
    folder = tmp_path / "calico"
    store = Store(str(folder))
    store.save(stored(complete=True))
    assert store.load() == stored(complete=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "state.json").stat().st_mode & 0o777 == 0o600


def test_same_as_looks_past_who_and_when():
    assert stored().same_as(dataclasses.replace(stored(), who="you", when="later", complete=True))
    assert not stored().same_as(stored(plan="p2"))
    assert not stored().same_as(dataclasses.replace(stored(), bird_config=None))
    assert not stored().same_as(None)


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_disk_that_refuses_leaves_the_old_file_and_says_so(tmp_path, monkeypatch, failing):
    store = Store(str(tmp_path))
    store.save(stored())

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(atomic_file.FileError) as error:
        store.save(stored("10.244.9.0/26"))
    monkeypatch.undo()
    assert str(error.value) == (
        f"{tmp_path}/state.json could not be written: No space left on device. What was there before stands unchanged. "
        "Make room or correct the file system, then run again."
    )
    assert store.load() == stored()
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_failed_sync_of_the_folder_says_that_the_new_file_is_in_place(tmp_path, monkeypatch):
    store = Store(str(tmp_path))
    store.save(stored())

    sync = os.fsync

    def refuse_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with pytest.raises(atomic_file.FileError) as error:
        store.save(stored("10.244.9.0/26"))
    monkeypatch.undo()
    assert str(error.value) == (
        f"{tmp_path}/state.json was written, but its folder could not be synced to the disk: Input/output error. The "
        "new content is in place, and a power failure may undo it. Correct the file system, then run again."
    )
    assert store.load() == stored("10.244.9.0/26")


def test_a_crash_before_the_rename_leaves_the_old_state(tmp_path, monkeypatch):
    store = Store(str(tmp_path))
    store.save(stored())

    def die(*arguments):
        raise KeyboardInterrupt  # like a kill, it is caught nowhere

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        store.save(stored("10.244.9.0/26"))
    monkeypatch.undo()
    assert store.load() == stored()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "it is a list, not a table of at most 131072"),
        ("{}", "state is missing"),
        ('{"state": []}', "state is a list, not a table of at most 131072"),
        ('{"state": {}, "bird_config": null, "files": "x"}', "files is x, not a list of at most 131072"),
        (
            '{"state": {}, "bird_config": null, "files": [{"path": "/x", "content": "", "owner": "me"}]}',
            "files[0].owner is not known. There are: path, content, mode, last",
        ),
        ('{"state": {}, "state": {}}', "an object has the key state twice"),
    ],
)
def test_a_damaged_file_is_an_error_that_says_how_to_go_on(tmp_path, text, why):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StoreError) as error:
        Store(str(tmp_path)).load()
    assert str(error.value) == (
        f"{tmp_path}/state.json cannot be read: {why}. It was damaged or written by another release. Use that "
        f"release, or "
        "move the file away if the lockfile on the controller has this node's blocks; the next run then stores "
        "the state "
        "anew."
    )


def refused(*dummy, **more):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_permission_error_says_to_become_root(tmp_path, monkeypatch):
    store = Store(str(tmp_path))
    monkeypatch.setattr(os, "open", refused)
    for path, read in (("state.json", store.load), ("generations/1.json", lambda: store.generation(1))):
        with pytest.raises(StoreError) as error:
            read()
        assert str(error.value) == f"{tmp_path}/{path} may be read by root alone. Become root, then run again."


def test_a_state_of_another_release_is_not_guessed_at(tmp_path):
    store = Store(str(tmp_path))
    store.save(stored())
    data = json.loads((tmp_path / "state.json").read_text())
    data["state"]["version"] = 99
    (tmp_path / "state.json").write_text(json.dumps(data))
    with pytest.raises(StoreError, match="NodeState version 99 is not 1"):
        store.load()


class TestGenerations:
    def test_numbers_grow_and_only_the_last_are_kept(self, tmp_path):
        store = Store(str(tmp_path))
        numbers = [store.record(stored(f"10.244.{n}.0/26"), keep=3) for n in range(5)]
        assert numbers == [1, 2, 3, 4, 5]
        assert [generation.n for generation in store.generations()] == [3, 4, 5]
        assert sorted(os.listdir(tmp_path / "generations")) == ["3.json", "4.json", "5.json"]

    def test_the_same_state_is_recorded_once_and_another_plan_anew(self, tmp_path):
        store = Store(str(tmp_path))
        assert store.record(stored()) == 1
        assert store.record(stored()) is None
        assert store.record(stored(plan="p2")) == 2
        assert [(g.n, g.plan) for g in store.generations()] == [(1, "p1"), (2, "p2")]

    def test_returning_to_an_older_state_makes_a_new_generation(self, tmp_path):
        store = Store(str(tmp_path))
        assert [store.record(s) for s in (stored(), stored("10.1.0.0/26"), stored())] == [1, 2, 3]

    @pytest.mark.parametrize("phase", ["prepare", "links", "flip"])
    def test_steps_of_a_change_are_no_generations(self, tmp_path, phase):
        store = Store(str(tmp_path))
        assert store.record(stored(phase=phase)) is None
        assert store.generations() == []
        assert store.record(stored(phase=Phase.RETIRE)) == 1

    def test_one_can_be_read_whole(self, tmp_path):
        store = Store(str(tmp_path))
        store.record(stored())
        generation = store.generation(1)
        assert NodeState.from_dict(generation["state"]) == stored().state
        assert generation["bird_config"] == stored().bird_config
        assert (generation["who"], generation["when"]) == ("me@here", "2026-11-21T07:00:00Z")
        with pytest.raises(StoreError) as error:
            store.generation(7)
        assert str(error.value) == "generation 7 is not stored on this node. It has: 1. Choose one of these."

    @pytest.mark.parametrize("name", ["².json", "-1.json", "x.json", ".json", "2.json.new"])
    def test_files_with_other_names_are_no_generations(self, tmp_path, name):
        store = Store(str(tmp_path))
        store.record(stored())
        (tmp_path / "generations" / name).write_text("{}")
        assert [generation.n for generation in store.generations()] == [1]
        assert store.record(stored(plan="p2")) == 2

    def test_a_generations_folder_that_cannot_be_listed_is_an_error(self, tmp_path):
        (tmp_path / "generations").write_text("")
        store = Store(str(tmp_path))
        for read in (store.generations, lambda: store.record(stored())):
            with pytest.raises(StoreError) as error:
                read()
            assert str(error.value) == (
                f"{tmp_path}/generations cannot be read: [Errno 20] Not a directory: '{tmp_path}/generations'. It was "
                "damaged or written by another release. Move it away, then run again."
            )

    def test_a_damaged_one_does_not_hide_the_others(self, tmp_path):
        store = Store(str(tmp_path))
        store.record(stored())
        store.record(stored("10.1.0.0/26"))
        (tmp_path / "generations" / "1.json").write_text("{")
        assert [generation.n for generation in store.generations()] == [2]
