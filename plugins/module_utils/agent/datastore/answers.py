# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's answers to open changes of live policy: the newest ones are in the datastore, and no others."""

from __future__ import annotations

import asyncio
import typing as t

from ...datastore import keys
from ...datastore.client import EtcdClient, Unreachable
from ...datastore.gateway import Delete, EtcdError, Operation, Put, TooFast
from ...datastore.live import change_answer
from ...datastore.live.change_answer import ChangeAnswer
from ..log.transactions import transaction

#: The answers that stay in the datastore: those to the last changes.
KEPT_ANSWERS = 4
_AGAIN = 2.0  # seconds until a write that failed is tried again


class Answers:
    """The writer of answers. `put` gives it one, which replaces an earlier one to the same change.

    `node` returns the name of this node, "" while live policy is not allowed.
    """

    def __init__(self, node: t.Callable[[], str]) -> None:
        self._node = node
        self._answers: dict[str, ChangeAnswer] = {}  # by change, the newest last
        self._written: dict[str, bytes] = {}  # key and value, as the datastore has them
        self._changed = asyncio.Event()

    def put(self, answer: ChangeAnswer) -> None:
        """Write an answer as soon as possible. Do not wait."""
        self._answers.pop(answer.change, None)
        self._answers[answer.change] = answer
        for gone in list(self._answers)[:-KEPT_ANSWERS]:
            del self._answers[gone]
        self._changed.set()

    async def run(self, client: EtcdClient) -> None:
        """Write answers until cancelled, and remove those of an earlier agent: what it tried is in force no longer."""
        listed = False
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                node = self._node()
                if node and not listed:
                    await self._list(client, node)
                    listed = True
                if node:
                    await self._write(client)
            except (EtcdError, Unreachable) as error:
                await asyncio.sleep(error.seconds if isinstance(error, TooFast) else _AGAIN)
                listed = False
                self._changed.set()

    async def _list(self, client: EtcdClient, node: str) -> None:
        self._written = {}
        async for page in client.pages(keys.under(keys.answers_of(node)), size=keys.MOST_ANSWERS):
            self._written.update((entry.key, entry.value) for entry in page.entries)

    async def _write(self, client: EtcdClient) -> None:
        wanted = {keys.answer_key(one.node, one.change): change_answer.encode(one) for one in self._answers.values()}
        operations: list[Operation] = [Delete(key) for key in sorted(self._written.keys() - wanted.keys())]
        operations += [Put(key, value) for key, value in wanted.items() if self._written.get(key) != value]
        if operations:
            async with transaction("datastore write", more=(one.key for one in operations)):
                await client.write(operations[-100:])
            self._written = wanted
