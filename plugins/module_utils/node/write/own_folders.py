# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of a node that belong to this collection or that it has made, and their modes.

    /var/lib/calico/folders.json    the folders of others' files in which ours are, and which a run of ours has made

Root's umask may have closed such a folder to the programs that read in it: BIRD, systemd-networkd, calicoctl. Each run
compares the modes and corrects them. A folder of the host itself (/etc/systemd) keeps its mode.
"""

from __future__ import annotations

import json
import os
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers import file
from ...files import bounded, folders
from ..machine import Machine
from ..store import atomic_file
from ..store.store import File

#: The folders that nobody else uses, with their modes. All can enter folders where programs without root's rights read.
OWN: t.Mapping[str, int] = {
    "/etc/calico": folders.PUBLIC,
    "/run/calico": folders.PUBLIC,
    "/usr/local/lib/calico": folders.PUBLIC,
    "/var/lib/calico": folders.PRIVATE,
}
_NAME = "folders.json"
#: The most bytes of the file that are read.
_LIMIT = 64 << 10
#: Folders of the host, whatever is in them, unless a run has made them.
_HOSTS = frozenset(
    ("/", "/etc", "/opt", "/run", "/srv", "/usr", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib")
    + (
        "/usr/local/libexec",
        "/usr/local/sbin",
        "/usr/local/share",
        "/usr/share",
        "/var",
        "/var/lib",
        "/etc/systemd",
        "/etc/systemd/system",
    )
)


def changes(machine: Machine, files: t.Sequence[File]) -> list[Change]:
    """Return the changes of existing folders whose mode is not the one that they must have.

    `files` are the node's files. A folder of OWN has exactly its mode. Another one is looked at if a file that all may
    read is in it, or further below, and if this collection has made it, or nothing but `files` is in it. All users must
    be able to enter and read it; further rights stay.
    """
    wanted = [file.WantedFolder(machine.placed(path), mode) for path, mode in OWN.items()]
    recorded = set(made(machine))
    for path in _above(entry.path for entry in files if int(entry.mode, 8) & 0o004):
        here = machine.placed(path)
        mode = file.folder_mode(here)
        if mode is not None and mode & folders.PUBLIC != folders.PUBLIC:
            if path in recorded or (path not in _HOSTS and _has_nothing_else(machine, path, files)):
                wanted.append(file.WantedFolder(here, mode | folders.PUBLIC))
    return file.folder_changes(wanted)


def made(machine: Machine) -> list[str]:
    """Return the recorded folders, the innermost ones first; [] if the record is missing or cannot be read."""
    try:
        found = bounded.read_json(os.path.join(machine.store, _NAME), _LIMIT)
    except (OSError, ValueError):
        return []
    if not isinstance(found, list):
        return []
    paths = {
        path for path in found if isinstance(path, str) and path.startswith("/") and os.path.normpath(path) == path
    }
    return sorted(paths - {"/"}, key=lambda path: (-path.count("/"), path))


def removable(machine: Machine) -> list[str]:
    """Return the folders that a teardown removes if nothing of others is in them, the innermost ones first.

    Folders that are removed with all in them are not among them: /run/calico, the store and the engine.
    """
    found = {*made(machine), "/etc/calico", "/etc/calico/etcd", "/etc/calico/podman"}
    return sorted(found, key=lambda path: (-path.count("/"), path))


def record(machine: Machine, files: t.Sequence[File]) -> None:
    """Record the folders that are missing and that writing `files` will make, but for those of OWN.

    This comes before the folders are made, so that a run that is killed leaves none that is not recorded.
    """
    known = made(machine)
    above = _above(entry.path for entry in files)
    new = [path for path in above if not os.path.exists(machine.placed(path)) and path not in known]
    if new:
        atomic_file.make_folder(machine.store)
        atomic_file.write(os.path.join(machine.store, _NAME), json.dumps(sorted([*known, *new])), 0o600)


def _above(paths: t.Iterable[str]) -> list[str]:
    """Return all folders above these paths but those of OWN, sorted."""
    found = set()
    for path in paths:
        folder = os.path.dirname(os.path.normpath(path))
        while folder not in found and folder not in ("", "/"):
            found.add(folder)
            folder = os.path.dirname(folder)
    return sorted(found - set(OWN))


def _has_nothing_else(machine: Machine, folder: str, files: t.Sequence[File]) -> bool:
    """Return whether `folder` contains only `files` and folders above them."""
    ours = {entry.path for entry in files}
    ours.update(_above(ours))
    return all(os.path.join(folder, name) in ours for name in os.listdir(machine.placed(folder)))
