# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl import FILE... --to FOLDER`: an inventory from a real Calico's documents.

FOLDER/hosts.yml             the nodes
FOLDER/group_vars/all.yml    the variable that names the resources' folder, and workloads
FOLDER/.calico/KIND/NAME.yml a resource
FOLDER/.calico.lock.yml      the blocks of the nodes
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import typing as t

from ....files import bounded, folders, replacement
from ....migration import conversion
from ....migration.conversion import ImportedInventory
from ....migration.given_documents import GivenDocument
from ....migration.kept_workloads import HostLocalFile
from ...errors import DONE, CommandError, UsageError
from ...render import named_files, structured, yaml_text
from ...render.document_text import NotReadable, documents_of

_RESOURCES = ".calico"
_LOCKFILE = ".calico.lock.yml"
#: The line between the parts of an export of `calicoctl datastore migrate`.
_PARTS = re.compile(r"^===[ \t]*$", re.MULTILINE)
#: The most bytes of a file of host-local, and the most files of it.
_HOST_LOCAL_BYTES, _MOST_HOST_LOCAL = 4096, 100_000
#: Other files that host-local keeps beside those of addresses.
_NO_ADDRESS = re.compile(r"lock|last_reserved_ip\..*")
_LONGEST_NAME = 200


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    files = [*arguments.files, *arguments.filename]
    if not files:
        raise UsageError("say what to import: files or folders with Calico's documents, or - for stdin.")
    target = arguments.to
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise CommandError(f"--to {target} exists already, and is no empty folder. Name a new one.")
    host_local = [file for text in arguments.host_local for file in _host_local(text)]
    try:
        imported = conversion.convert(_given(files, arguments.recursive, arguments.skip_empty), host_local)
    except conversion.TooManyDocuments as error:
        raise CommandError(f"{error}. Import a part of them.") from error
    _write(target, _texts(imported))
    if not structured.written(arguments.output, imported.report.to_dict()):
        sys.stdout.write("\n".join([*imported.report.lines(), "", *_next_steps(target)]) + "\n")
    return DONE


def _next_steps(target: str) -> list[str]:
    return [
        f"{target} is an inventory now. Check it, and commit it with its hidden files:",
        f"  calicoctl validate -i {target}",
    ]


def _given(files: t.Sequence[str], recursive: bool, skip_empty: bool) -> t.Iterator[GivenDocument]:
    for path in named_files.paths(files, recursive, skip_empty):
        name = "<stdin>" if path == "-" else path
        line = 0
        for text in _PARTS.split(named_files.read(path)):
            try:
                for document, lines in documents_of(text, name):
                    yield GivenDocument(document, f"{name}:{line + (lines('') or 1)}")
            except NotReadable as error:
                where = f"{name}:{line + error.line}" if error.line else name
                raise CommandError(f"{where}: {error}") from error
            line += text.count("\n")


def _host_local(text: str) -> list[HostLocalFile]:
    """Return host-local's files of NODE=FOLDER, a copy of /var/lib/cni/networks. Links are left out."""
    node, equals, folder = text.partition("=")
    if not (node and equals and folder):
        raise UsageError(f"--host-local {text} is no NODE=FOLDER.")
    found: list[HostLocalFile] = []
    try:
        for network in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if not network.is_dir(follow_symlinks=False):
                continue
            for entry in sorted(os.scandir(network.path), key=lambda entry: entry.name):
                if not entry.is_file(follow_symlinks=False) or _NO_ADDRESS.fullmatch(entry.name):
                    continue
                if len(found) == _MOST_HOST_LOCAL:
                    raise CommandError(f"--host-local {folder} has more than {_MOST_HOST_LOCAL:,} files.")
                content = bounded.read(entry.path, _HOST_LOCAL_BYTES).decode("utf-8", "replace")
                found.append(HostLocalFile(node, network.name, entry.name, content))
    except OSError as error:
        raise CommandError(f"--host-local {error.filename or folder} cannot be read: {error.strerror}.") from error
    except bounded.TooLarge as error:
        raise CommandError(f"--host-local {folder} has a file of more than {_HOST_LOCAL_BYTES} bytes.") from error
    return found


def _texts(imported: ImportedInventory) -> dict[str, str]:
    """Return the texts of the inventory's files by their paths in its folder."""
    hosts: t.Any = {"all": {"children": {"calico_nodes": {"hosts": dict(imported.hosts)}}}}
    variables: dict[str, t.Any] = {"calico_resource_files": [_RESOURCES]}
    if imported.workloads:
        variables["calico_workloads"] = list(imported.workloads)
    texts = {"hosts.yml": yaml_text.dump(hosts), os.path.join("group_vars", "all.yml"): yaml_text.dump(variables)}
    for document in imported.documents:
        path = os.path.join(_RESOURCES, document["kind"].lower(), f"{_file_name(document['metadata'])}.yml")
        texts[path] = yaml_text.dump(document)
    if imported.lockfile:
        texts[_LOCKFILE] = imported.lockfile
    return texts


def _file_name(metadata: t.Mapping[str, t.Any]) -> str:
    """Return the name of a resource's file: names were found valid, so they have no slash and begin with no dot."""
    name = ".".join(metadata[key] for key in ("namespace", "name") if metadata.get(key))
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _write(target: str, texts: t.Mapping[str, str]) -> None:
    """Make the folder `target` with all files, or none of them. Raise OSError."""
    made = folders.make(os.path.abspath(target))
    try:
        for path, text in texts.items():
            content = text if text.startswith("#") else f"---\n{text}"
            replacement.store(os.path.join(target, path), content, 0o644)
    except BaseException:
        for entry in os.scandir(target):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        for folder in reversed(made):
            os.rmdir(folder)
        raise
