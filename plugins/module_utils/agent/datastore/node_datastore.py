# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastore as the agent's other parts use it: it is built from them and receives their changes."""

from __future__ import annotations

import functools
import heapq
import os
import time
import typing as t

from ...bird.status import Session
from ...datastore import snapshot
from ...datastore.gateway import Put
from ...datastore.keys import InvalidKey, endpoint_key
from ...datastore.remote_feed import RemoteFeed
from ...node.store.clock import utc
from ...policy.model import Endpoint
from ...state.answers import details
from ...state.answers.details import EndpointDetails
from ...state.node_state import VethEndpoint
from ...state.remote_endpoints import Collected, RemoteEndpoints
from ..known.host import AgentHost
from ..known.known import Known
from . import beat
from .answers import Answers
from .beat import Sessions
from .details_choice import DetailsChoice
from .heartbeats import Heartbeats, PolicyHeartbeats
from .live_datastore import NAMED, LiveDatastore
from .live_policy_feed import LivePolicyFeed
from .live_questions import LiveQuestions
from .live_trials import LiveTrials
from .new_connection import NewConnection
from .own_content import OwnContent, OwnDocuments, details_of
from .own_ways import Ask, OwnWays
from .publisher import Publisher
from .rights_check import RightsCheck


class NodeDatastore:
    """The datastore of a node, `live`, connected with the node's files and, by `feed`, with its policy.

    `publisher` publishes the node's workloads. `policy_changed` schedules a pass over policy's kinds, and `ask` asks
    the kernel, in the thread that may use it.
    """

    def __init__(self, host: AgentHost, known: Known, policy_changed: t.Callable[[], None], ask: Ask) -> None:
        machine, persisted = host.machine, known.persisted
        self._persisted = persisted
        self._desired = known.desired
        self._status: t.Callable[[], t.Mapping[str, t.Any]] = dict
        self._sessions = Sessions(0, 0)
        self._documents = OwnDocuments()
        self._table = known.table
        self._choice = DetailsChoice()
        self.answers = Answers(self._answering_node)
        reading = host.thread("live policy")
        ways = OwnWays(machine, known, ask, lambda: self.live.settings)
        self.live_policy = LivePolicyFeed(
            persisted,
            lambda: self.feed.mirror,
            reading,
            changed=functools.partial(_live_policy_changed, known, policy_changed),
            synced=lambda: self.live.synced,
            cut_by=ways.cut_by,
            trials=LiveTrials(
                self._node, self.answers, NewConnection(lambda: self.live.settings, self._addresses).shows
            ),
            unsafe=lambda: self._rights.problem,
        )
        self._rights = RightsCheck(lambda: self._checks_rights, self.live_policy.documents_changed)
        self.questions = LiveQuestions(
            host,
            known,
            self.live_policy,
            lambda: self.feed.mirror,
            reading,
            lambda: self.live.synced,
            ways,
            self.answers.put,
        )
        self.feed = RemoteFeed(
            persisted.others,
            lambda: persisted.state,
            policy_changed,
            is_busy=lambda: host.rwlock.is_shared,
            on_documents=self._documents_changed,
        )
        self.publisher = Publisher(self._content)
        self.live = LiveDatastore(
            machine.placed(machine.datastore),
            os.path.join(machine.store, snapshot.FILE),
            self.feed.mirror,
            self.publisher,
            Heartbeats(self._beat),
            host.thread("copy"),
            more_writers=(PolicyHeartbeats(self.live_policy.said, self.live_policy.beat), self.answers, self._rights),
            on_synced=self._synced,
            on_leave=self._keep_as_reports,
            basis=lambda: self.feed.basis,
            trouble=functools.partial(persisted.note, "datastore"),
            give_way=host.rwlock.give_way,
        )

    async def start(self) -> None:
        """Read the settings, and what was known of other nodes before. Raise nothing."""
        self.live_policy.start()
        await self.live.start()
        if self.live.copied is not None:
            self.feed.restored(self.live.copied.plan)
            self._choose(True)

    async def run(self, status: t.Callable[[], t.Mapping[str, t.Any]]) -> None:
        """Follow the datastore and publish until cancelled. `status` returns that of the API, for heartbeats."""
        self._status = status
        await self.live.run()

    async def save(self) -> dict[str, t.Any]:
        """Write what is known of the datastore to the disk now; return `synced` and `known_until` of `to_dict`."""
        await self.live.copy()
        return {name: value for name, value in self.live.to_dict().items() if name in ("synced", "known_until")}

    @property
    def _checks_rights(self) -> bool:
        """Whether live policy depends on the release of etcd. Settings that cannot be read may say so."""
        return self.live.settings is None or self.live.settings.check_rights

    def _node(self) -> str:
        return self._persisted.state.node if self._persisted.state is not None else ""

    def _answering_node(self) -> str:
        return self._node() if self.live_policy.is_allowed else ""

    def _addresses(self) -> list[str]:
        state = self._persisted.state
        held = (state.address, state.address6) if state is not None else ()
        return [cidr.partition("/")[0] for cidr in held if cidr]

    def see_sessions(self, sessions: t.Sequence[Session], unknown: str) -> None:
        """Keep BIRD's sessions for the next heartbeat; `unknown` is why they cannot be read, "" if they were."""
        self._sessions = Sessions.from_sessions(sessions, unknown)

    def state_changed(self) -> None:
        """Check what other nodes publish against another state of Ansible, and publish what this node has."""
        self.feed.state_changed()
        self.live_policy.state_changed()
        self.publisher.changed.set()

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
        return self._documents.content(state, ansible.workloads, self._details)

    def _details(self, workload: VethEndpoint) -> EndpointDetails:
        if not self._choice.publishes:
            return details.NONE
        return details_of(workload, self._table.at(workload.interface))

    def _documents_changed(self) -> None:
        self.live_policy.documents_changed()
        self.questions.documents_changed()

    def _synced(self, synced: bool) -> None:
        self.feed.synced(synced)
        self.live_policy.documents_changed()
        self._choose(synced)

    def _choose(self, known: bool) -> None:
        """Choose whether details are published, if it is `known` what other nodes read, and publish a change."""
        state = self._persisted.state
        if known and state is not None and self._choice.see(self.live.mirror.all_read_details(state.node)):
            self.publisher.changed.set()

    def _beat(self) -> t.Optional[Put]:
        self._choose(self.live.synced)
        status = self._status()
        if not status.get("node"):
            return None
        try:
            return beat.from_status(
                status, self._sessions, self.live.feed_status, self.live.mirror.position, time.time()
            )
        except InvalidKey:
            return None  # The publisher names the problem.

    @property
    def refused(self) -> int:
        """The number of keys of the datastore that this node does not accept, without those of live documents."""
        mirror = self.live.mirror
        return mirror.count_refused - mirror.count_refused_documents + len(self.feed.refused)

    def to_dict(self) -> dict[str, t.Any]:
        """Return the state of the datastore, as LiveDatastore.to_dict, with the keys that this node does not accept.

        Live documents among them are in the state of live policy alone, where that is allowed.
        """
        found = self.live.to_dict(with_documents=not self.live_policy.is_allowed)
        if found:
            own = self.feed.refused
            more = [{"key": endpoint_key(*key), "reason": own[key]} for key in heapq.nsmallest(NAMED, own)]
            found["refused"] = [*found["refused"], *more][:NAMED]
            live = self.live_policy.to_dict()
            if live:
                found["live_policy"] = live
        return found


def _live_policy_changed(known: Known, policy_changed: t.Callable[[], None]) -> None:
    """Let another live policy be in force."""
    known.desired.changed()
    policy_changed()
