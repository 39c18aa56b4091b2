# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's workloads in memory: attached ones, ones being added, and the owner of each host end."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.published_port import PublishedPort
from ...base.terminal_text import cut
from ...dataplane.change import Change
from ...dataplane.drivers import workload as workload_driver
from ...state.attachment import (
    AttachedWorkload,
    OwnEndpoints,
    beside_inventory,
    endpoint_routes,
    with_published,
    with_workloads,
)
from ...state.node_state import NodeState, VethEndpoint
from ...wire import protocol
from ...wire.protocol import AgentError
from .persisted_state import PersistedState

_NO_STATE = NodeState(node="", address="")


class WorkloadTable:
    """The attached workloads by id; iterating yields them. It belongs to the event loop.

    A workload that is being added is `coming` from `begin` until it is attached or abandoned. `opened` are the CIDRs of
    spare blocks in use whose blackhole routes no add has to write. `relabellings` counts label changes of attached
    workloads. Changes raise KeyError for a workload that is not attached, or not being added.
    """

    def __init__(self, persisted: PersistedState) -> None:
        self._persisted = persisted
        self._attached: dict[str, AttachedWorkload] = {}
        self._coming: dict[str, AttachedWorkload] = {}
        self._interfaces: dict[str, str] = {}  # host end: id of the workload that has or claimed it
        self._endpoints = OwnEndpoints()
        self._settled: set[str] = set()  # subjects of changes about workloads that were attached exactly as desired
        #: The IP versions of ports that were published since the agent's start. Their chains stay: removals of whole
        #: chains are withheld for a time after the start, and a rule for a port must not outlive its workload.
        self._published: set[int] = set()
        self._publishers: dict[tuple[str, int], set[str]] = {}  # by protocol and port, also former ones
        self.opened: tuple[str, ...] = ()
        self.relabellings = 0

    def at(self, interface: str) -> t.Optional[AttachedWorkload]:
        """Return the attached workload with this host end, None for none."""
        return self._attached.get(self._interfaces.get(interface, ""))

    # ---- changes

    def load(self, workloads: t.Iterable[AttachedWorkload]) -> None:
        """Replace the attached workloads by these, from the records, and `opened` by the journal's. Drop claims."""
        self.opened = self._persisted.opened
        self._attached = {workload.id: workload for workload in workloads}
        self._interfaces = {workload.interface: workload.id for workload in self._attached.values()}
        for workload in self._attached.values():
            self._note_ports(workload)

    def claim(self, workload: AttachedWorkload) -> None:
        """Reserve the workload's host end. Raise AgentError with code `conflict` if any workload has or reserved it."""
        other = self._interfaces.get(workload.interface) or self._in_inventory(workload.interface)
        if other:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {workload.id} would have the device {workload.interface}, which belongs to workload {other}."
                " A node has one workload of a namespace and name: choose another name.",
            )
        self._interfaces[workload.interface] = workload.id

    def unclaim(self, workload: AttachedWorkload) -> None:
        """Release the workload's host end; do nothing if it is not reserved."""
        self._interfaces.pop(workload.interface, None)

    def begin(self, workload: AttachedWorkload) -> None:
        """Note that a workload is being added, so that policy already includes it."""
        self._coming[workload.id] = workload

    def abandon(self, workload: AttachedWorkload) -> None:
        """Forget a workload that was being added."""
        del self._coming[workload.id]

    def attach(self, workload: AttachedWorkload, made: VethEndpoint) -> None:
        """Turn a workload that was being added into an attached one; `made` is its endpoint as given to the kernel."""
        self._attached[workload.id] = workload
        del self._coming[workload.id]
        if self.endpoint(workload) == made:  # else the desired state changed meanwhile, and repairs are no drift
            self._settled |= _subjects(made)

    def replace(self, workload: AttachedWorkload) -> None:
        """Put another version of an attached workload in its place."""
        before = self._attached[workload.id]
        self._attached[workload.id] = workload
        self._note_ports(workload)
        if workload.labels != before.labels:
            self.relabellings += 1

    def remove(self, workload: AttachedWorkload) -> None:
        """Forget an attached workload and release its host end."""
        del self._attached[workload.id]
        self.unclaim(workload)
        self._settled -= _subjects(self.endpoint(workload))

    def forget_endpoint(self, workload: AttachedWorkload) -> None:
        """Drop the cached endpoint of a workload that was removed; do nothing if none is cached."""
        self._endpoints.forget(workload.id)

    def expect_changes(self) -> None:
        """Note that the desired state changes: what the reconciler changes because of that is not drift."""
        self._settled.clear()

    # ---- queries

    def __len__(self) -> int:
        return len(self._attached)

    def __iter__(self) -> t.Iterator[AttachedWorkload]:
        return iter(list(self._attached.values()))

    def __contains__(self, id: object) -> bool:
        return id in self._attached

    def get(self, id: str) -> t.Optional[AttachedWorkload]:
        """Return the attached workload of this id, or None."""
        return self._attached.get(id)

    def need(self, id: str) -> AttachedWorkload:
        """Return the attached workload of this id. Raise AgentError with code `not_found` if there is none."""
        workload = self._attached.get(id)
        if workload is None:
            raise not_found(id)
        return workload

    def publishers(self, protocol: str, host_port: int) -> list[tuple[AttachedWorkload, PublishedPort]]:
        """Return the workloads that publish a port of the host, at any of its addresses, each with that port."""
        ids = self._publishers.get((protocol, host_port), set())
        found = [
            (workload, port)
            for workload in (self._attached[id] for id in sorted(ids) if id in self._attached)
            for port in workload.ports
            if (port.protocol, port.host_port) == (protocol, host_port)
        ]
        ids.intersection_update(workload.id for workload, _port in found)
        return found

    def endpoint(self, workload: AttachedWorkload) -> VethEndpoint:
        """Return the endpoint of a workload under the present node state: its devices, addresses and settings.

        It is cached until `forget_endpoint`. Without a node state, the state's settings have their defaults. Raise
        ValueError for a workload without an address.
        """
        return self._endpoints.of(self._persisted.state or _NO_STATE, workload).endpoint

    def coming(self) -> tuple[VethEndpoint, ...]:
        """Return the endpoints of workloads being added, which policy must include before they become reachable."""
        return tuple(self.endpoint(workload) for workload in self._coming.values())

    def wanted(self, interface: str) -> bool:
        """Return whether a workload, attached, being added or of the inventory, has the host end `interface`.

        The probe endpoint counts as one.
        """
        return interface in self._interfaces or bool(self._in_inventory(interface))

    def settled(self, change: Change) -> bool:
        """Return whether a change is about a workload attached as desired since `expect_changes`: then it is drift."""
        subjects = change.subject.split(".") if change.kind == "sysctl" else [change.subject]
        return not self._settled.isdisjoint(subjects)

    def newly_opened(self) -> tuple[str, ...]:
        """Return the CIDRs of the spare blocks in use that are not in `opened`, so that they need a blackhole route."""
        return tuple(cidr for cidr in self._persisted.opened if cidr not in self.opened)

    def note_opened(self, opened: t.Collection[str]) -> None:
        """Note that the blackhole routes of the blocks `opened` (CIDRs) are in the kernel; forget blocks out of use."""
        self.opened = tuple(cidr for cidr in self._persisted.opened if cidr in self.opened or cidr in opened)

    def added_to(self, state: NodeState) -> NodeState:
        """Return `state` with the attached workloads added, their routes and sysctls, and with spare blocks opened.

        Opened blocks move to `ipam.blocks` and get blackhole routes. It is `state` itself if there is nothing to add.
        Left out are workloads without an address, or with a host end or address of one in the inventory or of one with
        a smaller id.
        """
        return with_workloads(state, self, self._persisted.opened, self._endpoints, self._published)

    def added_for_policy(self, state: NodeState) -> NodeState:
        """Return a copy of `state` with the workloads that `added_to` adds and their ports, but nothing else of it."""
        own = [found.endpoint for found in beside_inventory(state, self, self._endpoints)]
        return dataclasses.replace(
            state,
            workloads=(*state.workloads, *own),
            iptables=with_published(state.iptables, own, self._published),
        )

    def _note_ports(self, workload: AttachedWorkload) -> None:
        for port in workload.ports:
            self._published.update(port.families(workload.addresses))
            self._publishers.setdefault((port.protocol, port.host_port), set()).add(workload.id)

    def _in_inventory(self, interface: str) -> str:
        known = self._persisted.state.endpoints if self._persisted.state else ()
        found = next((found for found in known if found.interface == interface), None)
        return f"{workload_driver.identity(found)} of the inventory" if found else ""


def not_found(id: str) -> AgentError:
    """Return the AgentError, code `not_found`, for an id that no attached workload has."""
    # `id` may be any text, because no AddRequest has checked it.
    shown = id if len(id) <= 600 and id.isprintable() else repr(cut(id))
    return AgentError(protocol.NOT_FOUND, f"there is no workload {shown} on this node. See `calicoctl workload list`.")


def _subjects(endpoint: VethEndpoint) -> set[str]:
    """Return the subjects of changes about a workload: <namespace>/<name>, host end, and its routes' destinations."""
    routes = {route.destination for route in endpoint_routes(endpoint)}
    return {workload_driver.identity(endpoint), endpoint.interface, *routes}
