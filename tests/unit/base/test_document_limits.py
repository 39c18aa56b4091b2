# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of documents, in which values behind an alias count each time."""

from __future__ import annotations

import random
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import document_limits
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import (
    BeyondLimits,
    DocumentLimits,
)

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]
SMALL = DocumentLimits(1 << 20, 20, 5)


def measured(value: t.Any) -> tuple[int, int]:
    """Return (number of values and keys, levels) of a document; a scalar gives (1, 0), an empty list (1, 1)."""
    if isinstance(value, dict):
        inner = [part for item in value.items() for part in item]
    elif isinstance(value, list):
        inner = value
    else:
        return 1, 0
    sizes = [measured(item) for item in inner]
    return 1 + sum(count for count, dummy in sizes), 1 + max((depth for dummy, depth in sizes), default=0)


def grown(chance: random.Random, depth: int = 0) -> t.Any:
    """Return a random value in which an object may occur in several places, for which YAML writes aliases.

    `depth` is the level of the value. From level 7 on all values are scalars.
    """
    if depth > 6 or chance.random() < 0.3:
        return chance.choice(["x", 1, True, None, "10.0.0.0/8"])
    parts = [grown(chance, depth + 1) for dummy in range(chance.randint(0, 3))]
    parts += [part for part in parts if chance.random() < 0.4]
    return parts if chance.random() < 0.5 else {f"k{index}": part for index, part in enumerate(parts)}


@pytest.mark.parametrize("loader", LOADERS)
def test_a_document_passes_exactly_within_the_limits(loader: t.Any) -> None:
    chance = random.Random(14)
    verdicts = set()
    for dummy in range(400):
        text = yaml.safe_dump(grown(chance))
        values, depth = measured(yaml.safe_load(text))
        wanted = values <= SMALL.values and depth <= SMALL.depth
        verdicts.add(wanted)
        try:
            document_limits.check_yaml(text, loader, SMALL)
            document_limits.check_value(yaml.safe_load(text), DocumentLimits(1, 2 * SMALL.values, SMALL.depth))
        except BeyondLimits:
            assert not wanted, text
        else:
            assert wanted, text
    assert verdicts == {True, False}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("a: &a []\nb: [[[*a]]]\n", True),
        ("a: &a []\nb: [[[[*a]]]]\n", False),
        ("a: &a [[]]\nb: [[*a]]\n", True),
        ("a: &a [[], 1]\nb: [[[*a]]]\n", False),
        ("a: &a {}\nb: {c: {d: {e: *a}}}\n", True),
        ("a: &a {}\nb: {c: {d: {e: {f: *a}}}}\n", False),
    ],
)
def test_levels_behind_an_alias_count(loader: t.Any, text: str, passes: bool) -> None:
    try:
        document_limits.check_yaml(text, loader, SMALL)
    except BeyondLimits:
        assert not passes
    else:
        assert passes


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[[[[[1]]]]]]", "is nested deeper than 5 levels. No resource needs more than about ten: write it flat."),
        ("a: &a [1, 2]\nb: [*a, *a, *a, *a, *a, *a]\n",
         "has more than 20 values, those of its aliases counted each time. Split it into several files, and write out"
         " what its aliases stand for."),
        ("&a [*a]", "has alias *a inside of what it stands for. Write it out."),
        (f"a: {'9' * 65}", "has a number of 65 characters, and 64 are the most. Write it in quotes if it is text."),
    ],
)  # fmt: skip
def test_each_exceeded_limit_names_its_reason_and_line(loader: t.Any, text: str, said: str) -> None:
    with pytest.raises(BeyondLimits) as refused:
        document_limits.check_yaml(text, loader, SMALL)
    assert str(refused.value) == said
    assert refused.value.line == text.count("\n", 0, text.rstrip().rfind("\n") + 1) + 1


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    "text", [f"a: {'9' * 64}", f"a: '{'9' * 99}'", f"a: 0{'f1' * 64}", "a: *b", "&a x: 1\n---\n*a : 2"]
)
def test_texts_within_the_limits_are_left_to_the_loader(loader: t.Any, text: str) -> None:
    document_limits.check_yaml(text, loader, SMALL)


