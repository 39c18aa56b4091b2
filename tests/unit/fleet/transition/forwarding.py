# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of how two kernels handle a packet between two nodes, from the NodeStates of both.

It reads NodeStates as a kernel and BIRD would, independently of the code that makes them.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    TABLE_MAIN,
    NodeState,
    TunnelDevice,
    VethEndpoint,
)

OVERHEAD = {"": 0, "tunl0": 20, "vxlan.calico": 50, "vxlan-v6.calico": 70}
LARGE = 1 << 16


class Lost(Exception):
    """The error that a packet does not arrive, with the reason."""


@dataclasses.dataclass(frozen=True)
class Packet:
    """A packet to a workload, as a node sends it on the underlay, or keeps it for its own workload.

    `size` is the size of the inner IP packet in bytes. `device` is the tunnel device ("" for none), `end` the
    address of the node at the other end of the tunnel, or the next hop without one. Only VXLAN sets `mac` (of the inner
    frame), `vni` and `port`.
    """

    address: str
    size: int
    device: str
    end: str
    mac: str = ""
    vni: t.Optional[int] = None
    port: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Reception:
    """The parts of a node's state that decide whether it receives packets from one other node.

    `tunnels` are its tunnels (device, mac, vni, port) that accept packets from that node. `workloads` are (address, MTU
    in bytes) for the addresses of its workloads, and of its probe endpoint, that other nodes have a route to.
    `own_addresses` are the node's, with "" if it lacks an IP version.
    """

    node: str
    own_addresses: frozenset[str]
    tunnels: frozenset[tuple[str, str, t.Optional[int], t.Optional[int]]]
    workloads: frozenset[tuple[str, int]]


@functools.cache
def inside(address: str, cidr: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)


def own_address(state: NodeState, version: int = 4) -> str:
    return (state.address if version == 4 else state.address6).partition("/")[0]


def _way(sender: NodeState, address: str, next_hop: str) -> tuple[str, str, int, int]:
    """Return the route of `sender` to a workload on `next_hop`: device, gateway, its MTU, the MTU of its mode at rest.

    The device is "" for the underlay. MTUs are in bytes, LARGE for a route without a limit. BIRD's filter determines
    the route, or, without BGP, the first fitting route by a gateway in the main table; its mode is then VXLAN. BIRD's
    gateway is "nobody" for an IPv6 tunnel to a node without one. Raise Lost if there is no route.
    """
    if sender.bird is not None:
        for pool in sender.bird.pools:
            if inside(address, pool.cidr):
                subnet = sender.bird.subnet6 if ":" in address else sender.bird.subnet
                device = "" if pool.cross_subnet and inside(next_hop, subnet) else pool.device
                gateway = next_hop
                if device == "vxlan-v6.calico":
                    gateway = {vtep.next_hop: vtep.gateway for vtep in sender.bird.vteps6}.get(next_hop, "nobody")
                return device, gateway, pool.mtu or LARGE, sender.underlay_mtu - OVERHEAD[pool.device]
        raise Lost(f"{address} is in no pool of BIRD's on {sender.node}")
    for route in sender.routes:
        if route.table == TABLE_MAIN and route.gateway and inside(address, route.destination):
            device = "" if route.device == "{underlay}" else str(route.device)
            tunnel = "vxlan-v6.calico" if ":" in address else "vxlan.calico"
            return device, route.gateway, route.mtu or LARGE, sender.underlay_mtu - OVERHEAD[tunnel]
    raise Lost(f"{sender.node} has no route to {address}")


def sent(sender: NodeState, address: str, next_hop: str, size: t.Optional[int] = None) -> Packet:
    """Return the packet that `sender` sends to a workload with this address on the node `next_hop`.

    `size` is in bytes. None means the largest packet that the host itself sends once it knows the MTU of the path: the
    MTU of the route (without one, that of the pool's mode at rest), or of the tunnel device if it is less.

    Raise Lost if there is no route, if its device is missing, if there is not exactly one neighbour and one forwarding
    entry for its VXLAN tunnel, or if the packet is too large.
    """
    name, gateway, mtu, rest = _way(sender, address, next_hop)
    out = next((device for device in sender.devices if device.name == name), None)
    if name and out is None:
        raise Lost(f"{sender.node} has no {name}")
    if size is None:
        size = min(mtu if mtu < LARGE else rest, out.mtu if out else LARGE)
    if size > mtu:
        raise Lost(f"{size} bytes on {sender.node}'s route, which takes {mtu}")
    if out is None:
        return Packet(address, size, "", next_hop)
    if size > out.mtu:
        raise Lost(f"{size} bytes into {sender.node}'s {name}, which takes {out.mtu}")
    if out.kind == "ipip":
        return Packet(address, size, name, gateway)
    macs = [entry.mac for entry in sender.neighbors if (entry.device, entry.address) == (name, gateway)]
    if len(macs) != 1:
        raise Lost(f"{sender.node} does not know who {gateway} is")
    ends = [entry.destination for entry in sender.fdb if (entry.device, entry.mac) == (name, macs[0])]
    if len(ends) != 1:
        raise Lost(f"{sender.node} does not know where {macs[0]} is")
    return Packet(address, size, name, ends[0], macs[0], out.vni, out.port)


