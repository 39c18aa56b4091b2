# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: teardown
short_description: Remove everything of the collection from a node
version_added: 0.2.0
description:
  - Removes all that the collection has made on the host, including workloads that came between runs. The order is the
    configuration of the CNI network, the units (BIRD first closes its sessions), workloads, routes, tunnel devices,
    rules, neighbours, chains and sets of the kernel, files, stored states and addresses, the engine.
  - Objects that are not marked as the collection's own stay, and so do kernel settings such as C(ip_forward).
  - A folder that is reached by a symbolic link, as in another layout of the host's disks, is emptied. The link stays.
  - If the node's stored state cannot be read, the module fails and removes nothing, because the files and the routes of
    BIRD that only this state names would be left.
  - Containers that run in networks of the node, of podman, Docker or CNI, lose their network. So the module refuses to
    remove anything while there are any, except with O(force). Then it takes them off their networks first, while the
    plugins still answer.
  - Docker's networks of the driver C(calico) and podman's networks of this driver are removed, and folders that the
    collection has made, if nothing of others is in them.
  - The node keeps its blocks in the lockfile on the controller. To release them, remove the host from the inventory.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
options:
  force:
    description:
      - Whether to take the network of running containers away. It also goes on if a container runtime does not answer.
    type: bool
    default: false
    version_added: 0.2.0
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
  - baremetal.host_routing.node.lock_timeout
  - baremetal.host_routing.node.who
seealso:
  - module: baremetal.host_routing.node
  - module: baremetal.host_routing.node_info
"""

EXAMPLES = r"""
- name: Show what would be removed
  baremetal.host_routing.teardown:
  check_mode: true
  diff: true

- name: Remove the node from service
  baremetal.host_routing.teardown:
"""

RETURN = r"""
containers:
  description: The containers that run in networks of the node, or did before.
  returned: always
  type: list
  elements: str
  sample: ["web (Docker, network pods)"]
refusal:
  description:
    - Why the module refuses to run without O(force), as a sentence. Empty if it does not refuse.
    - In check mode, and with O(force), it is only returned.
  returned: always
  type: str
  sample: ""
plan:
  description: What has been removed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["- workload default/web-1    host end cali0123456789a"]
kept:
  description: What stays, and the reasons.
  returned: always
  type: list
  elements: str
  sample: ["10.244.3.0/32 kept: 2 open sockets use it"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import teardown

main = archive_start.main_of(teardown, AnsibleModule)

if __name__ == "__main__":
    main()
