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
 5. No BGP session restarts that routes depend upon: where sessions change, every node first gets static backup routes
    to the others' blocks, in `prepare`, with all its sessions as they were. Sessions change in `flip`. The backups go
    in `retire`, when BGP has brought everything again.
 6. What routers outside the fleet forward depends on their sessions, which no backup route of a node replaces. So where
    one of two modes is direct and the other one has a tunnel, backups take the tunnel. On the way to direct they hold
    until the routers have said how; on the way back all packets take them from `divert` on, which comes when the tunnel
    is proven and before the first session with a router ends. In `flip` BIRD may place a route of a session that it is
    about to end by the new filter: so what is not said by those who will say it in the end goes like a backup.

All of it is derived from two NodeStates, whatever differs between them; so a switch of mode, a new MTU, another
topology, a rollback and the completion of an interrupted run are one thing.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import contains, family_of, inside
from ..bgp import route_sources, session_changes
from ..bgp.bird_state import BackupRoute, Bird, BirdPool, BirdRoute
from ..state.node_state import (
    PROBE_MARK,
    PROBE_PRIORITY,
    TABLE_PROBE,
    UNDERLAY_GATEWAY,
    IpSet,
    IptablesTable,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
    overhead,
)
from ..state.phase import AT_REST, Phase

#: {kind of a tunnel device: an encapsulation of pools that go through it}
_ENCAPSULATION = {"ipip": "IPIP", "vxlan": "VXLAN"}

T = t.TypeVar("T")


class _HasEncapsulation(t.Protocol):
    @property
    def name(self) -> str: ...

    @property
    def cidr(self) -> str: ...

    @property
    def encapsulation(self) -> str: ...

    @property
    def disabled(self) -> bool: ...


def needed(current: t.Optional[NodeState], pools: t.Iterable[_HasEncapsulation], underlay_mtu: int) -> bool:
    """Whether a node may get from `current` to these pools only through the phases: packets could be lost on the
    direct way. True as well for a node that was left in the middle of an earlier change."""
    if current is None:
        return False
    if current.phase not in AT_REST or current.underlay_mtu != underlay_mtu:
        return True
    target = list(pools)
    before = {pool.name: pool.encapsulation for pool in current.pools}
    if any(before.get(pool.name, pool.encapsulation) != pool.encapsulation for pool in target):
        return True
    # Workloads with an address of each family have one MTU: an IPv6 pool that comes or goes may change it.
    return _overhead6(current.pools) != _overhead6(target)


def _overhead6(pools: t.Iterable[_HasEncapsulation]) -> int:
    used = (pool for pool in pools if family_of(pool.cidr) == 6 and not pool.disabled)
    return max((overhead(pool.encapsulation, pool.cidr) for pool in used), default=0)


def endangered(
    current: t.Optional[NodeState],
    target: t.Optional[Bird],
    staying: t.Container[str],
    passwords: t.Collection[str] = (),
) -> bool:
    """Whether a node's way to `target` interrupts BGP sessions that routes may depend upon, its own or those of others.
    True as well where backup routes stand because of an earlier change. `staying`: the nodes that will be there;
    `passwords`: names of those that get another value."""
    if current is None or current.bird is None:
        return False
    if current.bird.backups:
        return True
    resets = session_changes.resets(current.bird, target, passwords)
    return any(session_changes.endangers(change, staying) for change in resets)


def diverts(current: t.Optional[NodeState], target: t.Optional[Bird]) -> bool:
    """Whether a node leaves routes that routers outside the fleet may forward for tunnels to the other nodes."""
    if current is None or current.bird is None or target is None:
        return False
    return _into_tunnels(current.bird, target)


def _into_tunnels(old: Bird, new: Bird) -> bool:
    tunnelled = {pool.cidr for pool in new.pools if pool.device}
    return any(not pool.device and pool.cidr in tunnelled for pool in old.pools)


