# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of one document or item of a text: all other characters stay, or the edit is refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing import text_edit
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.text_edit import TextPlace
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.text_nodes import (
    EditRefused,
    parse,
    same,
    values,
)
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.unit.editing.written_files import VALUES, WrittenFile, resource, written_files

POOL = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "IPPool",
    "metadata": {"name": "rack-a"},
    "spec": {"cidr": "10.244.0.0/16", "disableBGPExport": False, "allowedUses": ["Workload", "Tunnel"]},
}

FILE = """\
# The network of rack a.
---
# agreed with the network team
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
    name: rack-a   # not rack-b
spec:
    allowedUses:
      - Workload
    cidr: 10.244.0.0/17  # half
# a remark behind it

---
kind: List
items:
- kind: Tier
  metadata: {name: first}   # of three
# between
-
  kind: Tier
- {kind: Tier, metadata: {name: third}}
"""


def test_a_document_is_replaced_in_the_file_s_indentation() -> None:
    """The comments in and behind its last line go; those before it and in the lines behind it stay."""
    assert text_edit.replace(FILE, TextPlace(0), POOL) == FILE.replace(
        """\
    name: rack-a   # not rack-b
spec:
    allowedUses:
      - Workload
    cidr: 10.244.0.0/17  # half
""",
        """\
    name: rack-a
spec:
    allowedUses:
      - Workload
      - Tunnel
    cidr: 10.244.0.0/16
    disableBGPExport: false
""",
    )


def test_a_document_is_deleted_with_its_marker_and_the_comment_there() -> None:
    after = text_edit.delete(FILE, TextPlace(0))
    assert after == FILE.replace(FILE[FILE.index("---") : FILE.index("# a remark")], "")
    assert text_edit.delete(FILE, TextPlace(1)) == FILE[: FILE.rindex("---")]


def test_items_of_a_list_are_replaced_and_deleted_alone() -> None:
    assert text_edit.replace(FILE, TextPlace(1, ("items", 0)), {"kind": "Tier", "spec": {"order": 5}}) == FILE.replace(
        "  metadata: {name: first}   # of three\n", "  spec:\n      order: 5\n"
    )
    assert text_edit.replace(FILE, TextPlace(1, ("items", 2)), {"kind": "Tier", "spec": ["a b"]}) == FILE.replace(
        "{kind: Tier, metadata: {name: third}}", '{kind: Tier, spec: ["a b"]}'
    )
    first = "- kind: Tier\n  metadata: {name: first}   # of three\n"
    assert text_edit.delete(FILE, TextPlace(1, ("items", 0))) == FILE.replace(first, "")
    assert text_edit.delete(FILE, TextPlace(1, ("items", 1))) == FILE.replace("-\n  kind: Tier\n", "")


@pytest.mark.parametrize(
    ("text", "place", "after"),
    [
        ("- a:\t1\t# one\n- b: [1,\t2]\t# two\n- c: 3\n", (0,), "- z: 0\n- b: [1,\t2]\t# two\n- c: 3\n"),
        ("- a:\t1\t# one\n- b: [1,\t2]\t# two\n- c: 3\n", (2,), "- a:\t1\t# one\n- b: [1,\t2]\t# two\n- z: 0\n"),
        ("---\t# first\na: 1 \t \n# behind\n---\t\nb:\t# one\n  c: 1\n", (),
         "---\t# first\nz: 0\n# behind\n---\t\nb:\t# one\n  c: 1\n"),
    ],
)  # fmt: skip
def test_tabs_before_comments_and_values_are_blanks(text: str, place: t.Any, after: str) -> None:
    """The parser in C, which reads the resources, takes them so; PyYAML's own does not."""
    assert text_edit.replace(text, TextPlace(0, place), {"z": 0}) == after


