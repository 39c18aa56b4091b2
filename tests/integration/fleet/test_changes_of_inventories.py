# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/how-to/resource-files.md changes an inventory's files with calicoctl: each `$ ...` of it is typed here.

After a wanted change: DOCUMENTATION=write pytest tests/integration/fleet/test_changes_of_inventories.py, then read
git's differences.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

from tests.integration.fleet.test_pages_of_inventories import ENVIRONMENT, ROOT

PAGE = ROOT / "docs" / "how-to" / "resource-files.md"
HOSTS = """\
calico_nodes:
  hosts:
    node1: {calico_node_address: 10.10.1.11/24}
    node2: {calico_node_address: 10.10.1.12/24}
"""
_SECTION = re.compile(r"(?<=<!-- changes: ).*?(?=\n## )", re.DOTALL)
_VARIABLES = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def fleet(folder: pathlib.Path, page: str) -> None:
    """Make the inventory of the page in a folder: its variable and its pool."""
    variable, pool = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[:2]
    for path, text in (
        ("inventories/prod/hosts.yml", HOSTS),
        ("inventories/prod/group_vars/all.yml", variable),
        (pool.partition("\n")[0].removeprefix("# "), pool.partition("\n")[2]),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def shown(block: str, folder: pathlib.Path) -> str:
    """Run the commands of a block in a folder, one after the other; return it with their present output."""
    answers = []
    for line in block.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(
                ["sh", "-c", line[2:]],
                cwd=folder,
                env={**ENVIRONMENT, "PATH": f"{ROOT / 'bin'}:{ENVIRONMENT['PATH']}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=100,
                check=False,
            )
            assert done.returncode == (1 if "update conflict" in done.stdout else 0), done.stdout
            answers.append(f"{line}\n{done.stdout.replace(str(ROOT), 'COLLECTION')}")
    return "".join(answers)


def test_the_page_s_commands_change_the_files_as_shown(tmp_path: pathlib.Path) -> None:
    page = PAGE.read_text("utf-8")
    fleet(tmp_path, page.replace("[../resources]", "[../../resources]"))
    actual = page
    for section in _SECTION.findall(page):
        variables = _VARIABLES.search(section)
        if variables:
            with (tmp_path / "inventories/prod/group_vars/all.yml").open("a") as stream:
                stream.write(variables.group(1))
        changed = _CONSOLE.sub(lambda found: f"```console\n{shown(found.group(1), tmp_path)}```", section)
        actual = actual.replace(section, changed)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(actual, "utf-8")
    assert actual == page
    files = sorted(path.name for path in (tmp_path / "resources").rglob("*.yml"))
    assert files == ["node1.yml", "pools.yml", "tor-a.yml", "tor-b.yml"]
