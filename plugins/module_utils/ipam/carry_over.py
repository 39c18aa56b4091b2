# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the last plan that stays: valid blocks and addresses do not move.

Blocks of removed nodes, unused blocks of nodes that a pool no longer selects, and surplus spare ones of enabled pools
go to quarantine.
"""

from __future__ import annotations

import collections
import typing as t

from ..base.addresses import canonical_address, canonical_cidr, family_of
from .allocation_plan import AllocationPlan, BlockGrant, QuarantinedBlock
from .block_walk import BlockSet, CidrKey
from .errors import PlanError, names
from .holdings import Key, Ledger, NodeHoldings, PoolState
from .inputs import TUNNEL, WorkloadKey, WorkloadRequest

#: node -> kind of tunnel -> names of the pools that use this encapsulation.
Needs = t.Mapping[str, t.Mapping[str, t.Collection[str]]]
#: The addresses that workloads declare: the pool of each, and the address as a number.
Declared = t.Dict[WorkloadKey, t.Tuple[PoolState, int]]


def carry_over(
    ledger: Ledger,
    previous: AllocationPlan,
    requests: t.Mapping[WorkloadKey, WorkloadRequest],
    declared: Declared,
    needs: Needs,
    released: t.Collection[str],
    allocated: t.Mapping[str, t.Collection[str]],
) -> None:
    """Fill the ledger with all of `previous` that stays valid, and add warnings for people to it.

    `requests` are by (workload name, IP version). `released` has node names and CIDRs whose blocks leave quarantine,
    `allocated` the addresses that each node's agent assigned.

    Raise PlanError if a node has blocks of a pool that is missing, if a pool with blocks changed its CIDR or block size
    or does not have such a block, if a node's block also belongs to another node or is in quarantine, or if a workload
    declares an address that another one has. Raise ValueError if a text in `allocated` is not an address.
    """
    quarantine = _quarantine(ledger, previous, released)
    _check_pools(ledger, previous, quarantine)
    for entry in quarantine:
        _block_out(ledger, entry)
    held = {node: _held(ledger, previous, node) for node in ledger.nodes if node in previous.nodes}
    _return_blocks(ledger, held)
    used = {*_hold_allocated(ledger, held, allocated)}
    used |= _keep_addresses(ledger, previous, held, requests, declared, needs)
    _keep_blocks(ledger, held, used)
    _note_freed(ledger, previous)


def _quarantine(ledger: Ledger, previous: AllocationPlan, released: t.Collection[str]) -> list[QuarantinedBlock]:
    """Return the quarantined blocks of `previous` and the blocks of removed nodes, without those that are released."""
    entries = list(previous.quarantine)
    removed = []
    for node, part in sorted(previous.nodes.items()):
        if node in ledger.nodes:
            continue
        lost = part.quarantined(node, ledger.generation)
        entries += lost
        if lost:
            removed.append(node)
    kept, freed = _release(entries, released, ledger.warnings)
    still = sorted(set(removed) & {entry.node for entry in kept})
    if still:
        ledger.warnings.append(
            f"The blocks of {names(still)}, no longer in the inventory, are in quarantine. When the hosts are gone for "
            "good, run once with their names in calico_release_blocks; a host that returns gets its blocks back."
        )
    if freed:
        ledger.warnings.append(f"Released from quarantine: {names(entry.cidr for entry in freed)}.")
    return kept


def _release(
    entries: t.Sequence[QuarantinedBlock], released: t.Collection[str], warnings: list[str]
) -> tuple[list[QuarantinedBlock], list[QuarantinedBlock]]:
    """Return (entries that stay in quarantine, entries that are free again).

    An entry is freed if `released` has its node's name, or a CIDR that contains its block.
    """
    if not released:
        return list(entries), []
    nodes: set[str] = set()
    ranges: dict[CidrKey, str] = {}
    for item in sorted(set(released)):
        try:
            ranges[canonical_cidr(item)] = item
        except ValueError:
            nodes.add(item)
    blocks = BlockSet(ranges)
    unmatched = {*nodes, *ranges.values()}
    kept: list[QuarantinedBlock] = []
    freed: list[QuarantinedBlock] = []
    for entry in entries:
        version, address, length = canonical_cidr(entry.cidr)
        matching = {ranges[key] for key in blocks.containing(version, address) if key[2] <= length}
        matching |= nodes & {entry.node}
        unmatched -= matching
        (freed if matching else kept).append(entry)
    if unmatched:
        warnings.append(f"calico_release_blocks: nothing is in quarantine for {names(unmatched)}.")
    return kept, freed


def _check_pools(ledger: Ledger, previous: AllocationPlan, quarantine: t.Iterable[QuarantinedBlock]) -> None:
    """Raise PlanError if a pool in use is missing, or if a pool with blocks changed its CIDR or block size."""
    using: dict[str, set[str]] = {}
    for node in ledger.nodes:
        part = previous.nodes.get(node)
        for grant in (*part.blocks, *part.spare_blocks) if part else ():
            using.setdefault(grant.pool, set()).add(node)
    for name in sorted(set(using) - set(ledger.pools)):
        raise PlanError(
            "calico_ip_pools",
            name,
            f"is no longer there, but {_still_have(using[name])} blocks of it.",
            'Put it back with disabled: true and nodeSelector: "!all()", move its workloads, run once, then remove it.',
        )
    referenced = set(using) | {entry.pool for entry in quarantine}
    for name, pool in ledger.pools.items():
        before = previous.pools.get(name)
        if name not in referenced or before is None:
            continue
        if (before.cidr, before.block_size) != (pool.pool.cidr, pool.pool.block_size):
            _refuse_change(pool, f"{before.cidr} with blockSize {before.block_size}", using.get(name, set()))


def _still_have(nodes: t.Collection[str]) -> str:
    return f"{names(nodes)} still {'have' if len(nodes) > 1 else 'has'}"


def _refuse_change(pool: PoolState, before: str, using: t.Collection[str]) -> t.NoReturn:
    who = f"{_still_have(using)} blocks of it" if using else "blocks of it are in quarantine"
    raise PlanError(
        "calico_ip_pools",
        pool.name,
        f"was {before} and is now {pool.pool.cidr} with blockSize {pool.pool.block_size}, but {who}.",
        "A pool in use keeps its cidr and blockSize: put the old values back and add a second pool with the new ones.",
    )


def _block_out(ledger: Ledger, entry: QuarantinedBlock) -> None:
    pool = ledger.pools.get(entry.pool)
    if pool is None:
        # A stored block's pool may be gone while another pool contains its addresses. No block that overlaps the stored
        # one is granted.
        ledger.foreign.append(entry)
        for touched, index in ledger.index.blocks_touching(entry.cidr):
            if index in touched.free:
                touched.free.take(index)
                touched.quarantined[index] = entry.node
        return
    index = _index(pool, entry.cidr, {entry.node})
    if index in pool.owners or (pool.name, index) in ledger.quarantine:
        return  # a second entry for the same block
    if index in pool.free:
        pool.free.take(index)
    pool.quarantined[index] = entry.node
    ledger.quarantine[pool.name, index] = entry


def _index(pool: PoolState, cidr: str, using: t.Collection[str]) -> int:
    try:
        return pool.space.index_of(cidr)
    except ValueError:
        _refuse_change(pool, f"the pool of block {cidr}", using)


class _Held(t.NamedTuple):
    """The open and the spare blocks that a node has by the last plan, in their order."""

    open: t.Dict[Key, None]
    spare: t.Dict[Key, None]


def _held(ledger: Ledger, previous: AllocationPlan, node: str) -> _Held:
    part = previous.nodes[node]

    def keys(grants: t.Iterable[BlockGrant]) -> dict[Key, None]:
        found: dict[Key, None] = {}
        for grant in grants:
            pool = ledger.pools[grant.pool]
            index = _index(pool, grant.cidr, {node})
            if index not in pool.free:
                other = pool.owners.get(index) or pool.quarantined.get(index) or "another node"
                raise PlanError(
                    "lockfile",
                    grant.cidr,
                    f"is a block of {node} and, in quarantine or in use, of {other}.",
                    "Restore the lockfile from version control, or correct this entry.",
                )
            pool.own(index, node)
            found[pool.name, index] = None
        return found

    return _Held(keys(part.blocks), keys(part.spare_blocks))


def _return_blocks(ledger: Ledger, held: dict[str, _Held]) -> None:
    """Give quarantined blocks back to the nodes that had them, if the inventory has the node and the pool selects it.

    A spare one stays in quarantine; it comes before free blocks when a block is chosen for the node.
    """
    for (name, index), entry in sorted(ledger.quarantine.items()):
        pool, node = ledger.pools[name], ledger.nodes.get(entry.node)
        if node is None or node.name not in pool.selected:
            continue
        if entry.spare:
            node.returning.setdefault(name, collections.deque()).append(index)
        else:
            ledger.take_back(pool, index, node)
            held.setdefault(node.name, _Held({}, {})).open[name, index] = None


def _hold_allocated(
    ledger: Ledger, held: t.Mapping[str, _Held], allocated: t.Mapping[str, t.Collection[str]]
) -> t.Iterator[Key]:
    """Reserve the addresses that agents assigned, and yield the blocks that contain them.

    An address is reserved when the caller takes its block from the iterator. These addresses are in use, so they take
    precedence over planned ones. Addresses outside of the node's open blocks are ignored.
    """
    for node, addresses in sorted(allocated.items()):
        blocks = held[node].open if node in held else {}
        for text in addresses:
            place = _place(ledger, blocks, text)
            if place is not None:
                pool, address = place
                pool.holders[address] = f"a workload that runs on {node}"
                yield pool.name, pool.space.index_at(address)


def _keep_addresses(
    ledger: Ledger,
    previous: AllocationPlan,
    held: t.Mapping[str, _Held],
    requests: t.Mapping[WorkloadKey, WorkloadRequest],
    declared: Declared,
    needs: Needs,
) -> set[Key]:
    """Keep the valid tunnel and workload addresses of `previous`, and return the blocks that contain them.

    An address is valid if it lies in an open block of its node and is still needed: `_tunnel_stays` holds, or the
    workload is still on the node and requests no other address or pool. An address that an agent assigned to another
    workload is not kept; a warning says so unless the workload declares it.
    """
    used: set[Key] = set()
    wanted = {(pool.name, address): name for (name, dummy), (pool, address) in declared.items()}
    for name, node in ledger.nodes.items():
        part = previous.nodes.get(name)
        if part is None:
            continue
        blocks = held[name].open
        for kind, text in sorted(part.tunnels.items()):
            place = _place(ledger, blocks, text)
            if place is not None and place[1] in place[0].holders:
                ledger.warnings.append(_moved(f"the {kind} tunnel of {name}", text))
            elif place is not None and _tunnel_stays(ledger, place[0], name, needs.get(name, {}).get(kind)):
                pool, address = place
                pool.holders[address] = f"the {kind} tunnel of {name}"
                node.tunnels[kind] = (pool.name, address)
                used.add((pool.name, pool.space.index_at(address)))
        for workload, text in part.addresses():
            key = workload, family_of(text)
            request = requests.get(key)
            if request is None or request.node != name:
                continue
            place = _place(ledger, blocks, text)
            if place is None:
                continue
            pool, address = place
            if key in declared:
                if declared[key] != place:
                    continue
            elif request.pool not in (None, pool.name):
                continue
            claimant = wanted.get((pool.name, address), workload)
            if claimant != workload:
                raise PlanError(
                    "calico_workloads",
                    claimant,
                    f"declares address {text}, which workload {workload} already has.",
                    f"Choose another address, or declare another one for {workload}.",
                )
            if address in pool.holders:
                if key not in declared:
                    ledger.warnings.append(_moved(f"workload {workload}", text))
                continue
            pool.holders[address] = f"workload {workload}"
            node.workloads[key] = pool.name, address
            used.add((pool.name, pool.space.index_at(address)))
    return used


def _moved(what: str, address: str) -> str:
    return (
        f"{address}, planned for {what}, was given to a workload there meanwhile, so that {what} gets another address."
    )


def _place(ledger: Ledger, blocks: t.Container[Key], text: str) -> t.Optional[tuple[PoolState, int]]:
    """Return the pool of an address and the address as a number, or None if it lies in none of `blocks`."""
    version, address = canonical_address(text)
    pool = ledger.index.at(version, address)
    if pool is None or (pool.name, pool.space.index_at(address)) not in blocks:
        return None
    return pool, address


def _tunnel_stays(ledger: Ledger, pool: PoolState, node: str, wanted: t.Optional[t.Collection[str]]) -> bool:
    """Return whether a node keeps its tunnel address from `pool`. `wanted` are the pools that use this tunnel, or None.

    Connections of the host itself use the address. So it stays as long as the pool selects the node.
    """
    if node in pool.selected:
        return True
    if not wanted:
        return False
    others = (ledger.pools[name] for name in wanted if name in ledger.pools)
    return not (pool.pool.disabled and any(other.usable_by(node, TUNNEL) for other in others))


def _keep_blocks(ledger: Ledger, held: t.Mapping[str, _Held], used: t.Container[Key]) -> None:
    staying: dict[str, set[str]] = {}
    for name, blocks in sorted(held.items()):
        node = ledger.nodes[name]
        for pool_name, index in blocks.open:
            pool = ledger.pools[pool_name]
            if name not in pool.selected:
                if (pool_name, index) not in used:
                    ledger.set_aside(pool, index, name, spare=False)
                    continue
                staying.setdefault(pool_name, set()).add(name)
            node.add_open(pool_name, index)
        for pool_name, index in blocks.spare:
            pool = ledger.pools[pool_name]
            enough = len(node.spare_in.get(pool_name, ())) >= pool.spare_target(ledger.spare_blocks)
            if name not in pool.selected:
                ledger.set_aside(pool, index, name, spare=True)
            elif enough and not pool.pool.disabled:
                ledger.set_aside(pool, index, name, spare=True)
                _insert(node, pool_name, index)
            else:
                node.add_spare(pool_name, index)
    for pool_name, stayed in sorted(staying.items()):
        ledger.warnings.append(
            f"IP pool {pool_name} no longer selects {names(stayed)}; blocks with workloads or tunnel addresses stay "
            "until those are gone."
        )


def _insert(node: NodeHoldings, pool: str, index: int) -> None:
    queue = node.returning.setdefault(pool, collections.deque())
    queue.append(index)
    node.returning[pool] = collections.deque(sorted(queue))


def _note_freed(ledger: Ledger, previous: AllocationPlan) -> None:
    for name, node in ledger.nodes.items():
        part = previous.nodes.get(name)
        if part is None:
            continue
        now = {*node.tunnels.values(), *node.workloads.values()}
        blocks = set(node.open)
        freed: dict[str, list[int]] = {}
        for text in (*part.tunnels.values(), *part.workloads.values(), *part.workloads6.values()):
            place = _place(ledger, blocks, text)
            if place is not None and (place[0].name, place[1]) not in now:
                freed.setdefault(place[0].name, []).append(place[1])
        for pool, addresses in freed.items():
            node.give_up(pool, addresses)
