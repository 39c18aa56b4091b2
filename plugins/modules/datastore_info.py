# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action datastore_info, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: datastore_info
short_description: Read how the nodes of a fleet do from its datastore
version_added: 0.2.0
description:
  - Reads the heartbeat that each node's agent writes into the datastore every 10 seconds. No node is contacted.
  - A node writes its heartbeat as it likes. One of another form is left out, with the reason in RV(refused).
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes.info_module
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
seealso:
  - module: baremetal.host_routing.datastore
  - module: baremetal.host_routing.node_status_info
options:
  heartbeats:
    description:
      - Whether to read heartbeats. Otherwise only members are asked whether they answer, and RV(reachable) is V(null).
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Read the heartbeats
  baremetal.host_routing.datastore_info:
  register: datastore
  run_once: true

- name: Name the nodes that drifted today
  ansible.builtin.debug:
    msg: "{{ datastore.nodes | dict2items | selectattr('value.drift_day', '>', 0) | map(attribute='key') }}"
  run_once: true
"""

RETURN = r"""
reachable:
  description: Whether a member answered; V(null) in a fleet without a datastore.
  returned: success
  type: bool
reason:
  description: Why the datastore cannot be read.
  returned: success
  type: str
version:
  description: Release of the member that answered.
  returned: success
  type: str
  sample: 3.5.16
members:
  description: Number of members of the etcd cluster that the inventory has.
  returned: success
  type: int
  sample: 3
silent_members:
  description: Why members do not answer, by their addresses; V({}) if all do.
  returned: success
  type: dict
  sample: {"https://10.10.1.13:2379": connection refused}
nodes:
  description:
    - The last heartbeat of each node, by its name. V(age) is in seconds, V(written) is a time of the node's own clock.
    - V(revision) of the store V(cluster) is what the node's policy knows of the other nodes.
  returned: success
  type: dict
  sample:
    node1:
      node: node1
      written: 1795770000.5
      age: 3.2
      version: 0.2.0
      plan: 7f3a91c2d4e5
      phase: converge
      in_sync: true
      problems: 0
      first_problem: ""
      drift_day: 0
      sessions_established: 10
      sessions_total: 11
      sessions_down: [node7]
      workloads: 41
      revision: 5120
      cluster: 14841639068965178418
      feed_synced: true
      feed_age: 0.4
refused:
  description: Why heartbeats are left out, by node.
  returned: success
  type: dict
  sample: {node7: its field written is None, not a number of seconds.}
"""
