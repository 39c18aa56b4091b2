# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of the node: whether it is as desired, what is wrong, and whether the agent is alive."""

from __future__ import annotations

import os
import typing as t

from ...node.store.clock import now
from ..datastore.node_datastore import NodeDatastore
from ..known.host import AgentHost
from ..known.known import Known
from ..policy_log.flow_cuts import FlowCuts
from ..reconcile.drift import Drift
from ..reconcile.passes import Passes
from ..watch.path_watcher import PathWatcher
from ..workloads.cleanup import Cleanup
from ..workloads.transactions import Transactions

#: The most seconds between two signs of life of a healthy reconciler.
_ALIVE = 60.0


class AgentStatus:
    """The status of a node. `ticked` is the reconciler's last sign of life, in seconds of the host's clock."""

    def __init__(
        self,
        host: AgentHost,
        known: Known,
        passes: Passes,
        cuts: FlowCuts,
        cleanup: Cleanup,
        drift: Drift,
        datastore: NodeDatastore,
        transactions: Transactions,
        paths: PathWatcher,
    ) -> None:
        self._known = known
        self._persisted = known.persisted
        self._passes = passes
        self._cuts = cuts
        self._cleanup = cleanup
        self._drift = drift
        self._datastore = datastore
        self._transactions = transactions
        self._paths = paths
        self._clock = host.clock
        self._since = now()
        self.ticked = host.clock()

    @property
    def in_sync(self) -> bool:
        """Whether the files could be read, every kind of object was found as desired, and the last cut did not fail.

        The cut is that of connections that policy denies. A node without a state, or with a kind still to be looked at,
        is not in sync. Missing files of allocations or records, objects that wait for their device, members left out of
        sets, and removals that are not allowed yet are no differences.
        """
        return self._passes.in_sync and self._persisted.readable and not self._cuts.problem

    @property
    def problems(self) -> t.List[str]:
        """Texts that say what the agent knows to be wrong at the moment; [] if nothing is."""
        persisted = self._persisted
        found = [persisted.broken[part] for part in sorted(persisted.broken)]
        if persisted.state is None and "state" not in persisted.broken:
            found.append(persisted.no_state().message)
        repairs = [text for texts in self._passes.problems.values() for text in texts]
        flows = [self._cuts.problem] if self._cuts.problem else []
        return list(dict.fromkeys([*found, *self._cleanup.problems, *repairs, *flows]))

    def to_dict(self) -> dict[str, t.Any]:
        """Return the sync state, problems, counts and IPAM usage for the API method `status`, JSON-ready.

        `since` is when the agent was made. `workloads` counts those that the agent attached. `drift` counts changes by
        other programs: `total` since the start, and of the last 23 to 24 hours `day`, all, and `kinds`, by kind. `ipam`
        lists the blocks, [] if the allocations cannot be read. node, plan and phase are "" without a state. `paths` is
        PathStatus.to_dict of the paths to other nodes.
        """
        persisted, state = self._persisted, self._persisted.state
        return {
            "since": self._since,
            "pid": os.getpid(),
            "node": state.node if state else "",
            "plan": state.plan if state else "",
            "phase": str(state.phase) if state else "",
            "complete": persisted.complete,
            "in_sync": self.in_sync,
            "problems": self.problems,
            "workloads": len(self._known.table),
            "inventory_workloads": len(state.workloads) if state else 0,
            "deleting": len(self._cleanup),
            "drift": self._drift.to_dict(),
            "last_resync": self._passes.last_resync,
            "datastore": self._datastore.to_dict(),
            "paths": self._paths.status().to_dict(),
            "ipam": [usage._asdict() for usage in persisted.ipam.usage()] if "ipam" not in persisted.broken else [],
        }

    def liveness(self) -> t.Optional[str]:
        """Return what is wrong with the agent itself, None if the reconciler gave a sign of life within 60 seconds."""
        silent = self._clock() - self.ticked
        return f"the reconciler has not come through for {silent:.0f} s" if silent > _ALIVE else None

    def readiness(self) -> t.Optional[str]:
        """Return all problems and what keeps workloads from being added, as one text; None if none and in sync."""
        problems = " ".join(dict.fromkeys([*self._transactions.health(), *self.problems]))
        return problems or (None if self.in_sync else "the node is being brought to its state")
