# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tunnel_device
short_description: The device of an IPIP or VXLAN tunnel
version_added: 0.1.0
description:
  - Creates C(tunl0), C(vxlan.calico) or C(vxlan-v6.calico) as a node has it, up and with its address. For VXLAN it adds
    the other nodes as permanent neighbour and forwarding entries, in place of multicast or learning.
  - The kernel cannot delete C(tunl0). Absent means that it is down and has no address from this module.
  - Addresses on C(tunl0) and devices that the collection has not made are never changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  kind:
    description:
      - V(ipip) for C(tunl0), V(vxlan) for C(vxlan.calico), V(vxlan6) for C(vxlan-v6.calico), which carries IPv6 over
        IPv6.
    type: str
    choices: [ipip, vxlan, vxlan6]
    required: true
  local:
    description:
      - The node's own address, which is the source of the tunnel's packets. Required for V(vxlan), and for V(vxlan6) as
        an IPv6 address.
    type: str
  address:
    description:
      - Address of the node in the tunnel, set on the device as /32, or as /128 for V(vxlan6).
    type: str
  mtu:
    description:
      - MTU of the device. By default that of the interface with O(local), or 1500, minus the encapsulation.
    type: int
  node:
    description:
      - Name of the node. The MAC of a VXLAN device is a hash of it. By default the name of the host.
    type: str
  vni:
    description:
      - VXLAN network identifier.
    type: int
    default: 4096
  port:
    description:
      - UDP port of VXLAN.
    type: int
    default: 4789
  remotes:
    description:
      - The other ends of a VXLAN device. Others are removed; without this option all stay.
    type: list
    elements: dict
    suboptions:
      address:
        description: Address of the other node, which is the destination of the tunnel's packets.
        type: str
        required: true
      node:
        description: Name of the other node. Its MAC is a hash of it. This or O(remotes[].mac) is required.
        type: str
      mac:
        description: MAC of the other node's VXLAN device.
        type: str
      gateway:
        description:
          - Gateway of the routes through it. By default O(remotes[].address); for V(vxlan6) the link-local address that
            its MAC implies, because the kernel accepts no other.
        type: str
  state:
    description:
      - Whether the device shall exist.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.tunnel_device_info
"""

EXAMPLES = r"""
- name: An IPIP tunnel to the gateway of any route
  baremetal.host_routing.tunnel_device:
    kind: ipip
    local: 10.65.132.187

- name: A VXLAN tunnel to one other node
  baremetal.host_routing.tunnel_device:
    kind: vxlan
    local: 10.65.132.187
    address: 172.19.1.0
    remotes:
      - {node: host2, address: 10.65.132.188}

- name: A tunnel for IPv6, and the route to a block of the other node
  baremetal.host_routing.tunnel_device:
    kind: vxlan6
    local: fd00:10:10:1::11
    remotes:
      - {node: host2, address: "fd00:10:10:1::12"}

- name: The route, with the address that the other end's MAC implies
  baremetal.host_routing.route:
    destination: fd00:10:244::40/122
    device: vxlan-v6.calico
    gateway: fe80::64e0:d8ff:fe7a:849f
    onlink: true
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ device   tunl0  mtu 1480  up"]
"""

import ipaddress
import socket
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import family_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import neighbor, tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.plan import Part
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    OVERHEAD,
    OVERHEAD6,
    FdbEntry,
    Neighbor,
    TunnelDevice,
)

NAMES = {"ipip": "tunl0", "vxlan": "vxlan.calico", "vxlan6": "vxlan-v6.calico"}
#: Bytes: RFC 2003; RFC 7348 with an IPv4 and an IPv6 underlay.
OVERHEADS = {"ipip": OVERHEAD["IPIP"], "vxlan": OVERHEAD["VXLAN"], "vxlan6": OVERHEAD6["VXLAN"]}


def device_of(params: t.Mapping[str, t.Any], kernel: Kernel) -> TunnelDevice:
    """Return the device to make; raise ValueError for an address of the wrong IP version."""
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
    """Return the address as the kernel writes it, None without one; raise ValueError for an invalid one."""
    if text is None:
        return None
    version = 6 if kind == "vxlan6" else 4
    try:
        return str(ipaddress.IPv6Address(text) if version == 6 else ipaddress.IPv4Address(text))
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
    """Return the neighbour entries of the remote ends.

    Raise ValueError for an end without MAC and node, or with an address of the wrong IP version.
    """
    kind = params["kind"]
    entries: list[neighbor.Entry] = []
    for remote in params["remotes"] or ():
        mac = remote["mac"] or (naming.vtep_mac(remote["node"]) if remote["node"] else None)
        if mac is None:
            raise ValueError(
                f"remotes: {remote['address']} has neither node nor mac, so frames to it have no destination. Name one."
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["ipip", "vxlan", "vxlan6"], "required": True},
            "local": {"type": "str"},
            "address": {"type": "str"},
            "mtu": {"type": "int"},
            "node": {"type": "str"},
            "vni": {"type": "int", "default": 4096},
            "port": {"type": "int", "default": 4789},
            "remotes": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "address": {"type": "str", "required": True},
                    "node": {"type": "str"},
                    "mac": {"type": "str"},
                    "gateway": {"type": "str"},
                },
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["kind"] != "ipip" and params["state"] == "present" and not params["local"]:
        module.fail_json(
            msg=f"local is missing: kind {params['kind']} needs the node's own address. Set it to that address."
        )
    standalone_module.run_change(module, machine.here(), lambda kernel: steps(params, kernel))


if __name__ == "__main__":
    main()
