# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of resources as people write them, in pieces: each piece knows which edits may change it."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.text_edit import TextPlace
from hypothesis import strategies as st

NAMES = st.sampled_from(["default-ipv4", "rack-a", "web", "no", "1.5", "a: b", "ü", "20:30", "", "#x", "- y", "null"])
SCALARS: st.SearchStrategy[t.Any] = st.one_of(
    NAMES, st.booleans(), st.integers(-5, 70000), st.none(), st.just(1.5), st.text(max_size=6)
)
VALUES: st.SearchStrategy[t.Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def resource(spec: t.Any, name: str = "new") -> dict[str, t.Any]:
    return {"apiVersion": "projectcalico.org/v3", "kind": "IPPool", "metadata": {"name": name}, "spec": spec}


class WrittenFile(t.NamedTuple):
    """A file in pieces: (text, the place that it is the value of or None, the documents and items that it is part of).

    The third has the places with whose deletion the piece may go.
    """

    pieces: list[tuple[str, t.Optional[TextPlace], frozenset[TextPlace]]]

    @property
    def text(self) -> str:
        return "".join(text for text, dummy, dummy2 in self.pieces)

    @property
    def places(self) -> list[TextPlace]:
        return list(dict.fromkeys(place for dummy, place, dummy2 in self.pieces if place is not None))

    def around(self, place: TextPlace, deleted: bool) -> tuple[str, str]:
        """Return the text before and behind what an edit at `place` may change."""
        inside = [
            index
            for index, (dummy, own, goes) in enumerate(self.pieces)
            if (place in goes if deleted else own is not None and _below(own, place))
        ]
        texts = [text for text, dummy, dummy2 in self.pieces]
        return "".join(texts[: inside[0]]), "".join(texts[inside[-1] + 1 :])


def _below(own: TextPlace, place: TextPlace) -> bool:
    return own.document == place.document and own.path[: len(place.path)] == place.path


@st.composite
def written_files(draw: t.Any) -> WrittenFile:
    line_end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    pieces: list[tuple[str, t.Optional[TextPlace], frozenset[TextPlace]]] = []

    def add(text: str, place: t.Optional[TextPlace] = None, *goes: TextPlace) -> None:
        pieces.append((text.replace("\n", line_end), place, frozenset(goes)))

    if draw(st.booleans()):
        add("\ufeff")
    if draw(st.booleans()):
        add("# The network of rack a.\n# vim: ts=2\n\n")
    for document in range(draw(st.integers(1, 4))):
        whole = TextPlace(document)
        form = draw(st.sampled_from(["block", "block", "list", "array", "json", "flow", "empty", "flow array"]))
        if document or form == "empty" or draw(st.booleans()):
            add(draw(st.sampled_from(["---\n", "---\n", "--- # rack\n", "---\n# Of rack b.\n\n"])), None, whole)
        if form == "block":
            add(draw(_block(0)), whole, whole)
            add("\n", None, whole)
        elif form == "empty":
            pass
        elif form in ("list", "array"):
            pad = ""
            if form == "list":
                pad = draw(st.sampled_from(["", "  "]))
                add("apiVersion: v1\nkind: List\nitems: # all\n", whole, whole)
            path: tuple[t.Any, ...] = ("items",) if form == "list" else ()
            for index in range(draw(st.integers(1, 3))):
                item = TextPlace(document, (*path, index))
                add(pad + draw(st.sampled_from(["- ", "-   ", f"-\n{pad}  "])), whole, whole, item)
                previous = pieces[-1][0].replace("\r\n", "\n")
                column = len(previous) - previous.rfind("\n") - 1
                add(draw(_block(column)), item, whole, item)
                add("\n", whole, whole, item)
                if draw(st.booleans()):
                    add(f"{pad}# the next one\n", whole, whole)
        else:
            content = draw(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1))
            entries = [content, resource({"x": 1}, "q"), 5]
            if form == "json":
                add(json.dumps(content, indent=draw(st.sampled_from([None, 2, 4]))), whole, whole)
            elif form == "flow":
                add("{kind: IPPool, # why\n  spec: {a: [1, 'x']}}", whole, whole)
            else:
                add("[", whole, whole)
                for index, entry in enumerate(entries):
                    item = TextPlace(document, (index,))
                    last = TextPlace(document, (len(entries) - 1,))
                    add(json.dumps(entry), item, whole, item)
                    if index + 1 < len(entries):
                        goes = (item, last) if index + 2 == len(entries) else (item,)
                        add(draw(st.sampled_from([", ", ",\n  "])), whole, whole, *goes)
                add("]", whole, whole)
            add(draw(st.sampled_from(["\n", " # why\n"])), whole, whole)
        if draw(st.booleans()):
            add(draw(st.sampled_from(["\n", "\n\n", "...\n"])), None, whole)
        if draw(st.booleans()):
            add("# a remark behind it\n")
    if pieces and draw(st.booleans()):
        last, place, goes = pieces[-1]
        pieces[-1] = (last.rstrip("\r\n"), place, goes)
    return WrittenFile(pieces)


@st.composite
def _block(draw: t.Any, column: int) -> str:
    """Draw a resource as lines that are indented by `column`, but for the first; it may end in a comment."""
    step = " " * draw(st.sampled_from([2, 4]))
    lines = [draw(st.sampled_from(["apiVersion: projectcalico.org/v3", "kind: IPPool", "? kind\n: IPPool"]))]
    lines += ["metadata:", f"{step}name: 'x'   # its name"]
    lines += draw(
        st.lists(
            st.sampled_from(
                [
                    "# a remark",
                    "",
                    "text: |\n  # no comment\n\n  --- neither",
                    "folded: >-\n  a\n  b",
                    "anchored: &one\n  a: 1",
                    "aliased: *one",
                    "tagged: !unsafe x",
                    "merged:\n  <<: *one",
                    "empty:",
                    "long: a\n  plain text # with a comment",
                    'quoted: "a \\\n  b"',
                    "rules:\n- action: Allow\n  protocol: TCP",
                    "deep:\n  rules:\n    - {a: b}\n    - - 1\n      - 2",
                ]
            ),
            max_size=4,
        )
    )
    lines.append(draw(st.sampled_from(["end: 1", "end: 1 # the end", "end: [1, 2]", "end:", "end: |\n  x"])))
    pad = " " * column
    written = "\n".join(lines).split("\n")
    return "\n".join([written[0], *(f"{pad}{line}" if line else line for line in written[1:])])
