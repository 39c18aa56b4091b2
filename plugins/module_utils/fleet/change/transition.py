# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a node between its present state and its target, such that traffic flows during the change.

Goals, in this order:
 1. A node forwards all traffic in each state, also beside a neighbour that is one phase ahead or behind. So all nodes
    have the receive paths of both modes before the first packet takes the new mode, and until after the last packet
    took the old one.
 2. No packet is larger than the MTU of any link on its path. A veth silently drops packets larger than its other end's
    MTU. So packets are limited to the smaller MTU at their source. The routes inside the workloads' namespaces limit
    them from `prepare` until `retire`, the node's routes to other nodes from `prepare` until `flip`. Links and tunnel
    devices change in between, in `links`. The routes from a node to its own workloads never have a limit, because it
    would also apply to packets from nodes that are one phase behind.
 3. The new mode is tested before live packets use it. Its routes are in a table of their own, for packets with the TOS
    of such probes from the probe endpoint. That endpoint has its addresses in both modes, until `retire`.
 4. Any state can be the start. The run after an interrupted one completes the change, in either direction.
 5. No BGP session restarts while routes depend on it. If sessions change, `prepare` gives each node static backup
    routes to the other nodes' blocks and keeps its sessions. Sessions change in `flip`. `retire` removes the backup
    routes, after BGP has advertised all routes again.
 6. Traffic that routers outside the fleet forward depends on their sessions, which a backup route on a node cannot
    replace. So if one mode is direct and the other has a tunnel, backup routes use the tunnel. In a change to direct
    routing they are in use until the routers have advertised the routes. In a change to a tunnel all packets use them
    from `divert` on, that is, after the tunnel is tested and before the first session with a router ends. In `flip`
    BIRD may still have a route from a session that is about to end, and place it by the new filter. So a route stays
    placed like a backup route until a peer that will advertise it in the end does so.
 7. A node that gets another address may have both, or the new one alone; two nodes may have exchanged theirs. So all
    nodes accept tunnels from both addresses before a device sends from the new one (`links`). Packets to that node take
    its new address from `prepare` on. BGP may still have routes by the old one, from a session that is up or that
    graceful restart keeps, so the next hops of backup routes replace those of BGP until `retire`.

