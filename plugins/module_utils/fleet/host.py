# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of the inventory, and the files and lines in which its variables are set."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..state.errors import FleetError

#: A variable of the fleet, and an index and a path of fields in it, whose names may have any characters.
_PATH = re.compile(r"(calico_\w*\w)(\[\d+\])?((?:[.\[].*)?)", re.DOTALL)
#: What a sentence may say about one: the host whose variable it is may follow.
_MENTION = re.compile(r"(calico_\w*\w)(\[\d+\])?((?:\.\w+|\[\d+\])*)(?: of ([\w.-]*\w))?")
#: The fields of metadata that the flat form of a resource has.
_METADATA = ("name", "namespace", "labels", "annotations")


class WrittenResource(t.NamedTuple):
    """The place in a document of a file that gives a variable, or an entry of a list in it, its value.

    `who` names the resource ("IPPool a"). `field` is the path of the value in the document, "" for a whole document.
    `line` returns the line of a path in the document, None if it is unknown.
    """

    who: str
    file: str
    line: t.Callable[[str], t.Optional[int]]
    field: str = ""

    def path(self, inside: str) -> str:
        """Return where the document has what the variable has at the path `inside`; "" is its whole value."""
        inside = inside.removeprefix(".")
        if not self.field and inside:
            first = re.split(r"[.\[]", inside)[0]
            if first in _METADATA:
                return f"metadata.{inside}"
            return inside if first in ("metadata", "spec", "kind", "apiVersion", "status") else f"spec.{inside}"
        return f"{self.field}{'.' if inside and not inside.startswith('[') else ''}{inside}"

    def place(self, inside: str = "") -> str:
        """Return the file and line of a path in the value."""
        line = self.line(self.path(inside))
        return f"{self.file}:{line}" if line else self.file


@dataclasses.dataclass(frozen=True)
class Host:
    """A host as the inventory gives it.

    `workload_node` and `reflector` say whether it is in the groups calico_nodes and calico_rr. `origins` maps variables
    and fields in them (`calico_ip_pools[0].cidr`) to the file and line in which they are written. `ssh_port` is the
    port of Ansible's connection, None for the default. `groups` are all groups that it is in. `documents` maps entries
    and values of all hosts' variables (`calico_ip_pools[1]`, `calico_node_labels of node1`) to the documents of files
    that have them; it is the same for all hosts.
    """

    name: str
    variables: t.Mapping[str, t.Any]
    workload_node: bool = True
    reflector: bool = False
    origins: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ssh_port: t.Optional[int] = None
    groups: tuple[str, ...] = ()
    documents: t.Mapping[str, WrittenResource] = dataclasses.field(default_factory=dict)

    def has_place_of(self, entry: str) -> bool:
        """Return whether it is known where the entry of a list (`calico_ip_pools[0]`) is written."""
        return entry in self.origins or entry in self.documents


def origin(variable: str, hosts: t.Sequence[Host]) -> str:
    """Return the file and line of the field that an error names, or of the closest entry around it; "" if unknown.

    `variable` is the name in the error: `calico_ip_pools[0].cidr`, or `calico_node_address of node1`, which looks at
    that host only. If several hosts have a place for that field or entry, the first one determines the result.
    """
    found = _written(variable, hosts)
    if found is not None:
        return found[0].place(found[1])
    path, dummy, owner = variable.partition(" of ")
    while path:
        for host in hosts:
            if path in host.origins and owner in ("", host.name):
                return host.origins[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ""


def locate(error: FleetError, hosts: t.Sequence[Host]) -> None:
    """Give an error the file and line of what it is about, if it has none, and the names of resources in documents.

    A variable of `hosts` whose value a document gives is called by the resource and its field.
    """
    error.origin = error.origin or origin(error.variable, hosts)
    found = _written(error.variable, hosts)
    if found is not None:
        path = found[0].path(found[1])
        error.variable = f"{found[0].who}: {path}" if path else found[0].who
    error.rule, error.remedy = with_resources(error.rule, hosts), with_resources(error.remedy, hosts)


def with_resources(text: str, hosts: t.Sequence[Host]) -> str:
    """Return a sentence with the names of resources for those of variables whose values are those of documents."""
    if not hosts or not hosts[0].documents:
        return text

    def name(mention: re.Match[str]) -> str:
        owner = mention.group(4)
        for variable, behind in ((mention.group(0), ""), (mention.group(0).partition(" of ")[0], f" of {owner}")):
            found = _written(variable, hosts)
            if found is not None and (owner or not behind):
                path = found[0].path(found[1])
                whose = f"{path} of {found[0].who}" if path else found[0].who
                return f"{whose} ({found[0].place(found[1])}){behind}"
        return mention.group(0)

    return _MENTION.sub(name, text)


def _written(variable: str, hosts: t.Sequence[Host]) -> t.Optional[tuple[WrittenResource, str]]:
    """Return the document's place that has the value of a variable, and the path in the value; None if none has it.

    `variable` is the name in an error: `calico_ip_pools[0].cidr`, `calico_node_labels.rack of node1`.
    """
    if not hosts or not hosts[0].documents:
        return None
    path, dummy, owner = variable.partition(" of ")
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    name, index, fields = found.group(1), found.group(2) or "", found.group(3)
    end = f" of {owner}" if owner else ""
    entry = hosts[0].documents.get(f"{name}{index}{end}")
    if entry is not None:
        return entry, fields
    value = hosts[0].documents.get(f"{name}{end}")
    return None if value is None else (value, f"{index}{fields}")
