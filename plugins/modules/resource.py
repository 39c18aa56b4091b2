# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action resource, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resource
short_description: Change resources in the files of an inventory, or live policy
version_added: 0.2.0
description:
  - Creates, replaces or deletes Calico's resources in the files that C(calico_resource_files) of an inventory names, as
    C(calicoctl -i INVENTORY apply) and C(calicoctl -i INVENTORY delete) do.
  - Checks the whole inventory with the change first, and writes all of it or nothing.
  - A run of C(site.yml) brings the change of an inventory to the hosts.
  - With O(datastore), changes live policy in the datastore, as C(calicoctl apply) and C(calicoctl delete) do without an
    inventory. It is in force on all nodes at once. Up to 100 documents with 512 KiB are written as a whole or not at
    all.
  - Runs on the controller and connects to no host.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.inventory
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
attributes:
  diff_mode:
    support: full
options:
  definition:
    description:
      - Calico's documents, as C(calicoctl get -o yaml) prints them. A dict, a list of them, or a text in YAML.
      - Fields that Calico's server adds are left out.
      - One of O(definition) and O(src) is required.
    type: raw
  src:
    description:
      - A file with Calico's documents, or a folder whose files and folders have them.
      - A relative path is relative to the current folder.
    type: path
  state:
    description:
      - V(present) applies the documents. V(absent) deletes the resources that their kind and name say.
    type: str
    choices: [present, absent]
    default: present
  adopt:
    description:
      - Whether a resource that stands in a variable is moved into a file of its own, as C(calicoctl apply --adopt)
        does. Otherwise it is refused.
    type: bool
    default: false
  owner:
    description:
      - For live policy, the name of the owner of the documents. They get the annotation
        C(baremetal.host-routing/owner).
    type: str
  prune:
    description:
      - For live policy, whether documents with the annotation of O(owner) are deleted if they are not among those of
        this task.
    type: bool
    default: false
  wait:
    description:
      - For live policy, the most seconds to wait until all nodes have the change in force. The task fails if some have
        it not then. Without it, the task does not wait.
    type: float
  force:
    description:
      - For live policy, whether it is changed also if a node cannot have it in force, because its release knows none or
        no run has allowed it.
      - Also ends another operator's trial, which refuses the change otherwise.
    type: bool
    default: false
  ask:
    description:
      - For live policy, whether all nodes are asked in check mode what the change would do there, for ten seconds at
        most, as C(calicoctl diff --nodes) does. RV(asked) has their answers.
      - The task fails if a node would hold the change back, or does not say all of it.
      - Without check mode it does nothing.
    type: bool
  plan:
    description:
      - For live policy, the name of the plan that was seen. It is RV(asked.plan) of a task in check mode with O(ask).
      - The change is made only if it is still what that plan showed. If it is not, the task fails.
      - A change that is made already is unchanged. In check mode it does nothing.
      - An empty name is that of a plan that would change nothing. The task fails if something would change.
    type: str
  confirm:
    description:
      - For live policy, the time for which all nodes try the change, such as V(60s), at most 600 seconds.
      - It is made only if each of them has it in force, as C(calicoctl apply --confirm) does. If one has not, the task
        fails, and nothing is made.
      - O(wait) is 30 seconds then, unless it is given. In check mode it does nothing.
    type: str
seealso:
  - module: baremetal.host_routing.resource_info
"""

EXAMPLES = r"""
- name: Add a pool
  baremetal.host_routing.resource:
    inventory: inventories/prod
    definition:
      apiVersion: projectcalico.org/v3
      kind: IPPool
      metadata:
        name: second
      spec:
        cidr: 10.245.0.0/16
        vxlanMode: CrossSubnet
  delegate_to: localhost
  run_once: true

- name: Apply what a real Calico has printed
  baremetal.host_routing.resource:
    inventory: inventories/prod
    definition: "{{ lookup('ansible.builtin.file', 'policy.yaml') }}"
  delegate_to: localhost
  run_once: true

- name: Put a policy in force on all nodes at once
  baremetal.host_routing.resource:
    datastore: /etc/calico/calicoctl.cfg
    src: policies/deny-db.yml
    wait: 30
  delegate_to: localhost
  run_once: true

- name: Ask all nodes what a policy would do
  baremetal.host_routing.resource:
    datastore: /etc/calico/calicoctl.cfg
    src: policies/deny-db.yml
    ask: true
  check_mode: true
  register: seen
  delegate_to: localhost
  run_once: true

- name: Try exactly that on all nodes, then make it
  baremetal.host_routing.resource:
    datastore: /etc/calico/calicoctl.cfg
    src: policies/deny-db.yml
    plan: "{{ seen.asked.plan }}"
    confirm: 60s
  delegate_to: localhost
  run_once: true

- name: Delete a policy
  baremetal.host_routing.resource:
    inventory: inventories/prod
    definition: {kind: GlobalNetworkPolicy, metadata: {name: old}}
    state: absent
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
files:
  description: Paths of the files that change.
  returned: success, with an inventory
  type: list
  elements: str
change:
  description: The id of the change in the history of live policy, empty if nothing was written.
  returned: success, with a datastore
  type: str
revision:
  description: The revision of the datastore that the change made, 0 if nothing was written.
  returned: success, with a datastore
  type: int
documents:
  description:
    - The live resources that the change concerns, each as C(Tier(web)) or C(NetworkPolicy(default/web)), in the lists
      C(created), C(changed), C(deleted) and C(unchanged). In check mode, those that it would concern.
  returned: success, with a datastore
  type: dict
asked:
  description: What nodes would do with the change.
  returned: with a datastore and O(ask), in check mode, also if the task fails because of it
  type: dict
  contains:
    plan:
      description: The name of all of this, for O(plan). It is empty if nothing would change.
      type: str
    documents:
      description: The live documents that would change, each with C(kind), C(namespace), C(name) and C(action).
      type: list
      elements: dict
    nodes:
      description:
        - The answer of each node. C(state) is C(answered), or C(refused) with the C(reason).
        - C(objects) are the policies, tiers and sets that change, with the number of C(endpoints). C(flows) are
          examples of connections that would be C(denied), and C(unknown) says what the node does not know.
      type: dict
    silent:
      description: Why other nodes gave no answer.
      type: dict
    unasked:
      description: Why other nodes were not asked.
      type: dict
    denied:
      description: The number of connections that stand and would be denied.
      type: int
lines:
  description: What calicoctl would print, with the differences.
  returned: success
  type: list
  elements: str
"""
