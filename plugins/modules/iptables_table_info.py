# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: iptables_table_info
short_description: Read the collection's iptables rules
version_added: 0.1.0
description:
  - Returns the collection's chains C(cali-*) and its rules in other chains.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  table:
    description:
      - Return this table only.
    type: str
    choices: [filter, nat, mangle, raw]
  family:
    description:
      - IP version of the tables.
    type: int
    choices: [4, 6]
    default: 4
seealso:
  - module: baremetal.host_routing.iptables_table
"""

EXAMPLES = r"""
- name: Read the rules that masquerade traffic of workloads
  baremetal.host_routing.iptables_table_info:
    table: nat
"""

RETURN = r"""
tables:
  description: The rules as C(iptables-save) prints them, by table and chain.
  returned: always
  type: dict
  sample: {nat: {cali-nat-outgoing: ["-A cali-nat-outgoing -d 10.244.0.0/16 -j RETURN"]}}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine, report


def look(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.tables(here.kernel, params["family"])
    return {"tables": {name: chains for name, chains in found.items() if params["table"] in (None, name)}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "table": {"type": "str", "choices": ["filter", "nat", "mangle", "raw"]},
            "family": {"type": "int", "choices": [4, 6], "default": 4},
        },
        supports_check_mode=True,
    )
    standalone_module.run_info(module, machine.here(), lambda here: look(module.params, here))


if __name__ == "__main__":
    main()
