# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/contributing/architecture.md in the form of tests: allowed dependencies, and what the engine must not touch."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import sys

import pytest

from tests.unit.architecture.trees import tree_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENGINE = ROOT / "plugins" / "module_utils"

# room -> the rooms that it may import, or the parts of one that it may import: folders or modules. A room is a folder
# of module_utils.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    # Files and folders on the disk, for all rooms that do I/O.
    "files": {"base"},
    # Clients of local sockets, for the rooms that speak a protocol there. They do I/O, so they are no part of base.
    "sockets": set(),
    "resources": {"base"},
    "ipam": {"resources", "base"},
    "policy": {"resources", "base"},
    "bgp": {"resources", "base"},
    # The contract between controller and node. Drivers read it; they know nothing about the compiler.
    "state": {"bgp", "policy", "resources", "base"},
    "fleet": {"state", "bgp", "ipam", "policy", "resources", "base"},
    # The watch over paths has no clock: its caller passes the time.
    "pathwatch": {"state", "base"},
    # The agent's API, for the agent and for all that ask it.
    "wire": {"files", "sockets", "ipam", "state", "base"},
    "dataplane": {"files", "state", "bgp", "policy", "base"},
    "bird": {"bgp", "files", "sockets", "state", "base"},
    "preflight": {"bgp", "bird", "dataplane.kernel.port", "state", "base"},
    "datastore": {"dataplane.change", "files", "state", "policy", "resources", "base"},
    "node": {
        "bgp", "dataplane", "datastore", "bird", "files", "preflight", "ipam", "policy", "sockets", "state",
        "wire", "base",
    },
    # The plugins of container runtimes, which the agent runs or which ask it from processes of their own.
    "runtimes": {
        "bird.client", "bird.errors", "dataplane.drivers.workload", "dataplane.kernel.port", "files",
        "ipam.allocations", "resources", "state", "wire", "base",
    },
    "agent": {
        "node", "datastore", "runtimes", "bgp", "dataplane", "bird", "files", "preflight", "ipam", "pathwatch",
        "policy", "sockets", "state", "resources", "wire", "base",
    },
    # A real Calico's documents become an inventory.
    "migration": {"ipam", "resources", "base"},
    "cli": {
        "migration", "node", "datastore", "bgp", "dataplane", "bird", "files", "preflight", "ipam", "policy", "state",
        "resources", "wire", "base",
    },
    # Text and values for people, on the controller. It does no I/O, as the parts of other rooms that it uses.
    "report": {"cli", "datastore.heartbeats", "fleet", "ipam", "state", "base"},
    # Edits of documents and of their texts, on the controller. Of cli it takes the writer of YAML, which does no I/O,
    # and of the datastore the keys, documents and messages of live documents.
    "editing": {
        "cli.render.yaml_text", "datastore.documents", "datastore.gateway", "datastore.keys", "datastore.live",
        "policy", "resources", "base",
    },
    # An operator's changes of live documents, on the controller.
    "live": {"cli", "editing", "datastore", "files", "policy", "resources", "state", "base"},
    # The modules, which the controller sends as an archive or the installed engine runs.
    "modules": {"cli", "node", "bgp", "dataplane", "bird", "datastore", "preflight", "state", "wire", "base"},
}  # fmt: skip

