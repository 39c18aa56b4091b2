# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get KIND [NAME...]`: the node's state, and workloads added since, as Calico's resources."""

from __future__ import annotations

import argparse
import json
import sys
import typing as t

from ...resources.errors import ResourceError
from ...resources.resource import API_VERSION
from ..errors import DONE, PROBLEMS, CommandError, UsageError
from ..render import kinds, tables, yaml_text
from ..render.kind import Document, Kind, View
from ..sources import Sources

DEFAULT_NAMESPACE = "default"


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    kind = kinds.find(arguments.kind)
    _check(arguments, kind)
    write = writer(arguments.output, kind)
    view = View(sources.state(), sources.workloads() if kind.of_workloads else ())
    try:
        documents = kind.documents(view)
    except ResourceError as error:
        raise CommandError(f"state.json has a {kind.name} that this release does not know: {error}") from error
    found = _selected(documents, kind, arguments)
    names = list(dict.fromkeys(arguments.names))
    missing = [name for name in names if not any(_is_called(document, name) for document in found)]
    if names:
        found = [document for document in found if any(_is_called(document, name) for name in names)]
    if found or not missing:
        sys.stdout.write(write(found, view, arguments))
    for name in missing:
        sys.stderr.write(f"resource does not exist: {kind.name}({name}). `calicoctl get {kind.names[0]}` lists all.\n")
    return PROBLEMS if missing else DONE


def _check(arguments: argparse.Namespace, kind: Kind) -> None:
    if arguments.namespace and arguments.all_namespaces:
        raise UsageError("cannot use both --namespace and --all-namespaces flags at the same time")
    if arguments.namespace and not kind.namespaced:
        raise UsageError(
            f"namespace should not be specified for a non-namespaced resource. {kind.name} is not a namespaced resource"
        )


def _selected(documents: list[Document], kind: Kind, arguments: argparse.Namespace) -> list[Document]:
    if not kind.namespaced or arguments.all_namespaces:
        return documents
    wanted = arguments.namespace or DEFAULT_NAMESPACE
    return [document for document in documents if document["metadata"]["namespace"] == wanted]


def _is_called(document: Document, name: str) -> bool:
    """Return whether `name` is the resource's name or, for a workload endpoint, its workload's name."""
    return name in (document["metadata"]["name"], document["spec"].get("workload"))


Writer = t.Callable[[list[Document], View, argparse.Namespace], str]


def writer(output: str, kind: Kind) -> Writer:
    """Return the function (documents, view, arguments) -> text that formats documents by `output`, the word after -o.

    Raise UsageError for another word than ps, wide, yaml, yml, json and custom-columns=NAME,..., or for no custom
    column or one that `kind` does not have.
    """
    word, equals, rest = output.partition("=")
    if output in ("yaml", "yml"):
        return lambda found, dummy, arguments: yaml_text.dump(_whole(found, kind, arguments))
    if output == "json":
        return lambda found, dummy, arguments: json.dumps(_whole(found, kind, arguments), indent=2) + "\n"
    if output in ("ps", "wide"):
        return _table(kind, kind.short if output == "ps" else kind.wide)
    if word == "custom-columns" and equals:
        return _table(kind, _headings(rest, kind))
    raise UsageError(f"unrecognized output format '{output}'. Use ps, wide, yaml, json or custom-columns=NAME,...")


def _headings(text: str, kind: Kind) -> tuple[str, ...]:
    headings = tuple(heading.strip().upper() for heading in text.split(",") if heading.strip())
    if not headings:
        raise UsageError("need to specify at least one column")
    for heading in headings:
        if heading not in kind.columns:
            raise UsageError(f"unknown heading {heading}, valid values are: {', '.join(kind.columns)}")
    return headings


def _table(kind: Kind, headings: t.Sequence[str]) -> Writer:
    def write(found: list[Document], view: View, arguments: argparse.Namespace) -> str:
        namespaces = kind.namespaced and arguments.all_namespaces
        rows = [
            [
                *([document["metadata"]["namespace"]] if namespaces else []),
                *(kind.columns[heading](document, view) for heading in headings),
            ]
            for document in found
        ]
        return tables.columns([*(["NAMESPACE"] if namespaces else []), *headings], rows) + "\n"

    return write


def _whole(found: list[Document], kind: Kind, arguments: argparse.Namespace) -> Document:
    """Return the one found document if one name was asked for, else a list resource (IPPoolList...) of all found."""
    if len(arguments.names) == 1 and len(found) == 1:
        return found[0]
    return {"apiVersion": API_VERSION, "kind": f"{kind.name}List", "items": found}
