# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action datastore, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: datastore
short_description: Bring the datastore of a fleet to the inventory
version_added: 0.2.0
description:
  - Gives each node that runs workloads a user of the etcd cluster with rights to its own keys, and removes the users of
    nodes that left the inventory. Does the same for the operators of C(calico_etcd_operators), and writes their files
    to C(.calico.etcd/operators) beside the inventory.
  - Publishes nodes, IP pools and the blocks of each node, and removes such keys that the inventory does not have. Run
    it once, before the nodes get their states.
  - With C(calico_live_policy), publishes the policy documents of the inventory, too. Refuses to remove a tier in which
    live documents are, and says which of them come into force or lose their effect. Warns of those whose rules select
    no network set any more.
  - For a fleet that returns to stored states, it publishes only the inventory's policy, as these states have it. If
    they do not tell it, a warning says so, and which command puts it right.
  - In a fleet without a datastore it does nothing.
  - A cluster without passwords, of an etcd before 3.4, or with foreign keys below C(/host-routing/) is refused.
  - If no member answers, the run goes on with a warning, unless no node uses the datastore yet.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.internal
attributes:
  diff_mode:
    support: full
options:
  fleet:
    required: true
  observed:
    required: true
  leaving:
    description:
      - Node whose own keys are removed, too, because it leaves the fleet. It must not be in the compiled fleet.
    type: str
    default: ""
seealso:
  - module: baremetal.host_routing.datastore_info
  - module: baremetal.host_routing.fleet
"""

EXAMPLES = r"""
- name: Publish the fleet
  baremetal.host_routing.datastore:
    fleet: "{{ calico_node_fleet.path }}"
    observed: calico_node_observed
  run_once: true
"""

RETURN = r"""
reachable:
  description: Whether a member answered; V(null) in a fleet without a datastore.
  returned: success
  type: bool
version:
  description: Release of the member that answered.
  returned: success
  type: str
  sample: 3.5.16
plan:
  description: What was changed, or would be, one line for each user, role and key. No line has a secret.
  returned: success
  type: list
  elements: str
  sample: ["+ user     node4  role node4"]
live:
  description: What the run means for live documents, one line for each. The lines are in RV(plan), too.
  returned: success
  type: list
  elements: str
  sample: ["~ live     Tier security    comes into force: the inventory has none of this name any more"]
"""
