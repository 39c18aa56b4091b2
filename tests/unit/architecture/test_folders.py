# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every folder and file that hosts and the controller get has its mode, whatever the umask of root is."""

from __future__ import annotations

import ast
import pathlib

import pytest
import yaml

from tests.unit.architecture.trees import tree_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENGINE = ROOT / "plugins" / "module_utils"
#: The module that makes folders, and the start of the engine, which is installed alone and sets the mode itself.
MAKERS = {ENGINE / "files" / "folders.py", ENGINE / "node" / "engine" / "engine_start.py"}
#: Calls that make a folder with a mode that the umask reduces. tempfile's folders are for their maker alone.
CALLS = {"makedirs", "mkdir", "copytree", "copytree2"}
#: Modules of Ansible that make files or folders, and those of their states that make none.
WRITERS = {f"ansible.builtin.{name}" for name in ("assemble", "copy", "file", "get_url", "template", "unarchive")}
MAKES_NOTHING = {"absent", "link"}


def test_folders_are_made_in_one_place() -> None:
    """Nothing in plugins/ makes a folder but files/folders.py, so that each has its mode."""
    called = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.attr}"
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        if path not in MAKERS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS
    ]
    assert called == [], "use module_utils/files/folders.py"


def tasks(found: object) -> list[dict]:
    """Return all mappings inside a YAML document; tasks are among them."""
    if isinstance(found, list):
        return [inner for entry in found for inner in tasks(entry)]
    if isinstance(found, dict):
        return [found, *(inner for entry in found.values() for inner in tasks(entry))]
    return []


@pytest.mark.parametrize(
    "path",
    [path for part in ("roles", "playbooks") for path in sorted((ROOT / part).rglob("*.yml"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_tasks_name_the_mode_of_what_they_write(path: pathlib.Path) -> None:
    """A task that writes a file or makes a folder names its mode, which Ansible sets whatever the umask is."""
    without = [
        task.get("name")
        for task in tasks(yaml.safe_load(path.read_text("utf-8")))
        for writer in WRITERS & set(task)
        if task[writer].get("state") not in MAKES_NOTHING and "mode" not in task[writer]
    ]
    assert without == []
