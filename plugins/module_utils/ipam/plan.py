# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner: it makes the next plan from all nodes of the inventory and the last plan."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import AddressRanges, canonical_cidr, family_of
from . import grants
from .allocation_plan import AllocationPlan, BlockGrant, NodeAllocations, PlannedPool, QuarantinedBlock
from .carry_over import carry_over
from .errors import PlanError
from .holdings import Key, Ledger, NodeHoldings, pools_by_name
from .inputs import NodeEntry, PoolRange, WorkloadKey, WorkloadRequest

__all__ = ["AllocationPlan", "PlanError", "plan"]


def plan(
    pools: t.Iterable[PoolRange],
    nodes: t.Iterable[NodeEntry],
    previous: t.Optional[AllocationPlan] = None,
    *,
    workloads: t.Iterable[WorkloadRequest] = (),
    tunnels: t.Optional[t.Mapping[str, t.Mapping[str, t.Collection[str]]]] = None,
    spare_blocks: int = 1,
    released: t.Collection[str] = (),
    reservations: t.Collection[str] = (),
    allocated: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
    opened: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
    probes: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
) -> AllocationPlan:
    """Return the plan that follows `previous`.

    Raise PlanError if the inventory is invalid, if `previous` contradicts it or itself, or if a pool has too few blocks
    for what is required. Raise ValueError if a text in `allocated` is not an address.

    `previous` is None if nothing was planned before; then `released`, `allocated` and `opened` are ignored. `nodes` are
    ALL nodes of the inventory that may own blocks, also in a limited run. `tunnels` maps a node to a mapping from a
    kind of TUNNEL_KINDS to the names of the pools with this encapsulation. A tunnel's address comes from such a pool:
    from an open block of the node, else from a new one. If none has an address, it comes from another pool of that IP
    version in the same way. A workload with both IP versions is in `workloads` twice.

    `spare_blocks` is the number of spare blocks per node and pool. `released` has names of nodes, and CIDRs, whose
    blocks leave quarantine. `reservations` are CIDRs; an address in them is newly assigned only to a workload that
    declares it. `allocated` maps a node to the addresses that its agent assigned, `opened` a node to the spare blocks
    that it opened. `probes` maps a node to the names of the pools in which its probe endpoint wants an address.

    Grants stay: open blocks and tunnel addresses at least as long as the pool selects the node, a workload's address as
    long as the workload is on its node and requests no other. An address that an agent gave to another workload is
    replaced, or refused if a workload declares it. Each enabled pool with automatic assignment gives one open block to
    every node that it selects, more where addresses need them, and then spare ones as far as they go. Blocks of removed
    nodes, blocks without a used address of nodes that a pool no longer selects, and surplus spare blocks of enabled
    pools go to quarantine.

    A probe endpoint gets the highest address that all others leave free in the node's first open block of the pool that
    has one, and keeps it until another claims it. No block is opened or kept for it. Blocks of one address and pools
    that are not for workloads give none. So `probes` changes nothing else in the plan.

    The result's `warnings` are sentences for people. Its generation is that of `previous` (or
    0) plus one, or the same if the content is the same. Its `encapsulations` are empty.
    """
    entries = list(nodes)
    ledger = Ledger(
        pools_by_name(pools, entries),
        _unique(entries),
        (previous.generation if previous else 0) + 1,
        spare_blocks,
    )
    for state in ledger.pools.values():
        state.reserve(_reservations(reservations, state.space.version))
    requests = _requests(ledger, workloads)
    declared = grants.declared_addresses(ledger, requests)
    needs = tunnels or {}
    if previous is not None:
        carry_over(ledger, _with_opened(previous, opened or {}), requests, declared, needs, released, allocated or {})
    grants.grant_declared(ledger, requests, declared)
    grants.grant_first_blocks(ledger)
    grants.grant_addresses(ledger, requests, needs)
    grants.grant_spare_blocks(ledger)
    held = previous.nodes if previous is not None else {}
    grants.grant_probes(ledger, probes or {}, {name: part.probes for name, part in held.items()})
    result = _result(ledger, previous)
    if previous is not None and result.same_content(previous):
        return dataclasses.replace(result, generation=previous.generation)
    return result


