# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formats of `get -o`: tables, YAML, JSON and names."""

from __future__ import annotations

import typing as t

from ...base.release import API_VERSION
from ..errors import UsageError
from . import tables
from .kind import Document, HasAsNumber, Kind, name_of, namespace_of

#: What -o takes, as help and errors show it.
FORMATS = "ps, wide, yaml, json, name or custom-columns=NAME,..."

Found = list[tuple[Kind, list[Document]]]


class Shape(t.NamedTuple):
    """How resources are shown. `listed`: all of one kind were asked for, instead of resources by their names."""

    listed: bool
    namespaces: bool


Writer = t.Callable[[Found, HasAsNumber, Shape], str]


def writer(output: str, wanted: t.Iterable[Kind]) -> Writer:
    """Return the function (found, source, shape) -> text that formats resources by `output`, the word after -o.

    Raise UsageError for an unknown word, and for no custom column or one that a kind of `wanted` does not have.
    """
    word, equals, rest = output.partition("=")
    if output in ("yaml", "yml"):
        from . import yaml_text

        return lambda found, dummy, shape: yaml_text.dump(_whole(found, shape))
    if output == "json":
        import json

        return lambda found, dummy, shape: json.dumps(_whole(found, shape), indent=2) + "\n"
    if output == "name":
        return lambda found, *dummies: "".join(
            f"{kind.singular}/{name_of(document)}\n" for kind, documents in found for document in documents
        )
    if output in ("ps", "wide"):
        return _tables({kind: kind.short if output == "ps" else kind.wide for kind in wanted})
    if word == "custom-columns":
        return _tables({kind: _headings(rest if equals else "", kind) for kind in wanted})
    hint = "Templates of Go are not read here: give `-o json` to a program such as jq. " if "template" in word else ""
    raise UsageError(f"unrecognized output format '{output}'. {hint}Use {FORMATS}")


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

    def write(found: Found, source: HasAsNumber, shape: Shape) -> str:
        of_kinds: dict[Kind, list[Document]] = {}
        for kind, documents in found:
            of_kinds.setdefault(kind, []).extend(documents)
        parts = []
        for kind, documents in of_kinds.items():
            namespaces = kind.namespaced and shape.namespaces
            rows = [
                [
                    *([namespace_of(document)] if namespaces else []),
                    *(kind.columns[heading](document, source) for heading in headings[kind]),
                ]
                for document in documents
            ]
            parts.append(tables.columns([*(["NAMESPACE"] if namespaces else []), *headings[kind]], rows) + "\n")
        return "".join(parts)

    return write


def _whole(found: Found, shape: Shape) -> t.Any:
    """Return what YAML and JSON show: a list resource (IPPoolList...) of a kind, one document, or a plain list."""
    documents = [document for dummy, of_kind in found for document in of_kind]
    if shape.listed:
        return {"apiVersion": API_VERSION, "kind": f"{found[0][0].name}List", "items": documents}
    return documents[0] if len(documents) == 1 else documents
