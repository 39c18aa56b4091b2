# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the node as a whole: the desired state that Ansible gives, plans for it, and passes over all of it."""

from __future__ import annotations

import asyncio
import functools
import typing as t

from ...dataplane.change import ObserveError
from ...dataplane.kernel.port import KernelError
from ...dataplane.planning.plan import NodePlan
from ...state.node_state import NodeState
from ...wire import protocol
from ...wire.protocol import AgentError
from ..concurrency import memory
from ..datastore.node_datastore import NodeDatastore
from ..known.host import AgentHost
from ..known.known import Known
from ..known.policy_compilers import PolicyNotCompiled
from ..policy_log.flow_cuts import FlowCuts
from ..reconcile.passes import Passes, PassOutcome
from ..watch.host_interfaces import HostInterfaces
from ..workloads.context import WorkloadContext

_UNFINISHED = 30.0  # seconds between two looks at the disk for the end of a run that has begun to change the node
_LOOKS = 5  # the most looks that one call of `look` begins
_LOOKING = 10.0  # seconds within which `look` begins up to _LOOKS looks
_BETWEEN_LOOKS = 0.1  # seconds that `look` waits between two attempts


class NodeChanges:
    """The changes of a node as a whole, on the event loop. `interfaces` are the host's, which policy may depend on.

    Methods raise AgentError: `unavailable` while no desired state is known; plans also raise `kernel` if the kernel
    cannot be read, an address of the node is on no interface, or policy cannot be compiled.
    """

    def __init__(
        self,
        host: AgentHost,
        known: Known,
        passes: Passes,
        on: WorkloadContext,
        cuts: FlowCuts,
        datastore: NodeDatastore,
    ) -> None:
        self._known = known
        self._persisted = known.persisted
        self._desired = known.desired
        self._passes = passes
        self._on = on
        self._rwlock = host.rwlock
        self.interfaces = HostInterfaces(known, on.policy, passes.stages, host.settings.resync_interval)
        self._cuts = cuts
        self._datastore = datastore
        self._clock = host.clock
        self._applying = asyncio.Lock()

    @property
    def applying(self) -> bool:
        """Whether a change is under way, while sets may lack other nodes' workloads. It cuts connections at its end."""
        return self._applying.locked()

    async def plan(self, state: t.Optional[NodeState] = None) -> NodePlan:
        """Return what would change in the kernel if `state` (None: the present one) were desired; change nothing."""
        await self.interfaces.look(state or self._persisted.state)
        wanted = self._desired.need if state is None else functools.partial(self._desired.for_state, state)
        try:
            return await self._passes.plan(wanted)
        except (ObserveError, KernelError, PolicyNotCompiled) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error

    async def look(self) -> NodePlan:
        """Return the plan for the present state, without keeping others from attaching workloads meanwhile.

        It looks while nothing is being attached, deleted or repaired. A look that finds changes is repeated if one of
        these began meanwhile: up to 5 looks begin within 10 seconds. Raise AgentError (try_again) if all were disturbed
        or no such moment came.
        """
        try:
            looks, until = 0, self._clock() + _LOOKING
            while looks < _LOOKS and self._clock() < until:
                before = self._quiet()
                if before is not None:
                    looks += 1
                    found = await self._passes.look(self._desired.need)
                    if not found.changed or self._quiet() == before:
                        return found
                await asyncio.sleep(_BETWEEN_LOOKS)
        except (ObserveError, KernelError, PolicyNotCompiled) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        raise AgentError(
            protocol.TRY_AGAIN,
            "node.plan: workloads came or went each time that the node was looked at. Ask again, or ask as root, for"
            " whom they wait.",
        )

    def _quiet(self) -> t.Optional[tuple[int, int]]:
        """Return numbers that change when something is attached, deleted or repaired; None while it is."""
        stages, taken = self._passes.stages, self._rwlock.quiet
        return None if taken is None or stages.settling else (taken, sum(stages.changed.values()))

    async def apply(self, state: t.Optional[NodeState], removals: bool) -> PassOutcome:
        """Make `state` (None: the one on the disk) the desired state, bring the node to it, and return the outcome.

        With `removals`, superfluous objects may be removed from now on, if allocations and records can be read.
        Without them, objects are only added or changed for a `state` that is given: removals wait for a call with
        `removals`, or for a complete state that is read from the disk and the grace period. What fails is in the
        outcome.
        """
        async with self._applying:
            await self.interfaces.look(state)
            if state is not None:
                self._persisted.broken.pop("state", None)
                self._persisted.take(state, removals)
            else:
                self._persisted.load_state()
                if "state" in self._persisted.broken:
                    raise self._persisted.no_state()
                self._persisted.complete = self._persisted.complete or removals
            self._datastore.state_changed()
            self._known.table.expect_changes()
            self._desired.changed()
            if removals:
                self._known.may_remove.give()
            return await self.resync()

    async def reload_remote_endpoints(self) -> PassOutcome:
        """Read the other nodes' workloads from the disk again, update policy, and return the outcome of `resync`.

        A file that cannot be read is noted in the problems, and what was known stays. Without a file nothing is known.
        """
        async with self._applying:
            remote = self._persisted.read_remote()
            if remote is not self._persisted.remote:
                self._persisted.remote = remote
                self._on.policy.workloads_changed()
            return await self.resync()

    async def resync(self) -> PassOutcome:
        """Compare the whole node with its desired state, repair it, and return the outcome, which has what failed.

        Superfluous objects stay while removals are not allowed. Connections that policy denies are cut last.
        """
        await self.interfaces.look(self._persisted.state)
        self._desired.need()
        outcome = await self._passes.resync()
        await self._cuts.cut()
        memory.give_back()  # what a changed policy, and the reading of all tables, took meanwhile
        problem = self._cuts.problem
        return outcome._replace(problems=(*outcome.problems, problem), in_sync=False) if problem else outcome

    def reload(self) -> None:
        """Read the desired state and the other nodes' workloads from the disk again. The node follows later.

        Allocations are read again if they could not be read before, and made for attached workloads that lack them;
        records are not read. Nothing is raised: files that cannot be read are noted in the problems, and the last state
        stays.
        """
        self._persisted.reload()
        self._datastore.state_changed()
        self._on.addresses.adopt(self._known.table)
        self._known.table.expect_changes()
        self._desired.changed()
        self._passes.stages.mark()
        self.interfaces.changed()

    async def run(self) -> None:
        """Reload a state that is not complete, as soon as the one on the disk is. Never return.

        The first run on a host starts the agent before it ends, and does not tell it of its end.
        """
        while True:
            await asyncio.sleep(_UNFINISHED)
            if not self._persisted.complete and not self.applying and self._persisted.completed_on_disk():
                self.reload()
