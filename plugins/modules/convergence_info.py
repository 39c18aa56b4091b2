# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: convergence_info
short_description: Wait until a node's sessions and routes are in place
version_added: 0.1.0
description:
  - Waits, on the node, until all of its BGP sessions are Established and all routes that BIRD shall write are in the
    kernel exactly as planned, with gateway, device and C(onlink). Checks several times per second in a single call.
  - Fails when the time is over, and names what is missing.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.phase
options:
  state:
    description:
      - The NodeState whose sessions and routes to wait for. By default the state stored on the node.
      - The action takes it from O(fleet) if that is given.
    type: dict
  timeout:
    description:
      - Seconds to wait; V(0) checks once.
    type: int
    default: 60
  fail:
    description:
      - Whether a node that has not converged is a failure.
    type: bool
    default: true
seealso:
  - module: baremetal.host_routing.node
  - module: baremetal.host_routing.bgp_session_info
"""

EXAMPLES = r"""
- name: Wait for sessions and routes
  baremetal.host_routing.convergence_info:
    timeout: 30

- name: Check once and go on
  baremetal.host_routing.convergence_info:
    timeout: 0
    fail: false
  register: convergence
"""

RETURN = r"""
converged:
  description: Whether nothing is missing.
  returned: always
  type: bool
sessions:
  description:
    - Number of BGP sessions that shall exist, number that are Established, and how many of the latter are with routers
      outside the fleet.
  returned: always
  type: dict
  sample: {expected: 3, established: 3, external_established: 0}
routes:
  description: Number of routes that BIRD shall write, and number that are in the kernel as planned.
  returned: always
  type: dict
  sample: {expected: 3, present: 3}
missing:
  description: Each missing or wrong session or route, in words.
  returned: always
  type: list
  elements: str
  sample: [session with node4 (10.10.2.14) is Active since 14:02:11]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import convergence_info

main = archive_start.main_of(convergence_info, AnsibleModule)

if __name__ == "__main__":
    main()
