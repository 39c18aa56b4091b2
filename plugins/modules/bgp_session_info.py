# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: bgp_session_info
short_description: Read the BGP sessions of a node
version_added: 0.1.0
description:
  - Returns the BGP sessions of the node as its BIRD reports them.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  neighbor:
    description:
      - Return sessions with this address only.
    type: str
seealso:
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Read the sessions
  baremetal.host_routing.bgp_session_info:
"""

RETURN = r"""
running:
  description: Whether the node's BIRD answers.
  returned: always
  type: bool
version:
  description: Version of BIRD, V(null) when BIRD does not answer.
  returned: always
  type: str
  sample: 2.0.12
router_id:
  description: Router ID of BIRD, V(null) when BIRD does not answer.
  returned: always
  type: str
  sample: 10.10.1.11
error:
  description: Reason why BIRD does not answer, V(null) when it does.
  returned: always
  type: str
sessions:
  description: The sessions, by name.
  returned: always
  type: list
  elements: dict
  sample: [{name: Mesh_10_10_1_12, address: 10.10.1.12, bgp_state: Established, established: true, imported: 1}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import bgp_session_info

main = archive_start.main_of(bgp_session_info, AnsibleModule)

if __name__ == "__main__":
    main()
