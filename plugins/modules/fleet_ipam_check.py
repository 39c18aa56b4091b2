# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_ipam_check, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_ipam_check
short_description: Compare what nodes hold with what the fleet knows of them
version_added: 0.2.0
description:
  - Compares the blocks, workloads and assigned addresses that nodes told with the blocks and published workloads in the
    fleet's datastore. In a fleet without one, the blocks are those of the lockfile.
  - Connects to no host, and changes nothing.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.answer
  - baremetal.host_routing.internal
options:
  asked:
    description:
      - Name of the variable in which M(baremetal.host_routing.node_info) was registered.
    type: str
    required: true
  workloads:
    description:
      - Name of the variable in which M(baremetal.host_routing.remote_endpoints_info) was registered.
    type: str
    required: true
seealso:
  - module: baremetal.host_routing.node_info
  - module: baremetal.host_routing.remote_endpoints_info
"""

EXAMPLES = r"""
- name: Compare what nodes hold
  baremetal.host_routing.fleet_ipam_check:
    asked: calico_held
    workloads: calico_held_workloads
  run_once: true
"""

RETURN = r"""
lines:
  description: The answer as printed for people.
  returned: success
  type: list
  elements: str
problems:
  description: The number of problems.
  returned: success
  type: int
  sample: 0
answer:
  description:
    - The answer as data. It has a list for each kind of problem, and the nodes that were C(asked) and that are
      C(silent).
  returned: success
  type: dict
"""
