# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a report: refused in words, replaced as a whole, readable as any other file."""

from __future__ import annotations

import os
import pathlib
import stat
import types

import pytest
from ansible import context
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import origin, report_file, switch_record

from tests.unit.plugin_utils.report import hostile, simulated


def test_a_file_is_replaced_with_the_rights_of_any_new_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o600)
    before = os.umask(0o027)
    try:
        report_file.write(report_file.path_for(str(path)), "new \ud800")
    finally:
        os.umask(before)
    assert path.read_text() == "new \\ud800" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_report_is_written_through_a_symbolic_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "latest.html"
    link.symlink_to("kept/today.html")
    report_file.write(report_file.path_for(str(link)), "new")
    assert link.is_symlink() and (tmp_path / "kept" / "today.html").read_text() == "new"


def test_an_unwritable_report_path_is_refused_with_its_reason(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for chosen, words in (
        (tmp_path, f"-e report=FILE {tmp_path} is a folder. Name a file in it, such as report.html."),
        (
            tmp_path / "none" / "x.html",
            f"-e report=FILE {tmp_path}/none/x.html cannot be written: the folder {tmp_path}/none does not exist. "
            "Make it, or name another file.",
        ),
        (tmp_path / "pipe", f"-e report=FILE {tmp_path}/pipe is no ordinary file. Name another file."),
    ):
        with pytest.raises(FleetError) as error:
            report_file.path_for(str(chosen))
        assert str(error.value) == words


def test_a_failed_write_leaves_the_old_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(*dummy: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_file.os, "replace", refuse)
    with pytest.raises(FleetError, match=r"cannot be written: No space left on device\. Name another file\."):
        report_file.write(str(path), "new")
    assert path.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (("report=a;b.html", "strict=true"), " -e 'report=a;b.html' -e strict=true"),
        (("report=a;b.html", "db_password=hunter2"), " -e 'report=a;b.html' ..."),
        (('{"token": "hunter2"}',), " ..."),
        (("@secrets.yml",), " ..."),
    ],
)
def test_a_command_shows_no_secret(monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...], words: str) -> None:
    given = {"args": ("playbooks/status.yml",), "check": True, "diff": False, "subset": "rack_a", "extra_vars": extra}
    monkeypatch.setattr(context, "CLIARGS", types.MappingProxyType(given))
    task_vars = {"report": "a;b.html", "strict": True, "db_password": "hunter2", "token": "hunter2"}
    command = origin.command(task_vars, ["inventories/prod"])
    assert command == f"ansible-playbook playbooks/status.yml -i inventories/prod --check --limit rack_a{words}"


def test_the_last_switch_is_recorded_and_read_again(tmp_path: pathlib.Path) -> None:
    lockfile = str(tmp_path / ".calico.lock.yml")
    fleet = simulated.fleet(4, 2)
    loss = simulated.switch_of(fleet, {("node1", "node3"): 9}).loss
    assert loss is not None and switch_record.read(lockfile) is None
    switch_record.write(lockfile, loss)
    assert switch_record.read(lockfile) == loss
    hostile_loss = hostile.everywhere(loss, "<" * 1_000_000)
    switch_record.write(lockfile, hostile_loss)
    assert (tmp_path / switch_record.NAME).stat().st_size < 100_000 and switch_record.read(lockfile) is not None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"subject": 1}', "[" * 100_000, "\x00", "1" * 5_000_000])
def test_a_record_that_cannot_be_read_is_named(tmp_path: pathlib.Path, content: str) -> None:
    path = tmp_path / switch_record.NAME
    path.write_text(content)
    with pytest.raises(FleetError) as error:
        switch_record.read(str(tmp_path / ".calico.lock.yml"))
    assert str(error.value) == f"record of the last switch {path} cannot be read. The next switch replaces it."
