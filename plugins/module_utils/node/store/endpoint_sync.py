# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node tells what workloads came to it, and takes what other nodes told."""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.change import Change
from ...dataplane.plan import plan_node
from ...dataplane.registry import REGISTRY
from ...policy.index.labels import namespaced_labels
from ...policy.model import Endpoint
from ...state.answers.left_out import LeftOut
from ...state.remote_endpoints import RemoteEndpoints, own_endpoints, told_of
from .. import desired
from ..machine import Machine
from . import lock, writer
from .endpoints import Endpoints
from .remote_endpoints import Known, RemoteUnreadable, known, save
from .store import Store


def own(machine: Machine) -> tuple[str, tuple[Endpoint, ...], list[str]]:
    """What this node tells others of: its name, its endpoints, and a sentence for each record that cannot be read.

    Name "" on a node that has no state yet. Raises StoreError.
    """
    stored = Store(machine.store).load()
    if stored is None:
        return "", (), []
    workloads, problems = Endpoints(machine.workloads).load()
    return stored.state.node, own_endpoints(stored.state, workloads), problems


@dataclasses.dataclass(frozen=True)
class Taken:
    """`changes` are about endpoints, by name. `changed` also when what was begun before was only completed, and when
    the file had something that nobody takes. `left_out`: what was told and is not taken."""

    changes: tuple[Change, ...]
    changed: bool
    left_out: tuple[LeftOut, ...] = ()


def take(
    machine: Machine,
    told: t.Mapping[str, t.Any],
    nodes: t.Collection[str],
    *,
    who: str,
    check: bool = False,
    lock_timeout: float = 60.0,
) -> Taken:
    """Takes what was told of other nodes (see fleet.remote_endpoints.told_of) to the disk, and has policy count on it.

    `nodes` are all of the fleet. Another time of asking alone is written and is no change. Raises ValueError for what
    cannot be understood, and LockError, FileError, StoreError or what the writer raises.
    """
    if check:
        return _difference(machine, told, nodes)[0]
    with lock.held(who, lock_timeout, machine.lock):
        taken, before, after = _difference(machine, told, nodes)
        if before is None or before.left_out or after != before.remote:
            save(machine.store, Known(after, complete=not taken.changed))
        if taken.changed:
            _enforce(machine, who)
            save(machine.store, Known(after))
    return taken


def _difference(
    machine: Machine, told: t.Mapping[str, t.Any], nodes: t.Collection[str]
) -> tuple[Taken, t.Optional[Known], RemoteEndpoints]:
    """What taking it changes, what is known (None: unreadable), and what will be."""
    stored = Store(machine.store).load()
    here = stored.state.node if stored else ""
    try:
        before: t.Optional[Known] = known(machine.store)
    except RemoteUnreadable:
        before = None
    present = before or Known(complete=False)
    news, odd = told_of(told)
    others = {name: entry for name, entry in news.items() if name != here}
    after = present.remote.updated(others, {name for name in nodes if name != here})
    after, refused = after.believed_by(stored.state) if stored else (after, ())
    changes = tuple(_changes(present.remote, after))
    left_out = tuple(one for one in (*odd, *refused) if one.node in others)
    return Taken(changes, bool(changes or present.left_out) or not present.complete, left_out), before, after


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
    return {f"{one.name} on {node}": one for node, told in remote.nodes.items() for one in told.endpoints}


def _text(endpoint: Endpoint) -> str:
    """`10.244.2.3  labels app=db,tier=data  ports sql tcp 5432`"""
    implied = dict(namespaced_labels({}, endpoint.namespace))
    labels = ",".join(f"{key}={value}" for key, value in endpoint.labels if key not in implied)
    ports = ", ".join(f"{one.name} {one.protocol} {one.port}" for one in endpoint.ports)
    parts = [", ".join(endpoint.addresses), labels and f"labels {labels}", ports and f"ports {ports}"]
    return "  ".join(part for part in parts if part)


def _enforce(machine: Machine, who: str) -> None:
    """The policy of this node, in the kernel, with what is on the disk now."""
    stored = Store(machine.store).load()
    if stored is None:
        return
    by = writer.of(machine, who, machine.agent_patience)
    if isinstance(by, writer.Through):
        by.reload_remote_endpoints()
        return
    if stored.state.policy is None:
        return
    wanted = desired.of_machine(machine, stored.state)
    by.apply(stored.state, plan_node(machine.kernel, wanted, kinds=REGISTRY.guards), None)
