# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of four nodes in two subnets; one pool over IPIP always, one across subnets alone.

No router is told of anything, and none sees a packet of the pools.
"""

from __future__ import annotations

from tests.lab.checks import Pool
from tests.lab.suite_converged import *  # noqa: F403

POOLS = (
    Pool("always", "10.244.0.0/17", "ipip", nat_outgoing=True),
    Pool("crosssubnet", "10.244.128.0/17", "ipip-crosssubnet"),
)
WORKLOADS = {
    "web-1": ("node1", "always"),
    "web-2": ("node2", "always"),
    "web-3": ("node3", "always"),
    "db-1": ("node1", "crosssubnet"),
    "db-2": ("node2", "crosssubnet"),
    "db-4": ("node4", "crosssubnet"),
}
