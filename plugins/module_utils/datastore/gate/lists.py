# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that role calico_etcd writes for a gate that runs: the fleet's addresses, and revoked certificates."""

from __future__ import annotations

import ipaddress
import os
import typing as t

from .places import IPAddress

#: The most bytes of a file: 100,000 addresses.
_SIZE_LIMIT = 4 << 20
_T = t.TypeVar("_T")
_Stamp = tuple[int, int, int]


class ListFile(t.Generic[_T]):
    """A file with an entry on each line; empty lines and those that begin with # are none.

    `path` "" or a missing file has no entries. A file that cannot be used changes nothing: `problem` says why, or is
    "".
    """

    def __init__(self, path: str, read: t.Callable[[str], _T]) -> None:
        self._path = path
        self._read = read
        self._stamp: t.Optional[_Stamp] = None
        self.entries: frozenset[_T] = frozenset()
        self.problem = ""

    def changed(self) -> bool:
        """Look at the file, and return whether there are other entries or another problem than before."""
        before = self.entries, self.problem
        try:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self.entries, self.problem = self._entries(), ""
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.problem = f"{self._path} cannot be used: {reason}. What it had before counts."
        return (self.entries, self.problem) != before

    def _entries(self) -> frozenset[_T]:
        if self._stamp is None:
            return frozenset()
        with open(self._path, encoding="ascii") as stream:
            content = stream.read(_SIZE_LIMIT + 1)
        if len(content) > _SIZE_LIMIT:
            raise ValueError(f"it has more than {_SIZE_LIMIT} bytes")
        lines = [line.strip() for line in content.split("\n")]
        return frozenset(self._read(line) for line in lines if line and not line.startswith("#"))


def address(line: str) -> IPAddress:
    """Return the address on a line. Raise ValueError."""
    try:
        return ipaddress.ip_address(line)
    except ValueError:
        raise ValueError(f"{line[:60]!a} is no address") from None


def fingerprint(line: str) -> str:
    """Return the fingerprint of a certificate on a line, 64 hex digits. Raise ValueError."""
    if len(line) != 64 or line.strip("0123456789abcdef"):
        raise ValueError(f"{line[:80]!a} is no SHA-256 fingerprint of 64 hex digits")
    return line


def _stamp(path: str) -> t.Optional[_Stamp]:
    try:
        found = os.stat(path) if path else None
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else None
