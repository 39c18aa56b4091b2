# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An index of the items that each selector matches, updated when items, profiles and selectors change.

A change does not test all selectors on all items. Items with the same labels form a group, which is tested once. A
selector is tested only on groups that meet its demands, the labels that it needs at least (see `restrictions.py`). A
new group is tested only against selectors whose demands it meets.
"""

from __future__ import annotations

import collections
import typing as t

from ...base import selectors
from ..restrictions import Demand, Demands, demands
from .labels import LabelPairs, Labels, effective_labels

Item = t.TypeVar("Item", bound=t.Hashable)

_LabelSet = frozenset[tuple[str, str]]


class Match(t.NamedTuple):
    """A change: `item` begins to match the selector with the canonical text `selector`, or ceases to match it."""

    selector: str
    item: t.Any
    begins: bool


class _Group(t.Generic[Item]):
    """The items that have exactly these labels, and the selectors that match them."""

    __slots__ = ("items", "label_set", "labels", "matching")

    def __init__(self, label_set: _LabelSet, labels: Labels) -> None:
        self.label_set = label_set
        self.labels = labels
        self.items: dict[Item, None] = {}  # a set that keeps its order, so that results are deterministic
        self.matching: set[str] = set()

    def demands_met(self) -> t.Iterator[Demand]:
        """Yield the demands that these labels meet."""
        for label, value in self.labels.items():
            yield label, value
            yield label, None


class _Selector(t.Generic[Item]):
    __slots__ = ("demands", "groups", "parsed")

    def __init__(self, text: str) -> None:
        self.parsed = selectors.parse(text)
        self.demands: Demands = demands(self.parsed)
        self.groups: dict[_LabelSet, _Group[Item]] = {}


class LabelIndex(t.Generic[Item]):
    """An index of items, which are any hashable values, and selectors, which are canonical texts.

    Every change returns the matches that begin and end because of it. Unknown items, profiles and selectors can be
    removed, which changes nothing.
    """

    def __init__(self) -> None:
        self._own: dict[Item, tuple[LabelPairs, tuple[str, ...]]] = {}
        self._group_of: dict[Item, _LabelSet] = {}
        self._groups: dict[_LabelSet, _Group[Item]] = {}
        self._profiles: dict[str, Labels] = {}
        self._items_by_profile: dict[str, dict[Item, None]] = collections.defaultdict(dict)
        self._selectors: dict[str, _Selector[Item]] = {}
        # Selectors without demands are under None.
        self._selectors_by_demand: dict[t.Optional[Demand], set[str]] = collections.defaultdict(set)
        self._groups_by_demand: dict[Demand, dict[_LabelSet, None]] = collections.defaultdict(dict)

    # --- questions

    def items(self, selector: str) -> t.Iterator[Item]:
        """Yield all items that `selector` matches, each once. Raise KeyError for an unknown selector."""
        for group in self._selectors[selector].groups.values():
            yield from group.items

    def selectors(self, item: Item) -> frozenset[str]:
        """Return the texts of all selectors that match `item`. Raise KeyError for an unknown item."""
        return frozenset(self._groups[self._group_of[item]].matching)

    # --- changes

    def update_item(self, item: Item, labels: LabelPairs, profiles: tuple[str, ...] = ()) -> list[Match]:
        """Add an item, or replace its labels: its own, and those of `profiles` (see `effective_labels`).

        The tuples themselves are kept: items that share them take less memory.
        """
        self._forget_profiles(item)
        self._own[item] = (labels, profiles)
        for profile in self._own[item][1]:
            self._items_by_profile[profile][item] = None
        return self._regroup(item)

    def remove_item(self, item: Item) -> list[Match]:
        if item not in self._own:
            return []
        self._forget_profiles(item)
        del self._own[item]
        return self._regroup(item)

    def update_profile(self, name: str, labels: Labels) -> list[Match]:
        """Set the labels that items inherit from a profile, also items added later."""
        if self._profiles.get(name) == labels:
            return []
        self._profiles[name] = dict(labels)
        return self._regroup_all(name)

    def remove_profile(self, name: str) -> list[Match]:
        return self._regroup_all(name) if self._profiles.pop(name, None) else []

    def add_selector(self, text: str) -> list[Match]:
        """Add a selector. Raise SelectorError if `text` is not one."""
        if text in self._selectors:
            return []
        added: _Selector[Item] = _Selector(text)
        self._selectors[text] = added
        for demand in _places(added.demands):
            self._selectors_by_demand[demand].add(text)
        for label_set in self._candidates(added.demands):
            group = self._groups[label_set]
            if added.parsed.matches(group.labels):
                added.groups[label_set] = group
                group.matching.add(text)
        return [Match(text, item, True) for item in self.items(text)]

    def remove_selector(self, text: str) -> list[Match]:
        removed = self._selectors.pop(text, None)
        if removed is None:
            return []
        for demand in _places(removed.demands):
            _discard(self._selectors_by_demand, demand, text)
        for group in removed.groups.values():
            group.matching.discard(text)
        return [Match(text, item, False) for group in removed.groups.values() for item in group.items]

    # --- groups

    def _forget_profiles(self, item: Item) -> None:
        for profile in self._own.get(item, ((), ()))[1]:
            listed = self._items_by_profile[profile]
            listed.pop(item, None)
            if not listed:
                del self._items_by_profile[profile]

    def _regroup_all(self, profile: str) -> list[Match]:
        return [match for item in list(self._items_by_profile.get(profile, ())) for match in self._regroup(item)]

    def _regroup(self, item: Item) -> list[Match]:
        """Move an item to the group of its present labels, or out of all groups if it was removed."""
        before = self._group_of.get(item)
        labels: Labels = {}
        after: t.Optional[_LabelSet] = None
        if item in self._own:
            own, profiles = self._own[item]
            labels = effective_labels(own, profiles, self._profiles)
            after = frozenset(labels.items())
        if before == after:
            return []
        matched = self._leave(item, before) if before is not None else frozenset()
        matches = self._join(item, after, labels) if after is not None else frozenset()
        return [
            *(Match(text, item, False) for text in sorted(matched - matches)),
            *(Match(text, item, True) for text in sorted(matches - matched)),
        ]

    def _leave(self, item: Item, label_set: _LabelSet) -> frozenset[str]:
        group = self._groups[label_set]
        del group.items[item], self._group_of[item]
        if not group.items:
            del self._groups[label_set]
            for demand in group.demands_met():
                self._groups_by_demand[demand].pop(label_set, None)
                if not self._groups_by_demand[demand]:
                    del self._groups_by_demand[demand]
            for text in group.matching:
                del self._selectors[text].groups[label_set]
        return frozenset(group.matching)

    def _join(self, item: Item, label_set: _LabelSet, labels: Labels) -> frozenset[str]:
        group = self._groups.get(label_set)
        if group is None:
            group = self._groups[label_set] = _Group(label_set, labels)
            candidates = set(self._selectors_by_demand.get(None, ()))
            for demand in group.demands_met():
                self._groups_by_demand[demand][label_set] = None
                candidates |= self._selectors_by_demand.get(demand, set())
            for text in candidates:
                if self._selectors[text].parsed.matches(labels):
                    self._selectors[text].groups[label_set] = group
                    group.matching.add(text)
        group.items[item] = None
        self._group_of[item] = group.label_set
        return frozenset(group.matching)

    def _candidates(self, demanded: Demands) -> t.Iterable[_LabelSet]:
        if demanded is None:
            return self._groups
        found = (self._groups_by_demand.get(demand, {}) for demand in sorted(demanded, key=str))
        return dict.fromkeys(label_set for label_sets in found for label_set in label_sets)


def _places(demanded: Demands) -> t.Iterable[t.Optional[Demand]]:
    return (None,) if demanded is None else demanded


def _discard(sets: dict[t.Optional[Demand], set[str]], key: t.Optional[Demand], text: str) -> None:
    sets[key].discard(text)
    if not sets[key]:
        del sets[key]
