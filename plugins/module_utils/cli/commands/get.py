# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get KIND [NAME...]`: the node's state, and workloads added since, as Calico's resources."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import sys
import time
import typing as t

from ...base import naming
from ..errors import DONE, PROBLEMS, CommandError, UsageError
from ..render import kinds, output_formats, structured
from ..render.kind import Cell, Document, Kind, ResourceSource, View, exported, name_of, namespace_of
from ..sources import Sources

DEFAULT_NAMESPACE = "default"
#: What --export leaves out of the metadata: of all resources of a kind, and of those that names were given for.
_OF_THE_NETWORK, _OF_NAMED = ("resourceVersion",), ("resourceVersion", "namespace")


class WantedResources(t.NamedTuple):
    """Resources to show: those of a kind, in a namespace (None: in any), and only with `names` if there are any."""

    kind: Kind
    names: tuple[str, ...] = ()
    namespace: t.Optional[str] = None


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    wanted = _wanted(arguments)
    if arguments.node and {one.kind.name for one in wanted} != {"WorkloadEndpoint"}:
        raise UsageError("--node chooses among workload endpoints: `get workloadendpoints --node NAME`.")
    chosen = _chosen_by(arguments, wanted)
    if arguments.watch:
        _check_watch(arguments, wanted, sources)
    if arguments.output == "wide" and not arguments.inventory:
        wanted = [one._replace(kind=_with_source(_with_heartbeats(one.kind, sources), sources)) for one in wanted]
    write = output_formats.writer(arguments.output, {one.kind: None for one in wanted})
    source: ResourceSource
    if arguments.inventory:
        from . import inventory_resources

        source = inventory_resources.of_command(arguments)
    else:
        sources.connection.check()
        source = _of_fleet(arguments, wanted, sources)
    found: list[tuple[Kind, list[Document]]] = []
    missing: list[tuple[Kind, str]] = []
    for one in wanted:
        documents = [document for document in _selected(source.documents(one.kind), one) if chosen(document)]
        if arguments.node:
            documents = [document for document in documents if document["spec"]["node"] == arguments.node]
        called = {name: _called(documents, name) for name in one.names}
        lacking = [name for name, same in called.items() if not same]
        missing += [(one.kind, name) for name in lacking]
        if one.names:
            documents = [document for name in one.names for document in called[name]]
        if documents or not lacking:
            found.append((one.kind, documents))
    if found and arguments.export:
        fields = _OF_NAMED if wanted[0].names and not arguments.filename else _OF_THE_NETWORK
        found = [(kind, [exported(document, fields) for document in documents]) for kind, documents in found]
    if found:
        shape = output_formats.Shape(
            listed=not arguments.filename and not wanted[0].names,
            namespaces=bool(arguments.all_namespaces or arguments.namespace or arguments.filename),
        )
        sys.stdout.write(write(found, source, shape))
    if arguments.watch and not missing:
        _watch(arguments, wanted[0], source, chosen, sources)
    for kind, name in missing:
        sys.stderr.write(f"resource does not exist: {kind.name}({name}). `calicoctl get {kind.names[0]}` lists all.\n")
    return PROBLEMS if missing else DONE


def _wanted(arguments: argparse.Namespace) -> list[WantedResources]:
    if arguments.filename:
        return _of_files(arguments)
    if "/" in (arguments.kind or ""):
        return _of_pairs(arguments)
    return [_of_words(arguments.kind, tuple(dict.fromkeys(arguments.names)), arguments)]


def _chosen_by(arguments: argparse.Namespace, wanted: t.Sequence[WantedResources]) -> t.Callable[[Document], bool]:
    """Return the test of --selector on a document, which every document passes without one.

    Labels are those of its metadata, and its namespace as in Calico's policy. Raise UsageError for a selector that
    cannot be read, or beside names or files.
    """
    if arguments.selector is None:
        return lambda dummy: True
    if arguments.filename or any(one.names for one in wanted):
        raise UsageError("--selector chooses among all resources of a KIND: leave out names and -f.")
    from ...base import selectors

    try:
        selector = selectors.parse(arguments.selector)
    except selectors.SelectorError as error:
        raise UsageError(f"--selector: {error}") from error

    def chosen(document: Document) -> bool:
        labels = dict(document["metadata"].get("labels") or {})
        namespace = namespace_of(document)
        if namespace:
            labels.setdefault(naming.NAMESPACE_LABEL, namespace)
        return selector.matches(labels)

    return chosen


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


def _with_source(kind: Kind, sources: Sources) -> Kind:
    """Return a kind of policy with a column that says whether a resource is live, where there is live policy."""
    from ...datastore.keys import LIVE_KINDS

    if kind.name not in LIVE_KINDS or not (sources.is_node or sources.connection.possible):
        return kind
    if sources.is_node:
        from ..fleet import policy_sources

        cell = policy_sources.of_node(kind, sources)
    else:
        from ..fleet import live_resources

        cell = live_resources.source_of
    return dataclasses.replace(kind, columns={**kind.columns, "SOURCE": cell}) if cell else kind


