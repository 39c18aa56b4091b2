# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads of other nodes that come and go in the mirror of a datastore, as its feed reads them."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import KeyChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror, Position
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import WORKLOAD_ENDPOINT, Endpoint

Live = dict[tuple[str, str], t.Optional[Endpoint]]


def workloads(count: int, first: int = 0, node: str = "node2") -> Live:
    """Return workloads of a node by node and interface, with one address each."""
    return {
        (node, f"cali{number}"): Endpoint(
            WORKLOAD_ENDPOINT,
            f"default/w{number}",
            node,
            f"cali{number}",
            (address_of(number),),
            (("app", "client"),),
            namespace="default",
        )
        for number in range(first, first + count)
    }


def address_of(number: int) -> str:
    return f"10.244.{8 + number // 250}.{number % 250}"


def key_change(
    place: tuple[str, str], endpoint: t.Optional[Endpoint], revision: int, created: bool = False
) -> KeyChange:
    """Return the change of a workload's key; None removes it."""
    document = documents.encode_endpoint(documents.PublishedEndpoint(endpoint)) if endpoint is not None else None
    return KeyChange(keys.endpoint_key(*place), document, revision, created)


def publish(mirror: Mirror, changes: t.Mapping[tuple[str, str], t.Optional[Endpoint]], *complete: str) -> None:
    """Let a mirror read that these workloads came, changed or went (None), and that the nodes have published all.

    A node's first workload comes with its blocks.
    """
    revision = mirror.position.revision + 1 if mirror.position is not None else 1
    found = [
        KeyChange(keys.blocks_key(node), documents.encode_blocks(["10.0.0.0/8", "fd00::/8"]), revision, True)
        for node in dict.fromkeys(node for node, _interface in changes)
        if not mirror.blocks(node)
    ]
    for place, endpoint in changes.items():
        known = mirror.endpoint(keys.EndpointKey(*place)) is not None
        found.append(key_change(place, endpoint, revision, not known))
    found += [KeyChange(keys.complete_key(node), documents.COMPLETE, revision, True) for node in complete]
    mirror.change(found, Position(1, revision, revision))
