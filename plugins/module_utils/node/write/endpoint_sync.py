# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exchange of workloads between nodes, on one node: what it reports to others, and what it stores of others."""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.change import Change
from ...dataplane.planning.plan import plan_node
from ...dataplane.planning.registry import REGISTRY
from ...policy.index.labels import namespaced_labels
from ...policy.model import Endpoint
from ...state.answers.left_out import LeftOut
from ...state.remote_endpoints import RemoteEndpoints, own_endpoints, read_updates
from .. import desired
from ..machine import Machine
from ..store import lock
from ..store.endpoints import Endpoints
from ..store.remote_endpoints import KnownEndpoints, RemoteUnreadable, known, save
from ..store.store import Store
from . import writer


class ReportsUnreadable(Exception):
    """The error for reports of nodes that `read_updates` refuses, as those of another release. Nothing was changed."""


def own(machine: Machine) -> tuple[str, tuple[Endpoint, ...], list[str]]:
    """Return what this node reports of itself: its name, its endpoints, and a sentence for each unreadable record.

    The endpoints are those that `own_endpoints` returns for the workloads that the agent attached. A node that has no
    stored state returns ("", (), []). Raise StoreError if the stored state cannot be read.
    """
    stored = Store(machine.store).load()
    if stored is None:
        return "", (), []
    workloads, problems = Endpoints(machine.workloads).load()
    return stored.state.node, own_endpoints(stored.state, workloads), problems


@dataclasses.dataclass(frozen=True)
class SyncResult:
    """The changes that `store_reports` made, or would make in check mode.

    `changes` are the differences in the stored endpoints: removals, changes and additions, each by name. `changed` is
    True if there are any, if an earlier call was interrupted or could not apply policy, or if the file was unreadable
    or had invalid endpoints. `left_out` are the parts of reports by nodes in `updates` that are not stored.
    """

    changes: tuple[Change, ...]
    changed: bool
    left_out: tuple[LeftOut, ...] = ()


def store_reports(
    machine: Machine,
    updates: t.Mapping[str, t.Any],
    nodes: t.Collection[str],
    *,
    who: str,
    check: bool = False,
    lock_timeout: float = 60.0,
) -> SyncResult:
    """Store the endpoints of other nodes, apply this node's policy with them, and return what changed.

    `updates` maps a node name to {"collected": time, "endpoints": [...], "blocks": [...]}, the latter two optional; see
    state.remote_endpoints.read_updates. An entry for this node itself is ignored. `nodes` are the names of all nodes of
    the fleet: what is stored of any other node is removed. `who` names the caller in the node's lock, `lock_timeout` is
    in seconds. With `check` nothing is written or locked. Policy is applied only if `changed` of the result is True. A
    newer collection time alone is stored, but not reported as a change.

    Raise ReportsUnreadable if `read_updates` refuses `updates`, or an error of `errors.ERRORS`. If one is raised
    while policy is applied, or ValueError for a policy that cannot be compiled, the endpoints are stored by then.
    """
    if check:
        return _difference(machine, updates, nodes)[0]
    with lock.held(who, lock_timeout, machine.lock):
        result, before, after = _difference(machine, updates, nodes)
        if before is None or before.left_out or after != before.remote:
            save(machine.store, KnownEndpoints(after, complete=not result.changed))
        if result.changed:
            _enforce(machine, who)
            save(machine.store, KnownEndpoints(after))
    return result


def _difference(
    machine: Machine, updates: t.Mapping[str, t.Any], nodes: t.Collection[str]
) -> tuple[SyncResult, t.Optional[KnownEndpoints], RemoteEndpoints]:
    """Return the result for `updates`, what was stored before (None if the file is unreadable), and what to store."""
    stored = Store(machine.store).load()
    here = stored.state.node if stored else ""
    try:
        before: t.Optional[KnownEndpoints] = known(machine.store)
    except RemoteUnreadable:
        before = None
    present = before or KnownEndpoints(complete=False)
    try:
        reports, refused = read_updates(updates)
    except ValueError as error:
        raise ReportsUnreadable(f"told: {error}. Give what remote_endpoints_info of this release returned.") from error
    others = {name: entry for name, entry in reports.items() if name != here}
    after = present.remote.updated(others, {name for name in nodes if name != here})
    after, not_accepted = after.accepted_by(stored.state) if stored else (after, ())
    changes = tuple(_changes(present.remote, after))
    left_out = tuple(one for one in (*refused, *not_accepted) if one.node in others)
    return SyncResult(changes, bool(changes or present.left_out) or not present.complete, left_out), before, after


def _changes(before: RemoteEndpoints, after: RemoteEndpoints) -> t.Iterator[Change]:
    old, new = _by_name(before), _by_name(after)
    for name in sorted(old.keys() - new.keys()):
        yield Change("endpoint", "-", name, _text(old[name]))
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield Change("endpoint", "~", name, _text(old[name]), _text(new[name]))
    for name in sorted(new.keys() - old.keys()):
        yield Change("endpoint", "+", name, None, _text(new[name]))


def _by_name(remote: RemoteEndpoints) -> dict[str, Endpoint]:
    return {f"{one.name} on {node}": one for node, report in remote.nodes.items() for one in report.endpoints}


def _text(endpoint: Endpoint) -> str:
    """Return an endpoint in words, without labels of its namespace: `10.244.2.3  labels app=db  ports sql tcp 5432`."""
    implied = dict(namespaced_labels({}, endpoint.namespace))
    labels = ",".join(f"{key}={value}" for key, value in endpoint.labels if key not in implied)
    ports = ", ".join(f"{one.name} {one.protocol} {one.port}" for one in endpoint.ports)
    parts = [", ".join(endpoint.addresses), labels and f"labels {labels}", ports and f"ports {ports}"]
    return "  ".join(part for part in parts if part)


def _enforce(machine: Machine, who: str) -> None:
    """Bring this node's policy in the kernel in line with what is on the disk, by the agent if one runs."""
    stored = Store(machine.store).load()
    if stored is None:
        return
    by = writer.from_machine(machine, who, machine.agent_patience)
    if isinstance(by, writer.Through):
        by.reload_remote_endpoints()
        return
    if stored.state.policy is None:
        return
    wanted = desired.of_machine(machine, stored.state)
    by.apply(stored.state, plan_node(machine.kernel, wanted, kinds=REGISTRY.guards), None)
