# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine as nodes have it: the rooms of module_utils that bring a node to its state, without Ansible.

    /usr/local/lib/calico/<digest>/__main__.py      `python3 -I /usr/local/lib/calico/current apply` runs this
    /usr/local/lib/calico/<digest>/host_routing/    the rooms, as they are in the collection
    /usr/local/lib/calico/current -> <digest>

The controller builds, the node installs. The engine before the present one is kept: going back is one symbolic link.
"""

from __future__ import annotations

import compileall
import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import typing as t

from . import atomic_file

ROOT = "/usr/local/lib/calico"
PACKAGE = "host_routing"

#: What a node needs, below module_utils: folders whole, and single files. The fleet's compiler is not among them.
ROOMS = ("agent", "bgp", "bird", "cli", "dataplane", "ipam", "node", "policy", "preflight", "resources")
FILES = (
    "__init__.py",
    "addresses.py",
    "assigned_ports.py",
    "fleet/__init__.py",
    "fleet/attachment.py",
    "fleet/cidr.py",
    "fleet/errors.py",
    "fleet/guard.py",
    "fleet/node_state.py",
    "fleet/packed_json.py",
    "fleet/policy_json.py",
    "fleet/policy_state.py",
    "fleet/policy_tables.py",
    "fleet/remote_endpoints.py",
    "naming.py",
    "release.py",
    "selectors.py",
)

_MAIN = """# Runs the engine that lies beside this file: the agent, calicoctl, or host_routing/node/command.py.
import os
import sys

# Not by way of `current`, which may lead to another engine before this process has imported all of its own.
sys.path[0] = os.path.realpath(sys.path[0])

command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
if command == "agent":
    from host_routing.agent.daemon import main

    sys.exit(main(arguments))
if command == "calicoctl":
    from host_routing.cli.command import main

    sys.exit(main(arguments))

from host_routing.agent.hand_over import connect
from host_routing.node.command import main

sys.exit(main(sys.argv[1:], agent=connect))
"""


class BundleError(Exception):
    """A bundle that is not what it should be. The engine that was there stands."""


def bundle_digest(source: str) -> str:
    """16 hex digits that name the engine below `source`, the module_utils folder: equal for equal code."""
    return _digest(_content(source))


def build(source: str) -> bytes:
    """A gzipped tar, byte for byte the same for the same code and the same zlib."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in _content(source).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)


def installed_digest(root: str = ROOT) -> t.Optional[str]:
    """Of the engine in use, None where there is none."""
    try:
        digest = os.readlink(os.path.join(root, "current"))
    except OSError:
        return None
    return digest if os.path.exists(os.path.join(root, digest, "__main__.py")) else None


def install(data: bytes, digest: str, root: str = ROOT) -> bool:
    """Unpacks a bundle, compiles it and makes it the one in use. Returns whether it was another one before.

    `digest` is what the builder says that the bundle is. Raises BundleError, or atomic_file.FileError when the disk
    refuses; whatever was in use before still is then.
    """
    previous = installed_digest(root)
    if previous == digest:
        return False
    content = _unpacked(data)
    if _digest(content) != digest:
        raise BundleError(
            f"the engine that arrived is {_digest(content)} and should be {digest}. It was damaged on the way here. "
            "Run again; if it happens twice, look at the disk of the node and of the controller."
        )
    try:
        _place(content, digest, root)
        _point(digest, root)
    except OSError as error:
        raise atomic_file.FileError(
            f"the engine could not be put into {root}: {error.strerror}. What was there before stands unchanged. "
            "Make room or correct the file system, then run again."
        ) from error
    _sweep(root, {digest, previous})
    return True


def _content(source: str) -> dict[str, bytes]:
    paths = list(FILES)
    for room in ROOMS:
        for folder, folders, names in os.walk(os.path.join(source, room)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            paths += [os.path.relpath(os.path.join(folder, name), source) for name in names if name.endswith(".py")]
    content = {"__main__.py": _MAIN.encode()}
    for path in sorted(paths):
        with open(os.path.join(source, path), "rb") as stream:
            content[f"{PACKAGE}/{path}"] = stream.read()
    return content


def _digest(content: t.Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(content):
        total.update(f"{name}\0{len(content[name])}\0".encode())
        total.update(content[name])
    return total.hexdigest()[:16]


def _unpacked(data: bytes) -> dict[str, bytes]:
    content = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                parts = member.name.split("/")
                if stream is None or "" in parts or ".." in parts:
                    raise BundleError(
                        f"the engine that arrived holds {member.name!r}, which is no file of it. Run again."
                    )
                content[member.name] = stream.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BundleError(f"the engine that arrived cannot be unpacked: {error}. Run again.") from error
    return content


def _place(content: t.Mapping[str, bytes], digest: str, root: str) -> None:
    """Everything into a folder under a passing name, which then takes its own: a folder of that name is complete."""
    target = os.path.join(root, digest)
    if os.path.exists(os.path.join(target, "__main__.py")):
        return
    os.makedirs(root, mode=0o755, exist_ok=True)
    passing = tempfile.mkdtemp(prefix=".new-", dir=root)
    try:
        for name, text in content.items():
            path = os.path.join(passing, name)
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        compileall.compile_dir(passing, quiet=2, stripdir=passing, prependdir=target)
        os.chmod(passing, 0o755)
        os.replace(passing, target)
        atomic_file.sync_folder(root)
    except BaseException:
        shutil.rmtree(passing, ignore_errors=True)
        raise


def _point(digest: str, root: str) -> None:
    passing = os.path.join(root, f".current-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(passing)
    os.symlink(digest, passing)
    os.replace(passing, os.path.join(root, "current"))
    atomic_file.sync_folder(root)


def _sweep(root: str, keep: t.AbstractSet[t.Optional[str]]) -> None:
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if name not in keep and name != "current" and os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