def phase_state(current: t.Optional[NodeState], target: NodeState, phase: Phase, hold: bool = False) -> NodeState:
    """The state of `phase` on the way from `current` (None: a node that has nothing yet) to `target`. `hold`: sessions
    of the fleet are endangered, so backup routes hold its traffic.

    Retiring is converging: a node at its target is at rest, whichever way it came.
    """
    if phase in AT_REST:
        return dataclasses.replace(target, phase=Phase.CONVERGE)
    if current is None:
        held = target.bird and dataclasses.replace(target.bird, backups=_backups(target) if hold else ())
        return dataclasses.replace(target, phase=phase, bird=held)
    limits = _limits(current, target)
    changed, flipped = phase != Phase.PREPARE, phase == Phase.FLIP
    on_routes = {} if flipped else _limits_of_routes(current, target, limits)
    probes = _probe_routes(target)
    state = dataclasses.replace(
        target,
        phase=phase,
        pools=_pools(current, target, limits, changed),
        devices=_devices(current, target, changed),
        neighbors=_union(target.neighbors, current.neighbors, key=lambda entry: (entry.device, entry.address)),
        fdb=_union(target.fdb, current.fdb, key=lambda entry: (entry.device, entry.mac)),
        workloads=_workloads(current, target, limits, changed),
        routes=_routes(current, target, on_routes, flipped) + probes,
        rules=tuple(_rules(probes)),
        sysctls=_union(target.sysctls, current.sysctls, key=_sysctl_key),
        ipsets=_ipsets(current, target),
        iptables=_iptables(current, target),
    )
    return dataclasses.replace(state, **_bird(current, target, on_routes, phase, hold))


def with_sessions_of(target: NodeState, before: t.Optional[NodeState]) -> NodeState:
    """The target with the BGP sessions that a node had `before`: where a change of them is returned from."""
    if before is None or before.bird is None or target.bird is None:
        return target
    bird = dataclasses.replace(
        before.bird,
        pools=target.bird.pools,
        blocks=target.bird.blocks,
        backups=(),
        backup_pools=(),
        backups_lead=False,
        routers_alone=(),
    )
    routes = _union(target.bird_routes, before.bird_routes, key=lambda route: route.destination)
    return dataclasses.replace(target, bird=bird, bird_routes=tuple(_placed(route, bird) for route in routes))


def _limits(current: NodeState, target: NodeState) -> dict[str, int]:
    """pool name -> the MTU that fits both modes, for the pools whose MTU differs or is held by an unfinished change.

    Where the underlay's MTU changes as well, a tunnel takes its new one while the old mode still uses it: so the larger
    overhead counts with the smaller underlay.
    """
    held: dict[str, int] = {}
    for workload in current.workloads:
        # With two pools it is not known which one it was held for; the pools themselves say it.
        if workload.route_mtu is not None and not workload.address6:
            held[workload.pool] = min(workload.route_mtu, held.get(workload.pool, workload.route_mtu))
    for pool in current.pools:
        if pool.route_mtu is not None:
            held[pool.name] = min(pool.route_mtu, held.get(pool.name, pool.route_mtu))
    for name, mtu in _held_by_routes(current):
        held[name] = min(mtu, held.get(name, mtu))
    underlay = min(current.underlay_mtu, target.underlay_mtu)
    changing = _changing(current, target)
    limits = {}
    for pool in target.pools:
        if pool.name in held or pool.name in changing:
            most = max(changing.get(pool.name, 0), overhead(pool.encapsulation, pool.cidr))
            limits[pool.name] = min(underlay - most, held.get(pool.name, underlay))
    for pool_name, mtu in _shared(current, target):
        limits[pool_name] = min(mtu, limits.get(pool_name, mtu))
    return limits


def _changing(current: NodeState, target: NodeState) -> dict[str, int]:
    """{pool: the overhead that it had} of the pools of both whose packets change their size."""
    before = {
        pool.name: max(overhead(pool.encapsulation, pool.cidr), _live_overhead(current, pool.cidr))
        for pool in current.pools
    }
    other_underlay = current.underlay_mtu != target.underlay_mtu
    return {
        pool.name: before[pool.name]
        for pool in target.pools
        if pool.name in before and (other_underlay or before[pool.name] != overhead(pool.encapsulation, pool.cidr))
    }


