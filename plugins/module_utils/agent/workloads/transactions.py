# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transactions on workloads, as the API and container runtimes call them."""

from __future__ import annotations

import asyncio
import dataclasses
import typing as t

from ...base.published_port import PublishedPort
from ...dataplane.planning.registry import REGISTRY
from ...state.attachment import AttachedWorkload
from ...wire import protocol
from ...wire.container_description import ContainerDescription
from ...wire.protocol import AgentError
from ...wire.request import AddRequest
from ..known.desired_state import DesiredState
from ..known.persisted_state import PersistedState
from ..policy_log.flow_cuts import FlowCuts
from ..reconcile.passes import Passes
from . import check, delete, publish, updates
from .add import add
from .context import WorkloadContext
from .describe import Descriptions
from .updates import JoinedEnds


class Transactions:
    """The transactions on workloads, and what each has to have done before its answer.

    `on_full` is called for each add that finds no free address. `descriptions` are those of containers.
    """

    def __init__(
        self,
        on: WorkloadContext,
        joined: JoinedEnds,
        desired: DesiredState,
        passes: Passes,
        cuts: FlowCuts,
        on_full: t.Callable[[], None],
        descriptions: Descriptions,
    ) -> None:
        self._on = on
        self._joined = joined
        self._desired = desired
        self._passes = passes
        self._cuts = cuts
        self._on_full = on_full
        self.descriptions = descriptions

    @property
    def node(self) -> PersistedState:
        """What the agent has read from the disk: the node's state, its machine and its allocations."""
        return self._on.persisted

    async def add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload and return it with the MAC address of its link, and the link's MTU in bytes.

        Do and raise what `add.add` does; also publish the requested ports, and bring policy to labels that changed.
        """
        relabellings = self._on.table.relabellings
        try:
            workload = await self._add(request)
        except AgentError as error:
            if error.code == protocol.NO_ADDRESS:
                self._on_full()
            raise
        if self._on.table.relabellings != relabellings:
            await self._labels_in_force()
        return workload

    async def _add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload, and publish its ports if the request has any; if that fails, a new one is deleted."""
        new = request.id not in self._on.table
        workload = await add(self._on, request)
        if request.ports is None:
            return workload
        try:
            shown = await publish.publish(self._on, workload.id, request.ports)
        except BaseException:
            if new:
                await asyncio.shield(asyncio.ensure_future(delete.delete(self._on, workload.id)))
            raise
        return dataclasses.replace(workload, ports=shown.ports)

    async def publish(self, id: str, ports: t.Sequence[PublishedPort]) -> AttachedWorkload:
        """Publish exactly these ports of the host for a workload, and return it, as `publish.publish` does."""
        return await publish.publish(self._on, id, ports)

    async def withdraw(self, id: str) -> bool:
        """Withdraw all published ports of a workload, as `publish.withdraw` does."""
        return await publish.withdraw(self._on, id)

    async def delete(self, id: str) -> bool:
        """Delete a workload; return True, or False if the node has neither a workload nor a known address for this id.

        Do and raise what `delete.delete` does; also complete the inner ends of those that shared its namespace.
        """
        workload = self._on.table.get(id)
        deleted = await delete.delete(self._on, id)
        if workload is not None:
            # With its interface, a container engine may have removed the default route of another one.
            self._joined.expect(updates.siblings(self._on, workload))
        return deleted

    async def relabel(self, id: str, labels: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
        """Set these labels on a workload beside its own, None removing one; return it.

        Do and raise what `updates.relabel` does. Afterwards this node's policy follows the new labels, unless the
        node's problems say otherwise, and connections that it denies are cut if the settings want that.
        """
        workload = await updates.relabel(self._on, id, labels)
        await self._labels_in_force()
        return workload

    async def describe(self, description: ContainerDescription) -> t.List[AttachedWorkload]:
        """Give a container's name and labels to its workloads; return those that changed.

        Do and raise what `Descriptions.describe` does. Policy follows other labels as after `relabel`.
        """
        relabellings = self._on.table.relabellings
        try:
            return await self.descriptions.describe(description)
        finally:
            if self._on.table.relabellings != relabellings:
                await self._labels_in_force()

    async def join(self, id: str, netns: str) -> tuple[AttachedWorkload, t.List[str]]:
        """Record where a container engine moves an inner end, as `updates.join`, and complete that end later."""
        found = await updates.join(self._on, id, netns)
        self._joined.expect([id])
        return found

    async def _labels_in_force(self) -> None:
        """Bring policy, if any, to the present labels, and cut connections if wanted. Errors become problems."""
        if self._desired.has_policy:
            await self._passes.resync(REGISTRY.guards)
            await self._cuts.cut()

    def get(self, id: str) -> t.Optional[AttachedWorkload]:
        """Return the attached workload of this id, or None."""
        return self._on.table.get(id)

    def list(self) -> t.List[AttachedWorkload]:
        """Return the attached workloads, sorted by id."""
        return sorted(self._on.table, key=lambda workload: workload.id)

    async def check(self, id: str) -> t.List[str]:
        """Return texts that say how a workload differs from its desired state, as `check.check` does."""
        return await check.check(self._on, id, self._desired.need)

    def health(self) -> t.List[str]:
        """Return why the node accepts no new workload, a list of one text; [] if it does.

        Free addresses are not looked for: without any, adds fail although this is [].
        """
        try:
            self._on.persisted.need_for_add()
        except AgentError as error:
            return [error.message]
        return []

    async def release_address(self, address: str) -> None:
        """Free an address that no workload uses, as `delete.release_address` does."""
        await delete.release_address(self._on, address)
