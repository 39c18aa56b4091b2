# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that grows by a line per write, and loses no line that was acknowledged, even in a power failure.

    <CRC-32, 8 hex digits> <JSON array of records>

All records that are written together are one line, so that they are there completely or not at all. The CRC continues
from the line before. So a line that is changed, doubled, out of place, or missing before another one is noticed.

The end of a file may be torn: a last line without its end, or with a hole of zeros, was never acknowledged. It is
skipped, and the next write cuts it off. Any other damage is refused, because an address could be assigned twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t
import zlib

from ...base.typed_json import NotJson, parse
from ...files import bounded, folders, replacement

Record = t.Sequence[t.Any]

#: Bytes of a journal's file above which it is to be replaced by a shorter one; `grown` says when it is more.
COMPACT_ABOVE = 256 * 1024

_encode = json.JSONEncoder(separators=(",", ":")).encode


class IpamUnreadable(Exception):
    """The error for allocations of this node that cannot be read. Nothing was changed."""


class IpamNotWritten(Exception):
    """The error for a disk that refuses a write. The write is undone, at the latest by the next write to the file."""


class AllocationJournal:
    """The journal at `path`. One process at a time writes; any may read.

    Call `load` before the first `append` to an existing file: without it, the file's content is lost.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: t.Optional[int] = None
        self._size = 0  # bytes of the file that hold whole records; any bytes after them are to be cut off
        self._crc = 0
        self._clean = False  # whether the file is known to have no bytes after the first `_size`
        self._named = False  # whether the file's name is certainly on the disk
        self._limit = COMPACT_ABOVE

    @property
    def path(self) -> str:
        return self._path

    @property
    def empty(self) -> bool:
        """Whether the file has no record, as far as it was loaded or written."""
        return self._size == 0

    @property
    def grown(self) -> bool:
        """Whether `compact` is due: above 256 KiB, and doubled since the last one, or 256 KiB more if that failed."""
        return self._size > self._limit

    def load(self) -> list[Record]:
        """Return all records in the order of writing, without a torn last line; none if there is no file.

        Raise IpamUnreadable if the file is damaged or cannot be read.
        """
        self.close()
        try:
            data = bounded.read(self._path, bounded.OWN_LIMIT)
        except FileNotFoundError:
            data = b""
        except bounded.TooLarge as error:
            raise IpamUnreadable(unreadable(self._path, f"{error}")) from error
        except PermissionError as error:
            raise IpamUnreadable(f"{self._path} may be read by root alone. Become root, then run again.") from error
        except OSError as error:
            raise IpamUnreadable(unreadable(self._path, f"{error.strerror}")) from error
        records: list[Record] = []
        self._size = self._crc = 0
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            crc = _checked(line, self._crc)
            if crc is None:
                if number == len(lines) - 1 and not lines[-1].strip(b"\0") and b"\0" in line:
                    break
                raise IpamUnreadable(unreadable(self._path, f"line {number} is not what was written"))
            try:
                written = parse(line[9:])
            except NotJson as error:
                raise IpamUnreadable(unreadable(self._path, f"line {number}: {error}")) from error
            if not isinstance(written, list):
                raise IpamUnreadable(unreadable(self._path, f"line {number} is not a list of records"))
            records.extend(written)
            self._crc = crc
            self._size += len(line) + 1
        self._clean = self._named = False
        return records

    def append(self, records: t.Sequence[Record]) -> None:
        """Append the records as one line, and return when they are on the disk.

        A missing file and its folder are created. Raise IpamNotWritten if the disk refuses.
        """
        line, crc = _line(records, self._crc)
        try:
            handle = self._opened()
            if not self._named:
                folders.sync(os.path.dirname(self._path))
                self._named = True
            if not self._clean:
                os.ftruncate(handle, self._size)
            self._clean = False
            _write(handle, line, self._size)
            os.fdatasync(handle)
            self._clean = True
        except OSError as error:
            self._take_back()
            raise IpamNotWritten(
                f"{self._path} could not be written: {error.strerror}. No address was given or taken back. "
                "Make room or correct the file system, then try again."
            ) from error
        self._size += len(line)
        self._crc = crc

    def compact(self, records: t.Sequence[Record]) -> bool:
        """Replace the file by one with `records` only; return False if the disk refuses, and the old file stays."""
        line, crc = _line(records, 0)
        handle, named = -1, True
        replacement.sweep(self._path)
        try:
            with replacement.beside(self._path, 0o600) as new:
                _write(new.handle, line, 0)
                handle = os.dup(new.handle)
                new.put()
        except replacement.NotSynced:
            named = False
        except OSError:
            if handle >= 0:
                os.close(handle)
            self._limit = self._size + COMPACT_ABOVE
            return False
        self.close()
        self._handle, self._size, self._crc, self._clean = handle, len(line), crc, True
        self._limit = max(COMPACT_ABOVE, 2 * self._size)
        # Until the rename is on the disk, a power failure may restore the old file, which lacks what is written next.
        self._named = named
        return True

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _opened(self) -> int:
        if self._handle is None:
            folders.make(os.path.dirname(self._path), folders.PRIVATE, folders.PRIVATE)
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._handle

    def _take_back(self) -> None:
        if self._handle is not None and not self._clean:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
                os.fdatasync(self._handle)
                self._clean = True


def unreadable(path: str, why: str) -> str:
    return (
        f"{path} cannot be read: {why}. It was damaged or written by another release. Nothing was changed, and no "
        "address is given meanwhile: one might be given twice. Use that release or bring the file back from a backup "
        "of just now. Else delete this node's workloads, move the file away and start calico-agent again."
    )


def _line(records: t.Sequence[Record], crc: int) -> tuple[bytes, int]:
    text = _encode(records).encode("ascii")
    crc = zlib.crc32(text, crc)
    return b"%08x %s\n" % (crc, text), crc


def _checked(line: bytes, crc: int) -> t.Optional[int]:
    """Return the CRC of a line if it continues `crc`, the CRC of the line before; None for any other line."""
    crc = zlib.crc32(line[9:], crc)
    return crc if line[:9] == b"%08x " % crc else None


def _write(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view = view[written:]
        offset += written
