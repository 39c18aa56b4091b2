# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The selector language: Calico's verdicts, and a second, simpler implementation to compare with."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.selectors import SelectorError, parse
from hypothesis import given
from hypothesis import strategies as st

CASES = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "selectors.json").read_text(encoding="utf-8"))


def test_nothing_is_kept_of_a_selector_that_is_parsed_once() -> None:
    kept = selectors._parse.cache_info().currsize
    assert selectors.parse_once("a == 'kept?'").matches({"a": "kept?"})
    assert selectors._parse.cache_info().currsize == kept


def test_the_vectors_are_all_there() -> None:
    assert (len(CASES["parse"]), len(CASES["match"])) == (559, 2927)


@pytest.mark.parametrize("case", CASES["parse"], ids=lambda case: case["expr"][:40])
def test_parses_as_calico_does(case: dict) -> None:
    if case["valid"]:
        selector = parse(case["expr"])
        assert (selector.canonical, selector.uid) == (case["canonical"], case["uid"])
    else:
        with pytest.raises(SelectorError) as caught:
            parse(case["expr"])
        assert 0 <= caught.value.position <= len(case["expr"])


def test_matches_as_calico_does() -> None:
    wrong = [case for case in CASES["match"] if parse(case["expr"]).matches(case["labels"]) is not case["expect"]]
    assert wrong == []


# Cases of the grammar that Calico's vectors do not contain.
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('a in-\n {"x"}', None),  # refused: only spaces and tabs may be between `in` and `{`
        ('a not\r\n\f in {"x"}', 'a not in {"x"}'),  # line ends may separate the two words of `not in`
        ("has(\n a \r)", "has(a)"),
        ("global(\n)", "global()"),
        ("has(\va)", None),  # refused: a vertical tab is not white space
        ('a insid {"x"}', None),  # refused: "in" must be a whole word
        ('a in{"x"}', 'a in {"x"}'),
        ('a in_{"x"}', None),
        ('a notin{"x"}', 'a not in {"x"}'),
        ('a starts withx"', None),
        ("a contains'x'", 'a contains "x"'),
        ('a in {"x",,}', None),
        ('a in {"x" "y"}', None),
        ("has(a)has(b)", None),
        ("has(a) all()", None),
        ("hashas(a)", None),
        ("!", None),
        ("!!", None),
        ("! ! !all()", "!all()"),
        ("!\n!all()", None),
        ('"a" == "b"', None),
        ("a == '\"'", "a == '\"'"),
        ("a == '\n'", 'a == "\n"'),
        ("a == 'ü' ", 'a == "ü"'),
        ("has(ü)", None),
        ("a == 'x'\0", None),
        ("\ufeffall()", None),
        ("has(" + "a" * 512 + ")", "has(" + "a" * 512 + ")"),
        ("has(" + "a" * 513 + ")", None),
        ("a" * 512 + " == 'x'", "a" * 512 + ' == "x"'),
        ("a" * 513 + " == 'x'", None),
        # A label ends after 512 characters, and an operator may follow without a blank.
        ("a" * 512 + "contains 'x'", "a" * 512 + ' contains "x"'),
    ],
)
def test_edges_of_the_grammar(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(SelectorError):
            parse(text)
    else:
        assert parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (
            "rack = 'a'",
            5,
            'selector "rack = \'a\'" cannot be read at column 6: expected "==", found "= \'a\'".',
        ),
        (
            "rack == a",
            8,
            "selector 'rack == a' cannot be read at column 9: expected a string in quotes, found 'a'.",
        ),
        (
            "has(rack",
            0,
            "selector 'has(rack' cannot be read at column 1: expected has(label) with one label, without quotes, "
            "in lower case, found 'has(rack'.",
        ),
        (
            "has(a))",
            6,
            'selector \'has(a))\' cannot be read at column 7: expected "&&", "||" or the end, for no "(" is open '
            "here, found ')'.",
        ),
        (
            "(has(a)",
            7,
            'selector \'(has(a)\' cannot be read at column 8: expected "&&", "||" or ")", found the end of the text.',
        ),
        (
            "a == 'x",
            5,
            "selector \"a == 'x\" cannot be read at column 6: expected a closing ' for the string that begins here, "
            'found "\'x".',
        ),
        (
            "a b",
            2,
            "selector 'a b' cannot be read at column 3: expected an operator (==, !=, in, not in, contains, "
            "starts with, ends with), found 'b'.",
        ),
        (
            "a in {'x' 'y'}",
            10,
            'selector "a in {\'x\' \'y\'}" cannot be read at column 11: expected "," or "}", found "\'y\'}".',
        ),
        (
            "has(a) && ",
            10,
            "selector 'has(a) && ' cannot be read at column 11: expected a label, has(...), all(), global(), \"!\" or "
            '"(", found the end of the text.',
        ),
    ],
)
def test_errors_say_where_and_what(text: str, position: int, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.text, caught.value.position, str(caught.value)) == (text, position, message)


def test_a_long_text_is_shortened_in_the_error() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("has(a) && " * 1000 + "%")
    assert caught.value.position == 10000
    assert len(str(caught.value)) < 300


