# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heartbeats of a node: one key, rewritten every ten seconds, outside of what agents watch.

A heartbeat is information for people. Nothing of a node is removed because it is old. What the node says of its live
policy is a key beside it, which is written as soon as that changes.
"""

from __future__ import annotations

import asyncio
import random
import typing as t

from ...datastore.client import EtcdClient, Unreachable
from ...datastore.gateway import EtcdError, Put, TooFast
from ..log.transactions import transaction

#: The least seconds between two writes of what a node says of its live policy.
SAYING = 0.5
#: Seconds until one that failed is tried again.
_AGAIN = 2.0
#: Seconds between two heartbeats, give or take a tenth, so that the nodes of a fleet do not write together.
INTERVAL = 10.0


class Heartbeats:
    """The writer of heartbeats. `beat` returns the key and the document, None while the node has no state.

    `problem` is why the last one was not written, "" if it was.
    """

    def __init__(self, beat: t.Callable[[], t.Optional[Put]], interval: float = INTERVAL) -> None:
        self.problem = ""
        self._beat = beat
        self._interval = interval

    async def run(self, client: EtcdClient) -> None:
        """Write heartbeats until cancelled. One that fails is left out."""
        while True:
            beat = self._beat()
            if beat is not None:
                try:
                    async with transaction("datastore write", beat.key):
                        await client.write([beat])
                    self.problem = ""
                except TooFast:
                    pass  # The last one was written a moment ago.
                except (EtcdError, Unreachable) as error:
                    self.problem = str(error)
            await asyncio.sleep(self._interval * random.uniform(0.9, 1.1))


class PolicyHeartbeats:
    """The writer of what a node says of its live policy: `beat`, None for nothing, each time that `said` is set."""

    def __init__(self, said: asyncio.Event, beat: t.Callable[[], t.Optional[Put]]) -> None:
        self._said = said
        self._beat = beat

    async def run(self, client: EtcdClient) -> None:
        """Write until cancelled, at first whatever there is. One that fails is written again."""
        self._said.set()
        while True:
            await self._said.wait()
            self._said.clear()
            beat = self._beat()
            if beat is None:
                continue
            try:
                async with transaction("datastore write", beat.key):
                    await client.write([beat])
                await asyncio.sleep(SAYING)
            except (EtcdError, Unreachable) as error:
                await asyncio.sleep(error.seconds if isinstance(error, TooFast) else _AGAIN)
                self._said.set()
