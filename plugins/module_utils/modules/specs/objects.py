# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the modules that handle one kind of object."""

from __future__ import annotations

import typing as t

from ..module_call import ModuleSpec

ROUTE_FIELDS: dict[str, t.Any] = {
    "destination": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["unicast", "blackhole"], "default": "unicast"},
    "device": {"type": "str"},
    "gateway": {"type": "str"},
    "onlink": {"type": "bool", "default": False},
    "mtu": {"type": "int"},
    "table": {"type": "int", "default": 254},
}

#: {name of a module: what it accepts}
SPECS: t.Mapping[str, ModuleSpec] = {
    "interface_sysctl": ModuleSpec(
        argument_spec={
            "interface": {"type": "str", "required": True},
            "forwarding": {"type": "bool"},
            "proxy_arp": {"type": "bool"},
            "proxy_delay": {"type": "int"},
            "rp_filter": {"type": "int", "choices": [0, 1, 2]},
            "accept_local": {"type": "bool"},
            "send_redirects": {"type": "bool"},
        },
        required_one_of=[("forwarding", "proxy_arp", "proxy_delay", "rp_filter", "accept_local", "send_redirects")],
    ),
    "interface_sysctl_info": ModuleSpec(argument_spec={"interface": {"type": "str", "required": True}}),
    "iptables_table": ModuleSpec(
        argument_spec={
            "table": {"type": "str", "choices": ["filter", "nat", "mangle", "raw"], "default": "filter"},
            "family": {"type": "int", "choices": [4, 6], "default": 4},
            "chains": {"type": "dict", "default": {}},
            "hooks": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"chain": {"type": "str", "required": True}, "rule": {"type": "str", "required": True}},
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
    ),
    "iptables_table_info": ModuleSpec(
        argument_spec={
            "table": {"type": "str", "choices": ["filter", "nat", "mangle", "raw"]},
            "family": {"type": "int", "choices": [4, 6], "default": 4},
        },
    ),
    "route": ModuleSpec(
        argument_spec={
            "routes": {"type": "list", "elements": "dict", "options": ROUTE_FIELDS},
            **{name: {**spec, "required": False} for name, spec in ROUTE_FIELDS.items()},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "purge": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("routes", "destination")],
        required_one_of=[("routes", "destination")],
    ),
    "route_info": ModuleSpec(
        argument_spec={
            "prefix": {"type": "str"},
            "protocol": {
                "type": "list",
                "elements": "str",
                "choices": ["calico", "bird"],
                "default": ["calico", "bird"],
            },
            "table": {"type": "int", "default": 254},
        },
    ),
    "tunnel_device": ModuleSpec(
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
    ),
    "tunnel_device_info": ModuleSpec(argument_spec={}),
    "workload_endpoint": ModuleSpec(
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
    ),
    "workload_endpoint_info": ModuleSpec(argument_spec={"name": {"type": "str"}}),
}
