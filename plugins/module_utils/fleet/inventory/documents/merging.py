# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of files become variables: whatever reads variables behind this border need not know of documents.

A pool, peer or filter is one more entry of the fleet's list of them. A reservation gives the list its ranges. A field
of a kind of settings is the value of the variable that has its meaning. Policy resources stay documents.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ....bgp import peer_extensions
from ....policy.documents import from_resources
from ....resources import api as resources
from ....resources.errors import Refused
from ....resources.setting_fields import DEFAULT, OF_NODE, SettingField, fields_of, value_at
from ....state.errors import FleetError, did_you_mean, shown
from ....state.policy_state import allow_all
from ...host import Host, WrittenResource, origin
from .. import policy_sources
from ..flat_resource import values_of
from ..policy_sources import Document
from . import without_effect
from .installation import OPERATOR, installation
from .without_effect import WithoutEffect

#: {kind of a resource that is an entry of a list: (the fleet's list, prefixes of all variables with such lists)}
_LISTS = {
    "IPPool": ("calico_ip_pools", ("calico_ip_pools",)),
    "BGPPeer": ("calico_bgp_peers", ("calico_bgp_peers", "calico_node_bgp_peers")),
    "BGPFilter": ("calico_bgp_filters", ("calico_bgp_filters",)),
}
_RESERVATIONS = "calico_ip_reservations"
#: The name of the IPReservation that stands for the ranges of _RESERVATIONS in the variables.
OWN_RESERVATION = "calico-ip-reservations"
#: The kinds of settings. Each has names of its own: `default`, and node.NAME or, for a Node, that of the node.
_SETTINGS = ("BGPConfiguration", "FelixConfiguration", "IPAMConfiguration", "Node")
KINDS = (*_LISTS, "IPReservation", *_SETTINGS, *policy_sources.KINDS)
#: The annotations that kubectl and Calico's server write.
_OF_SERVERS = ("kubectl.kubernetes.io/last-applied-configuration", "projectcalico.org/metadata")
_PARTS = ("apiVersion", "kind", "metadata", "spec", "status")
_KEEP_ONE = "Keep one of the two."


class Merged(t.NamedTuple):
    """The result of `merged`.

    `hosts` have the variables that documents mean, `policies` are the documents of policy resources, `reservations` the
    IPReservations as whole documents. `errors` are about documents that were left out of both. `without_effect` are
    parts of documents that mean nothing here. `files` are the documents of all files that a reader has read for this.
    """

    hosts: t.Sequence[Host]
    policies: tuple[Document, ...]
    reservations: tuple[t.Mapping[str, t.Any], ...] = ()
    errors: tuple[FleetError, ...] = ()
    without_effect: tuple[WithoutEffect, ...] = ()
    files: tuple[Document, ...] = ()


def merged(hosts: t.Sequence[Host], documents: t.Sequence[Document], policies: t.Sequence[Document] = ()) -> Merged:
    """Return the hosts with the variables that `documents` mean, and the policy resources among them and `policies`.

    Variables are not checked, and documents only as far as their place requires: a resource, or a field of a kind of
    settings, that stands in two places is an error with both. Errors have file and line.
    """
    if not documents:
        return Merged(hosts, tuple(one for one in policies if not _is_built_in(one.content)))
    merging = _Merging(hosts)
    for document in documents:
        try:
            merging.add(document)
        except FleetError as error:
            merging.errors.append(error)
    return Merged(
        merging.hosts(),
        tuple(one for one in (*merging.policies, *policies) if not _is_built_in(one.content)),
        tuple(merging.reservations),
        tuple(merging.errors),
        tuple(merging.ignored),
    )


def _is_built_in(content: t.Any) -> bool:
    """Return whether a document is the profile that is always there, as Calico prints it."""
    if not isinstance(content, t.Mapping) or content.get("kind") != "Profile":
        return False
    if value_at(content, "metadata.name") != allow_all().name:
        return False
    try:
        return from_resources.profile(t.cast(resources.Profile, resources.parse(content))) == allow_all()
    except resources.ResourceError:
        return False


class _Entry(t.NamedTuple):
    content: t.Any
    written: WrittenResource


class _Value(t.NamedTuple):
    value: t.Any
    written: WrittenResource


