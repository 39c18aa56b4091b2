# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/contributing/first-contribution.md, performed in a clone of this clone."""

from __future__ import annotations

import pathlib
import re
import subprocess

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "contributing" / "first-contribution.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(clone: pathlib.Path, commands: str) -> tuple[int, str]:
    """Run the lines of a block as one script, and return its exit status and last line."""
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, (done.stdout.splitlines() or [""])[-1]


def test_a_newcomer_gets_from_the_clone_to_the_commit(tmp_path: pathlib.Path) -> None:
    """The test of the page fails before its change and passes after it, the checks pass, and git takes the commit."""
    assert [kind for kind, dummy in BLOCKS] == ["python", "", "python", "", "yaml", ""]
    (test, testing, line, checking, fragment, committing) = (text for dummy, text in BLOCKS)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "-C", str(clone), "config", name, "newcomer@example.org"], check=True)
    (clone / ".venv").symlink_to(ROOT / ".venv")  # what `make setup` makes, in minutes

    (clone / "tests" / "unit" / "cli" / "test_top.py").write_text(test)
    status, last = run(clone, testing)
    assert (status, last.partition(" in ")[0]) == (1, "1 failed")

    path = clone / "plugins" / "module_utils" / "cli" / "commands" / "refused" / "absent.py"
    before = path.read_text("utf-8")
    path.write_text(before.replace('    ("explain",):', f'{line}    ("explain",):'))
    status, last = run(clone, testing)
    assert (status, last.partition(" in ")[0]) == (0, "1 passed")

    status, last = run(clone, checking)
    assert status == 0, last
    (clone / "changelogs" / "fragments" / "top.yml").write_text(fragment)
    assert run(clone, committing)[0] == 0
    shown = subprocess.run(
        ["git", "-C", str(clone), "show", "--stat", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert len(shown.stdout.splitlines()[0]) <= 72
    assert "3 files changed" in shown.stdout
