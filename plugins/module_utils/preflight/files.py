# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's file system seen from a root that tests can place elsewhere. Nothing here writes, nothing here raises."""

from __future__ import annotations

import os


class Files:
    """Reads below `root`. What is missing or unreadable reads as None or empty: a host owes no file to anybody."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read_bytes(self, path: str) -> bytes:
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read()
        except OSError:
            return b""

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode(errors="replace")

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def listing(self, path: str) -> list[str]:
        try:
            return os.listdir(self.path(path))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """The target of a symbolic link, "" for anything else."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return ""
