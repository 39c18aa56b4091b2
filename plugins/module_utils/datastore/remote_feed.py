# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed of other nodes' workloads from the mirror of the datastore into policy: collected, checked, in portions.

    mirror ── changed(keys) ──► keys that wait ── a portion, checked ──► OtherEndpoints ──► compiled by a thread
                                                      └── look() ──► a pass over sets and rules ──► passed()

The only buffer is the keys that wait: a workload that changes again meanwhile waits once, and is read when its portion
is handed on. `OtherEndpoints` gives each step of a portion a version.

A single change waits 10 ms for others. A burst is gathered as long as it goes on, for half a second at most. Adding a
workload on this node waits for a pass that has begun, so a portion is small. The next one follows after the pass, and a
pause as long as its work took.

A node is live, so that its keys count in place of what the inventory says of it, while it has published all of its
workloads and nothing newer is known: the feed is in sync, or this node's state is still the one of when it was. A node
becomes live only when all keys were handed on, so that none of its workloads is missing meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import typing as t

from ..policy.model import Endpoint
from ..state.node_state import NodeState
from ..state.other_endpoints import OtherEndpoints
from ..state.remote_endpoints import ReaderCheck
from .keys import EndpointKey
from .mirror import Mirror

_QUIET = 0.01  # seconds without a change after which those before it are handed on
_LONGEST = 0.1  # the most seconds that a change waits while others follow it
_BURST = 250  # the number of changes that are a burst
_BURST_LONGEST = 0.5  # the most seconds that a change of a burst waits
PORTION = 700  # the most changes of a pass: about 10 ms of work for the thread that adds of workloads need as well
_STEP = 50  # changes that are checked at once, between two pauses for the event loop: about a millisecond
_AWAY = 0.002  # seconds between two looks whether adds are under way, which go first
_LONGEST_AWAY = 0.02  # the most seconds that a step waits for them
_LONGEST_PAUSE = 0.25  # the most seconds between a pass and the next portion
_PATIENCE = 1.0  # seconds after which a pass counts as over, such as one that waits for the desired state


