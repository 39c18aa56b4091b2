# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of what the kernel does with a packet between two nodes, each of which has some NodeState.

It reads NodeStates the way a kernel and BIRD would, and knows nothing of how they were made.
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
    """Why a packet does not arrive."""


@dataclasses.dataclass(frozen=True)
class Packet:
    """What a node puts on the underlay for a workload elsewhere: `size` is that of the workload's IP packet, `device`
    the tunnel that it is in ("" for none), `end` the far end of the tunnel."""

    address: str
    size: int
    device: str
    end: str
    mac: str = ""
    vni: t.Optional[int] = None
    port: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Reception:
    """All by which a node decides over packets from one other node: its tunnels (device, mac, vni, port) that accept
    them, and {address: MTU} of its workloads that others know a route to."""

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
    """(device, gateway, MTU of the route, MTU that the pool has at rest in the mode of this route): by BIRD's filter
    where there is BGP, else by the main table. Raises Lost."""
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
    """The packet that leaves for a workload on the node `next_hop`. `size` None: the largest that the host itself sends
    once it knows the MTU of the path. (Plain routes within a subnet of a pool with CrossSubnet take more than the
    workloads do, at rest as well.) Raises Lost."""
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
    """`sender`: the address of the node that the packets come from; tunnels over the other IP version are none."""
    interfaces = {endpoint.interface: endpoint for endpoint in receiver.workloads}
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
    """What the chain cali-INPUT says to an encapsulated packet from `sender`."""
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
    """Raises Lost."""
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
    """What a workload sends at most."""
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
    """All that a node is between two states, both included: additions in the drivers' order, BIRD, then removals."""
    found = [before]
    now = before
    for part in ("ipsets", "iptables", "devices", "workloads", "neighbors", "fdb", "rules", "routes"):
        if part == "iptables":
            # A table is replaced at once, what is no longer wanted in it included.
            merged: t.Any = after.iptables + tuple(
                table
                for table in before.iptables
                if (table.name, table.family) not in {(new.name, new.family) for new in after.iptables}
            )
        else:
            key = _KEYS[part]
            wanted = {key(item) for item in getattr(after, part)}
            merged = getattr(after, part) + tuple(i for i in getattr(before, part) if key(i) not in wanted)
        now = dataclasses.replace(now, **{part: merged})
        found.append(now)
    now = dataclasses.replace(
        now, bird=after.bird, bird_routes=after.bird_routes, pools=after.pools, underlay_mtu=after.underlay_mtu
    )
    found += [now, after]
    return [state for index, state in enumerate(found) if index == 0 or state != found[index - 1]]
