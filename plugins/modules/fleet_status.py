# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_status, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_status
short_description: Show the status of all nodes as one table
version_added: 0.2.0
description:
  - Prints a table with a row for each host of the play, also for hosts that cannot be reached, and below it, in words,
    everything that is wrong.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  status:
    description:
      - Name of the variable in which M(baremetal.host_routing.node_status_info) was registered.
    type: str
    required: true
  datastore:
    description:
      - Name of the variable in which M(baremetal.host_routing.datastore_info) was registered. If it read the datastore,
        the status is that of the heartbeats, and O(status) is not used.
    type: str
  live:
    description:
      - Name of the variable in which M(baremetal.host_routing.resource) was registered, which compared O(live_folder)
        with O(live_datastore) in check mode, with its O(baremetal.host_routing.resource#module:prune).
    type: str
    default: ""
  live_folder:
    description:
      - Folder of live policy that was compared, V("") for none. A difference is a problem.
    type: str
    default: ""
  live_datastore:
    description:
      - File of the operator that was used for it.
    type: str
    default: /etc/calico/calicoctl.cfg
  live_owner:
    description:
      - Owner of the documents of O(live_folder).
    type: str
    default: live.yml
  source:
    description:
      - With V(etcd) the task fails if the datastore was not read.
    type: str
    choices: [auto, etcd, nodes]
    default: auto
  output:
    description:
      - How to print the status.
    type: str
    choices: [text, json]
    default: text
  strict:
    description:
      - Whether the task fails when something is wrong.
    type: bool
    default: false
  report:
    description:
      - File on the controller to write the status to as one HTML page, V("") for none. Its folder has to exist.
    type: str
    default: ""
seealso:
  - module: baremetal.host_routing.node_status_info
  - module: baremetal.host_routing.datastore_info
"""

EXAMPLES = r"""
- name: Read the status of each node
  baremetal.host_routing.node_status_info:
  register: calico_node_status
  ignore_unreachable: true

- name: Show the status of all nodes
  baremetal.host_routing.fleet_status:
    status: calico_node_status
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
good:
  description: Whether everything is as planned.
  returned: success
  type: bool
problems:
  description: Everything that is wrong, in words.
  returned: success
  type: list
  elements: str
warnings_found:
  description: What works and will soon need attention, such as a pool whose addresses on a node run out, in words.
  returned: success
  type: list
  elements: str
not_tried:
  description:
    - The paths that were not tried. A status sends no probes, so its first entry are all paths of all nodes; the others
      are those that no run tries. Each has C(pool), C(reason), C(count) and up to six C(nodes).
  returned: success
  type: list
  elements: dict
nodes:
  description:
    - The status that each host registered, by host; V(null) for a host that could not be read.
    - With the datastore, the heartbeat of each host.
  returned: success
  type: dict
live:
  description:
    - How live policy differs from O(live_folder). C(compared) is whether that is known, and C(reason) why it is not.
    - C(missing), C(different) and C(extra) are the documents that the datastore lacks, that differ, and that the owner
      has and the folder lacks. Each has a C(count) and up to 16 C(names). C(same) is the number of the others.
    - C(command) shows the plan that makes the datastore equal to the folder.
  returned: with O(live_folder)
  type: dict
"""
