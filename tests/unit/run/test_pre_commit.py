# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hooks of .pre-commit-config.yaml are checks of `make lint`, and its first hook passes on this clone."""

from __future__ import annotations

import subprocess

import yaml

from tests.conftest import ROOT
from tests.run import lint

CONFIG = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
HOOKS = [hook for repo in CONFIG["repos"] for hook in repo["hooks"]]


def test_the_hooks_are_checks_of_lint() -> None:
    """A hook runs nothing but named checks: lint decides what they are."""
    for hook in HOOKS:
        program, script, *names = hook["entry"].split()
        assert (program, script) == (".venv/bin/python", "tests/run/lint.py")
        assert names and set(names) <= set(lint.checks())
        assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("system", False, True)


def test_nothing_is_downloaded() -> None:
    assert [repo["repo"] for repo in CONFIG["repos"]] == ["local"]


def test_each_stage_has_its_checks_once() -> None:
    stages = [stage for hook in HOOKS for stage in hook["stages"]]
    assert sorted(stages) == ["pre-commit", "pre-push"]
    names = [name for hook in HOOKS for name in hook["entry"].split()[2:]]
    assert len(names) == len(set(names))


def test_a_hook_runs_as_git_runs_it() -> None:
    """The command works from the top of a clone, and its exit status is that of the check."""
    program, script, *dummy = HOOKS[0]["entry"].split()
    done = subprocess.run([program, script, "shell-syntax"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed"
