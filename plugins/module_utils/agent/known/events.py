# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events on a node, delivered to clients that watch."""

from __future__ import annotations

import asyncio
import typing as t

from ...node.store.clock import now

Event = dict[str, t.Any]

#: The most events that are queued for a watcher. In place of the next event the watcher gets "overflow", and has to
#: read everything again.
BACKLOG = 1000


class Events:
    """The events of a node.

    A watcher that has 1000 events queued when another one comes gets these, then an event `overflow`, and nothing more.
    """

    def __init__(self) -> None:
        self._watchers: set[asyncio.Queue[Event]] = set()

    async def watch(self, first: t.Optional[t.Callable[[], Event]] = None) -> t.AsyncIterator[Event]:
        """Yield events from the first iteration on, until the caller closes the iterator or an overflow was yielded.

        Each is a mapping with `event`, its name, `when`, a UTC time as text, and further keys that depend on the event.
        What `first` returns comes before them; no event after it is missed.
        """
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._watchers.add(queue)
        try:
            if first is not None:
                yield first()
            while True:
                event = await queue.get()
                yield event
                if event["event"] == "overflow":
                    return
        finally:
            self._watchers.discard(queue)

    def tell(self, event: str, **more: t.Any) -> None:
        """Queue an event with the name `event` and the keys `more` for all watchers. Return at once."""
        for queue in list(self._watchers):
            if queue.qsize() >= BACKLOG:
                self._watchers.discard(queue)
                queue.put_nowait({"event": "overflow", "when": now()})
            else:
                queue.put_nowait({"event": event, "when": now(), **more})
