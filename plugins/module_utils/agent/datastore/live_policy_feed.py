# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed of live policy: from the documents in the mirror to the desired state, and what the node says of it.

    mirror ── documents ──► read in a thread ──► resolved ──► the disk ──► desired state ──► kernel ── in force ──► etcd

Documents are read as whole revisions, so that no transaction is half in force. If they cannot be resolved, such as a
policy whose tier does not exist, or would cut one of the node's own ways, the last live policy stays in force as a
whole.

An open change of kind trial is laid over the documents for its time (live_trials.py); the disk does not have it.

A copy on the disk may be older than the live policy that was in force when the agent ended. So nothing older is taken
until the datastore is followed in sync.
"""

from __future__ import annotations

import asyncio
import logging
import time
import typing as t
import zlib

from ...base.release import VERSION
from ...base.terminal_text import line
from ...datastore import keys
from ...datastore.gateway import Put
from ...datastore.keys import DocumentKey
from ...datastore.live import policy_heartbeat, rights_hold
from ...datastore.live.live_reader import LiveReader, LiveReading
from ...datastore.live.open_change import OpenChange
from ...datastore.live.policy_heartbeat import PolicyHeartbeat
from ...datastore.mirror import Mirror, Position
from ...node.store import live_policy as stored_live_policy
from ...node.store.live_policy import NOTHING_STORED, LivePolicyUnreadable, StoredLivePolicy
from ...node.store.unconfirmed import UnconfirmedStore
from ...state import live_policy
from ...state.live_policy import LivePolicy, Unresolved
from ...state.policy_state import PolicyState
from ..concurrency.driver_thread import Worker
from ..known.persisted_state import PersistedState
from ..log.transactions import transaction
from .live_trials import Documents, LiveTrials, Trial, TrialState

_log = logging.getLogger("calico.datastore")

_QUIET = 0.01  # seconds that a change waits for others
_NOTHING = LiveReading({}, {})


class _HeldBack(Exception):
    """The reason why documents are not in force, and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class LivePolicyFeed:
    """The feed that puts live policy into `persisted.live`. `thread` reads its texts and writes the disk.

    It belongs to the event loop. `changed` is called after another live policy is to be in force, and `said` is set
    after what the node says of it has changed. `synced` returns whether the datastore is followed in sync, and `cut_by`
    which of the node's own ways a live policy would cut, "" for none. `trials` are those of this feed alone.
    `unsafe` returns why no document may be taken, as RightsCheck.problem.
    """

    def __init__(
        self,
        persisted: PersistedState,
        mirror: t.Callable[[], Mirror],
        thread: Worker,
        changed: t.Callable[[], None],
        synced: t.Callable[[], bool],
        cut_by: t.Callable[[LivePolicy], t.Awaitable[str]],
        trials: LiveTrials,
        unsafe: t.Callable[[], t.Optional[str]] = lambda: "",
    ) -> None:
        self._persisted = persisted
        self._mirror = mirror
        self._thread = thread
        self._changed = changed
        self._synced = synced
        self._cut_by = cut_by
        self._trials = trials
        self._unsafe = unsafe
        self._folder = persisted.machine.store
        self._wake = asyncio.Event()
        self._stored = NOTHING_STORED
        self._reader = LiveReader({})
        self._reading = _NOTHING
        #: Why the documents of the datastore are not in force, "" if they are or need only time.
        self.held_back = ""
        self._position = (0, 0)  # cluster and revision of the last reading
        self._in_force = (0, 0)  # cluster and revision of what is in the kernel
        self._live_in_force: t.Optional[LivePolicy] = None  # the live policy in the kernel, as last seen
        self._unproved: t.Optional[Documents] = None  # documents whose trial ended without a new connection
        self._has_looked = False  # whether the datastore was followed in sync once
        self.said = asyncio.Event()
        self._told: t.Optional[tuple[tuple[int, int], str, t.Mapping[str, str]]] = None

    @property
    def is_allowed(self) -> bool:
        """Whether the inventory has policy switched on and allows live policy."""
        policy = self._policy
        return policy is not None and policy.settings.live

    @property
    def is_trying(self) -> bool:
        """Whether a trial is in force, during which no connection is cut."""
        return self._trials.running is not None

    @property
    def reading(self) -> LiveReading:
        """What the documents say, as they were read last."""
        return self._reading

    @property
    def read_until(self) -> int:
        """The revision up to, and with, which documents were read."""
        return self._position[1]

    @property
    def _policy(self) -> t.Optional[PolicyState]:
        state = self._persisted.state
        return state.policy if state is not None else None

    # ---- what comes in

    def start(self) -> None:
        """Load the live policy that the node's disk has. A file that cannot be read is noted, and no error is raised.

        Live policy is not known then until documents were read: sets and rules stay as they are.
        """
        try:
            self._stored = stored_live_policy.load(self._folder)
        except LivePolicyUnreadable as error:
            self._persisted.live_unknown = str(error)
        self._reader = LiveReader(self._stored.documents)
        self._persisted.live = self._stored.policy

    def documents_changed(self) -> None:
        """Read the documents in the mirror soon, because they may have changed. Do not wait."""
        self._wake.set()

    def state_changed(self) -> None:
        """Resolve the documents against another state of Ansible. Do not wait."""
        self._wake.set()

    async def run(self) -> None:
        """Follow the documents until cancelled. Never return."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_QUIET)
            self._wake.clear()
            if not self.is_allowed:
                self.held_back = ""
                self._persisted.note("live policy", None)
                continue
            try:
                await self._follow()
                self._tell()
            except Exception:  # noqa: BLE001  a fault here must not end the agent, on which the workloads depend
                _log.exception("Live policy could not be read. What is in force stays.")

    async def _follow(self) -> None:
        mirror = self._mirror()
        position, before = mirror.position, self._stored
        if position is None:
            return
        older = position.cluster != before.cluster or position.revision < before.revision
        if older and before.cluster and not self._synced():
            return
        texts, unread = mirror.documents, mirror.refused_documents
        async with transaction("live policy read"):
            reading = await self._thread(lambda: self._reader.read(texts))
        self._reading = LiveReading(reading.documents, {**reading.refused, **unread})
        self._position = (position.cluster, position.revision)
        policy = self._policy
        opened = self._trials.opened(mirror.open_change)
        state = await self._trials.judge(opened, reading.documents, policy)
        if state is TrialState.GOES_ON and self.is_trying:
            return
        if state in (TrialState.REVERTED, TrialState.UNPROVED):
            self._want(self._stored.policy)
        self._unproved = reading.documents if state is TrialState.UNPROVED else self._unproved
        if policy is None:
            return
        unsafe = self._unsafe()
        if unsafe:
            self._hold_back(unsafe, rights_hold.REMEDY)
        if unsafe != "":  # it is, or members are asked
            return
        if self._unproved == reading.documents:
            reason = f"the change at revision {position.revision} keeps this node from new connections to the datastore"
            self._hold_back(reason, "Change the policies so that they stay possible")
            return
        self._unproved = None
        await self._put_in_force(policy, reading.documents, position)
        if opened is not None and self._trials.is_new(opened):
            await self._try(opened, policy, texts)
        self._has_looked = self._has_looked or self._synced()

    async def _put_in_force(self, policy: PolicyState, documents: Documents, position: Position) -> None:
        try:
            live = await self._checked(policy, documents)
        except _HeldBack as error:
            self._hold_back(error.reason, error.remedy)
            return
        self._hold_back("")
        await self._take(StoredLivePolicy(live, documents, position.cluster, position.revision))

    async def _checked(self, policy: PolicyState, documents: Documents) -> LivePolicy:
        """Return the live policy of documents. Raise _HeldBack if it cannot be in force."""
        values = [one.value for one in documents.values() if one.value is not None]
        try:
            live = live_policy.resolve(policy.policy_set, values)
        except Unresolved as error:
            raise _HeldBack(str(error), "Create the tier, or change or delete the policy") from None
        cut = await self._cut_by(live) if live != self._persisted.live else ""
        if cut:
            raise _HeldBack(cut, "Change the policies so that these ways stay open")
        return live

    async def _try(self, change: OpenChange, policy: PolicyState, texts: t.Mapping[DocumentKey, bytes]) -> None:
        """Begin the trial of a change, or answer why not."""
        before = self._reading.documents
        obstacle = self._obstacle()
        if obstacle:
            self._trials.refuse(change, obstacle)
            return
        reader = self._reader.copy()
        tried = {**texts, **{key: zlib.compress(value) for key, value in change.documents.items() if value is not None}}
        for key, value in change.documents.items():
            if value is None:
                tried.pop(key, None)
        reading = await self._thread(lambda: reader.read(tried))
        bad = next((key for key in map(keys.document_key, change.documents) if key in reading.refused), "")
        if bad:
            self._trials.refuse(change, f"{bad}: {reading.refused[bad]}")
            return
        try:
            live = await self._checked(policy, reading.documents)
        except _HeldBack as error:
            self._trials.refuse(change, f"{error.reason}. {error.remedy}.")
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + change.seconds
        self._trials.begin(Trial(change, live, before, reading.documents, policy, until))
        loop.call_at(until, self._wake.set)
        self._want(live)
        if self._live_in_force == live:
            self._trials.in_force()

    def _obstacle(self) -> str:
        """Return why this node tries nothing now, "" if it does."""
        if not self._has_looked or not self._synced():
            return "this node has just begun to follow the datastore"
        if self.held_back:
            return f"live policy is held back on this node: {self.held_back}"
        if UnconfirmedStore(self._folder).any():
            return "a change by a run of Ansible waits for its confirmation on this node"
        return ""

    def _want(self, live: LivePolicy) -> None:
        """Let a live policy be in force."""
        if live != self._persisted.live or self._persisted.live_unknown:
            self._persisted.live, self._persisted.live_unknown = live, ""
            self._changed()

    def _hold_back(self, reason: str, remedy: str = "") -> None:
        self.held_back = reason
        problem = f"Live policy stays as it was at revision {self._stored.revision}: {line(reason)}. {remedy}."
        self._persisted.note("live policy", problem if reason else None)

    async def _take(self, stored: StoredLivePolicy) -> None:
        """Write live policy to the disk and let it be in force. A failure to write is a problem, and no obstacle."""
        if (stored.documents, stored.cluster) != (self._stored.documents, self._stored.cluster):
            try:
                await self._thread(lambda: stored_live_policy.save(self._folder, stored))
            except OSError as error:
                self._persisted.note(
                    "live policy",
                    f"{stored_live_policy.path(self._folder)} cannot be written: {error.strerror}. After a reboot, "
                    "live policy is older until the datastore answers. Make room or correct the file system.",
                )
        self._stored = stored
        self._want(stored.policy)
        if stored.policy == self._live_in_force:
            self._in_force = stored.cluster, stored.revision

    # ---- what is said

    def seen_in_force(self, policy: t.Optional[PolicyState], wanted: t.Optional[PolicyState]) -> None:
        """Note the policy that is in the kernel, and the one that is wanted now; None for none."""
        if policy is None or policy is not wanted:
            return
        self._live_in_force = self._persisted.live
        last = self._stored.cluster, self._stored.revision
        if self.is_trying:
            self._trials.in_force()
        else:
            self._in_force = last
            self._tell()

    def _tell(self) -> None:
        """Request that the node says what it has, if that is something else than before."""
        told = self._in_force, self.held_back, self._reading.refused
        if told != self._told:
            self._told = told
            self.said.set()

    def beat(self) -> t.Optional[Put]:
        """Return the key and document that say what the node has of live policy; None if there is nothing to say."""
        state = self._persisted.state
        if state is None or not self.is_allowed:
            return None
        refused = sorted(self._reading.refused.items())
        cluster, revision = self._in_force
        heartbeat = PolicyHeartbeat(
            state.node, time.time(), VERSION, cluster, revision, self.held_back, len(refused), tuple(refused)
        )
        return Put(keys.policy_heartbeat_key(state.node), policy_heartbeat.encode(heartbeat))

    def to_dict(self) -> dict[str, t.Any]:
        """Return the state of live policy for the API method `status`, JSON-ready; {} where it is not allowed.

        `without_effect` names live values whose kind and name the inventory has too. `refused` lists at most 16 keys.
        """
        policy = self._policy
        if policy is None or not policy.settings.live:
            return {}
        refused = sorted(self._reading.refused.items())
        hidden = live_policy.without_effect(policy.policy_set, self._persisted.live)
        return {
            "documents": len(self._stored.documents),
            "cluster": f"{self._in_force[0]:x}" if self._in_force[0] else "",
            "revision": self._in_force[1],
            "read": self._position[1],
            "held_back": self.held_back,
            "without_effect": [f"{kind} {name}" for kind, name in hidden[:16]],
            "count_refused": len(refused),
            "refused": [{"key": key, "reason": reason} for key, reason in refused[:16]],
        }
