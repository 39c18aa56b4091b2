# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of docs/ whose commands are run; the output must match what the page shows."""

from __future__ import annotations

import os
import re
import subprocess

from .conftest import ROOT

_BLOCK = re.compile(r"```sh\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)


def matches(pattern: str, output: str) -> bool:
    """Return whether some line of the output matches `pattern`, in which … stands for any text.

    Two spaces stand for any white space.
    """
    parts = [re.escape(part.rstrip() if index else part) for index, part in enumerate(pattern.rstrip().split("…"))]
    return re.search(r"^\s*" + ".*".join(parts).replace(r"\ \ ", r"\s+") + r"\s*$", output, re.MULTILINE) is not None


def test_commands_of_the_page_how_it_works_print_what_it_shows() -> None:
    page = (ROOT / "docs" / "explanation" / "how-it-works.md").read_text()
    blocks = _BLOCK.findall(page)
    assert len(blocks) >= 6
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "HOST_ROUTING_LAB": "how"}
    subprocess.run(["tests/lab/lab", "down"], cwd=ROOT, env=environment, check=True, timeout=120)
    try:
        for commands, expected in blocks:
            done = subprocess.run(
                ["bash", "-ec", commands],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
            for line in expected.splitlines():
                assert matches(line, done.stdout), f"{line!r} is not in the output of\n{commands}\n{done.stdout}"
    finally:
        subprocess.run(["tests/lab/lab", "down"], cwd=ROOT, env=environment, check=True, timeout=120)