class _Merging:
    """The collection of what documents mean, and its union with the variables of hosts."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self.policies: list[Document] = []
        self.reservations: list[t.Mapping[str, t.Any]] = []
        self.errors: list[FleetError] = []
        self.ignored: list[WithoutEffect] = []
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts}
        self._seen: dict[tuple[str, str], WrittenResource] = {}
        self._entries: dict[str, list[_Entry]] = {}
        self._values: dict[tuple[str, str], _Value] = {}  # (variable, node or "")
        self._named: t.Optional[dict[tuple[str, str], str]] = None

    # --- documents ---

    def add(self, document: Document) -> None:
        """Add what a document means. Raise FleetError if it is refused; then nothing of it counts."""
        content = document.content
        if not isinstance(content, t.Mapping):
            # A document without fields may be any text, such as a password: its content is not shown.
            where = WrittenResource("document", document.file, document.line)
            raise _refusal(where, "", None, "is not a dictionary.", "Write the fields of one resource there.")
        kind, name = content.get("kind"), value_at(content, "metadata.name")
        who = f"{kind} {name}" if isinstance(name, str) and name else str(kind or "document")
        written = WrittenResource(who, document.file, document.line)
        if kind in policy_sources.KINDS:
            self.policies.append(document)
        elif isinstance(content.get("apiVersion"), str) and content["apiVersion"].startswith(OPERATOR):
            self._operator(content, written)
        elif isinstance(kind, str) and kind in _LISTS:
            _check_whole(content, written)
            _check_keys(content, "", written)
            plain = _peer(_plain(content), written) if kind == "BGPPeer" else _plain(content)
            self._add_entry(kind, str(name), _Entry(plain, written))
        elif kind == "IPReservation":
            self._reservation(content, written)
        elif kind in _SETTINGS:
            self._settings(content, written)
        elif isinstance(kind, str) and kind in without_effect.KINDS:
            self.ignored.append(WithoutEffect(written, without_effect.KINDS[kind]))
        else:
            raise _unknown(kind, written)

    def _add_entry(self, kind: str, name: str, entry: _Entry) -> None:
        self._check_once(kind, name, entry.written)
        self._entries.setdefault(_LISTS[kind][0], []).append(entry)

    def _reservation(self, content: t.Mapping[str, t.Any], written: WrittenResource) -> None:
        resource = t.cast(resources.IPReservation, _parsed(content, written))
        self._check_once("IPReservation", resource.name, written)
        self.reservations.append(resource.to_document())
        self._entries.setdefault(_RESERVATIONS, []).extend(
            _Entry(cidr, written._replace(field=f"spec.reservedCIDRs[{index}]"))
            for index, cidr in enumerate(resource.reservedCIDRs)
        )

    def _check_once(self, kind: str, name: str, written: WrittenResource) -> None:
        """Raise FleetError if a document or a variable has a resource of this kind and name already."""
        other = self._seen.get((kind, name))
        place = other.place("metadata.name") if other is not None else self._in_variables().get((kind, name))
        if place is not None:
            raise _refusal(written, "metadata.name", name, f"stands in two places: also in {place}.", _KEEP_ONE)
        self._seen[kind, name] = written

    def _in_variables(self) -> t.Mapping[tuple[str, str], str]:
        """Return the place of each named resource in the variables of hosts, by kind and name."""
        if self._named is None:
            self._named = {}
            known: set[int] = set()
            for host in self._hosts:
                for variable, entries in host.variables.items():
                    kind = next((kind for kind, (_list, of) in _LISTS.items() if variable.startswith(of)), "")
                    if not isinstance(entries, (list, tuple)) or id(entries) in known:
                        continue
                    known.add(id(entries))
                    if variable == _RESERVATIONS and entries:
                        self._named["IPReservation", OWN_RESERVATION] = self._place(variable, host)
                    for index, entry in enumerate(entries if kind else ()):
                        for name in values_of(entry, "metadata", "name"):
                            label = f"{variable}[{index}]"
                            self._named.setdefault((kind, str(name)), self._place(label, host))
        return self._named

    def _place(self, label: str, host: Host) -> str:
        """Return how errors say where a variable of the host is written."""
        known = origin(label, [host])
        return f"{label} ({known})" if known else label

    # --- settings ---

    def _settings(self, content: t.Mapping[str, t.Any], written: WrittenResource) -> None:
        kind, resource = str(content["kind"]), _parsed(content, written)
        node = _node_of(resource)
        if node is None and resource.name != DEFAULT:
            self.ignored.append(WithoutEffect(written, f"has a name other than {DEFAULT} and {OF_NODE}NAME."))
            return
        if node is not None and node not in self._by_name:
            self.ignored.append(WithoutEffect(written, "is for a node that is no host of calico_nodes or calico_rr."))
            return
        plain = resource.to_document()
        found = fields_of(kind, node is not None)
        values = list(self._new_values(found, content, plain, node or "", written))
        rest = without_effect.fields(kind, content, {one.path for one in found}, written)
        for key, value in values:
            self._values[key] = value
        if rest is not None:
            self.ignored.append(rest)

    def _new_values(
        self,
        fields: t.Iterable[SettingField],
        content: t.Mapping[str, t.Any],
        plain: t.Mapping[str, t.Any],
        node: str,
        written: WrittenResource,
    ) -> t.Iterator[tuple[tuple[str, str], _Value]]:
        """Yield the variables that a document of settings sets, each by its name and node ("" for the fleet).

        `plain` is the document as it is read. Raise FleetError if a field stands in two places.
        """
        new: dict[tuple[str, str], _Value] = {}
        for field in fields:
            if value_at(content, field.path) is None:
                continue
            try:
                value = field.to_variable(value_at(plain, field.path))
            except Refused as refused:
                raise _refusal(written, field.path, refused.value, refused.rule, refused.remedy) from None
            if value is None or (field.path == "metadata.labels" and not value):
                continue
            key, made = (field.variable, node), _Value(value, written._replace(field=field.path))
            self._check_value(key, made, new)
            if key not in new:
                new[key] = made
                yield key, made

    def _check_value(self, key: tuple[str, str], made: _Value, own: t.Mapping[tuple[str, str], _Value]) -> None:
        """Raise FleetError if another place sets the variable. `own` are the values of the same document so far."""
        variable, node = key
        path = made.written.field
        for other in filter(None, (own.get(key), self._values.get(key))):
            if other.written.field == path:
                rule = f"stands in two places: also in {other.written.place()}."
                raise _refusal(made.written, "", None, rule, _KEEP_ONE)
            if other.value != made.value:
                rule = f"means {variable} {made.value}, but {other.written.field} in {other.written.place()} means "
                raise _refusal(made.written, "", None, f"{rule}{other.value}.", "Make them agree, or keep one.")
        for host in [self._by_name[node]] if node else self._hosts:
            if variable in host.variables and not (node and host.variables[variable] is None):
                label = f"{variable} of {node}" if node else variable
                rule = f"stands in two places: also in {self._place(label, host)}."
                raise _refusal(made.written, "", None, rule, _KEEP_ONE)

    # --- the operator's ---

    def _operator(self, content: t.Mapping[str, t.Any], written: WrittenResource) -> None:
        if content.get("kind") != "Installation":
            self.ignored.append(WithoutEffect(written, "is for Calico's operator, which is not here."))
            return
        try:
            found = installation(content)
        except Refused as refused:
            raise _refusal(written, refused.field, refused.value, refused.rule, refused.remedy) from None
        values = {
            (variable, ""): _Value(value, written._replace(field=path))
            for variable, (path, value) in found.values.items()
        }
        for key, value in values.items():
            self._check_value(key, value, {})
        for pool in found.pools:
            self._check_once("IPPool", pool.name, written._replace(field=pool.path))
        self._entries.setdefault(_LISTS["IPPool"][0], []).extend(
            _Entry(pool.entry, written._replace(field=pool.path)) for pool in found.pools
        )
        self._values.update(values)
        if found.without_effect:
            self.ignored.append(without_effect.named(written, found.without_effect))

    # --- the union ---

    def hosts(self) -> list[Host]:
        """Return the hosts with all variables. A list that hosts share is extended once, and shared again."""
        documents = {
            f"{variable} of {node}" if node else variable: value.written
            for (variable, node), value in self._values.items()
        }
        extended: dict[tuple[str, int], t.Any] = {}
        held: list[t.Any] = []  # keeps lists alive, so that no other one gets their id
        of_fleet = {variable: value.value for (variable, node), value in self._values.items() if not node}
        of_nodes: dict[str, dict[str, t.Any]] = {}
        for (variable, node), value in self._values.items():
            if node:
                of_nodes.setdefault(node, {})[variable] = value.value
        for variable, entries in self._entries.items():
            lists = [host.variables[variable] for host in self._hosts if variable in host.variables]
            first = lists[0] if lists else []
            for index, entry in enumerate(entries, len(first) if isinstance(first, (list, tuple)) else 0):
                documents[f"{variable}[{index}]"] = entry.written
        alone = {variable: [entry.content for entry in entries] for variable, entries in self._entries.items()}
        found = []
        for host in self._hosts:
            own = {**host.variables, **of_fleet, **of_nodes.get(host.name, {})}
            for variable, contents in alone.items():
                given = host.variables.get(variable)
                if variable not in host.variables:
                    own[variable] = contents
                elif isinstance(given, (list, tuple)):
                    key = variable, id(given)
                    if key not in extended:
                        held.append(given)
                        extended[key] = [*given, *contents]
                    own[variable] = extended[key]
            found.append(dataclasses.replace(host, variables=own, documents=documents))
        return found


def _node_of(resource: resources.Resource) -> t.Optional[str]:
    """Return the name of the node that settings are for, None for those of the fleet."""
    if resource.KIND == "Node":
        return resource.name
    return resource.name[len(OF_NODE) :] if resource.name.startswith(OF_NODE) else None


def _check_whole(content: t.Mapping[str, t.Any], written: WrittenResource) -> None:
    """Raise FleetError for a field beside metadata and spec: variables may have the flat form, and files may not."""
    for name in content:
        if name not in _PARTS:
            remedy = "Write name, labels and annotations into metadata, and all other fields into spec."
            raise _refusal(written, str(name), None, "is not a part of a document.", remedy)


def _check_keys(value: t.Any, path: str, written: WrittenResource) -> None:
    """Raise FleetError for a key in `value`, which is at `path`, that JSON does not know, such as a date."""
    if isinstance(value, t.Mapping):
        for key, inner in value.items():
            if not (key is None or isinstance(key, (str, int, float))):
                rule = f"has the key {shown(str(key))}, which is neither text nor a number."
                raise _refusal(written, path, None, rule, "Write the key in quotes.")
            _check_keys(inner, f"{path}.{key}" if path else str(key), written)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_keys(item, f"{path}[{index}]", written)


def _plain(content: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a document without what servers write, and in any case with metadata: it is not in the flat form."""
    metadata = content.get("metadata")
    if isinstance(metadata, t.Mapping):
        annotations = metadata.get("annotations")
        if isinstance(annotations, t.Mapping):
            own = {name: text for name, text in annotations.items() if name not in _OF_SERVERS}
            metadata = {**metadata, "annotations": own or None}
    return {**content, "metadata": {} if metadata is None else metadata}


