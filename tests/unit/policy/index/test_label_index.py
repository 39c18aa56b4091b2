# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index after any history of changes, compared with testing every selector on every item."""

from __future__ import annotations

import json
import pathlib
import random

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.label_index import LabelIndex, Match
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.restrictions import demands
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.policy.random_policies import LABELS, random_selector

CASES = json.loads(
    (pathlib.Path(__file__).parent.parent.parent / "cases" / "selectors.json").read_text(encoding="utf-8")
)

ITEMS = st.sampled_from(["a", "b", "c", "d"])
PROFILES = st.sampled_from(["p", "q"])
LABEL_MAPS = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LABELS.items()})
SELECTORS = st.randoms(use_true_random=False).map(random_selector)


class Matching(RuleBasedStateMachine):
    """The same random history for the index, for a plain dictionary, and for a listener to reported matches."""

    def __init__(self) -> None:
        super().__init__()
        self.index: LabelIndex[str] = LabelIndex()
        self.items: dict[str, tuple[dict, list]] = {}
        self.profiles: dict[str, dict] = {}
        self.selectors: set[str] = set()
        self.heard: set[tuple[str, str]] = set()

    def hear(self, matches: list[Match]) -> None:
        for selector, item, begins in matches:
            # No match is reported to begin or end twice.
            assert ((selector, item) in self.heard) is not begins
            (self.heard.add if begins else self.heard.remove)((selector, item))

    @rule(item=ITEMS, labels=LABEL_MAPS, profiles=st.lists(PROFILES, max_size=2))
    def update_item(self, item: str, labels: dict, profiles: list) -> None:
        self.items[item] = (labels, profiles)
        self.hear(self.index.update_item(item, tuple(labels.items()), tuple(profiles)))

    @rule(item=ITEMS)
    def remove_item(self, item: str) -> None:
        self.items.pop(item, None)
        self.hear(self.index.remove_item(item))

    @rule(name=PROFILES, labels=LABEL_MAPS)
    def update_profile(self, name: str, labels: dict) -> None:
        self.profiles[name] = labels
        self.hear(self.index.update_profile(name, labels))

    @rule(name=PROFILES)
    def remove_profile(self, name: str) -> None:
        self.profiles.pop(name, None)
        self.hear(self.index.remove_profile(name))

    @rule(selector=SELECTORS)
    def add_selector(self, selector: str) -> None:
        self.selectors.add(selector)
        self.hear(self.index.add_selector(selector))

    @rule(selector=st.one_of(SELECTORS, st.just("all()")), pick=st.randoms(use_true_random=False))
    def remove_selector(self, selector: str, pick: random.Random) -> None:
        selector = pick.choice(sorted(self.selectors) or [selector])
        self.selectors.discard(selector)
        self.hear(self.index.remove_selector(selector))

    def labels_of(self, item: str) -> dict:
        own, profiles = self.items[item]
        inherited: dict = {}
        for profile in profiles:
            for label, value in self.profiles.get(profile, {}).items():
                inherited.setdefault(label, value)
        return {**inherited, **own}

    @invariant()
    def everybody_asked_says_the_same(self) -> None:
        expected = {
            (selector, item)
            for selector in self.selectors
            for item in self.items
            if selectors.parse(selector).matches(self.labels_of(item))
        }
        assert self.heard == expected
        assert {(text, item) for text in self.selectors for item in self.index.items(text)} == expected
        assert {(text, item) for item in self.items for text in self.index.selectors(item)} == expected

    @invariant()
    def nothing_is_kept_of_what_is_gone(self) -> None:
        if not self.items:
            assert not any((self.index._groups, self.index._groups_by_demand, self.index._items_by_profile))
        known = self.index._groups.keys()
        assert all(selector.groups.keys() <= known for selector in self.index._selectors.values())
        if not self.selectors:
            assert not self.index._selectors_by_demand


TestMatching = Matching.TestCase
TestMatching.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize(
    ("selector", "demanded"),
    [
        ("a == 'x'", {("a", "x")}),
        ("a in {'x', 'y'}", {("a", "x"), ("a", "y")}),
        ("a in {}", set()),
        ("has(a)", {("a", None)}),
        ("a starts with 'x'", {("a", None)}),
        ("a != 'x'", None),
        ("!(a != 'x')", {("a", "x")}),
        ("!(a not in {'x'})", {("a", "x")}),
        ("!has(a)", None),
        ("all()", None),
        ("!all()", set()),
        # A conjunction has the demands of its cheapest operand, a disjunction those of all, None if one has none.
        ("has(a) && b == 'x' && c != 'y'", {("b", "x")}),
        ("has(a) || b == 'x'", {("a", None), ("b", "x")}),
        ("has(a) || b != 'x'", None),
        ("!(a != 'x' && b != 'y')", {("a", "x"), ("b", "y")}),
        ("!(a != 'x' || !has(b))", {("a", "x")}),
    ],
)
def test_demands_of_a_selector_are_labels_that_each_match_needs(selector: str, demanded: set | None) -> None:
    assert demands(selectors.parse(selector)) == (None if demanded is None else frozenset(demanded))


def met(demanded: frozenset | None, labels: dict) -> bool:
    return demanded is None or any(label in labels and value in (None, labels[label]) for label, value in demanded)


def test_matching_labels_in_all_calico_cases_meet_the_demands() -> None:
    for case in CASES["match"]:
        if case["expect"]:
            assert met(demands(selectors.parse(case["expr"])), case["labels"]), case


@settings(max_examples=60, deadline=None)
@given(SELECTORS, LABEL_MAPS)
def test_random_labels_that_match_meet_the_demands(text: str, labels: dict) -> None:
    selector = selectors.parse(text)
    if selector.matches(labels):
        assert met(demands(selector), labels)


def test_a_selector_as_deep_as_it_is_long_is_no_matter() -> None:
    text = "!(" * 20_000 + "a == 'x'" + ")" * 20_000
    assert demands(selectors.parse(text)) == frozenset({("a", "x")})


def test_only_those_are_asked_that_may_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only likely matches are evaluated: 1,000 selectors by value over 1,000 label sets take 1,000 evaluations."""
    index: LabelIndex[int] = LabelIndex()
    for number in range(1000):
        index.update_item(number, (("name", str(number)), ("rack", "r")))
    asked = []
    matches = selectors.Selector.matches
    monkeypatch.setattr(selectors.Selector, "matches", lambda self, labels: asked.append(1) or matches(self, labels))
    for number in range(1000):
        index.add_selector(f'(name == "{number}" && has(rack))')
    assert len(asked) == 1000
    index.update_item(5, (("name", "6"), ("rack", "s")))
    assert len(asked) == 1001
    # An item with the same labels as another one needs no evaluation.
    index.update_item(7, (("name", "8"), ("rack", "r")))
    assert len(asked) == 1001
