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
  description: The routes, by protocol, then as the kernel has them.
  returned: always
  type: list
  elements: dict
  sample: [{destination: 10.244.7.0/26, gateway: 10.10.1.12, device: tunl0, onlink: true, protocol: bird}]
"""

import ipaddress
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import family_of, inside
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine, report


def _network(text: str) -> str:
    try:
        return str(ipaddress.IPv6Network(text) if family_of(text) == 6 else ipaddress.IPv4Network(text))
    except ValueError as error:
        version, example = ("IPv6", "fd00:10:244::40/122") if family_of(text) == 6 else ("IPv4", "10.244.3.0/26")
        raise ValueError(f"prefix is not an {version} network: {error}. Write it as {example}.") from None


def look(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.routes(here.kernel, params["table"], params["protocol"])
    if params["prefix"] is not None:
        outer = _network(params["prefix"])
        found = [entry for entry in found if inside(entry["destination"], outer)]
    return {"routes": found}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "str"},
            "protocol": {
                "type": "list",
                "elements": "str",
                "choices": ["calico", "bird"],
                "default": ["calico", "bird"],
            },
            "table": {"type": "int", "default": 254},
        },
        supports_check_mode=True,
    )
    standalone_module.run_info(module, machine.here(), lambda here: look(module.params, here))


if __name__ == "__main__":
    main()
