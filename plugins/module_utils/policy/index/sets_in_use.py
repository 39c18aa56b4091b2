# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sets that the rules in use need, with members from endpoints of all nodes and network sets, kept up to date."""

from __future__ import annotations

import collections
import typing as t

from ..model import Endpoint, NamedPortKey, PolicyNetworkSet, PolicyProfile, SetKey
from ..sets.set_members import MemberChange, SetMembers, contribution
from .label_index import LabelIndex, Match

#: The identity of an endpoint or network set: its kind and name, or another tuple (see PolicyIndex.update_endpoint).
Id = tuple[str, ...]


class SetsInUse:
    """The sets that the rules in use need.

    Endpoints and network sets are the owners of members. Unknown keys and names can be removed, which changes nothing.
    """

    def __init__(self) -> None:
        self._owners: dict[Id, t.Union[Endpoint, PolicyNetworkSet]] = {}
        self._index: LabelIndex[Id] = LabelIndex()  # the selectors of rules, matched against all owners
        self._members = SetMembers()
        self._users: collections.Counter[SetKey] = collections.Counter()
        self._filled_by: dict[str, dict[SetKey, None]] = {}  # from selector to the sets that it fills
        self._taken: frozenset[SetKey] = frozenset()

    def update_owner(self, key: Id, owner: t.Union[Endpoint, PolicyNetworkSet]) -> None:
        """Add an endpoint or network set, or replace the one of this key."""
        if self._owners.get(key) == owner:
            self._owners[key] = owner  # The equal one before it need not stay in memory.
            return
        self._withdraw(key)
        self._owners[key] = owner
        self._index.update_item(key, owner.labels, owner.profiles)
        for set_key in self._sets_of(key):
            self._members.add(set_key, contribution(owner, set_key))

    def remove_owner(self, key: Id) -> None:
        self._withdraw(key)
        self._index.remove_item(key)
        self._owners.pop(key, None)

    def _withdraw(self, key: Id) -> None:
        if key in self._owners:
            for set_key in self._sets_of(key):
                self._members.remove(set_key, contribution(self._owners[key], set_key))

    def _sets_of(self, key: Id) -> list[SetKey]:
        return [set_key for selector in self._index.selectors(key) for set_key in self._filled_by[selector]]

    def update_profile(self, profile: PolicyProfile) -> None:
        """Add or replace a profile, whose labels the owners that list it inherit."""
        self._follow(self._index.update_profile(profile.name, dict(profile.labels)))

    def remove_profile(self, name: str) -> None:
        self._follow(self._index.remove_profile(name))

    def _follow(self, matches: t.Iterable[Match]) -> None:
        for selector, key, begins in matches:
            for set_key in self._filled_by[selector]:
                change = self._members.add if begins else self._members.remove
                change(set_key, contribution(self._owners[key], set_key))

    def use(self, keys: t.Iterable[SetKey]) -> None:
        """Count one more user of each of these sets, and create and fill those that are new.

        Raise SelectorError at the first key whose selector is not valid.
        """
        for key in keys:
            if key not in self._users:
                self._create(key)
            self._users[key] += 1

    def release(self, keys: t.Iterable[SetKey]) -> None:
        """Count one user less of each of these sets, which must have one, and delete those without users."""
        for key in keys:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._delete(key)

    def _create(self, key: SetKey) -> None:
        selector = _selector_of(key)
        self._index.add_selector(selector)  # raises SelectorError before anything is changed
        self._members.create(key)
        self._filled_by.setdefault(selector, {})[key] = None
        for owner in self._index.items(selector):
            self._members.add(key, contribution(self._owners[owner], key))

    def _delete(self, key: SetKey) -> None:
        self._members.delete(key)
        selector = _selector_of(key)
        del self._filled_by[selector][key]
        if not self._filled_by[selector]:
            del self._filled_by[selector]
            self._index.remove_selector(selector)

    def take_changes(self) -> tuple[frozenset[SetKey], frozenset[SetKey], dict[SetKey, MemberChange]]:
        """Return (new sets, deleted sets, changes of the members of all other sets) since the last call.

        No set may have been deleted and created again since then: its lost members would be missing.
        """
        before, self._taken = self._taken, frozenset(self._members)
        changes = {key: change for key, change in self._members.take_changes().items() if key in before}
        return self._taken - before, before - self._taken, changes

    def by_selector(self) -> dict[str, tuple[str, ...]]:
        """Return a mapping from canonical selector to the sorted addresses and CIDRs of its set."""
        return {key: t.cast(t.Any, self._members.members(key)) for key in self._members if isinstance(key, str)}

    def by_named_port(self) -> dict[NamedPortKey, tuple[tuple[str, int], ...]]:
        """Return a mapping from named port to the sorted (address, port) pairs of its set."""
        return {
            key: t.cast(t.Any, self._members.members(key)) for key in self._members if isinstance(key, NamedPortKey)
        }


def _selector_of(key: SetKey) -> str:
    return key if isinstance(key, str) else key.selector or "all()"
