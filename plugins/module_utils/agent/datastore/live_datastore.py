# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastore of a running agent: what other nodes publish comes in, and what this node has goes out.

    etcd ──► Feed ──► Mirror ──► RemoteFeed ──► policy
                        └──────► the copy on the disk, which is read at the start
    workloads ──► Publisher ──► etcd
    status    ──► Heartbeats, PolicyHeartbeats ──► etcd

Nothing of the agent waits for it. A file of settings that has changed, come or gone is noticed within `_LOOK_SECONDS`:
the connections are made anew, and what was read stays. Without the file, what was read is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import time
import typing as t

from ...datastore import keys, settings, snapshot
from ...datastore.client import EtcdClient
from ...datastore.feed import Feed, FeedStatus
from ...datastore.gateway import KeyChange
from ...datastore.mirror import Mirror
from ...datastore.settings import DatastoreSettings, DatastoreSettingsError
from ...datastore.snapshot import SnapshotHeader
from ...node.store.clock import utc
from ..concurrency.driver_thread import Worker
from .heartbeats import Heartbeats
from .publisher import Publisher

_log = logging.getLogger("calico.datastore")

#: Seconds between two looks at the file of settings.
_LOOK_SECONDS = 5.0
_PAUSE = 0.2  # seconds between the end of a connection and the next
#: Seconds from a change to the copy on the disk.
_COPY_SOON = 1.0
#: The part of its time for which an agent writes copies at most: one of 10,000 workloads is written twice a minute.
_COPY_SHARE = 0.01
#: Seconds without a synced feed until that is a problem of the node.
_PATIENCE = 10.0
#: The most refused keys that the status names.
NAMED = 16


class DatastoreWriter(t.Protocol):
    """A part that writes into the datastore, or asks its members, until it is cancelled."""

    async def run(self, client: EtcdClient) -> None: ...


