# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent: what a node shall be, from what is on its disk and what callers ask for.

    Ansible ─► state.json ─┐                  ┌─► reconciler ──────────────► kernel     all of it (reconcile.py)
    callers ─► records ────┼─► desired state ─┤
            ─► journal ────┘                  └─► add, delete (workloads.py) ► kernel    one workload, the short way

It belongs to one event loop, on which nothing waits for the kernel or the disk: threads do, each with a kernel of its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import time
import typing as t

from ..dataplane.cached_drivers import CachedDrivers
from ..dataplane.change import Change, ObserveError
from ..dataplane.drivers.workload import GONE
from ..dataplane.kernel.port import Kernel, KernelError
from ..dataplane.plan import NodePlan
from ..dataplane.registry import REGISTRY
from ..node import desired as desired_state
from ..node.ipam.local_ipam import LocalIpam
from ..node.machine import Machine
from ..node.store.store import now
from ..policy.host_endpoints import Interfaces
from ..state.attachment import Workload
from ..state.node_policy_tables import NO_INTERFACES, needs_interfaces
from ..state.node_state import NodeState
from ..state.remote_endpoints import RemoteEndpoints
from .api import protocol
from .api.protocol import AgentError
from .api.request import AddRequest
from .metrics.instruments import Instruments
from .metrics.metrics import Registry
from .persisted_state import Knowledge
from .policy_log.flow_cutter import FlowCutter
from .policy_log.policy_log import PolicyLog
from .policy_log.policy_names import PolicyNames
from .reconcile import repair
from .reconcile.drift import Drift
from .reconcile.driver_thread import DriverThread, Worker
from .reconcile.pace import Pace
from .reconcile.policy_compilers import PolicyCompilers
from .reconcile.reconcile import PassOutcome, Reconciler
from .reconcile.stages import Listener, Make, Wanted
from .settings import Settings
from .watch.events import Events
from .workloads.admission import NotAllWritten
from .workloads.commit import GroupCommit, Write, flushing
from .workloads.deletion import Deletion
from .workloads.rwlock import Turn
from .workloads.unused_addresses import UnusedAddresses
from .workloads.wiring import Plumbing
from .workloads.workloads import Workloads

