# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_load, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_load
short_description: Calculate the cost of BGP in an inventory's fleet
version_added: 0.2.0
description:
  - Reports for each node of an inventory the number of its BGP sessions, paths and routes, of its announcements, and
    the memory of its BIRD. Nodes with equal figures are reported together.
  - The figures are for the sessions that a run would configure, and for the blocks of the lockfile together with those
    that a run would add. docs/explanation/scaling.md says what is unknown of routers outside the fleet, and how
    accurate the memory is.
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
  - module: baremetal.host_routing.fleet_lint
"""

EXAMPLES = r"""
- name: Calculate the cost of BGP
  baremetal.host_routing.fleet_load:
  run_once: true
"""

RETURN = r"""
sessions:
  description: Sessions of the whole fleet, each counted once, including those with routers outside.
  returned: success
  type: int
blocks:
  description: Blocks that nodes announce to each other.
  returned: success
  type: int
told_at_start:
  description: Minimum number of routes that are announced when the whole fleet starts from nothing.
  returned: success
  type: int
nodes:
  description: Groups of nodes with equal figures, sorted by memory, the largest first.
  returned: success
  type: list
  elements: dict
  contains:
    nodes: {description: Their names., type: list, elements: str}
    role: {description: 'V(node), V(node that reflects) or V(reflector).', type: str}
    sessions: {description: Sessions of each., type: int}
    paths: {description: Routes that it keeps from its peers., type: int}
    routes: {description: Different blocks of other nodes among these., type: int}
    sent: {description: Routes that it announces when the whole fleet starts from nothing., type: int}
    received: {description: Routes that it receives then., type: int}
    told_of_a_block:
      description:
        - UPDATEs in the whole fleet for one more block of one of them. It is an IPv6 block if they have no IPv4.
        - C(null) for a V(reflector), which has no blocks.
      type: int
    memory: {description: Resident memory of a BIRD in MiB., type: float}
uniform:
  description:
    - The same figures for a fleet of as many equal nodes, in a mesh and behind two reflectors, as C(calicoctl scale -o
      json) prints them.
  returned: success
  type: list
  elements: dict
lines:
  description: The figures as printed for people.
  returned: success
  type: list
  elements: str
"""
