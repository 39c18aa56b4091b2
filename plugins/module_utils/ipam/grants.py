# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New grants: declared addresses, a first block of every pool, tunnels, workloads, spare blocks and, last, probes.

The functions raise PlanError for what the inventory cannot have, and if required blocks are not there.
"""

from __future__ import annotations

import typing as t

from ..base.addresses import canonical_address
from .allocation_plan import TUNNEL_KINDS
from .carry_over import Declared, Needs
from .errors import PlanError, names
from .holdings import Ledger, NodeHoldings, PoolState
from .inputs import TUNNEL, WORKLOAD, WorkloadKey, WorkloadRequest

_VARIABLE = "calico_workloads"


def declared_addresses(ledger: Ledger, requests: t.Mapping[WorkloadKey, WorkloadRequest]) -> Declared:
    """Return the pool and the number of each address that a workload declares, by (workload name, IP version)."""
    found: Declared = {}
    holders: dict[tuple[str, int], str] = {}
    for key, request in requests.items():
        name = request.name
        if request.address is None:
            continue
        try:
            version, address = canonical_address(request.address)
        except ValueError as error:
            raise PlanError(
                _VARIABLE, name, f"has no valid address: {error}.", "Write an IP address without a prefix length."
            ) from error
        pool = ledger.index.at(version, address)
        if pool is None:
            raise PlanError(
                _VARIABLE,
                name,
                f"declares address {request.address}, which lies in no IP pool.",
                f"Choose an address of a pool that selects {request.node}, or remove it to have one chosen.",
            )
        if request.pool not in (None, pool.name):
            raise PlanError(
                _VARIABLE,
                name,
                f"asks for pool {request.pool}, but its address {request.address} lies in pool {pool.name}.",
                "Remove one of the two, or make them agree.",
            )
        other = holders.setdefault((pool.name, address), name)
        if other != name:
            raise PlanError(
                _VARIABLE,
                name,
                f"declares address {request.address}, which workload {other} declares as well.",
                "Give each workload an address of its own.",
            )
        found[key] = (pool, address)
    return found


def grant_declared(ledger: Ledger, requests: t.Mapping[WorkloadKey, WorkloadRequest], declared: Declared) -> None:
    """Assign the declared addresses that their workloads do not have yet, and open the blocks that contain them.

    Such a block is open on the workload's node already, free, a spare block of that node, or in quarantine for it.
    """
    for key, (pool, address) in declared.items():
        request = requests[key]
        name = request.name
        node = ledger.nodes[request.node]
        if key in node.workloads:
            continue
        text = request.address
        _check_pool(pool, request, f"its address {text} lies in")
        holder = pool.holders.get(address)
        if holder is not None:
            raise PlanError(
                _VARIABLE,
                name,
                f"declares address {text}, which is reserved for {holder}.",
                "Choose another address, or remove it to have one chosen.",
            )
        index = pool.space.index_at(address)
        owner = pool.owners.get(index)
        if owner == node.name:
            if (pool.name, index) in node.spare:
                node.drop_spare(pool.name, index)
                node.add_open(pool.name, index)
        elif owner is not None:
            raise PlanError(
                _VARIABLE,
                name,
                f"on {node.name} declares address {text}, but block {pool.space.cidr(index)} belongs to {owner}.",
                f"Move the workload to {owner}, or choose an address of a block of {node.name}.",
            )
        elif index in pool.free:
            pool.own(index, node.name)
            node.add_open(pool.name, index)
        elif ledger.quarantine.get((pool.name, index)) is not None and pool.quarantined[index] == node.name:
            node.returning[pool.name].remove(index)
            ledger.take_back(pool, index, node)
            node.add_open(pool.name, index)
        else:
            cidr, before = pool.space.cidr(index), pool.quarantined[index]
            raise PlanError(
                _VARIABLE,
                name,
                f"on {node.name} declares address {text}, but its block {cidr} is in quarantine, kept for {before}.",
                f"Choose another address, or release the block with calico_release_blocks: [{cidr}].",
            )
        _hold(pool, address, node, key)


def grant_first_blocks(ledger: Ledger) -> None:
    """Open a block of every enabled pool with automatic assignment for each node it selects that has none open."""
    for pool in ledger.pools.values():
        if not pool.grants_on_its_own:
            continue
        for node in ledger.nodes.values():
            if node.name in pool.selected and not node.open_in.get(pool.name):
                index = ledger.next_block(pool, node)
                if index is None:
                    need = f"{len(pool.selected)} nodes need at least one each, and {node.name} gets none"
                    raise _too_few(ledger, pool, need)
                node.add_open(pool.name, index)


def grant_addresses(ledger: Ledger, requests: t.Mapping[WorkloadKey, WorkloadRequest], needs: Needs) -> None:
    """Assign the tunnel addresses of `needs`, then addresses to workloads that declare none. Present addresses stay.

    `needs` maps a node to a mapping from kind of tunnel to the names of the pools that are preferred for it. A node
    gets no tunnel address, without an error, if no usable pool and no open block has the tunnel's IP version.
    """
    for node in ledger.nodes.values():
        for kind, pools in sorted(needs.get(node.name, {}).items()):
            if kind not in node.tunnels:
                _grant_tunnel(ledger, node, kind, pools)
    for key, request in requests.items():
        node = ledger.nodes[request.node]
        if key not in node.workloads:
            _grant_workload(ledger, node, key, request)


def _grant_tunnel(ledger: Ledger, node: NodeHoldings, kind: str, wanted: t.Collection[str]) -> None:
    version = TUNNEL_KINDS[kind]
    family = {name: pool for name, pool in ledger.pools.items() if pool.space.version == version}
    usable = [pool for pool in family.values() if pool.usable_by(node.name, TUNNEL)]
    best = [pool for pool in usable if pool.name in wanted]
    own = list(dict.fromkeys(name for name, dummy in node.open if name in family and family[name].allows(TUNNEL)))
    chosen = (
        _from_open_blocks(node, [ledger.pools[name] for name in own if ledger.pools[name] in best])
        or _from_new_block(ledger, node, best)
        or _from_open_blocks(node, [ledger.pools[name] for name in own])
        or _from_new_block(ledger, node, usable)
    )
    if chosen is not None:
        pool, address = chosen
        pool.holders[address] = f"the {kind} tunnel of {node.name}"
        node.tunnels[kind] = (pool.name, address)
        return
    reason = f"{node.name} needs an address for its {kind} tunnel"
    if usable:
        raise _too_few(ledger, usable[0], reason)
    if any(name in family for name, dummy in node.open):
        enabled = "enabled pool" if version == 4 else "enabled IPv6 pool"
        raise PlanError(
            "calico_ip_pools",
            None,
            f"has no {enabled} that selects {node.name} and allows the use Tunnel, but {reason}.",
            "Add Tunnel to allowedUses of such a pool.",
        )


def _grant_workload(ledger: Ledger, node: NodeHoldings, key: WorkloadKey, request: WorkloadRequest) -> None:
    if request.pool is not None:
        pools = [ledger.pools[request.pool]]
        _check_pool(pools[0], request, "it asks for")
    else:
        pools = [
            pool
            for pool in ledger.pools.values()
            if pool.grants_on_its_own and pool.space.version == key[1] and pool.usable_by(node.name, WORKLOAD)
        ]
        if not pools:
            raise PlanError(
                _VARIABLE,
                request.name,
                f"is on {node.name}, which no enabled {'IP' if key[1] == 4 else 'IPv6'} pool for workloads selects.",
                f"Correct the nodeSelector of a pool or the labels of {node.name}.",
            )
    chosen = _from_open_blocks(node, pools) or _from_new_block(ledger, node, pools)
    if chosen is None:
        raise _too_few(ledger, pools[0], f"{node.name} needs one more for workload {request.name}")
    _hold(*chosen, node, key)


def _from_open_blocks(node: NodeHoldings, pools: t.Sequence[PoolState]) -> t.Optional[tuple[PoolState, int]]:
    for find in (node.unused_address, node.given_up_address):
        for pool in pools:
            address = find(pool)
            if address is not None:
                return pool, address
    return None


def _from_new_block(
    ledger: Ledger, node: NodeHoldings, pools: t.Sequence[PoolState]
) -> t.Optional[tuple[PoolState, int]]:
    """Open the next block of `node`. Return (its pool, its lowest free address as a number), or None if none is left.

    A block is skipped, but stays open, if all its addresses are reserved.
    """
    for pool in pools:
        index = ledger.next_block(pool, node)
        while index is not None:
            node.add_open(pool.name, index)
            address = node.unused_address(pool)
            if address is not None:
                return pool, address
            index = ledger.next_block(pool, node)
    return None


def _hold(pool: PoolState, address: int, node: NodeHoldings, workload: WorkloadKey) -> None:
    pool.holders[address] = f"workload {workload[0]}"
    node.workloads[workload] = (pool.name, address)


def _check_pool(pool: PoolState, request: WorkloadRequest, how: str) -> None:
    if pool.pool.disabled:
        rule, remedy = f"{how} pool {pool.name}, which is disabled.", "Enable the pool or choose another one."
    elif request.node not in pool.selected:
        rule = f"{how} pool {pool.name}, whose nodeSelector does not select {request.node}."
        remedy = "Choose another pool, or correct its nodeSelector or the node's labels."
    elif not pool.allows(WORKLOAD):
        rule = f"{how} pool {pool.name}, whose allowedUses lack Workload."
        remedy = "Choose another pool, or add Workload to its allowedUses."
    else:
        return
    raise PlanError(_VARIABLE, request.name, f"cannot be placed: {rule}", remedy)


def grant_spare_blocks(ledger: Ledger) -> None:
    """Grant spare blocks, up to each pool's `spare_target`, to the nodes that the pool selects, as far as they go.

    In each pool, no node gets a second one before every node could have a first. A pool with too few blocks is no
    error; the ledger gets a warning.
    """
    short: dict[str, list[str]] = {}
    for pool in ledger.pools.values():
        if not pool.grants_on_its_own:
            continue
        for wanted in range(1, pool.spare_target(ledger.spare_blocks) + 1):
            for node in ledger.nodes.values():
                if node.name in pool.selected and len(node.spare_in.get(pool.name, ())) < wanted:
                    index = ledger.new_block(pool, node)
                    if index is not None:
                        node.add_spare(pool.name, index)
        short[pool.name] = [
            name
            for name, node in ledger.nodes.items()
            if name in pool.selected and len(node.spare_in.get(pool.name, ())) < pool.spare_target(ledger.spare_blocks)
        ]
    for name, nodes in short.items():
        if nodes:
            ledger.warnings.append(
                f"IP pool {name} has too few blocks left to give {names(nodes)} {ledger.spare_blocks} spare "
                f"{'block' if ledger.spare_blocks == 1 else 'blocks'} each. Add a pool before they run out."
            )


def grant_probes(
    ledger: Ledger, wanted: t.Mapping[str, t.Collection[str]], before: t.Mapping[str, t.Mapping[str, str]]
) -> None:
    """Assign the addresses of probe endpoints, from what all others leave free. No block is opened for one.

    `wanted` maps a node to the pools in which its endpoint wants an address, `before` a node to the addresses (texts)
    that it has by the last plan, by pool. An address that is still free in an open block of the pool stays. A pool
    without a free address, or in which there are no probes (`PoolState.probed`), gives none.
    """
    for node in ledger.nodes.values():
        held = before.get(node.name, {})
        for name in sorted(wanted.get(node.name, ())):
            pool = ledger.pools.get(name)
            if pool is None or not pool.probed:
                continue
            address = _kept_probe(ledger, pool, node, held[name]) if name in held else None
            if address is None:
                address = node.highest_address(pool)
            if address is not None:
                pool.holders[address] = f"the probe endpoint of {node.name}"
                node.probes[name] = address


def _kept_probe(ledger: Ledger, pool: PoolState, node: NodeHoldings, text: str) -> t.Optional[int]:
    """Return the address `text` as a number if the node's probe endpoint can keep it in `pool`, else None."""
    version, address = canonical_address(text)
    if ledger.index.at(version, address) is not pool or address in pool.holders or address in pool.reserved:
        return None
    return address if pool.space.index_at(address) in node.open_in.get(pool.name, ()) else None


def _too_few(ledger: Ledger, pool: PoolState, need: str) -> PlanError:
    count = pool.space.count
    spare = sum(len(node.spare_in.get(pool.name, ())) for node in ledger.nodes.values())
    return PlanError(
        "calico_ip_pools",
        pool.name,
        f"({pool.pool.cidr}, blockSize {pool.pool.block_size}) has too few blocks: {need}. It has {count}; "
        f"{len(pool.owners) - spare} are in use, {spare} are spare and {len(pool.quarantined)} are in quarantine.",
        "Add a pool, or choose a larger cidr or smaller blocks while it is new; lower calico_spare_blocks; or release "
        "blocks in quarantine with calico_release_blocks"
        f"{'; or reserve less with calico_ip_reservations' if pool.reserved else ''}.",
    )
