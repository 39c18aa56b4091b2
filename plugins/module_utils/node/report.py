# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has at this moment, as plain data for the info modules. Reads only, with the standard library alone.

Functions with a kernel raise KernelError.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import family_of
from ..bird import status
from ..bird.errors import BirdError, NotAnswering
from ..dataplane.drivers import iptables, tunnel, workload
from ..dataplane.kernel.port import PROTOCOL_BIRD, SCOPE_LINK, Kernel, RouteAttributes
from ..state.node_state import PROBE_INTERFACE, ROUTE_PROTOCOL, TABLE_MAIN, NodeState
from .ipam.local_ipam import LocalIpam
from .machine import Machine
from .store.store import Stored

Data = dict[str, t.Any]

PROTOCOL_NAMES = {ROUTE_PROTOCOL: "calico", PROTOCOL_BIRD: "bird"}


_OF_LINK = ("name", "kind", "mtu", "mac", "up", "alias", "local", "vni", "port")
_OF_WORKLOAD = ("name", "namespace", "address", "address6", "interface", "netns", "mtu", "pool")


def _fields(value: object, names: t.Iterable[str]) -> Data:
    return {name: getattr(value, name) for name in names}


def devices(kernel: Kernel) -> list[Data]:
    """Return a dict for each device that is named like one of our tunnels or `cali*`, sorted by name.

    The keys are name, kind, mtu (bytes), mac, up, alias, local (a tunnel's own outer address), vni, port (the UDP port
    of VXLAN) and addresses (a sorted list, each with its prefix length). A device without local, vni or port has None
    there. Addresses of IPv6 link scope are left out.
    """
    held: dict[str, list[str]] = {}
    for address in (*kernel.addresses(), *kernel.addresses(family=6)):
        if address.scope == SCOPE_LINK and family_of(address.address) == 6:
            continue  # the kernel itself assigns link-local addresses
        held.setdefault(address.device, []).append(f"{address.address}/{address.prefix_length}")
    return [
        {**_fields(link, _OF_LINK), "addresses": sorted(held.get(link.name, []))}
        for link in sorted(kernel.links(), key=lambda link: link.name)
        if link.name in tunnel.NAMES or link.name.startswith("cali")
    ]


def tunnels(kernel: Kernel) -> list[Data]:
    """Return the tunnel devices as `devices` does, each with `remotes`: its permanent forwarding entries to an address.

    A remote is a dict with address, mac and gateway. `gateway` is the address of the permanent neighbour that has this
    MAC, None if there is none.
    """
    found = []
    for device in devices(kernel):
        if device["name"] in tunnel.NAMES:
            gateways = {entry.mac: entry.address for entry in kernel.neighbors(device["name"]) if entry.permanent}
            device["remotes"] = [
                {"address": entry.destination, "mac": entry.mac, "gateway": gateways.get(entry.mac)}
                for entry in sorted(kernel.fdb(device["name"]), key=lambda entry: entry.destination)
                if entry.permanent and entry.destination
            ]
            found.append(device)
    return found


def endpoints(kernel: Kernel) -> list[Data]:
    """Return the workload endpoints that the kernel has, sorted by interface, each as a dict.

    They are found by their interfaces' alias; the probe endpoint is none of them. The keys are name, namespace,
    interface, up, mtu (bytes), netns (the name of the network namespace that this collection created, else None) and
    addresses (a sorted list of the CIDRs that this collection routes there).
    """
    owners = {owner: name for name, owner in kernel.netns_owners().items()}
    routed: dict[str, list[str]] = {}
    for family in (4, 6):
        for destination, attributes in kernel.routes(table=TABLE_MAIN, protocol=ROUTE_PROTOCOL, family=family):
            if attributes.device:
                routed.setdefault(attributes.device, []).append(destination)
    found = []
    for link in sorted(kernel.links(), key=lambda link: link.name):
        if link.alias.startswith(workload.MARK) and link.name != PROBE_INTERFACE:
            owner = link.alias[len(workload.MARK) :]
            namespace, name = owner.split("/", 1) if "/" in owner else ("", owner)
            found.append(
                {
                    "name": name,
                    "namespace": namespace,
                    "interface": link.name,
                    "up": link.up,
                    "mtu": link.mtu,
                    "netns": owners.get(owner),
                    "addresses": sorted(routed.get(link.name, [])),
                }
            )
    return found


def interface_settings(interface: str) -> dict[str, str]:
    """Return a mapping from an IPv4 setting's name to its path below /proc/sys, in an order that is safe for writing.

    The settings are proxy_delay, forwarding, proxy_arp, rp_filter, accept_local and send_redirects. `interface` is a
    device's name or "all", which has no proxy_delay; its forwarding is ip_forward.
    """
    conf, neigh = f"net/ipv4/conf/{interface}", f"net/ipv4/neigh/{interface}"
    keys = {
        # proxy_delay comes first, because kernels have crashed with proxy_arp on and a delay set (felix #1937).
        "proxy_delay": f"{neigh}/proxy_delay",
        "forwarding": f"{conf}/forwarding",
        "proxy_arp": f"{conf}/proxy_arp",
        "rp_filter": f"{conf}/rp_filter",
        "accept_local": f"{conf}/accept_local",
        "send_redirects": f"{conf}/send_redirects",
    }
    if interface == "all":
        keys["forwarding"] = "net/ipv4/ip_forward"
        del keys["proxy_delay"]  # The kernel has no net/ipv4/neigh/all.
    return keys


