# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's own files, replaced atomically: after a crash a file has its old or its new content, never a part."""

from __future__ import annotations

from ...files import folders, replacement


class FileError(Exception):
    """The error for a file that could not be written. Its message says whether the old or the new content is there."""


def write(path: str, content: str, mode: int) -> None:
    """Replace the file at `path` atomically, create missing folders, and return after the content is on the disk.

    `mode` is the permissions, such as 0o644; folders get 0755. A symbolic link is followed. Raise FileError if the file
    system refuses.
    """
    try:
        replacement.store(path, content, mode)
    except replacement.NotSynced as error:
        raise FileError(
            f"{path} was written, but its folder could not be synced to the disk: {error.strerror}. The new content is "
            "in place, and a power failure may undo it. Correct the file system, then run again."
        ) from error
    except OSError as error:
        raise FileError(
            f"{path} could not be written: {error.strerror}. What was there before stands unchanged. "
            f"Make room or correct the file system, then run again."
        ) from error


def make_folder(folder: str) -> None:
    """Make a folder and missing ones above it, with mode 0700; keep an existing one. Raise FileError."""
    try:
        folders.make(folder, folders.PRIVATE, folders.PRIVATE)
    except OSError as error:
        raise FileError(
            f"{folder} could not be made: {error.strerror}. Nothing was stored. "
            "Make room or correct the file system, then run again."
        ) from error
