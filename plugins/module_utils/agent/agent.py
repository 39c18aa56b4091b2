# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent: what a node's workloads are, and what the node shall be, from one event loop.

    inventory ─► state.json ─┐
    add, delete ─► records ──┼─► desired ─► reconciler ─► kernel        (agent/reconcile.py)
                 ─► journal ─┘       add, delete ───────► kernel        (dataplane/attach.py, the short way)

An add and a delete have one commit point each, the renaming of the workload's record:

    add     address (memory) ─► record begun ─► link, while the journal goes to the disk ─► route ─► COMMIT ─► answer
    delete  COMMIT ─► route gone, while the release goes to the disk ─► answer ─► link (deletion.py) ─► record forgotten

Whatever is begun and not committed when the agent is killed is cleared away by its next start. So an add that was never
answered left nothing, and a delete that was begun is done. Nobody reaches an address that is not on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import time
import typing as t

from .. import selectors
from ..dataplane import attach, route
from ..dataplane import workload as workload_driver
from ..dataplane.attach import Attached, AttachError
from ..dataplane.change import ApplyError, Change, ObserveError
from ..dataplane.kernel import Kernel, KernelError, MissingLibrary
from ..dataplane.node import NodePlan, plan_node
from ..fleet.attachment import Workload, endpoint, pool_of, with_workloads
from ..fleet.node_state import NodeState, Route, WorkloadEndpoint
from ..ipam.allocations import AllocationError
from ..node.endpoints import Endpoints
from ..node.local_ipam import IpamNotWritten, IpamUnreadable, LocalIpam
from ..node.machine import Machine
from ..node.store import Store, StoreError, now
from . import faults, protocol, repair
from .commit import GroupCommit
from .deletion import Deletion
from .drift import Drift
from .driver_thread import DriverThread, Worker
from .instruments import Instruments
from .metrics import Registry
from .one_at_a_time import OneAtATime
from .protocol import AgentError
from .reconcile import Outcome, Reconciler
from .request import AddRequest
from .settings import Settings
from .turn import Turn

_log = logging.getLogger("calico.agent")

#: Seconds that an add waits for what is left of its predecessor, and a failed one for being cleared away.
_PATIENCE = 10.0
#: Seconds within which the reconciler comes through if nothing keeps it.
_ALIVE = 60.0
#: Seconds between two looks for addresses that nobody uses.
_LEAK_CHECK = 60.0
#: Events that a watcher may be behind before it is told to look at everything anew.
_BACKLOG = 1000

Event = dict[str, t.Any]
_T = t.TypeVar("_T")


class Kernels(t.Protocol):
    """A kernel for one thread."""

    def __call__(self) -> Kernel: ...


