# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: iptables_table
short_description: The collection's chains of an iptables table
version_added: 0.1.0
description:
  - Makes a table contain exactly the given chains C(cali-*), and the given rules at the top of other chains, in one
    transaction of C(iptables-restore --noflush).
  - Each rule has a hash in its comment, which identifies it. Rules without one are never changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  table:
    description:
      - The table.
    type: str
    choices: [filter, nat, mangle, raw]
    default: filter
  family:
    description:
      - IP version of the table.
    type: int
    choices: [4, 6]
    default: 4
  chains:
    description:
      - Rules of each chain, as the arguments that C(iptables) takes after C(-A) and the chain's name.
      - Chains C(cali-*) of the collection that are not named are removed.
    type: dict
    default: {}
  hooks:
    description:
      - Rules to keep at the top of chains that are not the collection's.
    type: list
    elements: dict
    default: []
    suboptions:
      chain:
        description: Chain that is not the collection's.
        type: str
        required: true
      rule:
        description: The rule, usually a jump.
        type: str
        required: true
  state:
    description:
      - V(absent) removes all that the collection has in the table.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.iptables_table_info
"""

EXAMPLES = r"""
- name: Masquerade traffic of workloads to the outside
  baremetal.host_routing.iptables_table:
    table: nat
    chains:
      cali-nat-outgoing:
        - -d 10.244.0.0/16 -j RETURN
        - -s 10.244.0.0/16 -j MASQUERADE --random-fully
    hooks:
      - {chain: POSTROUTING, rule: -j cali-nat-outgoing}
"""

RETURN = r"""
plan:
  description: The differences, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ iptables nat cali-nat-outgoing  2 rules"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects import iptables_table

main = archive_start.main_of(iptables_table, AnsibleModule)

if __name__ == "__main__":
    main()
