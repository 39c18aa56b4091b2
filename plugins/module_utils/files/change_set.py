# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes to several files, which are made together or not at all.

    with held(journal):                          one writer at a time; what a killed writer left is finished first
        write([FileChange(path, before, after)], journal)

All new contents are on the disk before the first file changes. A journal then says what is to be renamed or removed. If
the process is killed from there on, the next call finishes the change. If a file has another content by then, the
next call changes nothing and names the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import typing as t

from ..base import typed_json
from . import bounded, folders, locks, replacement

_LIMIT = 64 << 20  # bytes of a file
_NEW_NAME = re.compile(r"\..*\.[0-9a-f]{8}", re.DOTALL)


class FileChange(t.NamedTuple):
    """A file's content before and after a change; None stands for no file."""

    path: str
    before: t.Optional[bytes]
    after: t.Optional[bytes]


class ChangedMeanwhile(Exception):
    """The error for a file whose content is not that before the change. Nothing was changed. `path` is the file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by somebody else meanwhile. Nothing was written.")
        self.path = path


class InterruptedChange(Exception):
    """The error for a change that was interrupted and cannot be finished. `paths` are the files that say so."""

    def __init__(self, journal: str, paths: t.Sequence[str]) -> None:
        self.journal, self.paths = journal, tuple(paths)
        super().__init__(
            f"a change of several files was interrupted, and {', '.join(paths)} changed since. "
            f"Look whether the files are as wanted, and remove {journal}."
        )


class _Entry(t.NamedTuple):
    """A file that is to be replaced by `new`, or removed without one, and the sha256 of its contents."""

    target: str
    new: t.Optional[str]
    before: t.Optional[str]
    after: t.Optional[str]


@contextlib.contextmanager
def held(journal: str) -> t.Iterator[list[str]]:
    """Hold the lock of the journal's folder during the block; yield the files of a change that is finished before.

    Raise InterruptedChange if one cannot be finished, and OSError.
    """
    with locks.held_folder(os.path.dirname(journal)):
        yield _finish(journal)


def write(changes: t.Sequence[FileChange], journal: str) -> None:
    """Make all changes or none, with the lock of `held`. A changed file keeps its mode and owner.

    A symbolic link stays, and the file that it leads to changes. A new file may be read and written by those who may
    read and write its folder. Raise ChangedMeanwhile, and OSError, such as for a full disk: nothing is changed then.
    Raise InterruptedChange if an error came when only some of the files had changed: the next call of `held` finishes.
    """
    targets = [change._replace(path=os.path.realpath(change.path)) for change in changes]
    for path in (journal, *(change.path for change in targets)):
        replacement.sweep(path)
    for given, change in zip(changes, targets):
        if _content(change.path) != change.before:
            raise ChangedMeanwhile(given.path)
    with contextlib.ExitStack() as stack:
        new = [_prepared(stack, change) for change in targets]
        entries = [
            _Entry(change.path, file.path if file else None, _digest(change.before), _digest(change.after))
            for change, file in zip(targets, new)
        ]
        several = len(entries) > 1
        if several:
            with contextlib.suppress(replacement.NotSynced):
                replacement.replace(journal, json.dumps([entry._asdict() for entry in entries]).encode(), 0o600)
            for file in new:
                if file:
                    file.keep()
        try:
            for entry in entries:
                _put(entry)
        except OSError as error:
            if not several:
                raise
            raise InterruptedChange(journal, [entry.target]) from error
        if several:
            os.unlink(journal)
        stack.pop_all()


def _prepared(stack: contextlib.ExitStack, change: FileChange) -> t.Optional[replacement.NewFile]:
    """Return the new file of a change, whose content is on the disk; None for a removal."""
    if change.after is None:
        return None
    folder = os.path.dirname(change.path)
    missing = folders.missing(folder)
    above = stat.S_IMODE(os.stat(os.path.dirname(missing[0]) if missing else folder).st_mode)
    for made in reversed(folders.make(folder, above, above) if missing else []):
        stack.callback(_remove_folder, made)
    mode, owner = above & 0o666, None
    if change.before is not None:
        status = os.stat(change.path)
        mode = stat.S_IMODE(status.st_mode)
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            owner = (status.st_uid, status.st_gid)
    file = stack.enter_context(replacement.beside(change.path, mode, owner))
    file.write(change.after)
    file.seal()
    return file


def _remove_folder(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _put(entry: _Entry) -> None:
    """Replace or remove one file. A folder that cannot be synced is no error: the content is there."""
    with contextlib.suppress(replacement.NotSynced):
        if entry.new is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.target)
        else:
            replacement.NewFile(entry.target, -1, entry.new).put()


def _finish(journal: str) -> list[str]:
    """Finish the change of a journal, if there is one; return its files. Raise InterruptedChange if that cannot be."""
    if not os.path.lexists(journal):
        return []
    entries = _entries(journal)
    waiting: list[_Entry] = []
    changed = []
    for entry in entries:
        found = _digest(_content(entry.target))
        if found == entry.after:
            continue
        new = _content(entry.new) if entry.new is not None else None
        if found != entry.before or _digest(new) != entry.after:
            changed.append(entry.target)
        waiting.append(entry)
    if changed:
        raise InterruptedChange(journal, changed)
    for entry in waiting:
        _put(entry)
    os.unlink(journal)
    return [entry.target for entry in entries]


def _entries(journal: str) -> list[_Entry]:
    """Return the entries of a journal. Raise InterruptedChange if it is not one that this user's process wrote."""
    status = os.lstat(journal)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InterruptedChange(journal, [journal])
    try:
        read = bounded.read_json(journal, _LIMIT)
        entries = [_Entry(**entry) for entry in read]
        texts = [value for entry in entries for value in entry if value is not None]
        good = all(isinstance(value, str) for value in texts) and all(map(_is_safe, entries))
    except (typed_json.NotJson, bounded.TooLarge, TypeError):
        good = False
    if not good:
        raise InterruptedChange(journal, [journal])
    return entries


def _is_safe(entry: _Entry) -> bool:
    """Return whether the new file lies beside the one that it is to replace, under a name of files/replacement.py."""
    if entry.new is None:
        return isinstance(entry.target, str) and entry.after is None
    folder, name = os.path.split(entry.new)
    return os.path.isabs(entry.target) and folder == os.path.dirname(entry.target) and bool(_NEW_NAME.fullmatch(name))


def _content(path: str) -> t.Optional[bytes]:
    try:
        return bounded.read(path, _LIMIT)
    except FileNotFoundError:
        return None


def _digest(content: t.Optional[bytes]) -> t.Optional[str]:
    return None if content is None else hashlib.sha256(content).hexdigest()
