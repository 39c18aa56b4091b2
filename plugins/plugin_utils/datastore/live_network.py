# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live documents of the datastore, for a question to an inventory. Fleets without live policy are asked nothing."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.live_source import without_live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.known_network import KnownNetwork
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import exchange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    UnreadDocuments,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import LiveNames
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import LivePolicy, Unresolved
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from ..sources import inventory_source
from . import access, cluster_calls
from .cluster_calls import DatastoreAway, DatastoreRefused

_AS = "live documents are those that the datastore has: a node may hold them back (calicoctl status)"


class NodeStatesWithLive(Mapping[str, NodeState]):
    """The states of nodes with live policy, each merged at its first use."""

    def __init__(self, states: Mapping[str, NodeState], live: LivePolicy) -> None:
        self._states, self._live = states, live
        self._merged: dict[str, NodeState] = {}

    def __getitem__(self, node: str) -> NodeState:
        if node not in self._merged:
            state = self._states[node]
            policy = state.policy and live_policy.merged(state.policy, self._live)
            self._merged[node] = dataclasses.replace(state, policy=policy)
        return self._merged[node]

    def __contains__(self, node: object) -> bool:
        return node in self._states

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


def of_question(known: KnownNetwork, fleet: Fleet, task_vars: t.Mapping[str, t.Any]) -> tuple[KnownNetwork, list[str]]:
    """Return the network of an inventory with live documents, and notices for the answer.

    It is `known` itself in a fleet without live policy and, with a notice, if the documents cannot be read.
    """
    if fleet.policy is None or not fleet.has_live_policy:
        return known, []
    try:
        datastore = access.of(inventory_source.hosts(task_vars), task_vars)
        if datastore is None:
            return known, [without_live_documents("the inventory names no datastore")]
        found = cluster_calls.ask(datastore, access.operator(task_vars), exchange.live_documents)
    except (DatastoreAway, DatastoreRefused, FleetError, UnreadDocuments) as error:
        return known, [without_live_documents(f"the datastore is not read ({str(error).rstrip('.')})")]
    inventory = fleet.policy.policy.policy_set
    values, refused = [], []
    for key in sorted(found):
        try:
            value = live_documents.value_of(live_documents.decode(key, found[key]))
        except RefusedDocument as error:
            refused.append(f"{key}, which nodes do not take up: {str(error).rstrip('.')}")
        else:
            values += [value] if value is not None else []
    try:
        live = live_policy.resolve(inventory, values)
    except Unresolved as error:
        return known, [without_live_documents(f"nodes hold them back, because {error}")]
    more = [f"without {refused[0]}" + (f", and {len(refused) - 1} more" if len(refused) > 1 else "")] if refused else []
    states = NodeStatesWithLive(known.states, live)
    names = live_policy.names_with_effect(inventory, live) if not live.is_empty else LiveNames()
    return dataclasses.replace(known, states=states, live=names), [*([] if live.is_empty else [_AS]), *more]
