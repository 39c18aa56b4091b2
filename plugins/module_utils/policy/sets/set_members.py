# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of sets, with the number of owners of each: a member remains as long as one owner has it."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import typing as t

from ...base.addresses import family_of
from ..model import Endpoint, NamedPortKey, PolicyNetworkSet, SetKey

#: The least number of members for each one that came or went, if these are put in place one by one.
_FEW = 20

#: A CIDR, or a single address without a prefix length; in the set of a named port, an (address, port) pair.
Member = t.Union[str, tuple[str, int]]


@dataclasses.dataclass(frozen=True)
class MemberChange:
    """The members that were added to a set and those that were removed."""

    added: frozenset[Member] = frozenset()
    removed: frozenset[Member] = frozenset()


def contribution(owner: t.Union[Endpoint, PolicyNetworkSet], key: SetKey) -> frozenset[Member]:
    """Return the members that an endpoint or network set adds to the set `key`, whose selector matches it.

    Members of a named port are (address, port) pairs, others are addresses and CIDRs.
    """
    if isinstance(owner, PolicyNetworkSet):
        return frozenset() if isinstance(key, NamedPortKey) else frozenset(map(without_needless_length, owner.nets))
    if isinstance(key, NamedPortKey):
        ports = {port.port for port in owner.ports if (port.name, port.protocol) == (key.name, key.protocol)}
        return frozenset((address, port) for address in owner.addresses for port in ports)
    return frozenset(owner.addresses)


def without_needless_length(net: str) -> str:
    """Return a CIDR of one address (/32 or /128) as that address, which is the same member; others unchanged."""
    address, dummy, length = net.partition("/")
    return address if length == ("128" if family_of(address) == 6 else "32") else net


class SetMembers:
    """The members of the sets in use. Changes accumulate until `take_changes`. An unknown set raises KeyError."""

    def __init__(self) -> None:
        self._counts: dict[SetKey, collections.Counter[Member]] = {}
        self._sorted: dict[SetKey, tuple[Member, ...]] = {}  # as `members` returned them
        self._since: dict[SetKey, set[Member]] = {}  # those that came or went since then
        self._before: dict[SetKey, dict[Member, bool]] = {}

    def __iter__(self) -> t.Iterator[SetKey]:
        return iter(self._counts)

    def create(self, key: SetKey) -> None:
        """Create an empty set. A set of this key must not exist: its members would be lost."""
        self._counts[key] = collections.Counter()

    def delete(self, key: SetKey) -> None:
        del self._counts[key]
        self._sorted.pop(key, None)
        self._since.pop(key, None)
        self._before.pop(key, None)

    def add(self, key: SetKey, members: t.Iterable[Member]) -> None:
        """Count one more owner of each of `members`."""
        counts = self._counts[key]
        for member in members:
            if not counts[member]:
                self._touch(key, member, False)
            counts[member] += 1

    def remove(self, key: SetKey, members: t.Iterable[Member]) -> None:
        """Count one owner less of each of `members`, which must have one. A member without owners leaves the set."""
        counts = self._counts[key]
        for member in members:
            counts[member] -= 1
            if not counts[member]:
                del counts[member]
                self._touch(key, member, True)

    def members(self, key: SetKey) -> tuple[Member, ...]:
        """Return the members of a set, sorted."""
        since = self._since.pop(key, None)
        if key not in self._sorted:
            self._sorted[key] = tuple(sorted(self._counts[key]))
        elif since:
            self._sorted[key] = self._put_in_place(self._sorted[key], since, self._counts[key])
        return self._sorted[key]

    @staticmethod
    def _put_in_place(
        known: tuple[Member, ...], since: t.AbstractSet[Member], present: t.Container[Member]
    ) -> tuple[Member, ...]:
        """Return `known` with those of `since` that are present and without the others, sorted like `known`."""
        found: list[t.Any] = list(known)
        for member in since:
            place = bisect.bisect_left(found, member)
            there = place < len(found) and found[place] == member
            if there and member not in present:
                del found[place]
            elif not there and member in present:
                found.insert(place, member)
        return tuple(found)

    def take_changes(self) -> dict[SetKey, MemberChange]:
        """Return a mapping from set to the change of its members since the last call.

        Sets without a change, and deleted sets, are left out. Members of new sets count as added.
        """
        changes = {}
        for key, before in self._before.items():
            counts = self._counts[key]
            change = MemberChange(
                frozenset(member for member, was in before.items() if not was and member in counts),
                frozenset(member for member, was in before.items() if was and member not in counts),
            )
            if change.added or change.removed:
                changes[key] = change
        self._before = {}
        return changes

    def _touch(self, key: SetKey, member: Member, was: bool) -> None:
        self._before.setdefault(key, {}).setdefault(member, was)
        known = self._sorted.get(key)
        if known is None:
            return
        since = self._since.setdefault(key, set())
        since.add(member)
        if len(since) * _FEW > len(known):
            del self._sorted[key], self._since[key]  # To sort all of them anew takes less time.