def _check_watch(arguments: argparse.Namespace, wanted: t.Sequence[WantedResources], sources: Sources) -> None:
    """Raise UsageError if there is nothing to watch: live policy of one kind, as the datastore has it."""
    from ...datastore.keys import LIVE_KINDS

    if len(wanted) != 1 or wanted[0].kind.name not in LIVE_KINDS or arguments.inventory:
        raise UsageError(f"--watch shows changes of one kind of live policy: {', '.join(sorted(LIVE_KINDS))}.")
    if sources.is_node or not sources.connection.possible:
        raise UsageError("--watch asks the datastore, on a host that is no node. Name the way to it by -c FILE.")


def _watch(
    arguments: argparse.Namespace,
    wanted: WantedResources,
    source: ResourceSource,
    chosen: t.Callable[[Document], bool],
    sources: Sources,
) -> None:
    """Print the changes of live policy until interrupted."""
    from ..fleet import fleet_resources, live_resources

    def is_wanted(document: Document) -> bool:
        named = not wanted.names or name_of(document) in wanted.names
        return named and bool(_selected([document], wanted)) and chosen(document)

    revision = source.revision if isinstance(source, fleet_resources.FleetResources) else 0
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        live_resources.watch(sources.connection, wanted.kind, revision, is_wanted, arguments.output)


def _of_fleet(arguments: argparse.Namespace, wanted: t.Sequence[WantedResources], sources: Sources) -> ResourceSource:
    """Return the source for kinds that the datastore knows of all nodes, or that this node knows."""
    source, names = NodeResources(sources), {one.kind.name for one in wanted}
    if "WorkloadEndpoint" not in names and (sources.is_node or not sources.connection.possible):
        return source
    from ..fleet import fleet_resources

    return fleet_resources.FleetResources(sources, source, arguments.node, structured.is_for_people(arguments.output))


class NodeResources:
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


def _of_words(word: t.Optional[str], names: tuple[str, ...], arguments: argparse.Namespace) -> WantedResources:
    if word is None:
        raise UsageError("say what to get: a KIND such as ippools, or -f FILE for the resources that a file names.")
    kind = kinds.find(word)
    _check(arguments, kind)
    namespace = None
    if kind.namespaced and not arguments.all_namespaces:
        namespace = arguments.namespace or DEFAULT_NAMESPACE
    return WantedResources(kind, names, namespace)


def _of_pairs(arguments: argparse.Namespace) -> list[WantedResources]:
    """Return the resources that words KIND/NAME name, the form in which `-o name` shows them."""
    wanted = []
    for word in dict.fromkeys((arguments.kind, *arguments.names)):
        kind, slash, name = word.partition("/")
        if not (kind and slash and name):
            raise UsageError(f"'{word}' is no KIND/NAME. Write all resources so, or one KIND and its names.")
        wanted.append(_of_words(kind, (name,), arguments))
    return wanted


def _of_files(arguments: argparse.Namespace) -> list[WantedResources]:
    """Return the resources that the documents of the files name, as far as kinds and names are known."""
    from ..render import named_files
    from ..render.document_text import NotReadable, documents_of

    if arguments.kind is not None:
        raise UsageError("say what to get once: a KIND, or -f FILE for the resources that a file names.")
    wanted = []
    for path in named_files.paths(arguments.filename, arguments.recursive, arguments.skip_empty):
        name = "<stdin>" if path == "-" else path
        try:
            documents = [document for document, dummy in documents_of(named_files.read(path), name)]
        except NotReadable as error:
            raise CommandError(f"{name}:{error.line}: {error}" if error.line else f"{name}: {error}") from error
        wanted += [_named(document, name, arguments) for document in documents]
    if not wanted and not arguments.skip_empty:
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
    return [document for document in documents if namespace_of(document) == wanted.namespace]


def _called(documents: t.Iterable[Document], name: str) -> list[Document]:
    """Return the documents of this name; without any, the workload endpoint of a container that has it.

    Raise CommandError if several have it: the user who starts a container chooses its name.
    """
    known = list(documents)
    found = [one for one in known if name in (one["metadata"]["name"], one["spec"].get("workload"))]
    if found or not name:
        return found
    found = [one for one in known if kinds.container_of(one) == name]
    if len(found) > 1:
        which = ", ".join(f"{one['spec']['workload']} ({', '.join(one['spec']['ipNetworks'])})" for one in found[:10])
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        raise CommandError(f"{name} is ambiguous: it is the container of {which}{more}. Give one of these names.")
    return found
