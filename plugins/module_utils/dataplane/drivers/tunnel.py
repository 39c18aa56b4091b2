# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of tunnel devices: `tunl0` (ipip), `vxlan.calico` and, over IPv6, `vxlan-v6.calico`, with their addresses.

Each has the node's own tunnel address, if any. Our mark is the device's alias, `calico: tunnel <addresses>`: it names
the addresses that are ours, and is written before the first of them is added. Addresses of others are never touched.

`tunl0` is the fallback device of the kernel's ipip module and cannot be deleted: it is set down instead, and counts as
absent once it lacks our mark. An address stays while sockets use it, because the host's own connections through the
tunnel have it as their source. A new address is added before the old one is removed. `vxlan-v6.calico` has IPv6
addresses only; its link-local one, which the kernel derives from the MAC, is ignored. The device accepts nothing that
is advertised through the tunnel (hardening.py).
"""

from __future__ import annotations

import errno
import typing as t

from ...base.addresses import family_of
from ...state.node_state import TunnelDevice
from .. import hardening
from ..change import Change, apply_each, refused
from ..driver import DriverStep
from ..kernel.port import (
    SCOPE_LINK,
    ForwardingEntry,
    InterfaceAddress,
    Kernel,
    KernelError,
    Link,
    NewLink,
    passing_over,
)

MARK = "calico: tunnel"
NAMES = ("tunl0", "vxlan.calico", "vxlan-v6.calico")


class Observed(t.NamedTuple):
    link: Link
    addresses: tuple[InterfaceAddress, ...]
    recorded: tuple[str, ...]  # our addresses, as the alias names them
    sockets: t.Mapping[str, int]  # {our address that is no longer desired: number of sockets that use it}
    advertised: t.Optional[hardening.Advertised] = None  # what advertisements left on the device; None: nothing

    @property
    def ours(self) -> bool:
        return self.link.alias.startswith(MARK)

    @property
    def own(self) -> list[InterfaceAddress]:
        return [address for address in self.addresses if address.address in self.recorded]

    @property
    def foreign(self) -> list[InterfaceAddress]:
        return [address for address in self.addresses if address.address not in self.recorded]


def observe(kernel: Kernel, desired: t.Iterable[TunnelDevice], names: t.Sequence[str] = NAMES) -> dict[str, Observed]:
    """Return, by name, the devices of `names` and the desired ones that exist."""
    wanted = {device.name: device for device in desired}
    observed: dict[str, Observed] = {}
    for name in dict.fromkeys([*names, *wanted]):
        link = kernel.link(name)
        if link is None:
            continue
        recorded = tuple(_recorded(link))
        addresses = tuple(_addresses(kernel, link))
        keep = wanted[name].address if name in wanted else None
        sockets = {
            address.address: kernel.sockets_using(address.address)
            for address in addresses
            if address.address in recorded and address.address != keep
        }
        observed[name] = Observed(link, addresses, recorded, sockets)
    for name, left in hardening.advertised(kernel, [name for name in observed if name in wanted]).items():
        observed[name] = observed[name]._replace(advertised=left)
    return observed


def _addresses(kernel: Kernel, link: Link) -> list[InterfaceAddress]:
    """Return the device's addresses of the IP version of its local address, IPv4 if it has none.

    IPv6 addresses that are link-local or have a lifetime are left out.
    """
    if link.local is None or family_of(link.local) == 4:
        return kernel.addresses(link.name)
    found = kernel.addresses(link.name, 6)
    return [address for address in found if address.scope != SCOPE_LINK and address.permanent]


def _identity(link: t.Union[Link, TunnelDevice]) -> str:
    if link.kind != "vxlan":
        return ""
    return f"vni {link.vni} port {link.port} local {link.local}"


def _state(link: Link) -> str:
    words = [_identity(link), f"mtu {link.mtu}", "up" if link.up else "down"]
    return "  ".join(word for word in words if word)


def diff(desired: t.Iterable[TunnelDevice], observed: t.Mapping[str, Observed]) -> list[Change]:
    changes: list[Change] = []
    wanted = {device.name: device for device in desired}
    for device in wanted.values():
        changes += _present(device, observed.get(device.name))
    for name, have in observed.items():
        if name not in wanted and have.ours:
            changes += _absent(have)
    return changes


def _present(device: TunnelDevice, have: t.Optional[Observed]) -> list[Change]:
    after = "  ".join(word for word in (_identity(device), f"mtu {device.mtu}", "up") if word)
    length = 128 if family_of(device.local) == 6 else 32
    address = InterfaceAddress(device.name, device.address, length) if device.address else None
    if have is None:
        changes = [Change("device", "+", device.name, None, after, new=device)]
        if address:
            changes.append(_address_change(address, device))
        return changes
    link = have.link
    problem = _in_the_way(device, have)
    if problem:
        return [Change("device", "!", device.name, _state(link), after, problem, link, device)]
    changes = []
    if _differs(link, device):
        before = _state(link) + ("  learning" if link.learning else "")
        note = "made anew: its identity cannot be changed in place"
        changes.append(Change("device", "~", device.name, before, after, note, link, device))
        if address:
            changes.append(_address_change(address, device))
        return changes
    wanted_mac = device.mac if device.mac and device.mac != link.mac else None
    closing = hardening.differing(link, have.advertised)
    if link.mtu != device.mtu or not link.up or wanted_mac or closing or _new_local(link, device):
        before = _state(link) + (f"  mac {link.mac}" if wanted_mac else "")
        mac = f"  mac {wanted_mac}" if wanted_mac else ""
        before = "  ".join([before, *(have for have, _want in closing)])
        closed = "  ".join([after + mac, *(want for _have, want in closing)])
        changes.append(Change("device", "~", device.name, before, closed, "", link, device))
    present = {entry.address for entry in have.addresses}
    if address and address.address not in present:
        changes.append(_address_change(address, device))
    elif not changes and not _recorded_well(device, have):
        changes.append(Change("device", "~", device.name, f"alias {link.alias!r}", f"alias {MARK!r}", "", link, device))
    changes += _addresses_absent(have, keep=device.address)
    return changes


def _address_change(address: InterfaceAddress, device: TunnelDevice) -> Change:
    subject = f"{address.address}/{address.prefix_length}"
    return Change("address", "+", subject, None, f"dev {device.name}", new=(address, device))


def _recorded_well(device: TunnelDevice, have: Observed) -> bool:
    """Return whether the alias is ours, names the desired address, if any, and none that the device lacks."""
    present = {address.address for address in have.addresses}
    recorded = set(have.recorded)
    return have.ours and recorded <= present and (device.address is None or device.address in recorded)


def _in_the_way(device: TunnelDevice, have: Observed) -> str:
    link = have.link
    if link.kind != device.kind:
        return (
            f"A device {link.name} of kind {link.kind or 'hardware'} exists, where one of kind {device.kind} is needed."
            f" It was not touched. Rename or delete it (ip link del {link.name}), then run again."
        )
    # A run that was stopped early leaves our device without its alias. The MAC distinguishes it from others' devices.
    if device.kind == "vxlan" and not have.ours and (link.alias or link.mac != device.mac):
        return (
            f"A VXLAN device {link.name} exists that this collection did not make ({_state(link)})."
            f" It was not touched. Remove what made it and the device (ip link del {link.name}), then run again."
        )
    return ""


def _addresses_absent(have: Observed, keep: t.Optional[str] = None) -> list[Change]:
    changes: list[Change] = []
    for address in have.own:
        if address.address == keep:
            continue
        count = have.sockets.get(address.address, 0)
        subject, before = f"{address.address}/{address.prefix_length}", f"dev {address.device}"
        if count:
            note = f"kept: {count} open socket{'s' if count > 1 else ''} use{'' if count > 1 else 's'} it"
            changes.append(Change("address", "=", subject, before, before, note, address))
        else:
            changes.append(Change("address", "-", subject, before, None, "", address))
    return changes


def _absent(have: Observed) -> list[Change]:
    link = have.link
    changes = _addresses_absent(have)
    used = any(change.action == "=" for change in changes)
    if used:
        note = "kept: it carries an address in use"
        return [*changes, Change("device", "=", link.name, _state(link), _state(link), note, link)]
    note = "set down: the kernel does not let it be deleted" if link.name == "tunl0" else ""
    if have.foreign:
        note = f"left as it is: {have.foreign[0].address} on it is not ours"
    return [*changes, Change("device", "-", link.name, _state(link), None, note, (link, not have.foreign))]


def recreated(changes: t.Iterable[Change]) -> set[str]:
    """Return the devices that these changes delete and create again: objects on them or through them are gone then."""
    return {
        change.subject
        for change in changes
        if change.kind == "device" and change.action == "~" and _differs(change.old, change.new)
    }


def _indexes(kernel: Kernel, devices: t.Iterable[TunnelDevice]) -> dict[str, t.Optional[int]]:
    """Return the devices' indexes by name, None for a missing device. A recreated one has another index."""
    links = {device.name: kernel.link(device.name) for device in devices}
    return {name: link.index if link is not None else None for name, link in links.items()}


