# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about route reflectors: missing ones, their clients, and the failure of one of them."""

from __future__ import annotations

import typing as t

from .finding import Issue
from .network import LintedFleet, cluster_id_of, counted, listed

#: The number of nodes above which route reflectors are better than a full mesh, as Calico's documentation says.
LARGE = 100


def without_clients(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a reflector without clients.

    A reflector is a node with a cluster id. Its clients are iBGP peers: it reflects for no other AS.
    """
    for name, clients in network.reflectors.items():
        if not clients:
            yield Issue(
                cluster_id_of(network, name),
                f"makes {name} a route reflector, but it has no clients.",
                "Give it clients (calico_node_route_reflector_clients, or a BGPPeer with peerSelector), or take the "
                "role from it.",
                network.place_of(name),
            )


def only_one(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a fleet with a single reflector and no mesh: no other reflector takes over if it fails."""
    working = [name for name, clients in network.reflectors.items() if clients]
    if len(working) == 1 and not network.mesh:
        name = working[0]
        yield Issue(
            cluster_id_of(network, name),
            f"makes {name} the only route reflector: while it is down, nodes learn no new routes, and after the "
            "graceful restart time they lose all routes.",
            "Make another host a reflector, too, with the same clients.",
            network.place_of(name),
        )


def one_of_several(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes that are clients of only one of several reflectors.

    Nodes in the mesh or with other sessions are left out. Reflectors without clients do not count.
    """
    working = [name for name, clients in network.reflectors.items() if clients]
    if len(working) < 2:
        return
    hearing: dict[str, list[str]] = {}
    for name, sessions in network.sessions.items():
        serving = {peer.node for peer in sessions if peer.kind == "reflector"}
        others = [peer for peer in sessions if peer.kind != "reflector"]
        if len(serving) == 1 and not others and name not in network.mesh:
            hearing.setdefault(serving.pop(), []).append(name)
    for reflector, nodes in hearing.items():
        yield Issue(
            cluster_id_of(network, reflector),
            f"makes {reflector} the only reflector of {listed(nodes)}: while it is down, "
            f"{'these nodes learn' if len(nodes) > 1 else 'that node learns'} no routes.",
            "Let a second reflector have them as clients.",
            network.place_of(reflector),
        )


def apart_in_one_cluster(network: LintedFleet) -> t.Iterator[Issue]:
    """Report reflectors of one cluster id with different clients: each drops the other's reflected routes (RFC 4456).

    Each of the two has a client that the other lacks. It makes one issue for each cluster id.
    """
    clusters: dict[str, dict[frozenset[str], str]] = {}
    for name, clients in network.reflectors.items():
        if clients:
            clusters.setdefault(network.speakers[name].cluster_id, {}).setdefault(clients, name)
    for cluster, groups in clusters.items():
        sets = list(groups.items())
        for index, (clients, name) in enumerate(sets):
            apart = next(
                ((theirs, other) for theirs, other in sets[:index] if clients - theirs and theirs - clients), None
            )
            if apart:
                theirs, other = apart
                yield Issue(
                    "calico_rr_cluster_id" if network.speakers[name].reflector else cluster_id_of(network, name),
                    f"is the cluster id of {other} and of {name}, which have different clients: each drops the routes "
                    f"that the other reflected. {counted(len(theirs - clients), 'client')} of {other} only and "
                    f"{len(clients - theirs)} of {name} only learn no routes to each other.",
                    "Give reflectors of different clients different cluster ids "
                    "(calico_node_route_reflector_cluster_id), or all of them all clients.",
                    value=cluster,
                )
                break


def beside_the_mesh(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a mesh beside reflectors that serve its nodes: each node still has a session with every other one."""
    reflecting = [name for name, clients in network.reflectors.items() if clients & _mesh_addresses(network)]
    if len(network.mesh) > 1 and reflecting:
        yield Issue(
            "calico_bgp_node_to_node_mesh",
            f"keeps {len(network.mesh)} nodes in a full mesh although {listed(reflecting)} "
            f"{'reflect' if len(reflecting) > 1 else 'reflects'} for them.",
            "Set it to false with playbooks/switch_topology.yml when all have sessions with the reflectors.",
            value=True,
        )


def _mesh_addresses(network: LintedFleet) -> set[str]:
    return {address for name in network.mesh for dummy, address, number in network.speakers[name].ends}


def mesh_too_large(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a mesh in a fleet of more than 100 nodes: sessions grow quadratically with the nodes."""
    settings, nodes = network.fleet.settings, len(network.fleet.nodes)
    if settings.bgp_enabled and network.fleet.bgp.unasked.mesh and nodes > LARGE:
        yield Issue(
            "calico_bgp_node_to_node_mesh",
            f"means {nodes - 1} sessions on each of {nodes} nodes, {nodes * (nodes - 1) // 2} in all.",
            "Put two or more hosts into group calico_rr: as route reflectors they leave each node two sessions.",
        )
