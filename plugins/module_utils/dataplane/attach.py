# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload attached and detached, as the drivers would do it, at the price of a few system calls.

    attach(kernel, endpoint)              # afterwards plan_node finds nothing to do for it
    detach_route(kernel, endpoint)        # unreachable at once
    detach_links(kernel, endpoints)       # the pairs; 25 ms in the kernel, for one or for many

An endpoint of which something stands already is brought into order by the drivers themselves; what is written out here
is the making of a new one. Order as there: pair, inside, sysctls, host end up, route. Reachable last.
"""

from __future__ import annotations

import errno
import typing as t

from ..fleet.node_state import ROUTE_PROTOCOL, Route, Sysctl, WorkloadEndpoint
from . import route, sysctl, workload
from .change import ApplyError
from .kernel import SCOPE_LINK, Kernel, RouteAttributes, RouteOperation

_GATEWAY_MISSING = (
    "This host has no route to {gateway}, the gateway of all workloads, so its kernel does not answer their ARP"
    " requests for it. Nothing was attached. Give the host a default route, or that address on its loopback"
    " (ip address add {gateway}/32 dev lo), then try again."
)


class AttachError(Exception):
    """Why a workload could not be attached, what was found and how to go on; nothing of it was left behind.

    `code` is in_the_way (something of somebody else), not_found (its namespace), kernel (refused) or unavailable
    (the host is not able to serve workloads).
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Attached(t.NamedTuple):
    mac: str  # of the end inside
    mtu: int


def sysctls(interface: str) -> tuple[Sysctl, ...]:
    """What a host end needs, in this order: an answer delayed with proxy_arp on has crashed kernels (felix #1937)."""
    return (
        Sysctl(f"net/ipv4/neigh/{interface}/proxy_delay", "0"),
        Sysctl(f"net/ipv4/conf/{interface}/proxy_arp", "1"),
        Sysctl(f"net/ipv4/conf/{interface}/forwarding", "1"),
    )


def routes(endpoint: WorkloadEndpoint) -> tuple[Route, ...]:
    return (Route(f"{endpoint.address}/32", device=endpoint.interface),)


def attach(kernel: Kernel, endpoint: WorkloadEndpoint) -> Attached:
    """Raises AttachError or MissingLibrary."""
    gateway = kernel.route_to(workload.GATEWAY)
    if gateway is None or gateway.device == endpoint.interface:
        raise AttachError("unavailable", _GATEWAY_MISSING.format(gateway=workload.GATEWAY))
    return _by_drivers(kernel, endpoint)


def _by_drivers(kernel: Kernel, endpoint: WorkloadEndpoint) -> Attached:
    name = workload.netns_name(endpoint)
    if not endpoint.netns_owned and not kernel.netns_exists(name):
        raise AttachError("not_found", f"There is no network namespace {name} for {workload.identity(endpoint)}.")
    observed = {endpoint.interface: workload.observe(kernel, [endpoint])[endpoint.interface]}
    changes = workload.diff([endpoint], observed)
    for change in changes:
        if change.action == "!":
            raise AttachError("in_the_way", change.note)
    try:
        workload.apply(kernel, changes)
        wanted = sysctls(endpoint.interface)
        sysctl.apply(kernel, sysctl.diff(wanted, sysctl.observe(kernel, wanted)))
        workload.activate(kernel, changes)
        own = {(254, item.destination, 0): item for item in routes(endpoint)}
        found = {key: value for key, value in route.observe(kernel, tuple(own.values())).items() if key in own}
        route.apply(kernel, route.diff(tuple(own.values()), found))
    except ApplyError as error:
        detach_route(kernel, endpoint)
        detach_link(kernel, endpoint)
        raise AttachError("kernel", error.reason) from error
    peer = next(link for link in kernel.look_inside(name).links if link.name == endpoint.peer_interface)
    return Attached(peer.mac, peer.mtu)


def detach_route(kernel: Kernel, endpoint: WorkloadEndpoint) -> None:
    """Makes it unreachable at once: what is sent to it now meets the block's blackhole. Nothing to do is no error."""
    operations = [
        RouteOperation(
            "delete",
            item.destination,
            RouteAttributes(device=item.device, protocol=ROUTE_PROTOCOL, scope=SCOPE_LINK),
        )
        for item in routes(endpoint)
    ]
    for failure in kernel.route_batch(operations):
        if failure.error.errno not in (errno.ESRCH, errno.ENODEV):
            raise failure.error


def detach_link(kernel: Kernel, endpoint: WorkloadEndpoint) -> None:
    detach_links(kernel, [endpoint])


def detach_links(kernel: Kernel, endpoints: t.Sequence[WorkloadEndpoint]) -> None:
    """Deletes pairs, all at the price of about one, and the namespaces that were made for them.

    A device of such a name that does not carry the workload's mark is somebody else's and stays. Nothing to do is no
    error. Raises KernelError.
    """
    names = []
    for endpoint in endpoints:
        link = kernel.link(endpoint.interface)
        if link is not None and link.alias == workload.MARK + workload.identity(endpoint):
            names.append(link.name)
    if names:
        kernel.links_delete(names)
    owned = [endpoint for endpoint in endpoints if endpoint.netns_owned]
    owners = kernel.netns_owners() if owned else {}
    for endpoint in endpoints:
        name = workload.netns_name(endpoint)
        kernel.leave(name)
        if endpoint.netns_owned and owners.get(name) == workload.identity(endpoint):
            kernel.netns_delete(name)


def conntrack_flush(kernel: Kernel, address: str) -> int:
    """Forgets the connections of an address whose workload is gone: its next owner does not inherit them.

    Returns how many there were. Raises KernelError.
    """
    return kernel.conntrack_flush(address)
