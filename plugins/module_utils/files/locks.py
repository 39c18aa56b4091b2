# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of files between processes. The kernel releases a lock when the process that holds it ends, however it ends.

Nothing else in plugins/ locks files (tests/unit/architecture/test_file_access.py). A function that gets a path raises
OSError if it cannot open the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import typing as t

from . import folders


def opened(path: str) -> int:
    """Return a descriptor of the lock file `path`, which is made for its owner alone if it is missing.

    Missing folders get the mode 0755. Never replace the file: two processes would lock two files of one name.
    """
    folders.make(os.path.dirname(path))
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take(handle: int) -> bool:
    """Lock the open file for this process alone. Return at once whether that succeeded: no other process holds it."""
    return _locked(handle, fcntl.LOCK_EX)


def is_taken(path: str) -> bool:
    """Return whether a process holds the lock file `path`; False if there is no such file, which is not made."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


@contextlib.contextmanager
def held(path: str) -> t.Iterator[None]:
    """Hold the lock file `path` during the block; wait until it is free. Raise OSError if it cannot be opened."""
    handle = opened(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def held_folder(path: str) -> t.Iterator[None]:
    """Hold the lock of the folder `path` itself during the block, without a file for it; wait until it is free."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
