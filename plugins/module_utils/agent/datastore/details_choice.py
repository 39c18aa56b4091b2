# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice whether this node publishes details of its workloads: the agents of all nodes must read such documents."""

from __future__ import annotations


class DetailsChoice:
    """The choice, which changes at most twice in an agent's life, since each change writes all documents again.

    A node of an earlier release that comes back ends it for good. So does one that only claims to be one: lists lack
    the details then, and nothing else changes.
    """

    def __init__(self) -> None:
        self.publishes = False
        self._over = False

    def see(self, all_read: bool) -> bool:
        """Note whether all other nodes read details, and return whether the choice has changed."""
        before = self.publishes
        self._over = self._over or (before and not all_read)
        self.publishes = all_read and not self._over
        return self.publishes is not before
