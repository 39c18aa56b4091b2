# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of typed JSON: what each reader accepts at its bounds, and the whole texts about what it refuses."""

from __future__ import annotations

import json
import math
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from hypothesis import given
from hypothesis import strategies as st


def refuses(reader: typed_json.Reader, value: t.Any) -> bool:
    try:
        reader(value)
    except typed_json.Unreadable:
        return True
    return False


BOUNDS: list[tuple[typed_json.Reader, list[t.Any], list[t.Any]]] = [
    (typed_json.text(3), ["", "abc"], ["abcd", 3, None, b"abc"]),
    (typed_json.text(), ["x" * 4096], ["x" * 4097]),
    (typed_json.text(2, 1), ["a", "ab"], ["", "abc"]),
    (typed_json.one_of("a", "b"), ["a", "b"], ["c", "", None, ["a"]]),
    (typed_json.whole(), [0, 1, 2**53], [-1, 2**53 + 1, True, False, 1.0, "1", None]),
    (typed_json.whole(-2, 3), [-2, 0, 3], [-3, 4]),
    (typed_json.number(), [0, 0.0, 0.5, 10**12, 1e12], [-0.5, 1e12 + 1, True, False, "1", None, float("nan")]),
    (typed_json.number(1.5, 2.5), [1.5, 2, 2.5], [1.4, 2.6]),
    (typed_json.flag, [True, False], [0, 1, "true", None]),
    (typed_json.maybe(typed_json.flag), [True, False, None], [0, ""]),
    (typed_json.maybe(typed_json.flag, False), [True, False], [0, ""]),
    (typed_json.items(typed_json.flag, 2), [[], [True], (True, False)], [[True] * 3, "", {}, None, [1]]),
    (
        typed_json.by_name(typed_json.flag, 2),
        [{}, {"a": True, "b": False}],
        [{"a": 1}, [], None, {1: True}, dict.fromkeys("abc", True)],
    ),
    (typed_json.by_name(typed_json.flag), [{"x" * 4096: True}], [{"x" * 4097: True}]),
    (typed_json.by_name(typed_json.flag, name=typed_json.text(2, 1)), [{"ab": True}], [{"": True}, {"abc": True}]),
    (
        typed_json.open_table({"a": typed_json.flag}, {"b": typed_json.flag}),
        [{"a": True}, {"a": True, "b": False}],
        [{}, {"b": True}, {"a": True, "b": 1}, [], None],
    ),
    (
        typed_json.plain,
        [None, True, 1, -1.5, "x", [], [1, "x"], {"a": [None]}],
        [{1: 1}, b"x", {1, 2}, float("inf"), float("nan")],
    ),
]


@pytest.mark.parametrize(("reader", "good", "bad"), BOUNDS)
def test_a_reader_accepts_what_it_says_and_nothing_more(
    reader: typed_json.Reader, good: list[t.Any], bad: list[t.Any]
) -> None:
    """A reader returns an equal value (a list for a tuple) if it fits its type and bounds, and refuses all others."""
    for value in good:
        read = reader(value)
        assert read == value or (isinstance(value, tuple) and read == list(value))
        assert isinstance(read, bool) == isinstance(value, bool)
    assert [value for value in bad if not refuses(reader, value)] == []


def test_a_number_is_read_as_a_float() -> None:
    """number() reads a whole number as a float, so that equal answers are written equally."""
    assert isinstance(typed_json.number()(3), float)


def test_fields_that_no_reader_names_are_dropped() -> None:
    """A table has only the fields that its reader names, and the place of a wrong one is said in full."""
    reader = typed_json.open_table(
        {"a": typed_json.items(typed_json.open_table({"b": typed_json.flag}))},
        {"c": typed_json.by_name(typed_json.flag)},
    )
    assert reader({"a": [{"b": True, "x": 1}], "x": 2}) == {"a": [{"b": True}]}
    for value, place in (
        ({"a": [{"b": True}, {"b": 1}]}, "a[1].b"),
        ({"a": [{}]}, "a[0].b"),
        ({"a": [], "c": {"k": 1}}, "c.k"),
        ({"a": 1}, "a"),
    ):
        with pytest.raises(typed_json.Unreadable) as caught:
            reader(value)
        assert caught.value.place == place


def test_a_sparse_table_has_all_fields() -> None:
    """A missing field is read as null, or named if it needs a value. Unknown fields are dropped."""
    reader = typed_json.sparse_table({"a": typed_json.maybe(typed_json.flag, False), "b": typed_json.items(INNER)})
    for value in ({"b": []}, {"b": [], "a": None, "c": 1}):
        assert list(reader(value).items()) == [("a", False), ("b", [])]
    for value, words in (
        ({}, "b is missing"),
        ({"b": None}, "b is None, not a list of at most 131072"),
        ({"b": [{}]}, "b[0].b is missing"),
        ({"a": 1, "b": []}, "a is 1, not true or false"),
        ([], "it is a list, not a table"),
    ):
        with pytest.raises(typed_json.Unreadable) as caught:
            reader(value)
        assert str(caught.value) == words


