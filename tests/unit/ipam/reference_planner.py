# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slow and plain second planner: the oracle of the real one.

It checks every block and address one after the other, as netaddr objects. The block at which a host's walk begins is
the real planner's.
"""

from __future__ import annotations

import dataclasses
import typing as t

import netaddr
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    NodeAllocations,
    QuarantinedBlock,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.block_walk import BlockSpace


class Impossible(Exception):
    """The error for an input that the real planner must refuse, too."""


class Reference:
    def __init__(
        self,
        pools,
        nodes,
        previous,
        workloads,
        tunnels,
        spare_blocks,
        released,
        reservations,
        allocated,
        opened,
    ) -> None:
        self.pools = sorted(pools, key=lambda pool: pool.name)
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.names = [node.name for node in self.nodes]
        self.previous = previous or AllocationPlan()
        self.workloads = sorted(workloads, key=lambda workload: (workload.name, workload.version))
        self.tunnels = tunnels
        self.spare_blocks = spare_blocks
        self.released = released
        self.reservations = [netaddr.IPNetwork(cidr) for cidr in reservations]
        self.allocated = allocated
        for name, cidrs in opened.items():
            self._opened(name, cidrs)
        self.generation = self.previous.generation + 1
        self.open: list[tuple] = []  # (node, block, pool) of each open block, in the order of the grants
        self.spare: list[tuple] = []
        self.quarantine: list[QuarantinedBlock] = []
        self.addresses: list[tuple] = []  # (node, what, name, address)

    def run(self) -> tuple[dict, tuple]:
        self._quarantine()
        self._return()
        self._keep_allocated()
        self._keep_addresses()
        self._keep_blocks()
        self.freed = {
            address
            for node, part in self.previous.nodes.items()
            for held in (part.tunnels, part.workloads, part.workloads6)
            for address in map(netaddr.IPAddress, held.values())
            if self._holder(address) is None and any(who == node and address in b for who, b, _ in self.open)
        }
        self._declared()
        for pool in self.pools:
            for node in self.nodes:
                wanted = pool.automatic and not pool.disabled and self._selects(pool, node.name)
                if wanted and not self._blocks(self.open, node.name, pool):
                    self._open(node.name, [pool])
        self._new_tunnels()
        self._new_workloads()
        self._spares()
        return self._nodes(), self._sorted_quarantine()

    # what stays

    def _quarantine(self) -> None:
        entries = list(self.previous.quarantine)
        for node, part in self.previous.nodes.items():
            if node not in self.names:
                entries += [QuarantinedBlock(b.cidr, b.pool, node, self.generation) for b in part.blocks]
                entries += [QuarantinedBlock(b.cidr, b.pool, node, self.generation, True) for b in part.spare_blocks]
        for entry in entries:
            block = netaddr.IPNetwork(entry.cidr)
            free = entry.node in self.released
            for item in self.released:
                if "/" in item and block in netaddr.IPNetwork(item):
                    free = True
            if not free:
                self.quarantine.append(entry)

    def _return(self) -> None:
        self.held = {node: list(self._part(node).blocks) for node in self.names}
        for entry in sorted(self.quarantine, key=lambda e: (e.pool, netaddr.IPNetwork(e.cidr))):
            if entry.node in self.names and not entry.spare and self._selects(self._pool(entry.pool), entry.node):
                self.quarantine.remove(entry)
                self.held[entry.node].append(entry)

    def _opened(self, node: str, cidrs) -> None:
        """Move these spare blocks of the node to its open blocks in `self.previous`; ignore other CIDRs."""
        part = self.previous.nodes.get(node, NodeAllocations())
        for cidr in cidrs:
            for grant in part.spare_blocks:
                if grant.cidr == cidr:
                    spare = tuple(other for other in part.spare_blocks if other != grant)
                    part = dataclasses.replace(part, blocks=(*part.blocks, grant), spare_blocks=spare)
        self.previous = dataclasses.replace(self.previous, nodes={**self.previous.nodes, node: part})

    def _keep_allocated(self) -> None:
        for node, addresses in self.allocated.items():
            for text in addresses if node in self.names else ():
                if self._pool_of_held(node, text) is not None:
                    self.addresses.append((node, "agent", text, netaddr.IPAddress(text)))

    def _keep_addresses(self) -> None:
        for node in self.names:
            for kind, text in sorted(self._part(node).tunnels.items()):
                pool = self._pool_of_held(node, text)
                if pool is None or self._holder(netaddr.IPAddress(text)):
                    continue
                wanted = self.tunnels.get(node, {}).get(kind)
                elsewhere = [
                    p for p in self.pools if wanted and p.name in wanted and self._usable(p, self._node(node), "Tunnel")
                ]
                if self._selects(pool, node) or (wanted and not (pool.disabled and elsewhere)):
                    self.addresses.append((node, "tunnel", kind, netaddr.IPAddress(text)))
            part = self._part(node)
            held = [(name, 4, text) for name, text in part.workloads.items()]
            held += [(name, 6, text) for name, text in part.workloads6.items()]
            for name, version, text in sorted(held):
                pool = self._pool_of_held(node, text)
                key = (name, version, node)
                request = next((w for w in self.workloads if (w.name, w.version, w.node) == key), None)
                if pool is None or request is None or self._holder(netaddr.IPAddress(text)):
                    continue
                if request.address not in (None, text) or (
                    request.address is None and request.pool not in (None, pool.name)
                ):
                    continue
                self.addresses.append((node, f"workload{version}", name, netaddr.IPAddress(text)))
        for request in self.workloads:
            holder = self._holder(netaddr.IPAddress(request.address)) if request.address else None
            if holder is not None and holder[1:3] != (f"workload{request.version}", request.name):
                raise Impossible

    def _keep_blocks(self) -> None:
        for node in self.names:
            for grant in self.held[node]:
                block, pool = netaddr.IPNetwork(grant.cidr), self._pool(grant.pool)
                if self._selects(pool, node) or any(
                    who == node and address in block for who, _, _, address in self.addresses
                ):
                    self.open.append((node, block, pool.name))
                else:
                    self.quarantine.append(QuarantinedBlock(grant.cidr, pool.name, node, self.generation))
            for grant in self._part(node).spare_blocks:
                pool = self._pool(grant.pool)
                have = len(self._blocks(self.spare, node, pool))
                if self._selects(pool, node) and (pool.disabled or have < self._target(pool)):
                    self.spare.append((node, netaddr.IPNetwork(grant.cidr), pool.name))
                else:
                    self.quarantine.append(QuarantinedBlock(grant.cidr, pool.name, node, self.generation, True))

    # what is new

    def _declared(self) -> None:
        for request in self.workloads:
            if request.address is None or self._has(request):
                continue
            address = netaddr.IPAddress(request.address)
            pool = next((p for p in self.pools if address in netaddr.IPNetwork(p.cidr)), None)
            if pool is None or request.pool not in (None, pool.name):
                raise Impossible
            if not self._usable(pool, self._node(request.node)) or self._holder(address):
                raise Impossible
            block = netaddr.IPNetwork(f"{address}/{pool.block_size}").cidr
            grant = (request.node, block, pool.name)
            mine = next(
                (e for e in self.quarantine if e.cidr == str(block) and e.node == request.node and e.spare), None
            )
            if grant in self.spare:
                self.spare.remove(grant)
                self.open.append(grant)
            elif mine is not None:
                self.quarantine.remove(mine)
                self.open.append(grant)
            elif grant not in self.open:
                if not self._is_free(block):
                    raise Impossible
                self.open.append(grant)
            self.addresses.append((request.node, f"workload{request.version}", request.name, address))

    def _new_tunnels(self) -> None:
        for node in self.nodes:
            for kind, wanted in sorted(self.tunnels.get(node.name, {}).items()):
                if any(a[:3] == (node.name, "tunnel", kind) for a in self.addresses):
                    continue
                family = [p for p in self.pools if (":" in p.cidr) == kind.endswith("6")]
                usable = [p for p in family if self._usable(p, node, "Tunnel")]
                best = [p for p in usable if p.name in wanted]
                order = [
                    name for who, _, name in self.open if who == node.name and "Tunnel" in self._pool(name).allowed_uses
                ]
                own = [self._pool(name) for name in dict.fromkeys(order) if self._pool(name) in family]
                address = self._find(node.name, [p for p in own if p in best]) or self._find_new(node.name, best)
                address = address or self._find(node.name, own) or self._find_new(node.name, usable)
                if address is not None:
                    self.addresses.append((node.name, "tunnel", kind, address))
                elif usable or any(who == node.name and self._pool(name) in family for who, _, name in self.open):
                    raise Impossible

    def _new_workloads(self) -> None:
        for request in self.workloads:
            if self._has(request):
                continue
            usable = [p for p in self.pools if self._usable(p, self._node(request.node))]
            usable = [p for p in usable if p.name == request.pool or (request.pool is None and p.automatic)]
            usable = [p for p in usable if (":" in p.cidr) == (request.version == 6)]
            address = self._find(request.node, usable) or self._find_new(request.node, usable)
            if address is None:
                raise Impossible
            self.addresses.append((request.node, f"workload{request.version}", request.name, address))

    def _spares(self) -> None:
        for pool in self.pools:
            for wanted in range(self._target(pool)):
                for node in self.nodes:
                    if not pool.disabled and self._selects(pool, node.name):
                        if len(self._blocks(self.spare, node.name, pool)) <= wanted:
                            block = self._new_block(node.name, pool)
                            if block is not None:
                                self.spare.append((node.name, block, pool.name))

    def _find(self, node: str, pools: list) -> t.Optional[netaddr.IPAddress]:
        for avoid in (self.freed, set()):
            for pool in pools:
                if avoid is self.freed:
                    blocks = self._blocks(self.open, node, pool)
                else:  # second pass, also addresses that were given up: the lowest one in any block
                    blocks = sorted(self._blocks(self.open, node, pool))
                for block in blocks:
                    for address in netaddr.IPSet([block]):
                        if self._holder(address) is None and address not in avoid and not self._reserved(address):
                            return address
        return None

    def _find_new(self, node: str, pools: list) -> t.Optional[netaddr.IPAddress]:
        for pool in pools:
            while (block := self._open(node, [pool], must=False)) is not None:
                for address in netaddr.IPSet([block]):
                    if not self._reserved(address):
                        return address
        return None

    def _reserved(self, what: t.Union[netaddr.IPAddress, netaddr.IPNetwork]) -> bool:
        whole = netaddr.IPSet(self.reservations)
        return what in whole

    def _open(self, node: str, pools: list, must: bool = True) -> t.Optional[netaddr.IPNetwork]:
        for pool in pools:
            spare = self._blocks(self.spare, node, pool)
            if spare:
                self.spare.remove((node, spare[0], pool.name))
            block = spare[0] if spare else self._new_block(node, pool)
            if block is not None:
                self.open.append((node, block, pool.name))
                return block
        if must:
            raise Impossible
        return None

    def _new_block(self, node: str, pool) -> t.Optional[netaddr.IPNetwork]:
        mine = [e for e in self.quarantine if (e.node, e.pool, e.spare) == (node, pool.name, True)]
        if mine:
            entry = min(mine, key=lambda e: netaddr.IPNetwork(e.cidr))
            self.quarantine.remove(entry)
            return netaddr.IPNetwork(entry.cidr)
        blocks = list(netaddr.IPNetwork(pool.cidr).subnet(pool.block_size))
        start = BlockSpace(pool.cidr, pool.block_size).start(node)
        return next(
            (block for block in blocks[start:] + blocks[:start] if self._is_free(block) and not self._reserved(block)),
            None,
        )

    # small questions

    def _is_free(self, block: netaddr.IPNetwork) -> bool:
        taken = [b for _, b, _ in self.open + self.spare] + [netaddr.IPNetwork(e.cidr) for e in self.quarantine]
        return not any(block in other or other in block for other in taken)

    def _part(self, node: str):
        return self.previous.nodes.get(node, NodeAllocations())

    def _node(self, name: str):
        return next(node for node in self.nodes if node.name == name)

    def _pool(self, name: str):
        return next(pool for pool in self.pools if pool.name == name)

    def _selects(self, pool, node: str) -> bool:
        return pool.selects(self._node(node).labels)

    def _usable(self, pool, node, use: t.Optional[str] = "Workload") -> bool:
        return not pool.disabled and pool.selects(node.labels) and use in pool.allowed_uses

    def _target(self, pool) -> int:
        return self.spare_blocks if pool.automatic and "Workload" in pool.allowed_uses else 0

    def _blocks(self, grants: list, node: str, pool) -> list:
        return [block for who, block, name in grants if who == node and name == pool.name]

    def _pool_of_held(self, node: str, text: str):
        for grant in self.held[node]:
            if netaddr.IPAddress(text) in netaddr.IPNetwork(grant.cidr):
                return self._pool(grant.pool)
        return None

    def _holder(self, address: netaddr.IPAddress):
        return next((entry for entry in self.addresses if entry[3] == address), None)

    def _has(self, request) -> bool:
        what = f"workload{request.version}"
        return any(entry[:3] == (request.node, what, request.name) for entry in self.addresses)

    def _nodes(self) -> dict:
        return {
            node: (
                [(str(block), pool) for who, block, pool in self.open if who == node],
                [(str(block), pool) for who, block, pool in self.spare if who == node],
                {name: str(a) for who, what, name, a in self.addresses if (who, what) == (node, "tunnel")},
                {name: str(a) for who, what, name, a in self.addresses if (who, what) == (node, "workload4")},
                {name: str(a) for who, what, name, a in self.addresses if (who, what) == (node, "workload6")},
            )
            for node in self.names
        }

    def _sorted_quarantine(self) -> tuple:
        return tuple(sorted(self.quarantine, key=lambda entry: netaddr.IPNetwork(entry.cidr)))
