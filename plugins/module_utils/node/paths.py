# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of a node's own files and of its agent's socket, which can be named without the code that uses them."""

from __future__ import annotations

import dataclasses
import os

from ..wire import protocol
from .engine import engine_start
from .store import short_wait, stored_file


@dataclasses.dataclass(kw_only=True)
class NodePaths:
    """The places of a node's files; tests use other ones. Files of the host, such as settings, are below `root`."""

    root: str = "/"
    store: str = short_wait.FOLDER
    engine: str = engine_start.ROOT
    ipam: str = "/var/lib/calico/ipam"
    workloads: str = "/run/calico/workloads"
    datastore: str = "/etc/calico/datastore.json"
    agent_socket: str = protocol.SOCKET

    @property
    def state(self) -> str:
        """The file with the state that the node must have."""
        return os.path.join(self.store, stored_file.STATE)

    def placed(self, path: str) -> str:
        """Return the path on this machine for `path` of a node: below `root`."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))
