# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's policy, divided among its nodes.

Each workload node gets all policies, its own endpoints, and the endpoints and network sets that rules can select. The
latter are the same for all nodes, because a workload with any labels may be attached to any node. They are computed
once for the fleet, so the work is linear in the number of endpoints and in the amount of data sent to the nodes. With
live policy, rules may come later, so nodes get all endpoints and network sets.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import naming, packed_json
from ..policy.index.label_index import LabelIndex
from ..policy.model import Endpoint, NamedPortKey, PolicyNetworkSet, PolicySet
from ..policy.sets.needed_sets import of_rules
from ..state.node_policy_tables import workload_endpoint
from ..state.plain_data import to_plain
from ..state.policy_state import NO_POLICY, PolicyState
from .inventory.policy_inventory import FleetPolicy
from .inventory.workload_inventory import InventoryWorkload

Owner = t.Union[Endpoint, PolicyNetworkSet]


@dataclasses.dataclass(frozen=True)
class PolicyWire:
    """A fleet's policy in the form in which it is sent to nodes, made by `PolicyParts.wire`.

    `shared` is the packed text that all nodes get. `own` and `settings` map node names to the node's own endpoints and
    settings as plain data.
    """

    shared: str
    own: t.Mapping[str, t.Any]
    settings: t.Mapping[str, t.Any]

    def of(self, node: str) -> t.Optional[dict[str, t.Any]]:
        """Return a node's {"shared", "own", "settings"} for `NodeState.from_dict`, None for an unknown node."""
        if node not in self.settings:
            return None
        return {"shared": self.shared, "own": self.own[node], "settings": self.settings[node]}


@dataclasses.dataclass(frozen=True)
class PolicyParts:
    """A fleet's policy, divided by `divide`.

    `own` maps node names to the node's endpoints. `meant` are the endpoints of all nodes that some rule can select.
    `policy_set` has only the network sets that some rule can select. With live policy, both have all.
    """

    policy: FleetPolicy
    policy_set: PolicySet
    own: t.Mapping[str, tuple[Endpoint, ...]]
    meant: tuple[Endpoint, ...]

    def of(self, node: str) -> PolicyState:
        """Return a node's policy: all policies, its own endpoints (none if unknown) and those that rules can select."""
        elsewhere = tuple(one for one in self.meant if one.node != node)
        return PolicyState(self.policy_set, (*self.own.get(node, ()), *elsewhere), self.policy.settings_of(node))

    def wire(self) -> PolicyWire:
        """Return the policy in the form in which it is sent to nodes; the part that all share is packed only once."""
        shared = PolicyState(self.policy_set, self.meant).to_dict()
        del shared["settings"]
        nodes = sorted({*self.own, *self.policy.ssh_ports})
        return PolicyWire(
            packed_json.pack(shared),
            {node: to_plain(self.own.get(node, ())) for node in nodes},
            {node: self.policy.settings_of(node).to_dict() for node in nodes},
        )

    def bare(self) -> PolicyParts:
        """Return a copy without policies, profiles, network sets, endpoints and tiers other than `default`."""
        policy = dataclasses.replace(self.policy, policy_set=NO_POLICY, host_endpoints=())
        return PolicyParts(policy, NO_POLICY, {}, ())

    def content(self) -> t.Any:
        """Return [policies and endpoints of all nodes, settings by node] as two plain dicts, for the plan's hash."""
        whole = PolicyState(self.policy_set, tuple(one for own in self.own.values() for one in own))
        return [
            whole.to_dict(),
            {node: self.policy.settings_of(node).to_dict() for node in sorted(self.policy.ssh_ports)},
        ]


def divide(
    policy: FleetPolicy, workloads: t.Iterable[InventoryWorkload], addresses: t.Mapping[str, tuple[str, ...]]
) -> PolicyParts:
    """Return `policy` divided among its nodes; `addresses` maps the name of each workload to its addresses.

    Raise KeyError if a workload is missing there, and SelectorError if a selector of a rule is not valid.
    """
    endpoints = [
        *(_endpoint(workload, addresses[workload.name], policy) for workload in workloads),
        *policy.host_endpoints,
    ]
    own: dict[str, list[Endpoint]] = {}
    for one in endpoints:
        own.setdefault(one.node, []).append(one)
    owners: list[Owner] = [*endpoints, *policy.policy_set.network_sets]
    # A rule of a live document may select any of them.
    meant = owners if policy.settings.live else _meant(policy.policy_set, owners)
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
    """Return those of `owners`, in order, that a selector (also a negated one) or named port in some rule matches."""
    keys = {key for policy in policy_set.policies for key in of_rules(policy)}
    keys |= {key for profile in policy_set.profiles for key in of_rules(profile)}
    index: LabelIndex[int] = LabelIndex()
    for profile in policy_set.profiles:
        index.update_profile(profile.name, dict(profile.labels))
    for place, owner in enumerate(owners):
        index.update_item(place, owner.labels, owner.profiles)
    found: set[int] = set()
    for key in keys:
        named = key if isinstance(key, NamedPortKey) else None
        selector = (named.selector if named else t.cast(str, key)) or "all()"
        index.add_selector(selector)
        found.update(place for place in index.items(selector) if named is None or _has_port(owners[place], named))
    return [owner for place, owner in enumerate(owners) if place in found]


def _has_port(owner: Owner, key: NamedPortKey) -> bool:
    return isinstance(owner, Endpoint) and any((one.name, one.protocol) == key[:2] for one in owner.ports)
