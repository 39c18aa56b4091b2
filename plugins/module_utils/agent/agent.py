# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of one node: its parts, put together, and what the API and the CNI plugin ask of it.

    Ansible ─► state.json ─┐                  ┌─► reconciler ──────────────► kernel      all of it (reconcile.py)
    callers ─► records ────┼─► desired state ─┤
            ─► journal ────┘                  └─► add, delete (workloads/) ─► kernel     one workload, the short way

It belongs to one event loop, on which nothing waits for the kernel or the disk: threads do, each with a kernel of its
own. What the node must have is said by desired_state.py, how a workload is attached by workloads/add.py.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
import typing as t

from ..dataplane.cached_drivers import CachedDrivers
from ..dataplane.change import ObserveError
from ..dataplane.kernel.port import Kernel, KernelError
from ..dataplane.plan import NodePlan
from ..dataplane.registry import REGISTRY
from ..node.ipam.local_ipam import LocalIpam
from ..node.machine import Machine
from ..node.store.store import now
from ..state.attachment import AttachedWorkload
from ..state.node_state import NodeState
from .api import protocol
from .api.protocol import AgentError
from .api.request import AddRequest
from .desired_state import DesiredState, RemovalPermission
from .metrics.instruments import Instruments
from .metrics.metrics import Registry
from .metrics.reports import Reports
from .persisted_state import PersistedState
from .policy_log.flow_cuts import FlowCuts
from .policy_log.flow_cutter import FlowCutter
from .policy_log.policy_log import PolicyLog
from .policy_log.policy_names import PolicyNames
from .reconcile.drift import Drift
from .reconcile.driver_thread import DriverThread, Worker
from .reconcile.pace import Pace
from .reconcile.reconcile import PassOutcome, Reconciler
from .reconcile.stages import Listener, Wanted
from .settings import AgentSettings
from .watch.events import Events
from .watch.host_interfaces import HostInterfaces
from .workloads import check, delete, labels
from .workloads.add import add
from .workloads.addresses import WorkloadAddresses
from .workloads.admission import PolicyUpdates
from .workloads.cleanup import Cleanup
from .workloads.commit import GroupCommit, flushing
from .workloads.context import WorkloadContext
from .workloads.locks import KeyedLock, RWLock
from .workloads.recovery import recover
from .workloads.table import WorkloadTable
from .workloads.unused_addresses import UnusedAddresses
from .workloads.wiring import WorkloadWiring

#: Seconds within which the reconciler comes through if nothing keeps it.
_ALIVE = 60.0
_LOOKS = 5
_LOOKING = 10.0  # seconds
_BETWEEN_LOOKS = 0.1


class Kernels(t.Protocol):
    """Makes a kernel for one thread."""

    def __call__(self) -> Kernel: ...


