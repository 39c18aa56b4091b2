# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tunnel_device_info
short_description: Read the tunnel devices
version_added: 0.1.0
description:
  - Returns C(tunl0) and C(vxlan.calico) with their addresses, and the latter's entries for other nodes.
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

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine, report


def look(here: machine.Machine) -> dict[str, t.Any]:
    return {"devices": report.tunnels(here.kernel)}


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    standalone_module.run_info(module, machine.here(), look)


if __name__ == "__main__":
    main()
