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
    VariableField,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import (
    ResourceKey,
    key_in,
    key_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.variable_texts import (
    WHOLE,
    VariableEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_peer_inventory import NODE_LIST
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import (
    OWN_RESERVATION,
    Merged,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.flat_resource import values_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import (
    KINDS,
    Document,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.setting_fields import (
    DEFAULT,
    OF_NODE,
    fields_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ...lines.shown_path import shown_path
from .. import fleet_documents, inventory_fleet, inventory_resources, inventory_source
from ..resource_files import RESOURCES

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
_RESERVATION_KEY = ResourceKey("IPReservation", "", OWN_RESERVATION)
#: The kinds whose resources are in force as they are written, whatever the plan of the fleet is.
_AS_WRITTEN = frozenset(
    (
        "GlobalNetworkPolicy",
        "NetworkPolicy",
        "StagedGlobalNetworkPolicy",
        "StagedNetworkPolicy",
        "GlobalNetworkSet",
        "NetworkSet",
    )
)
_OTHERS = "the inventory's variables"


#: The lists whose entries are for all nodes, whichever node has them.
_OF_FLEET = ("calico_ip_pools", "calico_bgp_peers", "calico_bgp_filters", "calico_policies", _RESERVATIONS)
#: The kinds that an entry of another list means for the nodes that have it.
_OF_NODES = ("BGPPeer", "HostEndpoint")
_BY_HAND = "Write it into a file of calico_resource_files by hand, and remove it there"
_OF_ALL = (
    "it is for all nodes that have the list. Write it into a file of calico_resource_files by hand, with a "
    "nodeSelector or once for each node, and remove it there"
)


class _Listed(t.NamedTuple):
    """A resource in a list of variables: its place, as errors show it, and its whole document if it can be read.

    `entries` are what the list has of it. `pinned` is why they cannot be moved, "" if they can.
    """

    place: str
    document: t.Optional[t.Mapping[str, t.Any]] = None
    entries: tuple[VariableEntry, ...] = ()
    pinned: str = ""


class PresentNetwork(t.NamedTuple):
    """The resources in force, the folders that calico_resource_files names, and the hosts without documents."""

    resources: dict[ResourceKey, PresentResource]
    folders: tuple[str, ...]
    hosts: t.Sequence[Host]

    @property
    def folder(self) -> str:
        """The folder of new resources, "" for none."""
        return self.folders[0] if self.folders else ""

    def may_remove(self, path: str) -> bool:
        """Return whether the inventory is read without this file: it lies in a folder, and is not named itself."""
        return any(path.startswith(os.path.join(folder, "")) for folder in self.folders)


def read(task_vars: t.Mapping[str, t.Any], kinds: t.Container[str], names: t.Container[str]) -> PresentNetwork:
    """Return the resources of these kinds and names, and maybe others, of an inventory.

    Raise FleetError if its hosts or documents cannot be read, and for a kind of SETTINGS also if it is not valid.
    """
    given = inventory_source.hosts(task_vars)
    merged = fleet_documents.of_hosts(given, task_vars)
    hosts = merged.hosts
    written = {key: one for one in merged.files if (key := _key(one)) is not None}
    listed = _listed(hosts)
    found: dict[ResourceKey, PresentResource] = {}
    for document in _in_force(task_vars, merged, kinds, listed):
        key = key_in(document)
        if key is None or (key.name == OWN_RESERVATION and key not in listed):
            continue
        if key in written:
            found[key] = PresentResource(
                document, written[key].file, written[key].content, fields=_fields(key, document, given, names)
            )
        else:
            other = listed.get(key, _Listed(_otherwise(key), pinned=f"no entry has its name. {_BY_HAND}"))
            found[key] = PresentResource(
                document,
                variable=other.place,
                listed=other.document,
                entries=other.entries,
                pinned=other.pinned,
                fields=_fields(key, document, given, names),
            )
    for key, one in written.items():
        if key not in found and key.kind in resources.KINDS and key.kind in kinds and key.name in names:
            found[key] = PresentResource(_whole(one), one.file, one.content)
    return PresentNetwork(found, _folders(variables.of_fleet(hosts, RESOURCES), task_vars), given)


def _in_force(
    task_vars: t.Mapping[str, t.Any],
    merged: Merged,
    kinds: t.Container[str],
    listed: t.Mapping[ResourceKey, _Listed],
) -> t.Iterator[t.Mapping[str, t.Any]]:
    """Yield the documents of resources in force, without those of kinds that are not in `kinds`.

    The fleet is planned only for kinds whose documents follow from its plan. If that fails, resources in lists are in
    force as they are written: the change may be what makes the inventory valid, such as its first pool. Settings have
    fields that no document and no list has, so a FleetError is raised for their kinds.
    """
    wanted = {kind for kind in resources.KINDS if kind in kinds}
    if not _AS_WRITTEN.issuperset(wanted):
        try:
            fleet = inventory_fleet.planned_from(merged, task_vars).fleet
        except FleetError:
            if wanted.intersection(SETTINGS):
                raise
        else:
            for kind, documents in inventory_resources.resources(fleet, merged).items():
                if kind in kinds:
                    yield from documents
            return
    for key, one in listed.items():
        if key.kind in kinds and one.document is not None:
            yield one.document


def _key(document: Document) -> t.Optional[ResourceKey]:
    """Return the key of the resource in a document of a file, as `key_in` does."""
    try:
        return key_of(document.resource)
    except resources.ResourceError:
        return key_in(document.content)


def _whole(document: Document) -> t.Mapping[str, t.Any]:
    """Return the content of a document with all defaults, or as it is if it is invalid."""
    try:
        return document.resource.to_document()
    except resources.ResourceError:
        return t.cast("t.Mapping[str, t.Any]", document.content)


def _otherwise(key: ResourceKey) -> str:
    """Return what has a resource that no file and no list has by its name: variables, or "" for a default."""
    return "" if key.kind in SETTINGS or key.kind in KINDS else _OTHERS


def _listed(hosts: t.Sequence[Host]) -> dict[ResourceKey, _Listed]:
    """Return the resources in lists of variables, and the pools in documents of the kind Installation.

    Other documents of files, which are in the lists too, are left out.
    """
    owners: dict[tuple[str, int], list[Host]] = {}  # the hosts that have one and the same list in a variable
    for host in hosts:
        for variable, entries in host.variables.items():
            is_list = variable == _RESERVATIONS or variable.startswith(tuple(_LISTS))
            if is_list and isinstance(entries, (list, tuple)):
                owners.setdefault((variable, id(entries)), []).append(host)
    found: dict[ResourceKey, _Listed] = {}
    nodes: dict[ResourceKey, int] = {}
    for (variable, dummy), having in owners.items():
        for key, one in _of_list(variable, having[0]):
            first = found.setdefault(key, one)
            nodes[key] = nodes.get(key, 0) + len(having)
            if _places(first) != _places(one):
                found[key] = first._replace(pinned=f"it also stands in {one.place}. Keep one of the two")
            elif nodes[key] > 1 and variable not in _OF_FLEET and key.kind in _OF_NODES and not first.pinned:
                found[key] = first._replace(pinned=_OF_ALL)
    return found


def _places(listed: _Listed) -> list[tuple[str, int]]:
    return [(entry.file, entry.line) for entry in listed.entries]


def _kind_in(variable: str) -> str:
    return next(kind for prefix, kind in _LISTS.items() if variable.startswith(prefix))


def _of_list(variable: str, host: Host) -> t.Iterator[tuple[ResourceKey, _Listed]]:
    """Yield the resources in a list of a host's variables."""
    entries = host.variables[variable]
    if variable == _RESERVATIONS:
        own = [index for index in range(len(entries)) if f"{variable}[{index}]" not in host.documents]
        if own:
            parts = tuple(_entry(variable, index, host) for index in own)
            yield _RESERVATION_KEY, _Listed(_place(variable, host), entries=parts, pinned=_pinned(parts))
        return
    kind = _kind_in(variable)
    for index, content in enumerate(entries):
        label = f"{variable}[{index}]"
        key, document = _read(kind, content)
        if label in host.documents:
            of = host.documents[label]
            if key is not None and of.field:
                yield (
                    key,
                    _Listed(
                        f"{of.who} ({shown_path(of.place())})",
                        document,
                        pinned=f"it is no entry of a variable. {_BY_HAND}",
                    ),
                )
        elif key is not None:
            parts = (_entry(variable, index, host),)
            yield key, _Listed(_place(label, host), document, parts, _pinned(parts))
        elif kind == "BGPPeer" and isinstance(content, t.Mapping):
            name = inventory_resources.name_of_place(f"{label} of {host.name}" if variable == NODE_LIST else label)
            pinned = "it has no name there, and is called after its place. Write name: into it first"
            yield ResourceKey(kind, "", name), _Listed(_place(label, host), pinned=pinned)


def _entry(variable: str, index: int, host: Host) -> VariableEntry:
    """Return an entry of a list, or WHOLE the variable, with the file and line that Ansible knows."""
    label = variable if index == WHOLE else f"{variable}[{index}]"
    file, dummy, line = origin(label, [host]).rpartition(":")
    value = host.variables[variable] if index == WHOLE else host.variables[variable][index]
    if line.isdecimal():
        return VariableEntry(variable, index, value, file, int(line))
    return VariableEntry(variable, index, value, f"{file}:{line}" if file else line)


def _fields(
    key: ResourceKey, document: t.Mapping[str, t.Any], hosts: t.Sequence[Host], names: t.Container[str]
) -> tuple[VariableField, ...]:
    """Return the fields that variables of hosts have of settings with one of the names, () for any other resource.

    `document` is the resource in force, whose labels are texts.
    """
    if key.kind not in SETTINGS or key.name not in names:
        return ()
    node = key.name if key.kind == "Node" else key.name.removeprefix(OF_NODE) if key.name != DEFAULT else ""
    found = []
    for field in fields_of(key.kind, bool(node)):
        having = [host for host in hosts if host.variables.get(field.variable) is not None]
        own = [host for host in having if node in ("", host.name)]
        if own:
            entry = _entry(field.variable, WHOLE, own[0])
            places = {origin(field.variable, [host]) for host in own}
            pinned = _pinned([entry])
            if len(places) > 1:
                pinned = f"it stands in {' and in '.join(sorted(map(shown_path, places)))}. Keep one of them"
            elif node and any(origin(field.variable, [host]) in places for host in having if host.name != node):
                pinned = f"other nodes have it from there, too. {_BY_HAND}"
            value = field.to_field(entry.value)
            if field.path == "metadata.labels":
                labels = document["metadata"].get("labels", {})
                value = {name: labels[name] for name in map(str, value) if name in labels}
            found.append(VariableField(field.path, value, entry, _place(field.variable, own[0]), pinned))
    return tuple(found)


def _pinned(entries: t.Sequence[VariableEntry]) -> str:
    """Return why entries cannot be moved: "" if their file is known, and is none that a program stands for."""
    if all(os.path.isfile(entry.file) for entry in entries):
        return ""
    return f"Ansible does not know a file that has it as text. {_BY_HAND}"


def _read(kind: str, entry: t.Any) -> tuple[t.Optional[ResourceKey], t.Optional[t.Mapping[str, t.Any]]]:
    """Return what identifies an entry of a list and its whole document, None for what cannot be read alone."""
    if not isinstance(entry, t.Mapping):
        return None, None
    try:
        made = resources.parse_flat(kind or str(entry.get("kind")), entry)
    except resources.ResourceError:
        name = next((name for name in values_of(entry, "metadata", "name") if isinstance(name, str)), None)
        return (ResourceKey(kind, "", name) if kind and name else None), None
    return key_of(made), made.to_document()


def _place(label: str, host: Host) -> str:
    known = origin(label, [host])
    return f"{label} ({shown_path(known)})" if known else label


def _folders(names: t.Any, task_vars: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    base = str(task_vars.get("inventory_dir") or os.getcwd())
    paths = (os.path.normpath(os.path.join(base, os.path.expanduser(name))) for name in names or ())
    return tuple(path for path in paths if os.path.isdir(path))
