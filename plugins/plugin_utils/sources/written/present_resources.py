# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources that an inventory has in force, each with the file or the variable that has it."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import (
    SETTINGS,
    PresentResource,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import (
    ResourceKey,
    key_in,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import (
    OWN_RESERVATION,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.flat_resource import values_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import KINDS
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from ...lines.shown_path import shown_path
from .. import inventory_fleet, inventory_resources, resource_files
from ..resource_files import POLICIES, RESOURCES

#: {prefix of variables with lists of resources: their kind, "" for entries that say it themselves}
_LISTS = {
    "calico_ip_pools": "IPPool",
    "calico_bgp_peers": "BGPPeer",
    "calico_node_bgp_peers": "BGPPeer",
    "calico_bgp_filters": "BGPFilter",
    "calico_policies": "",
    "calico_node_policies": "",
}
_RESERVATIONS = "calico_ip_reservations"
_OTHERS = "the inventory's variables"


class PresentNetwork(t.NamedTuple):
    """The resources in force, and the folders that calico_resource_files names."""

    resources: dict[ResourceKey, PresentResource]
    folders: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of new resources, "" for none."""
        return self.folders[0] if self.folders else ""

    def may_remove(self, path: str) -> bool:
        """Return whether the inventory is read without this file: it lies in a folder, and is not named itself."""
        return any(path.startswith(os.path.join(folder, "")) for folder in self.folders)


def read(task_vars: t.Mapping[str, t.Any]) -> PresentNetwork:
    """Return the resources of a valid inventory. Raise FleetError if its fleet cannot be planned."""
    fleet = inventory_fleet.with_lockfile(task_vars)
    hosts = fleet.sources.hosts
    names = {variable: variables.of_fleet(hosts, variable) for variable in (RESOURCES, POLICIES)}
    documents = [one for found in resource_files.documents(names, task_vars).values() for one in found]
    written = {key: one for one in documents if (key := key_in(one.content)) is not None}
    listed = _listed(hosts)
    found: dict[ResourceKey, PresentResource] = {}
    for of_kind in inventory_resources.resources(fleet.fleet, fleet.sources).values():
        for document in of_kind:
            key = key_in(document)
            if key is None or (key.name == OWN_RESERVATION and key not in listed):
                continue
            if key in written:
                found[key] = PresentResource(document, written[key].file, written[key].content)
            else:
                found[key] = PresentResource(document, variable=listed.get(key, _otherwise(key)))
    for key, one in written.items():
        if key not in found and key.kind in resources.KINDS:
            found[key] = PresentResource(resources.parse(one.content).to_document(), one.file, one.content)
    return PresentNetwork(found, _folders(names[RESOURCES], task_vars))


def _otherwise(key: ResourceKey) -> str:
    """Return what has a resource that no file and no list has by its name: variables, or "" for a default."""
    return "" if key.kind in SETTINGS or key.kind in KINDS else _OTHERS


def _listed(hosts: t.Sequence[Host]) -> dict[ResourceKey, str]:
    """Return the places of resources in lists of variables. Documents of files, which are in them too, are left out."""
    found: dict[ResourceKey, str] = {}
    seen: set[tuple[str, int]] = set()
    for host in hosts:
        for variable, entries in host.variables.items():
            kind = next((kind for prefix, kind in _LISTS.items() if variable.startswith(prefix)), None)
            if variable == _RESERVATIONS and entries and f"{variable}[0]" not in host.documents:
                found.setdefault(ResourceKey("IPReservation", "", OWN_RESERVATION), _place(variable, host))
            if kind is None or not isinstance(entries, (list, tuple)) or (variable, id(entries)) in seen:
                continue
            seen.add((variable, id(entries)))
            for index, entry in enumerate(entries):
                label = f"{variable}[{index}]"
                key = _key(kind, entry)
                if key is not None and label not in host.documents:
                    found.setdefault(key, _place(label, host))
    return found


def _key(kind: str, entry: t.Any) -> t.Optional[ResourceKey]:
    """Return what identifies an entry of a list, in the flat form or as a document; None for one without a name."""
    if not isinstance(entry, t.Mapping):
        return None
    try:
        made = resources.parse_flat(kind or str(entry.get("kind")), entry)
    except resources.ResourceError:
        name = next((name for name in values_of(entry, "metadata", "name") if isinstance(name, str)), None)
        return ResourceKey(kind, "", name) if kind and name else None
    return key_in(made.to_document())


def _place(label: str, host: Host) -> str:
    known = origin(label, [host])
    return f"{label} ({shown_path(known)})" if known else label


def _folders(names: t.Any, task_vars: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    base = str(task_vars.get("inventory_dir") or os.getcwd())
    paths = (os.path.normpath(os.path.join(base, os.path.expanduser(name))) for name in names or ())
    return tuple(path for path in paths if os.path.isdir(path))
