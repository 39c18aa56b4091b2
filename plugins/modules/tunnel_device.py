# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tunnel_device
short_description: The device of an IPIP or VXLAN tunnel
version_added: 0.1.0
description:
  - Creates C(tunl0), C(vxlan.calico) or C(vxlan-v6.calico) as a node has it, up and with its address. For VXLAN it adds
    the other nodes as permanent neighbour and forwarding entries, in place of multicast or learning.
  - The kernel cannot delete C(tunl0). Absent means that it is down and has no address from this module.
  - Addresses on C(tunl0) and devices that the collection has not made are never changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  kind:
    description:
      - V(ipip) for C(tunl0), V(vxlan) for C(vxlan.calico), V(vxlan6) for C(vxlan-v6.calico), which carries IPv6 over
        IPv6.
    type: str
    choices: [ipip, vxlan, vxlan6]
    required: true
  local:
    description:
      - The node's own address, which is the source of the tunnel's packets. Required for V(vxlan), and for V(vxlan6) as
        an IPv6 address.
    type: str
  address:
    description:
      - Address of the node in the tunnel, set on the device as /32, or as /128 for V(vxlan6).
    type: str
  mtu:
    description:
      - MTU of the device. By default that of the interface with O(local), or 1500, minus the encapsulation.
    type: int
  node:
    description:
      - Name of the node. The MAC of a VXLAN device is a hash of it. By default the name of the host.
    type: str
  vni:
    description:
      - VXLAN network identifier.
    type: int
    default: 4096
  port:
    description:
      - UDP port of VXLAN.
    type: int
    default: 4789
  remotes:
    description:
      - The other ends of a VXLAN device. Others are removed; without this option all stay.
    type: list
    elements: dict
    suboptions:
      address:
        description: Address of the other node, which is the destination of the tunnel's packets.
        type: str
        required: true
      node:
        description: Name of the other node. Its MAC is a hash of it. This or O(remotes[].mac) is required.
        type: str
      mac:
        description: MAC of the other node's VXLAN device, as C(66:0a:1b:2c:3d:4e).
        type: str
      gateway:
        description:
          - Gateway of the routes through it. By default O(remotes[].address); for V(vxlan6) the link-local address that
            its MAC implies, because the kernel accepts no other.
        type: str
  state:
    description:
      - Whether the device shall exist.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.tunnel_device_info
"""

EXAMPLES = r"""
- name: An IPIP tunnel to the gateway of any route
  baremetal.host_routing.tunnel_device:
    kind: ipip
    local: 10.65.132.187

- name: A VXLAN tunnel to one other node
  baremetal.host_routing.tunnel_device:
    kind: vxlan
    local: 10.65.132.187
    address: 172.19.1.0
    remotes:
      - {node: host2, address: 10.65.132.188}

- name: A tunnel for IPv6, and the route to a block of the other node
  baremetal.host_routing.tunnel_device:
    kind: vxlan6
    local: fd00:10:10:1::11
    remotes:
      - {node: host2, address: "fd00:10:10:1::12"}

- name: The route, with the address that the other end's MAC implies
  baremetal.host_routing.route:
    destination: fd00:10:244::40/122
    device: vxlan-v6.calico
    gateway: fe80::64e0:d8ff:fe7a:849f
    onlink: true
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ device   tunl0  mtu 1480  up"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import tunnel_device

main = archive_start.main_of(tunnel_device, AnsibleModule)

if __name__ == "__main__":
    main()
