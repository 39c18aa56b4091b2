# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders with the mode that they must have, whatever the umask of the process is. `make` and `sync` raise OSError.

Hardened hosts give root the umask 027 or 077. `os.makedirs` obeys it, so no other module of plugins/ makes folders
(tests/unit/architecture/test_folders.py).
"""

from __future__ import annotations

import contextlib
import os

#: The mode of a folder that all users may enter and read, and of one that belongs to its owner alone.
PUBLIC, PRIVATE = 0o755, 0o700


def make(path: str, mode: int = PUBLIC, above: int = PUBLIC) -> list[str]:
    """Make the folder `path` with `mode`, and missing ones above it with the mode `above`; return those made.

    The outermost one is the first in the list, which is empty if the folder exists. An existing folder keeps its mode.
    """
    made = []
    for folder in (*missing(os.path.dirname(path)), path):
        if _made(folder, mode if folder == path else above):
            made.append(folder)
    return made


def missing(path: str) -> list[str]:
    """Return `path` and the folders above it that do not exist, the outermost one first; [] if `path` exists."""
    found: list[str] = []
    while path and not os.path.exists(path) and path not in found:
        found.insert(0, path)
        path = os.path.dirname(path)
    return found


def sync(path: str) -> None:
    """Write the entries of the folder `path` to the disk, so that a renaming in it survives a power failure.

    An empty path is the working directory.
    """
    handle = os.open(path or os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _made(folder: str, mode: int) -> bool:
    """Make one folder; return whether it was missing. Until it has its mode, others have no right in it."""
    if os.path.isdir(folder):
        return False
    try:
        os.mkdir(folder, mode & PRIVATE)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
        return False
    try:
        os.chmod(folder, mode)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        raise
    return True
