# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states between two states: how a node gets from what it is to what it shall be while traffic flows.

Goals, in this order:
 1. Every state forwards everything, beside any neighbour that is one phase ahead or behind. So the receive paths of
    both modes stand on all nodes before the first packet takes the new one, and until after the last one took the
    old one.
 2. No packet is ever larger than what any link on its way takes. A veth drops silently what its other end's MTU does
    not take. So packets are held at the smaller MTU where they begin: by the routes inside the workloads' namespaces
    from `prepare` until `retire`, by the node's routes to other nodes from `prepare` until `flip`. Links and tunnel
    devices change in between, in `links`. The routes from a node to its own workloads never hold: packets of nodes
    that are one phase behind would hit them.
 3. The new mode is proven before live packets use it: its routes stand in a table of their own, chosen by a mark.
 4. Any state can be the start: of a run that was stopped half-way the next one makes a whole one, in either direction.

All of it is derived from two NodeStates, whatever differs between them; so a switch of mode, a new MTU, a rollback and
the completion of an interrupted run are one thing.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .cidr import inside
from .node_state import (
    OVERHEAD,
    PROBE_MARK,
    PROBE_PRIORITY,
    TABLE_PROBE,
    UNDERLAY_GATEWAY,
    Bird,
    BirdRoute,
    IpSet,
    IptablesTable,
    NodeState,
    Pool,
    Route,
    Rule,
    Sysctl,
    TunnelDevice,
    WorkloadEndpoint,
)

PHASES = ("prepare", "links", "flip", "retire")

T = t.TypeVar("T")


class _HasEncapsulation(t.Protocol):
    name: str
    encapsulation: str


def needed(current: t.Optional[NodeState], pools: t.Iterable[_HasEncapsulation], underlay_mtu: int) -> bool:
    """Whether a node may get from `current` to these pools only through the phases: packets could be lost on the
    direct way. True as well for a node that was left in the middle of an earlier change."""
    if current is None:
        return False
    if current.phase not in ("converge", "retire") or current.underlay_mtu != underlay_mtu:
        return True
    before = {pool.name: pool.encapsulation for pool in current.pools}
    return any(before.get(pool.name, pool.encapsulation) != pool.encapsulation for pool in pools)


def phase_state(current: t.Optional[NodeState], target: NodeState, phase: str) -> NodeState:
    """The state of `phase` on the way from `current` (None: a node that has nothing yet) to `target`.

    Retiring is converging: a node at its target is at rest, whichever way it came.
    """
    if phase in ("retire", "converge"):
        return dataclasses.replace(target, phase="converge")
    if current is None:
        return dataclasses.replace(target, phase=phase)
    if phase not in PHASES:
        raise ValueError(f"phase {phase!r} is not one of {', '.join(PHASES)}")
    limits = _limits(current, target)
    changed, flipped = phase != "prepare", phase == "flip"
    probes = _probe_routes(target)
    state = dataclasses.replace(
        target,
        phase=phase,
        pools=_pools(current, target, limits, changed),
        devices=_devices(current, target, changed),
        neighbors=_union(target.neighbors, current.neighbors, key=lambda entry: (entry.device, entry.address)),
        fdb=_union(target.fdb, current.fdb, key=lambda entry: (entry.device, entry.mac)),
        workloads=_workloads(current, target, limits, changed),
        routes=_routes(current, target, {} if flipped else limits, flipped) + probes,
        rules=(Rule(PROBE_MARK, TABLE_PROBE, PROBE_PRIORITY),) if probes else (),
        sysctls=_union(target.sysctls, current.sysctls, key=_sysctl_key),
        ipsets=_ipsets(current, target),
        iptables=_iptables(current, target),
    )
    return dataclasses.replace(state, **_bird(current, target, {} if flipped else limits, flipped))


