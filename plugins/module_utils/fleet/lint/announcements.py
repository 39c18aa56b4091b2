# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about BGPFilters, communities and secrets that have no effect."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import addresses
from ...bgp import filters as bgp_filters
from ...bgp.filter_rules import FilterRule
from ..inventory import bgp_announcements
from ..inventory.bgp_checks import bgp_secrets
from .finding import Issue
from .network import LintedFleet, listed

_FILTERS = bgp_announcements.FILTERS


def unused_filter(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a BGPFilter that no BGPPeer names, or only peers of an IP version that it has no rule for.

    A BGPFilter without rules is also reported. BGPPeers count if BGP is enabled and they apply to a node.
    """
    used: dict[str, set[int]] = {}
    for given, local, _remote in network.meant:
        families = {given.address.family} if given.address else {4, 6}
        for name in given.peer.filters if local else ():
            used.setdefault(name, set()).update(families)
    for index, (name, resource) in enumerate(network.fleet.bgp.announcements.filters.items()):
        families = {function.family for function in bgp_filters.functions(resource)}
        if name not in used:
            what, remedy = (
                "is named by no BGPPeer, so that it filters nothing.",
                "Name it in filters of a BGPPeer, or remove it.",
            )
        elif not families:
            what, remedy = "has no rule, so that it filters nothing.", "Give it rules, or remove it."
        elif not families & used[name]:
            own, theirs = families.pop(), used[name].copy().pop()
            what = f"has rules for IPv{own} alone, and is named by peers of IPv{theirs}: it filters nothing."
            remedy = f"Write importV{theirs} or exportV{theirs} rules."
        else:
            continue
        yield Issue(f"{_FILTERS}[{index}]", what, remedy, value=name)


def unreached_rule(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a rule of a BGPFilter that is never reached, because an earlier rule matches all that it does."""
    for index, (name, resource) in enumerate(network.fleet.bgp.announcements.filters.items()):
        for function in bgp_filters.functions(resource):
            earlier: dict[FilterRule, int] = {}
            for number, rule in enumerate(function.rules):
                key = dataclasses.replace(rule, accept=True, operations=())
                covering = earlier.get(_ANYTHING, earlier.get(key))
                if covering is not None:
                    field = f"{function.direction}V{function.family}"
                    yield Issue(
                        f"{_FILTERS}[{index}].{field}[{number}]",
                        f"of {name} is never reached: rule {covering + 1} matches all that it does.",
                        "Move it before that one, or remove it.",
                    )
                earlier.setdefault(key, number)


_ANYTHING = FilterRule(accept=True)


def unused_community(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a community in calico_bgp_communities that no prefix advertisement names."""
    lists = [network.variable(bgp_announcements.ADVERTISEMENTS) or ()]
    lists += [host.variables.get(bgp_announcements.NODE_ADVERTISEMENTS) or () for host in network.hosts]
    named = {one for entries in lists for entry in entries for one in entry.get("communities") or ()}
    for index, entry in enumerate(network.variable(bgp_announcements.COMMUNITIES) or ()):
        if network.speakers and entry.get("name") not in named:
            yield Issue(
                f"{bgp_announcements.COMMUNITIES}[{index}].name",
                "is used by no prefix advertisement.",
                "Name it in calico_bgp_prefix_advertisements, or remove it.",
                value=entry.get("name"),
            )


def of_no_block(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a prefix advertisement whose range contains no block of any pool: no route gets its communities."""
    pools = [(addresses.cidr(pool.cidr), pool.blockSize) for pool in network.fleet.pools]
    lists = [(bgp_announcements.ADVERTISEMENTS, "", network.variable(bgp_announcements.ADVERTISEMENTS) or ())]
    for host in network.hosts:
        own = host.variables.get(bgp_announcements.NODE_ADVERTISEMENTS) or ()
        lists.append((bgp_announcements.NODE_ADVERTISEMENTS, f" of {host.name}", own))
    for variable, owner, entries in lists if network.speakers else ():
        for index, entry in enumerate(entries):
            given = addresses.cidr(entry["cidr"])
            if not any(given.overlaps(pool) and given.length <= size for pool, size in pools):
                yield Issue(
                    f"{variable}[{index}].cidr{owner}",
                    "contains no block of any pool. Nodes advertise blocks, so that no route gets its communities.",
                    f"Write a pool's range ({listed([str(pool) for pool, dummy in pools])}) or one with whole blocks.",
                    value=entry["cidr"],
                )


def unused_secret(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a secret in calico_bgp_secrets that no session uses.

    Used are the secrets of calico_bgp_mesh_password and, if BGP is enabled, of all BGPPeers.
    """
    bgp = network.fleet.bgp
    used = {bgp.unasked.password, *(given.password for given, _local, _remote in network.meant)}
    for name in bgp_secrets.read(network.variable(bgp_secrets.VARIABLE) or {}):
        if name not in used:
            yield Issue(
                f"{bgp_secrets.VARIABLE}.{name.replace(':', '.')}",
                "is a password that no session uses.",
                "Name it in a BGPPeer or in calico_bgp_mesh_password, or remove it.",
            )
