# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action endpoint_sync_report, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_sync_report
short_description: Report the result of an exchange of workloads between nodes
version_added: 0.2.0
description:
  - Prints which nodes could not be read or updated, and one line for the fleet.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  asked:
    description:
      - Name of the variable in which M(baremetal.host_routing.remote_endpoints_info) was registered.
    type: str
    required: true
  taken:
    description:
      - Name of the variable in which M(baremetal.host_routing.remote_endpoints) was registered.
    type: str
    required: true
  datastore:
    description:
      - Whether the fleet has a datastore, so that the other nodes were not told.
    type: bool
    default: false
  strict:
    description:
      - Whether the task fails when a node could not be read or updated.
    type: bool
    default: false
seealso:
  - module: baremetal.host_routing.endpoint_sync
"""

EXAMPLES = r"""
- name: Report
  baremetal.host_routing.endpoint_sync_report:
    asked: asked
    taken: taken
  run_once: true
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: success
  type: list
  elements: str
problems:
  description: Nodes that could not be read or updated, with the reasons, in words.
  returned: success
  type: list
  elements: str
"""
