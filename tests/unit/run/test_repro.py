# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/run/repro.py: one test of a suite, a shell beside the lab, and the lab's end."""

from __future__ import annotations

import pathlib

import pytest

from tests.run import repro
from tests.run.suites import SUITES, Suite

TESTS = """
import os

def test_one():
    assert os.environ["HOST_ROUTING_LAB"] == "lab-of-test" and os.environ["HOST_ROUTING_LAB_KEEP"] == "1"

def test_two():
    raise AssertionError
"""


@pytest.mark.parametrize(("test", "status"), [("test_one", 0), ("test_two", 1), ("test_three", 5)])
def test_the_lab_is_up_in_the_shell_and_down_afterwards(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, test: str, status: int
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/down ] && echo $HOST_ROUTING_LAB > {tmp_path}/shown\n")
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    suite = Suite(
        "lab-x",
        "a suite of a test",
        ("{bin}/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)),
        limit=60,
        clean_up=("sh", "-c", f"touch {tmp_path}/down", "--name", "lab-of-test"),
    )
    monkeypatch.chdir(tmp_path)
    assert repro.reproduce(suite, test) == status
    assert (tmp_path / "shown").read_text() == "lab-of-test\n"
    assert (tmp_path / "down").exists()


def test_a_suite_without_a_lab_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    labs = ", ".join(sorted(suite.name for suite in SUITES if repro.lab_of(suite)))
    assert repro.main("unit", "x") == 2
    assert capsys.readouterr().err == f"SUITE=unit is no suite with a lab of its own. Choose one of: {labs}.\n"
    assert "lab-agent" in labs and "molecule" not in labs


def test_a_test_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert repro.main("lab-agent", "") == 2
    assert capsys.readouterr().err == "TEST is empty. Name the test to run, such as TEST=test_reboot.\n"