def _limits(current: NodeState, target: NodeState) -> dict[str, int]:
    """pool name -> the MTU that fits both modes, for the pools whose MTU differs or is held by an unfinished change.

    Where the underlay's MTU changes as well, a tunnel takes its new one while the old mode still uses it: so the larger
    overhead counts with the smaller underlay.
    """
    before = {pool.name: pool.encapsulation for pool in current.pools}
    held: dict[str, int] = {}
    for workload in current.workloads:
        if workload.route_mtu is not None:
            held[workload.pool] = min(workload.route_mtu, held.get(workload.pool, workload.route_mtu))
    for pool in current.pools:
        if pool.route_mtu is not None:
            held[pool.name] = min(pool.route_mtu, held.get(pool.name, pool.route_mtu))
    for cidr, mtu in _held_by_routes(current):
        name = next((pool.name for pool in current.pools if inside(cidr, pool.cidr)), None)
        if name is not None:
            held[name] = min(mtu, held.get(name, mtu))
    underlay = min(current.underlay_mtu, target.underlay_mtu)
    limits = {}
    for pool in target.pools:
        overheads = OVERHEAD[before.get(pool.name, pool.encapsulation)], OVERHEAD[pool.encapsulation]
        same = current.underlay_mtu == target.underlay_mtu and overheads[0] == overheads[1]
        if pool.name in held or (pool.name in before and not same):
            limits[pool.name] = min(underlay - max(overheads), held.get(pool.name, underlay))
    return limits


def _held_by_routes(state: NodeState) -> t.Iterator[tuple[str, int]]:
    """(CIDR, MTU) of everything that an unfinished change holds down."""
    for pool in state.bird.pools if state.bird else ():
        if pool.mtu is not None:
            yield pool.cidr, pool.mtu
    for route in state.routes:
        if route.mtu is not None:
            yield route.destination, route.mtu


def _union(first: t.Sequence[T], second: t.Sequence[T], key: t.Callable[[T], t.Any]) -> tuple[T, ...]:
    """All of `first`, then what only `second` has."""
    known = {key(item) for item in first}
    return tuple(first) + tuple(item for item in second if key(item) not in known)


def _sysctl_key(sysctl: Sysctl) -> str:
    return sysctl.key


def _devices(current: NodeState, target: NodeState, changed: bool) -> tuple[TunnelDevice, ...]:
    """Those of both. What has to change its MTU does so with the links."""
    before = {device.name: device.mtu for device in current.devices}
    devices = [
        device if changed else dataclasses.replace(device, mtu=before.get(device.name, device.mtu))
        for device in target.devices
    ]
    return _union(devices, current.devices, key=lambda device: device.name)


def _pools(current: NodeState, target: NodeState, limits: t.Mapping[str, int], changed: bool) -> tuple[Pool, ...]:
    """What workloads that come and go between runs get meanwhile: the same as those of the inventory."""
    before = {pool.name: pool.workload_mtu for pool in current.pools}
    return tuple(
        dataclasses.replace(
            pool,
            workload_mtu=pool.workload_mtu if changed else before.get(pool.name, pool.workload_mtu),
            route_mtu=limits[pool.name],
        )
        if pool.name in limits
        else pool
        for pool in target.pools
    )


def _workloads(
    current: NodeState, target: NodeState, limits: t.Mapping[str, int], changed: bool
) -> tuple[WorkloadEndpoint, ...]:
    before = {workload.interface: workload for workload in current.workloads}
    workloads = []
    for workload in target.workloads:
        old = before.get(workload.interface)
        limit = limits.get(workload.pool)
        if limit is not None:
            mtu = old.mtu if old is not None and not changed else workload.mtu
            workload = dataclasses.replace(workload, mtu=mtu, route_mtu=limit)
        workloads.append(workload)
    # Those that go keep their links, but send nothing larger than the others.
    going = [
        dataclasses.replace(workload, route_mtu=limits.get(workload.pool, workload.route_mtu))
        for workload in current.workloads
    ]
    return _union(workloads, going, key=lambda workload: workload.interface)