def _peer(content: t.Mapping[str, t.Any], written: WrittenResource) -> dict[str, t.Any]:
    """Return the document of a BGPPeer with the fields that its annotations stand for."""
    try:
        return peer_extensions.without_annotations(content)
    except Refused as refused:
        raise _refusal(written, refused.field, refused.value, refused.rule, refused.remedy) from None


def _parsed(content: t.Mapping[str, t.Any], written: WrittenResource) -> resources.Resource:
    try:
        return resources.parse(_plain(content))
    except resources.ResourceError as error:
        raise _refusal(written, error.field, error.value, error.rule, error.remedy) from error


def _refusal(written: WrittenResource, inside: str, value: t.Any, rule: str, remedy: str) -> FleetError:
    """Return, not raise, the error about the path `inside` of a document; "" is the field that `written` names."""
    path = inside or written.field
    line = written.line(path)
    place = f"{written.file}:{line}" if line else written.file
    return FleetError(f"{written.who}: {path}" if path else written.who, value, rule, remedy, place)


def _unknown(kind: t.Any, written: WrittenResource) -> FleetError:
    if kind is None:
        return _refusal(written, "kind", None, "is missing.", f"Write one of {', '.join(KINDS)}.")
    if kind == "WorkloadEndpoint":
        remedy = "Write the workload into calico_workloads or calico_node_workloads, with its name, labels and node."
        return _refusal(written, "kind", kind, "is not taken from a file.", remedy)
    try:
        resources.parse({"kind": kind})
    except resources.ResourceError as error:
        if error.field == "kind" and "Known are" not in error.remedy:
            return _refusal(written, "kind", kind, error.rule, error.remedy)
    remedy = did_you_mean(str(kind), KINDS, "Write")
    return _refusal(written, "kind", kind, "is not a kind of resource that is known here.", remedy)
