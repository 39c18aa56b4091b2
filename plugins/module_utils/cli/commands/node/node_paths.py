# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths to other nodes that the agent watches, as `calicoctl node status` shows them."""

from __future__ import annotations

import typing as t

from ....base.typed_json import Unreadable
from ....state.derived import path_status
from ....state.derived.path_status import PathStatus
from ....state.node_state import NodeState
from ...errors import CommandError
from ...sources import Sources

NO_AGENT = "the agent does not run"
EARLIER = "not asked: the agent is of an earlier release"


def of_node(sources: Sources, state: NodeState, running: bool) -> t.Union[PathStatus, str, None]:
    """Return what the agent says of its paths, or in words why it was not asked.

    It is None for a node without a probe endpoint.
    """
    if state.probe_endpoint is None:
        return None
    if not running:
        return f"not watched: {NO_AGENT}"
    try:
        said = sources.agent.ask("status").get("paths")
        return EARLIER if said is None else path_status.decode(said)
    except CommandError as error:
        return f"not asked: {error}"
    except Unreadable as error:
        return f"not asked: the agent's answer cannot be used: {error}"


def lines(node: str, found: t.Union[PathStatus, str]) -> list[str]:
    """Return the section: counts, the time within which each path of a pool is tried, and what is wrong."""
    if isinstance(found, str):
        return ["Paths to other nodes", found]
    shown = ["Paths to other nodes", found.summary()]
    if len(found.pools) > 1:
        shown += [f"  {pool.pool}: {pool.up} of {pool.paths} up, each within {pool.seconds} s" for pool in found.pools]
    return [*shown, *(f"! {problem}" for problem in path_status.problems(node, found))]


def good(found: t.Union[PathStatus, str, None]) -> bool:
    """Return whether no path is known to be down."""
    return not isinstance(found, PathStatus) or not (found.count_down or found.count_nodes)


def plain(found: t.Union[PathStatus, str, None]) -> t.Optional[dict[str, t.Any]]:
    """Return the section for JSON, None for a node without paths."""
    if isinstance(found, str):
        return {"watched": False, "reason": found}
    return found.to_dict() if found is not None else None
