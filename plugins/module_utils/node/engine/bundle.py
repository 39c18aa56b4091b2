# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle of the engine that nodes get: the rooms of module_utils that bring a node to its state, without Ansible.

    /usr/local/lib/calico/<digest>/__main__.py      `start` runs this
    /usr/local/lib/calico/<digest>/host_routing/    the rooms, as they are in the collection
    /usr/local/lib/calico/current -> <digest>
    /usr/local/lib/calico/manifests/<digest>.json   sha256 of each file of an engine, byte code included
    /usr/local/lib/calico/start                     what units and calicoctl run: see engine_start.py

The controller builds the bundle, with byte code of its own interpreter. The node installs it, and compiles the sources
if its interpreter is another one. The previous engine is kept, so that one symbolic link returns to it. Everything
belongs to root and can be read by all, whatever root's umask, because members of the group calico run calicoctl from
here.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import marshal
import os
import pathlib
import shutil
import sys
import tempfile
import typing as t
import zlib

from ...files import folders, replacement
from ..store import atomic_file
from . import carried_start, engine_start
from .carried_start import PackedEngine, UnpackedEngine
from .engine_start import sources_digest as _digest

ROOT = engine_start.ROOT
PACKAGE = engine_start.PACKAGE

#: The folders below module_utils that a node needs. `fleet`, the compiler, is not among them.
ROOMS = (
    "agent", "base", "bgp", "bird", "cli", "dataplane", "datastore", "files", "ipam", "modules", "node",
    "migration", "pathwatch", "policy", "preflight", "resources", "runtimes", "sockets", "state", "wire",
)  # fmt: skip

_MAIN = """# Runs the engine beside this file: the agent, calicoctl, a process for runtimes, or node/change/command.py.
import os
import sys

# All byte code that lies here is compared with the manifest that the installation wrote, so no more is added.
sys.dont_write_bytecode = True
# Not by way of `current`, which may lead to another engine before this process has imported all of its own.
sys.path[0] = os.path.realpath(sys.path[0])

command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
if command == "agent":
    from host_routing.agent.daemon import main

    sys.exit(main(arguments))
if command == "calicoctl":
    from host_routing.cli.command import main

    sys.exit(main(arguments))
if command == "docker":
    from host_routing.runtimes.docker.daemon import main

    sys.exit(main(arguments))
if command == "runtimes":
    from host_routing.runtimes.reporter.daemon import main

    sys.exit(main(arguments))
if command == "wait" and len(arguments) == 1:
    from host_routing.node.store.short_wait import is_over

    if is_over(arguments[0]):
        sys.exit(0)

from host_routing.node.change.command import main

sys.exit(main(sys.argv[1:]))
"""


_START_SOURCE = f"{PACKAGE}/node/engine/engine_start.py"
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644
#: The level of zlib: of 6.4 MB it makes 2.2 MB in 0.3 s. Level 1 makes 2.6 MB in 0.14 s, 9 makes 2.2 MB in 1.2 s.
_LEVEL = 6
#: The flags of byte code that Python uses without a look at its source (PEP 552): `start` compares both.
_UNCHECKED = (1).to_bytes(4, "little")


class BundleError(Exception):
    """The error for a bundle that is damaged or missing, or has no safe place. The installed engine is unchanged."""


def bundle_digest(source: str) -> str:
    """Return the 16 hex digits that name the engine below `source`, the module_utils folder. Raise OSError."""
    return _digest(_content(source))


def build(source: str) -> PackedEngine:
    """Return the engine below `source`, the module_utils folder, packed as `carried_start.unpack` says.

    The byte code is that of this interpreter, for files below ROOT. Raise OSError if a file cannot be read.
    """
    content = _content(source)
    folder = os.path.join(ROOT, _digest(content))
    byte_code = [_byte_code(text, os.path.join(folder, name)) for name, text in content.items()]
    files = [(name, len(text), len(code)) for (name, text), code in zip(content.items(), byte_code)]
    head = json.dumps({"interpreter": carried_start.interpreter(), "files": files}).encode()
    data = zlib.compress(b"".join((head, b"\n", *content.values(), *byte_code)), _LEVEL)
    return PackedEngine.from_data(data)


def installed_digest(root: str = ROOT) -> t.Optional[str]:
    """Return the digest of the engine in use below `root`, to which `current` leads; None if there is none."""
    return engine_start.in_use(root) or None


