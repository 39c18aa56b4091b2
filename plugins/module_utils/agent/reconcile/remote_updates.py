# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of other nodes' endpoints from the datastore into policy: a burst is few passes.

    datastore ── apply(changes, live) ──► OtherEndpoints ──► compiled in the drivers' thread
                        └── soon, once ──► the reconciler looks at sets and rules ──► passed()

A single change waits 10 ms for others. A burst is gathered as long as it goes on, for half a second at most.

Adding a workload on this node waits for a pass that has begun. A caller with thousands of changes therefore applies no
more than there is `room` for, and the rest when `on_room` is called: after the pass, and a pause as long as the pass
took.
"""

from __future__ import annotations

import asyncio
import typing as t

from ...policy.model import Endpoint
from ...state.other_endpoints import OtherEndpoints

_QUIET = 0.01  # seconds without a change after which those before it are compiled
_LONGEST = 0.1  # the most seconds that a change waits while others follow it
_BURST = 250  # the number of changes that are a burst
_BURST_LONGEST = 0.5  # the most seconds that a change of a burst waits
_PORTION = 500  # the most changes of a pass, for callers that ask for `room`
_LONGEST_PAUSE = 0.25  # the most seconds between a pass and the changes for the next one
_PATIENCE = 1.0  # seconds after which a pass counts as over, such as one that waits for the desired state

#: A node, and the host end of a workload's interface there.
Place = tuple[str, str]


class RemoteUpdates:
    """The writer of `others` for the datastore, on the event loop. `look` schedules a look at policy's kinds.

    `on_room` is called when there is room again after `room` was 0.
    """

    def __init__(self, others: OtherEndpoints, look: t.Callable[[], None]) -> None:
        self.on_room: t.Callable[[], None] = lambda: None
        self._others = others
        self._look = look
        self._passing = 0  # the changes of passes that were asked for and are not over
        self._asked = 0.0  # when the last of them was asked for, in seconds of the loop's clock
        self._awaited = False  # whether that pass is still to be noted by `passed`
        self._end: t.Optional[asyncio.TimerHandle] = None  # calls `_over`
        self._count = 0  # the changes that wait
        self._first = self._last = 0.0  # when the first and the last of them came, in seconds of the loop's clock

    def apply(
        self, changes: t.Mapping[Place, t.Optional[Endpoint]], live: t.Optional[t.AbstractSet[str]] = None
    ) -> None:
        """Take changes of the datastore by (node, interface), None for a workload that is gone. Do not wait.

        `live` are all nodes whose workloads the datastore has completely, None if they are the same as before. What
        the inventory and reports say of these nodes does not count. Those of this node are ignored.

        The loop is held for about 2 us for each change: give thousands in slices. They are compiled as one all the
        same.
        """
        if self._others.apply(changes, live):
            self._changed(len(changes))

    def replace_all(self, endpoints: t.Mapping[Place, Endpoint], live: t.AbstractSet[str]) -> None:
        """Take everything that the datastore has, and all nodes that are live; see `apply`. Do not wait."""
        if self._others.replace_all(endpoints, live):
            self._changed(len(endpoints))

    @property
    def pending(self) -> bool:
        """Whether there are changes at which the reconciler has not been asked to look yet."""
        return self._count > 0

    @property
    def room(self) -> int:
        """The number of changes that may be applied now, so that a pass stays short."""
        return max(0, _PORTION - self._count - self._passing)

    def passed(self) -> None:
        """Note that a pass over policy's kinds is over."""
        if self._awaited:
            self._awaited = False
            loop = asyncio.get_running_loop()
            self._end_after(min(loop.time() - self._asked, _LONGEST_PAUSE), loop)

    def _end_after(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = loop.call_later(seconds, self._over)

    def _over(self) -> None:
        was_full = not self.room
        self._passing, self._awaited, self._end = 0, False, None
        if was_full:
            self.on_room()

    def _changed(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if not self._count:
            self._first = self._last
            loop.call_later(_QUIET, self._gathered, loop)
        self._count += max(count, 1)

    def _gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask for the look, or wait for more changes if some came lately."""
        longest = _BURST_LONGEST if self._count >= _BURST else _LONGEST
        until = min(self._last + _QUIET, self._first + longest)
        if loop.time() < until:
            loop.call_at(until, self._gathered, loop)
            return
        self._passing += self._count
        self._count, self._asked, self._awaited = 0, loop.time(), True
        self._end_after(_PATIENCE, loop)
        self._look()