def _differs(link: Link, device: TunnelDevice) -> bool:
    """Return whether the device differs in what the kernel changes only by making it anew.

    The kernel changes a local address in place, but not its IP version.
    """
    if device.kind != "vxlan":
        return False
    if link.local is None or family_of(link.local) != family_of(device.local):
        return True
    return (link.vni, link.port, link.learning) != (device.vni, device.port, False)


def _new_local(link: Link, device: TunnelDevice) -> t.Optional[str]:
    """Return the local address that a VXLAN device gets in place, None if it has it or is to be made anew."""
    if device.kind != "vxlan" or _differs(link, device) or link.local == device.local:
        return None
    return device.local


def apply(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    apply_each(changes, lambda change: _write(kernel, change), _reason)


def _write(kernel: Kernel, change: Change) -> None:
    if change.kind == "device" and change.action == "-":
        _release(kernel, *change.old)
    elif change.kind == "device" and change.action in ("+", "~"):
        try:
            _make(kernel, change)
        except KernelError as error:
            if error.errno != errno.ENODEV or change.action == "+":
                raise
            _make(kernel, change)  # The device has disappeared by itself. apply.py restores what was on it.
    elif change.kind == "address" and change.action == "+":
        _add_address(kernel, *change.new)
    elif change.kind == "address" and change.action == "-":
        _delete_address(kernel, change.old)


def _make(kernel: Kernel, change: Change) -> None:
    device: TunnelDevice = change.new
    link = kernel.link(device.name)
    if link is not None and link.kind == device.kind and _differs(link, device):
        kernel.link_delete(device.name)
        link = None
    if link is None:
        if device.kind == "vxlan":
            new = NewLink(device.name, "vxlan", device.mtu, device.mac, device.vni, device.port, device.local)
        else:
            # A request for any ipip device loads the module, which creates tunl0.
            new = NewLink(device.name, device.kind)
        try:
            kernel.link_add(new)
        except KernelError as error:
            if error.errno != errno.EEXIST or kernel.link(device.name) is None:
                raise
        link = kernel.link(device.name)
    _record(kernel, device.name, [device.address] if device.address else [])
    if link is not None and not link.up and not hardening.has_settings(kernel, device.name):
        # The tunl0 of a network namespace has no IPv6 until its MTU changes or it comes up.
        kernel.link_set(device.name, mtu=link.mtu - 1)
        kernel.link_set(device.name, mtu=device.mtu)
        link = kernel.link(device.name)
    hardening.close(kernel, device.name)
    if link is not None and link.up:
        hardening.forget_advertised(kernel, link)
    mac = device.mac if link and device.mac and device.mac != link.mac else None
    mtu = device.mtu if link and device.mtu != link.mtu else None
    local = _new_local(link, device) if link else None
    entries = _pinned(kernel, device.name) if local and family_of(local) == 6 else []
    try:
        kernel.link_set(device.name, mac=mac, mtu=mtu, local=local, up=True)
    finally:
        for entry in entries:
            kernel.fdb_replace(entry._replace(via=0))


def _pinned(kernel: Kernel, name: str) -> list[ForwardingEntry]:
    """Let each forwarding entry of a device name the device by which its packets leave, and return these entries.

    The kernel keeps the source of packets to an entry's destination, and looks for another one only if the entry
    changes. So all entries change before and after a device over IPv6 gets another local address. No packet is lost
    meanwhile, and an entry that a stopped run leaves so is written anew by the next one (neighbor.py). Entries whose
    destination has no route stay: the kernel keeps nothing for them.
    """
    indexes: dict[str, int] = {}
    found = []
    for entry in kernel.fdb(name):
        route = kernel.route_to(entry.destination) if entry.destination and entry.permanent else None
        if route is None or route.type != "unicast" or not route.device:
            continue
        if route.device not in indexes:
            link = kernel.link(route.device)
            indexes[route.device] = link.index if link is not None else 0
        if indexes[route.device]:
            pinned = entry._replace(via=indexes[route.device])
            kernel.fdb_replace(pinned)
            found.append(pinned)
    return found


def _recorded(link: t.Optional[Link]) -> list[str]:
    """Return our addresses, as the device's alias names them; [] for no device or an alias that is not ours."""
    return link.alias[len(MARK) :].split() if link is not None and link.alias.startswith(MARK) else []


def _record(kernel: Kernel, name: str, addresses: t.Iterable[str]) -> None:
    """Write the alias of a device, if it exists: these addresses, and the recorded ones that are still on it."""
    link = kernel.link(name)
    if link is None:
        return
    recorded = _recorded(link)
    present = {address.address for address in _addresses(kernel, link)}
    kept = [address for address in recorded if address in present]
    alias = " ".join([MARK, *dict.fromkeys([*addresses, *kept])])
    if alias != link.alias:
        kernel.link_set(name, alias=alias)


def _add_address(kernel: Kernel, address: InterfaceAddress, device: TunnelDevice) -> None:
    _record(kernel, device.name, [address.address])
    if family_of(address.address) == 6:
        _turn_on(kernel, device.name)
    with passing_over(errno.EEXIST):
        kernel.address_add(address)


def _turn_on(kernel: Kernel, name: str) -> None:
    """Enable IPv6 on a device that has it disabled, as by the host's default: it would accept no address."""
    key = f"net/ipv6/conf/{name}/disable_ipv6"
    if kernel.sysctl_read(key) not in (None, "0"):
        kernel.sysctl_write(key, "0")


def _delete_address(kernel: Kernel, address: InterfaceAddress) -> None:
    with passing_over(errno.EADDRNOTAVAIL, errno.ENODEV):
        kernel.address_delete(address)
    _record(kernel, address.device, [])


def _release(kernel: Kernel, link: Link, down: bool) -> None:
    if link.name != "tunl0" and down:
        kernel.link_delete(link.name)
        return
    if down:
        kernel.link_set(link.name, up=False)
    present = {address.address for address in _addresses(kernel, link)}
    # The alias stays while an address that it records is left: the next run finds the address by it.
    if not present.intersection(_recorded(kernel.link(link.name))):
        kernel.link_set(link.name, alias="")


def _reason(change: Change, error: KernelError) -> str:
    said = f"The kernel said: {error.said}."
    device = change.new[1] if isinstance(change.new, tuple) else change.new
    kind = device.kind if isinstance(device, TunnelDevice) else ""
    if change.kind == "device" and change.action == "+" and error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
        return (
            f"This kernel cannot make a device of kind {kind}, which the pool's mode needs. {said}"
            f" Install a kernel that has the module {kind} (Debian: linux-image-amd64), or choose another mode."
        )
    if change.kind == "device" and kind == "vxlan" and error.errno in (errno.EEXIST, errno.EADDRINUSE):
        return (
            f"Another VXLAN device on this host uses VNI {device.vni} on UDP port {device.port}. {said}"
            " Give this fleet another calico_vxlan_vni or calico_vxlan_port, or remove the other device."
        )
    return refused(error)


def _made(changes: t.Sequence[Change]) -> set[str]:
    """Return the tunnel devices that these changes create or recreate."""
    new = {change.subject for change in changes if change.kind == "device" and change.action == "+"}
    return new | recreated(changes)


STEP: DriverStep[t.Sequence[TunnelDevice], dict[str, Observed]] = DriverStep(
    name="tunnel",
    kinds=("device", "address"),
    stage="tunnels",
    desired=lambda state: state.devices,
    followers=("sysctl", "neighbor", "route"),
    needs=("tunnel", "neighbor", "route"),
    guarded_by=("ipset", "iptables"),
    by_library=("device",),
    made=_made,
    recreated=recreated,
    indexes=_indexes,
)
