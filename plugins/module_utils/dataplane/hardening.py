# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings by which a device trusts its neighbours: off on every device that we make.

Behind a host end is a workload, and a tunnel device receives from anyone who can spoof a node's address. A Router
Advertisement of theirs would give the host addresses, routes and a default route (CVE-2020-13597). So `close` is called
before a device comes up, whether IPv6 is used or not. `forget_advertised` removes what advertisements left on a device
that was up before. Other settings would let a neighbour reach 127.0.0.0/8 of the host (CVE-2020-8558), send with the
host's own address, fill the neighbour table, or choose the path of a packet.

A kernel without IPv6 has no IPv6 settings, an older kernel lacks some, and nothing fails there.
"""

from __future__ import annotations

import errno
import typing as t

from ..base.addresses import Network, network
from .kernel.port import (
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    SCOPE_LINK,
    InterfaceAddress,
    Kernel,
    KernelError,
    KernelRoute,
    Link,
    RouteOperation,
    passing_over,
)

#: `<folder below net>/<name>` of the settings that are 0 on our devices.
SETTINGS = (
    "ipv4/accept_local",
    "ipv4/accept_redirects",
    "ipv4/accept_source_route",
    "ipv4/arp_accept",
    "ipv4/bc_forwarding",
    "ipv4/route_localnet",
    "ipv6/accept_ra",
    "ipv6/accept_redirects",
    "ipv6/accept_source_route",
    "ipv6/accept_untracked_na",
    "ipv6/autoconf",
    "ipv6/ioam6_enabled",
    "ipv6/rpl_seg_enabled",
    "ipv6/seg6_enabled",
)
#: Settings of a device, besides its MTU, that an advertisement may change, as paths below net/ipv6; {} is the device.
_ADVERTISED_VALUES = ("conf/{}/hop_limit", "neigh/{}/base_reachable_time_ms", "neigh/{}/retrans_time_ms")
_ON_LINK = network("fe80::/64")
_GONE = (errno.ENOENT, errno.ENODEV)  # the errors that say that a device or setting is gone
_FEW = 4  # devices; up to this number, reading each one's addresses is cheaper than reading all addresses


class Advertised(t.NamedTuple):
    """The addresses and routes that advertisements left on a device."""

    addresses: tuple[InterfaceAddress, ...] = ()
    routes: tuple[KernelRoute, ...] = ()


def key(setting: str, device: str) -> str:
    """Return the path below /proc/sys of one of SETTINGS for a device."""
    folder, _slash, name = setting.partition("/")
    return f"net/{folder}/conf/{device}/{name}"


def has_settings(kernel: Kernel, device: str) -> bool:
    """Return whether the kernel has the IPv6 settings of this device; also True for a kernel without IPv6."""
    setting = "ipv6/accept_ra"
    return kernel.sysctl_read(key(setting, device)) is not None or kernel.sysctl_read(key(setting, "default")) is None


def close(kernel: Kernel, device: str, settings: t.Iterable[str] = SETTINGS) -> None:
    """Set these settings of a device to 0; stop at the first that the kernel refuses.

    Settings that do not exist are skipped, all of them if the device is missing.
    """
    for setting in settings:
        try:
            kernel.sysctl_write(key(setting, device), "0")
        except KernelError as error:
            if error.errno != errno.ENOENT:
                raise


def advertised(kernel: Kernel, devices: t.Collection[str]) -> dict[str, Advertised]:
    """Return a mapping from device name to what advertisements left on it, for those of `devices` that have any.

    Such things are IPv6 addresses with a lifetime, routes of protocol ra, and routes to networks that were advertised
    as on-link, which have protocol kernel.
    """
    if not devices:
        return {}
    addresses: dict[str, list[InterfaceAddress]] = {}
    own: dict[str, list[Network]] = {}
    if len(devices) <= _FEW:
        held = [address for device in devices for address in kernel.addresses(device, 6)]
    else:
        held = kernel.addresses(family=6)
    for address in held:
        if address.device in devices and not address.permanent:
            addresses.setdefault(address.device, []).append(address)
        elif address.device in devices and address.scope != SCOPE_LINK:
            own.setdefault(address.device, []).append(network(f"{address.address}/{address.prefix_length}"))
    routes: dict[str, list[KernelRoute]] = {}
    for entry in _routes(kernel):
        device = entry[1].device or ""
        if device in devices and not _of_own_address(entry, own.get(device, ())):
            routes.setdefault(device, []).append(entry)
    return {
        device: Advertised(tuple(addresses.get(device, ())), tuple(sorted(routes.get(device, ()), key=repr)))
        for device in sorted({*addresses, *routes})
    }


def _routes(kernel: Kernel) -> list[KernelRoute]:
    return [
        *kernel.routes(protocol=PROTOCOL_RA, family=6),
        *kernel.routes(table=254, protocol=PROTOCOL_KERNEL, family=6),
    ]


def _of_own_address(entry: KernelRoute, networks: t.Collection[Network]) -> bool:
    """Return whether the kernel made this route itself: to the link-local network, or to one of `networks`."""
    destination, attributes = entry
    return attributes.protocol == PROTOCOL_KERNEL and network(destination) in (_ON_LINK, *networks)


def forget_advertised(kernel: Kernel, link: Link) -> None:
    """Remove what advertisements left on a device, and reset the values that they may have set.

    Call `close` first. Values are reset to those of `default` or, for the MTU, of the link. What is already gone is
    skipped, and so is a value that the kernel calls invalid (EINVAL).
    """
    found = advertised(kernel, [link.name]).get(link.name, Advertised())
    for address in found.addresses:
        with passing_over(errno.EADDRNOTAVAIL, *_GONE):
            kernel.address_delete(address)
    # The kernel has removed the routes of these addresses with them.
    left = advertised(kernel, [link.name]).get(link.name, Advertised())
    for failure in kernel.route_batch([RouteOperation("delete", *entry) for entry in left.routes]):
        if failure.error.errno != errno.ESRCH:
            raise failure.error
    wanted = {f"net/ipv6/conf/{link.name}/mtu": str(link.mtu)}
    for name in _ADVERTISED_VALUES:
        usual = kernel.sysctl_read("net/ipv6/" + name.format("default"))
        if usual is not None:
            wanted["net/ipv6/" + name.format(link.name)] = usual
    for path, value in wanted.items():
        if kernel.sysctl_read(path) not in (None, value):
            with passing_over(errno.EINVAL, *_GONE):
                kernel.sysctl_write(path, value)


def differing(link: Link, left: t.Optional[Advertised] = None) -> list[tuple[str, str]]:
    """Return texts for people about what is to be closed and removed on a device, as (before, after); [] for nothing.

    `left` is what advertisements left on it.
    """
    found = []
    for setting, value in link.open_settings:
        name = setting.replace("/", " ")
        found.append((f"{name} {value}", f"{name} 0"))
    if left is None:
        return found
    words = [f"advertised address {address.address}/{address.prefix_length}" for address in left.addresses]
    for destination, attributes in left.routes:
        via = f" via {attributes.gateway}" if attributes.gateway else ""
        words.append(f"advertised route {destination}{via}")
    return [*found, ("  ".join(words), "nothing advertised")]
