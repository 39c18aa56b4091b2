# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heartbeat that an agent writes."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore import beat
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.beat import Sessions
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import FeedStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Position

STATUS = {
    "node": "node1",
    "plan": "7f3a91c2",
    "phase": "converge",
    "in_sync": False,
    "problems": ["x" * 500, "more"],
    "drift": {"day": 3, "total": 9, "kinds": {}},
    "workloads": 2,
    "inventory_workloads": 5,
}


def test_the_heartbeat_has_the_status_sessions_and_feed_of_the_node() -> None:
    feed = FeedStatus(synced=True, heard=990.0)
    put = beat.from_status(STATUS, Sessions(11, 12, ("node7",)), feed, Position(7, 40, 39), 1000.0)
    assert put.key == "/host-routing/v1/heartbeats/node1/agent"
    assert heartbeats.decode("node1", put.value) == Heartbeat(
        node="node1",
        written=1000.0,
        version=VERSION,
        plan="7f3a91c2",
        phase="converge",
        in_sync=False,
        problems=2,
        first_problem="x" * 200,
        drift_day=3,
        sessions_established=11,
        sessions_total=12,
        sessions_down=("node7",),
        workloads=7,
        revision=40,
        cluster=7,
        feed_synced=True,
        feed_age=10.0,
    )


def test_it_is_readable_before_anything_was_read_and_while_the_clock_jumps() -> None:
    nothing = {**STATUS, "plan": "", "phase": "", "problems": []}
    put = beat.from_status(nothing, Sessions(0, 0), FeedStatus(), None, 5.0)
    found = heartbeats.decode("node1", put.value)
    assert (found.revision, found.cluster, found.feed_age, found.sessions_established) == (0, 0, None, 0)
    put = beat.from_status(nothing, Sessions(0, 0), FeedStatus(heard=9.0), None, 5.0)
    assert heartbeats.decode("node1", put.value).feed_age == 0.0


def test_sessions_that_are_down_have_the_nodes_at_their_ends() -> None:
    """A router outside the fleet, and a description of the user's own, are no nodes."""

    def session(description: str, state: str = "Active") -> Session:
        return Session("s", "start", "", description=description, bgp_state=state)

    seen = (session("node2"), session("node3", "Established"), session(""), session("our uplink"), session("node2"))
    assert Sessions.from_sessions(seen) == Sessions(1, 5, ("node2", "node2"))
    assert Sessions.from_sessions(()) == Sessions(0, 0)


@pytest.mark.parametrize(
    ("own", "first"), [((), "BIRD does not answer."), (("the disk is full.",), "the disk is full.")]
)
def test_a_bird_that_does_not_answer_is_a_problem(own: tuple[str, ...], first: str) -> None:
    unknown = Sessions.from_sessions((), "BIRD does not answer.")
    put = beat.from_status({**STATUS, "problems": list(own)}, unknown, FeedStatus(), None, 5.0)
    found = heartbeats.decode("node1", put.value)
    assert (found.problems, found.first_problem, found.sessions_total) == (1 + len(own), first, 0)
