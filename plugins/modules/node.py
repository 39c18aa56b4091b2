# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Bring a whole node to its state
version_added: 0.1.0
description:
  - Changes devices, addresses, workloads, routes, rules, sysctls, IP sets, iptables, bird.cfg and files of a node so
    that they match one NodeState, in one call and in an order that interrupts nothing. BIRD reloads a changed bird.cfg
    without a restart.
  - If the node's agent runs, the module sends the state to the agent, which changes the kernel. Workloads that were
    added between runs stay, with and without an agent.
  - Objects that are not marked as the collection's own are never changed. If one of them conflicts with the state,
    nothing is changed.
  - The state is stored on the node, where the boot unit applies it after a restart. It is also kept as a generation for
    rollbacks.
  - Without O(state), the action compiles the inventory on the controller and determines the state of this host. Without
    O(observed), it first reads what the host has.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.phase
  - baremetal.host_routing.fleet.pool_mode
  - baremetal.host_routing.node.generations_kept
  - baremetal.host_routing.node.lock_timeout
options:
  state:
    description:
      - The NodeState, as M(baremetal.host_routing.node_info) returns it.
      - By default the action takes the host's state from O(fleet), or compiles the inventory.
    type: dict
  by_phase:
    description:
      - In check mode, plan each phase of the change that leads to the state as well. Used by the action.
    type: bool
    default: false
  whole_files:
    description:
      - Whether the diff has the contents of new files. By default it has their number. Of a node
        without a state, rules and bird.cfg are left out as well. What changes in what exists is always there.
    type: bool
    default: false
  collect_warnings:
    description:
      - Return warnings about the host as RV(remarks), for M(baremetal.host_routing.host_warnings). A task that fails
        prints them.
    type: bool
    default: false
  foresee:
    description:
      - Return nothing but RV(foreseen), and change nothing.
    type: bool
    default: false
  bird_config:
    description:
      - Content of bird.cfg. BIRD checks it before anything is changed. Without it BIRD is not touched.
    type: str
  request:
    description:
      - What the action adds to the task, packed; nobody else fills it in. It has the phases for their plans in check
        mode, the passwords of the BGP sessions, the files by which the node reaches the datastore, the name of the
        change, the nodes that do not take part in the run, the paths to probe, and the engine.
      - Passwords are written only to a separate file beside bird.cfg, which only root and the group of BIRD can read.
        Passwords that the node already has can be left out.
      - Files of the datastore are written with mode 0600 to /etc/calico/etcd/ and /etc/calico/datastore.json, where
        O(files) is set. No state or generation holds them.
    type: str
  files:
    description:
      - Files that belong to the node. Files of an earlier call that are not in this list are removed.
      - Without this option they stay as they are.
    type: list
    elements: dict
    suboptions:
      path:
        description: Path of the file on the node.
        type: str
        required: true
      content:
        description: Content of the file.
        type: str
      src:
        description: A file of the role calico_node with the content. Used by the action.
        type: str
      mode:
        description: Permissions of the file, octal.
        type: str
        default: "0644"
      last:
        description: Whether the file shows that the node is ready. It is written last and removed first.
        type: bool
        default: false
  units:
    description:
      - Systemd units that the node needs, in the order of their start, after all other changes.
      - Systemd reloads its units first if their files have changed.
    type: list
    elements: dict
    suboptions:
      name:
        description: The unit.
        type: str
        required: true
      enabled:
        description: Whether it starts with the host. By default this stays as it is.
        type: bool
      started:
        description: Whether it runs. By default this stays as it is.
        type: bool
      masked:
        description: Whether it is masked, so that it never starts. Units are never unmasked.
        type: bool
        default: false
      bgp:
        description:
          - Enable and start the unit if the state has BGP, disable and stop it otherwise. Used by the action.
        type: bool
  who:
    description:
      - Name of the person or tool that applies this state, for the list of generations.
    type: str
    default: ansible
  confirm_timeout:
    description:
      - Seconds after which the node reverts the change by itself, unless a new connection confirms it. The action
        confirms it for each host as soon as the host is changed; V(0) switches this off.
      - Only the changes of O(state) and O(bird_config) are reverted; files, units and the engine stay. A node that had
        no state before reverts to the same state without policy.
      - If a run fails for another reason and the node can be reached, the node stays as the failure left it.
    type: int
    default: 0
  settle:
    description:
      - Look for RV(settled) on a host that needed no change, outside of check mode.
    type: bool
    default: false
  look:
    description:
      - Look for RV(settled) once after the change, outside of check mode. Without O(sample), paths are probed, too.
    type: bool
    default: false
  sample:
    description:
      - The largest number of paths of each pool to probe for O(settle); V(0) probes all. With another value, O(look)
        probes none.
    type: int
    default: 0
