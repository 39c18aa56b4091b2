# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tunnel_device_info
short_description: Read the tunnel devices
version_added: 0.1.0
description:
  - Returns C(tunl0), C(vxlan.calico) and C(vxlan-v6.calico) with their addresses, and the entries of the VXLAN devices
    for other nodes.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
seealso:
  - module: baremetal.host_routing.tunnel_device
"""

EXAMPLES = r"""
- name: Read the tunnel devices
  baremetal.host_routing.tunnel_device_info:
"""

RETURN = r"""
devices:
  description: The devices that exist.
  returned: always
  type: list
  elements: dict
  sample: [{name: vxlan.calico, mtu: 1450, up: true, remotes: [{address: 10.10.1.12, mac: "66:8d:1b:4f:f3:44"}]}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import tunnel_device_info

main = archive_start.main_of(tunnel_device_info, AnsibleModule)

if __name__ == "__main__":
    main()
