# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_confirm
short_description: Confirm a change of a node, which reverts it otherwise
version_added: 0.2.0
description:
  - Confirms that a node can be reached since it was changed with O(baremetal.host_routing.node#module:confirm_timeout).
  - M(baremetal.host_routing.node) does this by itself through a new connection. Used by hand, this module keeps a
    change whose controller has failed, as long as the node has not reverted it.
  - The confirmed state becomes a generation.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
  - baremetal.host_routing.node.generations_kept
  - baremetal.host_routing.node.lock_timeout
attributes:
  diff_mode:
    support: none
options:
  change:
    description:
      - The change, as named by M(baremetal.host_routing.node). By default, any change that waits.
    type: str
  same_connection:
    description:
      - Whether to accept a confirmation through the SSH connection of the change, if there is no other. It proves
        nothing. The action of M(baremetal.host_routing.node) sets it for connections that Ansible cannot reopen
        (local).
    type: bool
    default: false
seealso:
  - module: baremetal.host_routing.node
"""

EXAMPLES = r"""
- name: Keep the changes of a run that was interrupted
  baremetal.host_routing.node_confirm:
"""

RETURN = r"""
outcome:
  description:
    - V(confirmed) if the change stays, V(went_back) if the node has reverted it already, V(replaced) if a later change
      waits for its own confirmation, V(same_connection) if this came through the connection of the change, V(nothing)
      if no change waits.
  returned: always
  type: str
  sample: confirmed
news:
  description: What the node reports on having reverted a change, V("") if it did not.
  returned: always
  type: str
generation:
  description: Number of the generation that was recorded, V(null) where the state is the newest one already.
  returned: always
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import node_confirm

main = archive_start.main_of(node_confirm, AnsibleModule)

if __name__ == "__main__":
    main()