class Agent:
    """Made and used on one running event loop. First `start`, then what `run` gives has to run.

    `clock` is in seconds and does not go back; `on_tick` is called whenever the reconciler came through.
    """

    def __init__(
        self,
        machine: Machine,
        settings: AgentSettings,
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
        self.last_resync = ""
        self.ticked = clock()  # when the reconciler last came through
        self._clock = clock
        self._on_tick = on_tick
        self._applying = asyncio.Lock()

        # What watches: counts, events, the log of policy.
        self.drift = Drift(clock)
        self.events = Events()
        self.instruments = instruments or Instruments(Registry())

        # What the node must have.
        ipam = ipam or LocalIpam(machine.ipam, cooldown=settings.cooldown)
        self.persisted = PersistedState(machine, ipam)
        self.workloads = WorkloadTable(self.persisted)
        self.policy_log = PolicyLog(
            PolicyNames(lambda: self.state, lambda: self.workloads, lambda: self.persisted.remote)
        )
        self.desired_state = DesiredState(self.persisted, self.workloads, self.policy_log.names.forget)
        self._may_remove = RemovalPermission(self.persisted, settings.cleanup_grace, clock)

        # What writes the kernel and the disk, each in a thread of its own.
        reports = Reports(self.instruments, self.drift, self.events, self.workloads)
        self.rwlock = RWLock()
        wiring = WorkloadWiring(kernels(), thread("plumbing"))
        addresses = WorkloadAddresses(
            self.persisted, GroupCommit(flushing(ipam.prepare, thread("disk"), reports.flushed))
        )
        self.cleanup = Cleanup(kernels(), thread("deletion"), addresses.release, self.persisted.records.forget)
        self.reconciler = Reconciler(
            kernels(),
            Wanted(
                self.desired_state.without_policy,
                self._may_remove,
                self.cleanup.subjects,
                self.desired_state.with_policy,
            ),
            self.rwlock,
            Listener(
                on_change=reports.made,
                on_step=reports.stepped,
                on_failure=self.instruments.errors.add,
                on_ended=reports.ended,
                on_tick=self._ticked,
                on_resync=self.instruments.resyncs.add,
            ),
            drivers=CachedDrivers(clock),
            run=thread("drivers"),
            pace=Pace(settings.resync_interval),
        )
        self._flow_cuts = FlowCuts(
            FlowCutter(kernels(), thread("flows"), reports.flows_cut),
            self.persisted,
            self.workloads,
            self.desired_state,
            self.reconciler,
        )

        # What changes the workloads.
        self._policy = PolicyUpdates(self.desired_state, self.reconciler)
        self._context = WorkloadContext(
            self.persisted,
            self.workloads,
            addresses,
            wiring,
            self.cleanup,
            self._policy,
            self.events,
            self.rwlock,
            KeyedLock(),
        )
        self._interfaces = HostInterfaces(
            self.persisted, self.desired_state, self._policy, self.reconciler, settings.resync_interval
        )
        self._unused_addresses = UnusedAddresses(self._context, settings.leak_grace, clock)

    # ---- start

    async def start(self) -> None:
        """Read what is on the disk, and complete what was under way when the last agent ended.

        Fails for nothing: what cannot be used is told by `problems`, and what depends on it refuses in words.
        """
        await recover(self._context, *self.persisted.load())
        await self._interfaces.look(self.state)
        self.desired_state.changed()
        self.reconciler.mark()

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """Return what has to run for as long as the agent does, by name; it ends with the first that ends.

        Ending them leaves the data plane as it is.
        """
        return {
            "reconciler": self.reconciler.run(),
            "deletion": self.cleanup.run(),
            "unused addresses": self._unused_addresses.run(),
            "time of grace": self._end_of_grace(),
            "addresses": self._interfaces.run(),
        }

    async def _end_of_grace(self) -> None:
        await asyncio.sleep(self.settings.cleanup_grace)
        self.reconciler.mark()
        await asyncio.Event().wait()

    def reload(self) -> None:
        """Read the desired state from the disk again, and retry what could not be read."""
        self.persisted.reload()
        self._context.addresses.adopt(self.workloads)
        self.workloads.expect_changes()
        self.desired_state.changed()
        self.reconciler.mark()
        self.addresses_changed()

    def addresses_changed(self) -> None:
        """Look soon at the host's addresses, some of which changed: HostEndpoints may be known by them."""
        self._interfaces.changed()

    def _ticked(self) -> None:
        self.ticked = self._clock()
        # node_apply cuts by itself once all of it stands: the sets may lack what it brings of other nodes.
        if not self._applying.locked():
            self._flow_cuts.cut_soon()
        self.instruments.converged(self.in_sync, time.time())
        self._on_tick()

    # ---- workloads

    async def add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload; `mac` and `mtu` of the answer are those of its link. Idempotent by id.

        Raises AgentError, and nothing of it is left then.
        """
        relabellings = self.workloads.relabellings
        try:
            workload = await add(self._context, request)
        except AgentError as error:
            if error.code == protocol.NO_ADDRESS:
                self.instruments.refused.add()
            raise
        if self.workloads.relabellings != relabellings:
            await self._labels_in_force()
        return workload

    async def delete(self, id: str) -> bool:
        """Delete a workload; return False if there is none.

        After the return it cannot be reached and its address is free; its link goes soon after. Raises AgentError.
        """
        return await delete.delete(self._context, id)

    async def relabel(self, id: str, labels_: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
        """Give a workload these labels beside its own; None removes one. Its link and address stay as they are.

        After the return policy goes by the new ones, unless `problems` says otherwise. Raises AgentError.
        """
        workload = await labels.relabel(self._context, id, labels_)
        await self._labels_in_force()
        return workload

    async def _labels_in_force(self) -> None:
        """Have policy go by the present labels, and cut what it denies by them where that is wanted."""
        if self.desired_state.has_policy:
            await self.reconciler.resync(REGISTRY.guards)
            await self._flow_cuts.cut()

    def get(self, id: str) -> t.Optional[AttachedWorkload]:
        """Return a workload, None if there is none of this id."""
        return self.workloads.get(id)

    def list(self, selector: t.Optional[str] = None) -> t.List[AttachedWorkload]:
        """Return the workloads by id. Raises AgentError for a selector that cannot be read."""
        return check.select(self.workloads, selector)

    async def check(self, id: str) -> t.List[str]:
        """Return what is not as it should be with a workload, in words; change nothing. Raises AgentError not_found."""
        return await check.check(self._context, id, self.desired_state.need)

    # ---- the desired state

    def desired(self) -> t.Optional[NodeState]:
        """Return all that the node must have now; None while that is not known, and nothing may be changed then.

        Policy may have to be compiled for it, which takes time.
        """
        return self.desired_state.whole()

    async def plan(self, state: t.Optional[NodeState] = None) -> NodePlan:
        """Return what would change if `state`, by default the present one, were desired; the workloads included.

        Raises AgentError.
        """
        await self._interfaces.look(state or self.state)
        wanted = self.desired_state.need if state is None else functools.partial(self.desired_state.of, state)
        try:
            return await self.reconciler.plan(wanted)
        except (ObserveError, KernelError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error

    async def look(self) -> NodePlan:
        """Return plan() for the present state, without keeping others from attaching workloads meanwhile.

        It waits for a moment in which nothing is being attached, deleted or repaired; a look during which something was
        may show it half done, and is repeated. Raises AgentError, also where there is no such moment.
        """
        try:
            looks, until = 0, self._clock() + _LOOKING
            while looks < _LOOKS and self._clock() < until:
                before = self.rwlock.quiet
                if before is not None:
                    looks += 1
                    found = await self.reconciler.look(self.desired_state.need)
                    if not found.changed or self.rwlock.quiet == before:
                        return found
                await asyncio.sleep(_BETWEEN_LOOKS)
        except (ObserveError, KernelError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        raise AgentError(
            protocol.TRY_AGAIN,
            "node.plan: workloads came or went each time that the node was looked at. Ask again, or ask as root, for"
            " whom they wait.",
        )

    async def node_apply(self, state: t.Optional[NodeState], removals: bool) -> PassOutcome:
        """Make `state`, by default the one that is on the disk, the desired one, and bring the node to it.

        Without `removals` objects are only added or changed; none is removed then until a call with `removals`, or
        until the state on the disk is complete. Raises AgentError.
        """
        async with self._applying:
            await self._interfaces.look(state)
            if state is not None:
                self.persisted.broken.pop("state", None)
                self.persisted.take(state, removals)
            else:
                self.persisted.load_state()
                if "state" in self.persisted.broken:
                    raise self.persisted.no_state()
                self.persisted.complete = self.persisted.complete or removals
            self.workloads.expect_changes()
            self.desired_state.changed()
            self._may_remove.given = removals
            try:
                return await self.resync()
            finally:
                self._may_remove.given = False

    async def reload_remote_endpoints(self) -> PassOutcome:
        """Read again what is known of other nodes' workloads, and have policy go by it.

        Raises AgentError where the node has no state yet.
        """
        async with self._applying:
            remote = self.persisted.read_remote()
            if remote is not self.persisted.remote:
                self.persisted.remote = remote
                self._policy.workloads_changed()
            return await self.resync()

    async def resync(self) -> PassOutcome:
        """Compare the whole node with its desired state and repair it. Raises AgentError if that state is unknown."""
        await self._interfaces.look(self.state)
        self.desired_state.need()
        outcome = await self.reconciler.resync()
        self.last_resync = now()
        await self._flow_cuts.cut()
        return outcome

    def policy_log_group(self) -> int:
        """Return the NFLOG group that rules of the policy in force log to, 0 for none."""
        return self.state.policy.settings.nflog_group if self.state and self.state.policy else 0

    # ---- addresses

    @property
    def ipam(self) -> LocalIpam:
        """The node's allocations. Raises AgentError when their file cannot be read."""
        return self.persisted.ipam

    def ipam_check(self) -> dict[str, t.Any]:
        """Return what `calicoctl ipam check` prints: the books against what is in use. Raises AgentError."""
        if self.state is None:
            raise self.persisted.no_state()
        return self.ipam.check(self.state, self.workloads).to_dict()

    async def release_address(self, address: str) -> None:
        """Free an address that no workload uses. Raises AgentError not_found or conflict."""
        await delete.release_address(self._context, address)

    # ---- what is going on

    @property
    def state(self) -> t.Optional[NodeState]:
        """The one that Ansible gave, without this node's own workloads."""
        return self.persisted.state

    @property
    def in_sync(self) -> bool:
        return self.reconciler.in_sync and self.persisted.readable

    @property
    def problems(self) -> t.List[str]:
        found = [self.persisted.broken[part] for part in sorted(self.persisted.broken)]
        if self.state is None and "state" not in self.persisted.broken:
            found.append(self.persisted.no_state().message)
        repairs = [text for texts in self.reconciler.problems.values() for text in texts]
        return list(dict.fromkeys([*found, *self.cleanup.problems, *repairs]))

    def status(self) -> dict[str, t.Any]:
        state = self.state
        return {
            "since": self.since,
            "pid": os.getpid(),
            "node": state.node if state else "",
            "plan": state.plan if state else "",
            "phase": str(state.phase) if state else "",
            "complete": self.persisted.complete,
            "in_sync": self.in_sync,
            "problems": self.problems,
            "workloads": len(self.workloads),
            "deleting": len(self.cleanup),
            "drift": self.drift.to_dict(),
            "last_resync": self.last_resync,
            "ipam": [usage._asdict() for usage in self.ipam.usage()] if "ipam" not in self.persisted.broken else [],
        }

    def health(self) -> t.List[str]:
        """Why no workload can be added at the moment; [] when they can."""
        try:
            self.persisted.need_for_add()
        except AgentError as error:
            return [error.message]
        return []

    def liveness(self) -> t.Optional[str]:
        """What is wrong with the agent itself, or None."""
        silent = self._clock() - self.ticked
        return f"the reconciler has not come through for {silent:.0f} s" if silent > _ALIVE else None

    def readiness(self) -> t.Optional[str]:
        """Why the node is not as it shall be, or no workload can be added, or None."""
        problems = " ".join(dict.fromkeys([*self.health(), *self.problems]))
        return problems or (None if self.in_sync else "the node is being brought to its state")
