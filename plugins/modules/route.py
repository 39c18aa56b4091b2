# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: route
short_description: Routes with the collection's protocol number
version_added: 0.1.0
description:
  - Adds, replaces in place and removes routes with protocol number 179 (C(proto calico)), any number in one call.
  - Routes of other protocols are never changed. If one has the same destination, the module fails.
  - On a node with a state of M(baremetal.host_routing.node), a run of that module removes routes that the state does
    not have.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  routes:
    description:
      - The routes. Use this or O(destination).
    type: list
    elements: dict
    suboptions:
      destination:
        description: CIDR of either IP version, or an address, which means its /32 or /128.
        type: str
        required: true
      type:
        description: V(blackhole) drops packets that match no longer prefix.
        type: str
        choices: [unicast, blackhole]
        default: unicast
      device:
        description: Outgoing interface.
        type: str
      gateway:
        description: Next hop, of the same IP version. Without it the destination is on the link itself.
        type: str
      onlink:
        description: Treat the gateway as on the link, whatever addresses the device has. For tunnel devices.
        type: bool
        default: false
      mtu:
        description: Largest packet in bytes. By default the device's MTU.
        type: int
      table:
        description: Routing table.
        type: int
        default: 254
  destination:
    description:
      - CIDR of either IP version, or an address, which means its /32 or /128.
    type: str
  type:
    description:
      - V(blackhole) drops packets that match no longer prefix.
    type: str
    choices: [unicast, blackhole]
    default: unicast
  device:
    description:
      - Outgoing interface.
    type: str
  gateway:
    description:
      - Next hop. Without it the destination is on the link itself.
    type: str
  onlink:
    description:
      - Treat the gateway as on the link, whatever addresses the device has. For tunnel devices.
    type: bool
    default: false
  mtu:
    description:
      - Largest packet in bytes. By default the device's MTU.
    type: int
  table:
    description:
      - Routing table.
    type: int
    default: 254
  state:
    description:
      - Whether the routes shall exist.
    type: str
    choices: [present, absent]
    default: present
  purge:
    description:
      - Remove all other routes with the collection's protocol number, in all tables. Needs O(routes).
    type: bool
    default: false
seealso:
  - module: baremetal.host_routing.route_info
"""

EXAMPLES = r"""
- name: Route to the workloads of another host
  baremetal.host_routing.route:
    destination: 172.19.2.0/24
    gateway: 10.65.132.188
    device: ens18

- name: Route to them through a tunnel
  baremetal.host_routing.route:
    destination: 172.19.2.0/24
    gateway: 10.65.132.188
    device: tunl0
    onlink: true

- name: Have exactly these routes
  baremetal.host_routing.route:
    purge: true
    routes:
      - {destination: 10.244.3.0/26, type: blackhole}
      - {destination: 10.244.3.1, device: cali717821d73f3}
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ route    172.19.2.0/24  via 10.65.132.188 dev ens18"]
"""

import ipaddress
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import family_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import underlay
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import route
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.plan import Part
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Route

FIELDS: dict[str, t.Any] = {
    "destination": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["unicast", "blackhole"], "default": "unicast"},
    "device": {"type": "str"},
    "gateway": {"type": "str"},
    "onlink": {"type": "bool", "default": False},
    "mtu": {"type": "int"},
    "table": {"type": "int", "default": 254},
}


def wanted(params: t.Mapping[str, t.Any]) -> list[Route]:
    """Return the routes to make; raise ValueError for an invalid destination, or a route without device and gateway."""
    entries = params["routes"]
    if entries is None:
        entries = [{name: params[name] for name in FIELDS}]
    routes = [
        Route(**{**entry, "destination": _cidr(entry["destination"]), "gateway": _gateway(entry)}) for entry in entries
    ]
    for entry in routes if params["state"] == "present" else ():
        if entry.type == "unicast" and not entry.device and not entry.gateway:
            raise ValueError(
                f"destination {entry.destination} has neither device nor gateway, so it leads nowhere. "
                "Name one of them, or set type: blackhole."
            )
    return routes


def _cidr(text: str) -> str:
    try:
        return str(ipaddress.IPv6Network(text) if family_of(text) == 6 else ipaddress.IPv4Network(text))
    except ValueError as error:
        version, example = ("IPv6", "fd00:10:244::40/122") if family_of(text) == 6 else ("IPv4", "10.244.3.0/26")
        raise ValueError(f"destination {text} is not an {version} network: {error}. Write it as {example}.") from None


def _gateway(entry: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the gateway in the kernel's spelling, or None without one."""
    text, version = entry["gateway"], family_of(entry["destination"])
    if text is None:
        return None
    try:
        return str(ipaddress.IPv6Address(text) if version == 6 else ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(
            f"gateway {text} is not an IPv{version} address, as destination {entry['destination']} needs one. "
            f"Write it as {'fd00:10:10:1::12' if version == 6 else '10.10.1.12'}."
        ) from None


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    desired = wanted(params)
    if params["state"] == "absent":
        named = {(entry.table, entry.destination) for entry in desired}
        observed = {key: have for key, have in route.observe(kernel, []).items() if key[:2] in named}
        return [Part(route, route.diff([], observed))]
    desired = underlay.with_devices(kernel, desired)
    changes = route.diff(desired, route.observe(kernel, desired))
    return [Part(route, [change for change in changes if params["purge"] or change.action != "-"])]


def main() -> None:
    top = {name: {**spec, "required": False} for name, spec in FIELDS.items()}
    module = AnsibleModule(
        argument_spec={
            "routes": {"type": "list", "elements": "dict", "options": FIELDS},
            **top,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "purge": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("routes", "destination")],
        required_one_of=[("routes", "destination")],
        supports_check_mode=True,
    )
    if module.params["purge"] and (module.params["routes"] is None or module.params["state"] == "absent"):
        module.fail_json(msg="purge needs routes and state: present. It removes whatever is not in that list.")
    standalone_module.run_change(module, machine.here(), lambda kernel: steps(module.params, kernel))


if __name__ == "__main__":
    main()
