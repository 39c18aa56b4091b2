# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heartbeat of an agent, made of what its status says."""

from __future__ import annotations

import typing as t

from ...base.release import VERSION
from ...bird.status import Session
from ...datastore import heartbeats, keys
from ...datastore.feed import FeedStatus
from ...datastore.gateway import Put
from ...datastore.heartbeats import Heartbeat
from ...datastore.mirror import Position
from ...state.derived import path_status


class Sessions(t.NamedTuple):
    """The numbers of BGP sessions that are Established, and of all.

    `down` names the nodes at the other ends of the rest. `unknown` says why nothing is known of any session, or is "".
    """

    established: int
    total: int
    down: tuple[str, ...] = ()
    unknown: str = ""

    @classmethod
    def from_sessions(cls, seen: t.Collection[Session], unknown: str = "") -> Sessions:
        """Return the numbers of the sessions `seen`. Those with routers outside the fleet have no name in `down`."""
        down = [session.description for session in seen if not session.established]
        return cls(len(seen) - len(down), len(seen), tuple(name for name in down if keys.is_node(name)), unknown)


def from_status(
    status: t.Mapping[str, t.Any],
    sessions: Sessions,
    feed: FeedStatus,
    position: t.Optional[Position],
    now: float,
) -> Put:
    """Return the key and the document of a heartbeat that is written at `now`, a time.time().

    `status` is the result of the API method `status`, `position` how far the datastore was read, None for nothing.
    Unknown sessions count as a problem. Raise InvalidKey if the name of the node cannot be a part of a key.
    """
    problems = [*status["problems"], *([sessions.unknown] if sessions.unknown else [])]
    heartbeat = Heartbeat(
        node=status["node"],
        written=now,
        version=VERSION,
        plan=status["plan"],
        phase=status["phase"],
        in_sync=status["in_sync"],
        problems=len(problems),
        first_problem=problems[0] if problems else "",
        drift_day=status["drift"]["day"],
        sessions_established=sessions.established,
        sessions_total=sessions.total,
        sessions_down=sessions.down,
        workloads=status["workloads"] + status["inventory_workloads"],
        revision=position.revision if position is not None else 0,
        cluster=position.cluster if position is not None else 0,
        feed_synced=feed.synced,
        paths=path_status.decode(status["paths"]) if "paths" in status else None,
        feed_age=max(0.0, now - feed.heard) if feed.heard else None,
    )
    return Put(keys.heartbeat_key(heartbeat.node), heartbeats.encode(heartbeat))
