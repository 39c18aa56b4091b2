# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's policy, divided among its nodes: all policies for each, and of endpoints and sets what its rules can mean.

Which endpoints that is does not depend on the node, for a workload with any labels may come to any of them: it is asked
once for the fleet. So the work is linear in the number of endpoints, and in what each node is told.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import naming, packed_json
from ..policy.index.label_index import LabelIndex
from ..policy.model import Endpoint, NamedPortKey, PolicyNetworkSet, PolicySet
from ..policy.sets.needed_sets import of_rules
from ..state.node_policy_tables import workload_endpoint
from ..state.policy_json import to_plain
from ..state.policy_state import NO_POLICY, PolicyState
from .inventory.policy_inventory import FleetPolicy
from .inventory.workload_inventory import InventoryWorkload

Owner = t.Union[Endpoint, PolicyNetworkSet]


@dataclasses.dataclass(frozen=True)
class PolicyWire:
    """Made by `PolicyParts.wire`: a text, and by node its own endpoints and settings as plain data."""

    shared: str
    own: t.Mapping[str, t.Any]
    settings: t.Mapping[str, t.Any]

    def of(self, node: str) -> t.Optional[dict[str, t.Any]]:
        """What `NodeState.from_dict` reads as the policy of a node, None for one that has none."""
        if node not in self.settings:
            return None
        return {"shared": self.shared, "own": self.own[node], "settings": self.settings[node]}


@dataclasses.dataclass(frozen=True)
class PolicyParts:
    """Made by `divide`. `own` {node: its endpoints}; `meant` are those of all nodes that rules can mean."""

    policy: FleetPolicy
    policy_set: PolicySet
    own: t.Mapping[str, tuple[Endpoint, ...]]
    meant: tuple[Endpoint, ...]

    def of(self, node: str) -> PolicyState:
        """The part of one node."""
        elsewhere = tuple(one for one in self.meant if one.node != node)
        return PolicyState(self.policy_set, (*self.own.get(node, ()), *elsewhere), self.policy.settings_of(node))

    def wire(self) -> PolicyWire:
        """For NodeStates on their way to nodes: what is the same for all of them is made a text once."""
        shared = PolicyState(self.policy_set, self.meant).to_dict()
        del shared["settings"]
        nodes = sorted({*self.own, *self.policy.ssh_ports})
        return PolicyWire(
            packed_json.pack(shared),
            {node: to_plain(self.own.get(node, ())) for node in nodes},
            {node: self.policy.settings_of(node).to_dict() for node in nodes},
        )

    def bare(self) -> PolicyParts:
        """The settings alone: that there is policy, without what it says."""
        policy = dataclasses.replace(self.policy, policy_set=NO_POLICY, host_endpoints=())
        return PolicyParts(policy, NO_POLICY, {}, ())

    def content(self) -> t.Any:
        """All of it as plain data, for the hash of the plan."""
        whole = PolicyState(self.policy_set, tuple(one for own in self.own.values() for one in own))
        return [
            whole.to_dict(),
            {node: self.policy.settings_of(node).to_dict() for node in sorted(self.policy.ssh_ports)},
        ]


def divide(
    policy: FleetPolicy, workloads: t.Iterable[InventoryWorkload], addresses: t.Mapping[str, tuple[str, ...]]
) -> PolicyParts:
    """`addresses` {workload: its addresses}."""
    endpoints = [
        *(_endpoint(workload, addresses[workload.name], policy) for workload in workloads),
        *policy.host_endpoints,
    ]
    own: dict[str, list[Endpoint]] = {}
    for one in endpoints:
        own.setdefault(one.node, []).append(one)
    meant = _meant(policy.policy_set, [*endpoints, *policy.policy_set.network_sets])
    sets = tuple(one for one in meant if isinstance(one, PolicyNetworkSet))
    return PolicyParts(
        policy,
        dataclasses.replace(policy.policy_set, network_sets=sets),
        {node: tuple(found) for node, found in sorted(own.items())},
        tuple(one for one in meant if isinstance(one, Endpoint)),
    )


def _endpoint(workload: InventoryWorkload, addresses: tuple[str, ...], policy: FleetPolicy) -> Endpoint:
    profiles = policy.settings.workload_profiles if workload.profiles is None else workload.profiles
    interface = naming.interface_name(workload.namespace, workload.name)
    return workload_endpoint(workload.node, workload, interface, addresses, profiles, workload.ports)


def _meant(policy_set: PolicySet, owners: t.Sequence[Owner]) -> list[Owner]:
    """Those of `owners` that some rule means, by a selector or by the name of a port; in their order."""
    keys = {key for policy in policy_set.policies for key in of_rules(policy)}
    keys |= {key for profile in policy_set.profiles for key in of_rules(profile)}
    index: LabelIndex[int] = LabelIndex()
    for profile in policy_set.profiles:
        index.update_profile(profile.name, dict(profile.labels))
    for place, owner in enumerate(owners):
        index.update_item(place, dict(owner.labels), owner.profiles)
    found: set[int] = set()
    for key in keys:
        named = key if isinstance(key, NamedPortKey) else None
        selector = (named.selector if named else t.cast(str, key)) or "all()"
        index.add_selector(selector)
        found.update(place for place in index.items(selector) if named is None or _has_port(owners[place], named))
    return [owner for place, owner in enumerate(owners) if place in found]


def _has_port(owner: Owner, key: NamedPortKey) -> bool:
    return isinstance(owner, Endpoint) and any((one.name, one.protocol) == key[:2] for one in owner.ports)
