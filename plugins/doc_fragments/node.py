# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that change a whole node."""

    LOCK_TIMEOUT = r"""
options:
  lock_timeout:
    description:
      - Seconds to wait while another run changes this node.
    type: int
    default: 60
"""

    GENERATIONS_KEPT = r"""
options:
  generations_kept:
    description:
      - How many of its last states the node keeps.
    type: int
    default: 10
"""

    WHO = r"""
options:
  who:
    description:
      - Who does it, for others who wait for the node meanwhile.
    type: str
    default: ansible
"""
