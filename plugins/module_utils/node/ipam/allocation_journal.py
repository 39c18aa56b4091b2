# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that grows by a line per write to the disk and loses no line that was answered for, whenever the power goes.

    <CRC-32, 8 hex digits> <JSON array of records>\\n

All records that are written together are one line: it is there whole or not at all. The CRC goes on from that of the
line before, so that a line which is missing, doubled or out of place is noticed as well as a changed one.

The end of a file may be torn: a last line without its end, or one with a hole of zeros, was never answered for. It is
passed over, and cut off by the next write. Any other damage is refused, because an address might be given twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t
import zlib

from ..store import atomic_file

Record = t.Sequence[t.Any]

#: Bytes that the file may grow to before it is written anew with what is left of it.
COMPACT_ABOVE = 256 * 1024

_encode = json.JSONEncoder(separators=(",", ":")).encode


class IpamUnreadable(Exception):
    """The allocations of this node cannot be read. Nothing was changed."""


class IpamNotWritten(Exception):
    """The disk refused. What had to be written is taken back: the file says what it said before."""


class AllocationJournal:
    """One process at a time writes; any may read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: t.Optional[int] = None
        self._size = 0  # bytes that count; what lies behind them in the file is to be cut off
        self._crc = 0
        self._clean = False  # whether nothing lies behind
        self._named = False  # whether the file's name is on the disk for certain
        self._limit = COMPACT_ABOVE
        self.writes = 0

    @property
    def path(self) -> str:
        return self._path

    @property
    def empty(self) -> bool:
        return self._size == 0

    @property
    def grown(self) -> bool:
        """Whether it is time to `compact`."""
        return self._size > self._limit

    def load(self) -> list[Record]:
        """All records. Raises IpamUnreadable."""
        self.close()
        try:
            with open(self._path, "rb") as stream:
                data = stream.read()
        except FileNotFoundError:
            data = b""
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
                records.extend(json.loads(line[9:]))
            except ValueError as error:
                raise IpamUnreadable(unreadable(self._path, f"line {number}: {error}")) from error
            self._crc = crc
            self._size += len(line) + 1
        self._clean = self._named = False
        return records

    def append(self, records: t.Sequence[Record]) -> None:
        """After the return they are on the disk, all. Raises IpamNotWritten; then none of them is."""
        line, crc = _line(records, self._crc)
        try:
            handle = self._opened()
            if not self._named:
                atomic_file.sync_folder(os.path.dirname(self._path))
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
        self.writes += 1

    def compact(self, records: t.Sequence[Record]) -> bool:
        """A new file with `records` in place of all that were written. False: the disk refused, and the old one
        stands; that is no harm, and is tried again when the file has grown by as much again."""
        line, crc = _line(records, 0)
        passing = f"{self._path}.new"
        handle = -1
        try:
            handle = os.open(passing, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            _write(handle, line, 0)
            os.fsync(handle)
            os.replace(passing, self._path)
        except OSError:
            if handle >= 0:
                os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(passing)
            self._limit = self._size + COMPACT_ABOVE
            return False
        self.close()
        self._handle, self._size, self._crc, self._clean = handle, len(line), crc, True
        self._limit = max(COMPACT_ABOVE, 2 * self._size)
        # Until the rename is on the disk the power may bring the old file back, without what is written from now on.
        self._named = False
        with contextlib.suppress(OSError):
            atomic_file.sync_folder(os.path.dirname(self._path))
            self._named = True
        return True

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _opened(self) -> int:
        if self._handle is None:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._handle

    def _take_back(self) -> None:
        """What cannot be cut off now is cut off before the next write."""
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
    """The CRC of a line that is right, None for any other."""
    crc = zlib.crc32(line[9:], crc)
    return crc if line[:9] == b"%08x " % crc else None


def _write(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view = view[written:]
        offset += written
