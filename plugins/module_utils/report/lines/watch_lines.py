# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that agents watch, for the status of a fleet: what is down, and one clause for its verdict."""

from __future__ import annotations

import typing as t

from ...ipam.errors import names
from ...state.derived import path_status
from ...state.derived.path_status import PathStatus

#: The most lines about paths; the others are counted.
_MOST = 20
#: Why a host has no status of paths.
NOT_ASKED, NOT_WATCHED = "not asked", "not watched"
#: A status of paths, or why there is none.
Said = t.Union[PathStatus, str]


def of_answers(nodes: t.Mapping[str, t.Optional[t.Mapping[str, t.Any]]]) -> dict[str, Said]:
    """Return what each host that answered says of its paths, from answers of node_status_info."""
    return {host: _said(node["agent"]) for host, node in nodes.items() if node is not None and node["node"] is not None}


def _said(agent: t.Mapping[str, t.Any]) -> Said:
    if not agent["running"]:
        return NOT_WATCHED
    return path_status.decode(agent["paths"]) if agent.get("paths") is not None else NOT_ASKED


def problems(said: t.Mapping[str, Said], excused: t.Container[str] = ()) -> dict[str, list[str]]:
    """Return sentences about paths and nodes that are down, by the host that says so, with directions by both ends.

    What leads to an `excused` host is left out: that host is a problem itself. A node that several hosts say is down is
    named once, at the first of them.
    """
    statuses = path_status.with_directions({host: one for host, one in said.items() if isinstance(one, PathStatus)})
    found: dict[str, list[str]] = {}
    left = _MOST
    more = 0
    gone: dict[str, list[str]] = {}
    for host, status in statuses.items():
        for node in status.nodes:
            if node not in excused:
                gone.setdefault(node, []).append(host)
    for node, hosts in gone.items():
        found.setdefault(hosts[0], []).append(
            f"{node} is down: {names(hosts)} {'has' if len(hosts) == 1 else 'have'} no session with it, and none of its"
            " paths answers"
        )
    for host, status in statuses.items():
        down = [path for path in status.down if path.node not in excused]
        shown = down[: max(left, 0)]
        left -= len(shown)
        # Paths beyond the named ones may lead to excused hosts, so they count only if none of these is excused.
        unnamed = status.count_down - len(status.down) if len(down) == len(status.down) else 0
        more += len(down) - len(shown) + unnamed
        sentences = [path_status.sentence(host, path) for path in shown]
        if status.watched and status.reason:
            sentences.append(f"{host}: {status.reason}")
        if status.fragmenting:
            sentences.append(f"{host}: {status.fragmenting}")
        if sentences:
            found.setdefault(host, []).extend(sentences)
    if more:
        last = next(reversed(found), next(iter(statuses)))
        found.setdefault(last, []).append(f"{more} more paths are down: `calicoctl node status` there names them")
    return found


def verdict(said: t.Collection[Said]) -> str:
    """Return a clause about the paths of a fleet."""
    watched = [one for one in said if isinstance(one, PathStatus) and one.watched]
    asked = sum(one == NOT_ASKED for one in said)
    nothing = sum(isinstance(one, PathStatus) and one.reason == path_status.NO_ENDPOINT for one in said)
    rest = len(said) - len(watched) - asked - nothing
    if not watched:
        return f"paths {NOT_ASKED if asked else NOT_WATCHED}"
    parts = [f"{sum(pool.up for one in watched for pool in one.pools)}/{sum(one.count for one in watched)} paths up"]
    parts += [f"those of {_nodes(rest)} {NOT_WATCHED}"] if rest else []
    parts += [f"those of {_nodes(asked)} {NOT_ASKED}"] if asked else []
    return ", ".join(parts)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
