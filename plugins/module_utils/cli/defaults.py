# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of options that are not given. The help shows them, so this module imports nothing."""

from __future__ import annotations

#: The source port of a flow. Linux chooses source ports from 32768 to 60999 (ip_local_port_range).
SOURCE_PORT = 40000

REFLECTORS = 2
BLOCKS = 2  # the number of blocks of each node: one in use and one spare
MOST_TRIAL = 600  # the most seconds for which a live change is tried
