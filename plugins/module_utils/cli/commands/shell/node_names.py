# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that a completion on a node offers: those of its resources and workloads, and of the fleet's nodes.

On the controller, they are those of the nodes and workloads in the datastore, if there is a way to it.
"""

from __future__ import annotations

import collections
import typing as t

from ...errors import CommandError
from ...render import kinds
from ...render.kind import ResourceSource, name_of, namespace_of
from ...sources import Sources
from ..get import DEFAULT_NAMESPACE, NodeResources


class NodeNames:
    """The names that `sources` knows. What cannot be read has none: a completion reports no errors."""

    def __init__(self, sources: Sources) -> None:
        own = NodeResources(sources)
        self._resources: ResourceSource = own
        if not sources.is_node and sources.connection.possible:
            from ...fleet.fleet_resources import FleetResources

            self._resources = FleetResources(sources, own, says_so=False)

    def resources(self, kind: str, namespace: t.Optional[str]) -> t.Iterable[str]:
        try:
            found = kinds.find(kind)
            documents = self._resources.documents(found)
        except CommandError:
            return
        for document in documents:
            if not found.namespaced or namespace_of(document) == (namespace or DEFAULT_NAMESPACE):
                yield document["spec"].get("workload") or name_of(document)
        if found.name == "WorkloadEndpoint":
            yield from self._containers()

    def workloads(self) -> t.Iterable[str]:
        for document in self._endpoints():
            name, namespace = document["spec"]["workload"], namespace_of(document)
            yield name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"
        yield from self._containers()

    def _containers(self) -> t.Iterable[str]:
        """Yield the names that only one container's interface has: the others are refused."""
        names = collections.Counter(map(kinds.container_of, self._endpoints()))
        return (name for name, count in names.items() if name and count == 1)

    def nodes(self) -> t.Iterable[str]:
        return self.resources("nodes", None)

    def namespaces(self) -> t.Iterable[str]:
        return {namespace_of(document) for document in self._endpoints()}

    def _endpoints(self) -> list[dict[str, t.Any]]:
        try:
            return list(self._resources.documents(kinds.find("workloadendpoints")))
        except CommandError:
            return []
