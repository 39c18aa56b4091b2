# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of one node: all its parts, and the methods that the API and the CNI plugin call.

    Ansible ─► state.json ─┐                  ┌─► reconciler ──────────────► kernel      all of it (reconcile.py)
    callers ─► records ────┼─► desired state ─┤
            ─► journal ────┘                  └─► add, delete (workloads/) ─► kernel     one workload, the short way

It belongs to one event loop. What may take long in the kernel or on the disk is done in threads; each that uses the
kernel has one of its own. Small files, such as the state and records of workloads, are read or written by the loop.
known/desired_state.py says what the node must have, workloads/add.py how a workload is attached.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import os
import time
import typing as t

from ..base.published_port import PublishedPort
from ..bird.status import Session
from ..dataplane.change import ObserveError
from ..dataplane.drivers import iptables
from ..dataplane.kernel.port import Kernel, KernelError
from ..dataplane.planning.cached_drivers import CachedDrivers
from ..dataplane.planning.plan import NodePlan
from ..dataplane.planning.registry import REGISTRY
from ..datastore.remote_feed import RemoteFeed
from ..node.ipam.local_ipam import LocalIpam
from ..node.machine import Machine
from ..node.store.store import now
from ..state.attachment import AttachedWorkload
from ..state.node_state import NodeState
from ..wire import protocol
from ..wire.protocol import AgentError
from ..wire.request import AddRequest
from ..wire.settings import AgentSettings
from .concurrency.driver_thread import DriverThread, Worker
from .concurrency.locks import KeyedLock, RWLock
from .datastore.beat import Sessions
from .datastore.node_datastore import NodeDatastore
from .known.desired_state import DesiredState, RemovalPermission
from .known.events import Events
from .known.persisted_state import PersistedState
from .known.policy_compilers import PolicyNotCompiled
from .known.workload_table import WorkloadTable
from .metrics.instruments import Instruments
from .metrics.metrics import Registry
from .metrics.reports import Reports
from .policy_log.flow_cuts import FlowCuts
from .policy_log.flow_cutter import FlowCutter
from .policy_log.policy_log import PolicyLog
from .policy_log.policy_names import PolicyNames
from .reconcile.drift import Drift
from .reconcile.pace import Pace
from .reconcile.reconcile import PassOutcome, Reconciler
from .reconcile.stages import Listener, Wanted
from .watch.host_interfaces import HostInterfaces
from .watch.unwritten_routes import UnwrittenRoutes
from .workloads import check, delete, publish, updates
from .workloads.add import add
from .workloads.addresses import WorkloadAddresses
from .workloads.admission import PolicyUpdates
from .workloads.cleanup import Cleanup
from .workloads.commit import GroupCommit, flushing
from .workloads.context import WorkloadContext
from .workloads.ended import EndedWorkloads
from .workloads.recovery import recover
from .workloads.unused_addresses import UnusedAddresses
from .workloads.updates import JoinedEnds
from .workloads.wiring import WorkloadWiring

_log = logging.getLogger("calico.agent")

#: The most seconds between two signs of life of a healthy reconciler.
_ALIVE = 60.0
_UNFINISHED = 30.0  # seconds between two looks at the disk for the end of a run that has begun to change the node
_BETWEEN_ATTEMPTS = 1.0  # seconds between two looks whether the rules are in force after the start
_LOOKS = 5  # the most looks that one call of `look` begins
_LOOKING = 10.0  # seconds within which `look` begins up to _LOOKS looks
_BETWEEN_LOOKS = 0.1  # seconds that `look` waits between two attempts


class Kernels(t.Protocol):
    """A function that returns a new kernel for one thread."""

    def __call__(self) -> Kernel: ...


