# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The publisher: it keeps the keys below this node's prefix equal to the node's workloads.

    a workload comes or goes ─► changed   ─► one transaction at once, those of the next 100 ms together
    a member answers again   ─► recheck() ─► the prefix is listed, and the difference is written

Nobody waits for it. What is still to be published needs no file of its own: it is the difference between the records of
the workloads and the store.
"""

from __future__ import annotations

import asyncio
import random
import time
import typing as t
import zlib

from ...datastore import keys
from ...datastore.client import EtcdClient, Unreachable
from ...datastore.gateway import Delete, EtcdError, KeyChange, NoSpace, Operation, Put, TooFast
from ..log.transactions import transaction
from .own_content import OwnContent

#: Seconds between the beginnings of two transactions.
_BATCH_SECONDS = 0.1
#: The most operations of a transaction; etcd takes 128 by default.
_OPERATIONS = 100
#: The most bytes of documents in a transaction; etcd takes requests of 1.5 MB by default, and base64 adds a third.
_BYTES = 512 << 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 4.0  # seconds between two attempts, before they are made random


class Publisher:
    """The publisher of what `content` returns, which is None while it is not known: nothing is changed then.

    Set `changed` when the node's workloads may have changed. `problem` is why the last attempt failed, "" after a
    success. `published` is the time.time() of the last comparison or transaction after which nothing was waiting, 0.0
    for never.
    """

    def __init__(
        self, content: t.Callable[[], t.Optional[OwnContent]], clock: t.Callable[[], float] = time.time
    ) -> None:
        self.changed = asyncio.Event()
        self.problem = ""
        self.published = 0.0
        self._content = content
        self._clock = clock
        self._stored: t.Optional[dict[str, int]] = None  # CRC-32 by key: what the store has as far as this knows
        self._left = 0  # keys that the last comparison has found to differ, and that are not written yet
        self._full = False  # whether the last attempt was refused for want of space
        self._prefix = ""
        self._last: t.Optional[OwnContent] = None  # the last content that was published, without its documents

    @property
    def waiting(self) -> t.Optional[int]:
        """The number of keys that were found to be written or removed, None while it is not known whether any are."""
        return self._left or (None if self._stored is None else 0)

    def recheck(self) -> None:
        """Note that the store may have lost or altered what was published. Do not wait."""
        self._stored = None
        self.changed.set()

    def saw(self, changes: t.Sequence[KeyChange]) -> None:
        """Compare changes of any keys of the store with what was published; () means that any may have changed."""
        for key, value, *_revision in changes:
            if self._prefix and key.startswith(self._prefix):
                checksum = zlib.crc32(value) if value is not None else None
                if self._stored is not None and self._stored.get(key) != checksum:
                    self.recheck()
        if not changes:
            self.recheck()

    async def run(self, client: EtcdClient) -> None:
        """Publish until cancelled. What fails is noted in `problem` and tried again."""
        self.recheck()
        failures = 0
        while True:
            await self.changed.wait()
            self.changed.clear()
            began = asyncio.get_running_loop().time()
            try:
                await self._publish(client)
            except keys.InvalidKey as error:
                self.problem, self._stored = f"{error}", None
                continue
            except TooFast as later:
                # Nothing was written, and the next attempt publishes whatever has changed until then.
                self.changed.set()
                await asyncio.sleep(min(later.seconds, _LONGEST_PAUSE) * random.uniform(0.75, 1))
                continue
            except (EtcdError, Unreachable) as error:
                self.problem = str(error)
                self._full = isinstance(error, NoSpace)
                if self._full:
                    self.changed.set()
                else:
                    # Whether a transaction without an answer was done is not known.
                    self.recheck()
                failures += 1
                longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))
                await asyncio.sleep(random.uniform(longest / 2, longest))
                continue
            failures, self.problem, self._full = 0, "", False
            await asyncio.sleep(max(0.0, began + _BATCH_SECONDS - asyncio.get_running_loop().time()))

    async def _publish(self, client: EtcdClient) -> None:
        content = self._content()
        if content is None:
            return
        self._prefix = keys.endpoints_of(content.node)
        stored = self._stored
        if stored is None:
            stored = await _stored(client, content.node)
            self._stored = stored
        checksums = {key: zlib.crc32(document) for key, document in content.documents.items()}
        operations = _operations(content, checksums, stored)
        self._left = len(operations)
        for part in _parts(operations, self._full):
            async with transaction("datastore write", more=_names(part, self._last, content)):
                await client.write(part)
            # `recheck` while the answer was awaited has dropped `_stored`, and the next round lists anew.
            for operation in part:
                if isinstance(operation, Put):
                    stored[operation.key] = checksums[operation.key]
                else:
                    stored.pop(operation.key, None)
            self._left -= len(part)
        self._last = content._replace(documents={})
        self.published = self._clock()


async def _stored(client: EtcdClient, node: str) -> dict[str, int]:
    """Return the keys below the node's prefix, with the CRC-32 of their values."""
    found: dict[str, int] = {}
    async for page in client.pages(keys.under(keys.endpoints_of(node))):
        found.update((entry.key, zlib.crc32(entry.value)) for entry in page.entries)
    return found


def _operations(content: OwnContent, checksums: t.Mapping[str, int], stored: t.Mapping[str, int]) -> list[Operation]:
    """Return what brings the store to the content. The key that says that all is there comes last."""
    last = keys.complete_key(content.node)
    removed: list[Operation] = [Delete(key) for key in sorted(stored.keys() - checksums.keys())]
    written: list[Operation] = [
        Put(key, document)
        for key, document in sorted(content.documents.items(), key=lambda item: (item[0] == last, item[0]))
        if stored.get(key) != checksums[key]
    ]
    return removed + written


def _names(operations: t.Sequence[Operation], last: t.Optional[OwnContent], content: OwnContent) -> t.Iterator[str]:
    """Yield the names of the workloads that the operations write or remove; the key of what is no known workload."""
    known = {**(last.names() if last is not None else {}), **content.names()}
    for operation in operations:
        yield known.get(operation.key, operation.key)


def _parts(operations: t.Sequence[Operation], apart: bool) -> t.Iterator[list[Operation]]:
    """Yield the operations in parts for one transaction each. `apart`: none removes and writes.

    What is removed makes room, and is refused together with what needs room.
    """
    part: list[Operation] = []
    size = 0
    for operation in operations:
        more = len(operation.value) if isinstance(operation, Put) else 0
        ends = len(part) >= _OPERATIONS or size + more > _BYTES
        if part and (ends or (apart and isinstance(part[-1], Delete) and isinstance(operation, Put))):
            yield part
            part, size = [], 0
        part.append(operation)
        size += more
    if part:
        yield part
