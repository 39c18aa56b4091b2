# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of all nodes by the heartbeats in the datastore: one row for each, then problems and a verdict."""

from __future__ import annotations

import typing as t

from ...cli.render import heartbeat_cells, tables
from ...datastore.heartbeats import Heartbeat
from ...fleet.paths import untried

Heartbeats = t.Mapping[str, Heartbeat]
#: Nodes -> why their heartbeats cannot be read.
Refused = t.Mapping[str, str]


def text(
    hosts: t.Sequence[str],
    agents: t.Collection[str],
    found: Heartbeats,
    refused: Refused,
    now: float,
    gaps: t.Sequence[untried.Untried] = (),
) -> list[str]:
    """Return the table, a line for each problem, one about paths that no run tries, if any, and one for the fleet.

    `agents` are the hosts with an agent. `now` is in seconds since 1970. `gaps` are those of `untried.of_status`.
    """
    rows = []
    for host in hosts:
        cells = heartbeat_cells.cells(found.get(host), now)
        if host not in agents and host not in found:
            cells = ("no agent", *cells[1:])
        elif host in refused:
            cells = ("not read !", *cells[1:])
        rows.append((host, *cells))
    wrong = problems(hosts, agents, found, refused, now)
    lines = tables.columns(("NODE", *heartbeat_cells.HEADINGS), rows).splitlines()
    lines += [*(f"! {problem}" for problem in wrong), *untried.lines_of_status(gaps)]
    return [*lines, _verdict(hosts, agents, found, refused, now)]


def problems(
    hosts: t.Sequence[str], agents: t.Collection[str], found: Heartbeats, refused: Refused, now: float
) -> list[str]:
    """Return sentences about what is wrong. A session that is down with a `troubled` node is that node's fault."""
    blamed = troubled(hosts, agents, found, refused, now)
    return [f"{host}: {what}" for host in hosts for what in _of_host(host, agents, found, refused, now, blamed)]


def troubled(
    hosts: t.Sequence[str], agents: t.Collection[str], found: Heartbeats, refused: Refused, now: float
) -> set[str]:
    """Return the hosts to blame for sessions that are down: without a fresh heartbeat, or with most of theirs down."""
    return {
        host
        for host in hosts
        if (
            host in found
            and (not heartbeat_cells.is_fresh(found[host], now) or heartbeat_cells.mostly_down(found[host]))
        )
        or (host not in found and (host in agents or host in refused))
    }


def _of_host(
    host: str,
    agents: t.Collection[str],
    found: Heartbeats,
    refused: Refused,
    now: float,
    blamed: t.Collection[str],
) -> t.Iterator[str]:
    if host in refused:
        yield f"its heartbeat is left out: {refused[host]}"
    elif host in found:
        yield from heartbeat_cells.wrong(found[host], now, blamed)
    elif host in agents:
        yield (
            "has sent no heartbeat yet. Its agent does not run, or does not reach the datastore: -e source=nodes asks "
            "the node itself."
        )


def _verdict(hosts: t.Sequence[str], agents: t.Collection[str], found: Heartbeats, refused: Refused, now: float) -> str:
    blamed = troubled(hosts, agents, found, refused, now)
    good = sum(not any(True for dummy in _of_host(host, agents, found, refused, now, blamed)) for host in hosts)
    here = [found[host] for host in hosts if host in found]
    word, nodes = ("good", "nodes") if good == len(hosts) else ("degraded", "nodes good")
    parts = [f"{good}/{len(hosts)} {nodes}"]
    total = sum(one.sessions_total for one in here)
    if total:
        up = sum(one.sessions_established for one in here)
        parts.append(f"{up}/{total} sessions Established, counted at both ends")
    parts += [f"{sum(one.workloads for one in here)} workloads", untried.OF_STATUS]
    return f"{word}  {' · '.join(parts)}  (by heartbeats)"
