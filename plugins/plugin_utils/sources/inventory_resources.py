# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of an inventory as Calico's documents, and the blocks and addresses of its plan."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peer_definition import PeerDefinition
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import ipam as ipam_command
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.kind import Document, View
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_peer_inventory import UNNAMED
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.node_inventory import (
    HOSTNAME_LABEL,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Allocations
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeIpam, NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

Data = dict[str, t.Any]


def resources(fleet: Fleet) -> dict[str, list[Document]]:
    """Return all resources by the name of their kind: those of the inventory, and nodes with addresses of the plan.

    Without BGP, the kinds of BGP have none. Workload endpoints are the inventory's.
    """
    own = {
        "Node": _nodes(fleet),
        "IPPool": [pool.to_document() for pool in fleet.pools],
        "WorkloadEndpoint": [document for view in _views(fleet) for document in kinds.find("wep").documents(view)],
        **(_of_bgp(fleet) if fleet.settings.bgp_enabled else {}),
    }
    policy = fleet.policy.policy if fleet.policy else None
    whole = View(
        functools.partial(
            NodeState,
            "",
            "",
            ipam=NodeIpam(reservations=fleet.settings.ip_reservations),
            policy=PolicyState(policy.policy_set, policy.host_endpoints) if policy else None,
        )
    )
    return {kind.name: own[kind.name] if kind.name in own else kind.documents(whole) for kind in kinds.KINDS}


def _nodes(fleet: Fleet) -> list[Document]:
    return [
        kinds.node(
            member,
            fleet.settings.as_number,
            fleet.ipam_of(member.name).tunnels,
            fleet.bgp.speakers[member.name].cluster_id,
        )
        for member in fleet.members
    ]


def _views(fleet: Fleet) -> t.Iterator[View]:
    """Yield what each node with workloads of the inventory knows about them."""
    for name in sorted(fleet.workloads):
        endpoints = fleet.policy.own.get(name, ()) if fleet.policy else ()
        policy = PolicyState(endpoints=endpoints)
        workloads = compiler.workloads_of(fleet, name)
        yield View(functools.partial(NodeState, name, "", workloads=workloads, policy=policy))


def _of_bgp(fleet: Fleet) -> dict[str, list[Document]]:
    settings, bgp = fleet.settings, fleet.bgp
    flat = {
        "asNumber": settings.as_number,
        "listenPort": settings.listen_port,
        "logSeverityScreen": settings.log_severity,
        "nodeToNodeMeshEnabled": bgp.unasked.mesh,
        "bindMode": bgp.bind_mode,
        "ignoredInterfaces": list(bgp.announcements.ignored_interfaces),
    }
    return {
        "BGPConfiguration": [kinds.bgp_configuration(flat, bgp.announcements.communities)],
        "BGPFilter": [one.to_document() for one in bgp.announcements.filters.values()],
        "BGPPeer": [_bgp_peer(given) for given in bgp.peers],
    }


def _bgp_peer(given: PeerDefinition) -> Document:
    """Return a peer of the inventory as a BGPPeer, with the nodes that it is written for.

    One without a name gets that of its place. What a BGPPeer has no field for, such as BFD, is left out.
    """
    document = given.peer.to_document()
    metadata, spec = dict(document["metadata"]), dict(document["spec"])
    if given.peer.name == UNNAMED:
        metadata["name"] = re.sub(r"[^a-z0-9]+", "-", given.where.lower()).strip("-")
    if given.members is not None and not given.peer.node:
        chosen = given.peer.nodeSelector
        if len(given.members) == 1 and not chosen:
            (spec["node"],) = given.members
        else:
            names = ", ".join(f"'{name}'" for name in sorted(given.members))
            members = f"{HOSTNAME_LABEL} in {{ {names} }}"
            spec["nodeSelector"] = f"({chosen}) && {members}" if chosen else members
    return {**document, "metadata": metadata, "spec": spec}


def ipam(fleet: Fleet) -> Data:
    """Return the blocks and addresses that the plan gives to nodes, as JSON-ready data.

    `usage` has the fields of Usage and the node for each block, `allocations` an address, handle and attributes for
    each address of a tunnel or workload, `pools` the CIDR of each pool by name, and `configuration` Calico's settings.
    What agents assigned is not in it.
    """
    usage: list[Data] = []
    addresses: list[Data] = []
    most = 0
    for name, node in fleet.nodes.items():
        if not node.workload_node:
            continue
        own = fleet.ipam_of(name)
        state = NodeState(name, "", ipam=own, workloads=compiler.workloads_of(fleet, name))
        planned = list(ipam_command.planned(state))
        allocations = Allocations()
        held = {entry["address"]: entry["handle"] for entry in planned}
        allocations.grant(own.blocks, own.spare_blocks, held, own.reservations)
        usage += [{**block._asdict(), "node": name} for block in allocations.usage(0.0)]
        addresses += planned
        most = max(most, len(own.blocks) + len(own.spare_blocks))
    return {
        "usage": usage,
        "allocations": addresses,
        "pools": {pool.name: pool.cidr for pool in fleet.pools},
        "configuration": ipam_command.configuration(most),
    }
