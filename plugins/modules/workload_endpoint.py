# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload_endpoint
short_description: Attach a network namespace to the host
version_added: 0.1.0
description:
  - Connects a network namespace with the host by a veth pair, as Calico does. The host end C(cali...) has the MAC
    ee:ee:ee:ee:ee:ee and no address. Inside are the workload's address as /32 and a default route through 169.254.1.1,
    for which the host answers by proxy ARP. An IPv6 address is set as /128, with a default route through
    fe80::ecee:eeff:feee:eeee, the host end's link-local address.
  - The namespace is created if it is missing, and deleted with the workload if it was created here.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  name:
    description:
      - Name of the workload.
    type: str
    required: true
  namespace:
    description:
      - Calico's namespace, which is part of the interface's name.
    type: str
    default: default
  address:
    description:
      - The workload's IPv4 address. This or O(address_ipv6) is required when O(state=present).
    type: str
  address_ipv6:
    description:
      - The workload's IPv6 address.
    type: str
  netns:
    description:
      - Network namespace, as in C(ip netns). By default the name of the workload. C(calico-probe) is that of the node's
        own probe endpoint, and refused.
    type: str
  interface:
    description:
      - Name of the host end. By default C(cali) and 11 digits of a hash of O(namespace) and O(name), as Calico names
        it.
    type: str
  peer_interface:
    description:
      - Name of the interface inside.
    type: str
    default: eth0
  mtu:
    description:
      - MTU of both ends.
    type: int
    default: 1500
  routed:
    description:
      - Whether to set proxy ARP and forwarding on the host end and to route the addresses to it. Without it only the
        pair is created, for M(baremetal.host_routing.interface_sysctl) and M(baremetal.host_routing.route).
    type: bool
    default: true
  state:
    description:
      - Whether the workload shall exist.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.workload_endpoint_info
"""

EXAMPLES = r"""
- name: A workload that others can reach
  baremetal.host_routing.workload_endpoint:
    name: net1
    address: 172.19.1.2

- name: A workload with both IP versions
  baremetal.host_routing.workload_endpoint:
    name: net2
    address: 172.19.1.3
    address_ipv6: fd00:19::3

- name: Remove the workload with all that belongs to it
  baremetal.host_routing.workload_endpoint:
    name: net1
    state: absent
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ workload default/net1  eth0 172.19.1.2  host end cali717821d73f3  mtu 1500"]
interface:
  description: The host end.
  returned: success
  type: str
  sample: cali717821d73f3
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import workload_endpoint

main = archive_start.main_of(workload_endpoint, AnsibleModule)

if __name__ == "__main__":
    main()
