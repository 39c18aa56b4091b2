# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of records of workloads: with any id, whole or not there, and with steps that are repeated or interrupted."""

from __future__ import annotations

import os

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints, file_name
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from hypothesis import given
from hypothesis import strategies as st

WEB = AttachedWorkload("default/web", "web", addresses=("10.0.0.2",), labels={"app": "é"}, since="2026-11-21T07:00:00Z")
CONTAINER = AttachedWorkload(
    *("net.0123456789abcdef.eth0", "c"),
    network="net",
    container="0123456789abcdef",
    addresses=("10.0.0.3", "fd00::3"),
    mtu=1400,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "calico" / "workloads"


@pytest.fixture
def endpoints(folder):
    return Endpoints(str(folder))


def test_there_is_nothing_before_there_is_something(endpoints, folder):
    assert endpoints.load() == endpoints.unfinished() == ([], [])
    endpoints.remove("x")
    endpoints.forget("x")
    assert not folder.exists()


def test_records_are_read_back_and_only_the_owner_may_read_them(endpoints, folder):
    endpoints.save(CONTAINER)
    endpoints.save(WEB)
    endpoints.save(CONTAINER)
    assert endpoints.load() == ([WEB, CONTAINER], [])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [entry.stat().st_mode & 0o777 for entry in folder.iterdir()] == [0o600, 0o600]
    assert sorted(os.listdir(folder)) == ["default%2Fweb.json", "net.0123456789abcdef.eth0.json"]
    endpoints.remove(WEB.id)
    endpoints.remove(WEB.id)
    assert endpoints.load() == ([CONTAINER], [])


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_both_folders_are_roots_alone_whatever_comes_first_and_whatever_the_umask(endpoints, folder, umask):
    before = os.umask(umask)
    try:
        endpoints.begin(WEB)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "unfinished")] == [0o700, 0o700]
    assert (folder / "unfinished" / "default%2Fweb.json").stat().st_mode & 0o777 == 0o600
    assert folder.parent.stat().st_mode & 0o777 == 0o755  # clients must reach the socket in it


def test_files_and_folders_with_open_modes_are_closed_to_others(endpoints, folder, tmp_path):
    endpoints.close_to_others()
    assert not folder.exists()
    endpoints.begin(WEB)
    endpoints.save(CONTAINER)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    elsewhere.chmod(0o644)
    (folder / "link.json").symlink_to(elsewhere)
    for path in (folder, folder / "unfinished"):
        path.chmod(0o755)
    for path in folder.rglob("*%*.json"):
        path.chmod(0o644)
    endpoints.close_to_others()
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "unfinished")] == [0o700, 0o700]
    assert {path.lstat().st_mode & 0o777 for path in folder.rglob("*.json") if not path.is_symlink()} == {0o600}
    assert elsewhere.stat().st_mode & 0o777 == 0o644


def test_each_step_of_a_record_may_be_repeated(endpoints):
    for step, standing, unfinished in (
        (lambda: endpoints.begin(WEB), [], [WEB]),
        (lambda: endpoints.commit(WEB.id), [WEB], []),
        (lambda: endpoints.leave(WEB.id), [], [WEB]),
        (lambda: endpoints.forget(WEB.id), [], []),
    ):
        for _ in range(2):
            step()
            assert endpoints.load() == (standing, [])
            assert endpoints.unfinished() == (unfinished, [])


def test_leaving_what_never_stood_is_no_error(endpoints):
    endpoints.leave("nobody")
    endpoints.commit("nobody")
    assert endpoints.load() == endpoints.unfinished() == ([], [])


@pytest.mark.parametrize("step", ["begin", "save"])
@pytest.mark.parametrize("failing", ["write", "replace"])
def test_a_kill_during_a_write_leaves_the_old_record(endpoints, folder, monkeypatch, step, failing):
    getattr(endpoints, step)(WEB)

    def die(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, die)
        for workload in (CONTAINER, AttachedWorkload(WEB.id, "other", addresses=("10.0.0.4",))):
            with pytest.raises(KeyboardInterrupt):
                getattr(endpoints, step)(workload)
    again = Endpoints(str(folder))
    assert (again.load() if step == "save" else again.unfinished()) == ([WEB], [])
    getattr(again, step)(CONTAINER)
    assert (again.load() if step == "save" else again.unfinished()) == ([WEB, CONTAINER], [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"\0" * 30, "Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"[]", "a workload's record is a list, not a table"),
        (b'{"id": "default/web"}', "a workload's name is missing"),
        (b'{"id": "default/other", "name": "other"}', "it is the record of default/other"),
        (b'{"id": "default/web", "name": "web"}', "the workload has no address"),
    ],
)
def test_a_record_that_cannot_be_read_is_reported_and_left(endpoints, folder, content, why):
    endpoints.save(CONTAINER)
    path = folder / "default%2Fweb.json"
    path.write_bytes(content)
    assert endpoints.load() == (
        [CONTAINER],
        [
            f"{path} cannot be read: {why}. The workload that it was for is not repaired, and gets no new connections "
            "if the node has policy. Delete the workload and add it again, or remove the file."
        ],
    )
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_read_is_reported(tmp_path):
    (tmp_path / "workloads").write_text("")
    workloads, problems = Endpoints(str(tmp_path / "workloads")).load()
    assert workloads == []
    assert problems == [
        f"{tmp_path}/workloads cannot be read: Not a directory. Correct that, then restart calico-agent."
    ]


def test_files_that_are_no_records_are_ignored(endpoints, folder):
    endpoints.save(WEB)
    endpoints.begin(CONTAINER)
    for left in (folder, folder / "unfinished"):
        (left / ".default%2Fweb.json.0a1b2c3d").write_text("{")
    (folder / "README").write_text("")
    assert (endpoints.load(), endpoints.unfinished()) == (([WEB], []), ([CONTAINER], []))
    endpoints.close_to_others()  # at the start of an agent
    assert not list(folder.rglob(".*")) and (folder / "README").exists()
    assert (endpoints.load(), endpoints.unfinished()) == (([WEB], []), ([CONTAINER], []))


@pytest.mark.parametrize("identity", ["/", "..", ".hidden", "a/../../b", "\0", "\ud800", "é" * 300, "x" * 5000, "%2F"])
def test_any_id_has_a_file_of_its_own(endpoints, folder, identity):
    workload = AttachedWorkload(identity, "x", addresses=("10.0.0.2",))
    endpoints.save(workload)
    endpoints.save(WEB)
    assert sorted(endpoints.load()[0], key=lambda found: found.id) == sorted(
        [workload, WEB], key=lambda found: found.id
    )
    assert len(os.listdir(folder)) == 2
    assert os.listdir(folder.parent) == ["workloads"]
    endpoints.leave(identity)
    endpoints.forget(identity)
    assert endpoints.load() == ([WEB], [])


@given(first=st.text(min_size=1, max_size=8), second=st.text(min_size=1, max_size=8), long=st.booleans())
def test_other_ids_have_other_files(first, second, long):
    if long:
        first, second = "x" * 250 + first, "x" * 250 + second
    assert (file_name(first) == file_name(second)) == (first == second)
    for identity in (first, second):
        name = file_name(identity)
        assert "/" not in name and not name.startswith(".") and len(name) <= 255
