# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases for the rules about BGP: inventories that break a rule, and similar ones that do not."""

from __future__ import annotations

import typing as t

from tests.unit.fleet.fleets import ADDRESSES6, LAB, pool
from tests.unit.fleet.lint.networks import Case

RR1 = {"rr1": "10.10.1.2/24"}
RR2 = {"rr2": "10.10.2.2/24"}
RACK_A = {"calico_node_labels": {"rack": "a"}}
RACK_B = {"calico_node_labels": {"rack": "b"}}
RACKS = {"node1": RACK_A, "node2": RACK_A, "node3": RACK_B, "node4": RACK_B}
#: {host: its variables}: the nodes have racks, and each of rr1 and rr2 reflects for one rack.
OWN_RACK = {
    **RACKS,
    "rr1": {"calico_node_route_reflector_clients": "rack == 'a'"},
    "rr2": {"calico_node_route_reflector_clients": "rack == 'b'"},
}
OTHER_CLUSTER = {"calico_node_route_reflector_cluster_id": "244.0.0.2"}
TOR = {"name": "tor-a", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "rack == 'a'"}
TOR_B = {"name": "tor-b", "peerIP": "10.10.2.1", "asNumber": 65000, "nodeSelector": "rack == 'b'"}
SECRET = {"secretKeyRef": {"name": "tor", "key": "password"}}
SECRETS = {"tor": {"password": "x"}}
#: {node: its variables}: its rack, and the AS number of the rack (64513 for rack a, 64514 for b).
RACK_AS = {
    name: {**rack, "calico_node_bgp_as_number": 64513 if rack is RACK_A else 64514} for name, rack in RACKS.items()
}
TORS: dict[str, t.Any] = {"bgp_peers": [TOR, TOR_B], "bgp_node_to_node_mesh": False}
ALL_BUT_RR2 = {"rr2": {"calico_node_route_reflector_clients": "!all()"}}
NODES = {"name": "all", "nodeSelector": "all()", "peerSelector": "all()"}


def one(name: str, selector: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "nodeSelector": f"kubernetes.io/hostname == '{name}'", "peerSelector": selector, **more}


def host(name: str) -> str:
    return f"kubernetes.io/hostname == '{name}'"


#: The pools of a fleet with a tunnelled pool, and one without a tunnel on both subnets.
RACK_POOLS = [pool("vxlan", "a", "10.1.0.0/16"), pool("direct", "racks", "10.2.0.0/16")]
UNKNOWN_TO_ROUTERS = (
    "routers drop packets between the subnets. Let these nodes peer with the routers (calico_bgp_peers), set ipipMode "
    "or vxlanMode to CrossSubnet, or name the pool in calico_pools_known_to_routers if the routers have routes to its "
    "blocks otherwise. [pool-unknown-to-routers]"
)
ON_BOTH_SUBNETS = (
    "warning: calico_ip_pools[1].cidr 10.2.0.0/16 is pool racks without a tunnel on 2 subnets (10.10.1.0/24 and "
    "10.10.2.0/24), and no router learns the blocks of"
)

