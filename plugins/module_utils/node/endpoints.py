# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the workloads that stand on this node, and of those that are being made or taken away.

    /run/calico/workloads/<id>.json              stands: the agent keeps it so
    /run/calico/workloads/unfinished/<id>.json   an add or a delete that is under way: after a crash it is removed

One file each, on a tmpfs: what they speak of does not outlive a boot either, so nothing is synced. Each step is one
rename, whole or not at all, and may be repeated. One thread writes; any process may read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import urllib.parse

from ..fleet.attachment import Workload

FOLDER = "/run/calico/workloads"
UNFINISHED = "unfinished"

#: Characters of a file's name before a hash takes the rest's place (NAME_MAX is 255).
_LONGEST = 200
_SUFFIX = ".json"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Endpoints:
    """Every method but `load` and `unfinished` raises OSError."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._unfinished = os.path.join(folder, UNFINISHED)

    def load(self) -> tuple[list[Workload], list[str]]:
        """Workloads that stand, by id, and a sentence for each record that cannot be read; it is left where it is."""
        return _read(self._folder)

    def unfinished(self) -> tuple[list[Workload], list[str]]:
        """Workloads whose add or delete was begun and not finished; as `load`."""
        return _read(self._unfinished)

    def save(self, workload: Workload) -> None:
        """The record of a workload that stands, new or in place of the last one."""
        _write(self._folder, workload)

    def remove(self, identity: str) -> None:
        """The record of a workload that stands."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, file_name(identity)))

    def begin(self, workload: Workload) -> None:
        """An add begins."""
        _write(self._unfinished, workload)

    def commit(self, identity: str) -> None:
        """The add is done: the workload stands."""
        self._move(self._unfinished, self._folder, identity)

    def leave(self, identity: str) -> None:
        """A delete begins: the workload stands no longer."""
        self._move(self._folder, self._unfinished, identity)

    def forget(self, identity: str) -> None:
        """The delete is done, or the add is undone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._unfinished, file_name(identity)))

    def _move(self, source: str, target: str, identity: str) -> None:
        name = file_name(identity)
        try:
            os.rename(os.path.join(source, name), os.path.join(target, name))
        except FileNotFoundError:  # the folder is missing, or it was moved before
            if os.path.exists(os.path.join(source, name)):
                _make(target)
                os.rename(os.path.join(source, name), os.path.join(target, name))


def file_name(identity: str) -> str:
    """Another one for each id, and one that is a file's name whatever the id is."""
    data = identity.encode("utf-8", "surrogatepass")
    name = urllib.parse.quote(data, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        # "%-" is in no quoted text.
        name = f"{name[: _LONGEST - 34]}%-{hashlib.sha256(data).hexdigest()[:32]}"
    return name + _SUFFIX


def _make(folder: str) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _write(folder: str, workload: Workload) -> None:
    passing = os.path.join(folder, ".new")
    try:
        handle = os.open(passing, _FLAGS, 0o600)
    except FileNotFoundError:
        _make(folder)
        handle = os.open(passing, _FLAGS, 0o600)
    try:
        data = memoryview(json.dumps(workload.to_dict()).encode("ascii"))
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)
    os.rename(passing, os.path.join(folder, file_name(workload.id)))


def _read(folder: str) -> tuple[list[Workload], list[str]]:
    workloads: list[Workload] = []
    problems: list[str] = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder} cannot be read: {error.strerror}. Correct that, then restart calico-agent."]
    for name in names:
        if not name.endswith(_SUFFIX) or name.startswith("."):
            continue
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8") as stream:
                workload = Workload.from_dict(json.load(stream))
            if file_name(workload.id) != name:
                raise ValueError(f"it is the record of {workload.id}")
            workloads.append(workload)
        except FileNotFoundError:
            continue  # gone meanwhile
        except (OSError, ValueError, RecursionError) as error:
            problems.append(
                f"{path} cannot be read: {error}. The workload that it was for is not looked after, and the file is "
                "left. Delete the workload and add it again, or remove the file."
            )
    return sorted(workloads, key=lambda workload: workload.id), problems
