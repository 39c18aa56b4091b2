# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of an action that runs on the controller; the code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: Compile the inventory into one state per node
version_added: 0.1.0
description:
  - Checks the variables of all nodes of the inventory, plans their blocks on from the lockfile, and keeps the result
    on the controller for the other actions of the run.
  - Runs on the controller only and once a run. All nodes of the inventory are planned for, whatever C(--limit) says.
  - An inventory that cannot be compiled ends in one error that names variable, value, rule and way out; no host is
    touched.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.pool_mode
attributes:
  diff_mode:
    support: full
options:
  observed:
    required: true
  as_observed:
    description:
      - Compile with the modes that the nodes have, not with those of the inventory.
    type: bool
    default: false
  restore:
    description:
      - Name of the variable in which a stored generation of each host was registered; its states become the targets.
    type: str
"""

EXAMPLES = r"""
- name: Compile the fleet
  baremetal.host_routing.fleet:
    observed: calico_node_observed
  run_once: true
  register: calico_node_fleet
"""

RETURN = r"""
path:
  description: Private folder on the controller from which the other actions read what each node shall have.
  returned: success
  type: str
  sample: /root/.ansible/tmp/ansible-local-1/host_routing-abc
plan:
  description: Hash that names this plan.
  returned: success
  type: str
  sample: 7f3a91c02b1e
lockfile:
  description: The file in which the plan of blocks is kept.
  returned: success
  type: str
  sample: inventories/prod/.calico.lock.yml
generation:
  description: Generation of the plan of blocks.
  returned: success
  type: int
  sample: 3
change:
  description: Whether some node can get to its state only through the phases of a change.
  returned: success
  type: bool
modes:
  description: Mode of each pool in this run.
  returned: success
  type: dict
  sample: {default-ipv4-ippool: ipip}
"""
