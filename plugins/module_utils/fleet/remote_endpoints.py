# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads of other nodes that came there between runs, as `playbooks/sync_workloads.yml` collected them. Pure.

A node asks nobody: what it knows of others' workloads is as old as the time at which they were asked.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing as t

from ..policy.model import Endpoint
from .attachment import Workload, with_workloads
from .guard import workload_endpoint
from .node_state import NodeState
from .policy_json import Data, from_plain, to_plain
from .policy_state import PolicySettings


@dataclasses.dataclass(frozen=True)
class Collected:
    """What one node told: `endpoints` by name, `when` it was asked (ISO 8601, UTC, by the controller's clock)."""

    when: str
    endpoints: tuple[Endpoint, ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """Names the endpoints, 16 hex digits."""
        content = json.dumps(to_plain(self.endpoints), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class RemoteEndpoints:
    """By the name of the node that told them."""

    nodes: t.Mapping[str, Collected] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Of all nodes, by node and name. An address that two nodes told of is the one's that was asked later."""
        owner: dict[str, str] = {}
        for node in sorted(self.nodes, key=lambda name: (self.nodes[name].when, name)):
            owner.update((address, node) for one in self.nodes[node].endpoints for address in one.addresses)
        found = []
        for node in sorted(self.nodes):
            for one in self.nodes[node].endpoints:
                addresses = tuple(address for address in one.addresses if owner[address] == node)
                if addresses:
                    found.append(one if addresses == one.addresses else dataclasses.replace(one, addresses=addresses))
        return tuple(found)

    def when(self, endpoint: Endpoint) -> t.Optional[str]:
        """When the node was asked that told of this endpoint, whatever its name is here. None: it is not from there."""
        collected = self.nodes.get(endpoint.node)
        if collected is None:
            return None
        known = any(
            one.interface == endpoint.interface and one.namespace == endpoint.namespace for one in collected.endpoints
        )
        return collected.when if known else None

    def updated(
        self, told: t.Mapping[str, tuple[str, t.Optional[tuple[Endpoint, ...]]]], nodes: t.Collection[str]
    ) -> RemoteEndpoints:
        """With what was `told`: {node: (when it was asked, its endpoints, or None for those that are known)}.

        Nodes that are not among `nodes`, the fleet's, are forgotten; of those that could not be asked stays what is
        known.
        """
        found = {name: collected for name, collected in self.nodes.items() if name in nodes}
        for name, (when, endpoints) in told.items():
            if endpoints is not None:
                found[name] = Collected(when, endpoints)
            elif name in found:
                found[name] = dataclasses.replace(found[name], when=when)
        return RemoteEndpoints(found)

    def to_dict(self) -> Data:
        """JSON-ready form; `from_dict` reads it back."""
        return {
            name: {"collected": collected.when, "endpoints": to_plain(collected.endpoints)}
            for name, collected in sorted(self.nodes.items())
        }

    @classmethod
    def from_dict(cls, data: t.Any) -> RemoteEndpoints:
        """Raises ValueError."""
        return cls().updated(told_of(data), data)


def told_of(data: t.Any) -> dict[str, tuple[str, t.Optional[tuple[Endpoint, ...]]]]:
    """What `updated` takes, of {node: {"collected": when, "endpoints": [...], or left out}}. Raises ValueError."""
    if not isinstance(data, t.Mapping):
        raise ValueError("what nodes told is not a dictionary")
    told: dict[str, tuple[str, t.Optional[tuple[Endpoint, ...]]]] = {}
    for name, entry in data.items():
        if not isinstance(entry, t.Mapping) or not isinstance(entry.get("collected"), str):
            raise ValueError(f"what {name} told has no time at which it was collected")
        listed = entry.get("endpoints")
        if listed is None:
            told[name] = (entry["collected"], None)
        elif isinstance(listed, (list, tuple)):
            told[name] = (entry["collected"], tuple(_endpoint(name, one) for one in listed))
        else:
            raise ValueError(f"the endpoints of {name} are not a list")
    return told


def _endpoint(node: str, data: t.Any) -> Endpoint:
    endpoint = from_plain(Endpoint, data)
    if endpoint.node != node:
        raise ValueError(f"{node} told of {endpoint.name}, which is on {endpoint.node or 'no node'}")
    return endpoint


def own_endpoints(state: NodeState, workloads: t.Iterable[Workload]) -> tuple[Endpoint, ...]:
    """What a node tells of itself: `workloads`, those that came to it between runs, as its own policy knows them. The
    inventory's are known to all by the plan."""
    profiles = (state.policy.settings if state.policy else PolicySettings()).workload_profiles
    added = with_workloads(state, workloads, ()).workloads[len(state.workloads) :]
    found = (workload_endpoint(state.node, one, one.interface, one.addresses, profiles) for one in added)
    return tuple(sorted(found, key=lambda one: one.name))
