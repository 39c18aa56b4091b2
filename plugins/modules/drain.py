# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Stop a node from accepting new workloads
version_added: 0.2.0
description:
  - The node's agent refuses to add workloads from then on, also after a restart. Present workloads keep running.
  - M(baremetal.host_routing.node), and so C(playbooks/site.yml), takes the node back into service.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  who:
    description:
      - Name of the person or tool that drains the node. A refused workload's error shows it.
    type: str
    default: ansible
seealso:
  - module: baremetal.host_routing.teardown
  - module: baremetal.host_routing.workload_info
"""

EXAMPLES = r"""
- name: Accept no new workloads
  baremetal.host_routing.drain:
  register: drained

- name: Wait until no workload is left
  baremetal.host_routing.drain:
  register: drained
  until: drained.workloads | length == 0
  retries: 60
  delay: 10
"""

RETURN = r"""
workloads:
  description: IDs of the present workloads that were attached between runs.
  returned: always
  type: list
  elements: str
  sample: [default/web-1]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import drain

main = archive_start.main_of(drain, AnsibleModule)

if __name__ == "__main__":
    main()
