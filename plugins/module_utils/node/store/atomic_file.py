# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's own files: the old one or the new one, whatever happens in between, and words for a disk that refuses."""

from __future__ import annotations

import os

from ...dataplane.drivers import file


class FileError(Exception):
    """A file could not be written. The one that was there stands as it was."""


def write(path: str, content: str, mode: int) -> None:
    """Replaces `path` by a new file; after the return it is on the disk. Makes missing folders. Raises FileError."""
    try:
        file.write(path, content, mode)
    except OSError as error:
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