def damage(root: str = ROOT) -> tuple[str, ...]:
    """Return what is wrong with the engine in use, a clause for each; () without an engine, or if nothing is.

    That is what `engine_start.problems` and `surroundings` return, and a file `start` other than the engine's own. If
    `engine_start.run_module` has checked this engine in this process, only `start` is compared. An engine of a release
    before 0.2.0 has no `start` and no manifest: only its sources are compared.
    """
    digest = engine_start.in_use(root)
    if not digest:
        return ()
    found: list[engine_start.EngineProblem] = []
    if (os.path.realpath(root), digest) not in engine_start.checked:
        found = [*engine_start.surroundings(root), *engine_start.problems(root, digest)]
    source = os.path.join(root, digest, _START_SOURCE)
    # If the engine's own `start` was removed, its sources are not those of its name, which stays a problem.
    if not os.path.lexists(source):
        return tuple(one.text for one in found if not one.byte_code)
    own = os.path.join(root, engine_start.START)
    differs = [] if _read(own) == _read(source) else [f"{own} is another file"]
    return (*(one.text for one in found), *differs)


def install(packed: PackedEngine, digest: str, root: str = ROOT) -> bool:
    """Unpack an engine that `build` made, compile it if need be, and make it the engine in use.

    Return True, or False if it is in use already and not damaged. Of other engines in `root`, only the one that was in
    use before stays. `digest` is what the builder says that the engine is. Raise BundleError if it is damaged or
    another one, or if others than root may write a folder above `root`. Raise atomic_file.FileError if the disk
    refuses. After an error the former engine stays in use, unless only the last step failed: writing the folder's
    entries to the disk.
    """
    previous = installed_digest(root)
    if previous == digest and not damage(root):
        return False
    _check_above(root)
    engine = _unpacked(packed, digest)
    try:
        _secure(root)
        _place(engine, digest, root)
        _activate(digest, engine.sources[_START_SOURCE], root)
    except OSError as error:
        if previous != digest == installed_digest(root):
            raise atomic_file.FileError(
                f"engine {digest} was put into {root} and is in use, but the folder could not be synced to the disk: "
                f"{error.strerror}. A power failure may undo it. Correct the file system, then run again."
            ) from error
        raise atomic_file.FileError(
            f"the engine could not be put into {root}: {error.strerror}. What was there before stands unchanged. "
            "Make room or correct the file system, then run again."
        ) from error
    _sweep(root, {digest, previous})
    return True


def use(digest: str, root: str = ROOT) -> bool:
    """Make an engine that is in `root` already, as the one before, the engine in use; `install` puts a new one there.

    Return True, or False if it is in use already. Of other engines, only the one that was in use before stays. Raise
    BundleError if there is none of this digest or it was changed, and what `install` raises for `root` and the disk.
    """
    previous = installed_digest(root)
    if previous == digest:
        return False
    _check_above(root)
    start = _read(os.path.join(root, digest, _START_SOURCE))
    checked = (os.path.realpath(root), digest) in engine_start.checked
    wrong = [] if checked else [one.text for one in engine_start.problems(root, digest)]
    if start is None or wrong:
        why = wrong[0] if wrong else "it has no start"
        raise BundleError(
            f"the engine {digest} in {root} cannot be used: {why}. The engine in use stays. Run again: the controller "
            "then sends the engine."
        )
    try:
        _secure(root)
        _activate(digest, start, root)
    except OSError as error:
        raise atomic_file.FileError(
            f"the engine {digest} in {root} could not be made the one in use: {error.strerror}. Make room or correct "
            "the file system, then run again."
        ) from error
    _sweep(root, {digest, previous})
    return True


def _check_above(root: str) -> None:
    """Raise BundleError if others than root may write a folder above `root`."""
    above = engine_start.above(root)
    if above:
        raise BundleError(
            f"the engine cannot be put into {root}: {'; '.join(one.text for one in above)}. Users who may write there "
            "can replace what root runs. Have root own these folders, take the right to write from group and others "
            "(chmod go-w), then run again. What was there before stands unchanged."
        )


def _content(source: str) -> dict[str, bytes]:
    paths = ["__init__.py"]
    for room in ROOMS:
        for folder, inner, names in os.walk(os.path.join(source, room)):
            inner[:] = [name for name in inner if name != "__pycache__"]
            paths += [os.path.relpath(os.path.join(folder, name), source) for name in names if name.endswith(".py")]
    content = {"__main__.py": _MAIN.encode()}
    for path in sorted(paths):
        with open(os.path.join(source, path), "rb") as stream:
            content[f"{PACKAGE}/{path}"] = stream.read()
    return content