seealso:
  - module: baremetal.host_routing.node_confirm
  - module: baremetal.host_routing.node_info
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Apply the inventory to the host
  baremetal.host_routing.node:

- name: Show what this would change
  baremetal.host_routing.node:
  check_mode: true
  diff: true

- name: Return to a stored state
  baremetal.host_routing.node:
    state: "{{ chosen.generation.state }}"
    bird_config: "{{ chosen.generation.bird_config }}"
"""

RETURN = r"""
plan:
  description: The differences, one line each. Interruptions come first, then changes, then additions.
  returned: always
  type: list
  elements: str
  sample: ["+ route    10.244.12.64/26  blackhole    own block"]
changes:
  description: The differences as data.
  returned: always
  type: list
  elements: dict
  contains:
    kind: {description: "Kind: device, address, route, sysctl, file, bird, session...", type: str, sample: route}
    action:
      description: V(+) added, V(~) changed, V(-) removed, V(=) kept on purpose, V(!) in the way, or interrupted.
      type: str
    subject: {description: The object., type: str, sample: 10.244.12.64/26}
    before: {description: Its value before., type: str}
    after: {description: Its value after., type: str, sample: blackhole}
    note: {description: The reason., type: str, sample: own block}
    by: {description: "Which program makes the change, V(node) or V(bird).", type: str, sample: node}
    size: {description: "Size in bytes, of a new file.", type: int, sample: 312}
    digest:
      description: A text that equal new files have in common, empty for a file with secrets.
      type: str
      sample: 0c5d1e90a3b2f417
phases:
  description: For each phase of a change, in order, what it will change after the phase before it.
  returned: in check mode, with O(by_phase)
  type: list
  elements: dict
  contains:
    phase: {description: Its name., type: str, sample: prepare}
    plan: {description: "As RV(plan).", type: list, elements: str}
    changes: {description: "As RV(changes).", type: list, elements: dict}
new:
  description: Whether the node had no state before.
  returned: always
  type: bool
sessions_begun:
  description: Number of BGP sessions that this change adds.
  returned: always
  type: int
sessions_reset:
  description: Number of BGP sessions that this change ends or restarts.
  returned: always
  type: int
routes_withdrawn:
  description: Number of routes that this node loses.
  returned: always
  type: int
kept:
  description:
    - Objects that stay although nothing needs them any more, workloads that ended or that their owners broke, and the
      reasons.
  returned: always
  type: list
  elements: str
  sample: ["10.244.3.0/32 kept: 2 open sockets use it"]
units_changed:
  description: Whether systemd has to reload its units.
  returned: always
  type: bool
generation:
  description: Number of the recorded generation, V(null) if the state is already the newest one.
  returned: always
  type: int
cut:
  description:
    - SSH connections to this host that could not be opened again under the new policy, and the reasons.
  returned: always
  type: list
  elements: str
  sample: ["a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by no-ssh#1 (ingress,
           HostEndpoint node1-eth0)"]
foreseen:
  description:
    - SSH connections to this host that could not be opened again under the policy of the state, though the policy that
      the host has allows them. At most five.
  returned: with O(foresee), and then nothing else
  type: list
  elements: dict
  contains:
    session: {description: The connection., type: str, sample: ssh from 10.10.1.1 to 10.10.1.11 port 22}
    by:
      description: The rule or default that denies it.
      type: str
      sample: no-ssh#1 (ingress, HostEndpoint node1-eth0)
unconfirmed:
  description: The change that waits for a confirmation, V("") if none does. Used by the action.
  returned: always
  type: str
settled:
  description:
    - What M(baremetal.host_routing.convergence_info) found in one look and, if nothing is missing,
      M(baremetal.host_routing.probe) after it.
  returned: with O(look), and with O(settle) on a host that needed no change
  type: dict
  contains:
    converged: {description: Whether nothing is missing., type: bool}
    sessions:
      description:
        - The numbers of sessions V(expected) and V(established). V(external_established) are those of the latter with
          routers outside the fleet.
      type: dict
    external_sessions: {description: The number of expected sessions with routers outside the fleet., type: int}
    paths: {description: The number of addresses that were probed., type: int}
    sent: {description: The number of probes., type: int}
    lost: {description: The number of probes without an answer., type: int}
    targets:
      description:
        - The targets that lost probes in the last of three rounds, as M(baremetal.host_routing.probe) returns them.
      type: list
      elements: dict
remarks:
  description: The warnings about the host.
  returned: with O(collect_warnings), if there are any
  type: list
  elements: str
confirmed:
  description: Whether the change was confirmed by a new connection.
  returned: when a change waited for that
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import node

main = archive_start.main_of(node, AnsibleModule)

if __name__ == "__main__":
    main()
