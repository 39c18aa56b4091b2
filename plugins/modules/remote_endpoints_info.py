# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: remote_endpoints_info
short_description: Read the workloads that a node reports to others, and those that it knows of others
version_added: 0.2.0
description:
  - Returns the workloads that came to the node between runs, as policy knows them, and the other nodes
    whose workloads it knows. Inventory workloads are not included, since every node knows them from its plan.
  - The data is read from the node's disk, whether an agent runs or not.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
seealso:
  - module: baremetal.host_routing.remote_endpoints
  - module: baremetal.host_routing.endpoint_sync
"""

EXAMPLES = r"""
- name: Read the endpoints that the node knows
  baremetal.host_routing.remote_endpoints_info:
  register: node
"""

RETURN = r"""
node:
  description: Name of the node in the fleet, empty on a host without a state.
  returned: always
  type: str
  sample: node1
endpoints:
  description: Its own workloads that came between runs.
  returned: always
  type: list
  elements: dict
  sample: [{kind: WorkloadEndpoint, name: default/web-1, node: node1, addresses: [10.244.3.2], labels: {app: web}}]
digest:
  description: Hash of these workloads.
  returned: always
  type: str
  sample: 6cd0c2f4b9f3a1d8
known:
  description: By the name of another node, the time of its last reading, its number of workloads, and their hash.
  returned: always
  type: dict
  sample: {node2: {collected: "2026-11-22T06:00:00Z", endpoints: 3, digest: 1f2e3d4c5b6a7988}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import remote_endpoints_info

main = archive_start.main_of(remote_endpoints_info, AnsibleModule)

if __name__ == "__main__":
    main()