def test_a_selector_that_is_no_text_is_refused() -> None:
    with pytest.raises(SelectorError, match="expected a text"):
        parse(True)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 1000, 20_000])
def test_depth_is_not_limited_by_the_stack(depth: int) -> None:
    parentheses = parse("(" * depth + "has(a)" + ")" * depth)
    assert parentheses.canonical == "has(a)"
    negations = parse("!(" * depth + "has(a)" + ")" * depth)
    assert negations.canonical == "!" * depth + "has(a)"
    assert negations.matches({"a": ""}) is (depth % 2 == 0)
    nested = parse("has(a) && (has(b) || (" * depth + "has(c)" + "))" * depth)
    assert nested.matches({"a": "", "c": ""})
    assert not nested.matches({"b": ""})
    assert nested.labels == {"a", "b", "c"}
    with pytest.raises(SelectorError) as caught:
        parse("(" * depth)
    assert caught.value.position == depth


def test_the_tree_can_be_walked() -> None:
    selector = parse('a in {"y", "x"} && !(b == "1" || has(c))')
    assert selector.root == selectors.And(
        (
            selectors.LabelIn("a", ("x", "y")),
            selectors.Not(selectors.Or((selectors.LabelEquals("b", "1"), selectors.Has("c")))),
        )
    )
    assert [str(leaf) for leaf in selectors.leaves(selector.root)] == ['a in {"x", "y"}', 'b == "1"', "has(c)"]
    assert selector.labels == {"a", "b", "c"}


def test_equality_is_that_of_the_canonical_form() -> None:
    assert parse("a=='x'") == parse('(a == "x")')
    assert len({parse("a=='x'"), parse('(a == "x")'), parse("has(a)")}) == 2
    assert parse("has(a)") != "has(a)"
    assert str(parse(" has( a )")) == "has(a)"


# --- selectors compared with a second implementation, labels, replaced leaves, and errors ---------------------------
# A model is a nested tuple. `spell` writes it as text with random blanks and quotes, `holds` evaluates it in the slow
# and obvious way, and `flat` returns its canonical form by recursion.

LABELS = ["a", "b", "in", "not", "has", "all", "x.y/z-1"]
VALUES = ["", "v", "vw", "w", "it's", 'say "hi"', "ü"]

