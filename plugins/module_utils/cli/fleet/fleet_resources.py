# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a fleet for `get`: what this node knows, and what the datastore has of all other nodes."""

from __future__ import annotations

import functools
import typing as t

from ...datastore.keys import LIVE_KINDS
from ...state.fleet_list import FleetMember
from ..errors import CommandError
from ..render import kinds
from ..render.kind import Document, Kind, ResourceSource, document_of, name_of, namespace_of
from ..sources import Sources
from . import fleet_view


class FleetResources:
    """The resources of all nodes, or workload endpoints of `node` alone. `own` are those that this node knows.

    Nodes and workload endpoints are of the whole fleet, other kinds those of this node. `says_so` is that of
    `fleet_view.ask`. Methods raise CommandError.
    """

    def __init__(self, sources: Sources, own: ResourceSource, node: str = "", says_so: bool = True) -> None:
        self._sources, self._own, self._node, self._says_so = sources, own, node, says_so
        #: The revision of the datastore at the last listing of policy.
        self.revision = 0

    @functools.cached_property
    def _view(self) -> fleet_view.FleetView:
        return fleet_view.ask(self._sources, self._node, says_so=self._says_so)

    @functools.cached_property
    def as_number(self) -> t.Optional[int]:
        return self._own.as_number if self._sources.is_node else None

    def documents(self, kind: Kind) -> list[Document]:
        if kind.name == "WorkloadEndpoint":
            return self._workload_endpoints(kind)
        if self._sources.is_node:
            return self._own.documents(kind)
        if kind.name in LIVE_KINDS:
            return self._policy(kind)
        if kind.name == "Node":
            return self._nodes()
        raise CommandError(
            f"{self._sources.no_node()} The datastore has nodes, workload endpoints and policy for `get` alone. Name "
            "the inventory to ask with -i INVENTORY, or run this on a node."
        )

    def _policy(self, kind: Kind) -> list[Document]:
        """Return live documents and those of the inventory, each once. Nodes know theirs from the state on the disk."""
        from . import live_resources

        listed = live_resources.of_kind(self._sources.connection, kind)
        if listed is None:
            raise CommandError("there is no way to a datastore. Name a file with it by -c FILE, or -i INVENTORY.")
        for complaint in listed.complaints:
            self._sources.warn(complaint)
        self.revision = listed.revision
        return listed.documents

    def _workload_endpoints(self, kind: Kind) -> list[Document]:
        view = self._view
        found = self._own.documents(kind) if view.has_own else []
        if view.published is not None:
            from . import fleet_workloads

            found = [*found, *fleet_workloads.documents(view)]
        return sorted(found, key=lambda document: (namespace_of(document), name_of(document)))

    def _nodes(self) -> list[Document]:
        """Return the nodes as a run published them; of a user who may not read that, the nodes with blocks by name."""
        published = fleet_view.ask(self._sources, workloads=False, by_run=True).published
        if published is None:
            return []
        if published.members is None:
            return [document_of("Node", {"name": name}, {"bgp": {}}) for name in published.blocks]
        members: t.Iterable[FleetMember] = published.members.values()
        return [kinds.node(member, None, {}, None) for member in members]
