# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of an action that runs on the controller; the code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_load
short_description: Count what BGP costs in an inventory's fleet
version_added: 0.3.0
description:
  - Says of each node of an inventory how many BGP sessions, paths and routes it will have, how much it announces, and
    how much memory BIRD takes. Nodes for which that is the same are told together.
  - Counted are the sessions that a run would configure, and the blocks of the lockfile with those that a run would
    plan. docs/scaling.md says what is not known of routers outside the fleet, and how exact memory is.
  - No host is touched.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  output:
    description:
      - How to print what was counted.
    type: str
    choices: [text, json, none]
    default: text
  answer_file:
    description:
      - File on the controller into which it is written as well, as JSON. RV(lines), and an C(answer) with the rest.
    type: path
seealso:
  - module: baremetal.host_routing.fleet_lint
"""

EXAMPLES = r"""
- name: Tell what BGP will cost
  baremetal.host_routing.fleet_load:
  run_once: true
"""

RETURN = r"""
sessions:
  description: Sessions of the whole fleet, each counted once, those with routers outside among them.
  returned: success
  type: int
blocks:
  description: Blocks that nodes tell each other of.
  returned: success
  type: int
told_at_start:
  description: Routes that are announced when the whole fleet starts from nothing. It is a least.
  returned: success
  type: int
nodes:
  description: Nodes that BGP costs the same, what takes the most memory first.
  returned: success
  type: list
  elements: dict
  contains:
    nodes: {description: Their names., type: list, elements: str}
    role: {description: 'V(node), V(node that reflects) or V(reflector).', type: str}
    sessions: {description: Sessions of each., type: int}
    paths: {description: Routes that peers told it and that it keeps., type: int}
    routes: {description: Different blocks of others among these., type: int}
    sent: {description: Routes that it announces when the whole fleet starts from nothing., type: int}
    received: {description: Those that it is told then., type: int}
    told_of_a_block: {description: UPDATEs in the whole fleet for one more block of one of them., type: int}
    memory: {description: MiB that a BIRD has resident., type: float}
uniform:
  description:
    - The same of as many nodes that are all alike, as C(calicoctl scale -o json) has it; in a mesh and behind two
      reflectors.
  returned: success
  type: list
  elements: dict
lines:
  description: The same as it is printed for people.
  returned: success
  type: list
  elements: str
"""