_log = logging.getLogger("calico.agent")

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
        self.last_resync = ""
        self.ticked = clock()  # when the reconciler last came through
        self.drift = Drift(clock)
        self.events = Events()
        self.policy_log = PolicyLog(
            PolicyNames(lambda: self.state, lambda: self.workloads, lambda: self.knowledge.remote)
        )
        self.instruments = instruments or Instruments(Registry())
        self._clock = clock
        self._started = clock()
        self._on_tick = on_tick
        self._turn = Turn()
        self._desired: t.Optional[NodeState] = None  # made anew when it is asked for after a change
        self._guards = PolicyCompilers()
        self._interfaces: Interfaces = NO_INTERFACES  # of the host, where policy depends on them
        self._addresses = asyncio.Event()  # somebody changed some of the host's
        self._handing_over = asyncio.Lock()
        self._removing = False  # a run of Ansible says that all of the desired state is known
        ipam = ipam or LocalIpam(machine.ipam, cooldown=settings.cooldown)
        self.knowledge = Knowledge(machine, ipam)
        self.workloads = Workloads(
            self.knowledge,
            self._turn,
            Plumbing(kernels(), thread("plumbing")),
            GroupCommit(flushing(ipam.prepare, thread("disk"), self._flushed)),
            lambda release: Deletion(kernels(), thread("deletion"), release, self.knowledge.records.forget),
            self.events,
            self._workloads_changed,
            self._admission,
        )
        self._admissions = GroupCommit(self._admit)
        self.unused_addresses = UnusedAddresses(self.knowledge, self.workloads, settings.leak_grace, clock)
        self.reconciler = Reconciler(
            kernels(),
            Wanted(self._without_policy, self.may_remove, self.workloads.deletion.subjects, self._whole),
            self._turn,
            Listener(
                on_change=self._made,
                on_step=self._stepped,
                on_failure=self.instruments.errors.add,
                on_ended=self._ended,
                on_tick=self._ticked,
                on_resync=self.instruments.resyncs.add,
            ),
            drivers=CachedDrivers(clock),
            run=thread("drivers"),
            pace=Pace(settings.resync_interval),
        )
        self.flow_cutter = FlowCutter(kernels(), thread("flows"), self._cut)
        self._cutting: t.Optional[asyncio.Future[None]] = None

    # ---- start

    async def start(self) -> None:
        """Reads what is on the disk, and completes what was under way when the last agent ended.

        Fails for nothing: what cannot be used is told by `problems`, and what depends on it refuses in words.
        """
        await self.workloads.start(*self.knowledge.load())
        await self._see_interfaces(self.state)
        self._desire_anew()
        self.reconciler.mark()

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """What has to run for as long as the agent does, by name; it ends with the first that ends.

        Ending them leaves the data plane as it is.
        """
        return {
            "reconciler": self.reconciler.run(),
            "deletion": self.workloads.deletion.run(),
            "unused addresses": self.unused_addresses.run(),
            "time of grace": self._end_of_grace(),
            "addresses": self._watch_addresses(),
        }

    def reload(self) -> None:
        """Reads the desired state from the disk again, and tries again to read what could not be read."""
        self.knowledge.reload()
        self.workloads.adopt()
        self.workloads.expect_changes()
        self._desire_anew()
        self.reconciler.mark()
        self.addresses_changed()

    def addresses_changed(self) -> None:
        """Some interface of the host has another address: HostEndpoints that are known by theirs may be elsewhere."""
        self._addresses.set()

    # ---- workloads

    async def add(self, request: AddRequest) -> Workload:
        """Attaches a workload; `mac` and `mtu` of the answer are those of its link. Idempotent by id.

        Raises AgentError, and nothing of it is left then.
        """
        labels = self.workloads.relabellings
        try:
            workload = await self.workloads.add(request)
        except AgentError as error:
            if error.code == protocol.NO_ADDRESS:
                self.instruments.refused.add()
            raise
        if self.workloads.relabellings != labels:
            await self._labels_in_force()
        return workload

    async def delete(self, id: str) -> bool:
        """False for a workload that there is not. After the return it cannot be reached and its address is free; its
        link goes soon after. Raises AgentError."""
        return await self.workloads.delete(id)

    async def relabel(self, id: str, labels: t.Mapping[str, t.Optional[str]]) -> Workload:
        """Gives a workload these labels beside those that it has; None takes one away. Its link and address stay as
        they are. After the return policy is asked by the new ones, unless `problems` says otherwise.

        Raises AgentError.
        """
        workload = await self.workloads.relabel(id, labels)
        await self._labels_in_force()
        return workload

    async def _labels_in_force(self) -> None:
        """Have policy asked by the labels of now, and what it denies by them cut where that is wanted."""
        if self.state is not None and self.state.policy is not None:
            await self.reconciler.resync(REGISTRY.guards)
            await self._cut_denied_flows()

    def get(self, id: str) -> t.Optional[Workload]:
        return self.workloads.get(id)

    def list(self, selector: t.Optional[str] = None) -> t.List[Workload]:
        """By id. Raises AgentError for a selector that cannot be read."""
        return self.workloads.list(selector)

    async def check(self, id: str) -> t.List[str]:
        """What is not as it should be with a workload, in words; nothing is changed. Raises AgentError not_found."""
        return await self.workloads.check(id, self._need_desired)

    # ---- the desired state

    def desired(self) -> t.Optional[NodeState]:
        """All that the node shall have now; None while that is not known, and nothing may be changed then. Policy may
        have to be compiled for it, which takes time."""
        desired = self._without_policy()
        return self._whole(desired)() if desired is not None else None

    def _without_policy(self) -> t.Optional[NodeState]:
        """As `desired`, but for what policy comes to."""
        if self._desired is None and self.knowledge.state is not None:
            self._desired = self._with_own(self.knowledge.state)
        return self._desired

    def _whole(self, state: NodeState) -> Make:
        """What makes it, with what policy comes to; for any thread.

        Who is coming is asked here, in one step with who stands: asked in that thread it would be too late for a
        workload that stands by then, which would be in neither and lose its place in the sets.
        """
        coming, others = self.workloads.coming(), self.knowledge.remote.endpoints
        return functools.partial(self._guards.whole, state, coming, self._interfaces, others)

    def _admission(self) -> t.Optional[Write]:
        """Has policy know all that are coming; None where there is none."""
        return self._admissions.written() if self.state is not None and self.state.policy is not None else None

    async def _admit(self, write: Write) -> None:
        def stands() -> None:
            write.stands = True

        if self.state is not None:
            applied = await self.reconciler.admit(self.workloads.for_policy(self.state), stands)
            if applied.failed:
                raise NotAllWritten(applied.failed)

    def _with_own(self, state: NodeState) -> NodeState:
        return self.workloads.desired(state, self.knowledge.opened)

    def _need_desired(self) -> NodeState:
        desired = self._without_policy()
        if desired is None:
            raise self.knowledge.no_state()
        return desired

    def _desire_anew(self) -> None:
        self._desired = None
        self.policy_log.names.forget()

    def _workloads_changed(self) -> None:
        """Policy lets nobody through whom it does not know: it is told at once."""
        self._desire_anew()
        if self.state is not None and self.state.policy is not None:
            self.reconciler.expect(REGISTRY.guards)

    async def _see_interfaces(self, state: t.Optional[NodeState]) -> None:
        """Policy for the host may depend on which interface has which address."""
        if state is None or not needs_interfaces(state):
            return
        try:
            seen = await self.reconciler.ask(lambda kernel: desired_state.interfaces_of(kernel, state))
        except (ObserveError, KernelError) as error:
            _log.warning("The host's interfaces cannot be read: %s", error)
            return
        if seen != self._interfaces:
            self._interfaces = seen
            self._desire_anew()

    async def _watch_addresses(self) -> None:
        """The kernel tells of IPv4 addresses; those of IPv6 are looked at from time to time."""
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._addresses.wait(), self.settings.resync_interval)
            self._addresses.clear()
            before = self._interfaces
            await self._see_interfaces(self.state)
            if self._interfaces is not before:
                self._workloads_changed()

    def may_remove(self) -> bool:
        """Whether what is ours and not desired goes: all that is desired has to be known, and workloads of which no
        record tells may belong to somebody who comes back."""
        if not self.knowledge.whole:
            return False
        return self._removing or self._clock() - self._started >= self.settings.cleanup_grace

    async def _end_of_grace(self) -> None:
        await asyncio.sleep(self.settings.cleanup_grace)
        self.reconciler.mark()
        await asyncio.Event().wait()

    async def plan(self, state: t.Optional[NodeState] = None) -> NodePlan:
        """What would change if `state`, by default the present one, were to be had, this node's workloads included.

        Raises AgentError.
        """
        await self._see_interfaces(state or self.state)
        wanted = self._need_desired if state is None else functools.partial(self._with_own, state)
        try:
            return await self.reconciler.plan(wanted)
        except (ObserveError, KernelError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error

    async def look(self) -> NodePlan:
        """Like plan() for the present state, but nobody is kept from attaching workloads meanwhile.

        It waits for a moment in which nothing is being attached, deleted or repaired; a look during which something was
        may show it half done, and is repeated. Raises AgentError, also where there is no such moment.
        """
        try:
            looks, until = 0, self._clock() + _LOOKING
            while looks < _LOOKS and self._clock() < until:
                before = self._turn.quiet
                if before is not None:
                    looks += 1
                    found = await self.reconciler.look(self._need_desired)
                    if not found.changed or self._turn.quiet == before:
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
        """Makes `state`, by default the one that is on the disk, the desired one, and the node have it.

        Without `removals` only what is to be added or changed; nothing is removed then until a call with `removals`, or
        until the state on the disk is complete. Raises AgentError.
        """
        async with self._handing_over:
            await self._see_interfaces(state)
            if state is not None:
                self.knowledge.broken.pop("state", None)
                self.knowledge.take(state, removals)
            else:
                self.knowledge.load_state()
                if "state" in self.knowledge.broken:
                    raise self.knowledge.no_state()
                self.knowledge.complete = self.knowledge.complete or removals
            self.workloads.expect_changes()
            self._desire_anew()
            self._removing = removals
            try:
                return await self.resync()
            finally:
                self._removing = False

    async def reload_remote_endpoints(self) -> PassOutcome:
        """Reads again what is known of other nodes' workloads, and has policy count on it. Raises AgentError where the
        node has no state yet."""
        async with self._handing_over:
            remote = self.knowledge.read_remote()
            if remote is not self.knowledge.remote:
                self.knowledge.remote = remote
                self._workloads_changed()
            return await self.resync()

    async def resync(self) -> PassOutcome:
        """Looks at everything and repairs it. Raises AgentError while it is not known what the node shall have."""
        await self._see_interfaces(self.state)
        self._need_desired()
        outcome = await self.reconciler.resync()
        self.last_resync = now()
        await self._cut_denied_flows()
        return outcome

    async def _cut_denied_flows(self) -> None:
        """Once the policy that is desired is in force."""
        remote = self.knowledge.remote
        labels = self.workloads.relabellings
        if self.flow_cutter.due(self._desired, remote, labels):
            await self.flow_cutter.cut(functools.partial(self._in_force, remote), remote, labels)

    def _in_force(self, remote: RemoteEndpoints) -> t.Optional[NodeState]:
        """What is desired, with workloads that are coming and may be reached before they stand; None while the kernel
        has not been brought to its policy and labels, or where that is no longer `remote` that is known of other nodes.
        """
        desired = self._without_policy() if remote is self.knowledge.remote else None
        if desired is None:
            return None
        labels = {one.interface: one.labels for one in desired.workloads}
        for state in (self.reconciler.brought_to(kind) for kind in REGISTRY.guards):
            if state is None or state.policy is not desired.policy:
                return None
            if any(labels.get(one.interface, one.labels) != one.labels for one in state.workloads):
                return None
        coming = self.workloads.coming()
        return dataclasses.replace(desired, workloads=(*desired.workloads, *coming)) if coming else desired

    def _cut(self, count: int) -> None:
        self.instruments.flows_cut.add(amount=count)
        self.events.tell("flows_cut", connections=count)

    def _made(self, change: Change, drift: bool) -> None:
        """The reconciler made a change; `drift` says that somebody else had made it necessary."""
        drift = drift or self.workloads.attached(change)
        _log.log(logging.WARNING if drift else logging.INFO, "%s", repair.sentence(change, drift))
        self.instruments.changes.add(change.kind)
        if drift:
            self.drift.count(change.kind)
            self.instruments.drift.add(change.kind)
            self.events.tell("drift", change=plain(change))

    def _ended(self, change: Change) -> None:
        """A workload is not repaired: it ended with its namespace, or that is another one now."""
        if change.note == GONE:
            return  # the ordinary end of a container, which a DEL follows
        _log.warning(
            "Workload %s is looked after no more: %s. Nothing was changed there. Delete the workload, and add it again"
            " if it is still wanted.",
            change.subject,
            change.note,
        )

    def _ticked(self) -> None:
        self.ticked = self._clock()
        # A hand-over does it itself once all of it stands: sets may not have yet what it brings of other nodes.
        busy = self._handing_over.locked() or (self._cutting is not None and not self._cutting.done())
        if not busy and self.flow_cutter.due(self._desired, self.knowledge.remote, self.workloads.relabellings):
            self._cutting = asyncio.ensure_future(self._cut_denied_flows())
        self.instruments.converged(self.in_sync, time.time())
        self._on_tick()

    def _flushed(self, seconds: float) -> None:
        self.instruments.flush_seconds.observe(value=seconds)

    def _stepped(self, kinds: t.Collection[str], seconds: float) -> None:
        for kind in kinds:
            self.instruments.apply_seconds.observe(kind, value=seconds)

    def policy_log_group(self) -> int:
        """The NFLOG group that rules of the policy in force tell of, 0 for none."""
        return self.state.policy.settings.nflog_group if self.state and self.state.policy else 0

    # ---- addresses

    @property
    def ipam(self) -> LocalIpam:
        """Raises AgentError when its file cannot be read."""
        return self.knowledge.ipam

    def ipam_check(self) -> dict[str, t.Any]:
        """What `calicoctl ipam check` prints: the books against what is in use. Raises AgentError."""
        if self.state is None:
            raise self.knowledge.no_state()
        return self.ipam.check(self.state, self.workloads).to_dict()

    async def release_address(self, address: str) -> None:
        """Frees an address that no workload uses. Raises AgentError not_found or conflict."""
        await self.workloads.release_address(address)

    # ---- what is going on

    @property
    def state(self) -> t.Optional[NodeState]:
        """The one that Ansible gave, without this node's own workloads."""
        return self.knowledge.state

    @property
    def in_sync(self) -> bool:
        return self.reconciler.in_sync and self.knowledge.readable

    @property
    def problems(self) -> t.List[str]:
        found = [self.knowledge.broken[part] for part in sorted(self.knowledge.broken)]
        if self.state is None and "state" not in self.knowledge.broken:
            found.append(self.knowledge.no_state().message)
        repairs = [text for texts in self.reconciler.problems.values() for text in texts]
        return list(dict.fromkeys([*found, *self.workloads.deletion.problems, *repairs]))

    def status(self) -> dict[str, t.Any]:
        state = self.state
        return {
            "since": self.since,
            "pid": os.getpid(),
            "node": state.node if state else "",
            "plan": state.plan if state else "",
            "phase": str(state.phase) if state else "",
            "complete": self.knowledge.complete,
            "in_sync": self.in_sync,
            "problems": self.problems,
            "workloads": len(self.workloads),
            "deleting": len(self.workloads.deletion),
            "drift": self.drift.to_dict(),
            "last_resync": self.last_resync,
            "ipam": [usage._asdict() for usage in self.ipam.usage()] if "ipam" not in self.knowledge.broken else [],
        }

    def health(self) -> t.List[str]:
        """Why no workload can be added at the moment; [] when they can."""
        try:
            self.knowledge.need_for_add()
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


def plain(change: Change) -> dict[str, t.Any]:
    """A change as JSON can say it."""
    return {name: getattr(change, name) for name in ("kind", "action", "subject", "before", "after", "note", "detail")}
