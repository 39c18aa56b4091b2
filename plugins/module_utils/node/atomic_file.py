# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are either the old or the new one, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import tempfile


class FileError(Exception):
    """A file could not be written. The one that was there stands as it was."""


def write(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replaces `path` by a new file; after the return it is on the disk. Makes missing folders. Raises FileError."""
    folder = os.path.dirname(path)
    temporary = ""
    try:
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=folder)
        with open(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(folder)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise FileError(
            f"{path} could not be written: {error.strerror}. What was there before stands unchanged. "
            f"Make room or correct the file system, then run again."
        ) from error


def sync_folder(folder: str) -> None:
    """Puts a folder's entries on the disk: without it a rename may be lost with the power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
