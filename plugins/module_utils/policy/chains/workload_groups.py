# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dispatch of workloads' packets to chains, by IP sets.

All workloads with the same policies and profiles form a group and share one pair of chains. A group's ID is a digest of
those lists. Its set has the (address, interface) pairs of its members. A packet from or to a workload is looked up in
the sets of the groups. With more than FAN_OUT groups, the sets form a tree by digits of the IDs, so that the number of
lookups grows logarithmically.

So adding or removing a workload changes members of sets. It changes chains only if it is the first or last of its
group, or if workloads may use any address. Felix dispatches by interface name, and rewrites two chains for each
workload. A packet whose address does not belong to its interface is in no group. Unless workloads may use any address,
it is dropped, like a packet from an unknown interface.
"""

from __future__ import annotations

import hashlib
import typing as t

from ..node_policy import LocalEndpoint, TierPolicies
from ..sets import ip_sets
from .rules.names import chain_name
from .rules.rule import IptablesRule, goto, in_set

FAN_OUT = 16


class Group(t.NamedTuple):
    """A group of workloads with the same tiers and profiles. `id` is a digest of these, 16 hex digits.

    `members` are (address, interface) pairs with addresses of both IP versions.
    """

    id: str
    tiers: tuple[TierPolicies, ...]
    profiles: tuple[str, ...]
    members: tuple[tuple[str, str], ...]


class Groups:
    """A maker of the groups of a node's workloads, which reuses its last results for unchanged workloads."""

    def __init__(self) -> None:
        # From interface to the workload, the ID of its group, and its pairs of address and interface.
        self._known: dict[str, tuple[LocalEndpoint, str, tuple[tuple[str, str], ...]]] = {}

    def of(self, workloads: t.Iterable[LocalEndpoint]) -> dict[str, Group]:
        """Return a mapping from ID to group, sorted by ID. Each workload must have a different interface."""
        before, self._known = self._known, {}
        lists: dict[str, LocalEndpoint] = {}
        members: dict[str, list[tuple[str, str]]] = {}
        for workload in workloads:
            known = before.get(workload.interface)
            if known is None or known[0] is not workload:
                pairs = tuple((one, workload.interface) for one in workload.endpoint.addresses)
                known = workload, _id(workload.tiers, workload.profiles), pairs
            self._known[workload.interface] = known
            lists.setdefault(known[1], workload)
            members.setdefault(known[1], []).extend(known[2])
        return {
            name: Group(name, lists[name].tiers, lists[name].profiles, tuple(members[name])) for name in sorted(lists)
        }


def _id(tiers: tuple[TierPolicies, ...], profiles: tuple[str, ...]) -> str:
    described = [(tier.tier, tier.default_action, tier.ingress, tier.egress) for tier in tiers]
    return hashlib.sha256(repr((described, profiles)).encode()).hexdigest()[:16]


class Dispatch(t.NamedTuple):
    """A tree of dispatch chains.

    `nodes` maps the suffix of each chain's name, "" for the root, to its lookups in order. A lookup is (prefix of IDs
    whose set is looked up, suffix of the chain that it leads to), or (ID of a group, None) if it leads to the chain of
    that group. `unions` maps a prefix of IDs to the groups whose members are in the set of that prefix.
    """

    nodes: dict[str, list[tuple[str, t.Optional[str]]]]
    unions: dict[str, list[Group]]


def tree(by_id: t.Mapping[str, Group], prefix: str = "") -> Dispatch:
    """Return the tree for groups, a mapping from ID to group, whose IDs all begin with `prefix`.

    Up to FAN_OUT groups have a lookup each. More groups are divided by the next digit of their IDs, with a chain for
    each digit that several groups share.
    """
    if len(by_id) <= FAN_OUT:
        return Dispatch({prefix: [(name, None) for name in by_id]}, {})
    children: dict[str, dict[str, Group]] = {}
    for name, group in by_id.items():
        children.setdefault(name[: len(prefix) + 1], {})[name] = group
    found = Dispatch({prefix: []}, {})
    for child, members in children.items():
        if len(members) == 1:
            found.nodes[prefix].append((next(iter(members)), None))
            continue
        found.nodes[prefix].append((child, child))
        found.unions[child] = list(members.values())
        below = tree(members, child)
        found.nodes.update(below.nodes)
        found.unions.update(below.unions)
    return found


def chains(
    dispatch: Dispatch,
    root: str,
    side: str,
    family: int,
    chain_of_group: t.Callable[[str], str],
    otherwise: tuple[IptablesRule, ...],
) -> dict[str, tuple[IptablesRule, ...]]:
    """Return a mapping from name to rules of the dispatch chains of one direction: `root` and those below it.

    `side` is "src" or "dst", the side of the packet that is the workload. `chain_of_group` returns the chain of a
    group's ID. `otherwise` are rules at the end of each chain, for packets that no lookup matches.
    """

    def name(suffix: str) -> str:
        return chain_name(f"{root}-", suffix) if suffix else root

    return {
        name(suffix): (
            *(
                IptablesRule(
                    (in_set(ip_sets.workloads_set(looked_up, family), f"{side},{side}"),),
                    goto(chain_of_group(looked_up) if leads_to is None else name(leads_to)),
                )
                for looked_up, leads_to in entries
            ),
            *otherwise,
        )
        for suffix, entries in dispatch.nodes.items()
    }


def by_interface(
    by_id: t.Mapping[str, Group], by: t.Callable[[str], str], chain_of_group: t.Callable[[str], str]
) -> t.Iterator[IptablesRule]:
    """Yield a rule for each interface of the groups' members that leads its packets to its group's chain.

    The rules are for workloads that may use any address, behind the lookups by address. A packet passes up to one rule
    per workload. `by` returns the condition for an interface, `chain_of_group` the chain of a group's ID.
    """
    for group in by_id.values():
        for interface in dict.fromkeys(interface for _address, interface in group.members):
            yield IptablesRule((by(interface),), goto(chain_of_group(group.id)))


def members(by_id: t.Mapping[str, Group], dispatch: Dispatch) -> t.Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield (group ID or prefix of IDs, members) for each set of the tree."""
    for group in by_id.values():
        yield group.id, group.members
    for prefix, below in dispatch.unions.items():
        yield prefix, tuple(pair for group in below for pair in group.members)
