# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints of a node's own workloads, and a state whose policy comes in a shared and an own part."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import node_policy_tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.fleet.fleets import build, states, workload

WEB = {"kind": "NetworkPolicy", "name": "web", "selector": "app == 'web'", "ingress": [{"action": "Allow"}]}
FROM_APP = {**WEB, "name": "app", "ingress": [{"action": "Allow", "source": {"selector": "app == 'web'"}}]}
WORKLOADS = [workload(f"w{n}", f"node{n}", labels={"app": "web"}, profiles=[]) for n in (1, 2)]


def state() -> NodeState:
    """Return the state of node1, whose policy has a workload of node1 and one of node2; AssertionError if not."""
    found = states(build(workloads=WORKLOADS, policies=[WEB, FROM_APP]))["node1"]
    assert found.policy is not None
    assert {one.node for one in found.policy.endpoints} == {"node1", "node2"}
    return found


def test_a_workload_of_the_inventory_keeps_its_endpoint() -> None:
    """A workload has the endpoint that the inventory gives it, unless another interface has taken its name."""
    given = state()
    assert given.policy is not None
    (one,) = given.workloads
    planned = node_policy_tables.planned(given.policy, "node1")
    assert list(planned) == ["default/w1"]
    assert node_policy_tables.own_endpoint("node1", one, given.policy, planned) is planned["default/w1"]
    other = dataclasses.replace(one, interface="cali-other", labels={"app": "db"})
    found = node_policy_tables.own_endpoint("node1", other, given.policy, planned)
    assert (found.interface, found.profiles) == ("cali-other", given.policy.settings.workload_profiles)
    assert ("app", "db") in found.labels


def test_the_two_parts_of_a_policy_are_merged() -> None:
    """A node takes its own endpoints from its own part, and those of all other nodes from the shared one.

    A policy that lacks its own endpoints or settings, or is no policy, is refused.
    """
    given = state()
    plain = json.loads(json.dumps(given.to_dict()))
    policy = plain.pop("policy")
    own = [one for one in policy["endpoints"] if one["node"] == "node1"]
    old = [{**one, "labels": []} for one in own]
    shared = {name: value for name, value in policy.items() if name != "settings"}
    shared["endpoints"] = [*old, *(one for one in policy["endpoints"] if one["node"] != "node1")]
    parts = {"shared": packed_json.pack(shared), "own": own, "settings": policy["settings"]}
    found = NodeState.from_dict({**plain, "policy": parts}).policy
    assert found is not None and given.policy is not None
    assert sorted(found.endpoints, key=str) == sorted(given.policy.endpoints, key=str)
    assert (found.settings, found.policy_set) == (given.policy.settings, given.policy.policy_set)
    for missing in ("own", "settings"):
        part = {name: value for name, value in parts.items() if name != missing}
        with pytest.raises(ValueError, match="what is shared of the policy cannot be read"):
            NodeState.from_dict({**plain, "policy": part})
    with pytest.raises(ValueError, match="policy is neither a PolicyState nor a packed one"):
        NodeState.from_dict({**plain, "policy": 7})
