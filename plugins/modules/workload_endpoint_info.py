# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload_endpoint_info
short_description: Read the workloads of a host
version_added: 0.1.0
description:
  - Returns all workload endpoints on the host.
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
seealso:
  - module: baremetal.host_routing.workload_endpoint
"""

EXAMPLES = r"""
- name: Read the workloads
  baremetal.host_routing.workload_endpoint_info:
"""

RETURN = r"""
workloads:
  description: The workload endpoints, by interface.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Its name., type: str, sample: net1}
    namespace: {description: Calico's namespace., type: str, sample: default}
    interface: {description: The host end., type: str, sample: cali717821d73f3}
    up: {description: Whether the host end is up., type: bool}
    mtu: {description: MTU of the host end., type: int, sample: 1480}
    netns: {description: "Its network namespace, where that was made by the collection.", type: str, sample: net1}
    addresses: {description: Addresses that are routed to it., type: list, elements: str, sample: [172.19.1.2/32]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import workload_endpoint_info

main = archive_start.main_of(workload_endpoint_info, AnsibleModule)

if __name__ == "__main__":
    main()
