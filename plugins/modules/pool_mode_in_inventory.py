# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action pool_mode_in_inventory; its code, in plugins/action, runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pool_mode_in_inventory
short_description: Write a switched mode into the inventory
version_added: 0.1.0
description:
  - Prints which lines of the inventory have to change to give a pool its new mode, or changes them.
  - Only the lines of the mode are changed. An entry that is not written line by line is not changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.pool_mode
  - baremetal.host_routing.internal
attributes:
  diff_mode:
    support: full
options:
  pool:
    description:
      - Name of the pool.
    required: true
  mode:
    description:
      - The pool's present mode.
    required: true
  write:
    description:
      - Whether to change the file.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Print what to change in the inventory
  baremetal.host_routing.pool_mode_in_inventory:
    pool: default-ipv4-ippool
    mode: direct
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
"""
