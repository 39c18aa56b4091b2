# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of an inventory with what the documents of its files mean, and its policy documents."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, locate, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import node_address
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import (
    Merged,
    merged,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.flat_resource import values_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.setting_fields import (
    fields_of,
    value_at,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..actions import controller_variables
from . import inventory_source, resource_files
from .resource_files import NOTHING, POLICIES, RESOURCES, Instead


class PoolPlace(t.NamedTuple):
    """The file and line of a pool, "" if unknown, and the resource in a document that has it, None for a variable."""

    origin: str
    resource: t.Optional[str]


def read(task_vars: t.Mapping[str, t.Any]) -> Merged:
    """Return the hosts of the inventory with the variables that documents mean, and the documents of policy.

    Raise FleetError, with known file and line, for hosts that `inventory_source.hosts` refuses, files that
    `resource_files.documents` refuses, and documents that `merged` refuses.
    """
    return of_hosts(inventory_source.hosts(task_vars), task_vars)


def of_hosts(hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]) -> Merged:
    """Return what `read` returns for hosts that are read already."""
    try:
        with uncollected():
            names = {variable: variables.of_fleet(hosts, variable) for variable in (RESOURCES, POLICIES)}
            found = resource_files.documents(names, task_vars)
            result = merged(hosts, found[RESOURCES], found[POLICIES])
            if result.errors:
                raise result.errors[0]
            return result._replace(files=tuple(one for documents in found.values() for one in documents))
    except FleetError as error:
        locate(error, hosts)
        raise


def readable(hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any], instead: Instead = NOTHING) -> Merged:
    """Return what `read` returns of the documents that can be read.

    Its errors are about all others, and about invalid variables that name files. `instead` are texts in the place of
    files.
    """
    errors: list[FleetError] = []
    names: dict[str, t.Any] = {}
    for variable in (RESOURCES, POLICIES):
        try:
            names[variable] = variables.of_fleet(hosts, variable)
        except FleetError as invalid:
            errors.append(invalid)
    found = resource_files.readable(names, task_vars, instead)
    result = merged(hosts, found.documents.get(RESOURCES, ()), found.documents.get(POLICIES, ()))
    errors += [*found.errors, *result.errors]
    for error in errors:
        locate(error, hosts)
    return result._replace(errors=tuple(errors))


def addresses_of_nodes(task_vars: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """Return the variables for addresses that documents of files give to nodes, by node and by variable.

    A node without such a document is missing. What cannot be read is left out: a run of the fleet names it. Raise
    FleetError if a template in the variable that names the files cannot be evaluated.
    """
    groups = task_vars.get("groups", {})
    for name in sorted({*groups.get("calico_nodes", ()), *groups.get("calico_rr", ())}):
        if RESOURCES not in controller_variables.raw(task_vars["hostvars"])(name):
            return {}
        value = inventory_source.evaluated(task_vars["hostvars"][name], name, RESOURCES)
        if not isinstance(value, (list, tuple)):
            return {}
        names = {RESOURCES: inventory_source.plain_variable(value, name, RESOURCES)}
        return _addresses(resource_files.readable(names, task_vars).documents[RESOURCES])
    return {}


def _addresses(documents: t.Iterable[Document]) -> dict[str, dict[str, t.Any]]:
    fields = [one for one in fields_of("Node", True) if one.variable in node_address.VARIABLES.values()]
    found: dict[str, dict[str, t.Any]] = {}
    for document in documents:
        if value_at(document.content, "kind") != "Node":
            continue
        name = str(value_at(document.content, "metadata.name"))
        for field in fields:
            value = value_at(document.content, field.path)
            if value is not None:
                found.setdefault(name, {})[field.variable] = value
    return found


def pool_place(task_vars: t.Mapping[str, t.Any], pool: str) -> PoolPlace:
    """Return where a pool is written. Errors are those of `read`."""
    hosts = read(task_vars).hosts
    for host in hosts:
        pools = host.variables.get("calico_ip_pools")
        for index, entry in enumerate(pools if isinstance(pools, list) else ()):
            label = f"calico_ip_pools[{index}]"
            if pool in values_of(entry, "metadata", "name") and host.has_place_of(label):
                written = host.documents.get(label)
                return PoolPlace(origin(label, [host]), None if written is None else written.who)
    return PoolPlace("", None)