def tables(kernel: Kernel, family: int = 4) -> dict[str, dict[str, list[str]]]:
    """Return a mapping from table to chain to rules, of one IP version (4 or 6), in the backend that we write.

    Only the rules that carry our mark are listed, whichever chain they are in. A chain of ours (`cali-*`) without any
    rule is there with an empty list. Rules are texts as iptables-save prints them, with -A. Tables that cannot be read
    are left out.
    """
    found: dict[str, dict[str, list[str]]] = {}
    observed = iptables.observe(kernel, [])
    for place, chains in observed.tables.items():
        if place.program != observed.programs[family]:
            continue
        for chain, rules in chains.items():
            ours = [f"-A {chain} {rule.text}" for rule in rules if rule.hash]
            if ours or (chain.startswith(iptables.PREFIX) and not rules):
                found.setdefault(place.table, {})[chain] = ours
    return found


def routes(kernel: Kernel, table: int = TABLE_MAIN, protocols: t.Collection[str] = ("calico", "bird")) -> list[Data]:
    """Return the routes of "calico" (this collection) or "bird" of both IP versions in one table, as `route` does."""
    return [
        route(destination, attributes)
        for protocol, name in PROTOCOL_NAMES.items()
        if name in protocols
        for family in (4, 6)
        for destination, attributes in kernel.routes(table=table, protocol=protocol, family=family)
    ]


def route(destination: str, attributes: RouteAttributes) -> Data:
    """Return a route as a dict: destination, type, gateway, device, onlink, mtu (bytes), protocol and table (number).

    The protocol is "calico", "bird", or the number of any other as text. A route without gateway, device or mtu has
    None there. A route with several next hops has those of the first, and all of them in `next_hops`.
    """
    several = [_fields(hop, ("gateway", "device", "onlink", "weight")) for hop in attributes.multipath]
    return {
        "destination": destination,
        **_fields(attributes, ("type", "gateway", "device", "onlink", "mtu")),
        **({"next_hops": several} if several else {}),
        "protocol": PROTOCOL_NAMES.get(attributes.protocol, str(attributes.protocol)),
        "table": attributes.table,
    }


def blocks(stored: t.Optional[Stored]) -> list[Data]:
    """Return the node's own blocks in the stored state, spare ones last, as dicts of cidr, pool and spare."""
    if stored is None:
        return []
    ipam = stored.state.ipam
    return [
        {"cidr": block.cidr, "pool": block.pool, "spare": spare}
        for spare, group in ((False, ipam.blocks), (True, ipam.spare_blocks))
        for block in group
    ]


def ipam(machine: Machine) -> Data:
    """Return what the node itself assigned, {"allocated": {address: handle}, "opened": [CIDR]}, read from its disk.

    `opened` has the spare blocks that were opened and all blocks with an allocation. Raise IpamUnreadable.
    """
    found = LocalIpam(machine.ipam)
    found.load()
    return {
        "allocated": {allocation.address: allocation.handle for allocation in found.allocations()},
        "opened": list(found.opened),
    }


def workloads(kernel: Kernel, state: t.Optional[NodeState]) -> list[Data]:
    """Return the workloads of `state` as dicts, with `up` (their interface exists and is up); [] without a state.

    The other keys are name, namespace, address, address6, interface, netns, mtu (bytes) and pool; address or address6
    is "" for a workload without one.
    """
    if state is None:
        return []
    up = {link.name: link.up for link in kernel.links()}
    return [
        {**_fields(endpoint, _OF_WORKLOAD), "up": up.get(endpoint.interface, False)} for endpoint in state.workloads
    ]


def bgp(machine: Machine) -> Data:
    """Return the status of BIRD as a dict: running, version, router_id, error and sessions. Raise nothing.

    A session is a dict with the fields of bird.status.Session and `established`. `running` is False if no BIRD can be
    reached at the control socket, or if it does not answer as BIRD does; each of three answers is waited for up to 10
    seconds. If BIRD cannot be read, `error` is a message, version and router_id are None and there are no sessions.
    Else `error` is None, and router_id is "" if BIRD reports none.
    """
    try:
        found = status.observe(machine.bird_socket)
    except BirdError as error:
        running = not isinstance(error, NotAnswering)
        return {"running": running, "version": None, "router_id": None, "error": str(error), "sessions": []}
    return {
        "running": True,
        "version": found.version,
        "router_id": found.router_id,
        "error": None,
        "sessions": [{**dataclasses.asdict(session), "established": session.established} for session in found.sessions],
    }
