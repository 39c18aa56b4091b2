# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: route_info
short_description: Read routes
version_added: 0.1.0
description:
  - Returns the routes of the collection and of BIRD.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  prefix:
    description:
      - Return only routes for this network, of either IP version, or for networks inside it.
    type: str
  protocol:
    description:
      - Return routes of these protocols.
    type: list
    elements: str
    choices: [calico, bird]
    default: [calico, bird]
  table:
    description:
      - Routing table.
    type: int
    default: 254
seealso:
  - module: baremetal.host_routing.route
"""

EXAMPLES = r"""
- name: Show how a block is reached
  baremetal.host_routing.route_info:
    prefix: 10.244.7.0/26
"""

RETURN = r"""
routes:
  description:
    - The routes, by protocol, then as the kernel has them.
    - A route with several next hops has the first one in C(gateway) and C(device), and a list of all in C(next_hops).
  returned: always
  type: list
  elements: dict
  sample: [{destination: 10.244.7.0/26, gateway: 10.10.1.12, device: tunl0, onlink: true, protocol: bird}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import route_info

main = archive_start.main_of(route_info, AnsibleModule)

if __name__ == "__main__":
    main()