class Agent:
    """The agent. It is constructed and used on one running event loop: first `start`, then all coroutines of `run`.

    `clock` returns seconds and never goes back. `on_tick` is called whenever the reconciler has finished a pass of its
    own, not one on request, and at least every ten seconds while it has nothing to do. `since`, when the agent was
    made, and `last_resync`, when `resync` last went over the node ("" before), are UTC times as text. `ticked` is in
    seconds of `clock`.
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
        self.ticked = clock()  # the reconciler's last sign of life, or the agent's making
        self._sessions = Sessions(0, 0)
        self._clock = clock
        self._on_tick = on_tick
        self._applying = asyncio.Lock()

        # Observation: counts, events, metrics.
        self.drift = Drift(clock)
        self.events = Events()
        self.instruments = instruments or Instruments(Registry())

        # What the node must have, and the log of its policy.
        ipam = ipam or LocalIpam(machine.ipam, cooldown=settings.cooldown)
        self.persisted = PersistedState(machine, ipam)
        self.workloads = WorkloadTable(self.persisted)
        self.policy_log = PolicyLog(PolicyNames(lambda: self.state, lambda: self.workloads, self.persisted.others))
        self.desired_state = DesiredState(self.persisted, self.workloads, self._desired_changed)
        self._may_remove = RemovalPermission(self.persisted, settings.cleanup_grace, clock)

        # Writers of the kernel and the disk, each in a thread of its own.
        reports = Reports(self.instruments, self.drift, self.events, self.workloads)
        self.rwlock = RWLock()
        wiring = WorkloadWiring(kernels(), thread("plumbing"))
        addresses = WorkloadAddresses(
            self.persisted, GroupCommit(flushing(ipam.prepare, thread("disk"), reports.flushed))
        )
        self.cleanup = Cleanup(kernels(), thread("deletion"), addresses.give_back, self.persisted.records.forget)
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
        #: The way of other nodes' workloads from the datastore to policy.
        self.remote_feed = RemoteFeed(
            self.persisted.others, lambda: self.persisted.state, lambda: self.reconciler.expect(REGISTRY.guards)
        )
        self._flow_cuts = FlowCuts(
            FlowCutter(kernels(), thread("flows"), reports.flows_cut),
            self.persisted,
            self.workloads,
            self.desired_state,
            self.reconciler,
            clock,
        )

        # Changes of workloads, here and elsewhere, and of the host's addresses.
        self._policy = PolicyUpdates(self.desired_state, self.reconciler)
        self.datastore = NodeDatastore(
            machine,
            self.persisted,
            self.desired_state,
            thread("copy"),
            feed=self.remote_feed,
            status=self.status,
            sessions=lambda: self._sessions,
        )
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
            publish.claims(lambda: self._context),
        )
        self._interfaces = HostInterfaces(
            self.persisted, self.desired_state, self._policy, self.reconciler, settings.resync_interval
        )
        self._unwritten_routes = UnwrittenRoutes(
            kernels(), thread("bird"), machine.bird_socket, lambda: self.persisted.state
        )
        self._unused_addresses = UnusedAddresses(self._context, settings.leak_grace, clock)
        self._joined = JoinedEnds(self._context, clock)
        self._ended = EndedWorkloads(self._context, settings.leak_grace, clock)

    # ---- start, and what runs until the end

    async def start(self) -> None:
        """Read the disk, and remove workloads whose add or delete was under way when the last agent ended.

        One attempt at each removal is awaited; `run` retries those that failed. Addresses of attached workloads that
        are not allocated are allocated if possible. No error of the disk or the kernel is raised: files that cannot be
        read are in `problems`.
        """
        await recover(self._context, *self.persisted.load())
        await self.datastore.start()
        await self._interfaces.look(self.state)
        self.desired_state.changed()
        self.reconciler.mark()

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """Return the coroutines that have to run for as long as the agent lives, by names for messages.

        The names are "reconciler", "deletion", "unused addresses", "joined ends", "ended workloads", "time of grace",
        "addresses", "unfinished run", "datastore", "unwritten routes" and
        "running flows".
        Cancelling them takes nothing down: the data plane stays as it is once the work that a thread has begun is
        finished.
        """
        return {
            "reconciler": self.reconciler.run(),
            "deletion": self.cleanup.run(),
            "unused addresses": self._unused_addresses.run(),
            "joined ends": self._joined.run(),
            "ended workloads": self._ended.run(),
            "time of grace": self._end_of_grace(),
            "addresses": self._interfaces.run(),
            "unfinished run": self._completed(),
            "datastore": self.datastore.live.run(),
            "unwritten routes": self._unwritten_routes.run(),
            "running flows": self._end_stale_flows(),
        }

    async def _end_of_grace(self) -> None:
        """Mark everything for a look after the grace period, because removals may be allowed then. Never return."""
        await asyncio.sleep(self.settings.cleanup_grace)
        self.reconciler.mark()
        await asyncio.Event().wait()

    async def _end_stale_flows(self) -> None:
        """Delete connections that NAT translates otherwise, once the rules are in force after the start. Never return.

        The last agent may have been killed between a write of the rules and this, and other programs may have flushed
        and restored the rules meanwhile. After its own writes, the driver does the same.
        """
        while (state := self.reconciler.brought_to(iptables.STEP.name)) is None:
            await asyncio.sleep(_BETWEEN_ATTEMPTS)
        tables = state.iptables
        try:
            await self.reconciler.ask(lambda kernel: iptables.delete_stale(kernel, tables))
        except KernelError as error:
            _log.warning("Running flows may keep a translation from before the start of the agent: %s", error)
        await asyncio.Event().wait()

    async def _completed(self) -> None:
        """Reload a state that is not complete, as soon as the one on the disk is. Never return.

        The first run on a host starts the agent before it ends, and does not tell it of its end.
        """
        while True:
            await asyncio.sleep(_UNFINISHED)
            if not self.persisted.complete and not self._applying.locked() and self.persisted.completed_on_disk():
                self.reload()

    def reload(self) -> None:
        """Read the desired state and the other nodes' workloads from the disk again.

        The allocations are read again if they could not be read before; the records of workloads are not. Addresses of
        attached workloads that are not allocated are allocated if possible. Files that cannot be read are noted in
        `problems`; no error is raised. Without a readable state file the last state stays. The reconciler brings the
        node to the new state later; this does not wait.
        """
        self.persisted.reload()
        self.datastore.state_changed()
        self._context.addresses.adopt(self.workloads)
        self.workloads.expect_changes()
        self.desired_state.changed()
        self.reconciler.mark()
        self.addresses_changed()

    def addresses_changed(self) -> None:
        """Schedule a read of the host's addresses, because some changed, if policy depends on them. Do not wait."""
        self._interfaces.changed()

    def _desired_changed(self) -> None:
        self.policy_log.names.forget()
        self.datastore.workloads_changed()

    def see_sessions(self, sessions: t.Sequence[Session], unknown: str) -> None:
        """Keep what the next heartbeat says of BIRD's sessions.

        `unknown` is the reason why their state cannot be read, or "" if it was read.
        """
        self._sessions = Sessions.of(sessions, unknown)

    def _ticked(self) -> None:
        self.ticked = self._clock()
        if set(REGISTRY.guards).isdisjoint(self.reconciler.dirty):
            self.remote_feed.passed()
        # While `_applying` is locked, sets may lack other nodes' workloads. Its holder cuts connections at the end.
        if not self._applying.locked():
            self._flow_cuts.cut_soon()
        self.instruments.converged(self.in_sync, time.time())
        self._on_tick()

    # ---- workloads

    async def add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload and return it with the MAC address of its link, and the link's MTU in bytes.

        If a workload of the same id is attached already and meets the request, repair it and return it; a request of
        CNI also updates its labels, except those that `relabel` changed, and policy with them, as `relabel` does. Raise
        AgentError if the request is invalid or conflicts, if no address is free, if the node, the kernel or the disk
        refuses, or if a deleted workload with the same device or address is not removed within 10 seconds.
        """
        relabellings = self.workloads.relabellings
        try:
            workload = await self._add(request)
        except AgentError as error:
            if error.code == protocol.NO_ADDRESS:
                self.instruments.refused.add()
            raise
        if self.workloads.relabellings != relabellings:
            await self._labels_in_force()
        return workload

    async def _add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload, and publish its ports if the request has any; if that fails, a new one is deleted."""
        new = request.id not in self.workloads
        workload = await add(self._context, request)
        if request.ports is None:
            return workload
        try:
            shown = await publish.publish(self._context, workload.id, request.ports)
        except BaseException:
            if new:
                await asyncio.shield(asyncio.ensure_future(delete.delete(self._context, workload.id)))
            raise
        return dataclasses.replace(workload, ports=shown.ports)

    async def publish(self, id: str, ports: t.Sequence[PublishedPort]) -> AttachedWorkload:
        """Publish exactly these ports of the host for a workload, and return it; see workloads/publish.py.

        Raise AgentError if the workload is not attached, a port cannot be published or is taken, or the disk or the
        kernel refuses. After an error it has no published ports.
        """
        return await publish.publish(self._context, id, ports)

    async def withdraw(self, id: str) -> bool:
        """Withdraw all published ports of a workload; return False if it has none, or is gone.

        Raise AgentError with code `not_written` if the disk refuses to record that.
        """
        return await publish.withdraw(self._context, id)

    async def delete(self, id: str) -> bool:
        """Delete a workload; return True, or False if the node has neither a workload nor a known address for this id.

        Afterwards it is unreachable and its address is free, or that is retried; its link is removed soon after. If the
        kernel does not remove its route, this waits up to 10 seconds for the link's removal. Raise AgentError with code
        `not_written` if the disk refuses to record the delete, and nothing is changed then; or if only an address is
        left for the id and the disk refuses to release it.
        """
        workload = self._context.table.get(id)
        deleted = await delete.delete(self._context, id)
        if workload is not None:
            # With its interface, a container engine may have removed the default route of another one.
            self._joined.expect(updates.siblings(self._context, workload))
        return deleted

    async def relabel(self, id: str, labels: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
        """Set these labels on a workload beside its own, None removing one; return it.

        Keys and values are not checked. Link and address stay as they are. Afterwards this node's policy follows the
        new labels, unless `problems` says otherwise, and connections that it denies are cut if the settings want that.
        Raise AgentError with code `not_found` if no such workload is attached, or `not_written` if the disk refuses.
        """
        workload = await updates.relabel(self._context, id, labels)
        await self._labels_in_force()
        return workload

    async def join(self, id: str, netns: str) -> tuple[AttachedWorkload, t.List[str]]:
        """Record where a container engine moves the inner end of a workload; return the workload and its siblings.

        The siblings are the ids of other workloads that were handed over and are in the namespace at the path `netns`,
        which need not exist yet. Once the engine is done there, routes and rules of a second interface are added. Raise
        AgentError with code `not_found` if no such workload is attached, `conflict` if it was not handed over,
        `invalid_params` for a bad path, or `not_written` if the disk refuses.
        """
        found = await updates.join(self._context, id, netns)
        self._joined.expect([id])
        return found

    async def _labels_in_force(self) -> None:
        """Bring policy to the present labels, and cut connections that it now denies if the settings want that.

        Errors of the kernel and of compiling policy become `problems`. Do nothing on a node without policy.
        """
        if self.desired_state.has_policy:
            await self.reconciler.resync(REGISTRY.guards)
            await self._flow_cuts.cut()

    def get(self, id: str) -> t.Optional[AttachedWorkload]:
        """Return the attached workload of this id, or None."""
        return self.workloads.get(id)

    def list(self, selector: t.Optional[str] = None) -> t.List[AttachedWorkload]:
        """Return the attached workloads, sorted by id; with `selector`, those whose labels it selects.

        Raise AgentError with code `invalid_params` if the selector has more than 4096 characters or cannot be parsed.
        """
        return check.select(self.workloads, selector)

    async def check(self, id: str) -> t.List[str]:
        """Return texts that say how a workload differs from its desired state; [] if it does not differ.

        Its link, sysctls, routes and the allocation of its addresses are compared, not policy. Something superfluous is
        no difference. Change nothing. Raise AgentError with code `not_found` if no such workload is attached,
        `unavailable` if the node has no desired state, or `kernel` if the kernel cannot be read or one of the node's
        addresses is on no interface.
        """
        return await check.check(self._context, id, self.desired_state.need)

    # ---- the desired state

    def desired(self) -> t.Optional[NodeState]:
        """Return everything that the node must have now, or None while that is not known. It may block for seconds.

        Policy is compiled for it if that was not done yet. Raise PolicyNotCompiled if it cannot be compiled.
        """
        return self.desired_state.whole()

    async def plan(self, state: t.Optional[NodeState] = None) -> NodePlan:
        """Return what would change in the kernel if `state` (None: the present one) were desired, workloads included.

        Change nothing. Raise AgentError with code `unavailable` if `state` is None and no present one is known, or
        `kernel` if the kernel cannot be read, an address of the node is on no interface, or policy cannot be compiled.
        """
        await self._interfaces.look(state or self.state)
        wanted = self.desired_state.need if state is None else functools.partial(self.desired_state.of, state)
        try:
            return await self.reconciler.plan(wanted)
        except (ObserveError, KernelError, PolicyNotCompiled) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error

    async def look(self) -> NodePlan:
        """Return the plan for the present state, without keeping others from attaching workloads meanwhile.

        It looks at moments when nothing is being attached, deleted or repaired. A look that finds changes is repeated
        if one of these began meanwhile: up to 5 looks begin within 10 seconds. Raise AgentError with code `try_again`
        if all were disturbed or no such moment came, `unavailable` if there is no state at such a moment, or `kernel`
        if the kernel cannot be read, an address of the node is on no interface, or policy cannot be compiled.
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
        except (ObserveError, KernelError, PolicyNotCompiled) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        raise AgentError(
            protocol.TRY_AGAIN,
            "node.plan: workloads came or went each time that the node was looked at. Ask again, or ask as root, for"
            " whom they wait.",
        )

    async def node_apply(self, state: t.Optional[NodeState], removals: bool) -> PassOutcome:
        """Make `state` (None: the one on the disk) the desired state, bring the node to it, and return the outcome.

        With `removals`, superfluous objects may be removed at once, but only if allocations and records could be read.
        Without them, objects are only added or changed for a `state` that is given, and nothing is removed until a call
        with `removals`, or until a complete state is read from the disk. Such a one permits removals after the grace
        period. What fails is in the outcome. Raise AgentError with code `unavailable` if `state` is None and the state
        on the disk cannot be read, or is missing and no earlier one is known.
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
            self.datastore.state_changed()
            self.workloads.expect_changes()
            self.desired_state.changed()
            self._may_remove.given = removals
            try:
                return await self.resync()
            finally:
                self._may_remove.given = False

    async def reload_remote_endpoints(self) -> PassOutcome:
        """Read from the disk again what is known of other nodes' workloads, update policy, and return the outcome.

        The outcome is that of `resync`. A file that cannot be read is noted in `problems`, not in the outcome, and what
        was known before stays. Without a file nothing is known. Raise AgentError with code `unavailable` if the node
        has no state yet.
        """
        async with self._applying:
            remote = self.persisted.read_remote()
            if remote is not self.persisted.remote:
                self.persisted.remote = remote
                self._policy.workloads_changed()
            return await self.resync()

    async def save_datastore(self) -> dict[str, t.Any]:
        """Write what is known of the datastore to the disk now, and return how fresh it is.

        The result has `synced`, and `known_until` (UTC, "" for never); it is {} in a fleet without a datastore. A
        failure becomes one of the `problems`.
        """
        live = self.datastore.live
        await live.copy()
        return {name: value for name, value in live.to_dict().items() if name in ("synced", "known_until")}

    async def resync(self) -> PassOutcome:
        """Compare the whole node with its desired state, repair it, and return the outcome, which has what failed.

        Superfluous objects stay while removals are not allowed. Connections that policy denies are cut last, if the
        settings want that. Raise AgentError with code `unavailable` if the desired state is not known.
        """
        await self._interfaces.look(self.state)
        self.desired_state.need()
        outcome = await self.reconciler.resync()
        self.last_resync = now()
        await self._flow_cuts.cut()
        problem = self._flow_cuts.problem
        return outcome._replace(problems=(*outcome.problems, problem), in_sync=False) if problem else outcome

    def policy_log_group(self) -> int:
        """Return the NFLOG group that the rules of the present policy log to, or 0 if there is none."""
        return self.state.policy.settings.nflog_group if self.state and self.state.policy else 0

    # ---- addresses

    @property
    def ipam(self) -> LocalIpam:
        """The node's allocations. Access raises AgentError with code `unavailable` if their file cannot be read."""
        return self.persisted.ipam

    def ipam_check(self) -> dict[str, t.Any]:
        """Return a comparison of the allocations with the plan and the workloads, as the API method `ipam.check`.

        It is JSON-ready: `lines` are the texts to print, `problems` is the number of problems, and `leaked`, `unused`,
        `missing`, `outside`, `mismatched`, `duplicate` and `invalid` list them. Raise AgentError with code
        `unavailable` if the node has no state, or if the allocations cannot be read.
        """
        if self.state is None:
            raise self.persisted.no_state()
        return self.ipam.check(self.state, self.workloads).to_dict()

    async def release_address(self, address: str) -> None:
        """Free an address that no workload uses, and all other addresses of the same owner.

        Raise AgentError with code `not_found` if it is not allocated, `conflict` if its workload is attached, or is
        being added or removed, `not_written` if the disk refuses, or `unavailable` if the allocations cannot be read.
        """
        await delete.release_address(self._context, address)

    async def reserve_address(self, address: t.Optional[str], pools: t.Sequence[str], family: int) -> str:
        """Reserve an address for a workload that comes later, and return it. One that is reserved already stays so.

        It is `address`, or without one an address of IP version `family` of the `pools` (names or CIDRs), () for any
        that assigns automatically. Raise AgentError with the code of the refusal, `unavailable` if no workload can be
        added, or `not_written` if the disk refuses.
        """
        self.persisted.need_for_add()
        if address is not None:
            held = self.ipam.reserved(address)
            if held is not None:
                return held.address
        with self.persisted.writing("reservation"):
            return await self._context.addresses.reserve(address, pools, family)

    def engine_started(self) -> None:
        """Free soon what a container engine asked for before its start, unless it is in a container."""
        if "ipam" not in self.persisted.broken:
            self._unused_addresses.engine_started()

    async def unreserve_address(self, address: str) -> bool:
        """Free a reserved address; return whether it was reserved. A workload keeps its address.

        Raise AgentError with code `unavailable` if the allocations cannot be read, or `not_written` if the disk
        refuses.
        """
        with self.persisted.writing("release"):
            return await self._context.addresses.unreserve(address)

    # ---- status

    @property
    def state(self) -> t.Optional[NodeState]:
        """The state that Ansible gave, without this node's own workloads.

        It is None until one was read from the disk or given to `node_apply`.
        """
        return self.persisted.state

    @property
    def in_sync(self) -> bool:
        """Whether the files could be read, every kind of object was found as desired, and the last cut did not fail.

        The files are those of state, allocations and records; the cut is that of connections that policy denies. A
        missing file of allocations or records is no problem; without a state it is False, and so it is while a kind is
        still to be looked at. Objects that wait for their device, members left out of sets, and removals that are not
        allowed yet do not count as differences.
        """
        return self.reconciler.in_sync and self.persisted.readable and not self._flow_cuts.problem

    @property
    def problems(self) -> t.List[str]:
        """Texts that say what the agent knows to be wrong at the moment; [] if nothing is."""
        found = [self.persisted.broken[part] for part in sorted(self.persisted.broken)]
        if self.state is None and "state" not in self.persisted.broken:
            found.append(self.persisted.no_state().message)
        repairs = [text for texts in self.reconciler.problems.values() for text in texts]
        flows = [self._flow_cuts.problem] if self._flow_cuts.problem else []
        return list(dict.fromkeys([*found, *self.cleanup.problems, *repairs, *flows]))

    def status(self) -> dict[str, t.Any]:
        """Return the sync state, problems, counts and IPAM usage for the API method `status`, JSON-ready.

        The keys are since, pid, node, plan, phase, complete, in_sync, problems, workloads, inventory_workloads and
        deleting (numbers), drift, last_resync, datastore (NodeDatastore.to_dict) and ipam. `workloads` counts those
        that the agent attached. `drift` counts changes by other programs: `total` since the start, and of the last 23
        to 24 hours `day`, all, and `kinds`, by kind. `ipam` lists the blocks with the fields of Usage; it is [] if the
        allocations cannot be read. node, plan and phase are "" without a state.
        """
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
            "inventory_workloads": len(state.workloads) if state else 0,
            "deleting": len(self.cleanup),
            "drift": self.drift.to_dict(),
            "last_resync": self.last_resync,
            "datastore": self.datastore.to_dict(),
            "ipam": [usage._asdict() for usage in self.ipam.usage()] if "ipam" not in self.persisted.broken else [],
        }

    def health(self) -> t.List[str]:
        """Return why the node accepts no new workload, a list of one text; [] if it does.

        Free addresses are not looked for: without any, adds fail although this is [].
        """
        try:
            self.persisted.need_for_add()
        except AgentError as error:
            return [error.message]
        return []

    def liveness(self) -> t.Optional[str]:
        """Return what is wrong with the agent itself, or None.

        The agent is alive if the reconciler gave a sign of life within the last 60 seconds.
        """
        silent = self._clock() - self.ticked
        return f"the reconciler has not come through for {silent:.0f} s" if silent > _ALIVE else None

    def readiness(self) -> t.Optional[str]:
        """Return all problems and what keeps workloads from being added, as one text; None if none and in sync.

        Some problems, such as one of the policy log, do not keep the node from its desired state. Without a problem,
        but not in sync, the text says that the node is being brought to its state.
        """
        problems = " ".join(dict.fromkeys([*self.health(), *self.problems]))
        return problems or (None if self.in_sync else "the node is being brought to its state")
