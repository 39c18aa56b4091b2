# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dispatch of workloads' packets to chains, by IP sets.

All workloads with the same policies and profiles share one pair of chains: they form a group, named by a digest of
those lists, with a set of its members' (address, interface). A packet from or to a workload is looked up in the groups'
sets, of which there are as many as different lists of policies, not as many as workloads. With more than FAN_OUT groups
the sets become a tree by digits of the digest, so that the number of lookups grows with the logarithm of theirs.

So a workload that comes or goes changes members of sets, and no chain unless it is the first or last of its group.
Dispatch by interface name, which Felix has, rewrites two chains for each. And since a set tells address and interface
together, what does not come from the address that belongs to the interface finds no group: it is dropped, as is what
comes by an unknown interface.
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
    """`members`: pairs of address, of either family, and interface."""

    id: str
    tiers: tuple[TierPolicies, ...]
    profiles: tuple[str, ...]
    members: tuple[tuple[str, str], ...]


class Groups:
    """The groups of a node's workloads, again and again: what has not changed since the last time is not made anew."""

    def __init__(self) -> None:
        # By interface: the workload, its group, and its members.
        self._known: dict[str, tuple[LocalEndpoint, str, tuple[tuple[str, str], ...]]] = {}

    def of(self, workloads: t.Iterable[LocalEndpoint]) -> dict[str, Group]:
        """{id: group}, sorted. `workloads` are of as many interfaces."""
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
    """The tree. `nodes`: chain suffix -> what it looks up, each with the suffix of the chain or the group it leads to;
    the suffix of the root is "". `unions`: prefix of ids -> the groups whose members its set has.
    """

    nodes: dict[str, list[tuple[str, t.Optional[str]]]]
    unions: dict[str, list[Group]]


def tree(by_id: t.Mapping[str, Group], prefix: str = "") -> Dispatch:
    """Each entry of a node is (what its set is named after, suffix of the chain it leads to, None for the group's)."""
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
    """The chains of one direction, `root` and those below; `side`: "src" or "dst" of the packet is the workload."""

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
    """Yield a rule for each workload that leads what its interface carries to its group's chain, whatever the address.

    For workloads that route, behind the lookups by address: a packet meets as many of them as there are workloads.
    """
    for group in by_id.values():
        for interface in dict.fromkeys(interface for _address, interface in group.members):
            yield IptablesRule((by(interface),), goto(chain_of_group(group.id)))


def members(by_id: t.Mapping[str, Group], dispatch: Dispatch) -> t.Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """What each set is named after, and its members."""
    for group in by_id.values():
        yield group.id, group.members
    for prefix, below in dispatch.unions.items():
        yield prefix, tuple(pair for group in below for pair in group.members)
