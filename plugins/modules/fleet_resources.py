# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_resources, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_resources
short_description: List the resources of an inventory
version_added: 0.2.0
description:
  - Returns all resources of an inventory as Calico's documents, and the blocks and addresses that its plan gives to
    nodes.
  - The blocks are those of the lockfile together with those that a run would add.
  - Prints how many resources of each kind there are, or all of them as JSON.
  - Connects to no host.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.answer
  - baremetal.host_routing.internal
seealso:
  - module: baremetal.host_routing.fleet_load
"""

EXAMPLES = r"""
- name: List the resources
  baremetal.host_routing.fleet_resources:
  run_once: true
"""

RETURN = r"""
as_number:
  description: The AS number of the fleet.
  returned: success
  type: int
resources:
  description: Lists of documents, by the name of their kind, such as IPPool.
  returned: success
  type: dict
ipam:
  description: Blocks and addresses of all nodes, without what their agents assigned.
  returned: success
  type: dict
  contains:
    usage: {description: A dict for each block with its node and numbers of addresses., type: list, elements: dict}
    allocations: {description: 'A dict for each address of a tunnel or workload.', type: list, elements: dict}
    pools: {description: The CIDR of each pool by name., type: dict}
    configuration: {description: Settings of Calico's IPAM., type: dict}
    lockfile: {description: Path of the lockfile., type: str}
    planned: {description: Whether the lockfile exists., type: bool}
lines:
  description: The text as printed for people.
  returned: success
  type: list
  elements: str
"""
