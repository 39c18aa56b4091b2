# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cleanup after deletes and failed adds: links to remove, and releases that the disk refused so far.

Unregistering a link takes the kernel 25 ms, for one link as for fifty. So a delete itself only removes the route and
frees the address. The cleanup then removes the links in batches. A failed add is cleaned up in the same way. The record
of each workload stays on file until nothing is left of it, so an agent that was killed continues after its next start.
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

#: The most links that are removed at once.
BATCH = 64
#: Seconds for which deletions are gathered, unless an add waits for one.
GATHER = 0.05
#: Seconds between two attempts at a removal that failed.
RETRY = 1.0


@dataclasses.dataclass
class Leaving:
    """A workload that is being removed, and what is left of it.

    `released` is true if its addresses are free on the disk, `linked` while its link may still exist. `problem` says
    why it could not be removed at the last attempt, "" if nothing failed. `gone` is set when nothing is left.
    """

    workload: AttachedWorkload
    endpoint: VethEndpoint
    released: bool = False
    linked: bool = True
    problem: str = ""
    gone: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


class Cleanup:
    """The remover of what deletes and failed adds leave behind. It belongs to the event loop.

    `kernel` is used in `thread` only. `release(id)` frees a workload's addresses on the disk, or raises IpamNotWritten;
    `forget(id)` removes its record, or raises OSError.
    """

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
        """Queue a workload for removal and return at once. `released`: its addresses are free on the disk already."""
        self._leaving[left.id] = Leaving(left, endpoint, released)
        self._asked.set()

    def get(self, id: str) -> t.Optional[Leaving]:
        """Return the removal of the workload `id`, or None if it is not being removed."""
        return self._leaving.get(id)

    def __len__(self) -> int:
        return len(self._leaving)

    def subjects(self) -> set[str]:
        """Return the host ends and the names, <namespace>/<name>, of all workloads that are being removed."""
        endpoints = [leaving.endpoint for leaving in self._leaving.values()]
        return {found.interface for found in endpoints} | {workload.identity(found) for found in endpoints}

    @property
    def problems(self) -> list[str]:
        """Why removals failed at their last attempt, a sentence for each; [] if none failed."""
        return [leaving.problem for leaving in self._leaving.values() if leaving.problem]

    async def finished(self, interface: str, patience: float) -> bool:
        """Wait at most `patience` seconds until nothing is left of the workload with the host end `interface`.

        Return whether nothing is left; at once true if no such workload is being removed. The removal starts without
        delay.
        """
        return await self._gone(lambda leaving: leaving.endpoint.interface == interface, patience)

    async def forgotten(self, address: str, patience: float) -> bool:
        """Wait at most `patience` seconds until nothing is left of the workload that had this address.

        Return whether nothing is left; at once true if no such workload is being removed. The removal starts without
        delay. Its tracked connections are removed too, because the next workload with the address would inherit them;
        if the kernel refuses that, it is only logged.
        """
        return await self._gone(lambda leaving: address in leaving.endpoint.addresses, patience)

    async def _gone(self, meant: t.Callable[[Leaving], bool], patience: float) -> bool:
        """Wait at most `patience` seconds until the first workload for which `meant` is true is removed.

        Return whether it is; at once true if there is none.
        """
        for leaving in list(self._leaving.values()):
            if meant(leaving):
                self._asked.set()
                self._urgent.set()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(leaving.gone.wait(), patience)
                return leaving.gone.is_set()
        return True

    async def run(self) -> None:
        """Remove queued workloads until cancelled; retry failed ones every second."""
        while True:
            # Retry failures after a while, and take new workloads at once.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), RETRY if self._leaving else None)
            # Removing links blocks every other change of links: better many at once than often.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), GATHER)
            self._asked.clear()
            self._urgent.clear()
            await self.step()

    async def step(self) -> None:
        """Try once to remove every workload in the queue, in batches of 64. Failures are kept as `problems`."""
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
        """Remove the links of a batch in the thread, and note the result in each Leaving."""
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
        """Release the addresses, if that is still to do, and remove the record once the link is gone too.

        Then `gone` is set. What the disk refuses becomes the workload's problem and is retried by the next `step`.
        """
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
    """Remove the links of `endpoints` and their tracked connections. It blocks.

    Return a mapping from host end to a sentence that says why it is still there; {} if all are gone. Connections that
    cannot be removed are logged only.
    """
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
