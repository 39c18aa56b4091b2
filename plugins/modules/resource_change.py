# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action resource_change, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_change
short_description: Change the files of resources of an inventory
version_added: 0.2.0
description:
  - Creates, replaces, deletes, patches or labels resources in the files of C(calico_resource_files), as
    C(calicoctl -i INVENTORY) asks.
  - Checks the whole inventory with the change first, and writes all of it or nothing.
  - Connects to no host.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.answer
  - baremetal.host_routing.internal
options:
  request_file:
    description: The path of the file in which calicoctl asks for the change.
    type: path
    required: true
seealso:
  - module: baremetal.host_routing.fleet_resources
"""

EXAMPLES = r"""
- name: Change resources
  baremetal.host_routing.resource_change:
    request_file: /tmp/request.json
  run_once: true
"""

RETURN = r"""
differences:
  description: The unified diff of all files, without line ends.
  returned: success
  type: list
  elements: str
files:
  description: Paths of the files that change.
  returned: success
  type: list
  elements: str
lines:
  description: The text as printed for people, with the differences.
  returned: success
  type: list
  elements: str
"""
