# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of a fleet as `get` and `workload list` show them. No I/O.

A node publishes what policy needs: names, addresses, labels and the host's end of the interface. The details beside
that are missing while the fleet has agents of an earlier release. The namespace of the network is known on its own node
alone.
"""

from __future__ import annotations

import typing as t

from ...base.addresses import host
from ...base.naming import NAMESPACE_LABEL
from ...base.naming import NAMESPACE_PREFIX as PREFIX
from ...datastore.documents import PublishedEndpoint
from ...policy.documents import to_resources
from ...state.answers.details import EndpointDetails
from ..render import kinds
from ..render.kind import Document
from ..sources import Data
from .fleet_view import FleetView

#: The words for the source of a workload that another node has published.
INVENTORY, AGENT = "inventory", "agent"
#: The orchestrators of workloads that no runtime attached, as `get` of a node's own workloads names them.
_ORCHESTRATORS = {"": AGENT, "api": "calicoctl"}


def published(view: FleetView) -> t.Iterator[PublishedEndpoint]:
    """Yield the published workloads of the view, without those of this node."""
    for one in view.published.workloads if view.published is not None else ():
        if not view.has_own or one.endpoint.node != view.own:
            yield one


def documents(view: FleetView) -> t.Iterator[Document]:
    """Yield a WorkloadEndpoint for each published workload of other nodes.

    Its name ends in the host's interface if the one inside is not published.
    """
    for one in published(view):
        endpoint = one.endpoint
        yield kinds.workload_endpoint(
            endpoint.node,
            "ansible" if one.planned else _ORCHESTRATORS.get(one.details.by, one.details.by),
            {
                "workload": endpoint.name.partition("/")[2],
                "namespace": endpoint.namespace,
                "labels": _labels(one),
                "endpoint": one.details.endpoint,
                "ipNetworks": [host(address) for address in endpoint.addresses],
                "profiles": list(endpoint.profiles),
                "ports": to_resources.ports(endpoint.ports),
                "interfaceName": endpoint.interface,
                "containerID": one.details.container,
                "mac": one.details.mac,
                "container": one.details.name,
            },
        )


def entries(view: FleetView) -> t.Iterator[Data]:
    """Yield the fields of each published workload of other nodes, as far as they are known, for `workload list`."""
    for one in published(view):
        endpoint = one.endpoint
        yield {
            "id": endpoint.name,
            "name": endpoint.name.partition("/")[2],
            "namespace": endpoint.namespace,
            "node": endpoint.node,
            "interface": endpoint.interface,
            "addresses": list(endpoint.addresses),
            "labels": _labels(one),
            "by": by(one),
            **{name: text for name, text in _named(one.details).items() if text},
        }


def by(one: PublishedEndpoint) -> str:
    """Return who attached a published workload: "inventory", the runtime, or "agent" where that is not published."""
    return INVENTORY if one.planned else one.details.by or AGENT


def _named(details: EndpointDetails) -> dict[str, str]:
    """Return the details as `workload list` of this node names them."""
    return {
        "pool": details.pool,
        "peer_interface": details.endpoint,
        "container": details.container,
        "mac": details.mac,
        "container_name": details.name,
    }


def _labels(published: PublishedEndpoint) -> dict[str, str]:
    """Return a workload's own labels, without those that its namespace gives it."""
    return {
        name: value
        for name, value in published.endpoint.labels
        if name != NAMESPACE_LABEL and not name.startswith(PREFIX)
    }
