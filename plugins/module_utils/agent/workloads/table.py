# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads attached on this node, in memory: what is attached, what is coming, and whose device is whose."""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers import workload as workload_driver
from ...state.attachment import AttachedWorkload, OwnEndpoints, beside_inventory, endpoint_routes, with_workloads
from ...state.node_state import NodeState, VethEndpoint
from ..api import protocol
from ..api.protocol import AgentError
from ..persisted_state import PersistedState

_NO_STATE = NodeState(node="", address="")


class WorkloadTable:
    """The attached workloads by id; iterating gives them. Belongs to the event loop.

    A workload that is being added is `coming` from the beginning of its record until it is attached or undone. At any
    moment of the loop a workload is coming or attached, until it is removed. `opened` are the spare blocks whose unused
    addresses end at this node by a route. `relabellings` counts changes of the labels of attached workloads.
    """

    def __init__(self, persisted: PersistedState) -> None:
        self._persisted = persisted
        self._attached: dict[str, AttachedWorkload] = {}
        self._coming: dict[str, AttachedWorkload] = {}
        self._interfaces: dict[str, str] = {}  # host end: id of the workload that has it, or is being added with it
        self._endpoints = OwnEndpoints()
        self._settled: set[str] = set()  # subjects of changes, of workloads that were attached as the state wants them
        self.opened: tuple[str, ...] = ()
        self.relabellings = 0

    # ---- changes

    def load(self, workloads: t.Iterable[AttachedWorkload]) -> None:
        """Take what the records hold, at the start."""
        self.opened = self._persisted.opened
        self._attached = {workload.id: workload for workload in workloads}
        self._interfaces = {workload.interface: workload.id for workload in self._attached.values()}

    def claim(self, workload: AttachedWorkload) -> None:
        """Reserve the workload's host end. Raises AgentError conflict if another workload has it."""
        other = self._interfaces.get(workload.interface) or self._in_inventory(workload.interface)
        if other:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {workload.id} would have the device {workload.interface}, which belongs to workload {other}."
                " A node has one workload of a namespace and name: choose another name.",
            )
        self._interfaces[workload.interface] = workload.id

    def unclaim(self, workload: AttachedWorkload) -> None:
        """Give the workload's host end up."""
        self._interfaces.pop(workload.interface, None)

    def begin(self, workload: AttachedWorkload) -> None:
        """Record that a workload is being added, so that policy already counts it."""
        self._coming[workload.id] = workload

    def abandon(self, workload: AttachedWorkload) -> None:
        """Forget a workload that was coming."""
        del self._coming[workload.id]

    def attach(self, workload: AttachedWorkload, made: VethEndpoint) -> None:
        """Make a workload that was coming an attached one; `made` is the endpoint that the kernel has of it."""
        self._attached[workload.id] = workload
        del self._coming[workload.id]
        if self.endpoint(workload) == made:  # else the state changed meanwhile: what follows from that is no drift
            self._settled |= _subjects(made)

    def replace(self, workload: AttachedWorkload) -> None:
        """Take another version of an attached workload."""
        before = self._attached[workload.id]
        self._attached[workload.id] = workload
        if workload.labels != before.labels:
            self.relabellings += 1

    def remove(self, workload: AttachedWorkload) -> None:
        """Forget an attached workload, and give its host end up."""
        del self._attached[workload.id]
        self.unclaim(workload)
        self._settled -= _subjects(self.endpoint(workload))

    def forget_endpoint(self, workload: AttachedWorkload) -> None:
        """Drop what is cached of a workload that does not come back."""
        self._endpoints.forget(workload.id)

    def expect_changes(self) -> None:
        """Note that the state changes: what the reconciler changes because of that is no drift."""
        self._settled.clear()

    # ---- queries

    def __len__(self) -> int:
        return len(self._attached)

    def __iter__(self) -> t.Iterator[AttachedWorkload]:
        return iter(list(self._attached.values()))

    def __contains__(self, id: object) -> bool:
        return id in self._attached

    def get(self, id: str) -> t.Optional[AttachedWorkload]:
        """Return an attached workload, None if there is none of this id."""
        return self._attached.get(id)

    def need(self, id: str) -> AttachedWorkload:
        """Return an attached workload. Raises AgentError not_found."""
        workload = self._attached.get(id)
        if workload is None:
            raise not_found(id)
        return workload

    def endpoint(self, workload: AttachedWorkload) -> VethEndpoint:
        """Return what the present state makes of a workload."""
        return self._endpoints.of(self._persisted.state or _NO_STATE, workload)

    def coming(self) -> tuple[VethEndpoint, ...]:
        """Return the endpoints of workloads that are coming: policy has to know them before they can be reached."""
        return tuple(self.endpoint(workload) for workload in self._coming.values())

    def wanted(self, interface: str) -> bool:
        """Return whether `interface` is the host end of a workload that is attached or coming, or the inventory's."""
        return interface in self._interfaces or bool(self._in_inventory(interface))

    def settled(self, change: Change) -> bool:
        """Return whether a change is about a workload that was attached here as it had to be.

        Such a change is drift, also when the reconciler has not seen that workload before.
        """
        subjects = change.subject.split(".") if change.kind == "sysctl" else [change.subject]
        return not self._settled.isdisjoint(subjects)

    def newly_opened(self) -> tuple[str, ...]:
        """Return the spare blocks that were opened since the last add that succeeded."""
        return tuple(cidr for cidr in self._persisted.opened if cidr not in self.opened)

    def routes_stand(self, opened: t.Collection[str]) -> None:
        """Note that the routes of these newly opened blocks are in the kernel."""
        self.opened = tuple(cidr for cidr in self._persisted.opened if cidr in self.opened or cidr in opened)

    def added_to(self, state: NodeState) -> NodeState:
        """Return `state` with the attached workloads and the opened blocks."""
        return with_workloads(state, self, self._persisted.opened, self._endpoints)

    def added_for_policy(self, state: NodeState) -> NodeState:
        """Return `state` with the attached workloads alone, which is all that policy depends on, and cheaper."""
        own = beside_inventory(state, self, self._endpoints)
        return dataclasses.replace(state, workloads=(*state.workloads, *own))

    def _in_inventory(self, interface: str) -> str:
        known = self._persisted.state.workloads if self._persisted.state else ()
        found = next((found for found in known if found.interface == interface), None)
        return f"{workload_driver.identity(found)} of the inventory" if found else ""


def not_found(id: str) -> AgentError:
    """Return the error for an id that no attached workload has."""
    # An id that no AddRequest would take may be any text.
    shown = id if len(id) <= 600 and id.isprintable() else repr(id if len(id) <= 80 else id[:77] + "...")
    return AgentError(protocol.NOT_FOUND, f"there is no workload {shown} on this node. See `calicoctl workload list`.")


def _subjects(endpoint: VethEndpoint) -> set[str]:
    """Return the subjects of changes about a workload: its own, its device's (with its sysctls), its routes'."""
    routes = {route.destination for route in endpoint_routes(endpoint)}
    return {workload_driver.identity(endpoint), endpoint.interface, *routes}
