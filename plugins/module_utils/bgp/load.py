# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BGP costs one node: sessions, routes and announcements, and the memory that they take."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Load:
    """What a node has when nothing changes any more.

    `sent` and `received` are routes that are announced at a start from nothing, where each side tells the other one all
    of its own. They are a least: a reflector that hears of a block by another one first tells the others twice.
    """

    sessions: int = 0
    paths: int = 0  # routes that peers told it and that it believes (Adj-RIB-In); of each block it uses the best
    routes: int = 0  # different blocks of others: its kernel has as many, if it has workloads
    sent: int = 0
    received: int = 0

    def __add__(self, other: Load) -> Load:
        """Of one node, the other IP version."""
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Load(*(one + another for one, another in zip(mine, theirs)))


@dataclasses.dataclass(frozen=True)
class Memory:
    """KiB that a BIRD has resident: without any session, for each session, and for each path. docs/scaling.md has how
    they were measured (BIRD 2.0.12). Socket buffers are the kernel's, and not in it."""

    base: float
    session: float
    path: float

    def of(self, load: Load) -> int:
        return round(self.base + self.session * load.sessions + self.path * load.paths)


MEASURED = Memory(4880, 22.3, 0.2)
