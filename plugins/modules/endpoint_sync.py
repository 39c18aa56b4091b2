# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action endpoint_sync, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_sync
short_description: Determine which workloads of other nodes each node lacks
version_added: 0.2.0
description:
  - Takes what all hosts of the play registered from M(baremetal.host_routing.remote_endpoints_info), and stores the
    endpoints that each node does not know yet in a folder that exists until the end of the run. Run it once.
  - A node can report only its own addresses. Workloads with an address outside of the blocks that the lockfile gives to
    their node, or with a name, label or port that Calico does not accept, are left out with a warning.
  - Other nodes keep what they know of nodes that are not in the play or did not answer.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  asked:
    description:
      - Name of the variable in which M(baremetal.host_routing.remote_endpoints_info) was registered.
    type: str
    required: true
seealso:
  - module: baremetal.host_routing.remote_endpoints_info
  - module: baremetal.host_routing.remote_endpoints
  - module: baremetal.host_routing.endpoint_sync_report
"""

EXAMPLES = r"""
- name: Read each node's workloads
  baremetal.host_routing.remote_endpoints_info:
  register: asked

- name: Compute the missing workloads of each node
  baremetal.host_routing.endpoint_sync:
    asked: asked
  register: exchange
  run_once: true

- name: Send the missing workloads to each node
  baremetal.host_routing.remote_endpoints:
    exchange: "{{ exchange.path }}"
"""

RETURN = r"""
path:
  description: Folder on the controller, for M(baremetal.host_routing.remote_endpoints).
  returned: success
  type: str
answered:
  description: The hosts that answered.
  returned: success
  type: list
  elements: str
datastore:
  description: Whether the fleet has a datastore, by which nodes learn of each other's workloads without this exchange.
  returned: success
  type: bool
left_out:
  description: Workloads that nodes reported and that are not passed on, with the reasons, in words.
  returned: success
  type: list
  elements: str
  sample: ["node3: workload default/web is left out: 0.0.0.0/0 is not a single address."]
"""
