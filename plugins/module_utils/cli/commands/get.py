# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get KIND [NAME...]`: the node's state, and workloads added since, as Calico's resources."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
import typing as t

from ...base.release import API_VERSION
from ..errors import DONE, PROBLEMS, CommandError, UsageError
from ..render import kinds, tables
from ..render.kind import Cell, Document, HasAsNumber, Kind, View, name_of
from ..sources import Sources

DEFAULT_NAMESPACE = "default"


class WantedResources(t.NamedTuple):
    """Resources to show: those of a kind, in a namespace (None: in any), and only with `names` if there are any."""

    kind: Kind
    names: tuple[str, ...] = ()
    namespace: t.Optional[str] = None


class ResourceSource(HasAsNumber, t.Protocol):
    """The owner of resources, a node or an inventory."""

    def documents(self, kind: Kind) -> list[Document]:
        """Return all resources of a kind."""


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    wanted = _of_files(arguments) if arguments.filename else [_of_words(arguments)]
    if arguments.output == "wide" and not arguments.inventory:
        wanted = [one._replace(kind=_with_heartbeats(one.kind, sources)) for one in wanted]
    write = writer(arguments.output, {one.kind: None for one in wanted})
    source: ResourceSource
    if arguments.inventory:
        from . import inventory_resources

        source = inventory_resources.ask(arguments.inventory, arguments.vault_password_file)
    else:
        source = _NodeSource(sources)
    found: list[tuple[Kind, list[Document]]] = []
    missing: list[tuple[Kind, str]] = []
    for one in wanted:
        documents = _selected(source.documents(one.kind), one)
        lacking = [name for name in one.names if not any(_is_called(document, name) for document in documents)]
        missing += [(one.kind, name) for name in lacking]
        if one.names:
            documents = [document for document in documents if any(_is_called(document, name) for name in one.names)]
        if documents or not lacking:
            found.append((one.kind, documents))
    if found:
        sys.stdout.write(write(found, source, arguments))
    for kind, name in missing:
        sys.stderr.write(f"resource does not exist: {kind.name}({name}). `calicoctl get {kind.names[0]}` lists all.\n")
    return PROBLEMS if missing else DONE


def _with_heartbeats(kind: Kind, sources: Sources) -> Kind:
    """Return the kind Node with columns of all nodes' heartbeats, if this node's datastore answers; else the kind."""
    found = sources.heartbeats() if kind.name == "Node" else None
    if found is None:
        return kind
    from ..render import heartbeat_cells

    now, known = time.time(), found

    def column(index: int) -> Cell:
        return lambda document, dummy: heartbeat_cells.cells(known.get(name_of(document)), now)[index]

    live = {heading: column(index) for index, heading in enumerate(heartbeat_cells.HEADINGS)}
    return dataclasses.replace(kind, columns={**kind.columns, **live})


class _NodeSource:
    """The resources of the node that calicoctl runs on."""

    def __init__(self, sources: Sources) -> None:
        self._view = View(
            functools.cache(sources.state), functools.cache(sources.workloads), functools.cache(sources.fleet_list)
        )

    @property
    def as_number(self) -> t.Optional[int]:
        return self._view.fleet_list().as_number

    def documents(self, kind: Kind) -> list[Document]:
        try:
            return kind.documents(self._view)
        except CommandError:
            raise
        except _resource_error() as error:
            raise CommandError(f"state.json has a {kind.name} that this release does not know: {error}") from error


def _resource_error() -> type[Exception]:
    """Return the class ResourceError, whose module `get nodes` does not need."""
    from ...resources.errors import ResourceError

    return ResourceError


def _of_words(arguments: argparse.Namespace) -> WantedResources:
    if arguments.kind is None:
        raise UsageError("say what to get: a KIND such as ippools, or -f FILE for the resources that a file names.")
    kind = kinds.find(arguments.kind)
    _check(arguments, kind)
    namespace = None
    if kind.namespaced and not arguments.all_namespaces:
        namespace = arguments.namespace or DEFAULT_NAMESPACE
    return WantedResources(kind, tuple(dict.fromkeys(arguments.names)), namespace)


def _of_files(arguments: argparse.Namespace) -> list[WantedResources]:
    """Return the resources that the documents of the files name, as far as kinds and names are known."""
    from ..render import named_files
    from ..render.document_text import NotReadable, documents_of

    if arguments.kind is not None:
        raise UsageError("say what to get once: a KIND, or -f FILE for the resources that a file names.")
    wanted = []
    for path in named_files.paths(arguments.filename, arguments.recursive):
        name = "<stdin>" if path == "-" else path
        try:
            documents = [document for document, dummy in documents_of(named_files.read(path), name)]
        except NotReadable as error:
            raise CommandError(f"{name}:{error.line}: {error}" if error.line else f"{name}: {error}") from error
        wanted += [_named(document, name, arguments) for document in documents]
    if not wanted:
        files = ", ".join(arguments.filename)
        raise CommandError(f"{files} has no document. Write apiVersion, kind, metadata and spec.")
    return wanted


