# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of one node: all its parts, put together.

    Ansible ─► state.json ─┐                  ┌─► loop, passes ────────────► kernel      all of it (reconcile/)
    callers ─► records ────┼─► desired state ─┤
            ─► journal ────┘                  └─► add, delete (workloads/) ─► kernel     one workload, the short way

It belongs to one event loop. What may take long in the kernel or on the disk is done in threads; each that uses the
kernel has one of its own. Small files, such as the state and records of workloads, are read or written by the loop.
known/desired_state.py says what the node must have, workloads/add.py how a workload is attached.
"""

from __future__ import annotations

import time
import typing as t

from .datastore.node_datastore import NodeDatastore
from .known.host import AgentHost
from .known.known import Known
from .metrics.instruments import Instruments
from .metrics.reports import Reports
from .node.changes import NodeChanges
from .node.status import AgentStatus
from .policy_log.flow_cuts import FlowCuts
from .policy_log.policy_log import PolicyLog
from .reconcile.loop import Loop
from .watch.path_watcher import PathWatcher
from .watch.unwritten_routes import UnwrittenRoutes
from .workloads.addresses import WorkloadAddresses
from .workloads.cleanup import Cleanup
from .workloads.context import WorkloadContext
from .workloads.describe import Descriptions
from .workloads.transactions import Transactions
from .workloads.upkeep.upkeep import Upkeep


class Agent:
    """The agent. It is constructed and used on one running event loop: first `start`, then all coroutines of `run`.

    It hands out its parts, and the methods of the API, container runtimes and metrics call these:

        transactions    add, delete and other changes of workloads
        addresses       reservations of addresses
        changes         plan, apply, reload, resync: the node as a whole
        status          what is in sync, and what is wrong
        passes          the reconciler's passes, and through `passes.stages` the marks and the kernel
        paths           the watch over paths to other nodes, which the daemon runs
        datastore       the datastore; its `feed` hands other nodes' workloads to policy

    Each part is made of finished parts. What a part needs of later ones, it is given by `run`.
    """

    def __init__(self, host: AgentHost, instruments: Instruments, on_tick: t.Callable[[], None] = lambda: None) -> None:
        """Put the parts together. `run` calls `on_tick` after each pass of its own, at least every ten seconds."""
        self.host = host
        self.instruments = instruments
        self._on_tick = on_tick

        # What the node must have, the log of its policy, and the reports of changes.
        known = Known.from_host(host)
        self.persisted, self.workloads = known.persisted, known.table
        self.desired_state, self.events = known.desired, known.events
        self.policy_log = PolicyLog.from_known(known)
        reports = Reports(instruments, self.events, self.workloads, host.clock)
        self.drift = reports.drift

        # Writers of the kernel and the disk, each in a thread of its own.
        self.addresses = WorkloadAddresses(self.persisted, host.thread("disk"), instruments.flush_seconds.observe)
        self.cleanup = Cleanup(
            host.kernels(), host.thread("deletion"), self.addresses.give_up, self.persisted.records.forget
        )
        self.loop = Loop.from_host(host, known, self.cleanup.subjects, reports.listener())
        self.passes = self.loop.passes

        # Changes of workloads, here and elsewhere, and of the node as a whole.
        self.datastore = NodeDatastore(host, known, self.passes.stages.policy_changed, self.passes.stages.ask)
        live_policy = self.datastore.live_policy
        self.cuts = FlowCuts(host, known, self.passes, reports.flows_cut, lambda: live_policy.is_trying)
        context = WorkloadContext.from_host(host, known, self.addresses, self.cleanup, self.passes.stages)
        self.upkeep = Upkeep(context, host)
        self.transactions = Transactions(
            context,
            self.upkeep.joined,
            self.desired_state,
            self.passes,
            self.cuts,
            instruments.refused.add,
            Descriptions(context, host.settings.runtime_labels, host.clock),
        )
        self.changes = NodeChanges(host, known, self.passes, context, self.cuts, self.datastore)
        self.paths = PathWatcher(host.kernels(), host.thread("paths"), lambda: known.persisted.state)
        self.status = AgentStatus(
            host, known, self.passes, self.cuts, self.cleanup, self.drift, self.datastore, self.transactions, self.paths
        )
        self._unwritten_routes = UnwrittenRoutes(
            host.kernels(), host.thread("bird"), host.machine.bird_socket, lambda: known.persisted.state
        )
        self.desired_state.on_change = self.datastore.publisher.changed.set

    async def start(self) -> None:
        """Read the disk, and remove workloads whose add or delete was under way when the last agent ended.

        One attempt at each removal is awaited; `run` retries. Attached workloads get their addresses allocated if
        possible. Nothing is raised: files that cannot be read are among the problems of `status`.
        """
        await self.upkeep.recover()
        await self.datastore.start()
        await self.changes.interfaces.look(self.persisted.state)
        self.desired_state.changed()
        self.passes.stages.mark()

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """Return the coroutines to run as long as the agent lives, by name. Cancelling them takes nothing down."""
        return {
            "reconciler": self.loop.run(self._ticked),
            **self.upkeep.run(),
            "time of grace": self.loop.mark_after(self.host.settings.cleanup_grace),
            "addresses": self.changes.interfaces.run(),
            "unfinished run": self.changes.run(),
            "datastore": self.datastore.run(self.status.to_dict),
            "live policy": self.datastore.live_policy.run(),
            "live questions": self.datastore.questions.run(),
            "unwritten routes": self._unwritten_routes.run(),
            "running flows": self.loop.end_stale_flows(),
        }

    def _ticked(self) -> None:
        self.status.ticked = self.host.clock()
        stages = self.passes.stages
        if set(stages.registry.guards).isdisjoint(stages.kinds.dirty):
            self.datastore.feed.passed(self.passes.seconds)
            wanted = self.desired_state.without_policy()
            self.datastore.live_policy.seen_in_force(
                self.passes.policy_in_force, wanted.policy if wanted is not None else None
            )
        # During a change of the whole node, sets may lack other nodes' workloads. It cuts connections at its end.
        if not self.changes.applying:
            self.cuts.cut_soon()
        self.instruments.converged(self.status.in_sync, time.time())
        self._on_tick()
