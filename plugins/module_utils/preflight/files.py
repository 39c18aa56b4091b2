# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of a host's files below a root that tests can choose. It never writes and raises nothing."""

from __future__ import annotations

import os

#: The folder in which runtimes look for networks, unless they are told another one.
CNI_CONF_DIR = "/etc/cni/net.d"


class Files:
    """The files below `root`. An absent or unreadable file or folder reads as empty."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read_bytes(self, path: str, limit: int = -1) -> bytes:
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read(limit)
        except OSError:
            return b""

    def read(self, path: str, limit: int = -1) -> str:
        """Return the text of a file, of its first `limit` bytes if that is not negative."""
        return self.read_bytes(path, limit).decode(errors="replace")

    def is_regular(self, path: str) -> bool:
        """Return whether `path` leads to a file that can be read to its end: no FIFO, device or folder."""
        return os.path.isfile(self.path(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def listing(self, path: str) -> list[str]:
        try:
            return os.listdir(self.path(path))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, "" if `path` is none or cannot be read."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return ""
