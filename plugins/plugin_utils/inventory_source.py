# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory as Ansible holds it, turned into the plain hosts that the engine reads."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import Host

try:  # Where a value was written; core keeps this in a private place, so live without it.
    from ansible._internal._datatag._tags import Origin  # type: ignore[import-not-found]
except ImportError:
    Origin = None

NODES_GROUP, REFLECTORS_GROUP = "calico_nodes", "calico_rr"


def hosts(task_vars: t.Mapping[str, t.Any]) -> list[Host]:
    """All hosts of the inventory's groups, whatever --limit says: blocks are planned for all or for none."""
    groups = {str(group): set(members) for group, members in task_vars.get("groups", {}).items()}
    nodes = set(groups.get(NODES_GROUP, ()))
    reflectors = set(groups.get(REFLECTORS_GROUP, ()))
    found = []
    for name in sorted(nodes | reflectors):
        host_vars = task_vars["hostvars"][name]
        raw = {str(key): host_vars[key] for key in host_vars if _is_ours(str(key))}
        origins: dict[str, str] = {}
        for key, value in raw.items():
            _origins(key, value, origins)
        found.append(
            Host(
                str(name),
                {key: plain(value) for key, value in raw.items()},
                workload_node=name in nodes,
                reflector=name in reflectors,
                origins=origins,
                ssh_port=_port(host_vars),
                groups=tuple(sorted(group for group, members in groups.items() if name in members)),
            )
        )
    return found


def _port(host_vars: t.Mapping[str, t.Any]) -> t.Optional[int]:
    """The port by which Ansible reaches a host, None for the usual one."""
    for name in ("ansible_port", "ansible_ssh_port"):
        text = str(host_vars[name]) if name in host_vars else ""
        if text.isdigit() and 1 <= int(text) <= 65535:
            return int(text)
    return None


def plain(value: t.Any) -> t.Any:
    """Without Ansible's tags and lazy containers."""
    return json.loads(json.dumps(value, default=str))


def _is_ours(name: str) -> bool:
    """Whether the engine reads it, or complains of how it is written."""
    if name in variables.BY_NAME or name.startswith(variables.POLICIES_OF_GROUP):
        return True
    return name.startswith("calico_") and any(True for dummy in variables.misspelt([name]))


def _origins(path: str, value: t.Any, found: dict[str, str]) -> None:
    """Fills `found` with {`calico_ip_pools[0].cidr`: file:line} for the value and all that is in it."""
    origin = Origin.get_tag(value) if Origin is not None else None
    if origin is not None and origin.path:
        found[path] = f"{origin.path}:{origin.line_num}" if origin.line_num else str(origin.path)
    if isinstance(value, t.Mapping):
        for key in value:
            _origins(f"{path}.{key}", value[key], found)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _origins(f"{path}[{index}]", item, found)


def pool_origin(task_vars: t.Mapping[str, t.Any], pool: str) -> str:
    """File and line in which a pool is written, "" where that is not known."""
    for host in hosts(task_vars):
        for index, entry in enumerate(host.variables.get("calico_ip_pools") or ()):
            if isinstance(entry, dict) and pool in (entry.get("name"), (entry.get("metadata") or {}).get("name")):
                origin = host.origins.get(f"calico_ip_pools[{index}]")
                if origin:
                    return origin
    return ""
