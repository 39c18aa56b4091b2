# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module tunnel_device manages the device of an IPIP or VXLAN tunnel."""

from __future__ import annotations

import socket
import typing as t

from ...base import naming
from ...base.addresses import family_of
from ...dataplane.drivers import neighbor, tunnel
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.plan import Part
from ...state.node_state import (
    OVERHEAD,
    OVERHEAD6,
    FdbEntry,
    Neighbor,
    TunnelDevice,
)
from .. import standalone_module
from ..module_call import ModuleCall
from .address_option import kernel_text

NAMES = {"ipip": "tunl0", "vxlan": "vxlan.calico", "vxlan6": "vxlan-v6.calico"}
#: The bytes that each kind adds to a packet: RFC 2003; RFC 7348 with an IPv4 and an IPv6 underlay.
OVERHEADS = {"ipip": OVERHEAD["IPIP"], "vxlan": OVERHEAD["VXLAN"], "vxlan6": OVERHEAD6["VXLAN"]}


def device_of(params: t.Mapping[str, t.Any], kernel: Kernel) -> TunnelDevice:
    """Return the device to make; raise ValueError for an address that is invalid or of the wrong IP version.

    The default MTU is that of the interface with the local address, or 1500 bytes without one, less the kind's
    overhead. A VXLAN device has the MAC address that follows from `node`, by default this host's name.
    """
    kind = params["kind"]
    name = NAMES[kind]
    local = _address(kind, "local", params["local"]) or ""
    address = _address(kind, "address", params["address"])
    mtu = params["mtu"] or _mtu(kernel, local) - OVERHEADS[kind]
    if kind == "ipip":
        return TunnelDevice(name, kind, mtu, local, address)
    mac = naming.vtep_mac(params["node"] or socket.gethostname())
    return TunnelDevice(name, "vxlan", mtu, local, address, mac, params["vni"], params["port"])


def _address(kind: str, option: str, text: t.Optional[str]) -> t.Optional[str]:
    """Return the address as the kernel writes it, None for None. `kind` decides on its IP version."""
    if text is None:
        return None
    version = 6 if kind == "vxlan6" else 4
    try:
        return kernel_text(text, version)
    except ValueError:
        example = "fd00:10:10:1::11" if version == 6 else "10.10.1.11"
        raise ValueError(
            f"{option}: {text} is not an IPv{version} address, and kind {kind} needs one. Write it as {example}."
        ) from None


def _mtu(kernel: Kernel, local: str) -> int:
    held = kernel.addresses(family=family_of(local))
    device = next((entry.device for entry in held if entry.address == local), None)
    link = kernel.link(device) if device else None
    return link.mtu if link else 1500


def entries_of(params: t.Mapping[str, t.Any]) -> list[neighbor.Entry]:
    """Return a neighbour and an FDB entry for each remote end, [] without `remotes`.

    The neighbour is the end's gateway, by default its address, or for vxlan6 the link-local address of its MAC. Without
    a MAC, that of `node` is derived. MAC addresses are put into lower case. Raise ValueError for an end without MAC and
    node, with an invalid MAC, or with an address that is invalid or of the wrong IP version.
    """
    kind = params["kind"]
    entries: list[neighbor.Entry] = []
    for remote in params["remotes"] or ():
        mac = remote["mac"] or (naming.vtep_mac(remote["node"]) if remote["node"] else None)
        if mac is None:
            raise ValueError(
                f"remotes: {remote['address']} has neither node nor mac, so frames to it have no destination. Name one."
            )
        mac = mac.lower()
        if not naming.is_mac(mac):
            raise ValueError(
                f"remotes: mac {remote['mac']} is not the MAC address of one device. Write it as 02:00:00:00:00:01."
            )
        address = t.cast(str, _address(kind, "remotes", remote["address"]))
        gateway = _address(kind, "remotes", remote["gateway"])
        if gateway is None:
            gateway = naming.link_local(mac) if kind == "vxlan6" else address
        entries.append(Neighbor(NAMES[kind], gateway, mac))
        entries.append(FdbEntry(NAMES[kind], mac, address))
    return entries


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    name = NAMES[params["kind"]]
    if params["state"] == "absent":
        observed = {key: have for key, have in tunnel.observe(kernel, []).items() if key == name}
        return [Part(tunnel, tunnel.diff([], observed))]
    device = device_of(params, kernel)
    observed = {key: have for key, have in tunnel.observe(kernel, [device]).items() if key == name}
    devices = tunnel.diff([device], observed)
    made = [Part(tunnel, devices)]
    if params["kind"] != "ipip" and params["remotes"] is not None:
        wanted = entries_of(params)
        found = {} if tunnel.recreated(devices) else neighbor.observe(kernel, wanted)
        made.append(Part(neighbor, neighbor.diff(wanted, found)))
    return made


def run(module: ModuleCall) -> t.NoReturn:
    """Manage the device of an IPIP or VXLAN tunnel, and answer as the module tunnel_device."""
    params = module.params
    if params["kind"] != "ipip" and params["state"] == "present" and not params["local"]:
        module.fail_json(
            msg=f"local is missing: kind {params['kind']} needs the node's own address. Set it to that address."
        )
    standalone_module.run_change(module, steps)
