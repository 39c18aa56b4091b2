# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of document files, safe with pipes without a writer, endless devices and other encodings."""

from __future__ import annotations

import os
import stat
import sys
import typing as t

from ...base.document_limits import RESOURCES, BeyondLimits, DocumentLimits, too_large

#: Beginnings of the paths of pipes that the process already has open, as shells make them for <(command).
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def read(path: str, limits: DocumentLimits = RESOURCES) -> str:
    """Return the text of a file, or of a pipe that the caller has opened itself (<(command)), read to its end.

    A byte order mark is left out. Raise OSError if it cannot be read or is a socket, UnicodeDecodeError if it is not
    UTF-8, and BeyondLimits if it is too large, or is a folder, another pipe or a device.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISFIFO(mode) and path.startswith(_DESCRIPTORS):
            os.set_blocking(handle, True)
        elif not stat.S_ISREG(mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")
            raise BeyondLimits(f"is {kind}, no file.", "Give the path of a file.")
        with os.fdopen(handle, "rb", closefd=False) as stream:  # not before: it fails for a folder
            return _decoded(stream, limits)
    finally:
        os.close(handle)


def read_stdin(limits: DocumentLimits = RESOURCES) -> str:
    """Return the text of standard input like `read` that of a pipe. Raise BeyondLimits if it is closed, as by `<&-`."""
    if sys.stdin is None:
        raise BeyondLimits("is standard input, which is closed.", "Give the text there, or the path of a file.")
    return _decoded(getattr(sys.stdin, "buffer", sys.stdin), limits)


def _decoded(stream: t.Any, limits: DocumentLimits) -> str:
    content = stream.read(limits.size + 1)
    if len(content) > limits.size:
        raise too_large(limits)
    return content if isinstance(content, str) else content.decode("utf-8-sig")
