# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload_endpoint
short_description: Attach a network namespace to the host
version_added: 0.1.0
description:
  - Connects a network namespace with the host by a veth pair, as Calico does. The host end C(cali...) has the MAC
    ee:ee:ee:ee:ee:ee and no address. Inside are the workload's address as /32 and a default route through 169.254.1.1,
    for which the host answers by proxy ARP. An IPv6 address is set as /128, with a default route through
    fe80::ecee:eeff:feee:eeee, the host end's link-local address.
  - The namespace is created if it is missing, and deleted with the workload if it was created here.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  name:
    description:
      - Name of the workload.
    type: str
    required: true
  namespace:
    description:
      - Calico's namespace, which is part of the interface's name.
    type: str
    default: default
  address:
    description:
      - The workload's IPv4 address. This or O(address_ipv6) is required when O(state=present).
    type: str
  address_ipv6:
    description:
      - The workload's IPv6 address.
    type: str
  netns:
    description:
      - Network namespace, as in C(ip netns). By default the name of the workload.
    type: str
  interface:
    description:
      - Name of the host end. By default C(cali) and 11 digits of a hash of O(namespace) and O(name), as Calico names
        it.
    type: str
  peer_interface:
    description:
      - Name of the interface inside.
    type: str
    default: eth0
  mtu:
    description:
      - MTU of both ends.
    type: int
    default: 1500
  routed:
    description:
      - Whether to set proxy ARP and forwarding on the host end and to route the addresses to it. Without it only the
        pair is created, for M(baremetal.host_routing.interface_sysctl) and M(baremetal.host_routing.route).
    type: bool
    default: true
  state:
    description:
      - Whether the workload shall exist.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.workload_endpoint_info
"""

EXAMPLES = r"""
- name: A workload that others can reach
  baremetal.host_routing.workload_endpoint:
    name: net1
    address: 172.19.1.2

- name: A workload with both IP versions
  baremetal.host_routing.workload_endpoint:
    name: net2
    address: 172.19.1.3
    address_ipv6: fd00:19::3

- name: Remove it with all that belongs to it
  baremetal.host_routing.workload_endpoint:
    name: net1
    state: absent
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ workload default/net1  eth0 172.19.1.2  host end cali717821d73f3  mtu 1500"]
interface:
  description: The host end.
  returned: success
  type: str
  sample: cali717821d73f3
"""

import ipaddress
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import route, sysctl, workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.plan import Part
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_routes,
    endpoint_sysctls,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import VethEndpoint


def endpoint_of(params: t.Mapping[str, t.Any]) -> VethEndpoint:
    interface = params["interface"] or naming.interface_name(params["namespace"], params["name"])
    return VethEndpoint(
        name=params["name"],
        interface=naming.check_device_name(interface, "interface"),
        address=_address(params, "address", ipaddress.IPv4Address, "172.19.1.2"),
        address6=_address(params, "address_ipv6", ipaddress.IPv6Address, "fd00:19::2"),
        mtu=params["mtu"],
        pool="",
        namespace=params["namespace"],
        netns=params["netns"] or params["name"],
        peer_interface=naming.check_device_name(params["peer_interface"], "peer_interface"),
    )


def _address(params: t.Mapping[str, t.Any], option: str, read: t.Callable[[str], t.Any], example: str) -> str:
    """Return the address as the kernel writes it, "" without one; raise ValueError for an invalid one."""
    try:
        return str(read(params[option])) if params[option] else ""
    except ValueError:
        version = "IPv6" if option == "address_ipv6" else "IPv4"
        raise ValueError(f"{option}: {params[option]} is not an {version} address. Write it as {example}.") from None


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    endpoint = endpoint_of(params)
    found = workload.observe(kernel, [endpoint])
    if params["state"] == "absent":
        name = workload.identity(endpoint)
        gone = {key: have for key, have in workload.observe(kernel, []).items() if key == name}
        links = {have.link.name for have in gone.values() if have.link is not None}
        routes = {key: have for key, have in route.observe(kernel, []).items() if have.device in links}
        return [Part(workload, workload.diff([], gone)), Part(route, route.diff([], routes))]
    pairs = workload.diff([endpoint], {endpoint.interface: found[endpoint.interface]})
    made = [Part(workload, pairs)]
    anew = workload.recreated(pairs)
    settings = endpoint_sysctls(endpoint)
    if not params["routed"]:  # what protects the host is there in either case
        settings = tuple(setting for setting in settings if setting.key.endswith("/rp_filter"))
    have = dict.fromkeys((setting.key for setting in settings), None) if anew else sysctl.observe(kernel, settings)
    # Also without settings, since the host end is set up after this step.
    made.append(Part(sysctl, sysctl.diff(settings, have)))
    if params["routed"]:
        wanted = list(endpoint_routes(endpoint))
        routes = {key: value for key, value in route.observe(kernel, wanted).items() if value.device not in anew}
        made.append(Part(route, [c for c in route.diff(wanted, routes) if c.action != "-"]))
    return made


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "address": {"type": "str"},
            "address_ipv6": {"type": "str"},
            "netns": {"type": "str"},
            "interface": {"type": "str"},
            "peer_interface": {"type": "str", "default": "eth0"},
            "mtu": {"type": "int", "default": 1500},
            "routed": {"type": "bool", "default": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["address", "address_ipv6"], True)],
        supports_check_mode=True,
    )
    try:
        interface = endpoint_of(module.params).interface
    except ValueError as error:
        module.fail_json(msg=str(error))
    standalone_module.run_change(
        module, machine.here(), lambda kernel: steps(module.params, kernel), interface=interface
    )


if __name__ == "__main__":
    main()
