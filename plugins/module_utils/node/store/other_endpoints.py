# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's disk has of other nodes' workloads, for a process that follows no datastore.

`remote-endpoints.json` has what playbooks/sync_workloads.yml collected. `datastore.jsonl` has what the agent has read
of the datastore; while the agent runs it is seconds old, with very many workloads half a minute.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ...datastore import snapshot
from ...datastore.mirror import Mirror
from ...datastore.remote_feed import RemoteFeed
from ...datastore.snapshot import SnapshotHeader, SnapshotUnusable
from ...state.node_state import NodeState
from ...state.other_endpoints import OtherEndpoints
from . import remote_endpoints
from .store import Store
from .stored_file import StoreError


class DatastoreCopy(t.NamedTuple):
    """The copy of the datastore on the disk."""

    header: SnapshotHeader
    mirror: Mirror


def load(folder: str, state: NodeState) -> OtherEndpoints:
    """Return the endpoints of other nodes that the node with this state accepts, from the readable files in `folder`.

    `state` may be one that the node is to get: what the datastore says of other nodes then counts as before, because an
    agent that follows the datastore will find it confirmed.
    """
    found = OtherEndpoints()
    with contextlib.suppress(remote_endpoints.RemoteUnreadable):
        found.replace_reports(remote_endpoints.load(folder, state).nodes)
    copy = datastore_copy(folder)
    if copy is not None:
        take(copy, found, folder, state)
    return found


def take(copy: DatastoreCopy, others: OtherEndpoints, folder: str, state: NodeState) -> None:
    """Let `others` have the workloads in the copy that the node with this state accepts."""
    basis = state.plan if copy.header.plan in (state.plan, _stored_plan(folder)) else ""
    RemoteFeed(others, lambda: state, mirror=copy.mirror).restored(basis)


def datastore_copy(folder: str) -> t.Optional[DatastoreCopy]:
    """Return the copy of the datastore in `folder`, None if there is none that can be used."""
    mirror = Mirror()
    try:
        *dummy, header = snapshot.read(os.path.join(folder, snapshot.FILE), mirror)
    except SnapshotUnusable:
        return None
    return DatastoreCopy(header, mirror) if header is not None else None


def _stored_plan(folder: str) -> t.Optional[str]:
    try:
        stored = Store(folder).load()
    except StoreError:
        return None
    return stored.state.plan if stored is not None else None
