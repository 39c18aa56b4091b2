# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_operation
short_description: Change the etcd cluster by one of its members
version_added: 0.2.0
description:
  - Adds, promotes and removes members, switches authentication on, deletes users, and waits until a member is healthy.
  - All but snapshots and defragmentation is idempotent.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A snapshot and a defragmentation are made in each call.
options:
  url:
    description:
      - URL of the host's own member.
    type: str
    required: true
  operation:
    description:
      - V(add) adds the member at O(peer_url) as a learner, and V(promote) gives it a vote.
      - V(remove) removes the member O(member_id).
      - V(secure) switches authentication on, with the operator as the user root.
      - V(revoke) deletes O(user), the role of the same name, and all keys that the node of that name has written. It
        reads none of them. Five seconds later the cluster forgets them, so that their space is free.
      - V(disarm) ends all alarms.
      - V(snapshot) writes a snapshot to O(path), and V(defragment) gives free space of the database back.
      - V(wait) waits until the member is healthy.
    type: str
    required: true
    choices: [add, defragment, disarm, promote, remove, revoke, secure, snapshot, wait]
  username:
    description:
      - The operator's user. The action sets it, and O(password).
    type: str
  password:
    description:
      - The password of the operator's user.
    type: str
  peer_url:
    description:
      - URL of a member for other members.
    type: str
  member_id:
    description:
      - Identity of a member in hexadecimal digits.
    type: str
  user:
    description:
      - User to delete.
    type: str
  path:
    description:
      - File on the host that a snapshot is written to.
    type: path
  votes:
    description:
      - Whether V(wait) also waits for a quorum, by a read that needs one. A member that was just added has no vote.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait.
    type: int
    default: 60
seealso:
  - module: baremetal.host_routing.etcd_member_info
"""

EXAMPLES = r"""
- name: Wait until the member is healthy
  baremetal.host_routing.etcd_operation:
    url: https://10.10.1.11:2379
    operation: wait
"""

RETURN = r"""
deleted_keys:
  description: Number of keys that V(revoke) deletes.
  returned: for this operation
  type: int
  sample: 12
size:
  description: Bytes of the snapshot, or of the database after its defragmentation.
  returned: for these operations
  type: int
  sample: 20480
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.cluster import etcd_operation

main = archive_start.main_of(etcd_operation, AnsibleModule)

if __name__ == "__main__":
    main()
