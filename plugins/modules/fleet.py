# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: Compile the inventory into one state per node
version_added: 0.1.0
description:
  - Checks the variables of all nodes of the inventory, extends the plan of blocks in the lockfile, and keeps the result
    on the controller for the other actions of the run.
  - Runs on the controller only, and once per run. It plans for all nodes of the inventory, whatever C(--limit) selects.
  - An inventory that cannot be compiled causes one error that names the variable, its value, the rule and the remedy.
    No host is changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.pool_mode
attributes:
  diff_mode:
    support: full
options:
  observed:
    required: true
  as_observed:
    description:
      - Compile with the modes and BGP sessions that the nodes have, instead of those of the inventory.
    type: bool
    default: false
  restore:
    description:
      - Name of the variable in which each host registered a stored generation. Its states become the targets.
    type: str
  without:
    description:
      - Name of a node that leaves the fleet. The plan ignores it, as if the inventory did not contain it.
    type: str
  hold:
    description:
      - Whether backup routes hold traffic in the phases even if this run finds no session that needs them.
    type: bool
    default: false
  topology:
    description:
      - BGP as in the inventory (V(inventory)), or a mesh or reflectors instead. Pools keep the modes that the nodes
        have.
    type: str
    choices: ["", inventory, mesh, reflectors]
    default: ""
  limits:
    description:
      - How much the run may interrupt before it is refused; V(-1) is no limit. The interruptions are printed.
    type: dict
    suboptions:
      session_resets:
        description: BGP sessions that end or restart, each counted once.
        type: int
        default: -1
      external_resets:
        description: The sessions among these that are with routers outside the fleet.
        type: int
        default: -1
      hosts_changed:
        description: Hosts that change, other than by policy.
        type: int
        default: -1
      routes_withdrawn:
        description: Announced blocks that will no longer be announced.
        type: int
        default: -1
  approve:
    description:
      - The RV(approval) of a plan that may exceed O(limits).
    type: str
    default: ""
  podman:
    description:
      - Whether podman of the hosts gets O(podman_networks), as in M(baremetal.host_routing.preflight).
    type: str
    choices: ["no", auto, "yes"]
    default: "no"
  podman_networks:
    description:
      - Networks of podman, as in C(calico_node_podman_networks).
    type: list
    elements: dict
    default: []
  cni:
    description:
      - Whether packages that the CNI plugin recommends are required as well, for RV(prepare). The inventory's
        C(calico_node_agent) and C(calico_node_cni) of a host come first.
    type: bool
    default: false
  install_packages:
    description:
      - Whether missing packages are installed before hosts are brought to their states, for RV(prepare).
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Compile the fleet
  baremetal.host_routing.fleet:
    observed: calico_node_observed
  run_once: true
  register: calico_node_fleet
"""

RETURN = r"""
path:
  description: Private folder on the controller from which the other actions read the states of the nodes.
  returned: success
  type: str
  sample: /root/.ansible/tmp/ansible-local-1/host_routing-abc
plan:
  description: Hash that names this plan. With O(restore), V("") if the stored states are of several plans.
  returned: success
  type: str
  sample: 7f3a91c02b1e
plans:
  description: Hashes of the plans that the stored states are of.
  returned: success and O(restore)
  type: list
  elements: str
  sample: [7f3a91c02b1e]
lockfile:
  description: The file in which the plan of blocks is kept.
  returned: success and not O(restore)
  type: str
  sample: inventories/prod/.calico.lock.yml
generation:
  description: Generation of the plan of blocks.
  returned: success and not O(restore)
  type: int
  sample: 3
change:
  description: Whether a node can reach its state only through the phases of a change.
  returned: success
  type: bool
hold:
  description: Whether backup routes hold traffic in the phases, because BGP sessions are interrupted.
  returned: success
  type: bool
divert:
  description: Whether all traffic goes into tunnels before sessions with routers outside the fleet change.
  returned: success
  type: bool
fresh:
  description: Hosts that have no state yet.
  returned: success
  type: list
  elements: str
prepare:
  description: Whether something is to be said of a host, or done, before hosts are brought to their states.
  returned: success
  type: bool
steady:
  description: Whether all hosts have the states of this plan already, by what they say.
  returned: success
  type: bool
datastore:
  description:
    - Whether M(baremetal.host_routing.datastore) has something to do. With O(restore), it does in fleets with live
      policy, and publishes the inventory's policy of the stored states.
  returned: success
  type: bool
approval:
  description: Hash of the plan and of what it interrupts, for O(approve).
  returned: success and not O(restore)
  type: str
  sample: 4be07d9a3c51
modes:
  description: Mode of each pool in this run.
  returned: success
  type: dict
  sample: {default-ipv4-ippool: ipip}
impact:
  description: What the run interrupts, in words, if O(limits) are given.
  returned: success and not O(restore)
  type: list
  elements: str
"""
