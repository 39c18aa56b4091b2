# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""There is one way to replace, sync, lock or read a file up to a limit, in module_utils/files, and one to read JSON.

Each exception has its reason.
"""

from __future__ import annotations

import ast
import functools
import pathlib

import pytest

from tests.unit.architecture.trees import tree_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENGINE = "plugins/module_utils"
_START = "It is installed alone and imports nothing of the engine. The alarm in /run ends with the boot."

_COPY = "It copies a value as plain JSON, and reads no text of others."

#: What a call may be made for, by its function: a module and the reason.
ALLOWED = {
    "replace": {
        f"{ENGINE}/files/replacement.py": "It replaces files for all others.",
        f"{ENGINE}/node/engine/engine_start.py": _START,
        f"{ENGINE}/node/engine/bundle.py": "It renames the folder of an engine and the link to it.",
        f"{ENGINE}/node/store/endpoints.py": "An add or a delete is committed by moving its record to another folder.",
        f"{ENGINE}/agent/api/server.py": "It gives a socket that listens its name.",
    },
    "fsync": {
        f"{ENGINE}/files/replacement.py": "It replaces files for all others.",
        f"{ENGINE}/files/folders.py": "It syncs folders for all others.",
        f"{ENGINE}/node/engine/bundle.py": "It syncs the files of a new folder, which is renamed as a whole.",
        f"{ENGINE}/node/ipam/allocation_journal.py": "It appends to a journal, and never replaces it at an add.",
    },
    "mkstemp": {},
    "json.load": {
        f"{ENGINE}/node/engine/engine_start.py": _START,
        f"{ENGINE}/node/store/short_wait.py": "It reads the store's own file in a process that loads little code.",
    },
    "json.loads": {
        f"{ENGINE}/base/typed_json.py": "It parses JSON for all others.",
        f"{ENGINE}/base/document_limits.py": "It reads documents of people up to limits, and names the line.",
        f"{ENGINE}/base/packed_json.py": "It unpacks what `pack` packed, whatever values Ansible had.",
        f"{ENGINE}/wire/protocol.py": "It refuses numbers and characters that answers cannot repeat.",
        f"{ENGINE}/runtimes/json_input.py": "It reads numbers that no runtime needs as 0, to write them again.",
        f"{ENGINE}/modules/engine_module.py": "It reads the controller's request, whatever values Ansible had.",
        f"{ENGINE}/node/engine/carried_start.py": "It runs before any module of the engine can be imported.",
        f"{ENGINE}/node/engine/engine_start.py": _START,
        f"{ENGINE}/fleet/inventory/flat_resource.py": _COPY,
        "plugins/plugin_utils/actions/engine_call.py": _COPY,
        "plugins/plugin_utils/sources/inventory_source.py": _COPY,
    },
    "flock": {f"{ENGINE}/files/locks.py": "It locks files for all others."},
}
#: Functions that do the same as the first one.
FUNCTIONS = {
    "replace": {("os", "replace"), ("os", "rename"), ("os", "renames"), ("os", "link"), ("shutil", "move")},
    "fsync": {("os", "fsync"), ("os", "fdatasync"), ("os", "sync")},
    "mkstemp": {("tempfile", "mkstemp"), ("tempfile", "NamedTemporaryFile"), ("tempfile", "mktemp")},
    "json.load": {("json", "load")},
    "json.loads": {("json", "loads"), ("json", "JSONDecoder"), ("json", "decoder"), ("json", "scanner")},
    "flock": {("fcntl", "flock"), ("fcntl", "lockf"), ("os", "lockf"), ("fcntl", "fcntl")},
}


Named = tuple[tuple[str, str], int]


def named(tree: ast.Module) -> list[Named]:
    """Return ((module, function), line) of each function that a module of Python names, imports by name included."""
    found: list[Named] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.append(((node.value.id, node.attr), node.lineno))
        elif isinstance(node, ast.ImportFrom):
            found += [((node.module or "", name.name), node.lineno) for name in node.names]
    return found


@functools.cache
def named_in_plugins() -> dict[str, list[Named]]:
    """Return `named` of each module of plugins/, by its path; only functions of FUNCTIONS are in it."""
    wanted = set().union(*FUNCTIONS.values())
    return {
        str(path.relative_to(ROOT)): [entry for entry in named(tree_of(path)) if entry[0] in wanted]
        for path in sorted((ROOT / "plugins").rglob("*.py"))
    }


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_one_module_does_it_and_few_others_have_a_reason(kind: str) -> None:
    """No module of plugins/ does it but those of ALLOWED, and each of these does it."""
    found = {
        path: lines
        for path, names in named_in_plugins().items()
        if (lines := [line for function, line in names if function in FUNCTIONS[kind]])
    }
    others = {path: lines for path, lines in found.items() if path not in ALLOWED[kind]}
    assert others == {}, "use module_utils/files, and base/typed_json.py for JSON"
    assert set(found) == set(ALLOWED[kind]), "remove the exception that is not needed"


def test_few_modules_replace_files() -> None:
    assert len(ALLOWED["replace"]) <= 5


def test_a_use_is_found_however_it_is_written() -> None:
    for text in ("import os\nos.replace(a, b)", "def f():\n  from os import rename", "import os\nx = os.rename"):
        assert [line for function, line in named(ast.parse(text)) if function in FUNCTIONS["replace"]] == [2]
    harmless = 'import dataclasses\ndataclasses.replace(a, b="c".replace("d", "e"))'
    assert FUNCTIONS["replace"].isdisjoint(function for function, _line in named(ast.parse(harmless)))


#: Modules that read one byte more than a limit by themselves, with the reason.
LIMITED = {
    f"{ENGINE}/cli/render/document_file.py": "It also reads pipes and standard input, and says more of other kinds.",
    f"{ENGINE}/datastore/gate/lists.py": "It runs on members, which have of other rooms only what reads JSON.",
    f"{ENGINE}/node/change/missing_files.py": "It compares a file with a text of this length.",
    f"{ENGINE}/node/engine/engine_start.py": "It is installed alone and imports nothing of the engine.",
    f"{ENGINE}/runtimes/reporter/engine_api.py": "It reads an answer of HTTP.",
}


def test_one_module_reads_files_up_to_a_limit() -> None:
    """No other module of plugins/ calls read(LIMIT + 1) to find out whether a file is too large."""
    found = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "read"
        for argument in node.args
        if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add) and ast.unparse(argument.right) == "1"
    }
    assert found == set(LIMITED), "use module_utils/files/bounded.py"
