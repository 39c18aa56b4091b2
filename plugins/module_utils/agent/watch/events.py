# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens on a node, told to whoever watches."""

from __future__ import annotations

import asyncio
import typing as t

from ...node.store.store import now

Event = dict[str, t.Any]

#: Events that a watcher may be behind before it is told to look at everything anew.
BACKLOG = 1000


class Events:
    """`tell` never waits: a watcher that does not keep up gets {"event": "overflow"} and nothing more."""

    def __init__(self) -> None:
        self._watchers: set[asyncio.Queue[Event]] = set()

    async def watch(self) -> t.AsyncIterator[Event]:
        """From now on, until closed or overflown. Each has `event` and `when`."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._watchers.add(queue)
        try:
            while True:
                event = await queue.get()
                yield event
                if event["event"] == "overflow":
                    return
        finally:
            self._watchers.discard(queue)

    def tell(self, event: str, **more: t.Any) -> None:
        for queue in list(self._watchers):
            if queue.qsize() >= BACKLOG:
                self._watchers.discard(queue)
                queue.put_nowait({"event": "overflow", "when": now()})
            else:
                queue.put_nowait({"event": event, "when": now(), **more})