def test_a_document_is_appended_behind_a_line_end() -> None:
    short = "metadata:\n  name: rack-a\n"
    assert text_edit.append("kind: Tier", {"kind": "A"}) == "kind: Tier\n---\nkind: A\n"
    assert text_edit.append("# none\n", {"metadata": {"name": "rack-a"}}) == f"# none\n---\n{short}"
    assert text_edit.append("a:\r\n    b: 1\r\n", {"c": {"d": 1}}) == "a:\r\n    b: 1\r\n---\r\nc:\r\n    d: 1\r\n"


def test_lists_without_items_are_written_as_brackets() -> None:
    place = TextPlace(0, ("items", 0))
    assert text_edit.delete("a: 1\nitems:  # all\n  - b\n  # c\n", place) == "a: 1\nitems: []  # all\n  # c\n"
    assert text_edit.delete("items: [b]", place) == "items: []"
    assert text_edit.delete("- b\n", TextPlace(0, (0,))) == "[]\n"


@pytest.mark.parametrize(
    ("before", "place", "after"),
    [
        ('{"kind": "A", "n": 1}', (), '{"kind": "B"}'),
        ('{\n\t"kind": "A"\n}\n', (), '{\n\t"kind": "B"\n}\n'),
        ('[\r\n  {"kind": "A"},\r\n  {\r\n    "kind": "C"\r\n  }\r\n]', (0,), None),
        ('\ufeff[\r\n  {"kind": "A"},\r\n  {\r\n    "kind": "C"\r\n  }\r\n]', (1,), None),
    ],
)
def test_json_stays_json_in_its_indentation(before: str, place: tuple[int, ...], after: t.Optional[str]) -> None:
    found = text_edit.replace(before, TextPlace(0, place), {"kind": "B"}, is_json=True)
    assert found == (after or before.replace('"A"' if place == (0,) else '"C"', '"B"'))


def test_items_of_json_are_deleted_with_their_comma() -> None:
    text = '[\n  {"kind": "A"},\n  {"kind": "B"}\n]\n'
    assert text_edit.delete(text, TextPlace(0, (0,)), is_json=True) == '[\n  {"kind": "B"}\n]\n'
    assert text_edit.delete(text, TextPlace(0, (1,)), is_json=True) == '[\n  {"kind": "A"}\n]\n'
    assert text_edit.delete(text, TextPlace(0), is_json=True) == ""
    assert text_edit.append("\n", {"kind": "A"}, is_json=True) == '{\n  "kind": "A"\n}\n'


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("a: &x 1\nitems: [*x]\n", (0, "items", 0), "line 2 has the alias *x, which stands for a value elsewhere"),
        ("items:\n- &x {a: 1}\n- *x\n", (0, "items", 0), "it defines the anchor &x, which line 3 uses"),
        ("items:\n- a: !vault x\n", (0, "items", 0), "line 2 has the tag !vault"),
        ("--- !pool\nkind: A\n", (0,), "line 1 has the tag !pool"),
        ("---\n---\na: 1\n", (0,), "line 2 is empty"),
        ("a: 1\n", (1,), "it has no document 2"),
        ("items: '{{ pools }}'\n", (0, "items", 0), "the list is not written out in it"),
        ("items: [1]\nitems: [2]\n", (0, "items", 0), "the list is not written out in it"),
        ("items: {a: 1}\n", (0, "items", "a"), "the list is not written out in it"),
        ("items: &x [1]\nb: *x\n", (0, "items", 0), "it is not written so that this part of it can be changed alone"),
        ("{% if x %}\n", (0,), "it cannot be read as plain YAML"),
        ("a: 1\n\tb: 2\n", (0,), "it cannot be read as plain YAML"),
        ("a: &x [*x]\n", (0,), "it has alias *x inside of what it stands for. Write it out."),
    ],
)
def test_an_edit_that_would_change_more_is_refused_with_its_reason(text: str, place: t.Any, why: str) -> None:
    with pytest.raises(EditRefused) as raised:
        text_edit.replace(text, TextPlace(place[0], place[1:]), {"kind": "B"})
    assert str(raised.value) == why


