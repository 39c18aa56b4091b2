# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of other nodes' endpoints from the datastore into policy: a burst of changes is one pass.

    datastore ── apply(changes, live) ──► OtherEndpoints ──► compiled in the drivers' thread
                        └── soon, once ──► the reconciler looks at sets and rules

A single change waits 10 ms for others. A burst is gathered as long as it goes on, for half a second at most.
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

#: A node, and the host end of a workload's interface there.
Place = tuple[str, str]


class RemoteUpdates:
    """The writer of `others` for the datastore, on the event loop. `look` schedules a look at policy's kinds."""

    def __init__(self, others: OtherEndpoints, look: t.Callable[[], None]) -> None:
        self._others = others
        self._look = look
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
        self._count = 0
        self._look()