def test_a_table_that_is_missing_has_no_entries() -> None:
    reader = typed_json.maybe_table({"a": typed_json.maybe(typed_json.whole(), 0)})
    for value, found in ((None, 0), ({}, 0), ({"a": 1, "b": 2}, 1)):
        assert reader(value) == {"a": found}
    with pytest.raises(typed_json.Unreadable) as caught:
        reader([])
    assert str(caught.value) == "it is a list, not a table"


def test_an_answer_has_a_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of exactly the greatest number of values is read; each list, table and scalar counts as one."""
    monkeypatch.setattr(typed_json, "VALUES", 5)
    fits = {"a": [1, 2], "b": None}
    assert typed_json.plain(fits) == fits
    with pytest.raises(typed_json.Unreadable) as caught:
        typed_json.plain([*fits, [1, 2], 3])
    assert str(caught.value) == "it is more than 5 values"


def test_an_answer_has_a_number_of_levels() -> None:
    """Lists and tables may be nested in 32 levels; a scalar below the last one is no level."""

    def nested(levels: int, kind: t.Callable[[t.Any], t.Any]) -> t.Any:
        value: t.Any = 1
        for _level in range(levels):
            value = kind(value)
        return value

    for kind in (lambda value: [value], lambda value: {"a": value}):
        assert not refuses(typed_json.plain, nested(32, kind))
        assert refuses(typed_json.plain, nested(33, kind))


INNER = typed_json.open_table({"b": typed_json.flag})


@pytest.mark.parametrize(
    "reader, value, words",
    [
        (typed_json.text(3), "four", "it is four, not a text of at most 3 characters"),
        (typed_json.text(), 1, "it is 1, not a text of at most 4096 characters"),
        (typed_json.text(3, 1), "", "it is '', not a text of 1 to 3 characters"),
        (typed_json.whole(), True, "it is True, not a whole number from 0 to 9007199254740992"),
        (typed_json.whole(0, 9), 10**400, "it is a very large number, not a whole number from 0 to 9"),
        (typed_json.number(), math.nan, "it is nan, not a number from 0 to 1e+12"),
        (typed_json.flag, "yes", "it is yes, not true or false"),
        (typed_json.one_of("a", "b"), [], "it is a list, not one of a, b"),
        (typed_json.items(typed_json.flag, 2), [True, 1], "[1] is 1, not true or false"),
        (typed_json.items(typed_json.flag, 2), [True] * 3, "it is a list of 3, not a list of at most 2"),
        (typed_json.by_name(typed_json.flag), {"a": 1}, "a is 1, not true or false"),
        (typed_json.open_table({"a": typed_json.items(INNER)}), {"a": [{"b": 0}]}, "a[0].b is 0, not true or false"),
        (typed_json.open_table({"a": typed_json.flag}), {}, "a is missing"),
        (typed_json.plain, math.inf, "it is a number that is not finite"),
        (typed_json.plain, {1: 2}, "it is a table with a name that is not a text"),
        (typed_json.plain, {"a": {2}}, "it is a value, which is not a plain value"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_the_expected_type(reader: typed_json.Reader, value: t.Any, words: str) -> None:
    with pytest.raises(typed_json.Unreadable) as caught:
        reader(value)
    assert str(caught.value) == words


def test_plain_values_are_bounded() -> None:
    deep: t.Any = "bottom"
    for dummy in range(typed_json.DEPTH):
        deep = [deep]
    assert typed_json.plain(deep) == deep
    with pytest.raises(typed_json.Unreadable) as caught:
        typed_json.plain([deep])
    assert str(caught.value) == "it is a table or list with more than 32 levels"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 77 + "..."),
        ("a\nb", "'a\\nb'"),
        (" x", "' x'"),
        ("x ", "'x '"),
        ("", "''"),
        (10**40 - 1, "9" * 40),
        (10**40, "a very large number"),
        (-(10**40), "a very large number"),
        (1.5, "1.5"),
        (True, "True"),
        (None, "None"),
        ([1], "a list"),
        ((1,), "a list"),
        ({1: 1}, "a table"),
        (b"x", "a value"),
    ],
)
def test_a_value_is_shown_on_a_short_line(value: t.Any, text: str) -> None:
    """A scalar is shown with at most 80 printable characters, and anything else by its kind."""
    assert typed_json.shown(value) == text


# --- tables without leftovers, and texts of JSON ---------------------------------------------------------------------

DIGITS = typed_json.matching(re.compile("[0-9]+"), "a number of digits")


@pytest.mark.parametrize(
    "reader, value, words",
    [
        (typed_json.table({"a": typed_json.flag}, {"b": typed_json.flag}), {"c": 1, "a": True},
         "c is not known. There are: a, b"),
        (typed_json.table({}), {"a": 1}, "a is not known"),
        (typed_json.table({}), {1: 1}, "1 is not known"),
        (typed_json.items(typed_json.table({"a": typed_json.flag})), [{"a": True}, {"a": True, "\n": 1}],
         r"[1].'\n' is not known. There are: a"),
        (typed_json.table({"a": typed_json.flag}), {"b": 1}, "a is missing"),
        (typed_json.table({"a": typed_json.flag}), {"a": 1, "b": 1}, "a is 1, not true or false"),
        (typed_json.table({}), [], "it is a list, not a table"),
        (typed_json.items(typed_json.flag, 2, 1), [], "it is a list of 0, not a list of 1 to 2"),
        (DIGITS, "1\n", r"it is '1\n', not a number of digits"),
        (DIGITS, 1, "it is 1, not a number of digits"),
        (typed_json.secret(3), "1234", "it is no text of at most 3 characters"),
        (typed_json.table({"password": typed_json.secret()}), {"password": 4711},
         "password is no text of at most 4096 characters"),
    ],
)  # fmt: skip
def test_unknown_fields_are_refused_and_no_error_shows_a_secret(
    reader: typed_json.Reader, value: t.Any, words: str
) -> None:
    """A table refuses what no field has read, after it has refused its fields, and no error shows a secret."""
    with pytest.raises(typed_json.Unreadable) as caught:
        reader(value)
    assert str(caught.value) == words


def test_a_table_without_leftovers_is_read() -> None:
    reader = typed_json.table({"a": typed_json.flag}, {"b": typed_json.anything, "c": typed_json.secret()})
    for value in ({"a": True}, {"a": True, "b": {"c": [1]}, "c": "x"}):
        assert reader(value) == value


@pytest.mark.parametrize("text", ["1", "null", '{"a": [1, 2.5, "x", true, null]}', ' {"a": {"a": 1}}\n', '"\\ud800"'])
def test_json_is_parsed(text: str) -> None:
    """A text and its bytes are read as Python's json module reads them, if the document is no odd one."""
    assert typed_json.parse(text) == typed_json.parse(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ('{"a": 1}'.encode("utf-16"), "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b'{"a": [NaN]}', "NaN is not a number of JSON"),
        (b"-Infinity", "-Infinity is not a number of JSON"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "an object has the key b twice"),
        (b'{"\\n": 1, "\\n": 1}', r"an object has the key '\n' twice"),
    ],
)
def test_odd_json_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(typed_json.NotJson) as caught:
        typed_json.parse(data)
    assert str(caught.value) == words