@pytest.mark.parametrize("text", ["x", "\u20ac", "\U0001f600", "\ud800"], ids=["one", "three", "four", "surrogate"])
def test_the_size_of_a_text_is_that_of_its_bytes(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    fits, beyond = (f'"{text * 10}"', DocumentLimits(10 * size + 2, 20, 5)), DocumentLimits(10 * size + 1, 20, 5)
    assert document_limits.read_json(*fits) == text * 10
    with pytest.raises(BeyondLimits, match="is larger than"):
        document_limits.read_json(fits[0], beyond)
    if text.isprintable():
        document_limits.check_yaml(fits[0], yaml.SafeLoader, fits[1])
    with pytest.raises(BeyondLimits, match="is larger than"):
        document_limits.check_yaml(fits[0], yaml.SafeLoader, beyond)


def test_json_beyond_a_limit_is_refused_with_its_reason() -> None:
    assert document_limits.read_json('{"a": [1, 2.5, "]]]]]]]]"], "b": null}') == {"a": [1, 2.5, "]]]]]]]]"], "b": None}
    assert len(document_limits.read_json(f"[{', '.join('0' * 19)}]", SMALL)) == 19
    for text, said in (
        ('[[\n[[[["', "is nested deeper than 5 levels. No resource needs more than about ten: write it flat."),
        ('{"a": 1, "a": 1}', "has key a twice. Remove one of them."),
        ('{"\\n": 1, "\\n": 1}', "has key '\\n'... twice. Remove one of them."),
        (f"[{'9' * 65}]", "has a number of 65 characters, and 64 are the most. Write it in quotes if it is text."),
        (f"[0.{'9' * 65}]", "has a number of 67 characters, and 64 are the most. Write it in quotes if it is text."),
        (
            f"[{', '.join('0' * 20)}]",
            "has more than 20 values, those of its aliases counted each time. Split it into several files, and write "
            "out what its aliases stand for.",
        ),
        ("[NaN]", "has NaN, which JSON has not. Write a number."),
        (f'"{"x" * (1 << 20)}"', "is larger than 1 MiB. Split it into several files."),
    ):
        with pytest.raises(BeyondLimits) as refused:
            document_limits.read_json(text, SMALL)
        assert str(refused.value) == said


def test_a_value_that_holds_itself() -> None:
    value: list[t.Any] = []
    value.append(value)
    with pytest.raises(BeyondLimits, match="is nested deeper than 64 levels"):
        document_limits.check_value(value)


@pytest.mark.parametrize("loader", LOADERS)
def test_the_depth_of_an_anchor_is_its_own(loader: t.Any) -> None:
    """An alias counts the levels of what it stands for, however deep other parts of the document are."""
    text = "- [[[[1]]]]\n- &a [[2]]\n- [[*a]]\n"
    document_limits.check_yaml(text, loader, DocumentLimits(1 << 20, 99, 5))
    with pytest.raises(BeyondLimits):
        document_limits.check_yaml(text, loader, DocumentLimits(1 << 20, 99, 4))
    nested = "- &a [[[2]]]\n- [*a]\n"
    document_limits.check_yaml(nested, loader, DocumentLimits(1 << 20, 99, 5))
    with pytest.raises(BeyondLimits):
        document_limits.check_yaml(nested, loader, DocumentLimits(1 << 20, 99, 4))


@pytest.mark.parametrize("text", ["[" * 5 + "]" * 5, '{"a": ' * 5 + "1" + "}" * 5, "[[], []]", '["[[[[[[", {}]'])
def test_json_of_exactly_the_greatest_depth_is_read(text: str) -> None:
    """JSON of five levels is read within a limit of five, and six are refused; brackets in a text are no level."""
    document_limits.read_json(text, SMALL)
    with pytest.raises(BeyondLimits) as caught:
        document_limits.read_json(f"[\n{'[' * 5}{']' * 5}]", SMALL)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("limits", "rules"),
    [
        (
            document_limits.RESOURCES,
            ["is larger than 10 MiB.", "is nested deeper than 64 levels.", "has more than 1,000,000 values,"],
        ),
        (
            document_limits.LOCKFILE,
            ["is larger than 64 MiB.", "is nested deeper than 64 levels.", "has more than 10,000,000 values,"],
        ),
    ],
)
def test_the_limits_of_resources_and_of_the_lockfile(limits: DocumentLimits, rules: list[str]) -> None:
    """An error names the limit of its kind of document."""
    errors = [make(limits) for make in (document_limits.too_large, document_limits.too_deep, document_limits.too_many)]
    for error, rule in zip(errors, rules):
        assert error.rule.startswith(rule)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "values", "depth"),
    [
        ("a: &a 1\nb: *a\n", 5, 1),  # an alias of a scalar is one value
        ("[*b]", 2, 1),  # so is one of nothing, which the loader refuses
        ("- &a [[1]]\n- &b [*a]\n- [[*b]]\n", 14, 6),  # the levels behind an alias count behind another one, too
    ],
)
def test_an_alias_counts_the_values_and_levels_of_its_target(loader: t.Any, text: str, values: int, depth: int) -> None:
    """An alias adds the values and the levels of what it stands for, no more and no less; one of nothing is a value."""
    document_limits.check_yaml(text, loader, DocumentLimits(1 << 20, values, depth))
    for less in (DocumentLimits(1 << 20, values - 1, depth), DocumentLimits(1 << 20, values, depth - 1)):
        with pytest.raises(BeyondLimits):
            document_limits.check_yaml(text, loader, less)


@pytest.mark.parametrize("value", [[1, 2, [3, 4]], {"a": 1, "b": 2, "c": (3, 4)}])
def test_the_values_of_a_value_are_counted(value: t.Any) -> None:
    """A built value of six values, keys aside, in two levels is within limits of six and two, and not of one less."""
    document_limits.check_value(value, DocumentLimits(1, 6, 2))
    for less in (DocumentLimits(1, 5, 2), DocumentLimits(1, 6, 1)):
        with pytest.raises(BeyondLimits):
            document_limits.check_value(value, less)


def test_lists_beside_each_other_are_not_nested() -> None:
    """A list that is closed is no level for those after it."""
    text = f"[{'[], ' * 9}[]]"
    assert document_limits.read_json(text, DocumentLimits(1 << 20, 20, 2)) == [[]] * 10


@pytest.mark.parametrize(
    ("key", "shown"), [("k" * 80, "k" * 80), ("k" * 81, f"'{'k' * 60}'..."), ("\n" + "k" * 70, f"'\\n{'k' * 59}'...")]
)
def test_a_repeated_key_is_shown_in_a_few_characters(key: str, shown: str) -> None:
    """A key of at most 80 printable characters is shown as it is, and the first 60 characters of another one."""
    assert document_limits.repeated(key, 3).rule == f"has key {shown} twice."
