# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses in sets, counted by how many owners bring each: what two have stays while one of them has it."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ...base.addresses import family_of
from ..model import Endpoint, NamedPortKey, PolicyNetworkSet, SetKey

#: An address without prefix length or a CIDR; in the set of a named port an address with a port.
Member = t.Union[str, tuple[str, int]]


@dataclasses.dataclass(frozen=True)
class MemberChange:
    """What came to a set and what left it; nothing is in both."""

    added: frozenset[Member] = frozenset()
    removed: frozenset[Member] = frozenset()


def contribution(owner: t.Union[Endpoint, PolicyNetworkSet], key: SetKey) -> frozenset[Member]:
    """What an endpoint or network set brings to a set whose selector matches it."""
    if isinstance(owner, PolicyNetworkSet):
        return frozenset() if isinstance(key, NamedPortKey) else frozenset(map(without_needless_length, owner.nets))
    if isinstance(key, NamedPortKey):
        ports = {port.port for port in owner.ports if (port.name, port.protocol) == (key.name, key.protocol)}
        return frozenset((address, port) for address in owner.addresses for port in ports)
    return frozenset(owner.addresses)


def without_needless_length(net: str) -> str:
    """A range of one as its address: in a set both are the same member."""
    address, dummy, length = net.partition("/")
    return address if length == ("128" if family_of(address) == 6 else "32") else net


class SetMembers:
    """The members of the sets in use. Changes gather until they are taken."""

    def __init__(self) -> None:
        self._counts: dict[SetKey, collections.Counter[Member]] = {}
        self._sorted: dict[SetKey, tuple[Member, ...]] = {}
        self._before: dict[SetKey, dict[Member, bool]] = {}

    def __iter__(self) -> t.Iterator[SetKey]:
        return iter(self._counts)

    def create(self, key: SetKey) -> None:
        """An empty set."""
        self._counts[key] = collections.Counter()

    def delete(self, key: SetKey) -> None:
        del self._counts[key]
        self._sorted.pop(key, None)
        self._before.pop(key, None)

    def add(self, key: SetKey, members: t.Iterable[Member]) -> None:
        """One owner more of each."""
        counts = self._counts[key]
        for member in members:
            if not counts[member]:
                self._touch(key, member, False)
            counts[member] += 1

    def remove(self, key: SetKey, members: t.Iterable[Member]) -> None:
        """One owner less of each."""
        counts = self._counts[key]
        for member in members:
            counts[member] -= 1
            if not counts[member]:
                del counts[member]
                self._touch(key, member, True)

    def members(self, key: SetKey) -> tuple[Member, ...]:
        """Sorted by their text."""
        if key not in self._sorted:
            self._sorted[key] = tuple(sorted(self._counts[key]))
        return self._sorted[key]

    def take_changes(self) -> dict[SetKey, MemberChange]:
        """What changed in the sets that are there since this was last called."""
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
        self._sorted.pop(key, None)
