# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_member_info
short_description: Read what a host has of etcd, and what its member says of the cluster
version_added: 0.2.0
description:
  - Returns the versions of the package, whether the member runs, and what it says of itself and the cluster.
  - The member is asked on its own host, with the files of TLS there.
  - If the member answers, the module also asks the gate before it at O(gate_url).
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
  - baremetal.host_routing.internal
options:
  url:
    description:
      - URL of the host's own member.
    type: str
    required: true
  gate_url:
    description:
      - URL of the gate before the member. Without it the gate is not asked.
    type: str
  username:
    description:
      - The operator's user. The action sets it, and O(password).
    type: str
  password:
    description:
      - The password of the operator's user.
    type: str
seealso:
  - module: baremetal.host_routing.etcd_operation
"""

EXAMPLES = r"""
- name: Observe the member
  baremetal.host_routing.etcd_member_info:
    url: https://10.10.1.11:2379
  register: calico_etcd_seen
"""

RETURN = r"""
host:
  description: Versions of the package (installed and candidate), whether there is data, and whether the unit runs.
  returned: success
  type: dict
  sample:
    installed: 3.4.23
    candidate: 3.4.23
    data: true
    running: true
    stale: false
    controller: 192.0.2.5
member:
  description: What the member says. RV(ignore:reason) is why it does not answer, empty if it does.
  returned: success
  type: dict
  sample:
    reason: ""
    id: 8e9e05c52164694d
    version: 3.4.23
    leader: 8e9e05c52164694d
    revision: 12
    db_size: 20480
    db_in_use: 16384
    auth: "on"
    members: []
    alarms: []
gate:
  description: RV(ignore:reason) says why the gate does not answer. It is empty if the gate answers or was not asked.
  returned: success
  type: dict
  sample:
    reason: ""
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.cluster import etcd_member_info

main = archive_start.main_of(etcd_member_info, AnsibleModule)

if __name__ == "__main__":
    main()