def test_a_shared_item_is_not_deleted_and_a_tag_goes() -> None:
    with pytest.raises(EditRefused, match="defines the anchor &x, which line 3 uses"):
        text_edit.delete("items:\n- &x {a: 1}\n- *x\n", TextPlace(0, ("items", 0)))
    assert text_edit.delete("items:\n- 1\n- !vault x\n", TextPlace(0, ("items", 1))) == "items:\n- 1\n"


def test_a_second_document_of_json_and_other_values_are_refused() -> None:
    with pytest.raises(EditRefused, match="a file of JSON has one document"):
        text_edit.append("{}", {"kind": "A"}, is_json=True)
    with pytest.raises(EditRefused, match="a value has no form there: set has no form in YAML"):
        text_edit.replace("kind: A\n", TextPlace(0), {"kind": {1}})
    with pytest.raises(EditRefused, match="line 1 is not JSON: Expecting value"):
        text_edit.replace("a: 1", TextPlace(0), {}, is_json=True)


@settings(max_examples=200)
@given(written_files(), VALUES, st.booleans(), st.data())
def test_what_is_not_edited_is_as_before_byte_for_byte(
    written: WrittenFile, spec: t.Any, deleted: bool, data: st.DataObject
) -> None:
    check_edit(written, spec, deleted, data)


@pytest.mark.soak
@settings(max_examples=2000)
@given(written_files(), VALUES, st.booleans(), st.data())
def test_two_thousand_edits_leave_the_rest_byte_for_byte(
    written: WrittenFile, spec: t.Any, deleted: bool, data: st.DataObject
) -> None:
    check_edit(written, spec, deleted, data)


def check_edit(written: WrittenFile, spec: t.Any, deleted: bool, data: st.DataObject) -> None:
    text = written.text
    try:
        before = values(text, False)
    except EditRefused:
        event("not YAML")  # such as an alias without its anchor
        return
    assert len(parse(text, False)) == len(before)
    if not written.places:
        event("no place")
        return
    place = data.draw(st.sampled_from(written.places))
    try:
        after = text_edit.delete(text, place) if deleted else text_edit.replace(text, place, resource(spec))
    except EditRefused as error:
        event(str(error)[:20])
        return
    event("edited")
    siblings = [one for one in written.places if one.document == place.document and one.path[:-1] == place.path[:-1]]
    emptied = deleted and bool(place.path) and len([one for one in siblings if one.path]) == 1
    head, tail = written.around(TextPlace(place.document) if emptied else place, deleted and not emptied)
    assert after.startswith(head.rstrip(" "))
    assert after.endswith(tail)
    assert len(after) >= len(head.rstrip(" ")) + len(tail)
    found, inner = values(after, False), resource(spec)
    if not place.path:
        assert same(found, before[: place.document] + ([] if deleted else [inner]) + before[place.document + 1 :])
    else:
        rest = found[: place.document] + found[place.document + 1 :]
        assert same(rest, before[: place.document] + before[place.document + 1 :])


@given(written_files(), VALUES)
def test_an_appended_document_is_behind_all_that_is_there(written: WrittenFile, spec: t.Any) -> None:
    try:
        before = values(written.text, False)
        after = text_edit.append(written.text, resource(spec))
    except EditRefused:
        return
    assert after.startswith(written.text)
    assert same(values(after, False), [*before, resource(spec)])


@given(st.text(st.sampled_from("ab:-[]{}#&*!|>'\"\n\r \t,?.%1"), max_size=40), st.integers(0, 2), st.booleans())
def test_any_text_is_edited_or_refused(text: str, document: int, is_json: bool) -> None:
    """No text makes an edit fail in another way than EditRefused."""
    for edit in (
        lambda: text_edit.replace(text, TextPlace(document), {"a": 1}, is_json),
        lambda: text_edit.delete(text, TextPlace(document), is_json),
        lambda: text_edit.delete(text, TextPlace(document, (0,)), is_json),
        lambda: text_edit.replace(text, TextPlace(document, ("a", 0)), 1, is_json),
        lambda: text_edit.append(text, {"a": 1}, is_json),
    ):
        try:
            edit()
        except EditRefused:
            pass
