# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers of a node, in the order of their additions. A new driver is one line here."""

from __future__ import annotations

from ..driver import DriverRegistry, registered
from ..drivers import ipset, iptables, neighbor, route, rule, sysctl, tunnel, workload

#: The drivers of a node. Removals are made in the reverse order.
REGISTRY = DriverRegistry(
    (
        registered(ipset),
        registered(iptables),
        registered(tunnel),
        registered(workload),
        registered(sysctl),
        registered(neighbor),
        registered(rule),
        registered(route),
    )
)
