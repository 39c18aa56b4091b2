# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are replaced as a whole.

Whenever a process is killed or the power fails, the old file or the new one is there.

    replace(path, data, mode, owner, sync)       write a file
    with beside(path, mode, owner) as new: ...   the same in steps, for a file that is checked before it is put in place

Nothing else in plugins/ replaces a file (tests/unit/architecture/test_file_access.py). The new file is not made by
tempfile, which imports modules that take 0.7 MiB of the agent.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from . import folders

_ATTEMPTS = 100
#: The most characters that the name of a new file has of the other's, so that it has at most the 255 bytes of a name.
_NAME_KEPT = 60
_HEX = frozenset("0123456789abcdef")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

#: The user and the group of a file, as numbers.
Owner = tuple[int, int]


class NotSynced(OSError):
    """The error for a file that has its new content, in a folder that could not be synced to the disk."""


class NewFile:
    """A new file at `path`, open as `handle`, which `put` gives the name `target`. Its methods raise OSError."""

    def __init__(self, target: str, handle: int, path: str) -> None:
        self.target, self.handle, self.path = target, handle, path

    def write(self, data: bytes) -> None:
        """Append `data`."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.handle, view) :]

    def seal(self, sync: bool = True) -> None:
        """Close the file; with `sync`, its content is on the disk afterwards."""
        if sync and self.handle >= 0:
            os.fsync(self.handle)
        self.close()  # before a renaming, because a network file system may refuse the content only here

    def put(self, sync: bool = True) -> None:
        """Close the file, and replace the one at `target` by it.

        With `sync`, the content is on the disk before the name leads to it, and the name is on the disk afterwards.
        Raise NotSynced if only the last step failed: the new content is in place then. Any other OSError leaves the old
        file.
        """
        self.seal(sync)
        os.replace(self.path, self.target)
        self.path = ""
        if sync:
            try:
                folders.sync(os.path.dirname(self.target))
            except OSError as error:
                raise NotSynced(error.errno, error.strerror) from error

    def close(self) -> None:
        """Close the file, if it is open; the file system may refuse its content only here."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def keep(self) -> None:
        """Leave the file at `path` there: `discard` does not remove it any more."""
        self.path = ""

    def discard(self) -> None:
        """Close the file, and remove it unless it was put in place. Raise nothing."""
        with contextlib.suppress(OSError):
            self.close()
        if self.path:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


@contextlib.contextmanager
def beside(path: str, mode: int, owner: t.Optional[Owner] = None) -> t.Iterator[NewFile]:
    """Yield a new, empty file in the folder of `path`; remove it at the end of the block unless it was put in place.

    It has `mode`, whatever the umask is, and `owner`, else the process's. Its name is a dot, the name of `path` (60
    characters at most), a dot and eight random characters. Raise OSError if the folder is missing or refuses.
    """
    new = NewFile(path, *_made(path))
    try:
        if owner is not None:
            os.fchown(new.handle, *owner)
        os.fchmod(new.handle, mode)
        yield new
    finally:
        new.discard()


def replace(path: str, data: bytes, mode: int, owner: t.Optional[Owner] = None, sync: bool = True) -> None:
    """Replace the file or symbolic link at `path` by a file with the content `data`. Raise what `NewFile.put` raises.

    `sync` is False for a file that ends with the boot or the run, or that can be made anew.
    """
    with beside(path, mode, owner) as new:
        new.write(data)
        new.put(sync)


def store(path: str, text: str, mode: int) -> None:
    """Replace the file at `path`, or the one that a symbolic link there leads to, by one with `text`, on the disk.

    Surrogates become the bytes that they stand for. Missing folders get the mode 0755. Raise what `replace` raises.
    """
    path = os.path.realpath(path)
    folders.make(os.path.dirname(path))
    replace(path, text.encode("utf-8", "surrogateescape"), mode)


def sweep(path: str) -> None:
    """Remove the new files beside `path` that killed processes left. Raise nothing.

    Only the one writer of the file at `path` may call this. The file's name has at most 60 characters.
    """
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder or os.curdir):
            random = entry.removeprefix(f".{name}.")
            if random != entry and len(random) == 8 and set(random) <= _HEX:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, entry))


def _made(path: str) -> tuple[int, str]:
    """Make a file with mode 0600 beside `path`, and return (its file descriptor, its path)."""
    folder, name = os.path.split(path)
    name = name[:_NAME_KEPT]
    for dummy in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileExistsError):
            return _opened(folder, name)
    return _opened(folder, name)


def _opened(folder: str, name: str) -> tuple[int, str]:
    candidate = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    return os.open(candidate, _FLAGS, 0o600), candidate
