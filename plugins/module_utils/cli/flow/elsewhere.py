# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of other nodes that this node knows besides those of the inventory."""

from __future__ import annotations

import os
import typing as t

from ...datastore import snapshot
from ...datastore.keys import EndpointKey
from ...datastore.mirror import Mirror
from ...node.store import other_endpoints, remote_endpoints
from ...node.store.clock import utc
from ...policy.model import Endpoint
from ...state.node_state import NodeState
from ...state.other_endpoints import OtherEndpoints
from ...state.remote_endpoints import RemoteEndpoints
from ..sources import Sources


class DatastoreKnowledge(t.NamedTuple):
    """What this node has read of the datastore, and until when that is complete (UTC as text, "" for never)."""

    mirror: Mirror
    synced: bool
    known_until: str

    def has(self, endpoint: Endpoint) -> bool:
        """Return whether the datastore has this workload, under whatever name it is shown."""
        return EndpointKey(endpoint.node, endpoint.interface) in self.mirror.endpoints


class ElsewhereKnowledge(t.NamedTuple):
    """What this node knows of other nodes' workloads besides the inventory: all of it, and by its sources."""

    others: OtherEndpoints
    reports: RemoteEndpoints
    datastore: t.Optional[DatastoreKnowledge]


def known(sources: Sources, state: NodeState) -> ElsewhereKnowledge:
    """Return what the node, which has this `state`, knows of other nodes' workloads besides the inventory.

    A running agent writes what it has read of the datastore to the disk first. Warn about reports that are not accepted
    or cannot be read.
    """
    store = sources.paths.store
    reports = _reports(sources)
    others = OtherEndpoints(reports.nodes)
    if not os.path.exists(os.path.join(store, snapshot.FILE)):
        return ElsewhereKnowledge(others, reports, None)
    told = sources.agent.ask_if_running("datastore.save")
    copy = other_endpoints.datastore_copy(store) if told != {} else None
    if copy is None:
        return ElsewhereKnowledge(others, reports, None)
    other_endpoints.take(copy, others, store, state)
    fresh = told or {"synced": False, "known_until": utc(copy.header.written)}
    return ElsewhereKnowledge(others, reports, DatastoreKnowledge(copy.mirror, fresh["synced"], fresh["known_until"]))


def _reports(sources: Sources) -> RemoteEndpoints:
    store = sources.paths.store
    try:
        found = remote_endpoints.known(store).accepted_by(sources.state())
    except remote_endpoints.RemoteUnreadable as error:
        sources.warn(str(error))
        return RemoteEndpoints()
    if found.left_out:
        sources.warn(found.problem(store))
    return found.remote
