# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload_info
short_description: Read the workloads of a node
version_added: 0.2.0
description:
  - Returns the workloads of a node, both the inventory's and those added between runs.
  - Asks the agent. If the agent does not run, it reads the agent's records on the node and warns.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  name:
    description:
      - Return workloads of this name only.
    type: str
  namespace:
    description:
      - Return workloads of this namespace only.
    type: str
  selector:
    description:
      - Return only workloads whose labels match this selector, in Calico's language.
    type: str
seealso:
  - module: baremetal.host_routing.workload
"""

EXAMPLES = r"""
- name: Read the workloads
  baremetal.host_routing.workload_info:
  register: node

- name: Read the workloads of one application
  baremetal.host_routing.workload_info:
    selector: app == 'web' && has(tier)
"""

RETURN = r"""
workloads:
  description: The workloads, by namespace and name.
  returned: always
  type: list
  elements: dict
  contains:
    id: {description: What it is known by., type: str, sample: default/web-1}
    name: {description: Its name., type: str, sample: web-1}
    namespace: {description: Calico's namespace., type: str, sample: default}
    by: {description: "Its origin: V(inventory), V(cni) or V(api).", type: str, sample: api}
    addresses: {description: Its addresses., type: list, elements: str, sample: [10.244.3.2]}
    pool: {description: The IP pool of its address., type: str, sample: default-ipv4-ippool}
    interface: {description: The host end., type: str, sample: cali1f2e3d4c5b6}
    netns: {description: Its network namespace., type: str, sample: web-1}
    peer_interface: {description: The end inside., type: str, sample: eth0}
    labels: {description: Its labels., type: dict, sample: {app: web}}
    network: {description: The network that the container runtime named., type: str, sample: podman}
    container: {description: The container's id., type: str}
    since: {description: "Time of its attachment, UTC.", type: str, sample: "2026-11-21T07:00:00Z"}
agent_running:
  description: Whether the agent answered.
  returned: always
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import workload_info

main = archive_start.main_of(workload_info, AnsibleModule)

if __name__ == "__main__":
    main()
