# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: interface_sysctl_info
short_description: Read routing settings of an interface
version_added: 0.1.0
description:
  - Returns the settings that M(baremetal.host_routing.interface_sysctl) manages.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  interface:
    description:
      - The interface.
    type: str
    required: true
seealso:
  - module: baremetal.host_routing.interface_sysctl
"""

EXAMPLES = r"""
- name: Read the settings of an interface
  baremetal.host_routing.interface_sysctl_info:
    interface: eth0
"""

RETURN = r"""
settings:
  description: The settings, V(null) for those that the interface does not have.
  returned: always
  type: dict
  sample: {forwarding: 1, proxy_arp: 0, rp_filter: 2}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import interface_sysctl_info

main = archive_start.main_of(interface_sysctl_info, AnsibleModule)

if __name__ == "__main__":
    main()
