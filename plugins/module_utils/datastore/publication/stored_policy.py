# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's policy by the states that nodes have stored, for a return of the fleet to them.

Root on a node controls what the node says that it has stored. So what is published is what several nodes agree about,
chosen at random: what one of them makes up is published nowhere.
"""

from __future__ import annotations

import collections
import random
import typing as t

from ...base import packed_json
from ...policy.model import Failsafe
from ...state.policy_state import PolicySettings, PolicyState
from ..keys import InvalidKey
from . import live_policy
from .live_policy import InventoryPolicy, OversizedDocument

#: The most nodes of a plan whose policy is read, which takes up to a second for each in a large fleet.
WITNESSES = 4
#: The most plans that are read; a fleet that returns to more of them has been in parts for long.
_PLANS = 8
_NAMED = 5

#: The choice of some of many hosts.
Choice = t.Callable[[t.Sequence[str], int], t.Sequence[str]]
_by_chance: Choice = random.SystemRandom().sample


class RestoredPolicy(t.NamedTuple):
    """What a return to stored states means for what is published of the inventory's policy.

    `each` are the different policies of these states, None for one without live policy. `reason` says, as a clause, why
    none of them is published, and is "" if the only one is.
    """

    each: tuple[t.Optional[InventoryPolicy], ...]
    reason: str = ""

    @property
    def has_live_policy(self) -> bool:
        return any(one is not None for one in self.each)


def read(
    plans: t.Mapping[str, str],
    policies: t.Mapping[str, t.Any],
    whole: bool,
    most: int = WITNESSES,
    choice: Choice = _by_chance,
) -> RestoredPolicy:
    """Return the policy that nodes return to.

    `plans` has the plan of each host, and `policies` what its stored state has as its policy, packed: nothing without
    policy. `whole` says whether these are all nodes of the fleet. At most `most` hosts of a plan are read.
    """
    each: list[t.Optional[InventoryPolicy]] = []
    unread: list[str] = []
    disagreeing: list[str] = []
    by_plan: dict[str, list[str]] = {}
    for host in sorted(plans):
        by_plan.setdefault(plans[host], []).append(host)
    for plan in sorted(by_plan)[:_PLANS]:
        hosts = by_plan[plan]
        said = _said({host: policies.get(host) for host in sorted(choice(hosts, min(most, len(hosts))))})
        unread += [host for host, one in said.items() if one is _UNREADABLE]
        different = [one for index, one in enumerate(said.values()) if one not in list(said.values())[:index]]
        readable = [one for one in different if not isinstance(one, _Unreadable)]
        if len(readable) > 1:
            disagreeing += [host for host, one in said.items() if one is not _UNREADABLE]
        each += [one for one in readable if one not in each]
    return RestoredPolicy(tuple(each), _reason(by_plan, unread, disagreeing, len(each), whole))


class _Unreadable:
    """A policy that cannot be read."""


_UNREADABLE = _Unreadable()
#: What a hostile policy may raise where it is turned into documents.
_ERRORS = (OversizedDocument, InvalidKey, LookupError, ValueError, TypeError, AttributeError)


def _said(packed: t.Mapping[str, t.Any]) -> dict[str, t.Union[InventoryPolicy, _Unreadable, None]]:
    """Return what would be published of the policy of each host, None for one without live policy."""
    found: dict[str, t.Union[PolicyState, _Unreadable, None]] = {}
    for host, text in packed.items():
        try:
            found[host] = _policy(text)
        except ValueError:
            found[host] = _UNREADABLE
    states = [one.settings for one in found.values() if isinstance(one, PolicyState)]
    # A node's own port of SSH is one of its failsafe ports, and of no other node.
    settings = PolicySettings(
        live=True,
        failsafe_inbound=_common([one.failsafe_inbound for one in states]),
        failsafe_outbound=_common([one.failsafe_outbound for one in states]),
    )
    said: dict[str, t.Union[InventoryPolicy, _Unreadable, None]] = {}
    for host, state in found.items():
        if not isinstance(state, PolicyState):
            said[host] = state
            continue
        try:
            said[host] = live_policy.of_inventory(state.policy_set, settings)
        except _ERRORS:
            said[host] = _UNREADABLE
    return said


def _policy(packed: t.Any) -> t.Optional[PolicyState]:
    """Return the policy in a stored state, None if live documents have no effect in it. Raise ValueError."""
    if packed is None:
        return None
    if not isinstance(packed, str):
        raise ValueError("it is not packed")
    found = PolicyState.from_dict(packed_json.unpack_shared(packed))
    return found if found.settings.live else None


def _common(ports: t.Sequence[tuple[Failsafe, ...]]) -> tuple[Failsafe, ...]:
    """Return the ports that most have, in the most frequent order: of three, one cannot add or leave out a port."""
    usual = collections.Counter(ports).most_common(1)
    found = dict.fromkeys(one for own in (*(own for own, dummy in usual), *ports) for one in own)
    return tuple(one for one in found if 2 * sum(one in own for own in ports) > len(ports))


def _reason(
    by_plan: t.Mapping[str, t.Sequence[str]],
    unread: t.Sequence[str],
    disagreeing: t.Sequence[str],
    policies: int,
    whole: bool,
) -> str:
    if unread:
        return f"the policy that is stored on {_listed(unread)} cannot be read"
    if disagreeing:
        return f"{_listed(disagreeing)} say different things about the policy of the same plan"
    if policies > 1 or len(by_plan) > _PLANS:
        return f"nodes return to {len(by_plan)} plans, which differ in policy"
    return "" if whole else "not all nodes return"


def _listed(hosts: t.Sequence[str]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return f"{', '.join(sorted(hosts)[:_NAMED])}{more}"