def _byte_code(text: bytes, path: str) -> bytes:
    """Return this interpreter's .pyc content of a source that lies at `path`, without the docstrings of functions.

    Nothing reads them there, and each start of the engine would load them.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node) is not None:
            node.body[0] = ast.copy_location(ast.Pass(), node.body[0])
    code = marshal.dumps(compile(tree, path, "exec", dont_inherit=True, optimize=0))
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text) + code


def _byte_code_path(name: str) -> str:
    """Return the path of this interpreter's byte code for the source `name`; both are relative to the engine."""
    folder, dummy, file = f"/{name}".rpartition("/")
    return f"{folder}/__pycache__/{file[: -len('.py')]}.{sys.implementation.cache_tag}.pyc".lstrip("/")


def _unpacked(packed: PackedEngine, digest: str) -> UnpackedEngine:
    """Return the files of the engine `digest`. Raise BundleError if it is damaged or another one."""
    remedy = (
        "It was damaged on the way here. Run again; if it happens twice, look at the disk of the node and of the "
        "controller."
    )
    if packed.is_damaged():
        found = PackedEngine.from_data(packed.data).sha256
        raise BundleError(f"the engine that arrived is {found} and should be {packed.sha256}. {remedy}")
    try:
        engine = carried_start.unpack(packed.data)
    except ValueError as error:
        raise BundleError(f"the engine that arrived is not one: {error}. {remedy}") from error
    found = _digest(engine.sources)
    if found != digest:
        raise BundleError(f"the engine that arrived is {found} and should be {digest}. {remedy}")
    return engine


def _secure(root: str) -> None:
    """Make `root` and its folder of manifests (no symbolic link), which only this process's user may write."""
    for folder in (root, os.path.join(root, engine_start.MANIFESTS)):
        if folder != root and os.path.islink(folder):
            os.unlink(folder)
        folders.make(folder, _FOLDER_MODE)
        os.chown(folder, os.geteuid(), os.getegid())
        os.chmod(folder, _FOLDER_MODE)


def _place(engine: UnpackedEngine, digest: str, root: str) -> None:
    """Write all files into a temporary folder, then rename it, so that a folder with the engine's name is complete.

    Sources without byte code are compiled. An unchanged folder stays, a changed one is renamed. Byte code is not synced
    to the disk: if a power failure loses it, engine_start.choose starts this engine without it.
    """
    target = os.path.join(root, digest)
    if os.path.exists(os.path.join(target, engine_start.MAIN)) and not engine_start.problems(root, digest):
        return
    byte_code = {
        _byte_code_path(name): engine.byte_code.get(name) or _byte_code(text, os.path.join(target, name))
        for name, text in engine.sources.items()
    }
    passing = tempfile.mkdtemp(prefix=".new-", dir=root)
    try:
        _write_files(byte_code, passing, sync=False)
        _write_files(engine.sources, passing, sync=True)
        manifest = engine_start.manifest_text({**engine.sources, **byte_code})
        replacement.replace(engine_start.manifest_path(root, digest), manifest.encode(), _FILE_MODE)
        if os.path.exists(target):
            os.rename(target, tempfile.mkdtemp(prefix=".damaged-", dir=root))
        os.replace(passing, target)
        folders.sync(root)
    except BaseException:
        shutil.rmtree(passing, ignore_errors=True)
        raise


def _write_files(files: t.Mapping[str, bytes], folder: str, sync: bool) -> None:
    """Write `files` (path to content) below `folder`, readable for all; with `sync` they are on the disk then."""
    for above in sorted({str(parent) for name in files for parent in pathlib.PurePosixPath(name).parents}):
        folders.make(os.path.join(folder, above), _FOLDER_MODE)
        os.chmod(os.path.join(folder, above), _FOLDER_MODE)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), _FILE_MODE)
            if sync:
                os.fsync(stream.fileno())


def _read(path: str) -> t.Optional[bytes]:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return None


def _activate(digest: str, start: bytes, root: str) -> None:
    """Install the engine's `start`, and point `current` to the engine."""
    replacement.replace(os.path.join(root, engine_start.START), start, _FILE_MODE)
    passing = os.path.join(root, f".current-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(passing)
    os.symlink(digest, passing)
    os.replace(passing, os.path.join(root, "current"))
    folders.sync(root)


def _sweep(root: str, keep: t.AbstractSet[t.Optional[str]]) -> None:
    """Remove all folders and manifests in `root` but those of the engines in `keep` (digests), as far as possible."""
    for name in _names(root):
        path = os.path.join(root, name)
        if name not in keep and name != engine_start.MANIFESTS and os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
    kept = {f"{digest}.json" for digest in keep}
    for name in _names(os.path.join(root, engine_start.MANIFESTS)):
        if name not in kept:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(root, engine_start.MANIFESTS, name))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
