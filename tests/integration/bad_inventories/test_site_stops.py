# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml on three of the bad inventories: it reports the error and stops, and hosts are at most read.

tests/unit/plugin_utils covers all of the inventories, in one process.
"""

from __future__ import annotations

import pathlib
import re
import stat
import sys

import pytest

from tests.integration.ansible_playbook import play
from tests.unit.fleet.bad_inventories import CASES, Case

CHOSEN = ["overlapping-pools", "same-node-address-twice", "lockfile-gives-one-block-to-two-nodes"]


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CHOSEN], ids=lambda case: case.name)
def test_site_stops_before_it_changes_anything(case: Case, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    hosts_file = case.write(folder)
    # Each "host" is this machine, with an interpreter that records which programs it was asked to run.
    seen = tmp_path / "seen"
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {sys.executable} "$@"\n')
    interpreter.chmod(interpreter.stat().st_mode | stat.S_IXUSR)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    variables = ("ansible_connection=local", f"ansible_python_interpreter={interpreter}")
    options = [word for variable in variables for word in ("-e", variable)]
    done = play("playbooks/site.yml", hosts_file, *options, environment={"ANSIBLE_PIPELINING": "0"}, timeout=60)
    assert done.returncode == 2, done.stdout + done.stderr
    printed = done.stdout + done.stderr
    # Texts are compared without spaces, because Ansible wraps lines.
    assert "".join(case.expected(folder, origins=True).split()) in "".join(printed.split()), printed
    assert "Traceback" not in printed
    # The module's name stands behind the digest of the engine that is on the host, and of the one that the call brings.
    modules = set(re.findall(r"(?:AnsiballZ_|\b[0-9a-f]{16} (?:[0-9a-f]{64} )?)(\w+)", seen.read_text()))
    assert modules == {"node_info"}
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert "changed=0" in printed and not re.search(r"changed=[1-9]", printed)
