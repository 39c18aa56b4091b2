# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules by name, for those that start one without Ansible's archive: the controller's action and the engine."""

from __future__ import annotations

import importlib
import typing as t

from .module_call import ModuleCall, ModuleSpec

_NODES = (
    "bgp_session_info convergence_info drain node node_confirm node_info node_status_info probe remote_endpoints "
    "remote_endpoints_info soak teardown workload workload_info"
)
_OBJECTS = (
    "interface_sysctl interface_sysctl_info iptables_table iptables_table_info route route_info tunnel_device "
    "tunnel_device_info workload_endpoint workload_endpoint_info"
)
_CLUSTER = "etcd_member_info etcd_operation"
#: {name of a module: its folder beside this file}
FOLDERS: t.Mapping[str, str] = {
    **dict.fromkeys(_NODES.split(), "nodes"),
    **dict.fromkeys(_OBJECTS.split(), "objects"),
    **dict.fromkeys(_CLUSTER.split(), "cluster"),
}


class LoadedModule(t.Protocol):
    """The code of a module."""

    SPEC: ModuleSpec

    def run(self, module: ModuleCall) -> t.NoReturn: ...


def load(name: str) -> LoadedModule:
    """Return the module `name`, a name without the collection's. Raise KeyError for one that is not in FOLDERS."""
    return t.cast(LoadedModule, importlib.import_module(f".{FOLDERS[name]}.{name}", __package__))
