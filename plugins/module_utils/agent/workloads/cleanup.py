# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cleanup after deletes and failed adds: links to remove, and releases that the disk refused so far.

Unregistering a link takes the kernel 25 ms, for one link as for fifty. So a delete itself only removes the route and
frees the address. The cleanup then removes the links in batches. A failed add is cleaned up in the same way. The record
of each workload stays on file until nothing is left of it, so an agent that was killed continues after its next start.
Only a new workload of the same id may replace it earlier, when at most tracked connections are left.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import typing as t

from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel, KernelError
from ...dataplane.planning import attach
from ...node.ipam.local_ipam import IpamNotWritten
from ...state.attachment import AttachedWorkload
from ...state.node_state import VethEndpoint
from ..concurrency.driver_thread import Worker
from ..log.transactions import transaction
from . import failpoints

_log = logging.getLogger("calico.deletion")

#: The most links that are removed at once.
BATCH = 64
#: Seconds for which removals are gathered into a batch. An add or a delete that waits for a removal shortens it.
GATHER = 0.05
#: Seconds until a removal that failed is tried again, or less if another one is queued or waited for.
RETRY = 1.0


@dataclasses.dataclass
class WorkloadRemoval:
    """A workload that is being removed, and what is left of it.

    `released` is true if its addresses are free on the disk, `linked` while its link may still exist, and `tracked`
    while the kernel may still track its connections. `problem` says why it could not be removed at the last attempt, ""
    if nothing failed. `removed` is set when nothing is left but perhaps tracked connections and then the record,
    `gone` when nothing is left. `instead_of` are superseded removals with the same addresses, which end with this one.
    """

    workload: AttachedWorkload
    endpoint: VethEndpoint
    released: bool = False
    linked: bool = True
    tracked: bool = True
    problem: str = ""
    removed: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    gone: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    instead_of: list[WorkloadRemoval] = dataclasses.field(default_factory=list)


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
        self._leaving: dict[str, WorkloadRemoval] = {}
        #: {addresses of a removed workload: its removal} if a new workload has taken its id. Only its connections may
        #: still be tracked, so one removal stands for all with these addresses.
        self._superseded: dict[tuple[str, ...], WorkloadRemoval] = {}
        self._asked = asyncio.Event()
        self._urgent = asyncio.Event()

    def add(self, left: AttachedWorkload, endpoint: VethEndpoint, *, released: bool = False) -> None:
        """Queue a workload for removal and return at once. `released`: its addresses are free on the disk already."""
        self._leaving[left.id] = WorkloadRemoval(left, endpoint, released)
        self._asked.set()

    def get(self, id: str) -> t.Optional[WorkloadRemoval]:
        """Return the removal of the workload `id`, or None if there is none or it is superseded."""
        return self._leaving.get(id)

    def supersede(self, id: str) -> None:
        """Leave the record of the workload `id` to a new one with this id, if the former workload is `finished`.

        The deletion of its tracked connections is still retried, and its addresses are not `forgotten` before.
        """
        leaving = self._leaving.get(id)
        if leaving is not None and leaving.removed.is_set():
            del self._leaving[id]
            kept = self._superseded.setdefault(tuple(leaving.endpoint.addresses), leaving)
            if kept is not leaving:
                kept.instead_of.append(leaving)

    def __len__(self) -> int:
        return len(self._leaving) + len(self._superseded)

    def subjects(self) -> set[str]:
        """Return the host ends and names, <namespace>/<name>, of workloads being removed, without superseded ones."""
        endpoints = [leaving.endpoint for leaving in self._leaving.values()]
        return {found.interface for found in endpoints} | {workload.identity(found) for found in endpoints}

    @property
    def problems(self) -> list[str]:
        """Why removals failed at their last attempt, a text for each; [] if none failed."""
        return [leaving.problem for leaving in self._all() if leaving.problem]

    @property
    def stuck(self) -> set[str]:
        """The addresses of removals that failed at their last attempt: a wait for one of them may be in vain."""
        return {address for leaving in self._all() if leaving.problem for address in leaving.endpoint.addresses}

    def _all(self) -> list[WorkloadRemoval]:
        return [*self._leaving.values(), *self._superseded.values()]

    async def finished(self, workload: AttachedWorkload, patience: float) -> bool:
        """Wait at most `patience` seconds for the removal of workloads that share a device; return whether it is done.

        They have the host end of `workload`, or its device in the same namespace. Of them, only tracked connections may
        be left, and then the record too. The next step is not delayed to gather others.
        """
        found = [one.removed for one in self._leaving.values() if _share_a_device(one.workload, workload)]
        return await self._set(found, patience)

    async def forgotten(self, address: str, patience: float) -> bool:
        """Wait at most `patience` seconds until nothing is left of workloads that had this address; return whether so.

        Tracked connections count as left: the next workload with the address would inherit them. The next step is not
        delayed to gather others.
        """
        return await self._set([one.gone for one in self._all() if address in one.endpoint.addresses], patience)

    async def _set(self, events: t.Sequence[asyncio.Event], patience: float) -> bool:
        """Wait at most `patience` seconds for all `events`, hurrying the next step; return whether all are set."""
        unset = [event for event in events if not event.is_set()]
        if not unset:
            return True
        self._asked.set()
        self._urgent.set()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(event.wait() for event in unset)), patience)
        return all(event.is_set() for event in unset)

    async def run(self) -> None:
        """Remove queued workloads until cancelled, and retry failed ones every second, or with the next one."""
        while True:
            # Wait until a workload is queued or waited for, at most RETRY seconds if removals have failed.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), RETRY if len(self) else None)
            # While the kernel removes links, it changes no others. So links are removed many at once and seldom.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), GATHER)
            self._asked.clear()
            self._urgent.clear()
            await self.step()

    async def step(self) -> None:
        """Try once to remove every workload in the queue, also newer ones, in batches. Failures become `problems`."""
        tried: set[int] = set()
        while True:
            batch = [leaving for leaving in self._all() if id(leaving) not in tried][:BATCH]
            if not batch:
                return
            tried.update(id(leaving) for leaving in batch)
            await self._unlink([leaving for leaving in batch if leaving.linked or leaving.tracked])
            for leaving in batch:
                await self._finish(leaving)

    async def _unlink(self, batch: t.Sequence[WorkloadRemoval]) -> None:
        """Remove the links and tracked connections of a batch in the thread, and note the result in each removal."""
        if not batch:
            return
        linked = [leaving.endpoint for leaving in batch if leaving.linked]
        others = [leaving.endpoint for leaving in batch if not leaving.linked]
        async with transaction("remove", more=(leaving.workload.id for leaving in batch)) as lines:
            linking, refusal = await self._thread(lambda: _unlink(self._kernel, linked, others))
            lines.ends("%d links stay", len(linking))
        failpoints.point("delete.unlinked")
        for leaving in batch:
            endpoint = leaving.endpoint
            # A superseded workload, whose link is gone, may share the host end with one whose link is still there.
            leaving.problem = linking.get(endpoint.interface, "") if leaving.linked else ""
            leaving.linked = bool(leaving.problem)
            leaving.tracked = leaving.linked or refusal is not None
            if refusal is not None and not leaving.linked:
                leaving.problem = _still_tracked(endpoint, refusal)
            if leaving.problem:
                _log.warning("%s", leaving.problem)

    async def _finish(self, leaving: WorkloadRemoval) -> None:
        """Release the addresses, if that is still to do; remove the record once link and connections are gone too.

        `removed` is set as soon as only connections and the record are left, `gone` at the end. What the disk refuses
        becomes the workload's problem and is retried by the next `step`. The record of a superseded workload is not
        touched.
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
        if leaving.tracked:
            leaving.removed.set()
            return
        if self._leaving.get(id) is leaving:
            try:
                self._forget(id)
            except OSError as error:
                leaving.problem = f"The record of workload {id} cannot be removed: {error}. It is tried again."
                return
            del self._leaving[id]
        elif self._superseded.get(tuple(leaving.endpoint.addresses)) is leaving:
            del self._superseded[tuple(leaving.endpoint.addresses)]
        leaving.removed.set()
        for one in (leaving, *leaving.instead_of):
            one.gone.set()
        failpoints.point("delete.forgotten")


def _share_a_device(one: AttachedWorkload, other: AttachedWorkload) -> bool:
    inside = bool(one.netns) and (one.netns, one.peer_interface) == (other.netns, other.peer_interface)
    return inside or one.interface == other.interface


def _unlink(
    kernel: Kernel, linked: t.Sequence[VethEndpoint], others: t.Sequence[VethEndpoint]
) -> tuple[dict[str, str], t.Optional[KernelError]]:
    """Remove the links of the endpoints `linked`, then the connections that the kernel tracks for them and `others`.

    It blocks. Return ({host end: why the link, or the namespace made for it, is still there}, the error with which the
    kernel refused to remove connections, or None). Connections of a workload that keeps its link are not removed.
    """
    failed = attach.detach_links(kernel, linked)
    unlinked = [*(endpoint for endpoint in linked if endpoint.interface not in failed), *others]
    refusal: t.Optional[KernelError] = None
    if unlinked:
        try:
            kernel.conntrack_flush([address for endpoint in unlinked for address in endpoint.addresses])
        except KernelError as error:
            refusal = error
    linking = {
        endpoint.interface: f"{endpoint.namespace}/{endpoint.name} with the host end {endpoint.interface}, which was"
        f" deleted, is not removed completely: {failed[endpoint.interface]}. It is not reachable, and it is tried again"
        f" every {RETRY:g} seconds."
        for endpoint in linked
        if endpoint.interface in failed
    }
    return linking, refusal


def _still_tracked(endpoint: VethEndpoint, error: KernelError) -> str:
    """Return a text about connections that the kernel did not delete, with the remedy."""
    addresses = " or ".join(endpoint.addresses)
    ends = (f"conntrack -D {end} {address}" for address in endpoint.addresses for end in ("-s", "-d"))
    return (
        f"Connections of {endpoint.namespace}/{endpoint.name}, which was deleted, may still be tracked, because the"
        f" kernel refused: {error}. The next workload with {addresses} would inherit them, so none gets it until they"
        f" are gone. That is tried again every {RETRY:g} seconds. If it stays, delete them ({'; '.join(ends)}) and look"
        " at dmesg."
    )