class RemoteFeed:
    """The workloads of other nodes in `mirror`, as far as this node accepts them, for `others`, which policy reads.

    `state` returns Ansible's state, None while it is not known. While `is_busy()`, adds and deletes are under way, and
    each step waits for them, but not for long. `look` schedules a pass over policy's kinds. `on_documents` is that of
    Mirror. `refused` are the keys that this node does not accept, each with the reason. `basis` is the plan of this
    node's state when the datastore was followed in sync last, "" for never. All calls except `restored` need a running
    event loop.
    """

    def __init__(
        self,
        others: OtherEndpoints,
        state: t.Callable[[], t.Optional[NodeState]],
        look: t.Callable[[], None] = lambda: None,
        mirror: t.Optional[Mirror] = None,
        is_busy: t.Callable[[], bool] = lambda: False,
        on_documents: t.Callable[[], None] = lambda: None,
    ) -> None:
        self.mirror = Mirror(self.changed, on_documents) if mirror is None else mirror
        self.refused: dict[EndpointKey, str] = {}
        self.basis = ""
        self._others = others
        self._state = state
        self._look = look
        self._is_busy = is_busy
        self._checked_for: t.Optional[NodeState] = None
        self._check = ReaderCheck(None)
        self._synced = False
        self._waiting: dict[EndpointKey, None] = {}  # changed workloads that `others` does not have yet
        self._live_changed = False  # whether the live nodes may have changed
        self._first = self._last = 0.0  # when the first and the last of them came, in seconds of the loop's clock
        self._idle = True  # whether nothing waits and no portion is being handed on
        self._patient_until = 0.0  # until when a step waits for adds, in seconds of the loop's clock; 0.0: it does not
        self._full = False  # whether the next portion waits for the end of a pass
        self._altered = False  # whether `others` has changed since the last call of `look`
        self._passing = 0  # the changes of passes that were asked for and are not over
        self._asked = 0.0  # when the last of them was asked for, in seconds of the loop's clock
        self._awaited = False  # whether that pass is still to be noted by `passed`
        self._end: t.Optional[asyncio.TimerHandle] = None  # calls `_over`

    # ---- collect

    def changed(self, keys: t.AbstractSet[EndpointKey], nodes: t.AbstractSet[str] = frozenset()) -> None:
        """Schedule workloads that came, changed or went, and `nodes` whose completeness changed. Do not wait."""
        self._waiting.update(dict.fromkeys(keys))
        self._live_changed = self._live_changed or bool(nodes)
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._idle:
            self._idle, self._first = False, self._last
            loop.call_later(_QUIET, self._gathered)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def synced(self, synced: bool) -> None:
        """Note that the datastore is followed in sync, or no longer is."""
        self._synced = synced
        self._renew_live()

    def state_changed(self) -> None:
        """Check all workloads again if Ansible's state is another one. Do not wait."""
        if self._state() is not self._checked_for:
            self._waiting.update(dict.fromkeys([*self.mirror.endpoints, *self.refused]))
            self._renew_live()

    def restored(self, basis: str) -> None:
        """Give `others` all of a mirror that was read from the disk; `basis` is what it was when it was written."""
        self.basis, self._live_changed = basis, True
        self._waiting.clear()
        self._hand_on(self.mirror.endpoints)
        self._passing = 0

    def _renew_live(self) -> None:
        """Let nodes that are no longer live be so at once, and others be live when all keys were handed on."""
        self._live_changed = True
        self._hand_on(())
        self.changed(frozenset())

    # ---- check

    def _hand_on(self, keys: t.Collection[EndpointKey]) -> None:
        """Let `others` have these workloads as the mirror has them now, unless this node does not accept them."""
        state = self._state()
        if state is not self._checked_for:
            self._checked_for, self._check = state, ReaderCheck(state)
        changes: dict[tuple[str, str], t.Optional[Endpoint]] = {}
        for key in keys:
            if key.node == self._check.node:
                continue
            self.refused.pop(key, None)
            endpoint = self.mirror.endpoint(key)
            if endpoint is not None:
                reason = self._check.refusal(key.node, endpoint, checked=True)
                if reason:
                    self.refused[key], endpoint = reason, None
            changes[key] = endpoint
        live: t.Optional[frozenset[str]] = None
        if self._live_changed:
            live = self._live(state)
            self._live_changed = bool(self._waiting)
            if self._live_changed:
                live &= self._others.live
        if self._others.apply(changes, live):
            self._altered = True
            self._passing += max(len(changes), 1)

    def _live(self, state: t.Optional[NodeState]) -> frozenset[str]:
        plan = state.plan if state is not None else ""
        if self._synced:
            self.basis = plan
        if not plan or plan != self.basis:
            return frozenset()
        return self.mirror.complete - {self._check.node}

    # ---- pace

    def _gathered(self) -> None:
        """Begin a portion, or wait for more changes if some came lately."""
        loop = asyncio.get_running_loop()
        longest = _BURST_LONGEST if len(self._waiting) >= _BURST else _LONGEST
        until = min(self._last + _QUIET, self._first + longest)
        if len(self._waiting) < PORTION and loop.time() < until:
            loop.call_at(until, self._gathered)
        else:
            self._next_step()

    def _next_step(self) -> None:
        """Give `others` a part of a portion; after the last part, ask for the pass."""
        loop = asyncio.get_running_loop()
        if self._is_busy():
            self._patient_until = self._patient_until or loop.time() + _LONGEST_AWAY
            if loop.time() < self._patient_until:
                loop.call_later(_AWAY, self._next_step)
                return
        self._patient_until = 0.0
        room = PORTION - self._passing
        if self._waiting and room <= 0:
            self._full = True  # until `_over`
        else:
            part = list(itertools.islice(self._waiting, max(0, min(_STEP, room))))
            for key in part:
                del self._waiting[key]
            self._hand_on(part)
            self._full = bool(self._waiting) and self._passing >= PORTION
            if self._waiting and not self._full:
                asyncio.get_running_loop().call_soon(self._next_step)
                return
        self._idle = not self._waiting
        if self._altered:
            self._altered, self._awaited = False, True
            self._asked = asyncio.get_running_loop().time()
            self._end_after(_PATIENCE)
            self._look()

    def passed(self, seconds: float = _LONGEST_PAUSE) -> None:
        """Note that a pass over policy's kinds is over, which took so many seconds from its beginning."""
        if self._awaited:
            self._awaited = False
            since = asyncio.get_running_loop().time() - self._asked
            self._end_after(min(seconds, since, _LONGEST_PAUSE))

    def _end_after(self, seconds: float) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, self._over)

    def _over(self) -> None:
        self._passing, self._awaited, self._end = 0, False, None
        if self._full:
            self._full = False
            self._next_step()
