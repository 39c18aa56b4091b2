# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prepared run of ansible-playbook ends and prints as the program itself does."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests import prepared_ansible
from tests.integration.ansible_playbook import BIN

#: Tasks: one prints what its process is like, one fails, and one waits.
LIKE = "{{ lookup('pipe', 'pwd; umask; readlink /proc/self/ns/net; cat; echo $GIVEN') }}"
TASKS = {
    "like": {"ansible.builtin.debug": {"msg": LIKE}},
    "fails": {"ansible.builtin.fail": {"msg": "grün"}},
    "waits": {"ansible.builtin.wait_for": {"timeout": 90}},
}


@pytest.fixture
def command(tmp_path: pathlib.Path) -> list[str]:
    """The command that runs one of TASKS, whose name goes after it."""
    for name, task in TASKS.items():
        play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
        (tmp_path / f"{name}.yml").write_text(json.dumps([play]))
    # The Python that Ansible finds on PATH may be a version manager's, which refuses to run.
    python = f"ansible_python_interpreter={sys.executable}"
    return [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", python]


def test_a_run_is_that_of_the_program(command: list[str], tmp_path: pathlib.Path) -> None:
    """Outputs, exit status, folder, environment, namespace and stdin are the same, also of a second run."""
    environment = {**os.environ, "GIVEN": "word", "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    for words in (["like.yml"], ["fails.yml"], ["like.yml", "fails.yml"], ["no.yml"], ["--no-such-option"]):
        mask = os.umask(0o027 if "fails.yml" in words else 0o077)
        program = subprocess.run(
            [*command, *words],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        prepared = prepared_ansible.run([*command, *words], tmp_path, environment, 300)
        os.umask(mask)
        assert (prepared.returncode, prepared.stdout, prepared.stderr) == (
            program.returncode, program.stdout, program.stderr,
        )  # fmt: skip
    assert prepared.returncode == 2


def test_a_run_that_takes_too_long_is_killed(command: list[str], tmp_path: pathlib.Path) -> None:
    """It raises TimeoutExpired, and the next run is none the worse."""
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    with pytest.raises(subprocess.TimeoutExpired):
        prepared_ansible.run([*command, "waits.yml"], tmp_path, environment, 1)
    assert prepared_ansible.run([*command, "fails.yml"], tmp_path, environment, 300).returncode == 2