def reception(receiver: NodeState, sender: str) -> Reception:
    """Return how `receiver` receives packets from the node with address `sender`.

    Tunnels of the other IP version than that of `sender` are left out. Raise AssertionError if a workload's route has
    another prefix length than that of a single address.
    """
    interfaces = {endpoint.interface: endpoint for endpoint in receiver.endpoints}
    workloads = set()
    for route in receiver.routes:
        endpoint = interfaces.get(route.device or "")
        address, dummy, length = route.destination.partition("/")
        if route.table == TABLE_MAIN and endpoint is not None and address in endpoint.addresses:
            assert length == ("128" if ":" in address else "32")
            known = receiver.bird is None or any(inside(address, block) for block in receiver.bird.blocks)
            if known:
                workloads.add((address, min(endpoint.mtu, route.mtu or LARGE)))
    tunnels = {
        (device.name, device.mac or "", device.vni, device.port)
        for device in receiver.devices
        if (":" in device.local) == (":" in sender) and _accepts(receiver, device, sender)
    }
    own = frozenset(own_address(receiver, version) for version in (4, 6))
    return Reception(receiver.node, own, frozenset(tunnels), frozenset(workloads))


def _accepts(state: NodeState, device: TunnelDevice, sender: str) -> bool:
    """Return whether cali-INPUT accepts packets of the tunnel from `sender`; True if no rule of it matches them."""
    match = "-p 4 " if device.kind == "ipip" else f"-p udp -m udp --dport {device.port} "
    members = {ipset.name: ipset.members for ipset in state.ipsets}
    for table in state.iptables:
        family = 6 if ":" in device.local else 4
        if (table.name, table.family) == ("filter", family) and any(hook.chain == "INPUT" for hook in table.hooks):
            for rule in table.chains["cali-INPUT"]:
                if rule.startswith(match):
                    words = rule.split()
                    if "--match-set" in words and sender not in members[words[words.index("--match-set") + 1]]:
                        continue
                    return words[-1] == "ACCEPT"
    return True


def arrives(packet: Packet, receiver: Reception) -> None:
    """Raise Lost unless `receiver` delivers `packet` to its workload."""
    if packet.end not in receiver.own_addresses:
        raise Lost(f"{packet} goes to another node than {receiver.node}")
    if packet.device and (packet.device, packet.mac, packet.vni, packet.port) not in receiver.tunnels:
        raise Lost(f"{packet} in a tunnel that {receiver.node} does not take")
    takes = dict(receiver.workloads).get(packet.address)
    if takes is None:
        raise Lost(f"{receiver.node} has no way to its workload {packet.address}")
    if packet.size > takes:
        raise Lost(f"{packet} is too large for {receiver.node}'s workload, which takes {takes}")


def largest(workload: VethEndpoint) -> int:
    """Return the size in bytes of the largest IP packet that a workload sends."""
    return min(workload.mtu, workload.route_mtu or LARGE)


# --- a node on its way from one state to the next ------------------------------------------------------------------

_KEYS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "ipsets": lambda ipset: ipset.name,
    "devices": lambda found: found.name,
    "workloads": lambda found: found.interface,
    "neighbors": lambda entry: (entry.device, entry.address),
    "fdb": lambda entry: (entry.device, entry.mac),
    "routes": lambda route: (route.table, route.destination),
    "rules": lambda rule: (rule.family, rule.priority),
}


def steps(before: NodeState, after: NodeState) -> list[NodeState]:
    """Return the states of a node while it changes from `before` to `after`, both included; equal ones in a row once.

    They follow the drivers' order: additions of each kind, then BIRD, its routes, the pools and the underlay's MTU. The
    last step has the other fields and the removals, but for those inside an item that is replaced.
    """
    found = [before]
    now = before
    for part in ("ipsets", "iptables", "devices", "workloads", "neighbors", "fdb", "rules", "routes"):
        if part == "iptables":
            # A table is replaced at once, so its unwanted rules go with the additions.
            merged: t.Any = after.iptables + tuple(
                table
                for table in before.iptables
                if (table.name, table.family) not in {(new.name, new.family) for new in after.iptables}
            )
        else:
            key = _KEYS[part]
            wanted = {key(item) for item in getattr(after, part)}
            merged = getattr(after, part) + tuple(i for i in getattr(before, part) if key(i) not in wanted)
        more = {"probe_endpoint": after.probe_endpoint or before.probe_endpoint} if part == "workloads" else {}
        now = dataclasses.replace(now, **{part: merged}, **more)
        found.append(now)
    now = dataclasses.replace(
        now, bird=after.bird, bird_routes=after.bird_routes, pools=after.pools, underlay_mtu=after.underlay_mtu
    )
    found += [now, after]
    return [state for index, state in enumerate(found) if index == 0 or state != found[index - 1]]
