# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IP sets of a node's own blocks, spare ones included. The table raw checks the sources of packets against them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import family_of
from ..policy.sets.ip_sets import LOCAL_BLOCKS, name_of
from .node_state import Block, IpSet


def ipsets(blocks: t.Iterable[Block], versions: t.Iterable[int]) -> tuple[IpSet, ...]:
    """Return one IP set of `blocks`, the node's own, for each IP version of `versions`, also if it is empty."""
    members: dict[int, list[str]] = {version: [] for version in sorted(versions)}
    for block in blocks:
        version, single = (6, "/128") if family_of(block.cidr) == 6 else (4, "/32")
        if version in members:
            # A set shows single addresses without /32 or /128.
            members[version].append(block.cidr[: -len(single)] if block.cidr.endswith(single) else block.cidr)
    return tuple(
        IpSet(name_of(version, LOCAL_BLOCKS), "hash:net", tuple(sorted(own))) for version, own in members.items()
    )


def with_blocks(sets: t.Iterable[IpSet], blocks: t.Iterable[Block]) -> tuple[IpSet, ...]:
    """Return a state's `sets` with `blocks` added to those of them that hold the node's own blocks."""
    more = {ipset.name: ipset.members for ipset in ipsets(blocks, (4, 6))}
    return tuple(
        dataclasses.replace(ipset, members=tuple(sorted({*ipset.members, *more[ipset.name]})))
        if ipset.name in more
        else ipset
        for ipset in sets
    )