def _live_overhead(state: NodeState, cidr: str) -> int:
    """Return the bytes that the routes of a pool add to a packet.

    In the middle of a change that is more than the pool's encapsulation says, which is the mode that was to come.
    """
    used = {route.device for route in _live(state) if inside(route.destination, cidr)}
    used |= {pool.device for pool in (state.bird.pools if state.bird else ()) if pool.cidr == cidr}
    kinds = {device.kind for device in state.devices if device.name in used}
    return max((overhead(_ENCAPSULATION[kind], cidr) for kind in kinds), default=0)


def _limits_of_routes(current: NodeState, target: NodeState, limits: t.Mapping[str, int]) -> dict[str, int]:
    """Without the pools that only share their workloads' links with one that changes: at rest, too, the node's own
    routes of a pool may take more than such a link (and BIRD 3.4 brings no new MTU of a route that is otherwise the
    same to the kernel)."""
    names = {*_changing(current, target), *(name for name, dummy in _held_by_routes(current))}
    return {name: mtu for name, mtu in limits.items() if name in names}


def _shared(current: NodeState, target: NodeState) -> t.Iterator[tuple[str, int]]:
    """(pool, MTU) of workloads that have another MTU because an address of the other family comes or goes."""
    before = {workload.interface: workload for workload in current.workloads}
    for workload in target.workloads:
        old = before.get(workload.interface)
        if old is not None and old.mtu != workload.mtu and (workload.address6 or old.address6):
            for pool in (workload.pool, workload.pool6):
                if pool:
                    yield pool, min(old.mtu, workload.mtu)


def _rules(probes: t.Iterable[Route]) -> t.Iterator[RoutingRule]:
    families = {family_of(route.destination) for route in probes}
    if 4 in families:
        yield RoutingRule(PROBE_MARK, TABLE_PROBE, PROBE_PRIORITY)
    if 6 in families:
        yield RoutingRule(PROBE_MARK, TABLE_PROBE, PROBE_PRIORITY, family=6)


def _held_by_routes(state: NodeState) -> t.Iterator[tuple[str, int]]:
    """(pool, MTU) of all routes that an unfinished change holds down."""
    held = [(pool.cidr, pool.mtu) for pool in (state.bird.pools if state.bird else ())]
    held += [(route.destination, route.mtu) for route in state.routes]
    for cidr, mtu in held:
        if mtu is not None:
            name = next((pool.name for pool in state.pools if inside(cidr, pool.cidr)), None)
            if name is not None:
                yield name, mtu


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
) -> tuple[VethEndpoint, ...]:
    before = {workload.interface: workload for workload in current.workloads}
    workloads = []
    for workload in target.workloads:
        old = before.get(workload.interface)
        limit = _least_limit(workload, limits)
        if limit is not None:
            mtu = old.mtu if old is not None and not changed else workload.mtu
            if workload.address6:
                # That of the one pool may be more than the other one leaves.
                limit = min(limit, workload.mtu if old is None else min(old.mtu, workload.mtu))
            workload = dataclasses.replace(workload, mtu=mtu, route_mtu=limit)
        workloads.append(workload)
    # Those that go keep their links, but send nothing larger than the others.
    going = [
        dataclasses.replace(workload, route_mtu=_least_limit(workload, limits) or workload.route_mtu)
        for workload in current.workloads
    ]
    return _union(workloads, going, key=lambda workload: workload.interface)