def _named(document: t.Any, file: str, arguments: argparse.Namespace) -> WantedResources:
    known = document if isinstance(document, dict) else {}
    word, metadata = known.get("kind"), known.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = metadata.get("name")
    if not isinstance(word, str) or not isinstance(name, str):
        raise CommandError(f"{file}: a document has no kind or no metadata.name. Write both.")
    try:
        kind = kinds.find(word)
    except UsageError as error:
        raise CommandError(f"{file}: {error}") from error
    namespace = None
    if kind.namespaced:
        namespace = str(metadata.get("namespace") or arguments.namespace or DEFAULT_NAMESPACE)
    return WantedResources(kind, (name,), namespace)


def _check(arguments: argparse.Namespace, kind: Kind) -> None:
    if arguments.namespace and arguments.all_namespaces:
        raise UsageError("cannot use both --namespace and --all-namespaces flags at the same time")
    if arguments.namespace and not kind.namespaced:
        raise UsageError(
            f"namespace should not be specified for a non-namespaced resource. {kind.name} is not a namespaced resource"
        )


def _selected(documents: list[Document], wanted: WantedResources) -> list[Document]:
    if wanted.namespace is None:
        return documents
    return [document for document in documents if document["metadata"]["namespace"] == wanted.namespace]


def _is_called(document: Document, name: str) -> bool:
    return name in (document["metadata"]["name"], document["spec"].get("workload"))


Found = list[tuple[Kind, list[Document]]]
Writer = t.Callable[[Found, HasAsNumber, argparse.Namespace], str]


def writer(output: str, wanted: t.Iterable[Kind]) -> Writer:
    """Return the function (found, source, arguments) -> text that formats resources by `output`, the word after -o.

    Raise UsageError for an unknown word, and for no custom column or one that a kind of `wanted` does not have.
    """
    word, equals, rest = output.partition("=")
    if output in ("yaml", "yml"):
        from ..render import yaml_text

        return lambda found, dummy, arguments: yaml_text.dump(_whole(found, arguments))
    if output == "json":
        import json

        return lambda found, dummy, arguments: json.dumps(_whole(found, arguments), indent=2) + "\n"
    if output in ("ps", "wide"):
        return _tables({kind: kind.short if output == "ps" else kind.wide for kind in wanted})
    if word == "custom-columns" and equals:
        return _tables({kind: _headings(rest, kind) for kind in wanted})
    raise UsageError(f"unrecognized output format '{output}'. Use ps, wide, yaml, json or custom-columns=NAME,...")


def _headings(text: str, kind: Kind) -> tuple[str, ...]:
    headings = tuple(heading.strip().upper() for heading in text.split(",") if heading.strip())
    if not headings:
        raise UsageError("need to specify at least one column")
    for heading in headings:
        if heading not in kind.columns:
            raise UsageError(f"unknown heading {heading}, valid values are: {', '.join(kind.columns)}")
    return headings


def _tables(headings: t.Mapping[Kind, t.Sequence[str]]) -> Writer:
    """Return the function that writes one table for each kind, in the order in which they were found."""

    def write(found: Found, source: HasAsNumber, arguments: argparse.Namespace) -> str:
        of_kinds: dict[Kind, list[Document]] = {}
        for kind, documents in found:
            of_kinds.setdefault(kind, []).extend(documents)
        parts = []
        for kind, documents in of_kinds.items():
            namespaces = kind.namespaced and (arguments.all_namespaces or bool(arguments.filename))
            rows = [
                [
                    *([document["metadata"]["namespace"]] if namespaces else []),
                    *(kind.columns[heading](document, source) for heading in headings[kind]),
                ]
                for document in documents
            ]
            parts.append(tables.columns([*(["NAMESPACE"] if namespaces else []), *headings[kind]], rows) + "\n")
        return "".join(parts)

    return write


def _whole(found: Found, arguments: argparse.Namespace) -> t.Any:
    """Return the one document if one name was asked for, else a list resource (IPPoolList...) of all found.

    Documents that files name are a plain list, as their kinds may differ.
    """
    documents = [document for dummy, of_kind in found for document in of_kind]
    if len(documents) == 1 and (arguments.filename or len(arguments.names) == 1):
        return documents[0]
    if arguments.filename:
        return documents
    return {"apiVersion": API_VERSION, "kind": f"{found[0][0].name}List", "items": documents}