class Agent:
    """Made and used on one running event loop. `run` holds what has to run beside it; `start` first."""

    def __init__(
        self,
        machine: Machine,
        settings: Settings,
        kernels: Kernels,
        *,
        ipam: t.Optional[LocalIpam] = None,
        thread: t.Callable[[str], Worker] = DriverThread,
        clock: t.Callable[[], float] = time.monotonic,
        on_tick: t.Callable[[], None] = lambda: None,
        instruments: t.Optional[Instruments] = None,
    ) -> None:
        self.machine = machine
        self.settings = settings
        self.since = now()
        self._clock = clock
        self._started = clock()
        self._kernels = kernels
        self._store = Store(machine.store)
        self._ipam = ipam or LocalIpam(machine.ipam, cooldown=settings.cooldown)
        self._records = Endpoints(machine.workloads)
        self._state: t.Optional[NodeState] = None
        self._complete = False
        self._known_opened: tuple[str, ...] = ()
        self._workloads: dict[str, Workload] = {}
        self._interfaces: dict[str, str] = {}  # host end: whose it is, in words
        self._desired: t.Optional[NodeState] = None  # made anew when it is asked for after a change
        self._turn = Turn()
        self._alone = OneAtATime()
        self._handing_over = asyncio.Lock()
        self._removing = False  # the node module says that all of the desired state is known
        self._unused: dict[str, float] = {}  # handle of an address without a workload: when that was noticed
        self._watchers: set[asyncio.Queue[Event]] = set()
        #: What is wrong and does not go away by itself, by what it concerns.
        self.broken: dict[str, str] = {}
        self.drift = Drift(clock)
        self.instruments = instruments or Instruments(Registry())
        self._on_tick = on_tick
        self.ticked = clock()  # when the reconciler last came through, by `clock`
        self.last_resync = ""
        self._last: t.Optional[Outcome] = None

        self._plumbing = kernels()
        self._plumbing_thread = thread("plumbing")
        self._disk_thread = thread("disk")
        self._commit = GroupCommit(self._ipam.prepare, self._disk_thread)
        self._deletion_kernel = kernels()
        self._deletion = Deletion(self._deletion_kernel, thread("deletion"), self._release, self._records.forget)
        self.reconciler = Reconciler(
            kernels(),
            self.desired,
            self._turn,
            removals=self.may_remove,
            on_change=self._changed,
            on_tick=self._ticked,
            on_step=self._stepped,
            run=thread("drivers"),
            interval=settings.resync_interval,
            excluded=self._deletion.interfaces,
        )

    # ---- start and stop

    async def start(self) -> None:
        """Reads what is on file, and completes what was under way when the last agent ended. Fails for nothing: what
        cannot be used is in `broken`, and what depends on it refuses in words."""
        self._load_state()
        self._load_ipam()
        workloads, problems = self._records.load()
        self._workloads = {workload.id: workload for workload in workloads}
        self._interfaces.update({workload.interface: f"workload {workload.id}" for workload in workloads})
        unfinished, more = self._records.unfinished()
        for workload in unfinished:
            self._leave(workload)
        await self._deletion.step()
        if problems or more:
            self.broken["records"] = " ".join([*problems, *more])
        self.reconciler.mark()

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """What has to run for as long as the agent does, by name; it ends with the first that ends."""
        return {
            "reconciler": self.reconciler.run(),
            "deletion": self._deletion.run(),
            "unused addresses": self._free_what_leaks(),
            "time of grace": self._end_of_grace(),
        }

    async def stop(self) -> None:
        """The data plane stays as it is."""
        for close in (self._plumbing.close, self._deletion_kernel.close):
            close()

    def reload(self) -> None:
        """Reads the desired state from the disk again, and tries again to read what could not be read."""
        self._load_state()
        if "ipam" in self.broken:
            self._load_ipam()
        self.reconciler.mark()

    def _load_state(self) -> None:
        try:
            stored = self._store.load()
        except StoreError as error:
            self.broken["state"] = str(error)
            return
        self.broken.pop("state", None)
        if stored is not None:
            self._take(stored.state, stored.complete)

    def _load_ipam(self) -> None:
        try:
            self._ipam.load()
        except IpamUnreadable as error:
            self.broken["ipam"] = str(error)
            return
        self.broken.pop("ipam", None)
        self._grant()

    def _take(self, state: NodeState, complete: bool) -> None:
        for found in self._state.workloads if self._state else ():
            self._interfaces.pop(found.interface, None)
        self._interfaces.update(
            {
                found.interface: f"the inventory's workload {workload_driver.identity(found)}"
                for found in state.workloads
            }
        )
        self._state, self._complete = state, complete
        self._desired = None
        self._grant()

    def _grant(self) -> None:
        if self._state is None or "ipam" in self.broken:
            return
        conflicts = self._ipam.grant(self._state)
        self.broken.pop("grant", None)
        if conflicts:
            self.broken["grant"] = " ".join(conflicts)

    # ---- the desired state

    def desired(self) -> t.Optional[NodeState]:
        """All that the node shall have now; None while that is not known, and nothing may be changed then."""
        if self._state is None or "state" in self.broken:
            return None
        if self._desired is None:
            self._desired = with_workloads(self._state, list(self._workloads.values()), self._opened())
        return self._desired

    def _opened(self) -> tuple[str, ...]:
        return () if "ipam" in self.broken else tuple(self._ipam.opened)

    def may_remove(self) -> bool:
        """Whether what is ours and not desired goes: all that is desired has to be known, and workloads of which no
        record tells may belong to somebody who comes back."""
        if not self._complete or self.broken.keys() & {"state", "ipam", "records"}:
            return False
        return self._removing or self._clock() - self._started >= self.settings.cleanup_grace

    async def _end_of_grace(self) -> None:
        await asyncio.sleep(self.settings.cleanup_grace)
        self.reconciler.mark()
        await asyncio.Event().wait()

    def _changed(self, change: Change, drift: bool) -> None:
        """The reconciler made a change; `drift` says that somebody else had made it necessary."""
        (_log.warning if drift else _log.info)("%s", repair.sentence(change, drift))
        self.instruments.changes.add(change.kind)
        if drift:
            self.drift.count(change.kind)
            self.instruments.drift.add(change.kind)
            self._tell({"event": "drift", "change": plain(change)})

    def _ticked(self) -> None:
        self.ticked = self._clock()
        self._on_tick()

    def _stepped(self, kinds: t.Collection[str], seconds: float) -> None:
        for kind in kinds:
            self.instruments.apply_seconds.observe(kind, value=seconds)

    # ---- add

    async def add(self, request: AddRequest) -> Workload:
        """Attaches a workload; `mac` and `mtu` of the answer are those of its link. Idempotent by id.

        Raises AgentError, and nothing of it is left then.
        """
        request = request.checked()
        async with self._alone(request.id):
            standing = self._workloads.get(request.id)
            if standing is not None:
                return await self._again(request, standing)
            self._ready()
            workload = self._claimed(request)
            try:
                await self._predecessor_gone(workload)
                async with self._turn.shared():
                    workload = self._assigned(workload, request)
                    attached = await self._make(workload)
            except BaseException:
                self._interfaces.pop(workload.interface, None)
                raise
        self._tell({"event": "added", "workload": workload.to_dict()})
        return _as_it_is(workload, attached)

    async def _again(self, request: AddRequest, standing: Workload) -> Workload:
        """The same answer, when it is the same request; what was broken meanwhile is repaired first."""
        difference = request.differs_from(standing)
        if difference:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {request.id} exists already, with {difference}. Delete it first, or choose another id.",
            )
        async with self._turn.shared():
            attached = await self._plumb(attach.attach, self._endpoint(standing))
        return _as_it_is(standing, attached)

    def _ready(self) -> NodeState:
        """The state, when workloads can be added."""
        for part in ("state", "ipam"):
            if part in self.broken:
                raise AgentError(protocol.UNAVAILABLE, f"no workload can be added to this node: {self.broken[part]}")
        if self._state is None:
            raise AgentError(
                protocol.UNAVAILABLE,
                f"no workload can be added to this node: it has no desired state yet ({self.machine.store}/state.json)."
                " Run site.yml for it, then try again.",
            )
        return self._state

    def _claimed(self, request: AddRequest) -> Workload:
        """The workload, whose device nobody else can have from now on."""
        workload = request.workload(now())
        other = self._interfaces.get(workload.interface)
        if other is not None:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {request.id} would have the device {workload.interface}, which belongs to {other}. A node"
                " has one workload of a namespace and name: choose another name.",
            )
        self._interfaces[workload.interface] = f"workload {workload.id}"
        return workload

    async def _predecessor_gone(self, workload: Workload) -> None:
        if not await self._deletion.finished(workload.interface, _PATIENCE):
            raise AgentError(
                protocol.TRY_AGAIN,
                f"workload {workload.id} was deleted, and its device {workload.interface} is still being removed."
                " Try again.",
            )

    def _assigned(self, workload: Workload, request: AddRequest) -> Workload:
        """With an address, in memory alone: it is for `_make` to have it written or to take it back."""
        attributes = {"namespace": request.namespace, "name": request.name}
        if request.network:
            attributes.update(network=request.network, container=request.container, interface=request.peer_interface)
        try:
            allocation = self._ipam.assign(request.id, attributes, address=request.address, pools=request.pools)
        except AllocationError as error:
            raise AgentError(error.code, str(error)) from error
        faults.point("add.assigned")
        return dataclasses.replace(workload, addresses=(allocation.address,), pool=allocation.pool)

    async def _make(self, workload: Workload) -> Attached:
        """The plumbing and the disk at the same time, and the route when both are done."""
        self._unused.pop(workload.id, None)
        try:
            with _not_written("record", self.machine.workloads):
                self._records.begin(workload)
            faults.point("add.begun")
            written = self._commit.written()
            endpoint = self._endpoint(workload)
            attached = await self._plumb(attach.attach_link, endpoint)
            faults.point("add.linked")
            with _not_written("address", self.machine.ipam):
                await written
            faults.point("add.written")
            await self._plumb(_attach_route, endpoint, self._newly_opened())
            faults.point("add.routed")
            with _not_written("record", self.machine.workloads):
                self._records.commit(workload.id)
            faults.point("add.committed")
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._undo(workload)))
            raise
        self._workloads[workload.id] = workload
        self._desired = None
        return attached

    async def _undo(self, workload: Workload) -> None:
        """Leaves nothing of an add; what cannot be done at once is tried again until it is."""
        with contextlib.suppress(AgentError):
            await self._plumb(attach.detach_route, self._endpoint(workload))
        self._leave(workload)
        await self._deletion.finished(workload.interface, _PATIENCE)

    def _newly_opened(self) -> tuple[str, ...]:
        """Spare blocks that were opened since the last add."""
        opened = self._opened()
        known, self._known_opened = self._known_opened, opened
        if opened == known:
            return ()
        self._desired = None
        self.reconciler.mark("route")
        return tuple(cidr for cidr in opened if cidr not in known)

    # ---- delete

    async def delete(self, id: str) -> bool:
        """False for a workload that there is not. After the return it cannot be reached and its address is free; its
        link goes soon after."""
        async with self._alone(id):
            workload = self._workloads.get(id)
            if workload is None:
                return await self._release_unused(id)
            async with self._turn.shared():
                await self._remove(workload)
        self._tell({"event": "deleted", "workload": workload.to_dict()})
        faults.point("delete.answered")
        return True

    async def _remove(self, workload: Workload) -> None:
        with contextlib.suppress(OSError):  # then it is deleted all the same, and only a crash would bring it back
            self._records.leave(workload.id)
        faults.point("delete.begun")
        del self._workloads[workload.id]
        self._interfaces.pop(workload.interface, None)
        self._desired = None
        released = asyncio.ensure_future(self._released(workload.id))
        routed = ""
        try:
            await self._plumb(attach.detach_route, self._endpoint(workload))
        except AgentError as error:
            routed = error.message  # it goes with its link
        faults.point("delete.unrouted")
        done = await released
        faults.point("delete.released")
        self._leave(workload, released=done)
        if routed:
            _log.warning("The route to %s could not be removed by itself: %s", workload.id, routed)
            await self._deletion.finished(workload.interface, _PATIENCE)

    async def _released(self, id: str) -> bool:
        try:
            await self._release(id)
        except IpamNotWritten as error:
            _log.warning("%s", error)
            return False
        return True

    async def _release_unused(self, id: str) -> bool:
        """Of a workload that did not come back after a reboot only the address is there."""
        if "ipam" in self.broken or self._ipam.by_handle(id) is None:
            return False
        if self._deletion.get(id) is None:
            with _not_written("release", self.machine.ipam):
                await self._release(id)
        return True

    async def _release(self, id: str) -> None:
        """Frees the address of a workload, in memory and on the disk. Raises IpamNotWritten."""
        if "ipam" in self.broken:
            raise IpamNotWritten(self.broken["ipam"])
        if self._ipam.release(id):
            await self._commit.written()

    def _leave(self, workload: Workload, *, released: bool = False) -> None:
        self._deletion.add(workload, self._endpoint(workload), released=released)

    # ---- look

    def get(self, id: str) -> t.Optional[Workload]:
        return self._workloads.get(id)

    def list(self, selector: t.Optional[str] = None) -> t.List[Workload]:
        """By id. Raises AgentError for a selector that cannot be read."""
        found = [self._workloads[id] for id in sorted(self._workloads)]
        if selector is None:
            return found
        try:
            selects = selectors.parse(selector)
        except selectors.SelectorError as error:
            raise AgentError(protocol.INVALID_PARAMS, f"workload.list: selector {selector!r}: {error}") from error
        return [workload for workload in found if selects.matches(workload.labels)]

    async def check(self, id: str) -> t.List[str]:
        """What is not as it should be with a workload, in words; nothing is changed. Raises AgentError not_found."""
        workload = self._workloads.get(id)
        if workload is None:
            raise not_found(id)
        problems = []
        allocation = None if "ipam" in self.broken else self._ipam.by_handle(id)
        if allocation is None or allocation.address not in workload.addresses:
            problems.append(f"its address {', '.join(workload.addresses)} is not allocated to it")
        state = self.desired()
        if state is None:
            return [*problems, "what this node shall have is not known"]
        own = self._endpoint(workload)
        alone = dataclasses.replace(
            state,
            workloads=(own,),
            routes=tuple(item for item in state.routes if item.device == own.interface),
            sysctls=tuple(item for item in state.sysctls if own.interface in item.key.split("/")),
        )
        kinds = ("workload", "sysctl", "route")
        async with self._turn.shared():
            planned = await self._plumb(plan_node, alone, kinds, (own.interface,))
        # What the drivers would remove is everybody else's.
        problems += [change.line().strip() for change in planned.additions]
        problems += [change.note for change in planned.kept if change.subject == workload_driver.identity(own)]
        return problems

    @property
    def in_sync(self) -> bool:
        return self.reconciler.in_sync

    # ---- the node's state

    async def plan(self, state: t.Optional[NodeState] = None) -> NodePlan:
        """What would change if `state`, by default the present one, were to be had, this node's workloads included."""
        if state is None:
            wanted = self.desired()
            if wanted is None:
                raise self._nothing_desired()
        else:
            wanted = with_workloads(state, list(self._workloads.values()), self._opened())
        try:
            return await self.reconciler.plan(wanted)
        except (ObserveError, KernelError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error

    async def node_apply(self, state: t.Optional[NodeState], removals: bool) -> Outcome:
        """Makes `state`, by default the one that is on the disk, the desired one, and the node have it.

        Without `removals` only what is to be added or changed; nothing is removed then until a call with `removals`, or
        until the state on the disk is complete. Raises AgentError.
        """
        async with self._handing_over:
            if state is not None:
                self.broken.pop("state", None)
                self._take(state, removals)
            else:
                self._load_state()
                if "state" in self.broken:
                    raise AgentError(protocol.UNAVAILABLE, self.broken["state"])
                self._complete = self._complete or removals
            return await self.resync(removals)

    async def resync(self, removals: bool = False) -> Outcome:
        """Looks at everything and repairs it. `removals`: also the leftovers whose time of grace is not over."""
        if self.desired() is None:
            raise self._nothing_desired()
        self._removing = removals
        try:
            outcome = await self.reconciler.resync()
        finally:
            self._removing = False
        self.last_resync = now()
        self._last = outcome
        return outcome

    def _nothing_desired(self) -> AgentError:
        words = self.broken.get("state") or (
            f"this node has no desired state yet ({self.machine.store}/state.json). Run site.yml for it."
        )
        return AgentError(protocol.UNAVAILABLE, words)

    # ---- addresses

    @property
    def ipam(self) -> LocalIpam:
        """Raises AgentError when its file cannot be read."""
        if "ipam" in self.broken:
            raise AgentError(protocol.UNAVAILABLE, self.broken["ipam"])
        return self._ipam

    @property
    def complete(self) -> bool:
        """False while a run of Ansible has begun to change the node and has not finished."""
        return self._complete

    @property
    def deleting(self) -> int:
        """Workloads that are gone for everybody, but whose links are not."""
        return len(self._deletion.all())

    @property
    def state(self) -> t.Optional[NodeState]:
        """The one that the node module handed over, without this node's own workloads."""
        return self._state

    def ipam_check(self) -> dict[str, t.Any]:
        """What `calicoctl ipam check` prints: the books against what is in use."""
        if self._state is None:
            raise self._nothing_desired()
        return self.ipam.check(self._state, self._workloads.values()).to_dict()

    async def release_address(self, address: str) -> None:
        """Frees an address that no workload uses. Raises AgentError not_found or conflict."""
        allocation = self.ipam.by_address(address)
        if allocation is None:
            raise AgentError(
                protocol.NOT_FOUND, f"address {address} is not allocated on this node. See `calicoctl ipam show`."
            )
        handle = allocation.handle
        if handle in self._workloads or handle in self._alone or self._deletion.get(handle) is not None:
            raise AgentError(
                protocol.CONFLICT,
                f"address {address} belongs to workload {handle}. Delete that (calicoctl workload del {handle}).",
            )
        with _not_written("release", self.machine.ipam):
            await self._release(handle)

    async def _free_what_leaks(self) -> None:
        """For ever: frees addresses whose workload has not been heard of for the time of grace."""
        while True:
            await self.free_unused()
            await asyncio.sleep(min(_LEAK_CHECK, max(self.settings.leak_grace, 1.0)))

    async def free_unused(self) -> None:
        if self.broken.keys() & {"ipam", "records"}:
            return
        time_ = self._clock()
        unused = {
            allocation.handle
            for allocation in self._ipam.allocations()
            if allocation.handle not in self._workloads
            and allocation.handle not in self._alone
            and self._deletion.get(allocation.handle) is None
        }
        self._unused = {handle: self._unused.get(handle, time_) for handle in unused}
        for handle, noticed in list(self._unused.items()):
            if time_ - noticed < self.settings.leak_grace:
                continue
            async with self._alone(handle):
                if handle in self._workloads or handle not in self._unused:
                    continue
                _log.warning(
                    "The address of %s is free again: no such workload for %g s.", handle, self.settings.leak_grace
                )
                if await self._released(handle):
                    self._unused.pop(handle, None)

    # ---- what is going on

    def status(self) -> dict[str, t.Any]:
        state = self._state
        return {
            "since": self.since,
            "pid": os.getpid(),
            "node": state.node if state else "",
            "plan": state.plan if state else "",
            "phase": state.phase if state else "",
            "complete": self._complete,
            "in_sync": self.in_sync and not self.broken,
            "problems": self.problems,
            "workloads": len(self._workloads),
            "deleting": self.deleting,
            "drift": self.drift.to_dict(),
            "last_resync": self.last_resync,
            "ipam": [usage._asdict() for usage in self._ipam.usage()] if "ipam" not in self.broken else [],
        }

    @property
    def problems(self) -> t.List[str]:
        found = [self.broken[part] for part in sorted(self.broken)]
        if self._state is None and "state" not in self.broken:
            found.append(self._nothing_desired().message)
        repairs = [text for texts in self.reconciler.problems.values() for text in texts]
        return [*found, *self._deletion.problems, *dict.fromkeys(repairs)]

    def health(self) -> t.List[str]:
        """Why no workload can be added at the moment; [] when they can."""
        try:
            self._ready()
        except AgentError as error:
            return [error.message]
        return []

    def liveness(self) -> t.Optional[str]:
        """What is wrong with the agent itself, or None."""
        silent = self._clock() - self.ticked
        return f"the reconciler has not come through for {silent:.0f} s" if silent > _ALIVE else None

    def readiness(self) -> t.Optional[str]:
        """Why the node is not as it shall be or no workload can be added, or None."""
        problems = [*self.health(), *self.problems]
        return " ".join(dict.fromkeys(problems)) or (None if self.in_sync else "the node is being brought to its state")

    def watch(self) -> asyncio.Queue[Event]:
        """Events from now on, until `unwatch`. A queue that is full gets no more, and {"event": "overflow"} at last."""
        queue: asyncio.Queue[Event] = asyncio.Queue(_BACKLOG)
        self._watchers.add(queue)
        return queue

    def unwatch(self, queue: asyncio.Queue[Event]) -> None:
        self._watchers.discard(queue)

    def _tell(self, event: Event) -> None:
        told = {**event, "when": now()}
        for queue in list(self._watchers):
            if queue.qsize() >= _BACKLOG - 1:
                queue.put_nowait({"event": "overflow", "when": now()})
                self._watchers.discard(queue)
            else:
                queue.put_nowait(told)

    # ---- within

    def _endpoint(self, workload: Workload) -> WorkloadEndpoint:
        state = self._state or _NO_STATE
        pool = next((pool for pool in state.pools if pool.name == workload.pool), None)
        return endpoint(workload, pool or pool_of(state, workload))

    async def _plumb(self, work: t.Callable[..., _T], *arguments: t.Any) -> _T:
        """Runs a function of dataplane/attach.py. Raises AgentError."""
        try:
            return await self._plumbing_thread(lambda: work(self._plumbing, *arguments))
        except AttachError as error:
            raise AgentError(error.code, str(error)) from error
        except (ApplyError, ObserveError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        except (KernelError, MissingLibrary) as error:
            raise AgentError(protocol.KERNEL, f"the kernel refused: {error}") from error


_NO_STATE = NodeState(node="", address="")


def _attach_route(kernel: Kernel, endpoint: WorkloadEndpoint, opened: t.Collection[str]) -> None:
    """A spare block is opened by its first workload: from then on what is not used in it ends here."""
    wanted = tuple(Route(cidr, "blackhole") for cidr in opened if cidr != f"{endpoint.address}/32")
    if wanted:
        changes = route.diff(wanted, route.observe(kernel, wanted))
        route.apply(kernel, [change for change in changes if change.action != "-"])
    attach.attach_route(kernel, endpoint)


def _as_it_is(workload: Workload, attached: Attached) -> Workload:
    return dataclasses.replace(workload, mac=attached.mac, mtu=attached.mtu)


def not_found(id: str) -> AgentError:
    return AgentError(protocol.NOT_FOUND, f"there is no workload {id} on this node. See `calicoctl workload list`.")


def plain(change: Change) -> dict[str, t.Any]:
    """A change as JSON can say it."""
    return {name: getattr(change, name) for name in ("kind", "action", "subject", "before", "after", "note", "detail")}


@contextlib.contextmanager
def _not_written(what: str, where: str) -> t.Iterator[None]:
    try:
        yield
    except IpamNotWritten as error:
        raise AgentError(protocol.NOT_WRITTEN, str(error)) from error
    except OSError as error:
        raise AgentError(
            protocol.NOT_WRITTEN,
            f"the {what} cannot be written below {where}: {error.strerror}. Nothing was changed. Make room or correct"
            " the file system, then try again.",
        ) from error
