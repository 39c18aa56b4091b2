# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeState: all that one node must have, as a value.

The fleet compiler makes one per node, and drivers bring the kernel to it. A node keeps the last ones as its generations
and applies the newest at boot. It is plain data: it can be compared and stored as JSON, but not hashed (see `digest`).
Addresses are strings without a prefix length, CIDRs are strings with one, MTUs are bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import typing as t

from ..base import naming, packed_json
from ..base.addresses import canonical_cidr, family_of, host
from ..base.published_port import PublishedPort
from ..bgp.bird_state import Bird, BirdRoute
from .errors import shown
from .fleet_list import VERSION, FleetMember
from .phase import Phase
from .plain_data import NOT_STORED, list_of, mapping_of, reader, stored_fields
from .policy_state import PolicyState

#: Protocol number of the routes that this collection writes, and its name in rt_protos (see iproute2's rt_protos.d).
ROUTE_PROTOCOL = 179
ROUTE_PROTOCOL_NAME = "calico"

#: The placeholder for the device that has the node's own address, in routes' devices and in sysctls' keys. The node
#: replaces it (`resolve_underlay`).
UNDERLAY = "{underlay}"
#: The placeholder for the gateway by which the underlay reaches an address: `.format(address)`. The node replaces it.
UNDERLAY_GATEWAY = "{{via {}}}"
_UNDERLAY_GATEWAY = re.compile(r"\{via ([0-9a-f.:]+)\}")

#: Bytes that an encapsulation adds to a packet (RFC 2003; RFC 7348 with an IPv4 underlay).
OVERHEAD = {"IPIP": 20, "IPIPCrossSubnet": 20, "VXLAN": 50, "VXLANCrossSubnet": 50, "None": 0}
#: Bytes that an encapsulation adds in an IPv6 pool, whose tunnels cross an IPv6 underlay. IPIP carries IPv4 only.
OVERHEAD6 = {"VXLAN": 70, "VXLANCrossSubnet": 70, "None": 0}


def overhead(encapsulation: str, cidr: str) -> int:
    """Return the bytes that `encapsulation` adds to a packet of the pool with this CIDR.

    Raise KeyError if the encapsulation does not exist for the pool's IP version.
    """
    return (OVERHEAD6 if family_of(cidr) == 6 else OVERHEAD)[encapsulation]


TABLE_MAIN = 254
#: Table and rule priority of probes that test a pool's next mode before any live packet uses it.
TABLE_PROBE = 179
PROBE_PRIORITY = 179
#: The TOS byte of probes that test a pool's next mode: DSCP 7, which no standard uses (RFC 2474, pool 2). Older kernels
#: compare only the bits 0x1c of a TOS in routing rules.
PROBE_TOS = 0x1C
#: The host end of the probe endpoint, and its network namespace.
PROBE_INTERFACE = naming.PROBE_INTERFACE
PROBE_NETNS = "calico-probe"
#: The name and namespace of the probe endpoint, and both as one text, as a workload's.
PROBE_NAME, PROBE_NAMESPACE = "probe", "calico-system"
PROBE_IDENTITY = f"{PROBE_NAMESPACE}/{PROBE_NAME}"


@dataclasses.dataclass(frozen=True)
class Pool:
    """One IP pool as the node needs it. `encapsulation` is IPIP, IPIPCrossSubnet, VXLAN, VXLANCrossSubnet or "None".

    A list contains pools of both families: a CIDR with ':' is IPv6. `block_size` is the prefix length of its blocks.
    `workload_mtu` and `route_mtu` limit the MTUs of workloads that are attached with an address of the pool; None: no
    limit.
    """

    name: str
    cidr: str
    block_size: int
    encapsulation: str
    nat_outgoing: bool = False
    disabled: bool = False
    disable_bgp_export: bool = False
    workload_mtu: int = 1500
    route_mtu: t.Optional[int] = None
    node_selector: str = "all()"
    allowed_uses: tuple[str, ...] = ("Workload", "Tunnel")
    assignment_mode: str = "Automatic"  # Manual: only for requests that name the pool or an address of it


