# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Size of modules: Ansible sends what it packs with a module to every host in every run, and compiles it there."""

from __future__ import annotations

import ast
import functools
import pathlib

import pytest

from tests.unit.architecture.test_dependencies import ENGINE, ROOT, imports
from tests.unit.architecture.trees import tree_of

OURS = "ansible_collections.baremetal.host_routing.plugins.module_utils"


@functools.lru_cache
def packed(module: str) -> frozenset[pathlib.Path]:
    """Return the files below module_utils that come with a module, including packages' __init__.py."""
    tree = tree_of(ROOT / "plugins" / "modules" / f"{module}.py")
    waiting = [
        f"{node.module}.{name.name}".removeprefix(OURS).strip(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS)
        for name in node.names
    ]
    found: set[pathlib.Path] = set()
    while waiting:
        parts = waiting.pop().split(".")
        stems = [ENGINE.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
        for path in [stem / "__init__.py" for stem in stems] + [stem.with_suffix(".py") for stem in stems]:
            if path.exists() and path not in found:
                found.add(path)
                waiting += [entry.target for entry in imports(path) if entry.relative]
    return frozenset(found)


def test_the_search_finds_files_packed_with_a_module() -> None:
    """The search for the files that Ansible packs with a module finds two that the module node imports."""
    assert {ENGINE / "node" / "change" / "apply.py", ENGINE / "dataplane" / "drivers" / "route.py"} <= packed("node")


@pytest.mark.parametrize("module", ["convergence_info", "node_info", "probe", "soak"])
def test_modules_that_only_read_a_node_pack_no_code_that_changes_it(module: str) -> None:
    assert ENGINE / "node" / "change" / "apply.py" not in packed(module)
    assert ENGINE / "dataplane" / "planning" / "registry.py" not in packed(module)
    assert len(packed(module)) < 0.7 * len(packed("node"))