class LiveDatastore:
    """The datastore of one agent. It belongs to the event loop.

    `path` is the file of settings, `copy` that of the copy of `mirror`, for which `basis` returns the plan, and
    `thread` writes it. `on_synced` is called with whether the feed is in sync when that changes, `on_leave` before what
    was read is dropped, because the fleet has left the datastore. `trouble` gets a problem in words, or None.
    `more_writers` write beside the publisher. `give_way` is that of Feed. `connect` makes a client, and raises
    DatastoreSettingsError. `listings` and `resumptions` count how often the datastore was followed anew.
    """

    def __init__(
        self,
        path: str,
        copy: str,
        mirror: Mirror,
        publisher: Publisher,
        heartbeats: Heartbeats,
        thread: Worker,
        *,
        more_writers: t.Sequence[DatastoreWriter] = (),
        on_synced: t.Callable[[bool], None] = lambda synced: None,
        on_leave: t.Callable[[], None] = lambda: None,
        basis: t.Callable[[], str] = lambda: "",
        trouble: t.Callable[[t.Optional[str]], None] = lambda problem: None,
        give_way: t.Callable[[], t.Awaitable[None]] = functools.partial(asyncio.sleep, 0),
        connect: t.Callable[[DatastoreSettings], EtcdClient] = lambda given: given.client(),
        clock: t.Callable[[], float] = time.time,
    ) -> None:
        self.mirror = mirror
        self.settings: t.Optional[DatastoreSettings] = None
        self._path = path
        self._copy = copy
        self._publisher = publisher
        self._heartbeats = heartbeats
        self._more_writers = more_writers
        self._thread = thread
        self._on_synced = on_synced
        self._on_leave = on_leave
        self._basis = basis
        self._trouble = trouble
        self._give_way = give_way
        self._connect = connect
        self._clock = clock
        self._altered = asyncio.Event()  # since the last copy
        self._refused = ""  # why the file of settings cannot be used
        self._unusable = ""  # why the files that it names cannot be
        self.feed_status = FeedStatus()
        self.listings = self.resumptions = 0
        self._began = 0.0  # when it was connected first
        #: The first line of the copy on the disk, None without one.
        self.copied: t.Optional[SnapshotHeader] = None
        self._copy_problem = ""

    # ---- start, and what runs until the end

    async def start(self) -> None:
        """Read the settings and the copy on the disk. Raise nothing.

        A copy without settings is of a fleet that left the datastore while no agent ran: `run` takes leave of it.
        """
        self._load()
        await self._restore()

    async def run(self) -> None:
        """Publish and read until cancelled. Never return."""
        copying = asyncio.ensure_future(self._copies())
        try:
            while True:
                file = _mark(self._path)
                self._load()
                used = asyncio.ensure_future(self._use(self.settings))
                try:
                    while _mark(self._path) == file and not used.done():
                        self._trouble(self.problem() or None)
                        await asyncio.wait({used}, timeout=_LOOK_SECONDS)
                finally:
                    await _ended(used)
                await asyncio.sleep(_PAUSE)
        finally:
            await _ended(copying)
            await self.copy()

    async def _use(self, given: t.Optional[DatastoreSettings]) -> None:
        """Run feed, publisher and heartbeats with these settings until cancelled, or one of them fails."""
        if given is None:
            if not self._refused:
                self._forget()
            await asyncio.Event().wait()
            return
        try:
            reading, writing = self._connect(given), self._connect(given)
        except DatastoreSettingsError as error:
            self._unusable = str(error)
            await asyncio.sleep(_LOOK_SECONDS)
            return
        self._unusable = ""
        self._began = self._began or self._clock()
        feed = Feed(
            reading,
            keys.WATCHED,
            self.mirror,
            progress=given.progress_seconds,
            on_status=self._followed,
            on_read=self._read,
            give_way=self._give_way,
            clock=self._clock,
        )
        parts = [
            asyncio.ensure_future(part)
            for part in (feed.run(), self._publisher.run(writing), self._heartbeats.run(writing))
        ]
        parts += [asyncio.ensure_future(writer.run(writing)) for writer in self._more_writers]
        try:
            done, _pending = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                # A fault of this program must not end the agent, on which the workloads of the node depend.
                _log.error("The connection to the datastore failed, and is made anew.", exc_info=part.exception())
        finally:
            await _ended(*parts)
            heard = feed.status.heard
            self._followed(FeedStatus(since=self._clock(), heard=heard, problem="the connection is made anew"))
            await _closed(reading, writing)

    def _forget(self) -> None:
        """Drop what was read: the fleet has left the datastore."""
        if self.mirror.position is None:
            return
        self._on_leave()
        self.mirror.forget()
        self.copied = None
        with contextlib.suppress(OSError):
            os.unlink(self._copy)

    def _load(self) -> None:
        self._refused = ""
        try:
            self.settings = settings.load(self._path)
        except DatastoreSettingsError as error:
            self.settings, self._refused = None, str(error)

    def _read(self, changes: t.Sequence[KeyChange]) -> None:
        """Write a copy soon, and show the publisher the changes: others may have altered its keys."""
        self._altered.set()
        self._publisher.saw(changes)

    def _followed(self, status: FeedStatus) -> None:
        before = self.feed_status
        changed = status.synced != before.synced
        self.listings += max(0, status.listings - before.listings)  # each connection counts its own
        self.resumptions += max(0, status.resumptions - before.resumptions)
        self.feed_status = status
        if changed:
            self._altered.set()
            self._on_synced(status.synced)
            self._trouble(self.problem() or None)

    # ---- the copy on the disk

    async def _restore(self) -> None:
        try:
            for header in snapshot.read(self._copy, self.mirror):
                self.copied = header
                await asyncio.sleep(0)
        except snapshot.SnapshotUnusable:
            pass  # The feed lists the datastore, and another copy is written.

    async def _copies(self) -> None:
        """Write the mirror to the disk after its changes. Never return."""
        loop = asyncio.get_running_loop()
        while True:
            await self._altered.wait()
            await asyncio.sleep(_COPY_SOON)
            self._altered.clear()
            began = loop.time()
            await self.copy()
            await asyncio.sleep((loop.time() - began) / _COPY_SHARE)

    async def copy(self) -> None:
        """Write the mirror to the disk if it has changed since the last time. A failure is noted."""
        position, basis, known = self.mirror.position, self._basis(), self.copied
        if position is None:
            return
        if known is not None and (known.position.changed, known.plan) == (position.changed, basis):
            return
        header = SnapshotHeader(position, self.mirror.count, self._clock(), basis)
        frozen = self.mirror.frozen()
        try:
            await self._thread(lambda: snapshot.write(self._copy, snapshot.parts(frozen, header.written, basis)))
        except Exception as error:  # noqa: BLE001  no fault here may end the agent
            reason = error.strerror if isinstance(error, OSError) else repr(error)
            self._copy_problem = (
                f"What is read from the datastore is not on the disk: {self._copy} cannot be written:"
                f" {reason}. Make room or correct the file system; it is tried again."
            )
            self._altered.set()
            return
        self.copied, self._copy_problem = header, ""

    # ---- what people ask

    @property
    def is_used(self) -> bool:
        """Whether the fleet has a datastore, or had one whose content this node still uses."""
        return self.settings is not None or bool(self._refused)

    @property
    def synced(self) -> bool:
        """Whether all changes of other nodes arrive as they happen."""
        return self.feed_status.synced

    @property
    def waiting(self) -> t.Optional[int]:
        """The number of keys that this node has still to publish, None if that is not known."""
        return self._publisher.waiting

    @property
    def known_until(self) -> float:
        """The time.time() until which all changes are known, 0.0 if nothing is known."""
        if self.feed_status.heard:
            return self.feed_status.heard
        return self.copied.written if self.copied is not None else 0.0

    def problem(self) -> str:
        """Return what is wrong with the datastore, in words with the remedy, "" if nothing is."""
        if self._refused or self.settings is None:
            return self._refused
        if self._unusable:
            return self._unusable
        status, now = self.feed_status, self._clock()
        if not status.synced and now - (status.since or self._began) > _PATIENCE:
            known = f"as it was at {utc(self.known_until)}" if self.known_until else "not known yet"
            return (
                f"The datastore is not followed: {status.problem or 'no member has answered yet'}. What other nodes"
                f" have is {known}, and stays in force. See that etcd runs (playbooks/etcd_status.yml)."
            )
        if self._publisher.problem:
            return f"This node's workloads cannot be published: {self._publisher.problem}."
        return self._copy_problem

    def to_dict(self, with_documents: bool = True) -> dict[str, t.Any]:
        """Return the state of the datastore for the API method `status`, JSON-ready; {} in a fleet without one.

        Times are UTC as text, "" for never. `waiting` counts the keys still to be published, null if unknown. `refused`
        lists at most 16 keys, each with the reason, and live documents only `with_documents`.
        """
        if not self.is_used:
            return {}
        status, position = self.feed_status, self.mirror.position
        return {
            "endpoints": list(self.settings.endpoints) if self.settings is not None else [],
            "member": status.member,
            "synced": status.synced,
            "since": utc(status.since) if status.since else "",
            "known_until": utc(self.known_until) if self.known_until else "",
            "revision": position.revision if position is not None else 0,
            "cluster": f"{position.cluster:x}" if position is not None else "",
            "nodes": len(self.mirror.nodes),
            "workloads": len(self.mirror.endpoints),
            "waiting": self.waiting,
            "published": utc(self._publisher.published) if self._publisher.published else "",
            "listings": self.listings,
            "resumptions": self.resumptions,
            "problem": self.problem(),
            "refused": [{"key": key, "reason": reason} for key, reason in self.mirror.refused(NAMED, with_documents)],
        }


def _mark(path: str) -> t.Optional[tuple[int, int, int]]:
    """Return what shows that a file was replaced or written, None if it cannot be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


async def _ended(*tasks: asyncio.Future[t.Any]) -> None:
    """Cancel tasks and wait for their ends. Errors of theirs are not raised."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


async def _closed(*clients: EtcdClient) -> None:
    for client in clients:
        await client.close()
