# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of an action that runs on the controller; the code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: policy_explain
short_description: Tell if policy lets a flow pass, from the inventory alone
version_added: 0.2.0
description:
  - Says of one flow if it is allowed, which tier, policy and rule decides, what was tried before that and why it did
    not match, and by which way the packet goes.
  - Everything is worked out on the controller from the inventory and its lockfile. No host is touched, so that it
    answers while hosts are down, and before the policy that it is asked about is rolled out.
  - What agents attached between runs is not in the inventory. C(calicoctl policy explain) on a node knows the workloads
    of that node as they are.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
options:
  from:
    description:
      - Who sends. A workload (V(web), or V(default/web) where there are several of that name), a node, a HostEndpoint,
        or an address.
    type: str
    required: true
  to:
    description:
      - Who receives, as in O(from).
    type: str
    required: true
  port:
    description:
      - Port and protocol (V(5432/tcp)), V(icmp) for a ping, V(3/icmp) for another type.
    type: str
    required: true
  source_port:
    description:
      - Port that it is sent from.
    type: int
    default: 40000
  verbose:
    description:
      - Whether policies that do not apply are named as well, with the reason.
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
      - The verdict without which the task fails. By default a denied flow is an answer like any other.
    type: str
    choices: [allow, deny]
  answer_file:
    description:
      - File on the controller into which the answer is written as well, as JSON. RV(lines) and RV(answer), or
        C(error) where there is none.
    type: path
notes:
  - A question that has no answer fails the task, for example one about a workload that is not there.
seealso:
  - module: baremetal.host_routing.fleet
"""

EXAMPLES = r"""
- name: See who may reach the database
  baremetal.host_routing.policy_explain:
    from: web
    to: db
    port: 5432/tcp
  run_once: true

- name: Hold the policy to what was agreed, before it is rolled out
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
  description: V(allow) or V(deny).
  returned: when there is an answer
  type: str
  sample: deny
lines:
  description: The answer as it is printed for people.
  returned: success
  type: list
  elements: str
answer:
  description: The same for programs, as C(calicoctl policy explain -o json) prints it.
  returned: success
  type: dict
  contains:
    policy: {description: Whether any policy is in force., type: bool}
    verdict: {description: V(allow) or V(deny)., type: str}
    from: {description: 'Address, node and workload of the end that sends.', type: dict}
    to: {description: The same of the end that receives., type: dict}
    flow: {description: The first packet of the flow., type: dict}
    stages:
      description: Who was asked, in order, and every rule that was tried.
      type: list
      elements: dict
    path: {description: 'The way of the packet, and the smallest MTU on it.', type: dict}
    known: {description: Since when workloads and HostEndpoints are known to be as they are., type: dict}
    notes:
      description: What does not follow from policy.
      type: list
      elements: str
"""
