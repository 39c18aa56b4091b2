# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGPFilters as values: bird.cfg has them as functions, and `filter_verdict` evaluates them without BIRD."""

from __future__ import annotations

import dataclasses
import typing as t

IMPORT, EXPORT = "import", "export"


@dataclasses.dataclass(frozen=True)
class FilterOperation:
    """A change to a route. `kind` is community, large_community, as_path or local_pref.

    `numbers` are the two numbers of a community, the three of a large_community, the AS numbers that as_path prepends
    (in their order in the path), or the one number of local_pref.
    """

    kind: str
    numbers: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FilterRule:
    """One rule of a filter. A condition that is empty, False or None matches every route.

    `operator` In matches prefixes inside `net` whose length is in `lengths`, if given; Equal matches `net` itself.
    NotIn and NotEqual match all prefixes that In and Equal do not match. `community` has 2 or 3 numbers. `local_pref`
    matches routes with this preference and, with `unset_local_pref`, also routes without any. `accept` is the verdict
    on a route that matches; `operations` are then applied to it.
    """

    accept: bool
    net: str = ""  # the CIDR that prefixes are compared with, "" for any prefix
    operator: str = ""
    lengths: tuple[int, ...] = ()  # (shortest, longest) prefix length, or () for any
    from_peers: bool = False  # True: only routes that came by BGP match
    interface: str = ""  # a pattern of the outgoing interface's name, in which * stands for any text
    peer_type: str = ""  # the type of the session: iBGP or eBGP, "" for both
    community: tuple[int, ...] = ()
    as_path: tuple[int, ...] = ()  # the AS numbers with which the AS path must begin
    local_pref: t.Optional[int] = None
    unset_local_pref: bool = False
    operations: tuple[FilterOperation, ...] = ()


@dataclasses.dataclass(frozen=True)
class FilterFunction:
    """The rules of one BGPFilter for one direction and one family (4 or 6).

    `by_peer_type` is whether a rule depends on iBGP or eBGP, which bird.cfg must then pass to the function as an
    argument.
    """

    filter: str  # the name of the BGPFilter
    direction: str  # IMPORT or EXPORT
    family: int
    symbol: str  # the function's name in bird.cfg, in quotes
    rules: tuple[FilterRule, ...]
    by_peer_type: bool = False
