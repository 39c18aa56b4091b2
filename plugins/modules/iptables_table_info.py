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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import iptables_table_info

main = archive_start.main_of(iptables_table_info, AnsibleModule)

if __name__ == "__main__":
    main()