def _least_limit(workload: VethEndpoint, limits: t.Mapping[str, int]) -> t.Optional[int]:
    return min((limits[pool] for pool in (workload.pool, workload.pool6) if pool in limits), default=None)


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
    """The routes that the target will have to the other nodes' blocks, in the table of the marked probes.

    Not those that only a router outside the fleet can bring: which one, and when, is not known before it does. Marked
    packets go where live ones do then, which says that a way is there, before the flip and after it.
    """
    routes = [
        Route(
            route.destination,
            device=route.device or None,
            gateway=route.gateway or UNDERLAY_GATEWAY.format(route.next_hop),
            onlink=route.onlink,
            table=TABLE_PROBE,
        )
        for route in target.bird_routes
        if target.bird is None or not route_sources.by_routers_alone(target.bird, route)
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


def _bird(
    current: NodeState, target: NodeState, limits: t.Mapping[str, int], phase: Phase, hold: bool
) -> dict[str, t.Any]:
    if target.bird is None:
        return {"bird": None, "bird_routes": ()}
    old: t.Optional[Bird] = current.bird
    flipped = phase == Phase.FLIP
    first = target.bird.pools if flipped or old is None else old.pools
    second = () if old is None else (old.pools if flipped else target.bird.pools)
    limited = {pool.cidr: limits.get(pool.name) for pool in target.pools}
    pools = tuple(
        dataclasses.replace(pool, mtu=limited.get(pool.cidr))
        for pool in _union(first, second, key=lambda pool: pool.cidr)
    )
    blocks = _union(target.bird.blocks, old.blocks if old else (), key=lambda block: block)
    speaker = old if old is not None and hold and not flipped else target.bird
    # The device of the one mode has its neighbours as long as it may be used.
    vteps6 = _union(target.bird.vteps6, old.vteps6 if old else (), key=lambda vtep: vtep.next_hop)
    backups = _backups(target) if hold else ()
    backup_pools = _backup_pools(pools, old, target.bird) if backups else ()
    routers_alone = _by_routers_alone(target) if backup_pools and flipped else ()
    lead = bool(routers_alone) or (bool(backup_pools) and phase == Phase.DIVERT)
    if flipped and backups and old is not None and _into_tunnels(old, target.bird):
        lead = True
    bird = dataclasses.replace(
        speaker,
        pools=pools,
        blocks=blocks,
        vteps6=vteps6,
        backups=backups,
        backup_pools=backup_pools,
        backups_lead=lead,
        routers_alone=routers_alone,
    )
    routes = target.bird_routes
    if hold and not flipped:  # what the old sessions bring from nodes that go
        routes = _union(routes, current.bird_routes, key=lambda route: route.destination)
    return {"bird": bird, "bird_routes": tuple(_placed(route, bird) for route in routes)}


def _backup_pools(pools: tuple[BirdPool, ...], old: t.Optional[Bird], new: Bird) -> tuple[BirdPool, ...]:
    """`pools` as backup routes see them: with a tunnel where either mode has one, or an unfinished change had. The
    receive paths of both stand on all nodes. () where that is no other way."""
    ways: dict[str, BirdPool] = {}
    for way in (*(old.backup_pools if old else ()), *(old.pools if old else ()), *new.pools):
        if way.device:
            ways.setdefault(way.cidr, way)
    found = tuple(
        pool if pool.device else dataclasses.replace(pool, device=way.device, cross_subnet=way.cross_subnet)
        for pool in pools
        for way in [ways.get(pool.cidr, pool)]
    )
    return () if found == pools else found


def _backups(target: NodeState) -> tuple[BackupRoute, ...]:
    """To what BGP is to bring in the end. What nodes have that go is not held: it goes with their sessions."""
    return tuple(BackupRoute(route.destination, route.next_hop) for route in target.bird_routes if route.next_hop)


def _by_routers_alone(target: NodeState) -> tuple[str, ...]:
    bird = target.bird
    return tuple(
        route.destination
        for route in target.bird_routes
        if bird is not None and route_sources.by_routers_alone(bird, route)
    )


def _placed(route: BirdRoute, bird: Bird) -> BirdRoute:
    """The route as the kernel filter made from `bird` places it, when those have said it who are to."""
    pools = bird.backup_pools if bird.backups_lead and not bird.routers_alone and bird.backup_pools else bird.pools
    pool = next((pool for pool in pools if inside(route.destination, pool.cidr)), None)
    if pool is None:
        return route
    subnet = bird.subnet6 if family_of(route.next_hop) == 6 else bird.subnet
    near = bool(subnet) and contains(subnet, route.next_hop)
    device = "" if pool.cross_subnet and near else pool.device
    gateway = route.next_hop if device or near else ""
    if device and family_of(gateway) == 6:
        gateway = next((vtep.gateway for vtep in bird.vteps6 if vtep.next_hop == gateway), gateway)
    return dataclasses.replace(route, gateway=gateway, device=device, onlink=bool(device), mtu=pool.mtu)
