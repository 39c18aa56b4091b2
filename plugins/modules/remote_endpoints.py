# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: remote_endpoints
short_description: Set what a node knows of other nodes' workloads
version_added: 0.2.0
description:
  - Sends a node the workloads that came to other nodes between runs, so that selectors in rules match them. When the
    module returns, policy with them is in force, through the agent if one runs.
  - The node keeps these workloads, also over a reboot, and forgets nodes that have left the fleet. For nodes that are
    not in O(told), it keeps what it knows.
  - A newer timestamp alone is stored, not reported as a change.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
  - baremetal.host_routing.node.lock_timeout
  - baremetal.host_routing.node.who
options:
  exchange:
    description:
      - The folder returned by M(baremetal.host_routing.endpoint_sync), which contains the data for this node.
    type: str
  told:
    description:
      - By the name of a node, the time at which it was read (C(collected)), and its workloads (C(endpoints)) as
        M(baremetal.host_routing.remote_endpoints_info) returns them. Without C(endpoints) they have not changed.
      - C(blocks) are the node's blocks in the lockfile. Addresses outside of them are left out, with a warning.
    type: dict
  nodes:
    description:
      - Names of all nodes of the fleet.
    type: list
    elements: str
seealso:
  - module: baremetal.host_routing.remote_endpoints_info
  - module: baremetal.host_routing.endpoint_sync
"""

EXAMPLES = r"""
- name: Send the node the workloads of the others
  baremetal.host_routing.remote_endpoints:
    exchange: "{{ exchange.path }}"

- name: Send the node one workload, by hand
  baremetal.host_routing.remote_endpoints:
    nodes: [node1, node2]
    told:
      node2:
        collected: "2026-11-22T06:00:00Z"
        blocks: [10.244.3.0/26]
        endpoints:
          - kind: WorkloadEndpoint
            name: default/web-1
            node: node2
            interface: cali1f2e3d4c5b6
            addresses: [10.244.3.2]
            labels: {app: web, projectcalico.org/namespace: default}
            namespace: default
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ endpoint default/web-1 on node2  10.244.3.2  labels app=web"]
changes:
  description: The same for programs.
  returned: always
  type: list
  elements: dict
  sample: [{action: "+", subject: default/web-1 on node2}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import remote_endpoints

main = archive_start.main_of(remote_endpoints, AnsibleModule)

if __name__ == "__main__":
    main()
