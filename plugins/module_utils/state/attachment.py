# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that are attached and detached between runs, and the NodeState with them. Pure."""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import operator
import typing as t

from ..base import published_port
from ..base.addresses import contains, family_of, host, parse_cidr
from ..base.published_port import PublishedPort
from ..base.typed_json import Unreadable, by_name, flag, items, maybe, open_table, refuse, text, whole
from ..policy.chains.settings import ChainSettings
from ..policy.sets.ip_sets import LOCAL_BLOCKS, name_of
from . import published_ports
from .node_state import (
    OVERHEAD,
    OVERHEAD6,
    PROBE_INTERFACE,
    PROBE_NAME,
    PROBE_NAMESPACE,
    PROBE_NETNS,
    TABLE_MAIN,
    Block,
    IpSet,
    IptablesTable,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
    VethEndpoint,
)
from .published_ports import PublishingWorkload

#: Values of rp_filter. The source of a packet is not checked (UNCHECKED), must have its route by the interface at which
#: the packet arrived (STRICT), or must have any route (LOOSE).
UNCHECKED, STRICT, LOOSE = "0", "1", "2"

#: Patterns of the host ends of workloads, in the syntax of iptables.
WORKLOAD_INTERFACES = tuple(f"{prefix}+" for prefix in ChainSettings().interface_prefixes)


