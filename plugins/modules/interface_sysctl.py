# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: interface_sysctl
short_description: Routing settings of an interface
version_added: 0.1.0
description:
  - Sets what an interface needs for routing to workloads, in a safe order. C(proxy_delay) comes before C(proxy_arp),
    whatever the order of the options. Settings that a change of forwarding resets are restored after it.
  - Settings that are not named stay as they are. They last until the interface is deleted or the host restarts.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  interface:
    description:
      - The interface. V(all) and V(default) are the kernel's own; forwarding on V(all) is C(net.ipv4.ip_forward).
    type: str
    required: true
  forwarding:
    description:
      - Whether packets that arrive on it are forwarded.
    type: bool
  proxy_arp:
    description:
      - Whether the host answers ARP requests on it for addresses to which it has a route through another interface.
    type: bool
  proxy_delay:
    description:
      - Maximum delay of such an answer, in hundredths of a second.
    type: int
  rp_filter:
    description:
      - Check of packets' source addresses, V(0) none, V(1) strict, V(2) loose.
    type: int
    choices: [0, 1, 2]
  accept_local:
    description:
      - Whether packets with a source address of the host itself are accepted.
    type: bool
  send_redirects:
    description:
      - Whether the host tells senders of a better router (ICMP redirects).
    type: bool
seealso:
  - module: baremetal.host_routing.interface_sysctl_info
"""

EXAMPLES = r"""
- name: Answer the ARP requests of a workload
  baremetal.host_routing.interface_sysctl:
    interface: veth1
    proxy_delay: 0
    proxy_arp: true
    forwarding: true

- name: Enable forwarding
  baremetal.host_routing.interface_sysctl:
    interface: all
    forwarding: true
"""

RETURN = r"""
plan:
  description: The differences, one line each.
  returned: always
  type: list
  elements: str
  sample: ["~ sysctl   net.ipv4.conf.veth1.proxy_arp  0  ->  1"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import interface_sysctl

main = archive_start.main_of(interface_sysctl, AnsibleModule)

if __name__ == "__main__":
    main()
