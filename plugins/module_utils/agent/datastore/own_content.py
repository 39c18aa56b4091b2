# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this node has to publish: a document for each of its workloads, those of the inventory marked as such."""

from __future__ import annotations

import typing as t

from ...datastore import documents, keys
from ...datastore.documents import PublishedEndpoint
from ...policy.model import Endpoint
from ...state.answers import details
from ...state.answers.details import EndpointDetails
from ...state.attachment import AttachedWorkload
from ...state.node_policy_tables import own_endpoint, planned
from ...state.node_state import NodeState, VethEndpoint
from ...state.policy_state import PolicyState

_NO_POLICY = PolicyState()


class OwnContent(t.NamedTuple):
    """All keys that must stand below a node's prefix of workloads, with the documents about `workloads`."""

    node: str
    documents: t.Mapping[str, bytes]
    workloads: t.Sequence[VethEndpoint] = ()

    def names(self) -> dict[str, str]:
        """Return {key: <namespace>/<name> of its workload}."""
        return {keys.endpoint_key(self.node, one.interface): f"{one.namespace}/{one.name}" for one in self.workloads}


class _Encoded(t.NamedTuple):
    workload: VethEndpoint
    planned: bool
    details: EndpointDetails
    document: bytes


class OwnDocuments:
    """The documents of the node's workloads. One is encoded again only if its workload or the policy has changed."""

    def __init__(self) -> None:
        self._encoded: dict[str, _Encoded] = {}  # by interface
        self._policy = _NO_POLICY
        self._planned: t.Mapping[str, Endpoint] = {}
        self._node = ""

    def content(
        self,
        state: NodeState,
        inventory: t.Iterable[VethEndpoint],
        about: t.Callable[[VethEndpoint], EndpointDetails] = lambda dummy: details.NONE,
    ) -> OwnContent:
        """Return what a node publishes: `state` has all workloads, `inventory` the planned ones. Raise InvalidKey."""
        policy = state.policy or _NO_POLICY
        last = self._policy
        if (policy.endpoints, policy.settings, state.node) != (last.endpoints, last.settings, self._node):
            self._planned, self._encoded = planned(policy, state.node), {}
        self._policy, self._node = policy, state.node
        before, self._encoded = self._encoded, {}
        by_inventory = {workload.interface for workload in inventory}
        found: dict[str, bytes] = {}
        for workload in state.workloads:
            interface = workload.interface
            known = before.get(interface)
            is_planned = interface in by_inventory
            shown = about(workload)
            if known is None or known.workload is not workload or known[1:3] != (is_planned, shown):
                endpoint = own_endpoint(state.node, workload, policy, self._planned)
                document = documents.encode_endpoint(PublishedEndpoint(endpoint, is_planned, shown))
                known = _Encoded(workload, is_planned, shown, document)
            self._encoded[interface] = known
            found[keys.endpoint_key(state.node, interface)] = known.document
        found[keys.complete_key(state.node)] = details.COMPLETE
        return OwnContent(state.node, found, state.workloads)


def details_of(workload: VethEndpoint, attached: t.Optional[AttachedWorkload]) -> EndpointDetails:
    """Return the details of a node's own workload. `attached` is its record, None for one of the inventory."""
    return EndpointDetails(
        pool=workload.pool or workload.pool6,
        by="" if attached is None else attached.attached_by or "api",
        endpoint=workload.peer_interface,
        container=attached.container if attached is not None else "",
        mac=(workload.mac or "").lower(),
        name=attached.container_name if attached is not None else "",
    )
