# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of the engine's files: no import cycles, and folders small enough to survey at a glance."""

from __future__ import annotations

import ast
import functools
import pathlib
import typing as t

import pytest

from tests.unit.architecture.test_dependencies import ENGINE, ROOT, all_imports
from tests.unit.architecture.trees import tree_of

MOST_ENTRIES = 16
FOLDERS = sorted(
    path
    for room in ("module_utils", "plugin_utils")
    for path in (ROOT / "plugins" / room).rglob("*")
    if path.is_dir() and path.name != "__pycache__"
)

Graph = t.Mapping[str, t.Collection[str]]


@functools.cache
def imported_modules() -> dict[str, set[str]]:
    """Return {module: the modules of the engine that it imports}, as dotted names below module_utils.

    Imports inside functions and under `if TYPE_CHECKING` are included.
    """
    modules = {name_of(path) for path in ENGINE.rglob("*.py")}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for one in all_imports():
        if one.relative:
            target = one.target if one.target in modules else one.target.rpartition(".")[0]
            found[name_of(one.path)].add(target)
    return found


def name_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ENGINE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(graph: Graph) -> list[list[str]]:
    """Return paths of circles of imports, [] only if there is none; a path begins and ends with the same module."""
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append([*path[path.index(module) :], module])
        elif module not in done:
            for target in sorted(graph[module]):
                visit(target, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def test_circles_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []}) == [["a", "b", "c", "a"]]
    assert circles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []
    assert circles({"a": ["a"]}) == [["a", "a"]]


def test_no_module_imports_itself_by_a_detour() -> None:
    """No module imports itself indirectly: a cycle has no first file to read.

    An import for types alone counts as well.
    """
    found = [" -> ".join(path) for path in circles(imported_modules())]
    assert found == []


def test_docker_s_driver_asks_the_agent_by_its_api_alone() -> None:
    """Docker's driver is a process of its own: it loads neither the agent nor code that reads or writes the kernel."""
    graph = imported_modules()
    reached, waiting = set[str](), {"runtimes.docker.daemon"}
    while waiting:
        reached |= waiting
        waiting = {target for module in waiting for target in graph[module]} - reached
    rooms = {module.split(".")[0] for module in reached}
    assert rooms == {"base", "files", "resources", "runtimes", "sockets", "wire"}


def entries_imported(folder: pathlib.Path) -> dict[str, set[str]]:
    """Return {entry of the folder: the other entries that it imports}; an entry is a module, or a folder as a whole."""
    inside = f"{name_of(folder)}." if folder != ENGINE else ""
    found: dict[str, set[str]] = {}
    for module, targets in imported_modules().items():
        if module.startswith(inside) and module:
            entry = module[len(inside) :].split(".")[0]
            others = {target[len(inside) :].split(".")[0] for target in targets if target.startswith(inside)}
            found.setdefault(entry, set()).update(others - {entry})
    return found


@pytest.mark.parametrize(
    "folder",
    [ENGINE, *(folder for folder in FOLDERS if ENGINE in folder.parents)],
    ids=lambda path: str(path.relative_to(ROOT / "plugins")),
)
def test_the_entries_of_a_folder_import_each_other_one_way(folder: pathlib.Path) -> None:
    """Folders inside a room have an order like rooms: no folder or file imports another one that leads back to it."""
    found = [" -> ".join(path) for path in circles(entries_imported(folder))]
    assert found == []


#: Folders whose own files are both below and above a folder: what all share, and what puts all together.
BELOW_AND_ABOVE = {"cli", "fleet", "fleet/lint", "modules", "resources"}


def folders_imported(folder: pathlib.Path) -> dict[str, set[str]]:
    """Return {folder in `folder`: the others that its files import}; the files of `folder` itself are the folder ".".

    The package's own module, `__init__.py`, is one of these files.
    """
    inside = name_of(folder).split(".")
    modules = {name_of(path) for path in ENGINE.rglob("*.py") if path.name != "__init__.py"}

    def entry(module: str) -> str:
        parts = module.split(".")[len(inside) :]
        return parts[0] if len(parts) > 1 or (parts and module not in modules) else "."

    found: dict[str, set[str]] = {}
    for module, targets in imported_modules().items():
        if module.split(".")[: len(inside)] == inside:
            others = {entry(target) for target in targets if target.split(".")[: len(inside)] == inside}
            found.setdefault(entry(module), set()).update(others - {entry(module)})
    return found


@pytest.mark.parametrize(
    "folder",
    [one for one in FOLDERS if ENGINE in one.parents and name_of(one).replace(".", "/") not in BELOW_AND_ABOVE],
    ids=lambda path: str(path.relative_to(ROOT / "plugins")),
)
def test_the_folders_of_a_folder_have_an_order(folder: pathlib.Path) -> None:
    """No two folders import each other, and neither do a folder's own files, taken together, and one of its folders."""
    found = [" -> ".join(path) for path in circles(folders_imported(folder))]
    assert found == []


def test_folders_that_are_in_order_are_not_among_the_exceptions() -> None:
    assert {one for one in BELOW_AND_ABOVE if not circles(folders_imported(ENGINE / one))} == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT / "plugins")))
def test_a_folder_is_taken_in_at_a_glance(folder: pathlib.Path) -> None:
    entries = [path.name for path in folder.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, f"make a folder of {sorted(entries)}, or merge what is one thought"


def test_the_agent_hands_out_its_parts() -> None:
    """The agent puts finished parts together and forwards nothing: no function there refers to the agent for later."""
    tree = tree_of(ENGINE / "agent" / "agent.py")
    (agent,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {node.name: node for node in agent.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert {name for name in methods if not name.startswith("_")} == {"start", "run"}
    lambdas = [node for node in ast.walk(methods["__init__"]) if isinstance(node, ast.Lambda)]
    assert [ast.unparse(one) for one in lambdas if "self" in ast.unparse(one)] == []
    given = [ast.unparse(one) for one in ast.walk(methods["__init__"]) if isinstance(one, ast.Attribute)]
    assert not {f"self.{name}" for name in methods} & set(given)
