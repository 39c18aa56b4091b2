# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's policy from an index that has seen no change yet."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.host_endpoints import Interfaces
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.policy_index import PolicyIndex
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint, PolicySet
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import NodePolicy


def node_policy(
    policy_set: PolicySet, endpoints: t.Iterable[Endpoint], node: str, interfaces: t.Optional[Interfaces] = None
) -> NodePolicy:
    """Return the policy that `node` has to program. `endpoints` are those of all nodes, `interfaces` the host's own."""
    index = PolicyIndex(node, interfaces)
    index.update_policy_set(policy_set)
    for endpoint in endpoints:
        index.update_endpoint(endpoint)
    index.commit()
    return index.node_policy()
