# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a module by an engine that comes with the call; nothing of it is written to the node's disk.

    python3 -I -B -c COMMAND <digest> <sha256> <module>

The input has the length of this file in bytes as a line, this file, the length of the packed engine as a line, the
packed engine, and then the request for modules/engine_module.py. COMMAND reads and runs this file, which imports the
engine's modules from memory: from their byte code if it is that of this interpreter, else from their sources.

Since this file runs by itself, it imports the standard library only. Python 3.8 can parse and run it. bundle.py packs
what is unpacked here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import sys
import types
import typing as t
import zlib

ROOT = "/usr/local/lib/calico"
PACKAGE = "host_routing"
COMMAND = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())))"
#: The exit status for a packed engine that is not the one of its sha256. No module has started.
DAMAGED = 87
#: The bytes of a .pyc file before its code (PEP 552).
BYTE_CODE_HEAD = 16


class PackedEngine(t.NamedTuple):
    """An engine as the controller sends it, and the sha256 of `data` in hex as the controller computed it."""

    data: bytes
    sha256: str

    @classmethod
    def from_data(cls, data: bytes) -> PackedEngine:
        return cls(data, hashlib.sha256(data).hexdigest())

    def is_damaged(self) -> bool:
        return hashlib.sha256(self.data).hexdigest() != self.sha256


class UnpackedEngine(t.NamedTuple):
    """The files of an engine by their paths.

    `byte_code` has the contents of .pyc files by the paths of their sources; empty if it is for another interpreter.
    """

    sources: dict[str, bytes]
    byte_code: dict[str, bytes]


#: The engine that came with the call that this process runs, None in all other processes.
arrived: t.Optional[PackedEngine] = None


def interpreter() -> str:
    """Return what byte code depends on: the tag in the names of its files, a blank, and its magic number in hex."""
    return f"{sys.implementation.cache_tag} {importlib.util.MAGIC_NUMBER.hex()}"


def unpack(data: bytes) -> UnpackedEngine:
    """Return the files of a packed engine.

    It is compressed by zlib: a line of JSON with `interpreter` and `files`, which has the path, the size of the source
    and that of its byte code for each file; then all sources, then all byte code. Byte code for another interpreter is
    left out. Raise ValueError, with the reason as a clause, if `data` is anything else.
    """
    try:
        plain = zlib.decompress(data)
        end = plain.index(b"\n")
        head = json.loads(plain[:end])
        files = [(str(name), int(source), int(size)) for name, source, size in head["files"]]
        same = head["interpreter"] == interpreter()
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    for name, *sizes in files:
        if {"", ".", ".."} & set(name.split("/")) or not name.endswith(".py") or min(sizes) < 0:
            raise ValueError(f"it holds {name!r}, which is no file of an engine")
    at, pieces = end + 1, []
    for size in (*(source for name, source, code in files), *(code for name, source, code in files)):
        pieces.append(plain[at : at + size])
        at += size
    if at != len(plain):
        raise ValueError(f"it cannot be unpacked: {len(plain)} bytes in the place of {at}")
    names = [name for name, source, code in files]
    return UnpackedEngine(dict(zip(names, pieces)), dict(zip(names, pieces[len(names) :])) if same else {})


class EngineModules:
    """An importer of the modules of an engine in memory, which say that they are files below `folder`."""

    def __init__(self, engine: UnpackedEngine, folder: str) -> None:
        self._engine, self._folder = engine, folder
        self._paths = {_module_name(path): path for path in engine.sources}

    def find_spec(self, name: str, *dummy: t.Any) -> t.Optional[importlib.machinery.ModuleSpec]:
        """Return where the module `name` is, None if the engine does not have it."""
        place = self._paths.get(name)
        if place is None:
            return None
        package = place.endswith("/__init__.py")
        # importlib.abc has a base class for importers, but takes longer to import than a small module of the engine.
        loader = t.cast(t.Any, self)
        path = os.path.join(self._folder, place)
        spec = importlib.machinery.ModuleSpec(name, loader, origin=path, is_package=package)
        spec.has_location = True
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Return None: the module is an ordinary one."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code. Raise SyntaxError if this interpreter cannot compile it."""
        place = self._paths[module.__name__]
        code = self._engine.byte_code.get(place)
        exec(
            marshal.loads(memoryview(code)[BYTE_CODE_HEAD:])
            if code
            else compile(self._engine.sources[place], os.path.join(self._folder, place), "exec", dont_inherit=True),
            module.__dict__,
        )

    def get_source(self, name: str) -> str:
        """Return the source of a module of the engine, which tracebacks show. Raise KeyError for another module."""
        return self._engine.sources[self._paths[name]].decode()


def _module_name(path: str) -> str:
    """Return the dotted name of the module with this path. Python 3.8 has no str.removesuffix."""
    package = "/__init__.py"
    return path[: -len(package if path.endswith(package) else ".py")].replace("/", ".")


def main(arguments: t.Sequence[str]) -> int:
    """Run a module by the packed engine on stdin; `arguments` are its digest, its sha256 and the module's name.

    The module's request follows the engine there. Return 1 if the module's answer, which goes to stdout, is a failure,
    else 0. Return DAMAGED if the packed engine does not have this sha256: then nothing of it has run. Exit with a
    sentence on stderr if this Python is too old. Raise ValueError for other arguments or input, KeyError for a request
    without a key.
    """
    digest, sha256, name = arguments
    packed = PackedEngine(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())), sha256)
    if packed.is_damaged():
        return DAMAGED
    sys.meta_path.insert(0, EngineModules(unpack(packed.data), os.path.join(ROOT, digest)))
    problem = importlib.import_module(f"{PACKAGE}.node.engine.engine_start").too_old()
    if problem:
        raise SystemExit(problem)
    # In the engine this file is another module, with an `arrived` of its own, which the code of the engine reads.
    t.cast(t.Any, importlib.import_module(f"{PACKAGE}.node.engine.carried_start")).arrived = packed
    return int(importlib.import_module(f"{PACKAGE}.modules.engine_module").main([name]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
