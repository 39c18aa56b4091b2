# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the workloads that stand on this node, and of those that are being made or taken away.

    /run/calico/workloads/<id>.json              stands: the agent keeps it so
    /run/calico/workloads/unfinished/<id>.json   an add or a delete that is under way: after a crash it is removed

Both folders and all files are root's alone: members of group `calico` read by the API, which says what they may.
One file each, on a tmpfs: what they speak of does not outlive a boot either, so nothing is synced. Each step is one
rename, whole or not at all, and may be repeated. One thread writes; any process may read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import urllib.parse

from ...state.attachment import AttachedWorkload

FOLDER = "/run/calico/workloads"
UNFINISHED = "unfinished"

#: Characters of a file's name before a hash takes the rest's place (NAME_MAX is 255).
_LONGEST = 200
_SUFFIX = ".json"
#: Bytes of a record for the identity of the workload's namespace; blanks fill them.
_ROOM = 40
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class Endpoints:
    """Every method but `load` and `unfinished` raises OSError."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._unfinished = os.path.join(folder, UNFINISHED)

    def load(self) -> tuple[list[AttachedWorkload], list[str]]:
        """Workloads that stand, by id, and a sentence for each record that cannot be read; it is left where it is."""
        return _read(self._folder)

    def unfinished(self) -> tuple[list[AttachedWorkload], list[str]]:
        """Workloads whose add or delete was begun and not finished; as `load`."""
        return _read(self._unfinished)

    def close_to_others(self) -> None:
        """Make both folders and all files in them root's alone: earlier releases left the outer one open to all."""
        for folder in (self._folder, self._unfinished):
            try:
                os.chmod(folder, _FOLDER_MODE)
                entries = list(os.scandir(folder))
            except FileNotFoundError:
                continue
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) != _FILE_MODE:
                    os.chmod(entry.path, _FILE_MODE)

    def save(self, workload: AttachedWorkload) -> None:
        """The record of a workload that stands, new or in place of the last one."""
        _write(self._folder, workload)

    def remove(self, identity: str) -> None:
        """The record of a workload that stands."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, file_name(identity)))

    def identify(self, identity: str, netns_identity: str) -> None:
        """Write into the record of an add that has begun which namespace it is for.

        In place: that costs a tenth of writing the record anew.
        """
        handle = os.open(os.path.join(self._unfinished, file_name(identity)), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, _netns_identity(netns_identity), os.fstat(handle).st_size - _ROOM - 1)
        finally:
            os.close(handle)

    def begin(self, workload: AttachedWorkload) -> None:
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
    """Make one of the two folders, and the outer one before the inner one. Those above are everybody's to enter."""
    if os.path.basename(folder) == UNFINISHED and not os.path.isdir(os.path.dirname(folder)):
        _make(os.path.dirname(folder))
    os.makedirs(folder, mode=_FOLDER_MODE, exist_ok=True)
    os.chmod(folder, _FOLDER_MODE)  # whatever the umask


def _text(workload: AttachedWorkload) -> bytes:
    """The record, with the namespace's identity at its end and room for another one there."""
    told = json.dumps(workload.to_record()).encode("ascii")
    return told[:-1] + b', "netns_identity": ' + _netns_identity(workload.netns_identity) + b"}"


def _netns_identity(text: str) -> bytes:
    return json.dumps(text).encode("ascii").ljust(_ROOM)


def _write(folder: str, workload: AttachedWorkload) -> None:
    passing = os.path.join(folder, ".new")
    try:
        handle = os.open(passing, _FLAGS, _FILE_MODE)
    except FileNotFoundError:
        _make(folder)
        handle = os.open(passing, _FLAGS, _FILE_MODE)
    try:
        data = memoryview(_text(workload))
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)
    os.rename(passing, os.path.join(folder, file_name(workload.id)))


def _read(folder: str) -> tuple[list[AttachedWorkload], list[str]]:
    workloads: list[AttachedWorkload] = []
    problems: list[str] = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return [], []
    except PermissionError:
        return [], [f"{folder} may be read by root alone. Ask the agent while it runs, or become root."]
    except OSError as error:
        return [], [f"{folder} cannot be read: {error.strerror}. Correct that, then restart calico-agent."]
    for name in names:
        if not name.endswith(_SUFFIX) or name.startswith("."):
            continue
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8") as stream:
                workload = AttachedWorkload.from_dict(json.load(stream))
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
