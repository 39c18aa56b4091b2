# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of documents: the examples of RFC 6902 and RFC 7386, Calico's strategic patches, and hostile ones."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches import json_patch, labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches.errors import PatchError
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches.merge_patches import (
    merge,
    strategic,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches.patch import TYPES, patched
from hypothesis import given
from hypothesis import strategies as st

#: (document, patch, result) of RFC 7386, appendix A.
RFC_7386: list[tuple[t.Any, t.Any, t.Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

#: (section, document, operations, result) of RFC 6902, appendix A; an error has its text as the result.
RFC_6902: list[tuple[str, t.Any, list[t.Any], t.Any]] = [
    ("A.1", {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ("A.2", {"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}],
     {"foo": ["bar", "qux", "baz"]}),
    ("A.3", {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ("A.4", {"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ("A.5", {"baz": "qux", "foo": "bar"}, [{"op": "replace", "path": "/baz", "value": "boo"}],
     {"baz": "boo", "foo": "bar"}),
    ("A.6", {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
     [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
     {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
    ("A.7", {"foo": ["all", "grass", "cows", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
     {"foo": ["all", "cows", "eat", "grass"]}),
    ("A.8", {"baz": "qux", "foo": ["a", 2, "c"]},
     [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
     {"baz": "qux", "foo": ["a", 2, "c"]}),
    ("A.9", {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}],
     "operation 1 of the patch is a test that fails. The document has another value at /baz."),
    ("A.10", {"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
     {"foo": "bar", "child": {"grandchild": {}}}),
    ("A.11", {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
     {"foo": "bar", "baz": "qux"}),
    ("A.12", {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}],
     "operation 1 of the patch finds nothing at /baz. Add what is above it first, or correct the path."),
    ("A.14", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ("A.15", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}],
     "operation 1 of the patch is a test that fails. The document has another value at /~01."),
    ("A.16", {"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
     {"foo": ["bar", ["abc", "def"]]}),
]  # fmt: skip


@pytest.mark.parametrize(("document", "patch", "result"), RFC_7386)
def test_a_merge_patch_does_as_rfc_7386_says(document: t.Any, patch: t.Any, result: t.Any) -> None:
    before = copy.deepcopy(document)
    assert merge(document, patch) == result
    assert document == before


@pytest.mark.parametrize(
    ("document", "patch", "result"), [entry[1:] for entry in RFC_6902], ids=[e[0] for e in RFC_6902]
)
def test_a_json_patch_does_as_rfc_6902_says(document: t.Any, patch: t.Any, result: t.Any) -> None:
    before = copy.deepcopy((document, patch))
    if isinstance(result, str):
        with pytest.raises(PatchError) as raised:
            json_patch.apply(document, patch)
        assert str(raised.value) == result
    else:
        assert json_patch.apply(document, patch) == result
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}),
        ({"op": "copy", "from": "/a/b/0", "path": "/a/b/-"}, {"a": {"b": [1, 2, 1]}}),
        ({"op": "replace", "path": "", "value": {"d": 1}}, {"d": 1}),
        ({"op": "replace", "path": "/a/b/1", "value": 3}, {"a": {"b": [1, 3]}}),
        ({"op": "add", "path": "", "value": {}}, {}),
        ({"op": "move", "from": "/a", "path": "/a"}, {"a": {"b": [1, 2]}}),
        ({"op": "move", "from": "/a/b", "path": "/a"}, {"a": [1, 2]}),
        ({"op": "test", "path": "/a/b", "value": [1.0, 2]}, {"a": {"b": [1, 2]}}),
        ({"op": "test", "path": "/a/b/0", "value": True}, "operation 1 of the patch is a test that fails. "
         "The document has another value at /a/b/0."),
        ({"op": "add", "path": "/a/b/3", "value": 1}, "operation 1 of the patch has no item /a/b/3. "
         "The list there has 2 items, from 0."),
        ({"op": "remove", "path": "/a/b/-"}, "operation 1 of the patch has no item /a/b/-. "
         "The list there has 2 items, from 0."),
        ({"op": "remove", "path": "/a/b/01"}, "operation 1 of the patch has no item /a/b/01. "
         "The list there has 2 items, from 0."),
        ({"op": "replace", "path": "/c", "value": 1}, "operation 1 of the patch finds nothing at /c. "
         "Add what is above it first, or correct the path."),
        ({"op": "remove", "path": ""}, "operation 1 of the patch removes the whole document. "
         "Use `calicoctl delete`."),
        ({"op": "move", "from": "/a", "path": "/a/b"}, "operation 1 of the patch moves a value into itself. "
         "Copy it instead."),
        ({"op": "add", "path": "a", "value": 1}, "operation 1 of the patch has the path 'a'. "
         "Begin it with /, and write ~1 for a / in a name, ~0 for a ~."),
        ({"op": "add", "path": "/~2", "value": 1}, "operation 1 of the patch has the path '/~2'. "
         "Begin it with /, and write ~1 for a / in a name, ~0 for a ~."),
        ({"op": "add", "path": "/a"}, "operation 1 of the patch has no value. Add needs path and value."),
        ({"op": "set", "path": "/a"}, "operation 1 of the patch has the op 'set'. "
         "Write one of add, remove, replace, move, copy, test."),
        ({"op": ["add"]}, "operation 1 of the patch has the op ['add']. "
         "Write one of add, remove, replace, move, copy, test."),
        ("add", "operation 1 of the patch is not a mapping. Write op, path and what else it needs."),
    ],
)  # fmt: skip
def test_other_operations_and_their_errors(operation: t.Any, result: t.Any) -> None:
    document = {"a": {"b": [1, 2]}}
    if isinstance(result, str):
        with pytest.raises(PatchError) as raised:
            json_patch.apply(document, [operation])
        assert str(raised.value) == result
    else:
        assert json_patch.apply(document, [operation]) == result
    assert document == {"a": {"b": [1, 2]}}


def test_a_json_patch_is_done_as_a_whole_or_not() -> None:
    document = {"a": 1}
    with pytest.raises(PatchError, match="operation 2"):
        json_patch.apply(document, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}])
    assert document == {"a": 1}


def test_copies_cannot_grow_without_bound() -> None:
    """Thirty operations that double the document would make 2**30 values."""
    double = {"op": "copy", "from": "/a", "path": "/a/-"}
    with pytest.raises(PatchError, match="makes more than 1,000,000 values"):
        json_patch.apply({"a": [1]}, [double] * 60)
    with pytest.raises(BeyondLimits, match="nested deeper than 64 levels"):
        json_patch.apply({}, [{"op": "copy", "from": "", "path": "/a"}] * 5000)
    with pytest.raises(PatchError, match="has more than 10,000 operations"):
        json_patch.apply({}, [double] * 10_001)
    with pytest.raises(PatchError, match="is not a list of operations"):
        json_patch.apply({}, {"op": "add"})


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"spec": {"a": 2}}, {"kind": "A", "spec": {"a": 2, "l": [1], "m": {"x": 1}}}),
        ({"spec": {"l": [2, 3]}}, {"kind": "A", "spec": {"a": 1, "l": [2, 3], "m": {"x": 1}}}),
        ({"spec": {"m": None}}, {"kind": "A", "spec": {"a": 1, "l": [1]}}),
        ({"spec": {"$patch": "replace", "b": 1}}, {"kind": "A", "spec": {"b": 1}}),
        ({"spec": {"m": {"$patch": "delete"}}}, {"kind": "A", "spec": {"a": 1, "l": [1]}}),
        ({"spec": {"m": {"$patch": "merge", "y": 2}}},
         {"kind": "A", "spec": {"a": 1, "l": [1], "m": {"x": 1, "y": 2}}}),
        ({"$patch": "replace", "kind": "B"}, {"kind": "B"}),
        ({"spec": {"new": {"$patch": "replace", "a": {"b": None}}}},
         {"kind": "A", "spec": {"a": 1, "l": [1], "m": {"x": 1}, "new": {"a": {}}}}),
        ({"spec": {"$patch": "drop"}}, "spec.$patch of the patch is 'drop'. Write replace, delete or merge."),
        ({"spec": {"l": [1, {"$patch": "replace"}]}},
         "spec.l[1].$patch of the patch is for lists with a merge key. Write the whole list without it."),
        ({"$retainKeys": ["a"]},
         "$retainKeys of the patch is for lists with a merge key. No list here has one: write the whole list."),
        ({"spec": {"$deleteFromPrimitiveList/l": [1]}},
         "spec.$deleteFromPrimitiveList/l of the patch is for lists with a merge key. "
         "No list here has one: write the whole list."),
    ],
)  # fmt: skip
def test_a_strategic_patch_merges_but_for_its_directives(patch: t.Any, result: t.Any) -> None:
    document = {"kind": "A", "spec": {"a": 1, "l": [1], "m": {"x": 1}}}
    before = copy.deepcopy(document)
    if isinstance(result, str):
        with pytest.raises(PatchError) as raised:
            strategic(document, patch)
        assert str(raised.value) == result
    else:
        assert strategic(document, patch) == result
    assert document == before


def test_a_patch_leaves_a_mapping_within_limits() -> None:
    assert patched({"a": 1}, {"a": 2}, "merge") == {"a": 2}
    for form, patch in (("merge", []), ("strategic", 1), ("json", [{"op": "add", "path": "", "value": 1}])):
        with pytest.raises(PatchError) as raised:
            patched({}, patch, form)
        assert str(raised.value) == "the patch leaves no mapping. A resource is a mapping."
    deep: t.Any = 1
    for dummy in range(70):
        deep = {"a": deep}
    with pytest.raises(BeyondLimits):
        patched({}, deep, "merge")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["$patch", "replace", "/a", "", "-", "0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "$patch", "op", "path", "from", "value"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OPERATION = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": st.sampled_from(["", "/a", "/a/0", "/a/-", "/a/b", "/b", "/~0"]),
        "from": st.sampled_from(["", "/a", "/a/0", "/b"]),
        "value": JSON,
    }
)


@given(st.dictionaries(st.sampled_from("ab"), JSON), JSON | st.lists(OPERATION, max_size=5), st.sampled_from(TYPES))
def test_any_patch_is_done_or_refused_and_the_document_stays(document: t.Any, patch: t.Any, form: str) -> None:
    before = copy.deepcopy((document, patch))
    try:
        assert isinstance(patched(document, patch, form), dict)
    except (PatchError, BeyondLimits):
        pass
    assert (document, patch) == before


@given(st.dictionaries(st.sampled_from("ab"), JSON), st.dictionaries(st.sampled_from("ab"), JSON))
def test_a_merge_patch_applied_twice_changes_nothing_more(document: t.Any, patch: t.Any) -> None:
    once = merge(document, patch)
    assert merge(once, patch) == once


NODE = {"kind": "Node", "metadata": {"name": "n", "labels": {"rack": "a"}}, "spec": {}}


@pytest.mark.parametrize(
    ("word", "remove", "overwrite", "found", "said"),
    [
        ("row=1", False, False, {"rack": "a", "row": "1"}, "Successfully set label row on nodes n"),
        ("row=", False, False, {"rack": "a", "row": ""}, "Successfully set label row on nodes n"),
        ("rack=a", False, False, {"rack": "a"}, "Successfully updated label rack on nodes n"),
        ("rack=b=c", False, True, {"rack": "b=c"}, "Successfully updated label rack on nodes n"),
        ("rack", True, False, None, "Successfully removed label rack from nodes n"),
    ],
)
def test_labels_are_set_and_removed_with_calico_s_words(
    word: str, remove: bool, overwrite: bool, found: t.Any, said: str
) -> None:
    before = copy.deepcopy(NODE)
    document, sentence = labels.labelled(NODE, labels.read(word, remove, overwrite), "nodes n")
    assert (document["metadata"].get("labels"), sentence) == (found, said)
    assert document["metadata"]["name"] == "n" and before == NODE


@pytest.mark.parametrize(
    ("word", "remove", "why"),
    [
        ("rack=b", False, "failed to update label of nodes n, key rack is already present. "
         "please use '--overwrite' to set a new value"),
        ("row", True, "cannot remove label of nodes n, key row does not exist"),
        ("row", False, "invalid label row"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_changed_so_are_refused_with_calico_s_words(word: str, remove: bool, why: str) -> None:
    with pytest.raises(labels.LabelRefused) as raised:
        labels.labelled(NODE, labels.read(word, remove, overwrite=False), "nodes n")
    assert str(raised.value) == why
