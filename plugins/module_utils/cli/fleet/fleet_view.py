# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision about whom a command speaks of: all nodes by the datastore, one of them, or this node alone."""

from __future__ import annotations

import typing as t

from ..errors import CommandError
from ..sources import Sources

if t.TYPE_CHECKING:
    from .published_fleet import PublishedFleet

_NAMED = 10
_NONE = "without a datastore, a node knows only its own workloads."


class FleetView(t.NamedTuple):
    """The nodes that an answer is about.

    `own` is this node's name, "" on a host that is no node. `has_own`: the answer is also about this node, which knows
    itself better than the datastore does. `published` is what the datastore has, None if the answer is about this node
    alone.
    """

    own: str
    has_own: bool
    published: t.Optional[PublishedFleet]


def ask(
    sources: Sources,
    node: str = "",
    workloads: bool = True,
    by_run: bool = False,
    says_so: bool = True,
    complains: bool = True,
) -> FleetView:
    """Return the view of all nodes, or of `node` alone. `workloads` and `by_run` are those of published_fleet.read.

    Without a usable datastore it is this node's view, and the user gets one sentence that says so and why. Without
    `says_so`, because the answer itself does or is for programs, there is none in a fleet without a datastore. Without
    `complains`, the answer itself has the complaints. Raise CommandError if there is nothing to show: this host is no
    node, or is not `node`, or there is no such node.
    """
    is_controller = sources.connection.possible and not sources.is_node
    own = "" if is_controller else sources.fleet_list().node
    if node and node == own:
        return FleetView(own, True, None)
    published, why = _published(sources, node, workloads, by_run)
    if published is None:
        if node:
            raise CommandError(f"{node} is not known here: {why} Run this on {node}.")
        if not own:
            raise CommandError(f"{sources.no_node()} The fleet is not known here either: {why}")
        if says_so or why != _NONE:
            sources.warn(f"this is {own}'s view alone: {why}")
        return FleetView(own, True, None)
    if node and node not in published.blocks:
        names = list(published.blocks)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise CommandError(f"the datastore has no node {node} with blocks. It has {', '.join(names[:_NAMED])}{more}.")
    for complaint in published.complaints if complains else ():
        sources.warn(complaint)
    return FleetView(own, bool(own) and not node, published)


def _published(sources: Sources, node: str, workloads: bool, by_run: bool) -> tuple[t.Optional[PublishedFleet], str]:
    """Return what the datastore has; or None, and a sentence that says why."""
    if not sources.connection.possible:
        return None, _NONE
    from ...datastore.keys import is_node  # asyncio and TLS take 0.1 s to load
    from . import published_fleet

    if node and not is_node(node):
        raise CommandError(f"--node {node} is not the name of a node.")
    try:
        found = published_fleet.read(sources.connection, node, workloads, by_run)
    except published_fleet.FAILURES as error:
        return None, f"the datastore cannot be read: {str(error).rstrip('.')}."
    return found, _NONE