All states are derived from two NodeStates, whatever differs between them. So one code serves a switch of mode, a new
MTU, another topology, a rollback and the completion of an interrupted run.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import family_of, inside
from ...bgp import placement, route_sources, session_changes
from ...bgp.bird_state import BackupRoute, Bird, BirdPool
from ...state.attachment import probe_endpoint, with_probe_endpoint
from ...state.fleet_list import bare
from ...state.node_state import (
    PROBE_INTERFACE,
    PROBE_PRIORITY,
    PROBE_TOS,
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
from ...state.phase import AT_REST, Phase
from . import renumbering

#: A mapping from the kind of a tunnel device to an encapsulation of pools that use such a device.
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
    """Return whether a change from `current` to `pools` needs phases, because packets could be lost without them.

    That is so if the encapsulation of a pool in both, the underlay's MTU or the largest overhead of the enabled IPv6
    pools changes. It is also so if an earlier change was interrupted (`current` is in a phase that is not at rest). It
    is False for a node without a state. `underlay_mtu` is the new one in bytes.
    """
    if current is None:
        return False
    if current.phase not in AT_REST or current.underlay_mtu != underlay_mtu:
        return True
    target = list(pools)
    before = {pool.name: pool.encapsulation for pool in current.pools}
    if any(before.get(pool.name, pool.encapsulation) != pool.encapsulation for pool in target):
        return True
    # A workload with an address of each family has one MTU: an added or removed IPv6 pool may change it.
    return _overhead6(current.pools) != _overhead6(target)


def _overhead6(pools: t.Iterable[_HasEncapsulation]) -> int:
    used = (pool for pool in pools if family_of(pool.cidr) == 6 and not pool.disabled)
    return max((overhead(pool.encapsulation, pool.cidr) for pool in used), default=0)


def endangered(
    current: t.Optional[NodeState],
    target: t.Optional[Bird],
    staying: t.Container[str],
    passwords: t.Collection[str] = (),
    with_backups: bool = True,
) -> bool:
    """Return whether a change to `target` interrupts BGP sessions of a node that routes of any node may depend on.

    It is False if `current` is None or has no BIRD. It is True if `current` has backup routes from an earlier change,
    unless `with_backups` is False. `target` is None if BIRD is removed. `staying` has the names of the nodes that
    remain in the fleet, `passwords` the names of the passwords whose values change.
    """
    if current is None or current.bird is None:
        return False
    if current.bird.backups and with_backups:
        return True
    resets = session_changes.resets(current.bird, target, passwords)
    return any(session_changes.endangers(change, staying) for change in resets)


def diverts(current: t.Optional[NodeState], target: t.Optional[Bird]) -> bool:
    """Return whether any pool changes from direct routing to a tunnel; False without BIRD before or after."""
    if current is None or current.bird is None or target is None:
        return False
    return _into_tunnels(current.bird, target)


def _into_tunnels(old: Bird, new: Bird) -> bool:
    tunnelled = {pool.cidr for pool in new.pools if pool.device}
    return any(not pool.device and pool.cidr in tunnelled for pool in old.pools)


def phase_state(current: t.Optional[NodeState], target: NodeState, phase: Phase, hold: bool = False) -> NodeState:
    """Return the state that a node has in `phase` of a change from `current` to `target`.

    With `hold` BIRD has backup routes between the nodes: BGP sessions that routes depend on are interrupted. In the
    phases `converge` and `retire` the result is `target`, with `converge` as its phase. If `current` is None (a node
    without a state), the result is `target` with this phase, and with backup routes if `hold`. In the phases between,
    it has the pools and policy of `target`, and the devices, workloads, routes and iptables rules of both states. Its
    probe endpoint has the addresses of both, except those that a workload or a tunnel has in one of them. Of
    two live routes to one destination it has that of `current`, in `flip` that of `target`. The module's goals say
    which MTUs and BGP sessions it has. A `current` with invalid values may raise ValueError, LookupError, TypeError or
    AttributeError.
    """
    if phase in AT_REST:
        return dataclasses.replace(target, phase=Phase.CONVERGE)
    if current is None:
        held = target.bird and dataclasses.replace(target.bird, backups=_backups(target) if hold else ())
        return dataclasses.replace(target, phase=phase, bird=held)
    limits = _limits(current, target)
    changed, flipped = phase != Phase.PREPARE, phase == Phase.FLIP
    on_routes = {} if flipped else _limits_of_routes(current, target, limits)
    moved = _moved(current, target)
    endpoint = _probe_endpoint(current, target)
    probes = _probe_routes(target) if endpoint is not None else ()
    state = dataclasses.replace(
        target,
        phase=phase,
        pools=_pools(current, target, limits, changed),
        devices=_devices(current, target, changed),
        neighbors=_union(target.neighbors, current.neighbors, key=lambda entry: (entry.device, entry.address)),
        fdb=_union(target.fdb, current.fdb, key=lambda entry: (entry.device, entry.mac)),
        workloads=_workloads(current, target, limits, changed),
        routes=_routes(current, target, on_routes, flipped or (changed and moved)) + probes,
        rules=tuple(_rules(probes)),
        sysctls=_union(target.sysctls, current.sysctls, key=_sysctl_key),
        ipsets=_ipsets(current, target),
        iptables=_iptables(current, target),
    )
    state = with_probe_endpoint(state, endpoint)
    return dataclasses.replace(state, **_bird(current, target, on_routes, phase, hold, moved))


def with_sessions_of(target: NodeState, before: t.Optional[NodeState]) -> NodeState:
    """Return `target` with the BGP sessions and other settings of BIRD in `before`, to revert a change of sessions.

    BIRD's pools and blocks are those of `target`, and there are no backup routes. The routes that BIRD learns lead to
    the destinations of `target`, then to those that only `before` has. If `before` is None, or either state has no
    BIRD, return `target` itself. Nodes that have other addresses in `target` have their sessions with these. A `before`
    with invalid addresses or subnets may raise ValueError.
    """
    if before is None or before.bird is None or target.bird is None:
        return target
    found = renumbering.moves(before, target)
    old = renumbering.bird_with_addresses(before.bird, found, target)
    bird = dataclasses.replace(
        old,
        pools=target.bird.pools,
        blocks=target.bird.blocks,
        vteps6=_union(target.bird.vteps6, old.vteps6, key=lambda vtep: vtep.gateway),
        backups=(),
        backup_pools=(),
        backups_lead=False,
        routers_alone=(),
    )
    others = renumbering.routes_with_addresses(before.bird_routes, found)
    routes = _union(target.bird_routes, others, key=lambda route: route.destination)
    return dataclasses.replace(target, bird=bird, bird_routes=tuple(placement.placed(route, bird) for route in routes))


def _limits(current: NodeState, target: NodeState) -> dict[str, int]:
    """Return the MTUs in bytes that fit both modes, by the name of each pool that changes or is limited already.

    If the underlay's MTU changes as well, a tunnel gets its new MTU while the old mode still uses it. So the larger
    overhead is subtracted from the smaller underlay MTU.
    """
    held: dict[str, int] = {}
    for workload in current.workloads:
        # Workloads with an IPv6 address are skipped. They may have two pools, and so a limit that is due to either one,
        # whose `route_mtu` has it.
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
    """Return the present overhead in bytes, by name, of pools in both states whose overhead or underlay MTU changes."""
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
    """Return the most bytes that the tunnels in use for the pool `cidr` add to a packet, 0 if it uses none.

    During a change that can be more than the overhead of the pool's encapsulation, which is that of the new mode.
    """
    used = {route.device for route in _live(state) if inside(route.destination, cidr)}
    used |= {pool.device for pool in (state.bird.pools if state.bird else ()) if pool.cidr == cidr}
    kinds = {device.kind for device in state.devices if device.name in used}
    return max((overhead(_ENCAPSULATION[kind], cidr) for kind in kinds), default=0)


def _limits_of_routes(current: NodeState, target: NodeState, limits: t.Mapping[str, int]) -> dict[str, int]:
    """Return those of `limits` (pool name to MTU in bytes) that the node's own routes need, not only workloads' links.

    Routes may have a larger MTU than such a link at rest, too. BIRD 3.4 also does not write a route to the kernel if
    only its MTU has changed.
    """
    names = {*_changing(current, target), *(name for name, dummy in _held_by_routes(current))}
    return {name: mtu for name, mtu in limits.items() if name in names}


def _shared(current: NodeState, target: NodeState) -> t.Iterator[tuple[str, int]]:
    """Yield (pool of `target`, smaller MTU in bytes) for each workload whose MTU changes with its IPv6 address.

    Only workloads in both states count, and a pool may occur several times.
    """
    before = {workload.interface: workload for workload in current.workloads}
    for workload in target.workloads:
        old = before.get(workload.interface)
        if old is not None and old.mtu != workload.mtu and (workload.address6 or old.address6):
            for pool in (workload.pool, workload.pool6):
                if pool:
                    yield pool, min(old.mtu, workload.mtu)


def _rules(probes: t.Iterable[Route]) -> t.Iterator[RoutingRule]:
    for family in sorted({family_of(route.destination) for route in probes}):
        yield RoutingRule(0, TABLE_PROBE, PROBE_PRIORITY, family, PROBE_INTERFACE, PROBE_TOS)


def _held_by_routes(state: NodeState) -> t.Iterator[tuple[str, int]]:
    """Yield (pool name, MTU in bytes) for each route or pool of BIRD that an unfinished change limits."""
    held = [(pool.cidr, pool.mtu) for pool in (state.bird.pools if state.bird else ())]
    held += [(route.destination, route.mtu) for route in state.routes]
    for cidr, mtu in held:
        if mtu is not None:
            name = next((pool.name for pool in state.pools if inside(cidr, pool.cidr)), None)
            if name is not None:
                yield name, mtu


def _union(first: t.Sequence[T], second: t.Sequence[T], key: t.Callable[[T], t.Any]) -> tuple[T, ...]:
    """Return the items of `first`, then those of `second` whose `key` no item of `first` has."""
    known = {key(item) for item in first}
    return tuple(first) + tuple(item for item in second if key(item) not in known)


def _sysctl_key(sysctl: Sysctl) -> str:
    return sysctl.key


def _moved(current: NodeState, target: NodeState) -> bool:
    """Return whether a node has another address than in `current`, or may have in the sessions of an earlier phase."""
    held = current.phase in (Phase.PREPARE, Phase.LINKS) and current.bird is not None and current.bird.backups_lead
    return held or bool(renumbering.moves(current, target))


def _devices(current: NodeState, target: NodeState, changed: bool) -> tuple[TunnelDevice, ...]:
    """Return the tunnel devices of `target`, then those only in `current`.

    They keep their present MTUs and local addresses unless `changed`.
    """
    before = {device.name: device for device in current.devices}
    devices = []
    for device in target.devices:
        old = before.get(device.name, device)
        devices.append(device if changed else dataclasses.replace(device, mtu=old.mtu, local=old.local))
    return _union(devices, current.devices, key=lambda device: device.name)


def _pools(current: NodeState, target: NodeState, limits: t.Mapping[str, int], changed: bool) -> tuple[Pool, ...]:
    """Return the pools of `target` with the MTUs for workloads that agents attach during the change.

    A pool has its entry of `limits` (name to bytes), if any, as `route_mtu`. Then its `workload_mtu` is that of
    `target` if `changed` (the phase `links` or a later one) or `current` lacks it, else that of `current`.
    """
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
                # The limit of one pool may be more than the link's MTU, which both pools determine.
                limit = min(limit, workload.mtu if old is None else min(old.mtu, workload.mtu))
            workload = dataclasses.replace(workload, mtu=mtu, route_mtu=limit)
        workloads.append(workload)
    # Workloads that are removed keep their links until `retire`, and are limited like the others.
    to_remove = [
        dataclasses.replace(workload, route_mtu=_least_limit(workload, limits) or workload.route_mtu)
        for workload in current.workloads
    ]
    return _union(workloads, to_remove, key=lambda workload: workload.interface)


def _probe_endpoint(current: NodeState, target: NodeState) -> t.Optional[VethEndpoint]:
    """Return the probe endpoint of both states, with the larger MTU: the size of each probe is that of its path."""
    both = [one for one in (target.probe_endpoint, current.probe_endpoint) if one is not None]
    taken = set[str]()
    for state in (target, current):
        taken.update(state.ipam.tunnels.values(), *(workload.addresses for workload in state.workloads))
    addresses = dict.fromkeys(address for one in both for address in one.addresses if address not in taken)
    spoofing = target.workload_source_spoofing
    found = probe_endpoint(addresses, (*target.pools, *current.pools), source_spoofing=spoofing)
    return found and dataclasses.replace(found, mtu=max(one.mtu for one in both))


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
    """Return the routes of live packets, except for those to the node's own probe endpoint."""
    return tuple(route for route in state.routes if route.table != TABLE_PROBE and route.device != PROBE_INTERFACE)


def _probe_routes(target: NodeState) -> tuple[Route, ...]:
    """Return the routes to other nodes' blocks that `target` has, in the routing table for probes of its mode.

    A route of BIRD without a gateway gets the placeholder UNDERLAY_GATEWAY. Routes that only a router outside the fleet
    can advertise are left out: their gateway is unknown. Probes to them take the path of live packets.
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
    """Return the tables of both states, each rule once, `target`'s first: its exemptions from NAT precede old rules.

    Left out are rules about an IPv6 address that the node no longer has: another node may have it.
    """
    tables: dict[tuple[str, int], IptablesTable] = {}
    old6, new6 = bare(current.address6), bare(target.address6)
    left = renumbering.from_source(old6) if old6 and old6 != new6 else ""
    for table in (*target.iptables, *current.iptables):
        key = table.name, table.family
        before = tables.get(key, IptablesTable(table.name, family=table.family))
        chains = dict(before.chains)
        for chain, rules in table.chains.items():
            kept = [rule for rule in rules if not left or table.family == 4 or not rule.startswith(left)]
            chains[chain] = _union(chains.get(chain, ()), kept, key=lambda rule: rule)
        hooks = _union(before.hooks, table.hooks, key=lambda hook: hook)
        titles = {**table.titles, **before.titles}
        tables[key] = dataclasses.replace(before, chains=chains, hooks=hooks, titles=titles)
    return tuple(tables.values())


def _bird(
    current: NodeState, target: NodeState, limits: t.Mapping[str, int], phase: Phase, hold: bool, moved: bool
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
    # A device has its neighbours as long as packets may use it.
    vteps6 = _union(target.bird.vteps6, old.vteps6 if old else (), key=lambda vtep: vtep.next_hop)
    backups = _backups(target) if hold else ()
    # Before the tunnels of the new mode are tested, packets to a new address go by the old mode.
    tested = phase not in (Phase.PREPARE, Phase.LINKS)
    backup_pools = _backup_pools(pools, old, target.bird) if backups and (tested or not moved) else ()
    routers_alone = _by_routers_alone(target) if backup_pools and flipped else ()
    lead = bool(routers_alone) or (bool(backup_pools) and phase == Phase.DIVERT)
    if backups and (moved or (flipped and old is not None and _into_tunnels(old, target.bird))):
        lead = True
    # The old sessions go on, but the node's subnets are those of its addresses.
    bird = dataclasses.replace(
        speaker,
        subnet=target.bird.subnet,
        subnet6=target.bird.subnet6,
        pools=pools,
        blocks=blocks,
        vteps6=vteps6,
        backups=backups,
        backup_pools=backup_pools,
        backups_lead=lead,
        routers_alone=routers_alone,
    )
    routes = target.bird_routes
    if hold and not flipped:  # the old sessions still advertise routes of nodes that are removed
        routes = _union(routes, current.bird_routes, key=lambda route: route.destination)
    return {"bird": bird, "bird_routes": tuple(placement.placed(route, bird) for route in routes)}


def _backup_pools(pools: tuple[BirdPool, ...], old: t.Optional[Bird], new: Bird) -> tuple[BirdPool, ...]:
    """Return `pools` as BIRD places backup routes, each with the tunnel of either mode; () if that is no difference.

    All nodes have the receive paths of both modes.
    """
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
    """Return a backup route for each route with a known next hop that BGP is to advertise to `target`."""
    return tuple(BackupRoute(route.destination, route.next_hop) for route in target.bird_routes if route.next_hop)


def _by_routers_alone(target: NodeState) -> tuple[str, ...]:
    bird = target.bird
    return tuple(
        route.destination
        for route in target.bird_routes
        if bird is not None and route_sources.by_routers_alone(bird, route)
    )
