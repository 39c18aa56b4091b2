# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of what the agent knows about its node, refreshed whenever the metrics are read."""

from __future__ import annotations

from ..base.release import VERSION
from ..node.engine import engine_start, running_engine
from .agent import Agent
from .metrics.instruments import (
    DELETING,
    DRIVERS,
    INVENTORY,
    KNOWN,
    LISTING,
    PATH_STATES,
    REFUSED,
    RESUMPTION,
    RUN_TIME,
    Instruments,
)
from .watch.path_watcher import PathWatcher


def watch_agent(instruments: Instruments, agent: Agent) -> None:
    """Register a function that refreshes the agent's metrics from `agent` before each reading of the registry.

    Metrics of addresses keep their values while the allocations cannot be read. Each refresh takes the counts of
    `PolicyLog.counted`, so that no other reader gets them.
    """
    # Read once: it is the digest of the engine that this process runs, even if another one is installed later.
    engine = running_engine.digest(agent.host.machine.engine) or ""

    def refresh() -> None:
        state = agent.persisted.state
        instruments.describe(VERSION, engine, state.node if state else "")
        instruments.in_sync.set(value=float(agent.status.in_sync))
        instruments.engine_altered.set(value=float(bool(engine_start.read_alarm(agent.host.machine.engine_alarm))))
        instruments.state_complete.set(value=float(agent.persisted.complete))
        instruments.workloads.set(RUN_TIME, value=len(agent.workloads))
        instruments.workloads.set(INVENTORY, value=len(state.workloads) if state else 0)
        instruments.workloads.set(DELETING, value=len(agent.cleanup))
        problems = agent.passes.problems
        for kind in DRIVERS:
            instruments.problems.set(kind, value=len(problems.get(kind, ())))
        log = agent.policy_log
        for labels, packets in log.counted().items():
            instruments.policy_packets.add(*labels, amount=packets)
        instruments.policy_log_lost.add(amount=log.lost - instruments.policy_log_lost.value())
        _refresh_datastore(instruments, agent)
        refresh_paths(instruments, agent.paths)
        if "ipam" not in agent.persisted.broken:
            instruments.use_of_addresses(agent.persisted.ipam.usage())

    instruments.registry.refresh_with(refresh)


def refresh_paths(instruments: Instruments, paths: PathWatcher) -> None:
    """Set the metrics of paths; while none are watched, only that and the round-trip times so far have values."""
    instruments.paths_watched.set(value=float(paths.watched))
    instruments.paths.replace({})
    instruments.path_down.replace({})
    instruments.path_fragments.add(amount=paths.reassembled - instruments.path_fragments.value())
    for pool, times in paths.watch.round_trips.items():
        instruments.path_round_trips.set_counts(pool, counts=times.counts, total=times.total)
    if not paths.watched:
        return
    found = paths.findings()
    for counts in found.pools:
        for state, count in zip(PATH_STATES, (counts.up, counts.down, counts.untested, counts.absent)):
            instruments.paths.set(counts.pool, state, value=count)
    for path in found.down:
        labels = (path.pool, path.node, path.loss.direction, path.loss.reason)
        instruments.path_down.set(*labels, value=path.seconds)


def _refresh_datastore(instruments: Instruments, agent: Agent) -> None:
    """Set the metrics of the datastore; those of a fleet without one have no values."""
    live = agent.datastore.live
    gauges = (instruments.datastore_synced, instruments.datastore_known_until, instruments.datastore_waiting)
    for gauge in (*gauges, instruments.datastore_workloads, instruments.live_documents):
        gauge.replace({})
    if not live.is_used:
        return
    instruments.datastore_synced.set(value=float(live.synced))
    instruments.datastore_known_until.set(value=live.known_until)
    instruments.datastore_workloads.set(KNOWN, value=len(live.mirror.endpoints))
    instruments.datastore_workloads.set(REFUSED, value=agent.datastore.refused)
    policy = agent.datastore.live_policy
    known, refused = (policy.reading.documents, policy.reading.refused) if policy.is_allowed else ((), ())
    instruments.live_documents.set(KNOWN, value=len(known))
    instruments.live_documents.set(REFUSED, value=len(refused))
    if live.waiting is not None:
        instruments.datastore_waiting.set(value=live.waiting)
    for kind, count in ((RESUMPTION, live.resumptions), (LISTING, live.listings)):
        instruments.datastore_begun.add(kind, amount=count - instruments.datastore_begun.value(kind))