@dataclasses.dataclass(frozen=True)
class Block:
    """A block (CIDR) that was granted to the node, and the name of its pool."""

    cidr: str
    pool: str


@dataclasses.dataclass(frozen=True)
class NodeIpam:
    """The node's own part of the lockfile: all grants to it. `generation` is the lockfile's number.

    `spare_blocks` are not in use until the node opens them. An address in `reservations` (CIDRs) is never chosen
    automatically, only assigned to a request that names it.
    """

    generation: int = 0
    blocks: tuple[Block, ...] = ()
    spare_blocks: tuple[Block, ...] = ()
    tunnels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # {"ipip"|"vxlan"|"vxlan6": address}
    workloads: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # {workload name: IPv4 address}
    reservations: tuple[str, ...] = ()
    workloads6: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # {workload name: IPv6 address}
    probes: t.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # {pool, in the order of pools: address of the probe endpoint}


@dataclasses.dataclass(frozen=True)
class TunnelDevice:
    """A tunnel device: `tunl0` (kind ipip), `vxlan.calico`, or `vxlan-v6.calico` (kind vxlan, over an IPv6 underlay).

    `address` is a /32 (/128) on the device, or None. `vxlan-v6.calico` also has the link-local address of its MAC
    (`naming.vtep_link_local`), the gateway for other nodes.
    """

    name: str
    kind: str
    mtu: int
    local: str  # the node's address, in the family of the underlay that the tunnel crosses
    address: t.Optional[str] = None
    mac: t.Optional[str] = None  # kind vxlan only: the device's MAC
    vni: t.Optional[int] = None  # kind vxlan only: the VXLAN network identifier
    port: t.Optional[int] = None  # kind vxlan only: the UDP port


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbor:
    """A permanent neighbour entry: `address` is at `mac` on `device`."""

    device: str
    address: str
    mac: str


@dataclasses.dataclass(frozen=True, slots=True)
class FdbEntry:
    """A permanent forwarding entry: frames to `mac` leave `device` in a tunnel to `destination`."""

    device: str
    mac: str
    destination: str


#: The MAC address of the host end of every workload. Its link-local address is the gateway of IPv6 inside.
HOST_MAC = "ee:ee:ee:ee:ee:ee"


@dataclasses.dataclass(frozen=True, slots=True)
class VethEndpoint:
    """A network namespace joined to the host by a veth pair.

    A workload with IPv6 alone has "" as `address`. `pool6` is the pool of `address6`. `mtu` is the MTU of both link
    ends. `route_mtu` is set only during a change of modes or MTUs. It is put on the routes inside the namespace, so
    that nothing larger is sent while link ends differ: a veth drops packets that exceed its peer's MTU.

    A namespace that is not `netns_owned` is managed by others: it is neither created nor deleted, and the workload ends
    with it. `netns` may then also be an absolute path (/var/run/netns/x, /proc/812/ns/net). `netns_identity`
    distinguishes it from a later namespace with the same name or path. It holds until the next boot.

    With `handed_over`, a container engine moves the inner end into its container and configures it. `peer_interface` is
    the name that this end has on the host before. `netns` is where it was moved to, "" while that is not known.
    """

    name: str
    interface: str  # name of the host end, cali...
    address: str
    mtu: int
    pool: str
    namespace: str = "default"  # Calico's namespace, which is also a label
    netns: str = ""  # name of the network namespace, or its path; made if missing and netns_owned
    peer_interface: str = "eth0"
    route_mtu: t.Optional[int] = None
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    netns_owned: bool = True
    mac: t.Optional[str] = None  # of the end inside the namespace; None: any
    address6: str = ""
    pool6: str = ""
    netns_identity: str = dataclasses.field(default="", compare=False, metadata=NOT_STORED)
    source_spoofing: bool = False  # whether the workload may send from addresses that are not its own
    handed_over: bool = False  # whether somebody else moves and configures the inner end
    ports: tuple[PublishedPort, ...] = ()  # of the host, which lead to it
    further: tuple[str, ...] = ()  # more addresses, of other pools; only the probe endpoint has any

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the workload, IPv4 first; () if it has none."""
        if self.address and self.address6:
            return (self.address, self.address6, *self.further)
        one = self.address or self.address6
        return (one, *self.further) if one else self.further

    def publishes(self, family: int) -> bool:
        """Return whether a port of the host leads to its address of this IP version."""
        return any(family in port.families(self.addresses) for port in self.ports)


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A route with our protocol number; `type` is unicast or blackhole, `mtu` None the device's.

    A unicast IPv4 route without a gateway has scope link.
    """

    destination: str  # CIDR; for a single address with /32 or /128
    type: str = "unicast"
    device: t.Optional[str] = None
    gateway: t.Optional[str] = None
    onlink: bool = False
    mtu: t.Optional[int] = None
    table: int = TABLE_MAIN


