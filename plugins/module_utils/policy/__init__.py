# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy, pure: what applies to whom, what a node has to program for it, and the verdict on a flow.

    made = from_resources.policy_set(resources)            Calico v3 documents as values, of `model.py`
    index = policy_index.PolicyIndex("node1", interfaces)  fed with endpoints of all nodes, and with `made`
    changes = index.commit()                               what is to be programmed anew
    index.node_policy()                                    all of it, for chains.compile
    evaluator.Evaluator(made, endpoints).verdict(...)      at one endpoint, with everything that led to it
    packet_path.path(...), explanation.explain(...)        on its way through hosts; in words

| module | what it does |
|---|---|
| `model`, `hooks`, `node_policy` | the values; where on a packet's way a policy applies; what a node must program |
| `from_resources`, `scoped_selectors` | documents to values, namespaces and service accounts folded into selectors |
| `labels` | the labels that selectors see: own ones, those of a namespace, those of profiles |
| `address_index`, `rule_match`, `evaluator` | the plain reading, which all else is held to |
| `packet_path`, `explanation` | what `calicoctl policy explain` asks and shows |
| `restrictions`, `label_index` | many selectors over many items, kept up to date |
| `needed_sets`, `set_members`, `sets_in_use`, `host_endpoints`, `policy_index` | a node's policy |
| `chains/`, `ip_sets` | a node's policy to rules of iptables and members of sets |

Directions are "Ingress" and "Egress", rules count from 1. Remote endpoints are an input like all others.
"""
