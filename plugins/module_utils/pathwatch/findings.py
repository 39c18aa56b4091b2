# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watch found: counts of each pool, paths that are down, and nodes that are down as a whole."""

from __future__ import annotations

import ipaddress
import itertools
import typing as t

from ..state.derived.path_loss import NO_ANSWER, REASONS
from ..state.derived.path_status import NAMED, PathDown, PathStatus, PoolCounts
from . import schedule
from .paths import DOWN, UNTRIED, UP
from .watch import PathWatch


def findings(watch: PathWatch, now: float, absent: t.Container[str] = (), most: int = NAMED) -> PathStatus:
    """Return what `watch` found at `now`, with at most `most` paths and nodes by name: first those of each pool.

    Paths have no `since`, because `now` is a time of the watch's own clock. `absent` has the names of nodes whose BGP
    session is gone: no agent reads the heartbeats of others.
    """
    table = watch.table
    # A path whose last probe was answered shows that its node is there.
    answering = {table.node[path] for path in range(len(table)) if table.state[path] == UP and not table.lost[path]}
    failing = {table.node[path] for path in range(len(table)) if table.state[path] == DOWN}
    gone = {node for node in failing - answering if table.nodes[node] in absent}
    pools, named = [], []
    for pool, (name, (first, end)) in enumerate(zip(table.names, table.ranges())):
        states = [0, 0, 0]
        count_absent = 0
        down: list[int] = []
        for path in range(first, end):
            if table.node[path] in gone:
                count_absent += 1
                continue
            states[table.state[path]] += 1
            if table.state[path] == DOWN and len(down) < most:
                down.append(path)
        seconds = schedule.tried_within(end - first, watch.round.rates[pool])
        pools.append(PoolCounts(name, end - first, states[UP], states[DOWN], states[UNTRIED], count_absent, seconds))
        named.append(down)
    order = [path for path in itertools.chain(*itertools.zip_longest(*named)) if path is not None]
    nodes = sorted(table.nodes[node] for node in gone)
    return PathStatus(
        True,
        "",
        tuple(pools),
        tuple(_down_path(watch, path, now) for path in order[:most]),
        tuple(nodes[:most]),
        len(nodes),
    )


def _down_path(watch: PathWatch, path: int, now: float) -> PathDown:
    table = watch.table
    reason = REASONS[table.reason[path] - 1] if table.reason[path] else NO_ANSWER
    return PathDown(
        table.names[table.pool[path]],
        table.nodes[table.node[path]],
        table.sources[table.source[path]],
        str(ipaddress.ip_address(table.addresses[path])),
        table.size[path],
        reason,
        table.speakers[table.by[path]],
        watch.direction(path),
        "",
        max(0.0, now - table.since[path]),
        max(0.0, now - table.heard_at[path]) if table.heard[path] else None,
    )
