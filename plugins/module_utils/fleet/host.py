# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of the inventory, and the files and lines in which its variables are set."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Host:
    """A host as the inventory gives it.

    `workload_node` and `reflector` say whether it is in the groups calico_nodes and calico_rr. `origins` maps variables
    and fields in them (`calico_ip_pools[0].cidr`) to the file and line in which they are written. `ssh_port` is the
    port of Ansible's connection, None for the default. `groups` are all groups that it is in.
    """

    name: str
    variables: t.Mapping[str, t.Any]
    workload_node: bool = True
    reflector: bool = False
    origins: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ssh_port: t.Optional[int] = None
    groups: tuple[str, ...] = ()


def origin(variable: str, hosts: t.Sequence[Host]) -> str:
    """Return the file and line of the field that an error names, or of the closest entry around it; "" if unknown.

    `variable` is the name in the error: `calico_ip_pools[0].cidr`, or `calico_node_address of node1`, which looks at
    that host only. If several hosts have a place for that field or entry, the first one determines the result.
    """
    path, dummy, owner = variable.partition(" of ")
    while path:
        for host in hosts:
            if path in host.origins and owner in ("", host.name):
                return host.origins[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ""
