# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy without side effects: which policies apply to an endpoint, what a node has to program, the verdict on a flow.

    made = from_resources.policy_set(resources)            Calico v3 resources as values of `model.py`
    index = policy_index.PolicyIndex("node1", interfaces)  receives endpoints of all nodes, and `made`
    changes = index.commit()                               the parts that the node has to program again
    index.node_policy()                                    the whole policy of the node, for chains.compile
    evaluator.Evaluator(made, endpoints).verdict(...)      the verdict at one endpoint, with all steps
    packet_path.Paths(...).of(...), explanation.explain()  the verdict on the path through hosts, and in words

`address_index`, `rule_match` and `evaluator` are the reference implementation, which tests compare everything else
with. Directions are "Ingress" and "Egress". Rules count from 1. Endpoints of other nodes are inputs like all others.
"""
