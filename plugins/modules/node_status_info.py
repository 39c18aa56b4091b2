# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_status_info
short_description: Read the status of a node
version_added: 0.2.0
description:
  - Returns the status of a node in one call, with its BGP sessions, the routes that BIRD writes, its blocks and
    workloads, its agent and the agent's repairs.
  - Changes nothing. It waits a few seconds if the agent is repairing something. If sessions are down and BIRD does not
    know why, it waits as long again, to see which of their packets the kernel drops.
  - Parts that cannot be read are listed in RV(problems) and do not fail the task.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
seealso:
  - module: baremetal.host_routing.fleet_status
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Read the status of a node
  baremetal.host_routing.node_status_info:
  register: node
"""

RETURN = r"""
node:
  description: Name of the node in its stored state, V(null) on a host that has none.
  returned: always
  type: str
  sample: node7
plan:
  description: Hash of the fleet that its state was compiled from.
  returned: when there is a state
  type: str
  sample: 7f3a91
phase:
  description:
    - Phase of a change that the node is in. V(converge) and V(retire) are the ends of a change.
    - A node stays in another one only while a change goes on, or after one that was left half-way.
  returned: when there is a state
  type: str
  sample: converge
complete:
  description: Whether all of that state was applied. V(false) after an interrupted run.
  returned: when there is a state
  type: bool
bgp:
  description: Whether the fleet has BGP, and its sessions that the node shall have.
  returned: when there is a state
  type: dict
  contains:
    enabled: {description: Whether the fleet has BGP., type: bool}
    running: {description: Whether the node's BIRD answers., type: bool}
    sessions:
      description: The sessions, as planned.
      type: list
      elements: dict
      sample: [{name: Mesh_10_10_2_14, node: node4, address: 10.10.2.14, established: false, state: Active,
                since: "14:02:11", error: Hold timer expired, reason: nothing was heard of the peer for 90 s...,
                routes_kept: true}]
routes:
  description: Number of routes that BIRD shall write, number that are in the kernel as planned, and the others.
  returned: when there is a state
  type: dict
  sample: {expected: 11, present: 10, missing: [route 10.244.7.0/26 of node2 is missing]}
blocks:
  description: Number of used and free addresses of each block of the node.
  returned: when there is a state
  type: list
  elements: dict
  sample: [{cidr: 10.244.9.64/26, pool: default-ipv4-ippool, size: 64, in_use: 12, reserved: 0, free: 52, spare: false}]
workloads:
  description: Number of workloads on the node, including the inventory's.
  returned: when there is a state
  type: int
agent:
  description:
    - Whether the node shall have an agent, the status that the agent reports, and the seconds since its start.
    - Its C(paths) has the paths to other nodes that the agent watches between runs, with counts by pool, and at
      most 16 paths and nodes that are down. An agent of an earlier release leaves it out.
  returned: always
  type: dict
  sample: {wanted: true, running: true, version: 0.2.0, uptime: 777600, in_sync: true, problems: [],
           drift: {total: 9, day: 3, kinds: {route: 3}},
           paths: {watched: true, reason: "", pools: [{pool: default-ipv4-ippool, paths: 3, up: 3, down: 0,
                   untested: 0, absent: 0, seconds: 5}], down: [], nodes: [], count_nodes: 0, fragmenting: null,
                   reassembled: null}}
problems:
  description: Parts that could not be read, and a change that the node has reverted or is about to revert, in words.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import node_status_info

main = archive_start.main_of(node_status_info, AnsibleModule)

if __name__ == "__main__":
    main()
