# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the workloads that the agent attached to this node, and of adds and deletes that are not finished.

    /run/calico/workloads/<id>.json              committed: the workload is attached, and the agent keeps it so
    /run/calico/workloads/unfinished/<id>.json   an add or a delete has begun: after a crash the workload is removed

Both folders and all files are readable for root only. Members of group `calico` read them through the API, which says
what they may see. There is one file per workload, on a tmpfs: the records end with the boot, as the workloads do, so
that nothing is synced. Each step of an add or a delete may be repeated. One thread writes; any process may read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import urllib.parse

from ...files import bounded, folders, replacement
from ...state.attachment import AttachedWorkload

UNFINISHED = "unfinished"

#: The most characters of a file's name before ".json": the end of a longer one is replaced by a hash (NAME_MAX is 255).
_LONGEST = 200
_SUFFIX = ".json"
#: Bytes that a record reserves for the identity of the workload's network namespace, padded with blanks.
_ROOM = 40
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class Endpoints:
    """The records of attached workloads below `folder`.

    `load` and `unfinished` report errors as sentences; every other method raises OSError on failure.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._unfinished = os.path.join(folder, UNFINISHED)

    def load(self) -> tuple[list[AttachedWorkload], list[str]]:
        """Return the committed workloads, sorted by id, and a sentence for each record or folder that is unreadable."""
        return _read(self._folder)

    def unfinished(self) -> tuple[list[AttachedWorkload], list[str]]:
        """Return the workloads whose add or delete is not finished, and sentences, as `load` does."""
        return _read(self._unfinished)

    def close_to_others(self) -> None:
        """Correct the modes of folders and records, which earlier releases left open, and remove half-written files."""
        for folder in (self._folder, self._unfinished):
            try:
                os.chmod(folder, _FOLDER_MODE)
                entries = list(os.scandir(folder))
            except FileNotFoundError:
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    os.unlink(entry.path)  # a killed process was about to write it
                    continue
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) != _FILE_MODE:
                    os.chmod(entry.path, _FILE_MODE)

    def save(self, workload: AttachedWorkload) -> None:
        """Write the committed record of a workload, and replace the one that it may have."""
        _write(self._folder, workload)

    def remove(self, identity: str) -> None:
        """Remove the committed record of a workload, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, file_name(identity)))

    def identify(self, identity: str, netns_identity: str) -> None:
        """Write the identity of the workload's network namespace into its unfinished record.

        The text has at most 38 ASCII characters. It is overwritten in place, which takes a tenth of the time of writing
        the record anew. Raise FileNotFoundError if there is no such record.
        """
        handle = os.open(os.path.join(self._unfinished, file_name(identity)), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, _netns_identity(netns_identity), os.fstat(handle).st_size - _ROOM - 1)
        finally:
            os.close(handle)

    def begin(self, workload: AttachedWorkload) -> None:
        """Write the unfinished record of a workload at the beginning of an add."""
        _write(self._unfinished, workload)

    def commit(self, identity: str) -> None:
        """Turn the unfinished record, if there is one, into a committed one at the end of an add."""
        self._move(self._unfinished, self._folder, identity)

    def leave(self, identity: str) -> None:
        """Turn the committed record, if there is one, into an unfinished one at the beginning of a delete."""
        self._move(self._folder, self._unfinished, identity)

    def forget(self, identity: str) -> None:
        """Remove the unfinished record, if there is one, at the end of a delete or when an add is undone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._unfinished, file_name(identity)))

    def _move(self, source: str, target: str, identity: str) -> None:
        name = file_name(identity)
        try:
            os.rename(os.path.join(source, name), os.path.join(target, name))
        except FileNotFoundError:  # the target folder is missing, or there is no record
            if os.path.exists(os.path.join(source, name)):
                _make(target)
                os.rename(os.path.join(source, name), os.path.join(target, name))


def file_name(identity: str) -> str:
    """Return the name of the record of workload `identity`: a valid file name, different for each id."""
    data = identity.encode("utf-8", "surrogatepass")
    name = urllib.parse.quote(data, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        # "%-" never occurs in quoted text, so no other id has this name.
        name = f"{name[: _LONGEST - 34]}%-{hashlib.sha256(data).hexdigest()[:32]}"
    return name + _SUFFIX


def _make(folder: str) -> None:
    """Create one of the two folders, the outer one before the inner one, and folders above them with mode 0755."""
    if os.path.basename(folder) == UNFINISHED and not os.path.isdir(os.path.dirname(folder)):
        _make(os.path.dirname(folder))
    folders.make(folder, _FOLDER_MODE)
    os.chmod(folder, _FOLDER_MODE)  # earlier releases left the outer folder open to all


def _text(workload: AttachedWorkload) -> bytes:
    """Return the record as JSON, with the namespace's identity padded at its end, to be overwritten in place."""
    record = json.dumps(workload.to_record()).encode("ascii")
    return record[:-1] + b', "netns_identity": ' + _netns_identity(workload.netns_identity) + b"}"


def _netns_identity(text: str) -> bytes:
    return json.dumps(text).encode("ascii").ljust(_ROOM)


def _write(folder: str, workload: AttachedWorkload) -> None:
    path, text = os.path.join(folder, file_name(workload.id)), _text(workload)
    try:
        replacement.replace(path, text, _FILE_MODE, sync=False)
    except FileNotFoundError:
        _make(folder)
        replacement.replace(path, text, _FILE_MODE, sync=False)


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
            workload = AttachedWorkload.from_dict(bounded.read_json(path))
            if file_name(workload.id) != name:
                raise ValueError(f"it is the record of {workload.id}")
            if not workload.addresses:
                raise ValueError("the workload has no address")
            workloads.append(workload)
        except FileNotFoundError:
            continue  # The record was removed since the folder was listed.
        except (OSError, ValueError) as error:
            problems.append(
                f"{path} cannot be read: {error}. The workload that it was for is not repaired, and gets no new "
                "connections if the node has policy. Delete the workload and add it again, or remove the file."
            )
    return sorted(workloads, key=lambda workload: workload.id), problems
