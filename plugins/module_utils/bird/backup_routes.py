# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks that BIRD reaches by backup routes only: in the kernel, they look like routes from BGP."""

from __future__ import annotations

import re

from .client import SOCKET, BirdClient

#: The command for the best routes from the protocols calico_backup4 and calico_backup6 of templates/bird/backups.j2.
_QUESTION = 'show route primary where proto ~ "calico_backup*"'
_ROUTE = re.compile(r"^(\S+/\d+)\s+\w+ \[calico_backup[46] ", re.MULTILINE)


def in_use(path: str = SOCKET, timeout: float = 10.0) -> frozenset[str]:
    """Return the destinations (CIDR) whose best route in BIRD is a backup route.

    `path` is BIRD's control socket, `timeout` the seconds for each answer. Raises NotAnswering or CommandRefused.
    """
    with BirdClient(path, timeout) as client:
        return frozenset(_ROUTE.findall(client.ask(_QUESTION).text))
