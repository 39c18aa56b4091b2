# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action node_removal, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_removal
short_description: Check that a fleet can do without a node
version_added: 0.2.0
description:
  - Fails if the node is the last one or the only route reflector, or if the inventory has a workload, a peer or a
    HostEndpoint on it.
  - Names the files in which the inventory has the node, which have to be edited after its removal.
  - Runs on the controller only and connects to no host.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  node:
    description:
      - Name in the inventory of the node to remove.
    type: str
    required: true
  done:
    description:
      - Whether the node is already removed. Then the remaining work is printed.
    type: bool
    default: false
  gates:
    description:
      - Name of the variable that hosts of the etcd cluster registered when they got the list of revoked certificates.
        With O(done=true), the task fails if one of them did not get it.
    type: str
    default: ""
seealso:
  - module: baremetal.host_routing.drain
  - module: baremetal.host_routing.teardown
"""

EXAMPLES = r"""
- name: Check that the fleet can do without node7
  baremetal.host_routing.node_removal:
    node: node7
  run_once: true
"""

RETURN = r"""
places:
  description: Files in which the inventory has the node, with lines where they are known.
  returned: success
  type: list
  elements: str
  sample: ["inventories/prod/hosts.yml:12"]
"""