def _reservations(cidrs: t.Collection[str], version: int) -> AddressRanges:
    try:
        return AddressRanges(cidrs, version)
    except ValueError as error:
        raise PlanError(
            "calico_ip_reservations", None, f"cannot be read: {error}.", "Write CIDRs, for example 10.244.0.0/28."
        ) from error


def _with_opened(previous: AllocationPlan, opened: t.Mapping[str, t.Collection[str]]) -> AllocationPlan:
    """Return the last plan with the spare blocks open that nodes opened since. Unknown nodes and blocks are ignored."""
    nodes = dict(previous.nodes)
    for name, cidrs in opened.items():
        part = nodes.get(name, NodeAllocations())
        spare = {grant.cidr: grant for grant in part.spare_blocks}
        taken = [spare.pop(cidr) for cidr in cidrs if cidr in spare]
        if taken:
            nodes[name] = dataclasses.replace(part, blocks=(*part.blocks, *taken), spare_blocks=tuple(spare.values()))
    return dataclasses.replace(previous, nodes=nodes)


def _unique(nodes: t.Iterable[NodeEntry]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if node.name in found:
            raise PlanError("inventory", node.name, "is the name of two nodes.", "Give every node a name of its own.")
        found.add(node.name)
    return found


def _requests(ledger: Ledger, workloads: t.Iterable[WorkloadRequest]) -> dict[WorkloadKey, WorkloadRequest]:
    """Return the requests by (workload name, IP version), in order of names, then of the field `version`."""
    found: dict[WorkloadKey, WorkloadRequest] = {}
    for workload in sorted(workloads, key=lambda item: (item.name, item.version, item.node)):
        other = found.setdefault((workload.name, _version(ledger, workload)), workload)
        if other is not workload:
            raise PlanError(
                "calico_workloads",
                workload.name,
                f"is the name of two workloads, on {other.node} and on {workload.node}.",
                "Give every workload of the fleet a name of its own.",
            )
        if workload.node not in ledger.nodes:
            raise PlanError(
                "calico_workloads",
                workload.name,
                f"is on {workload.node}, which is not a node of this inventory.",
                "Correct the node's name, or add the host to the group calico_nodes.",
            )
        if workload.pool is not None and workload.pool not in ledger.pools:
            known = ", ".join(ledger.pools) or "none"
            raise PlanError(
                "calico_workloads",
                workload.name,
                f"asks for pool {workload.pool}, which does not exist.",
                f"Choose one of calico_ip_pools: {known}.",
            )
    return found


def _version(ledger: Ledger, workload: WorkloadRequest) -> int:
    if workload.address is not None:
        return family_of(workload.address)
    pool = ledger.pools.get(workload.pool) if workload.pool is not None else None
    return workload.version if pool is None else pool.space.version


def _result(ledger: Ledger, previous: t.Optional[AllocationPlan]) -> AllocationPlan:
    pools = {name: PlannedPool(state.pool.cidr, state.pool.block_size) for name, state in ledger.pools.items()}
    for entry in ledger.foreign:
        if previous is not None and entry.pool in previous.pools:
            pools[entry.pool] = previous.pools[entry.pool]
    quarantine: list[QuarantinedBlock] = [*ledger.foreign, *ledger.quarantine.values()]
    return AllocationPlan(
        generation=ledger.generation,
        pools=dict(sorted(pools.items())),
        nodes={name: _node(ledger, node) for name, node in ledger.nodes.items()},
        quarantine=tuple(sorted(quarantine, key=lambda entry: canonical_cidr(entry.cidr))),
        warnings=tuple(ledger.warnings),
    )


def _node(ledger: Ledger, node: NodeHoldings) -> NodeAllocations:
    def texts(keys: t.Iterable[Key]) -> tuple[BlockGrant, ...]:
        return tuple(BlockGrant(ledger.pools[pool].space.cidr(index), pool) for pool, index in keys)

    def text(place: tuple[str, int]) -> str:
        return ledger.pools[place[0]].text(place[1])

    workloads = sorted(node.workloads.items())
    return NodeAllocations(
        texts(node.open),
        texts(node.spare),
        {kind: text(place) for kind, place in sorted(node.tunnels.items())},
        {name: text(place) for (name, version), place in workloads if version == 4},
        {name: text(place) for (name, version), place in workloads if version == 6},
        {name: text((name, address)) for name, address in sorted(node.probes.items())},
    )
