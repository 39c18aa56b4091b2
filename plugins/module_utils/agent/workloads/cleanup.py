# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a workload after its delete was answered: its link, and whatever the disk would not take.

Unregistering a link takes the kernel 25 ms, for one as for fifty. So the delete itself takes the route away and frees
the address, and this clears up behind it, in batches. A workload whose add failed is cleared up in the same way.
The record of each stays on file until nothing is left of it, so a killed agent goes on with it after its start.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import typing as t

from ...dataplane import attach
from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel, KernelError
from ...node.ipam.local_ipam import IpamNotWritten
from ...state.attachment import AttachedWorkload
from ...state.node_state import VethEndpoint
from ..reconcile.driver_thread import Worker
from . import failpoints

_log = logging.getLogger("calico.deletion")

BATCH = 64
#: Seconds for which deletions are gathered, unless somebody waits for one.
GATHER = 0.05
#: Seconds between two attempts at what could not be done.
RETRY = 1.0


@dataclasses.dataclass
class Leaving:
    """`released` says whether the disk knows that its address is free; `gone` is done when nothing is left."""

    workload: AttachedWorkload
    endpoint: VethEndpoint
    released: bool = False
    linked: bool = True
    problem: str = ""
    gone: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


class Cleanup:
    """Clears up behind deletes and failed adds. `release` frees an address on the disk, by the workload's id; `forget`
    removes the record."""

    def __init__(
        self,
        kernel: Kernel,
        thread: Worker,
        release: t.Callable[[str], t.Awaitable[None]],
        forget: t.Callable[[str], None],
    ) -> None:
        self._kernel = kernel
        self._thread = thread
        self._release = release
        self._forget = forget
        self._leaving: dict[str, Leaving] = {}
        self._asked = asyncio.Event()
        self._urgent = asyncio.Event()

    def add(self, left: AttachedWorkload, endpoint: VethEndpoint, *, released: bool = False) -> None:
        self._leaving[left.id] = Leaving(left, endpoint, released)
        self._asked.set()

    def get(self, id: str) -> t.Optional[Leaving]:
        return self._leaving.get(id)

    def __len__(self) -> int:
        return len(self._leaving)

    def subjects(self) -> set[str]:
        """Host ends that are still to go, and the workloads, <namespace>/<name>, whose namespaces may be."""
        endpoints = [leaving.endpoint for leaving in self._leaving.values()]
        return {found.interface for found in endpoints} | {workload.identity(found) for found in endpoints}

    @property
    def problems(self) -> list[str]:
        return [leaving.problem for leaving in self._leaving.values() if leaving.problem]

    async def finished(self, interface: str, patience: float) -> bool:
        """Whether nothing is left of the one that had this host end, after at most `patience` seconds."""
        return await self._gone(lambda leaving: leaving.endpoint.interface == interface, patience)

    async def forgotten(self, address: str, patience: float) -> bool:
        """Whether no connection is tracked any more of one that had this address: with them the next to have it would
        inherit what was open. After at most `patience` seconds."""
        return await self._gone(lambda leaving: address in leaving.endpoint.addresses, patience)

    async def _gone(self, meant: t.Callable[[Leaving], bool], patience: float) -> bool:
        for leaving in list(self._leaving.values()):
            if meant(leaving):
                self._asked.set()
                self._urgent.set()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(leaving.gone.wait(), patience)
                return leaving.gone.is_set()
        return True

    async def run(self) -> None:
        """For ever."""
        while True:
            # What failed is tried again after a while, what is new soon.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), RETRY if self._leaving else None)
            # Links that go hold up everybody who changes one: better many at once than often.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), GATHER)
            self._asked.clear()
            self._urgent.clear()
            await self.step()

    async def step(self) -> None:
        """Tries once at everything that is left."""
        tried: set[str] = set()
        while True:
            batch = [leaving for id, leaving in self._leaving.items() if id not in tried][:BATCH]
            if not batch:
                return
            tried.update(leaving.workload.id for leaving in batch)
            await self._unlink([leaving for leaving in batch if leaving.linked])
            for leaving in batch:
                await self._finish(leaving)

    async def _unlink(self, batch: t.Sequence[Leaving]) -> None:
        if not batch:
            return
        failed = await self._thread(lambda: _unlink(self._kernel, [leaving.endpoint for leaving in batch]))
        failpoints.point("delete.unlinked")
        for leaving in batch:
            leaving.problem = failed.get(leaving.endpoint.interface, "")
            leaving.linked = bool(leaving.problem)
            if leaving.problem:
                _log.warning("%s", leaving.problem)

    async def _finish(self, leaving: Leaving) -> None:
        if not leaving.released:
            try:
                await self._release(leaving.workload.id)
                leaving.released = True
            except IpamNotWritten as error:
                leaving.problem = str(error)
        if leaving.linked or not leaving.released:
            return
        id = leaving.workload.id
        try:
            self._forget(id)
        except OSError as error:
            leaving.problem = f"The record of workload {id} cannot be removed: {error}. It is tried again."
            return
        if self._leaving.get(id) is leaving:
            del self._leaving[id]
        leaving.gone.set()
        failpoints.point("delete.forgotten")


def _unlink(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> dict[str, str]:
    """Blocks. {host end: why it is still there}"""
    failed = attach.detach_links(kernel, endpoints)
    gone = [address for endpoint in endpoints if endpoint.interface not in failed for address in endpoint.addresses]
    if gone:
        try:
            kernel.conntrack_flush(gone)
        except KernelError as error:
            _log.warning("Connections of workloads that were deleted may still be tracked: %s", error)
    return {
        endpoint.interface: f"{endpoint.interface}, the host end of {endpoint.namespace}/{endpoint.name}, which was"
        f" deleted, is still there: {failed[endpoint.interface]}. It is not reachable, and it is tried again every"
        f" {RETRY:g} seconds."
        for endpoint in endpoints
        if endpoint.interface in failed
    }
