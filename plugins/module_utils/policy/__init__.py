# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy without side effects: which policies apply to an endpoint, what a node has to program, the verdict on a flow.

    made = from_resources.policy_set(resources)            Calico v3 resources as values of `model.py`
    index = policy_index.PolicyIndex("node1", interfaces)  receives endpoints of all nodes, and `made`
    changes = index.commit()                               the parts that the node has to program again
    index.node_policy()                                    the whole policy of the node, for chains.compile
    evaluator.Evaluator(made, endpoints).verdict(...)      the verdict at one endpoint, with all steps
    packet_path.path(...), explanation.explain(...)        the verdict on the path through hosts, and in words

| module | what it does |
|---|---|
| `model`, `hooks`, `node_policy` | the values; the points where a policy applies to a packet; the policy of a node |
| `from_resources`, `scoped_selectors` | resources to values; namespaces and service accounts folded into selectors |
| `to_resources`, `rule_words` | values to resources; rules as text |
| `labels` | the labels that selectors see: an endpoint's own, its namespace's, and those of its profiles |
| `address_index`, `rule_match`, `evaluator` | the reference implementation, which tests compare everything else with |
| `packet_path`, `explanation` | the contents of `calicoctl policy explain` |
| `restrictions`, `label_index` | the matches of many selectors on many items, kept up to date |
| `needed_sets`, `set_members`, `sets_in_use`, `host_endpoints`, `policy_index` | the policy of a node, up to date |
| `chains/`, `ip_sets` | the policy of a node as iptables rules and members of IP sets |

Directions are "Ingress" and "Egress". Rules count from 1. Endpoints of other nodes are inputs like all others.
"""