PURE = {"base", "resources", "bgp", "ipam", "pathwatch", "policy", "state", "fleet", "report", "editing", "migration"}
# Modules with which code reads clocks, files, the kernel or random numbers.
IMPURE = {
    "asyncio", "fcntl", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets",
    "select", "shutil", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
    "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "input", "print", "exec", "eval", "compile", "__import__"}
CLOCK_CALLS = {"now", "utcnow", "today"}

# Third-party libraries, and the rooms inside whose functions they may be imported. PyYAML reads the lockfile, on the
# controller only, where Ansible brings it. It also reads the files of `calicoctl validate`, on hosts that have it. In
# base it measures a document against limits before either of them reads it. In editing it says where a value is
# written, on the controller.
LIBRARY = "pyroute2"
LIBRARIES = {LIBRARY: {"dataplane"}, "yaml": {"ipam", "cli", "base", "editing"}}


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported name. `target` is dotted, and below module_utils if relative.

    `lazy`: inside a function. `typing_only`: under `if TYPE_CHECKING`. An absolute `from a import b` has target `a`.
    """

    path: pathlib.Path
    line: int
    relative: bool
    target: str
    lazy: bool
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


def files(room: str | None = None) -> list[pathlib.Path]:
    return [path for path in sorted(ENGINE.rglob("*.py")) if room is None or room_of(path) == room]


def room_of(path: pathlib.Path) -> str:
    first = path.relative_to(ENGINE).parts[0]
    return first[: -len(".py")] if first.endswith(".py") else first


@functools.cache
def imports(path: pathlib.Path) -> tuple[Import, ...]:
    package = path.relative_to(ENGINE).parts[:-1]
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool, typing_only: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(path, node.lineno, False, name.name, lazy, typing_only) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - (node.level - 1)]
                stem = ".".join((*base, *(node.module or "").split("."))).strip(".")
                targets = [f"{stem}.{name.name}".strip(".") for name in node.names]
            else:
                targets = [node.module or ""]
            found.extend(Import(path, node.lineno, node.level > 0, name, lazy, typing_only) for name in targets)
        in_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy or in_function, typing_only or guarded)

    visit(tree_of(path), False, False)
    return tuple(found)


@functools.cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for path in files() for found in imports(path))


def room_of_target(target: str) -> str:
    return target.split(".")[0]


def test_every_room_is_known() -> None:
    rooms = {room_of(path) for path in files()} - {"__init__"}
    assert rooms <= set(ALLOWED), f"draw {sorted(rooms - set(ALLOWED))} in docs/contributing/architecture.md and here"


def test_own_code_is_imported_relatively() -> None:
    """Own code is imported relatively, because nodes run the same tree without Ansible."""
    wrong = [str(found) for found in all_imports() if found.target.split(".")[0] in ("ansible", "ansible_collections")]
    assert wrong == []


def test_only_the_standard_library_is_imported() -> None:
    wrong = []
    for found in all_imports():
        top = found.target.split(".")[0]
        if found.relative or found.typing_only or top in sys.stdlib_module_names:
            continue
        if found.lazy and room_of(found.path) in LIBRARIES.get(top, ()):
            continue
        wrong.append(str(found))
    assert wrong == [], f"the standard library only, and inside functions of these rooms {LIBRARIES}"


def test_arrows_point_one_way() -> None:
    wrong = []
    for found in all_imports():
        here = room_of(found.path)
        if not found.relative or here == "__init__":
            continue
        there = room_of_target(found.target)
        if there != here and not any(f"{found.target}.".startswith(f"{part}.") for part in ALLOWED[here]):
            wrong.append(str(found))
    assert wrong == []


@pytest.mark.parametrize("room", sorted(PURE))
def test_the_engine_is_pure(room: str) -> None:
    wrong = []
    for path in files(room):
        wrong += [str(found) for found in imports(path) if not found.relative and found.target.split(".")[0] in IMPURE]
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            where = f"{path.relative_to(ROOT)}:{node.lineno} calls"
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                wrong.append(f"{where} {node.func.id}")
            if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS:
                wrong.append(f"{where} .{node.func.attr}")
    assert wrong == []


def test_observing_needs_no_library() -> None:
    """No function of dataplane named observe... imports pyroute2, so that check mode works on a host without it."""
    wrong = []
    for path in files("dataplane"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("observe"):
                wrong += [
                    f"{path.relative_to(ROOT)}:{inner.lineno} in {node.name}"
                    for inner in ast.walk(node)
                    if isinstance(inner, (ast.Import, ast.ImportFrom)) and LIBRARY in ast.unparse(inner)
                ]
    assert wrong == []