@dataclasses.dataclass(frozen=True)
class AttachedWorkload:
    """A workload that the API, the CNI plugin or a module attached.

    `id` is unique on the node: "<network>.<containerID>.<ifname>" for CNI, "<namespace>/<name>" for all others. The
    latter marks the link of every workload, and is unique as well.
    """

    id: str
    name: str
    namespace: str = "default"
    interface: str = ""  # host end
    netns: str = ""  # name below /run/netns, or absolute path
    netns_owned: bool = False  # this collection created the namespace for it
    peer_interface: str = "eth0"
    addresses: tuple[str, ...] = ()
    pool: str = ""
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mac: t.Optional[str] = None  # as requested, for the end inside the namespace; None: any
    mtu: t.Optional[int] = None  # as requested, in bytes; the pools' workload_mtu counts if it is smaller, or for None
    network: str = ""  # CNI: name of the network
    container: str = ""  # CNI: id of the container
    since: str = ""  # time of its attachment: ISO 8601, UTC
    netns_identity: str = ""  # identifies the namespace that it was attached to, until the next boot; "": not known

    #: Whether a container engine moves the inner end into its container and configures it; see VethEndpoint.
    handed_over: bool = False

    #: The runtime whose plugin attached it, such as podman; "" for CNI, the API, and records of earlier releases.
    runtime: str = ""

    #: Ports of the host that lead to it.
    ports: tuple[PublishedPort, ...] = ()

    #: Labels that were changed after it was attached, None for a removed one. `labels` contains the changes.
    relabelled: t.Mapping[str, t.Optional[str]] = dataclasses.field(default_factory=dict)

    #: The container's name, as its runtime reported it; "" if it is not known.
    container_name: str = ""

    #: The part of `labels` that the container has itself. Labels that were given or set for the workload precede it.
    container_labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def attached_by(self) -> str:
        """The runtime that it belongs to: the name of one that is known, "docker" or "cni"; "" for none."""
        if self.runtime:
            return self.runtime
        if self.handed_over:
            return "docker"
        return "cni" if self.container else ""

    def to_dict(self) -> dict[str, t.Any]:
        """Return the workload as plain data for JSON; `from_dict` reads it.

        `netns_identity` and `relabelled` are left out, and `handed_over`, `ports`, `runtime`, `container_name` and
        `container_labels` if they are not set.
        """
        plain = {**self.__dict__, "addresses": list(self.addresses), "labels": dict(self.labels)}
        plain["container_labels"] = dict(self.container_labels)
        del plain["netns_identity"], plain["relabelled"]
        plain["ports"] = [port.to_dict() for port in self.ports]
        for name in ("handed_over", "ports", "runtime", "container_name", "container_labels"):
            if not plain[name]:
                del plain[name]
        return plain

    def to_record(self) -> dict[str, t.Any]:
        """Return the workload as plain data for the node's record of it: `to_dict`, and `relabelled` unless empty."""
        plain = self.to_dict()
        return {**plain, "relabelled": dict(self.relabelled)} if self.relabelled else plain

    def with_labels(self, given: t.Mapping[str, str]) -> AttachedWorkload:
        """Return the workload as if it had been attached with the labels `given`, and relabelled as it was since.

        Its container's labels stay, except those that are given. The same object is returned if no label changes.
        """
        return self._with_both({**given, **self.relabelled}, self.container_labels)

    def labelled(self, labels: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
        """Return the workload with these labels changed after its attachment; None removes a label.

        The changes are added to `relabelled`. The same object is returned if nothing changes.
        """
        relabelled = {**self.relabelled, **labels}
        changed = self if relabelled == self.relabelled else dataclasses.replace(self, relabelled=relabelled)
        return changed._with_both({**self.own_labels, **relabelled}, self.container_labels)

    @property
    def own_labels(self) -> dict[str, str]:
        """The labels that were given or set for the workload: those that its container does not add."""
        return {key: text for key, text in self.labels.items() if key not in self.container_labels}

    def described(self, name: str, labels: t.Mapping[str, str]) -> AttachedWorkload:
        """Return the workload with its container's present name and labels, in place of earlier ones.

        A label is ignored if the workload has one of that key, or one was removed from it. The same object is returned
        if nothing changes.
        """
        named = self if name == self.container_name else dataclasses.replace(self, container_name=name)
        return named._with_both({**self.own_labels, **self.relabelled}, labels)

    def _with_both(self, own: t.Mapping[str, t.Optional[str]], container: t.Mapping[str, str]) -> AttachedWorkload:
        """Return the workload with its own labels, None for one that it must not have, before the container's."""
        added = {key: text for key, text in container.items() if key not in own}
        labels = {**added, **{key: text for key, text in own.items() if text is not None}}
        if labels == self.labels and added == self.container_labels:
            return self
        return dataclasses.replace(self, labels=labels, container_labels=added)

    @classmethod
    def from_dict(cls, data: t.Any) -> AttachedWorkload:
        """Return the workload in `data`. Missing fields get their defaults, unknown ones of later releases are ignored.

        Raise ValueError if `data` is not a dict, a value is of a wrong type or invalid, or id or name is missing or
        empty.
        """
        try:
            found: dict[str, t.Any] = _RECORD(data)
        except Unreadable as error:
            raise ValueError(f"a workload's {error.place or 'record'} is {error.why}") from None
        found.update((name, tuple(found[name])) for name in ("addresses", "ports") if name in found)
        return cls(**found)


def _address(value: t.Any) -> str:
    """Return `value` if it is an address without a prefix length. Otherwise raise Unreadable."""
    try:
        ipaddress.ip_address(value if isinstance(value, str) else "")
    except ValueError:
        refuse(value, "an address")
    return str(value)


_RECORD = open_table(
    {"id": text(1 << 16, least=1), "name": text(least=1)},
    {
        **dict.fromkeys(("namespace", "interface", "netns", "netns_identity", "peer_interface", "pool"), text()),
        **dict.fromkeys(("network", "container", "since", "runtime", "container_name"), text()),
        **dict.fromkeys(("netns_owned", "handed_over"), flag),
        "addresses": items(_address),
        **dict.fromkeys(("labels", "container_labels"), by_name(text())),
        "relabelled": by_name(maybe(text())),
        "mac": maybe(text()),
        "mtu": maybe(whole()),
        "ports": items(PublishedPort.read, published_port.LIMIT),
    },
)


def endpoint(
    workload: AttachedWorkload, pool: Pool, pool6: t.Optional[Pool] = None, *, source_spoofing: bool = False
) -> VethEndpoint:
    """Return the veth endpoint of a workload, as the drivers need it. Raise ValueError if the workload has no address.

    `pool` is the pool of its IPv4 address, and `pool6` that of its IPv6 address if it has both. For a workload with
    IPv6 alone, `pool` is the pool of that address. MTU and route_mtu are the smallest of the pools' and the requested
    one; route_mtu is None if no pool has one. Only the workload's first address of each IP version is used. With
    `source_spoofing` the workload may send from addresses that are not its own.
    """
    address = next((found for found in workload.addresses if family_of(found) == 4), "")
    address6 = next((found for found in workload.addresses if family_of(found) == 6), "")
    if not address and not address6:
        raise ValueError(f"workload {workload.id} has no address")
    pools = (pool,) if pool6 is None else (pool, pool6)
    mtu = min([one.workload_mtu for one in pools] + ([] if workload.mtu is None else [workload.mtu]))
    route_mtus = [one.route_mtu for one in pools if one.route_mtu is not None]
    return VethEndpoint(
        name=workload.name,
        namespace=workload.namespace,
        interface=workload.interface,
        address=address,
        mtu=mtu,
        pool=workload.pool if address else "",
        netns=workload.netns,
        netns_owned=workload.netns_owned,
        peer_interface=workload.peer_interface,
        route_mtu=min(*route_mtus, mtu) if route_mtus else None,
        labels=workload.labels,
        mac=workload.mac,
        address6=address6,
        pool6=(pool6 or pool).name if address6 else "",
        netns_identity=workload.netns_identity,
        source_spoofing=source_spoofing,
        handed_over=workload.handed_over,
        ports=workload.ports,
    )


def probe_endpoint(
    addresses: t.Iterable[str], pools: t.Sequence[Pool], *, source_spoofing: bool = False
) -> t.Optional[VethEndpoint]:
    """Return the probe endpoint with these addresses, each of one of `pools`; None without addresses.

    Its MTU is the largest that a workload of its pools has: each probe has the size for its own path, and is not
    fragmented. `source_spoofing` is that of the node's workloads.
    """
    own = {address: next((pool for pool in pools if contains(pool.cidr, address)), None) for address in addresses}
    if not own:
        return None
    address = next((one for one in own if family_of(one) == 4), "")
    address6 = next((one for one in own if family_of(one) == 6), "")
    pool, pool6 = own.get(address), own.get(address6)
    return VethEndpoint(
        name=PROBE_NAME,
        namespace=PROBE_NAMESPACE,
        netns=PROBE_NETNS,
        interface=PROBE_INTERFACE,
        address=address,
        mtu=max((found.workload_mtu for found in own.values() if found is not None), default=Pool.workload_mtu),
        pool=pool.name if pool else "",
        address6=address6,
        pool6=pool6.name if pool6 else "",
        source_spoofing=source_spoofing,
        further=tuple(one for one in own if one not in (address, address6)),
    )


#: What a name belongs to that no workload can have, in words.
OF_PROBES = "belongs to the node's own probe endpoint, by which it tests its paths to other nodes."


def reserved_for_probes(namespace: str, name: str, netns: str, interface: str = "") -> str:
    """Return which of these names of a workload the probe endpoint has: `name`, `netns`, `interface`, or "" for none.

    `netns` is a name or a path, `interface` that of the host end.
    """
    folder, _slash, found = netns.rpartition("/")
    if found == PROBE_NETNS and folder in ("", "/run/netns", "/var/run/netns"):
        return "netns"
    if interface == PROBE_INTERFACE:
        return "interface"
    return "name" if (namespace, name) == (PROBE_NAMESPACE, PROBE_NAME) else ""


def with_probe_endpoint(state: NodeState, endpoint: t.Optional[VethEndpoint]) -> NodeState:
    """Return `state` with `endpoint`, or none, as its probe endpoint, and with the sysctls and routes of that alone."""
    routes = () if endpoint is None else endpoint_routes(endpoint)
    sysctls = () if endpoint is None else endpoint_sysctls(endpoint)
    return dataclasses.replace(
        state,
        probe_endpoint=endpoint,
        routes=(*(route for route in state.routes if route.device != PROBE_INTERFACE), *routes),
        sysctls=(*(one for one in state.sysctls if PROBE_INTERFACE not in one.key.split("/")), *sysctls),
    )


def endpoint_sysctls(workload: VethEndpoint) -> tuple[Sysctl, ...]:
    """Return the sysctls of the host end of a workload's link, in the order in which they must be written.

    A delay of proxy_arp's answers has crashed kernels (felix #1937), so the delay is 0. rp_filter 1 accepts an IPv4
    packet only if the route to its source uses this interface, also from a workload without an IPv4 address. A workload
    that may send from other addresses is not checked: 2 is as strict as 1 on an interface without an address. With a
    published port of IPv4, packets from 127.0.0.1 of the host may leave by this interface: POSTROUTING gives them
    another source. What a workload itself sends to 127.0.0.0/8 is dropped in the table raw.

    IPv6 is enabled last. Then the link-local address, which is the workload's gateway, is derived from the MAC, and no
    duplicate address detection delays it.
    """
    name = workload.interface
    sysctls: tuple[Sysctl, ...] = (
        Sysctl(f"net/ipv4/conf/{name}/rp_filter", UNCHECKED if workload.source_spoofing else STRICT),
    )
    if workload.address:
        sysctls += (
            Sysctl(f"net/ipv4/neigh/{name}/proxy_delay", "0"),
            Sysctl(f"net/ipv4/conf/{name}/proxy_arp", "1"),
            Sysctl(f"net/ipv4/conf/{name}/forwarding", "1"),
        )
        if workload.publishes(4):
            sysctls += (Sysctl(f"net/ipv4/conf/{name}/route_localnet", "1"),)
    if workload.address6:
        settings = ("accept_dad", "0"), ("addr_gen_mode", "0"), ("forwarding", "1")
        sysctls += tuple(Sysctl(f"net/ipv6/conf/{name}/{key}", value) for key, value in settings)
        sysctls += (Sysctl(f"net/ipv6/conf/{name}/disable_ipv6", "0"),)
    return sysctls


def endpoint_routes(workload: VethEndpoint) -> tuple[Route, ...]:
    """Return a route (/32 or /128) to the host end of the link for each address of the workload, IPv4 first."""
    return tuple(Route(host(address), device=workload.interface) for address in workload.addresses)


def own_routes(bgp: bool, ipam: NodeIpam, workloads: t.Sequence[VethEndpoint]) -> tuple[Route, ...]:
    """Return a blackhole route for each block that other nodes route here, and the routes to all `workloads`.

    The probe endpoint counts as one of them.
    """
    hosts = {route.destination: route for workload in workloads for route in endpoint_routes(workload)}
    # Without BGP, other nodes already have routes to spare blocks. Packets to unused addresses in them must end here.
    blocks = ipam.blocks if bgp else ipam.blocks + ipam.spare_blocks
    return (*_blackholes(blocks, hosts), *hosts.values())


def _blackholes(blocks: t.Iterable[Block], hosts: t.Container[str]) -> list[Route]:
    """Return the blackhole routes of `blocks`, except where `hosts` has a workload's route with that destination.

    Such a block has one address.
    """
    return [Route(block.cidr, "blackhole") for block in blocks if block.cidr not in hosts]


def with_opened(ipam: NodeIpam, opened: t.Collection[str]) -> NodeIpam:
    """Return `ipam` with the spare blocks in `opened` (CIDRs) moved to the end of `blocks`. Other CIDRs are ignored."""
    if not opened:
        return ipam
    spare = {block.cidr: block for block in ipam.spare_blocks}
    taken = [spare.pop(cidr) for cidr in opened if cidr in spare]
    return dataclasses.replace(ipam, blocks=(*ipam.blocks, *taken), spare_blocks=tuple(spare.values()))


class OwnEndpoint(t.NamedTuple):
    """The veth endpoint of an attached workload, with the routes and sysctls of its host end."""

    endpoint: VethEndpoint
    routes: tuple[Route, ...]
    sysctls: tuple[Sysctl, ...]


class _Given(t.NamedTuple):
    """What endpoints depend on in a node's state."""

    pools: tuple[Pool, ...]
    underlay_mtu: int
    source_spoofing: bool


class _Made(t.NamedTuple):
    workload: AttachedWorkload
    given: _Given
    pools: tuple[Pool, ...]
    own: OwnEndpoint


class OwnEndpoints:
    """A cache of the veth endpoints of AttachedWorkloads, by the id of the workload."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._given = _Given((), 0, False)

    def of(self, state: NodeState, workload: AttachedWorkload) -> OwnEndpoint:
        """Return the endpoint of a workload (see `endpoint`), the same object for the same workload and pools.

        Raise ValueError if the workload has no address.
        """
        given = self._given
        if given != (state.pools, state.underlay_mtu, state.workload_source_spoofing):
            given = self._given = _Given(state.pools, state.underlay_mtu, state.workload_source_spoofing)
        known = self._made.get(workload.id)
        if known is not None and known.workload is workload and known.given is given:
            return known.own
        pools = pools_of(state, workload)
        if known is not None and known.workload is workload and known.pools == pools:
            if known.given.source_spoofing == given.source_spoofing:
                self._made[workload.id] = known._replace(given=given)
                return known.own
        made = endpoint(workload, *pools, source_spoofing=given.source_spoofing)
        own = OwnEndpoint(made, endpoint_routes(made), endpoint_sysctls(made))
        self._made[workload.id] = _Made(workload, given, pools, own)
        return own

    def forget(self, id: str) -> None:
        self._made.pop(id, None)


def beside_inventory(
    state: NodeState, workloads: t.Iterable[AttachedWorkload], own: t.Optional[OwnEndpoints] = None
) -> list[OwnEndpoint]:
    """Return the endpoints of `workloads`, the node's own, sorted by id.

    A workload without an address is left out, because it cannot be on the host yet. So is one whose interface or
    address another workload has: those of the inventory take precedence, then the smaller id. So is one with the
    interface of the probe endpoint, whose addresses do not count.
    """
    made = own or OwnEndpoints()
    interfaces = {found.interface for found in state.endpoints}
    addresses = {address for found in state.workloads for address in found.addresses}
    endpoints: list[OwnEndpoint] = []
    for workload in sorted(workloads, key=operator.attrgetter("id")):
        if not workload.addresses:
            continue
        found = made.of(state, workload)
        interface, its_addresses = found.endpoint.interface, found.endpoint.addresses
        if interface not in interfaces and addresses.isdisjoint(its_addresses):
            interfaces.add(interface)
            addresses.update(its_addresses)
            endpoints.append(found)
    return endpoints


def with_workloads(
    state: NodeState,
    workloads: t.Iterable[AttachedWorkload],
    opened: t.Collection[str],
    own: t.Optional[OwnEndpoints] = None,
    published: t.Collection[int] = (),
) -> NodeState:
    """Return `state` with the node's own workloads (see `beside_inventory`) and with its `opened` spare blocks open.

    `opened` are CIDRs. Sysctls, routes, blackhole routes of opened blocks and rules for published ports are added, and
    empty chains for the IP versions in `published`. A blackhole gives way to a workload's route with its destination;
    any other route of the table main stays in place of a new one. The probe endpoint gives up an address that one of
    the workloads has. The same object is returned if nothing is added.
    """
    ipam = with_opened(state.ipam, opened)
    added = beside_inventory(state, workloads, own)
    if not added and ipam is state.ipam and not published:
        return state
    endpoints = [found.endpoint for found in added]
    state = without_probes_at(state, [address for found in endpoints for address in found.addresses])
    ipam = with_opened(state.ipam, opened)
    hosts = {route.destination: route for found in added for route in found.routes}
    routes = (*_blackholes(ipam.blocks[len(state.ipam.blocks) :], hosts), *hosts.values())
    kept = [route for route in state.routes if route.type != "blackhole" or route.destination not in hosts]
    present = {route.destination for route in kept if route.table == TABLE_MAIN}
    return dataclasses.replace(
        state,
        ipam=ipam,
        workloads=(*state.workloads, *endpoints),
        routes=(*kept, *(route for route in routes if route.destination not in present)),
        sysctls=(*state.sysctls, *itertools.chain.from_iterable(found.sysctls for found in added)),
        iptables=with_published(state.iptables, endpoints, published),
    )


def without_probes_at(state: NodeState, addresses: t.Iterable[str]) -> NodeState:
    """Return `state` with a probe endpoint that has none of `addresses`, and without it if no other address is left.

    The same object is returned if it has none of them. The sysctls and routes of a lost address go with it.
    """
    endpoint = state.probe_endpoint
    taken = {*state.ipam.probes.values(), *(endpoint.addresses if endpoint is not None else ())}.intersection(addresses)
    if not taken:
        return state
    probes = {pool: address for pool, address in state.ipam.probes.items() if address not in taken}
    state = dataclasses.replace(state, ipam=dataclasses.replace(state.ipam, probes=probes))
    if endpoint is None:
        return state
    left = (address for address in endpoint.addresses if address not in taken)
    fewer = probe_endpoint(left, state.pools, source_spoofing=endpoint.source_spoofing)
    return with_probe_endpoint(state, fewer and dataclasses.replace(fewer, mtu=endpoint.mtu))


def with_published(
    tables: tuple[IptablesTable, ...], endpoints: t.Iterable[VethEndpoint], families: t.Collection[int] = ()
) -> tuple[IptablesTable, ...]:
    """Return `tables` with the rules for the ports that `endpoints` publish, and empty chains for `families`."""
    publishing = [PublishingWorkload(found.addresses, found.ports) for found in endpoints if found.ports]
    return published_ports.with_ports(tables, publishing, WORKLOAD_INTERFACES, families)


def with_blocks_in_use(state: NodeState, current: t.Optional[NodeState], allocated: t.Collection[str]) -> NodeState:
    """Return `state`, an earlier one to which the node reverts from `current`, with the newer blocks that are in use.

    A block of `current`, also a spare one, is in use if one of the `allocated` addresses lies in it. It is added if
    `state` has its pool: with a blackhole route, in the IP sets of the node's own blocks, and, unless the pool has
    `disable_bgp_export`, in BIRD's announcements. The same object is returned if there is none.
    """
    if current is None or not allocated:
        return state
    known = {block.cidr for block in (*state.ipam.blocks, *state.ipam.spare_blocks)}
    pools = {pool.name: pool for pool in state.pools}
    later = [block for block in (*current.ipam.blocks, *current.ipam.spare_blocks) if block.cidr not in known]
    kept = tuple(
        block for block in later if block.pool in pools and any(contains(block.cidr, address) for address in allocated)
    )
    if not kept:
        return state
    bird = state.bird
    if bird is not None:
        announced = tuple(block.cidr for block in kept if not pools[block.pool].disable_bgp_export)
        bird = dataclasses.replace(bird, blocks=(*bird.blocks, *announced))
    hosts = {route.destination for route in state.routes}
    return dataclasses.replace(
        state,
        ipam=dataclasses.replace(state.ipam, blocks=(*state.ipam.blocks, *kept)),
        routes=(*state.routes, *(Route(block.cidr, "blackhole") for block in kept if block.cidr not in hosts)),
        ipsets=with_blocks(state.ipsets, kept),
        bird=bird,
    )


def address_conflicts(state: NodeState, workloads: t.Iterable[AttachedWorkload]) -> list[str]:
    """Return a sentence for each address of `workloads` that `state` plans for a tunnel or a workload of its own."""
    planned = {address: f"the {kind} tunnel" for kind, address in state.ipam.tunnels.items()}
    planned.update(
        (address, f"workload {found.namespace}/{found.name}")
        for found in state.workloads
        for address in found.addresses
    )
    return [
        f"{address}, planned for {planned[address]} of {state.node}, was given to workload {workload.id} there "
        "meanwhile. Run playbooks/site.yml: it plans another address."
        for workload in sorted(workloads, key=lambda found: found.id)
        for address in workload.addresses
        if address in planned
    ]


def is_of_pools(asked: t.Collection[str], pool: str, addresses: t.Collection[str]) -> bool:
    """Return whether a workload is of one of the `asked` pools, which are names or CIDRs.

    `pool` is the name of its pool, `addresses` are its addresses without prefix length. No two pools share an address.
    """
    ranges = [str(found) for found in map(parse_cidr, asked) if found is not None]
    return pool in asked or any(contains(cidr, address) for cidr in ranges for address in addresses)


def pools_of(state: NodeState, workload: AttachedWorkload) -> tuple[Pool, ...]:
    """Return the pools of the workload's addresses, one for each IP version that it has, IPv4 first.

    The first is the pool named `workload.pool`, if it has the right IP version. Otherwise a pool is the one that
    contains the address. If there is none, or no address, it is a substitute whose MTU fits into any tunnel of the IP
    version.
    """
    first: dict[bool, str] = {}
    for address in workload.addresses:
        first.setdefault(family_of(address) == 6, address)
    found: list[Pool] = []
    for family6, address in sorted(first.items()):
        pool = next((pool for pool in state.pools if pool.name == workload.pool and not found), None)
        if pool is None or (family_of(pool.cidr) == 6) != family6:
            pool = next((pool for pool in state.pools if contains(pool.cidr, address)), None)
        found.append(pool or _pool_gone(state, workload, family6))
    return tuple(found) or (_pool_gone(state, workload, False),)


def _pool_gone(state: NodeState, workload: AttachedWorkload, family6: bool) -> Pool:
    overhead = OVERHEAD6 if family6 else OVERHEAD
    name = "" if family6 and any(family_of(address) == 4 for address in workload.addresses) else workload.pool
    return Pool(name, "", 0, "None", workload_mtu=state.underlay_mtu - max(overhead.values()))


def block_sets(blocks: t.Iterable[Block], versions: t.Iterable[int]) -> tuple[IpSet, ...]:
    """Return one IP set of `blocks`, the node's own, for each IP version of `versions`, also if it is empty."""
    members: dict[int, list[str]] = {version: [] for version in sorted(versions)}
    for block in blocks:
        version, single = (6, "/128") if family_of(block.cidr) == 6 else (4, "/32")
        if version in members:
            # A set shows single addresses without /32 or /128.
            members[version].append(block.cidr[: -len(single)] if block.cidr.endswith(single) else block.cidr)
    return tuple(
        IpSet(name_of(version, LOCAL_BLOCKS), "hash:net", tuple(sorted(own))) for version, own in members.items()
    )


def with_blocks(sets: t.Iterable[IpSet], blocks: t.Iterable[Block]) -> tuple[IpSet, ...]:
    """Return a state's `sets` with `blocks` added to those of them that hold the node's own blocks."""
    more = {ipset.name: ipset.members for ipset in block_sets(blocks, (4, 6))}
    return tuple(
        dataclasses.replace(ipset, members=tuple(sorted({*ipset.members, *more[ipset.name]})))
        if ipset.name in more
        else ipset
        for ipset in sets
    )