def test_the_last_of_duplicate_keys_counts_if_permitted() -> None:
    assert typed_json.parse(b'{"a": 1, "a": 2}', once=False) == {"a": 2}
    with pytest.raises(typed_json.NotJson, match="NaN is not a number of JSON"):
        typed_json.parse(b'{"a": NaN}', once=False)


def test_json_that_is_too_deep_or_has_a_huge_number_is_refused() -> None:
    """Neither nesting nor a number of many digits ends in another error than NotJson."""
    for data, words in ((b"[", "it is nested too deeply"), (b'{"a":', "it is nested too deeply"), (b"9", "Exceeds")):
        with pytest.raises(typed_json.NotJson, match=words):
            typed_json.parse(data * 1_000_000)


def test_a_number_beyond_all_bounds_is_no_number() -> None:
    with pytest.raises(typed_json.Unreadable) as caught:
        typed_json.number()(typed_json.parse(b"1e999"))
    assert str(caught.value) == "it is inf, not a number from 0 to 1e+12"


def test_an_object_is_asked_for() -> None:
    assert typed_json.parse_table(b'{"a": 1}') == {"a": 1}
    with pytest.raises(typed_json.NotJson) as caught:
        typed_json.parse_table(b"[]")
    assert str(caught.value) == "it is no JSON object"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_dumped_json_parses_equal(value: t.Any) -> None:
    assert typed_json.parse(json.dumps(value)) == value


@given(JSON)
def test_any_value_is_read_or_refused(value: t.Any) -> None:
    """No value makes a reader raise another error than Unreadable, whose text is one short line."""
    reader = typed_json.table(
        {"": typed_json.text(1)},
        {"a": typed_json.items(typed_json.whole()), "b": typed_json.by_name(typed_json.maybe(typed_json.number()))},
    )
    for one in (value, {"": "", "a": value}, {"": "", "b": value}, {"": value}):
        try:
            assert reader(one) == one
        except typed_json.Unreadable as error:
            assert str(error).isprintable() and len(str(error)) < 600


def test_equal_objects_of_a_shared_document_are_one():
    text = '[{"a": [1, "x"], "b": {"c": null}}, {"a": [1, "x"], "b": {"c": null}}, {"c": 1}, {"c": true}, {"c": 1.0}]'
    first, second, *others = typed_json.parse_shared(text)
    assert first is second and first["b"] is second["b"]
    assert [type(one["c"]) for one in others] == [int, bool, float]
    assert typed_json.parse_shared(text) == typed_json.parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    )
)
def test_a_shared_document_says_what_it_says_otherwise(value):
    text = json.dumps([value, value, {"a": value}])
    assert repr(typed_json.parse_shared(text)) == repr(typed_json.parse(text))


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"a": NaN}', "{", "[" * 100_000])
def test_a_shared_document_is_refused_as_others_are(text):
    messages = []
    for parse in (typed_json.parse, typed_json.parse_shared):
        with pytest.raises(typed_json.NotJson) as caught:
            parse(text)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
