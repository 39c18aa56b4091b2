# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action etcd_plan, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_plan
short_description: Plan the steps to the members that the etcd cluster shall have
version_added: 0.2.0
description:
  - Looks at what all hosts of the group registered for M(baremetal.host_routing.etcd_member_info), and returns ordered
    steps. The task fails if the cluster cannot become what is wanted.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  seen:
    description:
      - Name of the variable that each host registered.
    type: str
    required: true
  upgrade:
    description:
      - Whether members get the newest package that their hosts can install.
    type: bool
    default: false
  clear_alarms:
    description:
      - Whether alarms are ended.
    type: bool
    default: false
  only:
    description:
      - What is done to all members one by one, and nothing else. V(revoke) restarts and defragments those that answer,
        ends the alarm NOSPACE, and leaves the others out.
    type: str
    choices: ["", restart, defragment, revoke]
    default: ""
  changed:
    description:
      - Hosts whose files a run in check mode would change.
    type: list
    elements: str
    default: []
  operators:
    description:
      - Addresses and CIDRs of operators. An empty list is the address from which Ansible reaches the hosts. Those of
        C(calico_etcd_operators) are added.
    type: list
    elements: str
    default: []
  operators_left:
    description:
      - Operators whose users the run deletes. Their open watches end when the members are restarted.
    type: list
    elements: str
    default: []
  show:
    description:
      - Whether the steps are printed.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Plan the cluster
  baremetal.host_routing.etcd_plan:
    seen: calico_etcd_seen
  run_once: true
  register: calico_etcd_plan
"""

RETURN = r"""
steps:
  description: The steps in order.
  returned: success
  type: list
  elements: dict
notices:
  description: What no step changes, such as alarms.
  returned: success
  type: list
  elements: str
left_out:
  description: Hosts that a revocation does not reach, or whose members do not answer.
  returned: success
  type: list
  elements: str
members:
  description: The addresses of members, which reach each other, by IP version.
  returned: success
  type: dict
fleet:
  description: The addresses of nodes and members, which reach the gates, by IP version.
  returned: success
  type: dict
fleet_addresses:
  description: The same addresses one by one. Gates keep places for each of them.
  returned: success
  type: list
  elements: str
operators:
  description: The addresses and CIDRs of operators, which reach the members and the gates, by IP version.
  returned: success
  type: dict
via:
  description: A host whose member answers, empty without one.
  returned: success
  type: str
"""
