# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action policy_explain, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: policy_explain
short_description: Explain whether policy allows a flow, from the inventory
version_added: 0.2.0
description:
  - Reports for one flow whether it is allowed, which tier, policy and rule decides, which rules were tried before and
    why they did not match, and which way the packet takes.
  - Everything is computed on the controller from the inventory and its lockfile. It connects to no node, so it answers
    while hosts are down, and before the policy is rolled out.
  - With C(calico_live_policy), live documents are read from the datastore, and a note in the answer says so. If they
    cannot be read, the answer is without them, and a note says why.
  - Workloads that agents attached between runs are not in the inventory. If O(from) or O(to) is none of its own, and
    the fleet has a datastore, it is looked up there. Without one, C(calicoctl policy explain) on a node knows the
    present workloads of that node.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
options:
  from:
    description:
      - The source. A workload (V(web), or V(default/web) if there are several of that name), a node, a HostEndpoint, or
        an address.
    type: str
    required: true
  to:
    description:
      - The destination, as in O(from).
    type: str
    required: true
  port:
    description:
      - Port and protocol (V(5432/tcp)), V(icmp) for a ping, V(3/icmp) for another type.
      - By default, the answer is about a ping and all ports, as far as the policies tell them apart.
    type: str
    default: ""
  source_port:
    description:
      - Source port.
    type: int
    default: 40000
  verbose:
    description:
      - Whether to list policies that do not apply as well, with the reason.
    type: bool
    default: false
  output:
    description:
      - How to print the answer.
    type: str
    choices: [text, json, none]
    default: text
  expect:
    description:
      - The expected verdict; the task fails on another one. By default any verdict is a success.
    type: str
    choices: [allow, deny]
  answer_file:
    description:
      - File on the controller to write the answer to as JSON, with RV(lines) and RV(answer), or C(error) if there is no
        answer.
    type: path
notes:
  - A question without an answer fails the task, for example one about a workload that does not exist.
seealso:
  - module: baremetal.host_routing.fleet
"""

EXAMPLES = r"""
- name: Check whether web reaches the database
  baremetal.host_routing.policy_explain:
    from: web
    to: db
    port: 5432/tcp
  run_once: true

- name: Check the policy against agreed flows before it is rolled out
  baremetal.host_routing.policy_explain:
    from: "{{ item.from }}"
    to: "{{ item.to }}"
    port: "{{ item.port }}"
    expect: "{{ item.expect }}"
    output: none
  loop:
    - {from: web, to: app, port: 8080/tcp, expect: allow}
    - {from: web, to: db, port: 5432/tcp, expect: deny}
  run_once: true
"""

RETURN = r"""
verdict:
  description: V(allow) or V(deny), or V(some) without O(port) if policy allows some flows and denies others.
  returned: when there is an answer
  type: str
  sample: deny
lines:
  description: The answer as printed for people.
  returned: success
  type: list
  elements: str
answer:
  description: The answer as data, as C(calicoctl policy explain -o json) prints it.
  returned: success
  type: dict
  contains:
    policy: {description: Whether any policy is in force., type: bool}
    verdict: {description: 'V(allow) or V(deny), or V(some) without O(port) if policy allows some flows.', type: str}
    from: {description: 'Address, node and workload of the sending end.', type: dict}
    to: {description: The same for the receiving end., type: dict}
    flow: {description: The first packet of the flow., type: dict}
    stages:
      description:
        - The tiers and policies in the order of evaluation, and every rule that was tried.
        - With C(calico_live_policy), C(source) says where a rule is from, C(live) or C(inventory).
      type: list
      elements: dict
    flows:
      description: Without O(port), each rule that decides flows, with their kinds and the verdict.
      type: list
      elements: dict
    path: {description: 'The path of the packet, and the smallest MTU on it.', type: dict}
    known: {description: Time at which workloads and HostEndpoints were last read., type: dict}
    notes:
      description: Remarks on things other than policy.
      type: list
      elements: str
"""
