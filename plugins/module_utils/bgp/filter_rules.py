# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGPFilters as values: what bird.cfg has functions for, and what the evaluator goes by.

A BGPFilter has up to four lists of rules, by direction and family; each that has any becomes one function.
"""

from __future__ import annotations

import dataclasses
import typing as t

IMPORT, EXPORT = "import", "export"


@dataclasses.dataclass(frozen=True)
class FilterOperation:
    """A change of a route that is accepted. `kind`, and what `numbers` are: community (2 of them), large_community (3),
    as_path (those to be put before the path, in their order there) or local_pref (1)."""

    kind: str
    numbers: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FilterRule:
    """One rule; what is empty or None asks nothing of a route.

    `operator` is In, NotIn (prefixes inside `net`, and `lengths` of them if given), Equal or NotEqual. `community` has
    2 or 3 numbers. `local_pref`: the route has this one; `unset_local_pref`: one that has none will do as well.
    """

    accept: bool
    net: str = ""  # CIDR
    operator: str = ""
    lengths: tuple[int, ...] = ()  # shortest and longest prefix length
    from_peers: bool = False  # only routes that came by BGP
    interface: str = ""  # pattern of the outgoing interface's name
    peer_type: str = ""  # iBGP, eBGP
    community: tuple[int, ...] = ()
    as_path: tuple[int, ...] = ()  # how the AS path begins
    local_pref: t.Optional[int] = None
    unset_local_pref: bool = False
    operations: tuple[FilterOperation, ...] = ()


@dataclasses.dataclass(frozen=True)
class FilterFunction:
    """What one BGPFilter says of one direction in one family. `by_peer_type`: it has to be told the kind of session."""

    filter: str  # name of the BGPFilter
    direction: str  # IMPORT or EXPORT
    family: int
    symbol: str  # in bird.cfg, quoted
    rules: tuple[FilterRule, ...]
    by_peer_type: bool = False
