# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of an inventory as Calico's documents, and the blocks and addresses of its plan."""

from __future__ import annotations

import functools
import ipaddress
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import peer_extensions
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peer_definition import PeerDefinition
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import ipam as ipam_command
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.kind import (
    Document,
    View,
    document_of,
    name_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler, variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_announcements import (
    COMMUNITIES,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_peer_inventory import UNNAMED
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import (
    OWN_RESERVATION,
    Merged,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.node_inventory import (
    HOSTNAME_LABEL,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Allocations
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import setting_fields
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeIpam, NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

Data = dict[str, t.Any]


def resources(fleet: Fleet, sources: Merged) -> dict[str, list[Document]]:
    """Return all resources by the name of their kind: those of the inventory, and nodes with addresses of the plan.

    `sources` are what the fleet is made of. Without BGP, the kinds of BGP have none. Workload endpoints are the
    inventory's. As documents of files beside an inventory without variables for them, they mean the same fleet.
    """
    own = {
        "Node": _nodes(fleet),
        "IPPool": [pool.to_document() for pool in fleet.pools],
        "IPReservation": _reservations(fleet, sources.reservations),
        "FelixConfiguration": [_settings("FelixConfiguration", sources.hosts)],
        "WorkloadEndpoint": [document for view in _views(fleet) for document in kinds.find("wep").documents(view)],
        **(_of_bgp(fleet, sources.hosts) if fleet.settings.bgp_enabled else {}),
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


def _reservations(fleet: Fleet, written: t.Sequence[t.Mapping[str, t.Any]]) -> list[Document]:
    """Return the IPReservations of documents, and one with the ranges of variables, if there are any."""
    known = {ipaddress.ip_network(cidr) for one in written for cidr in one["spec"].get("reservedCIDRs", ())}
    rest = [cidr for cidr in fleet.settings.ip_reservations if ipaddress.ip_network(cidr) not in known]
    own = [document_of("IPReservation", {"name": OWN_RESERVATION}, {"reservedCIDRs": rest})] if rest else []
    return sorted([*map(dict, written), *own], key=name_of)


def _values(kind: str, hosts: t.Iterable[Host], of_node: bool = False) -> dict[str, t.Any]:
    """Return the values of the variables for the fields of a kind of settings, as far as they are set, by name."""
    hosts = list(hosts)
    found = {}
    for variable in {field.variable for field in setting_fields.fields_of(kind, of_node)}:
        value = variables.of_host(hosts[0], variable) if of_node else variables.of_fleet(hosts, variable)
        if value is not None:
            found[variable] = value
    return found


def _settings(kind: str, hosts: t.Sequence[Host]) -> Document:
    return setting_fields.document_of(kind, setting_fields.DEFAULT, _values(kind, hosts))


def _bgp_configurations(fleet: Fleet, hosts: t.Sequence[Host]) -> t.Iterator[Document]:
    """Yield the BGPConfiguration of the fleet, with all that counts without a variable, and those of nodes.

    A community has its value for its name where the document does not say what the name means.
    """
    settings, bgp = fleet.settings, fleet.bgp
    spec = _settings("BGPConfiguration", hosts)["spec"]
    if not spec.get("prefixAdvertisements"):
        spec.pop("communities", None)
    flat = {
        "asNumber": settings.as_number,
        "listenPort": settings.listen_port,
        "logSeverityScreen": settings.log_severity,
        "nodeToNodeMeshEnabled": bgp.unasked.mesh,
        "bindMode": bgp.bind_mode,
        "ignoredInterfaces": list(bgp.announcements.ignored_interfaces),
    }
    yield kinds.bgp_configuration({**spec, **flat}, ())
    named = {entry["name"]: entry["value"] for entry in variables.of_fleet(hosts, COMMUNITIES) or ()}
    for host in hosts:
        own = _values("BGPConfiguration", [host], of_node=True)
        if own:
            name = f"{setting_fields.OF_NODE}{host.name}"
            document = setting_fields.document_of("BGPConfiguration", name, own, of_node=True)
            for entry in document["spec"].get("prefixAdvertisements", ()):
                entry["communities"] = [named.get(one, one) for one in entry["communities"]]
            yield document


def _of_bgp(fleet: Fleet, hosts: t.Sequence[Host]) -> dict[str, list[Document]]:
    bgp = fleet.bgp
    return {
        "BGPConfiguration": list(_bgp_configurations(fleet, hosts)),
        "BGPFilter": [one.to_document() for one in bgp.announcements.filters.values()],
        "BGPPeer": [_bgp_peer(given) for given in bgp.peers],
    }


def _bgp_peer(given: PeerDefinition) -> Document:
    """Return a peer of the inventory as a BGPPeer, with the nodes that it is written for.

    One without a name gets that of its place. Annotations stand for what Calico has no field for, such as BFD.
    """
    document = given.peer.to_document()
    metadata, spec = dict(document["metadata"]), dict(document["spec"])
    extensions = peer_extensions.as_annotations(given.extensions)
    if given.extensions.keepaliveTime is not None:
        spec[peer_extensions.KEEPALIVE] = f"{given.extensions.keepaliveTime}s"
    if extensions:
        metadata["annotations"] = {**metadata.get("annotations", {}), **extensions}
    if given.peer.name == UNNAMED:
        metadata["name"] = name_of_place(given.where)
    if given.members is not None and not given.peer.node:
        chosen = given.peer.nodeSelector
        if len(given.members) == 1 and not chosen:
            (spec["node"],) = given.members
        else:
            names = ", ".join(f"'{name}'" for name in sorted(given.members))
            members = f"{HOSTNAME_LABEL} in {{ {names} }}"
            spec["nodeSelector"] = f"({chosen}) && {members}" if chosen else members
    return {**document, "metadata": metadata, "spec": spec}


def name_of_place(label: str) -> str:
    """Return the name of a BGPPeer without one, whose entry of a list errors call `label`."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


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
