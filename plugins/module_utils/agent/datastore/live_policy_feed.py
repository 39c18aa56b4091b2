# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed of live policy: from the documents in the mirror to the desired state, and what the node says of it.

    mirror ── documents ──► read in a thread ──► resolved ──► the disk ──► desired state ──► kernel ── in force ──► etcd

Documents are read as whole revisions, so that no transaction is half in force. If they cannot be resolved, such as a
policy whose tier does not exist, or would cut one of the node's own ways, the last live policy stays in force as a
whole.

A copy on the disk may be older than the live policy that was in force when the agent ended. So nothing older is taken
until the datastore is followed in sync.
"""

from __future__ import annotations

import asyncio
import logging
import time
import typing as t

from ...base.release import VERSION
from ...base.terminal_text import line
from ...datastore import keys
from ...datastore.gateway import Put
from ...datastore.live import policy_heartbeat
from ...datastore.live.live_reader import LiveReader, LiveReading
from ...datastore.live.policy_heartbeat import PolicyHeartbeat
from ...datastore.mirror import Mirror
from ...node.store import live_policy as stored_live_policy
from ...node.store.live_policy import NOTHING_STORED, LivePolicyUnreadable, StoredLivePolicy
from ...state import live_policy
from ...state.live_policy import LivePolicy, Unresolved
from ...state.policy_state import PolicyState
from ..concurrency.driver_thread import Worker
from ..known.persisted_state import PersistedState
from ..log.transactions import transaction

_log = logging.getLogger("calico.datastore")

_QUIET = 0.01  # seconds that a change waits for others
_NOTHING = LiveReading({}, {})


class LivePolicyFeed:
    """The feed into `persisted.live`. It belongs to the event loop; `thread` reads documents and writes the disk.

    `changed` is called after another live policy is to be in force, and `said` after what the node says of it has
    changed. `synced` returns whether the datastore is followed in sync, and `cut_by` which of the node's own ways a
    live policy would cut, "" for none.
    """

    def __init__(
        self,
        persisted: PersistedState,
        mirror: t.Callable[[], Mirror],
        thread: Worker,
        changed: t.Callable[[], None],
        synced: t.Callable[[], bool],
        cut_by: t.Callable[[LivePolicy], t.Awaitable[str]],
    ) -> None:
        self._persisted = persisted
        self._mirror = mirror
        self._thread = thread
        self._changed = changed
        self._synced = synced
        self._cut_by = cut_by
        self._folder = persisted.machine.store
        self._wake = asyncio.Event()
        self._stored = NOTHING_STORED
        self._reader = LiveReader({})
        self._reading = _NOTHING
        #: Why the documents of the datastore are not in force, "" if they are or need only time.
        self.held_back = ""
        self._position = (0, 0)  # cluster and revision of the last reading
        self._in_force = (0, 0)  # cluster and revision of what is in the kernel
        self.said = asyncio.Event()

    @property
    def is_allowed(self) -> bool:
        """Whether the inventory has policy switched on and allows live policy."""
        policy = self._policy
        return policy is not None and policy.settings.live

    @property
    def _policy(self) -> t.Optional[PolicyState]:
        state = self._persisted.state
        return state.policy if state is not None else None

    # ---- what comes in

    def start(self) -> None:
        """Take the live policy on the disk. Raise nothing: a file that cannot be read is a problem."""
        try:
            self._stored = stored_live_policy.load(self._folder)
        except LivePolicyUnreadable as error:
            self._persisted.note("live policy", str(error))
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
        if policy is None:
            return
        values = [one.value for one in reading.documents.values() if one.value is not None]
        try:
            live = live_policy.resolve(policy.policy_set, values)
        except Unresolved as error:
            self._hold_back(str(error), "Create the tier, or change or delete the policy")
            return
        cut = await self._cut_by(live) if live != self._persisted.live else ""
        if cut:
            self._hold_back(cut, "Change the policies so that these ways stay open")
            return
        self._hold_back("")
        await self._take(StoredLivePolicy(live, reading.documents, position.cluster, position.revision))

    def _hold_back(self, reason: str, remedy: str = "") -> None:
        self.held_back = reason
        problem = f"Live policy stays as it was at revision {self._stored.revision}: {line(reason)}. {remedy}."
        self._persisted.note("live policy", problem if reason else None)
        self.said.set()

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
        if stored.policy != self._persisted.live:
            self._persisted.live = stored.policy
            self._changed()
        self.said.set()

    # ---- what is said

    def seen_in_force(self, policy: t.Optional[PolicyState], wanted: t.Optional[PolicyState]) -> None:
        """Note the policy that is in the kernel, and the one that is wanted now; None for none."""
        last = self._stored.cluster, self._stored.revision
        if policy is not None and policy is wanted and self._in_force != last:
            self._in_force = last
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
