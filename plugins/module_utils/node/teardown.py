# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking the node out of service for good: everything of ours goes, and nothing else. Stopping never does this.

First nobody is told any more that the node is ready, and nobody repairs what is about to go. Then BIRD withdraws the
node's blocks from its peers, the kernel is emptied of what is ours, and last go the files. A teardown that was cut
short is completed by the next one. The lockfile on the controller still has the node's blocks: they are its own if it
returns.

Settings of the kernel (ip_forward, rp_filter) stay as they are, for others may need them by now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import typing as t

from ..bird import client, secrets_file
from ..bird.errors import BirdError
from ..dataplane.apply import apply_node, ready_to_write
from ..dataplane.change import Change, Failures, ObserveError
from ..dataplane.drivers import file
from ..dataplane.drivers.route import text as route_text
from ..dataplane.kernel.lookup import network, within
from ..dataplane.kernel.port import PROTOCOL_BIRD, Kernel, RouteOperation
from ..dataplane.plan import NodePlan, plan_node
from ..state.node_state import TABLE_MAIN, NodeState
from . import units
from .machine import Machine
from .store import lock
from .store.store import Store, Stored, StoreError

_UNITS = (units.AGENT_UNIT, units.BIRD_UNIT, "calico-node-state.service", "calico-firewall.service")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What there is of ours, in the order in which it goes."""

    early_files: tuple[Change, ...]
    units: tuple[Change, ...]
    node: NodePlan
    bird_routes: tuple[Change, ...]
    files: tuple[Change, ...]
    folders: tuple[Change, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return (
            *self.early_files,
            *self.units,
            *self.node.changes,
            *self.bird_routes,
            *self.files,
            *self.folders,
        )

    @property
    def shown(self) -> tuple[Change, ...]:
        return (*self.changes, *self.node.kept)


def plan(machine: Machine) -> Plan:
    """Changes nothing. Raises ObserveError or KernelError."""
    stored = _stored(machine)
    files = _files(machine, stored)
    last = {machine.placed(entry.path) for entry in (stored.files if stored else None) or () if entry.last}
    wanted = [units.WantedUnit(name, enabled=False, started=False) for name in _UNITS]
    return Plan(
        early_files=tuple(change for change in files if change.subject in last),
        units=tuple(units.diff(wanted, units.observe(wanted, machine.systemctl))),
        node=plan_node(machine.kernel, _nothing(machine.kernel, stored)),
        bird_routes=tuple(_bird_routes(machine.kernel, stored)),
        files=tuple(change for change in files if change.subject not in last),
        folders=tuple(_folders(machine)),
    )


def tear_down(machine: Machine, *, who: str, check: bool = False, lock_timeout: float = 60.0) -> Plan:
    """What was there. Raises as `plan`, and LockError, MissingLibrary or ApplyError."""
    if check:
        return plan(machine)
    with lock.held(who, lock_timeout, machine.lock):
        planned = plan(machine)
        ready_to_write(machine.kernel, planned.node.changes)
        file.apply(None, planned.early_files)
        _withdraw(machine, planned)
        units.apply(planned.units, False, machine.systemctl)
        with lock.held(who, lock_timeout, machine.writer_lock):
            # The agent may have been in the middle of something.
            now = plan(machine)
            apply_node(machine.kernel, now.node)
            _remove_routes(machine.kernel, now.bird_routes)
        file.apply(None, planned.files)
        _remove_folders(planned.folders)
        if any("/etc/systemd/" in change.subject for change in planned.files):
            units.apply((), True, machine.systemctl)
        return planned


def _stored(machine: Machine) -> t.Optional[Stored]:
    """What cannot be read is no reason to keep all the rest."""
    try:
        return Store(machine.store).load()
    except StoreError:
        return None


def _nothing(kernel: Kernel, stored: t.Optional[Stored]) -> NodeState:
    if stored is not None:
        state = stored.state
        return NodeState(state.node, state.address, address6="" if state.address else state.address6)
    for address in kernel.addresses():
        if address.device != "lo":
            return NodeState("", f"{address.address}/{address.prefix_length}")
    raise ObserveError("This host has no network interface with an address. Give it one, then run again.")


def _bird_routes(kernel: Kernel, stored: t.Optional[Stored]) -> t.Iterator[Change]:
    """BIRD leaves its routes behind when it stops; those inside the pools are ours."""
    pools = [network(pool.cidr) for pool in stored.state.pools] if stored else []
    for family in (4, 6):
        for destination, attributes in kernel.routes(table=TABLE_MAIN, protocol=PROTOCOL_BIRD, family=family):
            if any(within(destination, pool) for pool in pools):
                yield Change("route", "-", destination, route_text(attributes), None, "proto bird", attributes)


def _remove_routes(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    failures = Failures()
    operations = [RouteOperation("delete", change.subject, change.old) for change in changes]
    for failure in kernel.route_batch(operations) if operations else []:
        # A tunnel device took its routes along.
        if failure.error.errno in (errno.ESRCH, errno.ENODEV):
            continue
        change = changes[failure.position]
        failures.add(change, f"The kernel refused to delete it. It said: {failure.error.said}.")
    failures.raise_if_any()


def _files(machine: Machine, stored: t.Optional[Stored]) -> list[Change]:
    paths = [machine.placed(entry.path) for entry in reversed((stored.files if stored else None) or ())]
    bird = [machine.bird_config, secrets_file.beside(machine.bird_config)]
    wanted = [file.WantedFile(path, None) for path in [*paths, *bird]]
    return file.diff(wanted, file.observe(None, wanted))


def _folders(machine: Machine) -> t.Iterator[Change]:
    """With all that is in them: states, allocations, records of workloads, the engine."""
    for path in (machine.workloads, machine.ipam, machine.cni_deleted, machine.store, machine.engine):
        if os.path.isdir(path):
            count = sum(len(names) for dummy, dummy_, names in os.walk(path))
            yield Change("file", "-", f"{path}/", f"{count} file{'' if count == 1 else 's'}", None, "with all in it")


def _remove_folders(changes: t.Sequence[Change]) -> None:
    failures = Failures()
    for change in changes:
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(change.subject)
        except OSError as error:
            failures.add(change, f"It could not be removed: {error.strerror}. Correct that, then run again.")
    failures.raise_if_any()


def _withdraw(machine: Machine, planned: Plan) -> None:
    """Peers are told at once: a BIRD that is only stopped keeps its routes there for a graceful restart."""
    if any(change.subject == units.BIRD_UNIT and change.old.started for change in planned.units):
        with contextlib.suppress(BirdError), client.Client(machine.bird_socket) as bird:
            bird.ask("disable all")
