# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of whole regular files up to a limit. A pipe or a device is refused, because a read of it may never end."""

from __future__ import annotations

import errno
import os
import stat
import typing as t

from ..base import typed_json

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
#: Bytes of a file that this collection wrote. None is nearly as large.
OWN_LIMIT = 256 << 20
_PART = 1 << 16  # bytes of a read of a file that says no size, as those of /proc


class TooLarge(ValueError):
    """The error for a file with more bytes than its reader accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is larger than {limit} bytes")


class WholeFile(t.NamedTuple):
    """The content of a file and its permissions, such as 0o640."""

    data: bytes
    mode: int


def read(path: str, limit: int) -> bytes:
    """Return the content of the file at `path`. Raise OSError if it cannot be read, TooLarge above `limit` bytes."""
    return read_with_mode(path, limit).data


def read_json(path: str, limit: int = OWN_LIMIT) -> t.Any:
    """Return the JSON value in the file at `path`. Raise what `read` raises, and typed_json.NotJson, a ValueError."""
    return typed_json.parse(read(path, limit))


def read_shared_json(path: str, limit: int = OWN_LIMIT) -> t.Any:
    """Return the JSON value in the file at `path` as typed_json.parse_shared does. Raise what `read_json` raises."""
    return typed_json.parse_shared(read(path, limit))


def read_with_mode(path: str, limit: int) -> WholeFile:
    """Return the content of the file at `path` with its permissions. Raise what `read` raises."""
    handle = os.open(path, _FLAGS)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        parts, left = [], limit + 1
        while left and (part := os.read(handle, min(left, max(status.st_size + 1, _PART)))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(handle)
    if not left:
        raise TooLarge(limit)
    return WholeFile(b"".join(parts), stat.S_IMODE(status.st_mode))
