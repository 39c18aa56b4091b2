# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: route
short_description: Routes with the collection's protocol number
version_added: 0.1.0
description:
  - Adds, replaces in place and removes routes with protocol number 179 (C(proto calico)), any number in one call.
  - Routes of other protocols are never changed. If one has the same destination, the module fails.
  - On a node with a state of M(baremetal.host_routing.node), a run of that module removes routes that the state does
    not have.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  routes:
    description:
      - The routes. Use this or O(destination).
    type: list
    elements: dict
    suboptions:
      destination:
        description: CIDR of either IP version, or an address, which means its /32 or /128.
        type: str
        required: true
      type:
        description: V(blackhole) drops packets that match no longer prefix.
        type: str
        choices: [unicast, blackhole]
        default: unicast
      device:
        description: Outgoing interface.
        type: str
      gateway:
        description: Next hop, of the same IP version. Without it the destination is on the link itself.
        type: str
      onlink:
        description: Treat the gateway as on the link, whatever addresses the device has. For tunnel devices.
        type: bool
        default: false
      mtu:
        description: Largest packet in bytes. By default the device's MTU.
        type: int
      table:
        description: Routing table.
        type: int
        default: 254
  destination:
    description:
      - CIDR of either IP version, or an address, which means its /32 or /128.
    type: str
  type:
    description:
      - V(blackhole) drops packets that match no longer prefix.
    type: str
    choices: [unicast, blackhole]
    default: unicast
  device:
    description:
      - Outgoing interface.
    type: str
  gateway:
    description:
      - Next hop. Without it the destination is on the link itself.
    type: str
  onlink:
    description:
      - Treat the gateway as on the link, whatever addresses the device has. For tunnel devices.
    type: bool
    default: false
  mtu:
    description:
      - Largest packet in bytes. By default the device's MTU.
    type: int
  table:
    description:
      - Routing table.
    type: int
    default: 254
  state:
    description:
      - Whether the routes shall exist.
    type: str
    choices: [present, absent]
    default: present
  purge:
    description:
      - Remove all other routes with the collection's protocol number, in all tables. Needs O(routes).
    type: bool
    default: false
seealso:
  - module: baremetal.host_routing.route_info
"""

EXAMPLES = r"""
- name: Route to the workloads of another host
  baremetal.host_routing.route:
    destination: 172.19.2.0/24
    gateway: 10.65.132.188
    device: ens18

- name: Route to them through a tunnel
  baremetal.host_routing.route:
    destination: 172.19.2.0/24
    gateway: 10.65.132.188
    device: tunl0
    onlink: true

- name: Set exactly these routes
  baremetal.host_routing.route:
    purge: true
    routes:
      - {destination: 10.244.3.0/26, type: blackhole}
      - {destination: 10.244.3.1, device: cali717821d73f3}
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ route    172.19.2.0/24  via 10.65.132.188 dev ens18"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import route

main = archive_start.main_of(route, AnsibleModule)

if __name__ == "__main__":
    main()