BGP_CASES: list[Case] = [
    Case(
        "pool-unknown-to-routers",
        {"pools": RACK_POOLS},
        [
            f"{ON_BOTH_SUBNETS} node1, node2, node3 and node4 by BGP: {UNKNOWN_TO_ROUTERS}",
        ],
        {"pools": RACK_POOLS, "own": RACKS, **TORS},
    ),
    Case(
        "pool-unknown-to-routers",
        {"pools": RACK_POOLS, "own": RACKS, "bgp_peers": [TOR]},
        [
            f"{ON_BOTH_SUBNETS} node3 and node4 by BGP: {UNKNOWN_TO_ROUTERS}",
        ],
        {"pools": RACK_POOLS, "own": RACKS, "bgp_peers": [TOR], "pools_known_to_routers": ["racks"]},
    ),
    Case(  # a pool of one rack needs no router
        "pool-unknown-to-routers",
        {
            "pools": [RACK_POOLS[0], {**RACK_POOLS[1], "nodeSelector": "has(rack)"}],
            "own": {"node2": RACK_A, "node3": RACK_B},
        },
        [
            f"{ON_BOTH_SUBNETS} node2 and node3 by BGP: {UNKNOWN_TO_ROUTERS}",
        ],
        {"pools": [RACK_POOLS[0], {**RACK_POOLS[1], "nodeSelector": "rack == 'a'"}], "own": RACKS},
    ),
    Case(
        "pool-unknown-to-routers",
        {"pools": [pool("direct", "six", "fd00:244::/48")], "own": ADDRESSES6},
        [
            "warning: calico_ip_pools[0].cidr fd00:244::/48 is pool six without a tunnel on 2 subnets "
            "(fd00:10:10:1::/64 and fd00:10:10:2::/64), and no router learns the blocks of node1, node2, node3 and "
            f"node4 by BGP: {UNKNOWN_TO_ROUTERS}",
        ],
        {  # a reflector advertises its clients' routes to the routers
            "pools": [pool("direct", "racks", "10.2.0.0/16")],
            "reflectors": RR1,
            "bgp_peers": [{"name": "core", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": host("rr1")}],
        },
    ),
    Case(
        "node-without-session",
        {"own": RACKS, "bgp_peers": [TOR], "bgp_node_to_node_mesh": False},
        [
            "error: calico_node_address of node3 is that of a node without any BGP session (so is node4): no other "
            "node learns routes to its blocks. Make it a client of a reflector, let a BGPPeer select it, or leave the "
            "mesh on. [node-without-session]",
        ],
        {"own": RACKS, **TORS},
    ),
    Case(
        "node-without-session",
        {
            "nodes": {name: LAB[name] for name in ("node1", "node2")},
            "own": {"node1": RACK_A},
            **TORS,
            "bgp_peers": [TOR],
        },
        [
            "error: calico_node_address of node2 is that of a node without any BGP session: no other node learns "
            "routes to its blocks. Make it a client of a reflector, let a BGPPeer select it, or leave the mesh on. "
            "[node-without-session]"
        ],
        {"nodes": {"node1": LAB["node1"]}, "bgp_node_to_node_mesh": True},
    ),
    Case(
        "blocks-do-not-arrive",
        {"own": {**OWN_RACK, "rr2": {**OWN_RACK["rr2"]}}, "reflectors": {**RR1, **RR2}},
        [
            "error: calico_node_address of node1 is that of a node that never learns routes to the blocks of node3 and "
            "node4: no chain of sessions advertises them (3 other nodes also lack some). Connect the reflectors with "
            "each other, or give the nodes reflectors in common. [blocks-do-not-arrive]",
        ],
        {"own": {**OWN_RACK, "rr2": {**OWN_RACK["rr2"], **OTHER_CLUSTER}}, "reflectors": {**RR1, **RR2}},
    ),
    Case(
        "reflector-without-clients",
        {"own": ALL_BUT_RR2, "reflectors": {**RR1, **RR2}},
        [
            "warning: group calico_rr makes rr2 a route reflector, but it has no clients. Give it clients "
            "(calico_node_route_reflector_clients, or a BGPPeer with peerSelector), or take the role from it. "
            "[reflector-without-clients]",
        ],
        {"reflectors": {**RR1, **RR2}},
    ),
    Case(
        "single-reflector",
        {"reflectors": RR1},
        [
            "warning: group calico_rr makes rr1 the only route reflector: while it is down, nodes learn no new routes, "
            "and after the graceful restart time they lose all routes. Make another host a reflector, too, with the "
            "same clients. [single-reflector]",
        ],
        {"reflectors": {**RR1, **RR2}},
    ),
    Case(
        "one-reflector-of-several",
        {"own": {**RACKS, "rr2": OWN_RACK["rr2"]}, "reflectors": {**RR1, **RR2}},
        [
            "warning: group calico_rr makes rr1 the only reflector of node1 and node2: while it is down, these nodes "
            "learn no routes. Let a second reflector have them as clients. [one-reflector-of-several]",
        ],
        {"own": RACKS, "reflectors": {**RR1, **RR2}},
    ),
    Case(
        "cluster-id-apart",
        {"own": OWN_RACK, "reflectors": {**RR1, **RR2}},
        [
            "error: calico_rr_cluster_id 244.0.0.1 is the cluster id of rr1 and of rr2, which have different clients: "
            "each drops the routes that the other reflected. 2 clients of rr1 only and 2 of rr2 only learn no routes "
            "to each other. Give reflectors of different clients different cluster ids "
            "(calico_node_route_reflector_cluster_id), or all of them all clients. [cluster-id-apart]",
        ],
        {"own": {**OWN_RACK, "rr2": {**OWN_RACK["rr2"], **OTHER_CLUSTER}}, "reflectors": {**RR1, **RR2}},
    ),
    Case(
        "mesh-beside-reflectors",
        {"reflectors": {**RR1, **RR2}, "bgp_node_to_node_mesh": True},
        [
            "warning: calico_bgp_node_to_node_mesh true keeps 4 nodes in a full mesh although rr1 and rr2 "
            "reflect for them. Set it to false with playbooks/switch_topology.yml when all have sessions with "
            "the reflectors. [mesh-beside-reflectors]",
        ],
        {"reflectors": {**RR1, **RR2}},
    ),
    Case(
        "mesh-too-large",
        {"nodes": {f"n{n:03}": f"10.10.0.{n + 1}/16" for n in range(101)}},
        [
            "warning: calico_bgp_node_to_node_mesh means 100 sessions on each of 101 nodes, 5050 in all. Put two or "
            "more hosts into group calico_rr: as route reflectors they leave each node two sessions. [mesh-too-large]"
        ],
        {"nodes": {f"n{n:03}": f"10.10.0.{n + 1}/16" for n in range(100)}},
    ),
    Case(
        "peer-for-nobody",
        {"own": {"node1": RACK_A}, "bgp_peers": [TOR, TOR_B, one("node1", "rack == 'c'")]},
        [
            "warning: calico_bgp_peers[1].nodeSelector rack == 'b' matches no node, so that this BGPPeer makes "
            "no session. Correct it, or the calico_node_labels of the nodes that are meant. [peer-for-nobody]",
            "warning: calico_bgp_peers[2].peerSelector rack == 'c' matches no node to peer with, so that this "
            "BGPPeer makes no session. Correct it, or the calico_node_labels of the nodes that are meant. "
            "[peer-for-nobody]",
        ],
        {"own": RACKS, "bgp_peers": [TOR, TOR_B, one("node1", "rack == 'b'")]},
    ),
    Case(
        "peer-for-nobody",
        {"bgp_peers": [one("node1", host("node1")), {"name": "self", "peerIP": "10.10.1.12", "node": "node2"}]},
        [
            "warning: calico_bgp_peers[0].peerSelector kubernetes.io/hostname == 'node1' matches only node1, the only "
            "node that has this peer, so that this BGPPeer makes no session. Correct it, or the calico_node_labels of "
            "the nodes that are meant. [peer-for-nobody]",
            "warning: calico_bgp_peers[1].peerIP 10.10.1.12 is the address of node2, the only node that has this "
            "peer, so that this BGPPeer makes no session. Correct it, or the calico_node_labels of the nodes that are "
            "meant. [peer-for-nobody]",
        ],
        {"bgp_peers": [one("node1", "all()"), {"name": "to", "peerIP": "10.10.1.12"}]},
    ),
    Case(
        "peer-of-no-host",
        {"bgp_peers": [{"name": "rr", "peerIP": "10.10.1.99", "asNumber": 64512}]},
        [
            "warning: calico_bgp_peers[0].peerIP 10.10.1.99 lies in a subnet of the nodes and has their AS "
            "number 64512, but is no host's. Correct it, or remove the peer; a router of its own AS needs its "
            "own asNumber. [peer-of-no-host]",
        ],
        {
            "bgp_peers": [
                {"name": "tor", "peerIP": "10.10.1.99", "asNumber": 65000},
                {"name": "rr", "peerIP": "10.20.1.99", "asNumber": 64512},
                {"name": "node", "peerIP": "10.10.1.11", "asNumber": 64512},
            ]
        },
    ),
    Case(
        "peer-at-own-address",
        {"bgp_peers": [{"name": "frr", "peerIP": "10.10.1.12:1790", "asNumber": 65000, "listenPort": 1791}]},
        [
            "warning: calico_bgp_peers[0].peerIP 10.10.1.12:1790 is node2's own address, so that node2 alone has no "
            "session with it: BGP speakers with one address would take each other's routes for their own. Let "
            "nodeSelector leave node2 out, or give the other program another address. [peer-at-own-address]",
        ],
        {"bgp_peers": [{"name": "node", "peerIP": "10.10.1.12"}]},
    ),
    Case(
        "as-number-of-another",
        {"bgp_peers": [{"name": "p", "peerIP": "10.10.1.11", "asNumber": 64513}]},
        [
            "error: calico_bgp_peers[0].asNumber 64513 is not the AS number of node1, which has address 10.10.1.11: "
            "node1 has 64512 and refuses the session. Correct it, or leave it out for a node of the fleet, whose own "
            "AS number is used. [as-number-of-another]",
        ],
        {
            "bgp_peers": [
                {"name": "p", "peerIP": "10.10.1.11", "asNumber": 64512},
                {"name": "frr", "peerIP": "10.10.1.12:1179", "asNumber": 64513, "node": "node1", "listenPort": 1180},
                {"name": "other", "peerIP": "10.10.2.13", "asNumber": 64513, "node": "node1"},
                {"name": "as", "node": "node3", "peerSelector": "all()", "localASNumber": 64513},
            ]
        },
    ),
    Case(
        "as-numbers-of-one-address",
        {
            "bgp_peers": [
                {"name": "a", "peerIP": "10.10.1.1", "asNumber": 65000, "node": "node1"},
                {"name": "b", "peerIP": "10.10.1.1", "asNumber": 65001, "node": "node2"},
            ]
        },
        [
            "warning: calico_bgp_peers[1].asNumber 65001 is another AS number than calico_bgp_peers[0] has for the "
            "same address 10.10.1.1: 65000. Correct one of them; if two routers have one address, name this rule in "
            "calico_lint_ignore. [as-numbers-of-one-address]"
        ],
        {
            "bgp_peers": [
                {"name": "a", "peerIP": "10.10.1.1", "asNumber": 65000, "node": "node1"},
                {"name": "b", "peerIP": "10.10.1.1:1790", "asNumber": 65001, "node": "node2"},
                {"name": "c", "peerIP": "10.10.1.1", "asNumber": 65000, "node": "node3"},
            ]
        },
    ),
    Case(
        "own-as-refused",
        {"own": RACKS, **TORS},
        [
            "error: calico_bgp_as_number 64512 is the AS number of node1, node2, node3 and node4, which have only eBGP "
            "sessions: each finds its own number in the path of the others' routes and drops them. Set "
            "numAllowedLocalASNumbers: 1 in their BGPPeers, give them AS numbers of their own, or have the routers "
            "rewrite them and name this rule in calico_lint_ignore. [own-as-refused]",
        ],
        {"own": RACKS, **TORS, "bgp_peers": [{**tor, "numAllowedLocalASNumbers": 1} for tor in (TOR, TOR_B)]},
    ),
    Case(
        "session-one-sided",
        {"bgp_node_to_node_mesh": False, "bgp_peers": [one("node1", "all()", reversePeering="Manual")]},
        [
            "error: calico_node_address of node1 is that of a node that peers with node2 (10.10.1.12), which does not "
            "peer with it and refuses the session (and 2 more like it). Add a BGPPeer for node2, too, or leave "
            "reversePeering at Auto. [session-one-sided]",
        ],
        {"bgp_node_to_node_mesh": False, "bgp_peers": [one("node1", "all()")]},
    ),
    Case(
        "passwords-differ",
        {
            "bgp_secrets": SECRETS,
            "bgp_node_to_node_mesh": False,
            "bgp_peers": [one("node1", "all()", password=SECRET), one("node2", "all()")],
        },
        [
            "error: calico_node_address of node1 is that of a node that has the password tor:password for its "
            "session with node2, which has no password for it: it never comes up. Name the same secret at both "
            "ends. [passwords-differ]",
        ],
        {
            "bgp_secrets": SECRETS,
            "bgp_node_to_node_mesh": False,
            "bgp_peers": [one("node1", "all()", password=SECRET), one("node2", "all()", password=SECRET)],
        },
    ),
    Case(
        "ttl-too-small",
        {"bgp_peers": [{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "ttlSecurity": 1}]},
        [
            "error: calico_bgp_peers[0].ttlSecurity 1 accepts packets of direct neighbours only, and 10.10.1.1 is in "
            "no subnet of node3 and node4: the session never comes up. Set it to the number of hops, 2 with one router "
            "between. [ttl-too-small]",
        ],
        {
            "own": RACKS,
            "bgp_peers": [
                {**TOR, "ttlSecurity": 1},
                {
                    "name": "second",
                    "peerIP": "10.20.1.1",
                    "asNumber": 65000,
                    "node": "node1",
                    "ttlSecurity": 1,
                    "sourceAddress": "10.20.1.11/24",
                },
                {**TOR, "peerIP": "10.10.2.1", "name": "far", "ttlSecurity": 2},
            ],
        },
    ),
    Case(
        "tunnel-behind-router",
        {"pools": [pool("vxlan")], "own": RACK_AS, **TORS},
        [
            "error: calico_bgp_peers[0] brings node1 and node2 the blocks of other nodes with 10.10.1.1 as next"
            " hop, and pool default (calico_ip_pools[0]) is VXLAN: the router would get packets in a tunnel "
            "that it does not end. Route that pool directly (ipipMode and vxlanMode Never), or connect the "
            "nodes with each other, by the mesh or reflectors. [tunnel-behind-router]",
            "error: calico_bgp_peers[1] brings node3 and node4 the blocks of other nodes with 10.10.2.1 as next"
            " hop, and pool default (calico_ip_pools[0]) is VXLAN: the router would get packets in a tunnel "
            "that it does not end. Route that pool directly (ipipMode and vxlanMode Never), or connect the "
            "nodes with each other, by the mesh or reflectors. [tunnel-behind-router]",
        ],
        {"pools": [pool("vxlan-crosssubnet"), pool(name="d", cidr="10.245.0.0/16")], "own": RACK_AS, **TORS},
    ),
    Case(
        "hold-below-keepalive",
        {"bgp_hold_time": 90, "bgp_keepalive_time": 31, "own": RACKS, "bgp_peers": [{**TOR, "holdTime": 60}]},
        [
            "warning: calico_bgp_hold_time makes the hold time 90 s with keepalives every 31 s: one that is "
            "lost ends the session. Make the hold time three keepalive times or more. [hold-below-keepalive]",
            "warning: calico_bgp_peers[0].holdTime makes the hold time 60 s with keepalives every 31 s: one that"
            " is lost ends the session. Make the hold time three keepalive times or more. "
            "[hold-below-keepalive]",
        ],
        {
            "bgp_hold_time": 90,
            "bgp_keepalive_time": 30,
            "own": RACKS,
            "bgp_peers": [{**TOR, "holdTime": 9, "keepaliveTime": 3}],
        },
    ),
    Case(
        "timers-too-short",
        {
            "bgp_hold_time": 8,
            "bgp_keepalive_time": 2,
            "own": RACKS,
            "bgp_peers": [{**TOR_B, "name": "plain"}, {**TOR, "holdTime": 9, "keepaliveTime": 2}],
        },
        [
            "warning: calico_bgp_hold_time makes the hold time 8 s: a host that is busy for a moment loses its "
            "sessions. Use BFD to detect failures quickly (bfd, calico_bgp_bfd), and at least 9 s and 3 s here. "
            "[timers-too-short]",
            "warning: calico_bgp_peers[1].keepaliveTime makes the keepalive time 2 s: a host that is busy for a moment "
            "loses its sessions. Use BFD to detect failures quickly (bfd, calico_bgp_bfd), and at least 9 s and 3 s "
            "here. [timers-too-short]",
        ],
        {
            "bgp_hold_time": 9,
            "bgp_keepalive_time": 3,
            "own": RACKS,
            "bgp_peers": [{**TOR, "holdTime": 6, "keepaliveTime": 2, "bfd": True}],
        },
    ),
    Case(
        "restart-time-too-short",
        {"bgp_graceful_restart_time": 9, "own": RACKS, "bgp_peers": [{**TOR, "maxRestartTime": "0s"}]},
        [
            "warning: calico_bgp_graceful_restart_time 9 has peers drop the routes of a BIRD that restarts "
            "after 9 s, which is less than a restart may take. Set it to 120 s, the default, or leave it out. "
            "[restart-time-too-short]",
            "warning: calico_bgp_peers[0].maxRestartTime 0 has peers drop the routes of a BIRD that restarts "
            "after 0 s, which is less than a restart may take. Set it to 120 s, the default, or leave it out. "
            "[restart-time-too-short]",
        ],
        {"bgp_graceful_restart_time": 10, "own": RACKS, "bgp_peers": [{**TOR, "maxRestartTime": "10s"}]},
    ),
    Case(
        "bfd-on-one-side",
        {"bgp_node_to_node_mesh": False, "bgp_peers": [one("node1", "all()", bfd=True), one("node2", "all()")]},
        [
            "warning: calico_node_address of node1 is that of a node whose session with node2 has BFD at node1 and not "
            "at node2: BFD does not start, and only the hold time detects a failure. Set bfd at both ends, or at none. "
            "[bfd-on-one-side]",
        ],
        {
            "bgp_node_to_node_mesh": False,
            "bgp_peers": [one("node1", "all()", bfd=True), one("node2", "all()", bfd=True)],
        },
    ),
    Case(
        "bfd-too-quick",
        {"bgp_bfd": {"minRx": 49, "minTx": 100}, "own": RACKS, "bgp_peers": [{**TOR, "bfd": {"minTx": 20}}]},
        [
            "warning: calico_bgp_bfd has an interval of 49 ms: a host that is busy for a moment is taken for a "
            "dead one. Use 50 ms or more; 100 ms with multiplier 5 notices within half a second. "
            "[bfd-too-quick]",
            "warning: calico_bgp_peers[0].bfd has an interval of 20 ms: a host that is busy for a moment is "
            "taken for a dead one. Use 50 ms or more; 100 ms with multiplier 5 notices within half a second. "
            "[bfd-too-quick]",
        ],
        {"bgp_bfd": {"minRx": 50, "minTx": 50}, "own": RACKS, "bgp_peers": [{**TOR, "bfd": True}]},
    ),
    Case(
        "filter-unused",
        {
            "own": RACKS,
            "bgp_filters": [
                {"name": "used", "exportV4": [{"action": "Accept"}]},
                {"name": "alone", "exportV4": [{"action": "Accept"}]},
                {"name": "six", "importV6": [{"action": "Reject"}]},
            ],
            "bgp_peers": [{**TOR, "filters": ["used", "six"]}],
        },
        [
            "warning: calico_bgp_filters[1] alone is named by no BGPPeer, so that it filters nothing. Name it "
            "in filters of a BGPPeer, or remove it. [filter-unused]",
            "warning: calico_bgp_filters[2] six has rules for IPv6 alone, and is named by peers of IPv4: it "
            "filters nothing. Write importV4 or exportV4 rules. [filter-unused]",
        ],
        {
            "own": RACKS,
            "bgp_filters": [{"name": "used", "exportV4": [{"action": "Accept"}], "exportV6": [{"action": "Reject"}]}],
            "bgp_peers": [{**TOR, "filters": ["used"]}],
        },
    ),
    Case(
        "filter-rule-unreached",
        {
            "bgp_filters": [
                {
                    "name": "f",
                    "exportV4": [
                        {"action": "Accept", "cidr": "10.244.0.0/16", "matchOperator": "In"},
                        {"action": "Reject", "cidr": "10.244.0.0/16", "matchOperator": "In"},
                        {"action": "Reject"},
                        {"action": "Accept", "cidr": "10.245.0.0/16", "matchOperator": "In"},
                    ],
                }
            ]
        },
        [
            "warning: calico_bgp_filters[0].exportV4[1] of f is never reached: rule 1 matches all that it does."
            " Move it before that one, or remove it. [filter-rule-unreached]",
            "warning: calico_bgp_filters[0].exportV4[3] of f is never reached: rule 3 matches all that it does."
            " Move it before that one, or remove it. [filter-rule-unreached]",
        ],
        {
            "bgp_filters": [
                {
                    "name": "f",
                    "exportV4": [
                        {"action": "Accept", "cidr": "10.244.0.0/16", "matchOperator": "In"},
                        {"action": "Reject", "cidr": "10.244.0.0/16", "matchOperator": "Equal"},
                        {"action": "Reject"},
                    ],
                    "importV4": [{"action": "Accept"}],
                }
            ]
        },
    ),
    Case(
        "community-unused",
        {
            "bgp_communities": [{"name": "gold", "value": "65000:1"}, {"name": "lead", "value": "65000:2"}],
            "bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["gold"]}],
        },
        [
            "warning: calico_bgp_communities[1].name lead is used by no prefix advertisement. Name it in "
            "calico_bgp_prefix_advertisements, or remove it. [community-unused]",
        ],
        {
            "bgp_communities": [{"name": "gold", "value": "65000:1"}, {"name": "lead", "value": "65000:2"}],
            "bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["gold", "65000:3"]}],
            "own": {
                "node1": {"calico_node_bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["lead"]}]}
            },
        },
    ),
    Case(
        "advertisement-of-no-block",
        {
            "bgp_prefix_advertisements": [
                {"cidr": "10.245.0.0/16", "communities": ["65000:3"]},
                {"cidr": "10.244.0.0/27", "communities": ["65000:3"]},
                {"cidr": "::ffff:10.244.0.0/123", "communities": ["65000:3"]},
                {"cidr": "fd00::/8", "communities": ["65000:3"]},
            ]
        },
        [
            "warning: calico_bgp_prefix_advertisements[0].cidr 10.245.0.0/16 contains no block of any pool. Nodes "
            "advertise blocks, so that no route gets its communities. Write a pool's range (10.244.0.0/16) or one with "
            "whole blocks. [advertisement-of-no-block]",
            "warning: calico_bgp_prefix_advertisements[1].cidr 10.244.0.0/27 contains no block of any pool. Nodes "
            "advertise blocks, so that no route gets its communities. Write a pool's range (10.244.0.0/16) or one with "
            "whole blocks. [advertisement-of-no-block]",
            "warning: calico_bgp_prefix_advertisements[2].cidr ::ffff:10.244.0.0/123 contains no block of any pool. "
            "Nodes advertise blocks, so that no route gets its communities. Write a pool's range (10.244.0.0/16) or "
            "one with whole blocks. [advertisement-of-no-block]",
            "warning: calico_bgp_prefix_advertisements[3].cidr fd00::/8 contains no block of any pool. Nodes advertise "
            "blocks, so that no route gets its communities. Write a pool's range (10.244.0.0/16) or one with whole "
            "blocks. [advertisement-of-no-block]",
        ],
        {
            "bgp_prefix_advertisements": [
                {"cidr": "10.0.0.0/8", "communities": ["65000:3"]},
                {"cidr": "10.244.0.0/26", "communities": ["65000:3"]},
                {"cidr": "::ffff:10.0.0.0/104", "communities": ["65000:3"]},
            ]
        },
    ),
    Case(
        "secret-unused",
        {"bgp_secrets": {**SECRETS, "old": {"key": "y"}}, "own": RACKS, "bgp_peers": [{**TOR, "password": SECRET}]},
        [
            "warning: calico_bgp_secrets.old.key is a password that no session uses. Name it in a BGPPeer or in"
            " calico_bgp_mesh_password, or remove it. [secret-unused]",
        ],
        {"bgp_secrets": SECRETS, "own": RACKS, "bgp_peers": [{**TOR, "password": SECRET}]},
    ),
]
