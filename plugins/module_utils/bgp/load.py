# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of BGP for one node: sessions, routes and announcements, and the memory that they take."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Load:
    """The BGP load of a node once routing has converged.

    `sent` and `received` count the routes announced when all sessions start from nothing, once for each session. They
    are lower bounds: a reflector that learns a block from another reflector first announces it twice.
    """

    sessions: int = 0
    paths: int = 0  # routes that the node received and accepted (Adj-RIB-In); it uses the best one for each block
    routes: int = 0  # distinct blocks of other nodes that the node knows: the routes in its kernel, if it has workloads
    sent: int = 0
    received: int = 0

    def __add__(self, other: Load) -> Load:
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Load(*(one + another for one, another in zip(mine, theirs)))


@dataclasses.dataclass(frozen=True)
class Memory:
    """Resident memory of a BIRD process in KiB: without any session, for each session, and for each path.

    docs/explanation/scaling.md describes the measurement (BIRD 2.0.12). The kernel's socket buffers are left out.
    """

    base: float
    session: float
    path: float

    def of(self, load: Load) -> int:
        """Return the resident memory of a BIRD with this load, in whole KiB."""
        return round(self.base + self.session * load.sessions + self.path * load.paths)


MEASURED = Memory(4880, 22.3, 0.2)