label_sets = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES))
leaf_models = st.one_of(
    st.just(("all",)),
    st.just(("global",)),
    st.tuples(st.just("has"), st.sampled_from(LABELS)),
    st.tuples(
        st.sampled_from(["==", "!=", "contains", "starts with", "ends with"]),
        st.sampled_from(LABELS),
        st.sampled_from(VALUES),
    ),
    st.tuples(
        st.sampled_from(["in", "not in"]), st.sampled_from(LABELS), st.lists(st.sampled_from(VALUES), max_size=4)
    ),
)
models = st.recursive(
    leaf_models,
    lambda inner: st.one_of(
        st.tuples(st.just("!"), inner),
        st.tuples(st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)


def holds(model: tuple, labels: dict[str, str]) -> bool:
    kind = model[0]
    if kind in ("all", "global"):
        return True
    if kind == "!":
        return not holds(model[1], labels)
    if kind == "&&":
        return all(holds(operand, labels) for operand in model[1])
    if kind == "||":
        return any(holds(operand, labels) for operand in model[1])
    present = model[1] in labels
    if kind == "has":
        return present
    value = labels.get(model[1], "")
    if kind == "==":
        return present and value == model[2]
    if kind == "!=":
        return not present or value != model[2]
    if kind == "contains":
        return present and value.find(model[2]) >= 0
    if kind == "starts with":
        return present and value[: len(model[2])] == model[2]
    if kind == "ends with":
        return present and value[len(value) - len(model[2]) :] == model[2] and len(value) >= len(model[2])
    if kind == "in":
        return present and any(value == member for member in model[2])
    assert kind == "not in"
    return not present or all(value != member for member in model[2])


def flat(model: tuple) -> str:
    def quote(value: str) -> str:
        return "'" + value + "'" if '"' in value else '"' + value + '"'

    kind = model[0]
    if kind in ("all", "global"):
        return kind + "()"
    if kind == "has":
        return "has(" + model[1] + ")"
    if kind == "!":
        return "!" + flat(model[1])
    if kind in ("&&", "||"):
        return "(" + f" {kind} ".join(flat(operand) for operand in model[1]) + ")"
    if kind in ("in", "not in"):
        members = sorted(set(model[2]), key=lambda member: member.encode())
        return f"{model[1]} {kind} " + "{" + ", ".join(map(quote, members)) + "}"
    return f"{model[1]} {kind} {quote(model[2])}"


@st.composite
def spelled(draw: st.DrawFn) -> tuple[tuple, str]:
    model = draw(models)

    def blank() -> str:
        return draw(st.sampled_from(["", " ", "\t", "  "]))

    def gap() -> str:
        return draw(st.sampled_from(["", " ", "\n", "\t \r\n"]))

    def quote(value: str) -> str:
        marks = [mark for mark in "'\"" if mark not in value]
        mark = draw(st.sampled_from(marks))
        return mark + value + mark

    def spell(part: tuple) -> str:
        kind = part[0]
        if kind in ("all", "global"):
            text = f"{kind}({gap()})"
        elif kind == "has":
            text = f"has({gap()}{part[1]}{gap()})"
        elif kind == "!":
            # The parentheses are needed because a "!" directly after a "!" cancels it instead of nesting.
            text = f"!{blank()}({spell(part[1])})"
        elif kind in ("&&", "||"):
            text = "(" + kind.join(spell(operand) for operand in part[1]) + ")"
        elif kind in ("in", "not in"):
            word = f"not{gap()}in" if kind == "not in" else "in"
            comma = draw(st.sampled_from([",", ""])) if part[2] else ""
            text = f"{part[1]} {word}{blank()}{{{blank()}{', '.join(map(quote, part[2]))}{comma}{blank()}}}"
        elif kind in ("==", "!="):
            text = f"{part[1]}{blank()}{kind}{blank()}{quote(part[2])}"
        else:
            text = f"{part[1]} {kind.replace(' ', gap())}{blank()}{quote(part[2])}"
        return blank() + text + blank()

    return model, spell(model)


@given(spelled(), label_sets)
def test_agrees_with_the_slow_evaluator(case: tuple[tuple, str], labels: dict[str, str]) -> None:
    model, text = case
    selector = parse(text)
    assert selector.canonical == flat(model)
    assert selector.matches(labels) is holds(model, labels)


@given(spelled(), label_sets)
def test_the_canonical_form_reads_back(case: tuple[tuple, str], labels: dict[str, str]) -> None:
    selector = parse(case[1])
    again = parse(selector.canonical)
    assert again.matches(labels) is selector.matches(labels)
    # "!(!x)" is written as "!!x", which is read as x, so only a second round is stable.
    assert parse(again.canonical).canonical == again.canonical
    if "!!" not in selector.canonical:
        assert again.canonical == selector.canonical


@given(st.text(alphabet="ab in\"'(){},!=&|has\tüall.notwh", max_size=40))
def test_any_text_gives_a_selector_or_an_error_with_a_position(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError as error:
        assert 0 <= error.position <= len(text)
        assert f"column {error.position + 1}" in str(error)
    else:
        assert parse(selector.canonical).matches({}) is selector.matches({})


@given(spelled(), label_sets, label_sets)
def test_labels_that_are_not_named_change_nothing(
    case: tuple[tuple, str], labels: dict[str, str], others: dict[str, str]
) -> None:
    selector = parse(case[1])
    named = {name: value for name, value in labels.items() if name in selector.labels}
    unnamed = {name: value for name, value in others.items() if name not in selector.labels}
    assert selector.matches({**named, **unnamed}) is selector.matches(labels)


def test_replaced_leaves_stand_where_the_others_stood() -> None:
    root = parse("!has(a) && (b == 'c' || !(has(d) && has(e)))").root
    seen: list[selectors.Leaf] = []

    def same(leaf: selectors.Leaf) -> selectors.Node:
        seen.append(leaf)
        return leaf

    assert selectors.replace_leaves(root, same) == root
    assert len(seen) == 4
    assert selectors.replace_leaves(root, lambda leaf: selectors.All()) != root


@pytest.mark.parametrize(
    ("text", "shown"),
    [("?" * 120, "?" * 120), ("?" * 121, "?" * 117 + "..."), ("?" * 24, "?" * 24)],
)
def test_an_error_shows_the_beginning_of_a_long_selector(text: str, shown: str) -> None:
    """An error shows at most 120 characters of the selector, and 24 of what cannot be read."""
    found = text if len(text) <= 24 else text[:21] + "..."
    with pytest.raises(selectors.SelectorError) as caught:
        selectors.parse(text)
    assert str(caught.value) == (
        f'selector \'{shown}\' cannot be read at column 1: expected a label, has(...), all(), global(), "!" or "(", '
        f"found '{found}'."
    )


def test_a_selector_is_a_text() -> None:
    """A value that is no text is refused from its first column on."""
    with pytest.raises(selectors.SelectorError) as caught:
        selectors.parse(7)  # type: ignore[arg-type]
    assert str(caught.value) == "selector '7' cannot be read at column 1: expected a text, found '7'."


@pytest.mark.parametrize("value", ["a\"'x", "\"'} || all() || a in {'"])
def test_no_value_ends_its_quotes(value: str) -> None:
    """A tree whose value has both kinds of quotes is no selector, because its text would mean something else."""
    for leaf in (selectors.LabelEquals("a", value), selectors.LabelIn("a", ("b", value))):
        with pytest.raises(ValueError) as caught:
            selectors.Selector(leaf)
        assert str(caught.value) == (
            f"the value {value!r} of a label cannot stand in a selector: it has both kinds of quotes, and one of them "
            "would end it. Use a value with at most one kind."
        )
    for quotes in ("it's", 'an "a"'):
        assert parse(str(selectors.LabelEquals("a", quotes))).root == selectors.LabelEquals("a", quotes)
