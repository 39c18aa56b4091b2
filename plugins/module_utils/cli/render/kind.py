# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a resource kind for `get`: its names, its columns, and the source of its documents."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.release import API_VERSION
from ...state.fleet_list import FleetList

if t.TYPE_CHECKING:
    from ...state.attachment import AttachedWorkload
    from ...state.node_state import NodeState

Document = dict[str, t.Any]


class View(t.NamedTuple):
    """The sources of documents, as functions: a node's state, workloads outside the inventory, and all nodes."""

    state: t.Callable[[], NodeState]
    workloads: t.Callable[[], t.Sequence[AttachedWorkload]] = tuple
    fleet_list: t.Callable[[], FleetList] = FleetList


class HasAsNumber(t.Protocol):
    """The source of documents as cells of tables see it: the AS number of the fleet, None without BGP."""

    @property
    def as_number(self) -> t.Optional[int]: ...


Cell = t.Callable[[Document, HasAsNumber], str]


class ResourceSource(HasAsNumber, t.Protocol):
    """The owner of resources: a node, a fleet or an inventory."""

    def documents(self, kind: Kind) -> list[Document]:
        """Return all resources of a kind."""


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """A resource kind. `names` are all names that the user may write; the first one is the plural.

    `columns` is {heading: cell}, in the order of the wide table; `short` are the headings of the default one, and
    `custom` those that only custom-columns shows. `variable` names the inventory's variables.
    """

    name: str
    names: tuple[str, ...]
    columns: t.Mapping[str, Cell]
    short: tuple[str, ...]
    documents: t.Callable[[View], list[Document]]
    variable: str
    namespaced: bool = False
    custom: tuple[str, ...] = ()

    @property
    def wide(self) -> tuple[str, ...]:
        return tuple(heading for heading in self.columns if heading not in self.custom)

    @property
    def singular(self) -> str:
        """The kind as a word of the command line, such as ippool."""
        return self.name.lower()


def spec_field(*path: str, default: str = "") -> Cell:
    def cell(document: Document, dummy: HasAsNumber) -> str:
        value: t.Any = document["spec"]
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return default
        return str(value).lower() if isinstance(value, bool) else str(value)

    return cell


def name_of(document: Document, dummy: t.Optional[HasAsNumber] = None) -> str:
    return str(document["metadata"]["name"])


def namespace_of(document: Document, dummy: t.Optional[HasAsNumber] = None) -> str:
    return str(document["metadata"].get("namespace", ""))


def exported(document: Document, fields: t.Collection[str] = ("resourceVersion",)) -> Document:
    """Return a document without `fields` of its metadata: those by which it belongs to this network alone."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in fields}
    return {**document, "metadata": metadata}


def spec_count(key: str) -> Cell:
    return lambda document, dummy: str(len(document["spec"].get(key) or ()))


def spec_list(key: str, limit: int = 80) -> Cell:
    def cell(document: Document, dummy: HasAsNumber) -> str:
        text = ",".join(document["spec"].get(key, ()))
        return text if len(text) <= limit else f"{text[: limit - 3]}..."

    return cell


def document_of(kind: str, metadata: Document, spec: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