@dataclasses.dataclass(frozen=True)
class RoutingRule:
    """A routing policy rule: packets with `fwmark` are looked up in `table`. `family` is 4 or 6.

    A rule for probes has no mark (0): it selects packets with the TOS `tos` that arrive by `interface`.
    """

    fwmark: int
    table: int
    priority: int
    family: int = 4
    interface: str = ""
    tos: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Sysctl:
    """A kernel setting. `key` is the path below /proc/sys (`net/ipv4/conf/cali1/proxy_arp`).

    The order in NodeState.sysctls is the order of writing.
    """

    key: str
    value: str


@dataclasses.dataclass(frozen=True, slots=True)
class IpSet:
    """An IP set. `name` begins with cali40, or with cali60 for IPv6; `type` is ipset's (`hash:net`, `hash:ip,port`)."""

    name: str
    type: str
    members: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Hook:
    """A rule of ours in a chain that is not ours (INPUT, POSTROUTING...). It is kept first in the chain, or `last`."""

    chain: str
    rule: str
    last: bool = False


@dataclasses.dataclass(frozen=True)
class IptablesTable:
    """Our chains (`cali-*`) of one iptables table, each a tuple of rules as iptables-restore reads them, without -A.

    `titles` maps a chain to a title for people, such as `NetworkPolicy default/web, ingress`.
    """

    name: str
    chains: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    family: int = 4
    titles: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class NodeState:
    """All that one node must have: kernel objects, BIRD's data and policy."""

    node: str
    address: str  # of the node itself, CIDR: 10.10.1.11/24; "" without IPv4
    plan: str = ""  # hash of the fleet that this was compiled from
    phase: Phase = Phase.CONVERGE
    underlay_mtu: int = 1500
    pools: tuple[Pool, ...] = ()
    ipam: NodeIpam = NodeIpam()
    devices: tuple[TunnelDevice, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    fdb: tuple[FdbEntry, ...] = ()
    workloads: tuple[VethEndpoint, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[RoutingRule, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()
    ipsets: tuple[IpSet, ...] = ()
    iptables: tuple[IptablesTable, ...] = ()
    bird_routes: tuple[BirdRoute, ...] = ()
    bird: t.Optional[Bird] = None  # None: BGP is disabled on this fleet
    nodes: tuple[FleetMember, ...] = ()
    policy: t.Optional[PolicyState] = None  # None: none is in force; NodePolicyTables puts it into `iptables`, `ipsets`
    address6: str = ""  # of the node itself, CIDR; "" without IPv6
    workload_source_spoofing: bool = False  # whether workloads may send from addresses that are not theirs
    probe_endpoint: t.Optional[VethEndpoint] = None  # no workload: it proves that a workload's packets arrive

    @property
    def endpoints(self) -> tuple[VethEndpoint, ...]:
        """The workloads and the probe endpoint: everything that a veth pair joins to this host."""
        return self.workloads if self.probe_endpoint is None else (*self.workloads, self.probe_endpoint)

    def to_dict(self) -> dict[str, t.Any]:
        """Return the state as plain data for JSON; `from_dict` reads it. Without policy there is no key `policy`.

        Fields that a later release added (`_LATER`) are left out at their default, and `netns_identity` always.
        """
        plain = self._without_policy()
        if self.policy is not None:
            plain["policy"] = self.policy.to_dict()
        return plain

    def to_wire(self) -> dict[str, t.Any]:
        """Return the state as `to_dict` does, but with the policy packed into one text; `from_dict` reads it."""
        plain = self._without_policy()
        if self.policy is not None:
            plain["policy"] = packed_json.pack(self.policy.to_dict())
        return plain

    def _without_policy(self) -> dict[str, t.Any]:
        plain = {"version": VERSION, **{name: _plain(getattr(self, name)) for name in _WITHOUT_POLICY}}
        plain["phase"] = str(self.phase)
        return _without_defaults(plain, _LATER[NodeState])

    @classmethod
    def from_dict(cls, data: t.Mapping[str, t.Any]) -> NodeState:
        """Return the state in `data`, the result of `to_dict` or `to_wire`.

        Its policy may also be in two parts (see PolicyWire). A missing field gets its default. Raise ValueError for
        another version, an unknown field, a missing one without a default, a value of another type, an invalid CIDR or
        address, or a policy that cannot be unpacked or read.
        """
        fields = dict(mapping_of(data))
        version = fields.pop("version", None)
        if version != VERSION:
            raise ValueError(f"NodeState version {version!r} is not {VERSION}, the one that this release reads")
        _fill_workload_mtu(fields)
        policy = fields.pop("policy", None)
        state = t.cast(NodeState, reader(t.cast("t.Hashable", cls))(fields))
        _check_networks(state)
        if policy is None:
            return state
        if isinstance(policy, str):
            policy = packed_json.unpack_shared(policy)
        if not isinstance(policy, dict):
            raise ValueError("policy is neither a PolicyState nor a packed one")
        if "shared" in policy:
            policy = _shared_and_own(policy, state.node)
        return dataclasses.replace(state, policy=PolicyState.from_dict(policy))

    @property
    def digest(self) -> str:
        """The SHA-256 hex digest of the state as `to_dict` returns it.

        `plan`, `phase`, `nodes`, the generation of `ipam`, and the routes that BIRD learns are left out.
        """
        plain = dataclasses.replace(self, nodes=(), bird_routes=()).to_dict()
        for field in ("plan", "phase", "nodes", "bird_routes"):
            plain.pop(field)
        plain["ipam"] = {**plain["ipam"], "generation": 0}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def underlay_gateways(self) -> tuple[str, ...]:
        """The sorted addresses for which `resolve_underlay` needs gateways."""
        found = (_UNDERLAY_GATEWAY.fullmatch(route.gateway) for route in self.routes if route.gateway)
        return tuple(sorted({match.group(1) for match in found if match}))

    def resolve_underlay(
        self, device: str, gateways: t.Optional[t.Mapping[str, str]] = None, device6: str = ""
    ) -> NodeState:
        """Return the state with the placeholders UNDERLAY and UNDERLAY_GATEWAY replaced.

        `device` is the underlay's device, `device6` that of the node's IPv6 address, "" for the same one. `gateways`
        maps the address in a placeholder UNDERLAY_GATEWAY to its gateway. A route whose address is missing there is
        left out, because no path leads to it.
        """
        known = gateways or {}
        routes = []
        for route in self.routes:
            gateway = route.gateway
            match = _UNDERLAY_GATEWAY.fullmatch(gateway) if gateway else None
            if match is not None:
                gateway = known.get(match.group(1))
                if gateway is None:
                    continue
            if match is not None or route.device == UNDERLAY:
                own = device6 or device if family_of(route.destination) == 6 else device
                named = own if route.device == UNDERLAY else route.device
                route = dataclasses.replace(route, gateway=gateway, device=named)
            routes.append(route)
        sysctls = tuple(
            Sysctl(sysctl.key.replace(UNDERLAY, _device_for(sysctl.key, device, device6)), sysctl.value)
            if UNDERLAY in sysctl.key
            else sysctl
            for sysctl in self.sysctls
        )
        return dataclasses.replace(self, routes=tuple(routes), sysctls=sysctls)


def _device_for(key: str, device: str, device6: str) -> str:
    return device6 or device if "/ipv6/" in key else device


_WITHOUT_POLICY = tuple(field.name for field in dataclasses.fields(NodeState) if field.name != "policy")


def _shared_and_own(policy: t.Mapping[str, t.Any], node: str) -> dict[str, t.Any]:
    """Return a PolicyState as plain data, merged from the parts for all nodes and for this node (see PolicyWire)."""
    try:
        shared = packed_json.unpack_shared(policy["shared"])
        elsewhere = [one for one in shared["endpoints"] if one["node"] != node]
        return {**shared, "endpoints": [*policy["own"], *elsewhere], "settings": policy["settings"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"what is shared of the policy cannot be read: {error}") from error


_LONGEST_CIDR = 49  # characters: of an IPv6 address whose last 32 bits are written as IPv4, with /128


def _check_networks(state: NodeState) -> None:
    """Raise ValueError for a bad CIDR or address in `pools`, `ipam` or `bird_routes`.

    A node computes with these before it applies the state: it assigns addresses, and judges what other nodes report.
    """
    ipam = state.ipam
    cidrs = {
        "pools": [pool.cidr for pool in state.pools],
        "ipam.blocks": [block.cidr for block in ipam.blocks],
        "ipam.spare_blocks": [block.cidr for block in ipam.spare_blocks],
        "ipam.reservations": ipam.reservations,
        "bird_routes": [route.destination for route in state.bird_routes],
    }
    addresses = {
        "tunnels": ipam.tunnels,
        "workloads": ipam.workloads,
        "workloads6": ipam.workloads6,
        "probes": ipam.probes,
    }
    for place, texts in cidrs.items():
        for text in texts:
            if not _is_network(text):
                raise ValueError(f"{place} has {shown(text)}, which is not a CIDR without host bits")
    for name, planned in addresses.items():
        for text in planned.values():
            if not _is_network(host(text)):
                raise ValueError(f"ipam.{name} has {shown(text)}, which is not an IP address")


def _is_network(text: str) -> bool:
    return len(text) <= _LONGEST_CIDR and _parses(text)


# The nodes of a fleet have the same CIDRs in their states, so the controller parses each text once.
@functools.lru_cache(maxsize=65536)
def _parses(text: str) -> bool:
    try:
        canonical_cidr(text)
    except ValueError:
        return False
    return True


def _fill_workload_mtu(fields: dict[str, t.Any]) -> None:
    """Add `workload_mtu` to the pools of a stored state of the first release, which lacks it."""
    pools = [mapping_of(pool) for pool in list_of(fields.get("pools", []))]
    if any("workload_mtu" not in pool for pool in pools):
        underlay = reader(int)(fields.get("underlay_mtu", NodeState.underlay_mtu))
        fields["pools"] = [  # with the overhead of IPv4 pools: the first release had no others
            {"workload_mtu": underlay - OVERHEAD.get(str(pool.get("encapsulation")), 0), **pool} for pool in pools
        ]


def _plain(value: t.Any) -> t.Any:
    """Return dataclasses as dicts and tuples as lists, without unstored fields, in a third of `asdict`'s time."""
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not dataclasses.is_dataclass(value):  # a Mapping; isinstance(value, Mapping) takes long for other values
        return {key: _plain(item) for key, item in value.items()}
    plain = {name: _plain(getattr(value, name)) for name in stored_fields(value.__class__)}
    later = _LATER.get(type(value))
    return plain if later is None else _without_defaults(plain, later)


#: Fields of later releases that are not written while they have these defaults, because earlier releases refuse unknown
#: fields: {class: {field: default}}, as plain data.
_LATER: t.Mapping[type, t.Mapping[str, t.Any]] = {
    NodeState: {"workload_source_spoofing": False, "probe_endpoint": None},
    NodeIpam: {"probes": {}},
    VethEndpoint: {"source_spoofing": False, "handed_over": False, "ports": [], "further": []},
    RoutingRule: {"interface": "", "tos": 0},
    FleetMember: {"probes": []},
    Bird: {"merge_paths": False},
}


def _without_defaults(plain: dict[str, t.Any], later: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    for name, default in later.items():
        if plain[name] == default:
            del plain[name]
    return plain