def _routes(current: NodeState, target: NodeState, limits: t.Mapping[str, int], flipped: bool) -> tuple[Route, ...]:
    first, second = (target, current) if flipped else (current, target)
    live = _union(_live(first), _live(second), key=lambda route: route.destination)
    return tuple(
        dataclasses.replace(route, mtu=_limit(route.destination, target, limits)) if route.gateway else route
        for route in live
    )


def _limit(cidr: str, target: NodeState, limits: t.Mapping[str, int]) -> t.Optional[int]:
    return next((limits.get(pool.name) for pool in target.pools if inside(cidr, pool.cidr)), None)


def _live(state: NodeState) -> tuple[Route, ...]:
    return tuple(route for route in state.routes if route.table != TABLE_PROBE)


def _probe_routes(target: NodeState) -> tuple[Route, ...]:
    """The routes that the target will have to the other nodes' blocks, in the table of the marked probes."""
    routes = [
        Route(
            route.destination,
            device=route.device or None,
            gateway=route.gateway or UNDERLAY_GATEWAY.format(route.next_hop),
            onlink=route.onlink,
            table=TABLE_PROBE,
        )
        for route in target.bird_routes
    ]
    if target.bird is None:
        routes = [dataclasses.replace(route, table=TABLE_PROBE) for route in _live(target) if route.gateway is not None]
    return tuple(routes)


def _ipsets(current: NodeState, target: NodeState) -> tuple[IpSet, ...]:
    before = {ipset.name: ipset for ipset in current.ipsets}
    merged = [
        dataclasses.replace(ipset, members=tuple(sorted({*ipset.members, *before[ipset.name].members})))
        if ipset.name in before
        else ipset
        for ipset in target.ipsets
    ]
    return _union(merged, current.ipsets, key=lambda ipset: ipset.name)


def _iptables(current: NodeState, target: NodeState) -> tuple[IptablesTable, ...]:
    """The target's rules first: what they exempt from NAT stays exempt from the rules that go."""
    tables: dict[tuple[str, int], IptablesTable] = {}
    for table in (*target.iptables, *current.iptables):
        key = table.name, table.family
        before = tables.get(key, IptablesTable(table.name, family=table.family))
        chains = dict(before.chains)
        for chain, rules in table.chains.items():
            chains[chain] = _union(chains.get(chain, ()), rules, key=lambda rule: rule)
        hooks = _union(before.hooks, table.hooks, key=lambda hook: hook)
        titles = {**table.titles, **before.titles}
        tables[key] = dataclasses.replace(before, chains=chains, hooks=hooks, titles=titles)
    return tuple(tables.values())


def _bird(current: NodeState, target: NodeState, limits: t.Mapping[str, int], flipped: bool) -> dict[str, t.Any]:
    if target.bird is None:
        return {"bird": None, "bird_routes": ()}
    old: t.Optional[Bird] = current.bird
    first = target.bird.pools if flipped or old is None else old.pools
    second = () if old is None else (old.pools if flipped else target.bird.pools)
    limited = {pool.cidr: limits.get(pool.name) for pool in target.pools}
    pools = [
        dataclasses.replace(pool, mtu=limited.get(pool.cidr))
        for pool in _union(first, second, key=lambda pool: pool.cidr)
    ]
    blocks = _union(target.bird.blocks, old.blocks if old else (), key=lambda block: block)
    bird = dataclasses.replace(target.bird, pools=tuple(pools), blocks=blocks)
    return {"bird": bird, "bird_routes": tuple(_placed(route, bird) for route in target.bird_routes)}


def _placed(route: BirdRoute, bird: Bird) -> BirdRoute:
    """The route as the kernel filter made from `bird` places it."""
    pool = next((pool for pool in bird.pools if inside(route.destination, pool.cidr)), None)
    if pool is None:
        return route
    near = inside(f"{route.next_hop}/32", bird.subnet)
    device = "" if pool.cross_subnet and near else pool.device
    gateway = route.next_hop if device or near else ""
    return dataclasses.replace(route, gateway=gateway, device=device, onlink=bool(device), mtu=pool.mtu)
