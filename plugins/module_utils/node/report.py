# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has now, as plain data for the info modules. Reads only, with the standard library alone."""

from __future__ import annotations

import dataclasses
import typing as t

from ..bird import status
from ..bird.errors import BirdError, NotAnswering
from ..dataplane.kernel import PROTOCOL_BIRD, Kernel, RouteAttributes
from ..fleet.node_state import ROUTE_PROTOCOL, TABLE_MAIN, NodeState
from .machine import Machine
from .store import Stored

Data = dict[str, t.Any]

PROTOCOL_NAMES = {ROUTE_PROTOCOL: "calico", PROTOCOL_BIRD: "bird"}
_OURS = ("tunl0", "vxlan.calico")


def devices(kernel: Kernel) -> list[Data]:
    """Tunnel devices and the host sides of workloads, with their addresses."""
    held: dict[str, list[str]] = {}
    for address in kernel.addresses():
        held.setdefault(address.device, []).append(f"{address.address}/{address.prefix_length}")
    return [
        {
            "name": link.name,
            "kind": link.kind,
            "mtu": link.mtu,
            "mac": link.mac,
            "up": link.up,
            "alias": link.alias,
            "local": link.local,
            "vni": link.vni,
            "port": link.port,
            "addresses": sorted(held.get(link.name, [])),
        }
        for link in sorted(kernel.links(), key=lambda link: link.name)
        if link.name in _OURS or link.name.startswith("cali")
    ]


def routes(kernel: Kernel) -> list[Data]:
    """Ours and BIRD's, in the main table, by destination."""
    return [
        route(destination, attributes)
        for protocol in PROTOCOL_NAMES
        for destination, attributes in kernel.routes(table=TABLE_MAIN, protocol=protocol)
    ]


def route(destination: str, attributes: RouteAttributes) -> Data:
    return {
        "destination": destination,
        "type": attributes.type,
        "gateway": attributes.gateway,
        "device": attributes.device,
        "onlink": attributes.onlink,
        "mtu": attributes.mtu,
        "protocol": PROTOCOL_NAMES.get(attributes.protocol, str(attributes.protocol)),
        "table": attributes.table,
    }


def blocks(stored: t.Optional[Stored]) -> list[Data]:
    """The node's own blocks by the stored state, spare ones included."""
    if stored is None:
        return []
    ipam = stored.state.ipam
    return [
        {"cidr": block.cidr, "pool": block.pool, "spare": spare}
        for spare, group in ((False, ipam.blocks), (True, ipam.spare_blocks))
        for block in group
    ]


def workloads(kernel: Kernel, state: t.Optional[NodeState]) -> list[Data]:
    """The stored state's workloads and whether their interfaces are there and up."""
    if state is None:
        return []
    up = {link.name: link.up for link in kernel.links()}
    return [
        {
            "name": endpoint.name,
            "namespace": endpoint.namespace,
            "address": endpoint.address,
            "interface": endpoint.interface,
            "netns": endpoint.netns,
            "mtu": endpoint.mtu,
            "pool": endpoint.pool,
            "up": up.get(endpoint.interface, False),
        }
        for endpoint in state.workloads
    ]


def bgp(machine: Machine) -> Data:
    """The BIRD at the control socket and its sessions; `running` is False where nobody answers."""
    try:
        found = status.observe(machine.bird_socket)
    except NotAnswering as error:
        return {"running": False, "version": None, "router_id": None, "error": str(error), "sessions": []}
    except BirdError as error:
        return {"running": True, "version": None, "router_id": None, "error": str(error), "sessions": []}
    return {
        "running": True,
        "version": found.version,
        "router_id": found.router_id,
        "error": None,
        "sessions": [{**dataclasses.asdict(session), "established": session.established} for session in found.sessions],
    }
