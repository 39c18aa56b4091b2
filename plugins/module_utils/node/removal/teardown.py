# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The teardown of a node: everything of ours is removed, and nothing else. Stopping the services never does this.

First containers leave our networks, and Docker's networks go, while plugins and agent answer. Then the files that
announce the node as ready are removed. BIRD ends its sessions, so that its peers drop the node's blocks, and the units
stop, so that no agent repairs what is about to go. Then the kernel's objects are removed, and the files last. The
lockfile on the controller keeps the node's blocks, so that they are its own if it returns.

Settings of the kernel (ip_forward, rp_filter) stay as they are, because other software may need them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import ipaddress
import os
import shutil
import typing as t

from ...base.addresses import network, within
from ...bird import client, secrets_file
from ...bird.errors import BirdError
from ...dataplane.change import Change, Failures, ObserveError
from ...dataplane.drivers import file
from ...dataplane.drivers.route import text as route_text
from ...dataplane.kernel.port import PROTOCOL_BIRD, Kernel, RouteOperation
from ...dataplane.planning.apply import apply_node, ready_to_write
from ...dataplane.planning.plan import NodePlan, plan_node
from ...state.node_state import TABLE_MAIN, NodeState
from ..errors import InTheWay
from ..host import units
from ..machine import Machine
from ..store import lock
from ..store.store import Store, Stored
from ..store.stored_file import StoreError
from ..write import datastore_files, own_folders
from . import container_networks

_UNITS = (
    *units.RESTORING_UNITS,
    "calico-runtimes.service",
    "calico-docker.socket",
    "calico-docker.service",
    units.AGENT_UNIT,
    units.BIRD_UNIT,
    "calico-node-state.service",
    "calico-firewall.service",
)

#: The mark of a folder that is removed only if it is empty.
_EMPTY = "empty"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything of ours on the node, in the order in which it is removed, and what container runtimes have of ours."""

    containers: container_networks.RuntimesState
    networks: tuple[Change, ...]
    early_files: tuple[Change, ...]
    units: tuple[Change, ...]
    node: NodePlan
    bird_routes: tuple[Change, ...]
    files: tuple[Change, ...]
    folders: tuple[Change, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return (
            *self.networks,
            *self.early_files,
            *self.units,
            *self.node.changes,
            *self.bird_routes,
            *self.files,
            *self.folders,
        )

    @property
    def shown(self) -> tuple[Change, ...]:
        """The removals, and after them what is kept in the kernel."""
        return (*self.changes, *self.node.kept)


def plan(machine: Machine) -> Plan:
    """Return what a teardown removes. Change nothing.

    Without a stored state, the plan lacks that state's files and BIRD's routes. Raise StoreError if the stored state
    cannot be read, ObserveError or KernelError, or OSError if a file to be removed cannot be read.
    """
    stored = _stored(machine)
    files = _files(machine, stored)
    last = {machine.placed(entry.path) for entry in (stored.files if stored else None) or () if entry.last}
    # Services in namespaces of ours end with them, and the agent, which deletes their workloads, ends later.
    instances = units.running_instances(units.NETNS_UNIT, machine.systemctl)
    wanted = [units.WantedUnit(name, enabled=False, started=False) for name in (*instances, *_UNITS)]
    containers = container_networks.observe(machine)
    return Plan(
        containers=containers,
        networks=container_networks.changes(containers),
        early_files=tuple(change for change in files if change.subject in last),
        units=tuple(units.diff(wanted, units.observe(wanted, machine.systemctl))),
        node=plan_node(machine.kernel, _nothing(machine.kernel, stored)),
        bird_routes=tuple(_bird_routes(machine.kernel, stored)),
        files=tuple(change for change in files if change.subject not in last),
        folders=(*_folders(machine), *_empty_folders(machine, files)),
    )


def tear_down(
    machine: Machine, *, who: str, check: bool = False, lock_timeout: float = 60.0, force: bool = False
) -> Plan:
    """Remove everything that `plan` returns, unless `check`, and return that plan, which was made before.

    What the agent adds to the kernel until it has stopped is removed too, but is not in that plan. `who` names this
    process in the locks, and `lock_timeout` is the seconds to wait for each. Raise InTheWay, with nothing changed,
    while containers run in networks of ours, or a runtime cannot say so; with `force` their network is taken away.
    Raise what `plan` raises (after a StoreError nothing was removed), LockError, MissingLibrary, ApplyError or OSError.
    An error ends the teardown; the next one completes it.
    """
    if check:
        return plan(machine)
    with lock.held(who, lock_timeout, machine.lock):
        planned = plan(machine)
        refusal = "" if force else container_networks.refusal(planned.containers)
        if refusal:
            raise InTheWay(refusal)
        ready_to_write(machine.kernel, planned.node.changes)
        try:
            container_networks.remove(machine, planned.networks, force)
        except container_networks.RuntimeFailed as error:
            raise InTheWay(f"{error} Then run again, or add -e force=true. The node is as it was.") from error
        file.apply(planned.early_files)
        _withdraw(machine, planned)
        units.apply(planned.units, False, machine.systemctl)
        with lock.held(who, lock_timeout, machine.writer_lock):
            # Planned again: until it was stopped, the agent may have changed the kernel after the first plan.
            now = plan(machine)
            apply_node(machine.kernel, now.node)
            _remove_routes(machine.kernel, now.bird_routes)
        file.apply(planned.files)
        _remove_folders(planned.folders)
        if any("/etc/systemd/" in change.subject for change in planned.files):
            units.apply((), True, machine.systemctl)
        _remove_run_folders(machine)
        return planned


def _stored(machine: Machine) -> t.Optional[Stored]:
    """Return the stored state, None if there is none. Without it, a teardown could not find the node's files."""
    try:
        return Store(machine.store).load()
    except StoreError as error:
        raise StoreError(
            f"{error} Nothing was removed: without that state, the node's files and BIRD's routes would be left. To "
            "tear the node down without it, move the file away, and remove these by hand."
        ) from error


