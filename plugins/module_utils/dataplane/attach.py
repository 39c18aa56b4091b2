# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload attached and detached: what the drivers would do, at the price of a few system calls.

    attach(kernel, endpoint)              # attach_link, then attach_route: reachable last
    detach_route(kernel, endpoint)        # unreachable at once
    detach_links(kernel, endpoints)       # the pairs: 25 ms in the kernel, for one or for many

Afterwards plan_node finds nothing to do for it. The making of a new one is written out here; an endpoint of which
something stands already is brought into order by the drivers themselves, and they also say what stands in the way.
All of these may be repeated, and called from any thread that has a Kernel of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import typing as t

from ..state.attachment import endpoint_routes, endpoint_sysctls
from ..state.node_state import VethEndpoint
from . import hardening
from .change import ApplyError, Change
from .drivers import route, sysctl, workload
from .kernel.port import Kernel, KernelError, LinkChange, NamespaceRefused, NewLink, RouteOperation


class AttachError(Exception):
    """Why a workload could not be attached, and how to go on; nothing of it was left behind.

    `code` is in_the_way (something of somebody else's), not_found (its namespace), invalid_params (it names what is no
    namespace for workloads), conflict (it is another one than before), unavailable (this host cannot serve workloads)
    or kernel (refused). `field` names the parameter that is to blame, "" for none.
    """

    def __init__(self, code: str, text: str, field: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.field = field


class Attached(t.NamedTuple):
    """The end inside as it is, and the identity of its namespace."""

    mac: str
    mtu: int
    netns_identity: str = ""


def attach(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """Raises AttachError; nothing is left behind then."""
    attached = attach_link(kernel, endpoint)
    try:
        attach_route(kernel, endpoint)
    except AttachError:
        _take_away(kernel, endpoint)
        raise
    return attached


def attach_link(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """All but the route by which the host reaches it. Raises AttachError; nothing is left behind then."""
    try:
        _check_gateway(kernel, endpoint)
        try:
            with contextlib.ExitStack() as undo:
                attached = _make(kernel, endpoint, undo)
                undo.pop_all()
                return attached
        except KernelError as error:
            # Seldom, so it is not asked before.
            if error.errno != errno.EEXIST or kernel.link(endpoint.interface) is None:
                raise
            return _bring_into_order(kernel, endpoint)
    except KernelError as error:
        raise _explained(kernel, endpoint, error) from error


def attach_route(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """From here on it is reachable, and BIRD may tell others. A route of ours to another device is taken over.

    Raises AttachError; the link stays as it is then, and of two routes the one that could be written.
    """
    wanted = endpoint_routes(endpoint)
    try:
        kernel.write([RouteOperation("add", one.destination, route.attributes_of(one)) for one in wanted])
        return
    except KernelError:
        pass  # the driver finds out why
    try:
        places = {route.place(one) for one in wanted}
        found = {key: have for key, have in route.observe(kernel, wanted).items() if key in places}
        route.apply(kernel, route.diff(wanted, found))
    except ApplyError as error:
        raise AttachError("in_the_way" if error.change.action == "!" else "kernel", error.reason) from error
    except KernelError as error:
        raise _refused(endpoint, error) from error


def _check_gateway(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """The kernel answers a workload's ARP for its gateway only if it would send such packets out elsewhere itself."""
    if not endpoint.address:
        return  # of IPv6 it is the host end's own address
    found = kernel.route_to(workload.GATEWAY)
    if found is None or found.device == endpoint.interface:
        raise AttachError(
            "unavailable",
            f"This host has no route to {workload.GATEWAY}, the gateway of all workloads, so its kernel would not"
            f" answer for it and {workload.identity(endpoint)} would reach nothing. It was not attached. Give the host"
            f" a default route, or that address on its loopback (ip address add {workload.GATEWAY}/32 dev lo), then"
            " try again.",
        )


def _make(kernel: Kernel, endpoint: VethEndpoint, undo: contextlib.ExitStack) -> Attached:
    """A new pair, one end born inside, in order and up. `undo` learns how to take away what was made."""
    name, peer = workload.netns_name(endpoint), endpoint.peer_interface
    if endpoint.netns_owned and not kernel.netns_exists(name):
        kernel.netns_add(name, workload.identity(endpoint))
        undo.callback(_quietly, kernel.netns_delete, name)
    inner = _entered(kernel, endpoint)
    try:
        kernel.link_add(
            NewLink(
                endpoint.interface,
                "veth",
                mtu=endpoint.mtu,
                mac=workload.HOST_MAC,
                peer_name=peer,
                peer_netns=name,
                peer_mac=endpoint.mac,
            )
        )
        undo.callback(_quietly, kernel.links_delete, [endpoint.interface])
        kernel.write([LinkChange(endpoint.interface, alias=workload.MARK + workload.identity(endpoint))])
        # Asked later, it would wait for the kernel to take note of the carrier.
        made = inner.link(peer)
        if endpoint.address6:
            workload.turn_on_ipv6(inner, peer)
        inner.write(
            [
                LinkChange("lo", up=True),
                LinkChange(peer, alias=workload.address_mark(endpoint), up=True),
                *(workload.inner_address(peer, address) for address in endpoint.addresses),
                *(RouteOperation("add", to, through) for to, through in workload.wanted_routes(endpoint).items()),
                *workload.missing_by_source(endpoint),
            ]
        )
    finally:
        kernel.leave(name)  # an open socket would keep the namespace alive when its owner deletes it
    if made is None:
        raise _nothing_inside(endpoint)

    hardening.close(kernel, endpoint.interface)
    for setting in endpoint_sysctls(endpoint):
        kernel.sysctl_write(setting.key, setting.value)
    kernel.write([LinkChange(endpoint.interface, up=True)])
    return Attached(made.mac, made.mtu, inner.identity)


def _entered(kernel: Kernel, endpoint: VethEndpoint) -> Kernel:
    """The kernel inside. Raises AttachError where the namespace cannot be this workload's, or KernelError."""
    name = workload.netns_name(endpoint)
    try:
        return kernel.inside(name, workload.expected_identity(endpoint))
    except NamespaceRefused as error:
        raise _not_for(endpoint, error) from error


def _bring_into_order(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """By the drivers, what a stopped attach left or an earlier one made. Raises KernelError too."""
    name = workload.netns_name(endpoint)
    if not endpoint.netns_owned:
        try:
            # The one of this moment, whatever the name leads to while the drivers are at it.
            endpoint = dataclasses.replace(endpoint, netns_identity=_entered(kernel, endpoint).identity)
        finally:
            kernel.leave(name)
    changes = _planned(kernel, endpoint)
    for change in changes:
        if change.action == "!":
            raise AttachError("in_the_way", change.note)
        if change.action == "=":
            raise _no_namespace(endpoint)
    try:
        workload.apply(kernel, changes)
        wanted = endpoint_sysctls(endpoint)
        sysctl.apply(kernel, sysctl.diff(wanted, sysctl.observe(kernel, wanted)))
        workload.activate(kernel, changes)
        inner = _entered(kernel, endpoint)
        made = inner.link(endpoint.peer_interface)
        if made is None:
            raise _nothing_inside(endpoint)
    except ApplyError as error:
        _take_away(kernel, endpoint)
        raise AttachError("kernel", error.reason) from error
    except KernelError:
        _take_away(kernel, endpoint)
        raise
    finally:
        kernel.leave(name)
    return Attached(made.mac, made.mtu, inner.identity)


def _planned(kernel: Kernel, endpoint: VethEndpoint) -> list[Change]:
    return workload.diff([endpoint], {endpoint.interface: workload.look(kernel, endpoint)})


def _explained(kernel: Kernel, endpoint: VethEndpoint, error: KernelError) -> AttachError:
    """What was made is gone again: if something of others stands in the way, the driver sees it now."""
    try:
        for change in _planned(kernel, endpoint):
            if change.action == "=":
                return _no_namespace(endpoint)
            if change.action == "!":
                return AttachError("in_the_way", change.note)
    except KernelError:
        pass
    return _refused(endpoint, error)


def _no_namespace(endpoint: VethEndpoint) -> AttachError:
    return AttachError(
        "not_found",
        f"There is no network namespace {workload.netns_name(endpoint)} to attach {workload.identity(endpoint)} to."
        " Make it first (or see why its container is gone), then try again.",
    )


def _not_for(endpoint: VethEndpoint, error: NamespaceRefused) -> AttachError:
    name, which = workload.netns_name(endpoint), workload.identity(endpoint)
    if error.errno == errno.ESTALE:
        return AttachError(
            "conflict",
            f"{which} was attached to another network namespace than the one that {name} leads to now. It was not"
            " touched. Delete the workload, then add it again.",
            "netns",
        )
    example = "Give it one of its own, such as /run/netns/NAME or /proc/PID/ns/net."
    if error.errno == errno.EPERM:
        why = f"{name} is the network namespace of this host itself, which is no workload's"
    else:
        why = f"{name} is no network namespace"
    return AttachError("invalid_params", f"{which} was not attached: {why}. {example}", "netns")


def _nothing_inside(endpoint: VethEndpoint) -> KernelError:
    device = endpoint.peer_interface
    return KernelError(errno.ENODEV, f"set up {device}", f"there is no device {device} inside")


def _refused(endpoint: VethEndpoint, error: KernelError) -> AttachError:
    return AttachError(
        "kernel",
        f"{workload.identity(endpoint)} could not be attached: the kernel refused to {error.operation}."
        f" It said: {error.said}. Nothing of it was left behind; put that right, then try again.",
    )


def _take_away(kernel: Kernel, endpoint: VethEndpoint) -> None:
    _quietly(detach_route, kernel, endpoint)
    detach_links(kernel, [endpoint])


def _quietly(undo: t.Callable[..., None], *arguments: t.Any) -> None:
    """While undoing: the reason for it is what is to be told, not what came of it."""
    with contextlib.suppress(KernelError):
        undo(*arguments)


def detach_route(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """Unreachable at once: what is sent to it now meets the blackhole of its block. Raises KernelError."""
    operations = [
        RouteOperation("delete", one.destination, route.attributes_of(one)) for one in endpoint_routes(endpoint)
    ]
    for failure in kernel.route_batch(operations):
        if failure.error.errno not in (errno.ESRCH, errno.ENODEV):
            raise failure.error


def detach_link(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """As detach_links for one. Raises AttachError."""
    for text in detach_links(kernel, [endpoint]).values():
        raise AttachError("kernel", text)


def detach_links(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> dict[str, str]:
    """Deletes pairs, all at the price of about one, and the namespaces that were made for them.

    A device of such a name that is not this workload's stays: it is somebody else's. Returns {interface: why it could
    not be deleted}; the others are gone.
    """
    failed: dict[str, str] = {}
    present: list[str] = []
    for endpoint in endpoints:
        try:
            link = kernel.link(endpoint.interface)
        except KernelError as error:
            failed[endpoint.interface] = str(error)
            continue
        if link is not None and workload.ours(link, endpoint):
            present.append(link.name)
    try:
        kernel.links_delete(present)
    except KernelError as error:
        failed.update(dict.fromkeys(present, str(error)))
    owners = kernel.netns_owners() if any(endpoint.netns_owned for endpoint in endpoints) else {}
    for endpoint in endpoints:
        name = workload.netns_name(endpoint)
        kernel.leave(name)
        if endpoint.netns_owned and owners.get(name) == workload.identity(endpoint):
            try:
                kernel.netns_delete(name)
            except KernelError as error:
                failed[endpoint.interface] = str(error)
    return failed
