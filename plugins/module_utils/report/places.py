# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of a fleet for a report: racks, roles, pools, and the mode of the routes between two nodes."""

from __future__ import annotations

import re
import typing as t

from ..base.addresses import family_of
from ..fleet.fleet import Fleet
from .model import MapLink, RouteMode, ShownNode, ShownPool

#: The labels that name the rack of a node; the first one that a node has counts.
RACK_LABELS = ("rack", "topology.kubernetes.io/rack", "topology.kubernetes.io/zone")
_MODES = {
    "IPIP": ("IPIP", "IPIP"),
    "IPIPCrossSubnet": ("direct", "IPIP"),
    "VXLAN": ("VXLAN", "VXLAN"),
    "VXLANCrossSubnet": ("direct", "VXLAN"),
}
_DIRECT = ("direct", "direct")
_CIDR = re.compile(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}")
#: A CIDR: (the node that owns the block, its pool).
_Owner = tuple[str, str]


class Places:
    """Where the hosts of a play are, by the fleet; with None every host is a node without a rack."""

    def __init__(self, fleet: t.Optional[Fleet], hosts: t.Sequence[str]) -> None:
        self.fleet = fleet
        self.hosts = list(hosts)
        self._nodes: dict[str, ShownNode] = {}  # without what they answered
        self._subnets: dict[str, tuple[str, str]] = {}
        self._owners: dict[str, _Owner] = {}
        self._announced: list[_Owner] = []  # of the blocks that nodes announce: spare ones are not among them
        self._modes: dict[str, tuple[str, str]] = {}  # by pool: (in one subnet, across subnets)
        self._routers: dict[str, str] = {}
        self._versions: dict[str, int] = {}  # by pool: 0 for IPv4, 1 for IPv6, the index of a node's subnets
        self._pairs: dict[tuple[bool, bool], tuple[str, ...]] = {}
        if fleet is None:
            return
        for node in fleet.nodes.values():
            named = next((f"{node.labels[label]}" for label in RACK_LABELS if node.labels.get(label)), "")
            rack = f"rack {named}" if named else node.subnet or node.subnet6
            self._nodes[node.name] = ShownNode(node.name, rack, node.reflector, node.workload_node)
            self._subnets[node.name] = (node.subnet, node.subnet6)
        runs = fleet.allocation.encapsulations
        self._versions = {pool.name: int(family_of(pool.cidr) == 6) for pool in fleet.pools}
        self._modes = {pool.name: _MODES.get(runs.get(pool.name, pool.encapsulation), _DIRECT) for pool in fleet.pools}
        for name, part in fleet.allocation.nodes.items():
            for grant in (*part.blocks, *part.spare_blocks):
                self._owners[grant.cidr] = (name, grant.pool)
            self._announced += [(name, grant.pool) for grant in part.blocks]
        for given in fleet.bgp.peers:
            if given.address:
                self._routers[given.address.address] = f"{given.peer.name} ({given.address.address})"

    def rack(self, host: str) -> str:
        """Return the rack of a host, or its subnet without one; "" if neither is known."""
        return self.node(host).rack

    def node(self, host: str) -> ShownNode:
        """Return a host with its rack and roles alone."""
        return self._nodes.get(host) or ShownNode(host)

    def router(self, address: str) -> str:
        """Return the name of a router outside the fleet, its address without one."""
        return self._routers.get(address, address)

    def owner(self, words: str) -> t.Optional[_Owner]:
        """Return (node, pool) of the first block that a text names, None if it names none."""
        found = _CIDR.search(words[:1000])
        return self._owners.get(found.group()) if found else None

    def mode(self, a: str, b: str, pool: str) -> str:
        """Return the mode of the routes from node `a` to the blocks of node `b` in a pool: direct, IPIP or VXLAN."""
        near, far = self._modes.get(pool, _DIRECT)
        version = self._versions.get(pool, 0)
        here, there = self._subnets.get(a), self._subnets.get(b)
        return near if here and there and here[version] == there[version] else far

    def modes(self, a: str, b: str) -> tuple[str, ...]:
        """Return the modes of the routes between two nodes, of all pools."""
        here, there = self._subnets.get(a), self._subnets.get(b)
        if here is None or there is None or not (self._nodes[a].workload_node and self._nodes[b].workload_node):
            return ()
        key = (here[0] == there[0], here[1] == there[1])
        if key not in self._pairs:
            self._pairs[key] = tuple(dict.fromkeys(self.mode(a, b, pool) for pool in self._modes))
        return self._pairs[key]

    def pools(
        self, used: t.Mapping[str, tuple[t.Optional[int], t.Optional[int]]], fullest: t.Mapping[str, str]
    ) -> tuple[ShownPool, ...]:
        """Return the pools. `used` has (used, size) of the addresses in blocks, and `fullest` a text, by pool."""
        if self.fleet is None:
            return tuple(
                ShownPool(name, "", "", 0, 0, count, size, fullest.get(name, ""))
                for name, (count, size) in used.items()
            )
        runs = self.fleet.allocation.encapsulations
        blocks: dict[str, list[str]] = {}
        for owner, block_pool in self._owners.values():
            blocks.setdefault(block_pool, []).append(owner)
        found = []
        for pool in self.fleet.pools:
            now = runs.get(pool.name, pool.encapsulation)
            told = "" if now == pool.encapsulation else f", to become {_named(pool.encapsulation)}"
            nodes = blocks.get(pool.name, [])
            count, size = used.get(pool.name, (None, None))
            found.append(
                ShownPool(
                    pool.name,
                    pool.cidr,
                    f"{_named(now)}{told}",
                    len(nodes),
                    len(set(nodes)),
                    count,
                    size,
                    fullest.get(pool.name, ""),
                )
            )
        return tuple(found)

    def route_modes(self, missing: t.Optional[t.Mapping[tuple[str, str], int]]) -> tuple[RouteMode, ...]:
        """Return the planned routes of all nodes by mode and pool; `missing` has counts by (mode, pool) or is None."""
        if self.fleet is None:
            return ()
        blocks: dict[tuple[str, str], int] = {}  # by (subnet, pool): the blocks of all nodes there
        own: dict[tuple[str, str], int] = {}  # by (node, pool)
        for owner, pool in self._announced:
            if owner in self._subnets:
                subnet = self._subnets[owner][self._versions[pool]]
                blocks[subnet, pool] = blocks.get((subnet, pool), 0) + 1
                own[owner, pool] = own.get((owner, pool), 0) + 1
        found: dict[tuple[str, str], int] = {}
        for name, host in self.fleet.nodes.items():
            if not host.workload_node:
                continue
            for pool, (near, dummy) in self._modes.items():
                subnet = self._subnets[name][self._versions[pool]]
                if not subnet:
                    continue
                here = blocks.get((subnet, pool), 0) - own.get((name, pool), 0)
                found[near, pool] = found.get((near, pool), 0) + here
        for pool, (dummy, far) in self._modes.items():
            sums = self._subnet_nodes(self._versions[pool])
            everything = sum(count for (dummy2, of), count in blocks.items() if of == pool)
            away = sum(nodes * (everything - blocks.get((subnet, pool), 0)) for subnet, nodes in sums.items() if subnet)
            found[far, pool] = found.get((far, pool), 0) + away
        return tuple(
            RouteMode(mode, pool, count, None if missing is None else missing.get((mode, pool), 0))
            for (mode, pool), count in sorted(found.items())
            if count
        )

    def _subnet_nodes(self, version: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, node in (self.fleet.nodes if self.fleet else {}).items():
            if node.workload_node:
                subnet = self._subnets[name][version]
                found[subnet] = found.get(subnet, 0) + 1
        return found


def _named(encapsulation: str) -> str:
    """Return the name of an encapsulation for people."""
    return encapsulation if encapsulation in _MODES else "direct"


class Links:
    """The links between places, counted as sessions, missing routes and probes are added.

    A place is a node if `nodes` says so, otherwise the node's rack. A router is always a place.
    """

    def __init__(self, places: Places, most: int) -> None:
        self.places = places
        self.by_node = len(places.hosts) <= most
        self.routers: dict[str, None] = {}
        self._ends: dict[tuple[str, str], list[float]] = {}  # sessions, down, missing, sent, lost
        self._modes: dict[tuple[str, str], set[str]] = {}
        self._down: set[tuple[str, str, bool]] = set()
        self._total = 0.0

    def _place(self, host: str) -> str:
        return host if self.by_node else self.places.rack(host) or "no rack"

    def _entry(self, host: str, other: str) -> list[float]:
        a, b = self._place(host), other if other in self.routers else self._place(other)
        key = (a, b) if a <= b else (b, a)
        if key not in self._ends:
            self._ends[key] = [0.0] * 5
            self._modes[key] = set()
        if other not in self.routers:
            self._modes[key].update(self.places.modes(host, other))
        return self._ends[key]

    def session(
        self,
        host: str,
        node: t.Optional[str],
        address: str,
        up: bool,
        answered: t.Container[str],
        troubled: t.Container[str],
    ) -> bool:
        """Add a session by one of its ends. Return whether it is down and was not down by the other end already.

        `answered` are the nodes that tell of their ends: a session between two of them is added twice. The sessions of
        `troubled` nodes are no fault of a link between racks, so they are not counted there.
        """
        other = node or self.places.router(address)
        if node is None:
            self.routers[other] = None
        part = 0.5 if node is not None and node in answered else 1.0
        self._total += part
        apart = not self.by_node and (host in troubled or other in troubled)
        entry = [0.0] * 5 if apart else self._entry(host, other)
        entry[0] += part
        if up:
            return False
        key = (min(host, other), max(host, other), ":" in address)
        if key in self._down:
            return False
        self._down.add(key)
        entry[1] += 1
        return True

    def missing(self, host: str, owner: str) -> None:
        self._entry(host, owner)[2] += 1

    def probes(self, host: str, other: str, sent: int, lost: int) -> None:
        entry = self._entry(host, other)
        entry[3] += sent
        entry[4] += lost

    @property
    def down(self) -> int:
        """The number of sessions that are down."""
        return len(self._down)

    @property
    def total(self) -> int:
        """The number of sessions."""
        return round(self._total)

    def all(self) -> tuple[MapLink, ...]:
        """Return the links in the order of their places."""
        return tuple(
            MapLink(
                a,
                b,
                max(0, round(entry[0]) - int(entry[1])),
                round(entry[0]),
                tuple(sorted(self._modes[a, b])),
                int(entry[2]),
                int(entry[3]),
                int(entry[4]),
            )
            for (a, b), entry in sorted(self._ends.items())
        )
