# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastore as the agent's other parts use it: it is built from them and receives their changes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import time
import typing as t

from ...datastore import snapshot
from ...datastore.gateway import Put
from ...datastore.keys import EndpointKey, InvalidKey, endpoint_key
from ...datastore.live_endpoints import LiveEndpoints, Others
from ...node.machine import Machine
from ...node.store.store import utc
from ...policy.model import Endpoint
from ...state.remote_endpoints import Collected, RemoteEndpoints
from ..concurrency.driver_thread import Worker
from ..known.desired_state import DesiredState
from ..known.persisted_state import PersistedState
from . import beat
from .beat import Sessions
from .heartbeats import Heartbeats
from .live_datastore import NAMED, LiveDatastore
from .own_content import OwnContent, OwnDocuments
from .publisher import Publisher

#: Changed workloads that are checked in one step: it takes about three milliseconds.
_STEP = 200


class PacedOthers(Others, t.Protocol):
    """What takes the workloads of other nodes for policy, in portions; see RemoteUpdates."""

    #: The function that is called when there is room again.
    on_room: t.Callable[[], None]

    @property
    def room(self) -> int:
        """The number of changes that may be applied now."""


class NodeDatastore:
    """The datastore of a node, `live`, and what connects it with the node's files and its policy.

    `others` takes the workloads of other nodes for policy. `status` returns the result of the API method `status`, and
    `sessions` the numbers of BGP sessions, for heartbeats. `thread` writes the copy of the datastore on the disk.
    """

    def __init__(
        self,
        machine: Machine,
        persisted: PersistedState,
        desired: DesiredState,
        thread: Worker,
        *,
        others: PacedOthers,
        status: t.Callable[[], t.Mapping[str, t.Any]],
        sessions: t.Callable[[], Sessions],
    ) -> None:
        self._persisted = persisted
        self._desired = desired
        self._status = status
        self._sessions = sessions
        self._documents = OwnDocuments()
        self._endpoints = LiveEndpoints(others, lambda: persisted.state)
        self._publisher = Publisher(self._content)
        self._waiting: dict[EndpointKey, None] = {}  # changed workloads that policy does not know yet
        self._live_changed = self._working = self._paused = False
        self._others = others
        others.on_room = self._go_on
        self.live = LiveDatastore(
            machine.placed(machine.datastore),
            os.path.join(machine.store, snapshot.FILE),
            self._publisher,
            Heartbeats(self._beat),
            thread,
            on_change=self._changed,
            on_synced=self._synced,
            on_leave=self._keep_as_reports,
            basis=lambda: self._endpoints.basis,
            trouble=persisted.trouble_with("datastore"),
        )

    async def start(self) -> None:
        """Read the settings, and what was known of other nodes before. Raise nothing."""
        await self.live.start()
        if self.live.copied is not None:
            self._endpoints.restored(self.live.mirror, self.live.copied.plan)

    def workloads_changed(self) -> None:
        """Publish soon what this node has; do not wait."""
        self._publisher.changed()

    def state_changed(self) -> None:
        """Check what other nodes publish against another state of Ansible, and publish what this node has."""
        self._changed(self._endpoints.checked_anew(self.live.mirror), frozenset())
        self._publisher.changed()

    def _changed(self, keys: t.AbstractSet[EndpointKey], nodes: t.AbstractSet[str]) -> None:
        """Give changes to policy: a few at once, many in steps, between which the event loop does other work."""
        self._waiting.update(dict.fromkeys(keys))
        self._live_changed = self._live_changed or bool(nodes)
        if not self._working:
            self._work()

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            self._work()

    def _work(self) -> None:
        room = self._others.room
        if self._waiting and not room:
            self._working = self._paused = True  # until there is room
            return
        part = set(itertools.islice(self._waiting, min(_STEP, room)))
        for key in part:
            del self._waiting[key]
        self._working = bool(self._waiting)
        is_last = not self._working
        self._endpoints.changed(self.live.mirror, part, is_last and self._live_changed)
        if is_last:
            self._live_changed = False
        else:
            asyncio.get_running_loop().call_soon(self._work)

    def _synced(self) -> None:
        self._endpoints.synced(self.live.mirror, self.live.synced)

    def _keep_as_reports(self) -> None:
        """Keep what came to other nodes between runs, as if playbooks/sync_workloads.yml had just collected it.

        The fleet leaves the datastore: until the next sync, policy goes on with what is known.
        """
        mirror, when, state = self.live.mirror, utc(self.live.known_until), self._persisted.state
        found: dict[str, list[Endpoint]] = {}
        for key, published in sorted(mirror.endpoints.items()):
            if not published.planned and (state is None or key.node != state.node):
                found.setdefault(key.node, []).append(published.endpoint)
        reports = {node: Collected(when, tuple(known), mirror.blocks(node)) for node, known in found.items()}
        self._persisted.keep_reports(RemoteEndpoints(reports))

    def _content(self) -> t.Optional[OwnContent]:
        """Return what this node has to publish, None while its files cannot be read."""
        ansible, state = self._persisted.state, self._desired.for_policy()
        if ansible is None or state is None or not self._persisted.readable:
            return None
        return self._documents.content(state, ansible.workloads)

    def _beat(self) -> t.Optional[Put]:
        status = self._status()
        if not status["node"]:
            return None
        try:
            return beat.of(status, self._sessions(), self.live.feed_status, self.live.mirror.position, time.time())
        except InvalidKey:
            return None  # The publisher names the problem.

    @property
    def refused(self) -> int:
        """The number of keys of the datastore that this node does not accept."""
        return self.live.mirror.count_refused + len(self._endpoints.refused)

    def to_dict(self) -> dict[str, t.Any]:
        """Return the state of the datastore, as LiveDatastore.to_dict, with the keys that this node does not accept."""
        found = self.live.to_dict()
        if found:
            own = self._endpoints.refused
            more = [{"key": endpoint_key(*key), "reason": own[key]} for key in heapq.nsmallest(NAMED, own)]
            found["refused"] = [*found["refused"], *more][:NAMED]
        return found
