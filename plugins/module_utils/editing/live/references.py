# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What live documents refer to: the tiers of policies, and the policies in tiers that go."""

from __future__ import annotations

import typing as t

from ...resources.api import DEFAULT_TIER
from ..change.change_plan import ChangeRefused
from ..change.resource_key import ResourceKey
from .live_plan import DocumentChange, tier_of

_TIER = "Tier"
_NAMED = 5


class Tiers(t.NamedTuple):
    """What the datastore has of the tiers that a change is about.

    `live` and `inventory` are the mod revisions of those that exist, by name. `used` are the live policies in each of
    the tiers that go, at `revision`.
    """

    live: t.Mapping[str, int]
    inventory: t.Mapping[str, int]
    used: t.Mapping[str, t.Collection[ResourceKey]]
    revision: int = 0


def referred(changes: t.Iterable[DocumentChange]) -> set[str]:
    """Return the tiers of the policies that are written, without the one that always exists."""
    return {tier_of(one.value) for one in changes} - {"", DEFAULT_TIER}


def removed(changes: t.Iterable[DocumentChange]) -> set[str]:
    """Return the tiers that are deleted."""
    names = {one.key.name for one in changes if one.key.kind == _TIER and one.value is None}
    return names - {DEFAULT_TIER}


def made(changes: t.Iterable[DocumentChange]) -> set[str]:
    """Return the tiers that are written."""
    return {one.key.name for one in changes if one.key.kind == _TIER and one.value is not None}


def check(changes: t.Sequence[DocumentChange], tiers: Tiers) -> None:
    """Raise ChangeRefused, with names, if a policy would be in a tier that does not exist."""
    gone, new = removed(changes), made(changes)
    known = (set(tiers.live) - gone) | set(tiers.inventory) | new
    for one in changes:
        tier = tier_of(one.value)
        if tier and tier != DEFAULT_TIER and tier not in known:
            why = "this change deletes" if tier in gone else "exists neither live nor in the inventory"
            raise ChangeRefused(f"{one.key} is in tier {tier}, which {why}. Apply the Tier before it, or with it")
    changed = {one.key for one in changes}
    for tier in sorted(gone - set(tiers.inventory)):
        users = [str(key) for key in sorted(tiers.used.get(tier, ())) if key not in changed]
        if users:
            more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
            raise ChangeRefused(
                f"Tier({tier}) is not deleted, because live policies are in it: {', '.join(users[:_NAMED])}{more}. "
                "Delete them first, or give them another tier"
            )
