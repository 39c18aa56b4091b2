# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload attached and detached, with the result of the drivers, but in a few system calls.

    attach(kernel, endpoint)              # attach_link, then attach_route: reachable last
    detach_route(kernel, endpoint)        # unreachable at once
    detach_links(kernel, endpoints)       # the pairs: 25 ms in the kernel, for one or for many

After `attach`, plan_node finds nothing to do for the workload. A new pair is made by code of this module. If part of
the workload exists already, the drivers complete it; they also explain conflicts. All functions may be repeated, and
called from any thread that has a Kernel of its own.

The inner end of a workload that is handed over stays in the host's namespace, down. Its container engine moves it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import typing as t

from ...base.addresses import GATEWAY
from ...state.attachment import endpoint_routes, endpoint_sysctls
from ...state.node_state import VethEndpoint
from .. import hardening
from ..change import ApplyError, Change
from ..drivers import route, sysctl, workload
from ..kernel.port import Kernel, KernelError, LinkChange, NamespaceRefused, RouteOperation


class AttachError(Exception):
    """The reason why a workload could not be attached or detached, mostly with the remedy.

    What `attach` or `attach_link` made was removed as far as possible, unless a pair existed before: a workload that is
    attached already stays. `code` is in_the_way (an object of others conflicts), not_found (no such namespace),
    invalid_params (the path leads to no namespace for workloads), conflict (the path leads to another namespace than
    before), unavailable (this host cannot serve workloads) or kernel (the kernel refused). `field` names the parameter
    at fault, "" for none.
    """

    def __init__(self, code: str, text: str, field: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.field = field


class Attached(t.NamedTuple):
    """The end of the pair inside: its MAC and its MTU in bytes, and the identity of its network namespace."""

    mac: str
    mtu: int
    netns_identity: str = ""


def attach(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """Attach a workload: make its pair, then its route. Return the end inside; raise AttachError if this fails."""
    attached, made = _link(kernel, endpoint)
    try:
        attach_route(kernel, endpoint)
    except AttachError:
        if made:
            _take_away(kernel, endpoint)
        raise
    return attached


def attach_link(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """Attach a workload, except for the route by which the host reaches it; return the end of the pair inside.

    If a part of it exists, only what differs is changed. Raise AttachError if this fails.
    """
    return _link(kernel, endpoint)[0]


def _link(kernel: Kernel, endpoint: VethEndpoint) -> tuple[Attached, bool]:
    """Attach a workload as `attach_link` does, and return its result and whether it had no host end before."""
    try:
        _check_gateway(kernel, endpoint)
        try:
            with contextlib.ExitStack() as undo:
                attached = _make(kernel, endpoint, undo)
                undo.pop_all()
                return attached, True
        except KernelError as error:
            # An existing interface is looked for only after a refusal: a look before each attachment would cost more.
            if error.errno != errno.EEXIST or kernel.link(endpoint.interface) is None:
                raise
        return _bring_into_order(kernel, endpoint), False
    except KernelError as error:
        raise _explained(kernel, endpoint, error) from error


def attach_route(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """Write the routes by which the host reaches a workload.

    A route of ours or of BIRD to another device is replaced. Raise AttachError if a route cannot be written; the link
    stays as it is then, and so does the other IP version's route if that was written.
    """
    wanted = endpoint_routes(endpoint)
    try:
        kernel.write([RouteOperation("add", one.destination, route.attributes_of(one)) for one in wanted])
        return
    except KernelError:
        pass  # The route driver, which is called next, replaces a route of ours or of BIRD, or says why it cannot.
    try:
        places = {route.place(one) for one in wanted}
        found = {key: have for key, have in route.observe(kernel, wanted).items() if key in places}
        route.apply(kernel, route.diff(wanted, found))
    except ApplyError as error:
        raise AttachError("in_the_way" if error.change.action == "!" else "kernel", error.reason) from error
    except KernelError as error:
        raise _refused(endpoint, error, "Put that right, then try again.") from error


def _check_gateway(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """Raise AttachError if the host has no route to the gateway of IPv4 workloads, or only one through `endpoint`.

    The kernel answers a workload's ARP request for it only if the host itself would send there through another device.
    """
    if not endpoint.address:
        return  # Without an IPv4 address no route is needed: the gateway for IPv6 is the host end's own address.
    found = kernel.route_to(GATEWAY)
    if found is None or found.device == endpoint.interface:
        raise AttachError(
            "unavailable",
            f"This host has no route to {GATEWAY}, the gateway of all workloads, so its kernel would not"
            f" answer for it and {workload.identity(endpoint)} would reach nothing. It was not attached. Give the host"
            f" a default route, or that address on its loopback (ip address add {GATEWAY}/32 dev lo), then"
            " try again.",
        )


def _make(kernel: Kernel, endpoint: VethEndpoint, undo: contextlib.ExitStack) -> Attached:
    """Make a workload's namespace if it is owned and missing, then its pair; configure both ends and set them up.

    Return the end inside. Register with `undo` callbacks that remove the namespace and the pair that were made.
    """
    if endpoint.handed_over:
        return _make_handed_over(kernel, endpoint, undo)
    name, peer = workload.netns_name(endpoint), endpoint.peer_interface
    if endpoint.netns_owned and not kernel.netns_exists(name):
        kernel.netns_add(name, workload.identity(endpoint))
        undo.callback(_quietly, kernel.netns_delete, name)
    inner = _entered(kernel, endpoint)
    try:
        kernel.link_add(workload.new_pair(endpoint, name))
        undo.callback(_quietly, kernel.links_delete, [endpoint.interface])
        kernel.write([LinkChange(endpoint.interface, alias=workload.MARK + workload.identity(endpoint))])
        # The inner end is read before it is set up: a later read would wait until the kernel has noticed the carrier.
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
        kernel.leave(name)  # An open socket would keep the namespace alive after its owner has deleted it.
    if made is None:
        raise workload.nothing_inside(endpoint)

    _open_host_end(kernel, endpoint)
    return Attached(made.mac, made.mtu, inner.identity)


def _open_host_end(kernel: Kernel, endpoint: VethEndpoint) -> None:
    hardening.close(kernel, endpoint.interface, workload.closed_settings(endpoint))
    for setting in endpoint_sysctls(endpoint):
        kernel.sysctl_write(setting.key, setting.value)
    kernel.write([LinkChange(endpoint.interface, up=True)])


def _make_handed_over(kernel: Kernel, endpoint: VethEndpoint, undo: contextlib.ExitStack) -> Attached:
    """Make a workload's pair in the host's namespace and set up its host end; return the inner end, which stays down.

    Register with `undo` a callback that removes the pair.
    """
    peer = endpoint.peer_interface
    kernel.link_add(workload.new_pair(endpoint))
    undo.callback(_quietly, kernel.links_delete, [endpoint.interface])
    kernel.write([LinkChange(endpoint.interface, alias=workload.MARK + workload.identity(endpoint))])
    made = kernel.link(peer)
    if made is None:
        raise KernelError(errno.ENODEV, f"make {peer}", f"there is no device {peer}")
    _open_host_end(kernel, endpoint)
    return Attached(made.mac, made.mtu)


def _entered(kernel: Kernel, endpoint: VethEndpoint) -> Kernel:
    """Return the kernel inside the workload's namespace, which `Kernel.leave` closes."""
    name = workload.netns_name(endpoint)
    try:
        return kernel.inside(name, workload.expected_identity(endpoint))
    except NamespaceRefused as error:
        raise _not_for(endpoint, error) from error


def _bring_into_order(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    """Complete and repair a workload that partly exists, with the drivers; return the end of the pair inside.

    The part may be left from an attempt that was stopped, or from an earlier attachment. If a change fails, what was
    changed before stays, because the workload may be running.
    """
    name = workload.netns_name(endpoint)
    if not endpoint.netns_owned and not endpoint.handed_over:
        try:
            # Keep to the present namespace, even if the name leads to another one while the drivers work.
            endpoint = dataclasses.replace(endpoint, netns_identity=_entered(kernel, endpoint).identity)
        finally:
            kernel.leave(name)
    changes = _planned(kernel, endpoint)
    for change in changes:
        if change.action == "!":
            raise AttachError("in_the_way", change.note)
        if change.action == "=" and not endpoint.handed_over:
            raise _no_namespace(endpoint)
    try:
        workload.apply(kernel, changes)
        wanted = endpoint_sysctls(endpoint)
        sysctl.apply(kernel, sysctl.diff(wanted, sysctl.observe(kernel, wanted)))
        workload.activate(kernel, changes)
        if endpoint.handed_over:
            return _handed_over(kernel, endpoint)
        inner = _entered(kernel, endpoint)
        made = inner.link(endpoint.peer_interface)
        if made is None:
            raise workload.nothing_inside(endpoint)
    except ApplyError as error:
        raise AttachError("kernel", error.reason) from error
    finally:
        kernel.leave(name)
    return Attached(made.mac, made.mtu, inner.identity)


def _handed_over(kernel: Kernel, endpoint: VethEndpoint) -> Attached:
    link = kernel.link(endpoint.interface)
    peer = workload.handed_over_end(kernel, endpoint, link) if link is not None else None
    return Attached(peer.mac, peer.mtu) if peer is not None else Attached(endpoint.mac or "", endpoint.mtu)


def _planned(kernel: Kernel, endpoint: VethEndpoint) -> list[Change]:
    return workload.diff([endpoint], {endpoint.interface: workload.observe_one(kernel, endpoint)})


def _explained(kernel: Kernel, endpoint: VethEndpoint, error: KernelError) -> AttachError:
    """Return the AttachError for a refusal, with the driver's reason if it finds one, else with the kernel's words."""
    existed = False
    try:
        existed = kernel.link(endpoint.interface) is not None
        for change in _planned(kernel, endpoint):
            if change.action == "=" and not endpoint.handed_over:
                return _no_namespace(endpoint)
            if change.action == "!":
                return AttachError("in_the_way", change.note)
    except KernelError:
        pass
    left = "Its devices were kept" if existed else "Nothing of it was left behind"
    return _refused(endpoint, error, f"{left}; put that right, then try again.")


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
        why = f"{name} is not a network namespace"
    return AttachError("invalid_params", f"{which} was not attached: {why}. {example}", "netns")


def _refused(endpoint: VethEndpoint, error: KernelError, remedy: str) -> AttachError:
    return AttachError(
        "kernel",
        f"{workload.identity(endpoint)} could not be attached: the kernel refused to {error.operation}."
        f" It said: {error.said}. {remedy}",
    )


def _take_away(kernel: Kernel, endpoint: VethEndpoint) -> None:
    _quietly(detach_route, kernel, endpoint)
    detach_links(kernel, [endpoint])


def _quietly(undo: t.Callable[..., None], *arguments: t.Any) -> None:
    """Call `undo` and ignore its KernelError: the error that made undoing necessary is the one to report."""
    with contextlib.suppress(KernelError):
        undo(*arguments)


def detach_route(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """Delete our routes by which the host reaches a workload. One that is already gone is ignored."""
    operations = [
        RouteOperation("delete", one.destination, route.attributes_of(one)) for one in endpoint_routes(endpoint)
    ]
    for failure in kernel.route_batch(operations):
        if failure.error.errno not in (errno.ESRCH, errno.ENODEV):
            raise failure.error


def detach_links(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> dict[str, str]:
    """Delete the pairs of workloads, and the namespaces that were made for them: many take about as long as one.

    Return a mapping from interface name to the reason why its workload could not be deleted; a refusal of the kernel
    raises nothing. Pairs are deleted together: if that is refused, all of them are in the result. A device with the
    name of a pair that is not this workload's is left untouched.
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
    owned = [endpoint.interface for endpoint in endpoints if endpoint.netns_owned]
    owners: dict[str, str] = {}
    try:
        owners = kernel.netns_owners() if owned else {}
    except KernelError as error:
        failed.update(dict.fromkeys(owned, str(error)))
    for endpoint in endpoints:
        name = workload.netns_name(endpoint)
        kernel.leave(name)
        if endpoint.netns_owned and owners.get(name) == workload.identity(endpoint):
            try:
                kernel.netns_delete(name)
            except KernelError as error:
                failed[endpoint.interface] = str(error)
    return failed