def _nothing(kernel: Kernel, stored: t.Optional[Stored]) -> NodeState:
    """Return a state in which the node has no object of ours.

    Its address is the stored one, else the first IPv4 address, else the first IPv6 address that is not link-local, of
    an interface other than lo. Raise ObserveError if there is none.
    """
    if stored is not None:
        state = stored.state
        return NodeState(state.node, state.address, address6="" if state.address else state.address6)
    for found in kernel.addresses():
        if found.device != "lo":
            return NodeState("", f"{found.address}/{found.prefix_length}")
    for found in kernel.addresses(family=6):
        if found.device != "lo" and not ipaddress.ip_address(found.address).is_link_local:
            return NodeState("", "", address6=f"{found.address}/{found.prefix_length}")
    raise ObserveError("This host has no network interface with an address. Give it one, then run again.")


def _bird_routes(kernel: Kernel, stored: t.Optional[Stored]) -> t.Iterator[Change]:
    """Yield the removal of BIRD's routes (main table) in the stored pools: BIRD leaves its routes when it stops."""
    pools = [network(pool.cidr) for pool in stored.state.pools] if stored else []
    for family in (4, 6):
        for destination, attributes in kernel.routes(table=TABLE_MAIN, protocol=PROTOCOL_BIRD, family=family):
            if any(within(destination, pool) for pool in pools):
                yield Change("route", "-", destination, route_text(attributes), None, "proto bird", attributes)


def _remove_routes(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    """Delete these routes; one that is gone already is no failure."""
    failures = Failures()
    operations = [RouteOperation("delete", change.subject, change.old) for change in changes]
    for failure in kernel.route_batch(operations) if operations else []:
        # ESRCH, ENODEV: the route is gone, for instance with its tunnel device.
        if failure.error.errno in (errno.ESRCH, errno.ENODEV):
            continue
        change = changes[failure.position]
        failures.add(change, f"The kernel refused to delete it. It said: {failure.error.said}.")
    failures.raise_if_any()


def _files(machine: Machine, stored: t.Optional[Stored]) -> list[Change]:
    paths = [machine.placed(entry.path) for entry in reversed((stored.files if stored else None) or ())]
    bird = [machine.bird_config, secrets_file.beside(machine.bird_config)]
    podman = [path for path in container_networks.podman_files(machine) if path not in paths]
    wanted = [*(file.WantedFile(path, None) for path in [*podman, *paths, *bird]), *datastore_files.removal(machine)]
    return file.changes(wanted)


def _folders(machine: Machine) -> t.Iterator[Change]:
    """Yield the removal of each existing folder of ours with its content.

    A symbolic link to a folder is the host's own layout: it stays with the folder, which is emptied.
    """
    for path in (machine.workloads, machine.ipam, machine.cni_deleted, machine.store, machine.engine):
        if not os.path.isdir(path):
            continue
        linked = os.path.islink(path)
        if linked and not os.listdir(path):
            continue
        count = sum(len(names) for dummy, dummy_, names in os.walk(path))
        note = "all in it; the symbolic link stays" if linked else "with all in it"
        yield Change("file", "-", f"{path}/", f"{count} file{'' if count == 1 else 's'}", None, note)


def _empty_folders(machine: Machine, files: t.Sequence[Change]) -> t.Iterator[Change]:
    """Yield the removal of each folder that is ours, or was made for our files, and is empty without `files`."""
    to_remove = {change.subject for change in files}
    for path in own_folders.removable(machine):
        here = machine.placed(path)
        if os.path.isdir(here) and not os.path.islink(here):
            if all(os.path.join(here, name) in to_remove for name in os.listdir(here)):
                to_remove.add(here)
                yield Change("file", "-", f"{here}/", "folder", None, "empty", _EMPTY)


def _remove_run_folders(machine: Machine) -> None:
    """Remove the folders of locks and sockets, and that of Docker's plugins if it is empty.

    They are on a tmpfs, and each run makes the first one for its lock. What cannot be removed ends with the boot.
    """
    for folder in ("/run/calico", "/run/calico-runtimes"):
        shutil.rmtree(machine.placed(folder), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(machine.placed("/run/docker/plugins"))


def _remove_folders(changes: t.Sequence[Change]) -> None:
    failures = Failures()
    for change in changes:
        try:
            with contextlib.suppress(FileNotFoundError):
                if change.old == _EMPTY:
                    os.rmdir(change.subject)
                else:
                    _remove_folder(change.subject.rstrip("/"))
        except OSError as error:
            failures.add(change, f"It could not be removed: {error.strerror}. Correct that, then run again.")
    failures.raise_if_any()


def _remove_folder(path: str) -> None:
    if not os.path.islink(path):
        shutil.rmtree(path)
        return
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _withdraw(machine: Machine, planned: Plan) -> None:
    """Disable all protocols of BIRD, if its unit is to be stopped, so that peers drop its routes at once.

    Peers would keep them for a graceful restart if BIRD were only stopped. A BIRD that fails or is silent is ignored.
    """
    if any(change.subject == units.BIRD_UNIT and change.old.started for change in planned.units):
        with contextlib.suppress(BirdError), client.BirdClient(machine.bird_socket) as bird:
            bird.ask("disable all")
