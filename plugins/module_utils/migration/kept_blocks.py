# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile that keeps the blocks and tunnel addresses of Calico's nodes."""

from __future__ import annotations

import typing as t

from ..base.addresses import canonical_cidr, contains, format_address, inside
from ..ipam.allocation_plan import AllocationPlan, BlockGrant, NodeAllocations, PlannedPool, QuarantinedBlock
from ..resources.api import IPPool
from .calico_blocks import CalicoBlock, most_of
from .import_report import ImportReport, Remark

#: The generation of a plan that no run has made.
_GENERATION = 1
#: The name under which a block is set aside whose users nobody recorded.
_UNKNOWN = "unknown"


def plan(
    pools: t.Sequence[IPPool],
    nodes: t.Collection[str],
    blocks: t.Iterable[CalicoBlock],
    fixed: t.Mapping[str, str],
    report: ImportReport,
) -> AllocationPlan:
    """Return the plan in which each node keeps its blocks.

    `fixed` maps addresses of workloads to their nodes: a block that Calico has not recorded is granted to the one node
    that has such addresses in it. A block without one owner is set aside, so that no run grants it to another node.
    """
    recorded = {block.cidr: block for block in blocks}
    found = dict(recorded)
    for address, node in fixed.items():
        if not any(contains(cidr, address) for cidr in recorded):
            pool = _pool_of(pools, f"{address}/{_bits(address)}", None)
            if pool is not None:
                cidr = _block_of(address, pool)
                found.setdefault(cidr, CalicoBlock(cidr)).owners.add(node)
    open_blocks: dict[str, list[BlockGrant]] = {}
    spare: dict[str, list[BlockGrant]] = {}
    tunnels: dict[str, dict[str, str]] = {}
    quarantine = []
    for block in sorted(found.values(), key=lambda block: canonical_cidr(block.cidr)):
        what = f"IPAMBlock {block.cidr}"
        pool = _pool_of(pools, block.cidr, canonical_cidr(block.cidr)[2])
        if pool is None:
            why = "lies in no pool with blocks of its size. Addresses in it are not kept."
            (report.for_a_person if block.users or block.tunnels else report.left_out).append(Remark(what, why))
            continue
        grant = BlockGrant(block.cidr, pool.name)
        owners = block.owners or block.claimants  # a claim that Calico did not complete has no effect on the owner
        owner = next(iter(owners)) if len(owners) == 1 else ""
        if owner not in nodes:
            set_aside = owner or most_of(block) or min(owners, default=_UNKNOWN)
            quarantine.append(QuarantinedBlock(block.cidr, pool.name, set_aside, _GENERATION))
            report.for_a_person.append(Remark(what, f"{_why(owners, owner)} It is set aside: no run grants it."))
            continue
        used = block.users or block.tunnels or any(contains(block.cidr, address) for address in fixed)
        (open_blocks if used else spare).setdefault(owner, []).append(grant)
        _take_tunnels(block, owner, tunnels, report)
        _report_borrowed(block, owner, report)
        report.taken["blocks"] += 1
    for node, grants in spare.items():
        if node not in open_blocks:
            open_blocks[node] = [grants.pop(0)]
    return AllocationPlan(
        _GENERATION,
        {pool.name: PlannedPool(pool.cidr, pool.blockSize) for pool in pools},
        {
            node: NodeAllocations(tuple(grants), tuple(spare.get(node, ())), tunnels.get(node, {}))
            for node, grants in open_blocks.items()
        },
        tuple(quarantine),
        {pool.name: pool.encapsulation for pool in pools},
    )


def _why(owners: t.Collection[str], owner: str) -> str:
    if owner:
        return f"belongs to {owner}, which is not among the nodes."
    if owners:
        return f"belongs to several nodes: {', '.join(sorted(owners))}."
    return "belongs to no node, and addresses in it may be in use."


def _take_tunnels(block: CalicoBlock, owner: str, tunnels: dict[str, dict[str, str]], report: ImportReport) -> None:
    for (kind, node), address in sorted(block.tunnels.items()):
        if node == owner and kind not in tunnels.setdefault(owner, {}):
            tunnels[owner][kind] = address
        else:
            text = f"has the {kind} tunnel's address {address} of {node}, which gets another one."
            report.for_a_person.append(Remark(f"IPAMBlock {block.cidr}", text))


def _report_borrowed(block: CalicoBlock, owner: str, report: ImportReport) -> None:
    """Report the addresses that other nodes borrow from this block: nodes here use their own blocks alone."""
    for address, (node, handle) in sorted(block.users.items()):
        if node and node != owner:
            text = f"of {owner} is borrowed by {node}{f' for {handle}' if handle else ''}. It needs another address."
            report.for_a_person.append(Remark(f"address {address}", text))


def _pool_of(pools: t.Sequence[IPPool], cidr: str, size: t.Optional[int]) -> t.Optional[IPPool]:
    """Return the pool of a block, whose prefix length is `size`; with None, that of an address."""
    return next((pool for pool in pools if inside(cidr, pool.cidr) and size in (None, pool.blockSize)), None)


def _bits(address: str) -> int:
    return 128 if ":" in address else 32


def _block_of(address: str, pool: IPPool) -> str:
    version, number, bits = canonical_cidr(f"{address}/{_bits(address)}")
    shift = bits - pool.blockSize
    return f"{format_address(version, number >> shift << shift)}/{pool.blockSize}"
