# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent says of its paths: bounds, words, and directions that follow from both ends."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss, path_status
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import (
    Fragmenting,
    PathDown,
    PathStatus,
    PoolCounts,
)

DOWN = PathDown(
    "web", "node2", "10.244.1.7", "10.244.2.7", 1500, path_loss.NO_ANSWER, "", "", "2026-11-29T20:00:00Z", 30.0, None
)
STATUS = PathStatus(
    True,
    "",
    (PoolCounts("web", 3, 1, 1, 0, 1, 5), PoolCounts("db", 3, 2, 0, 1, 0, 30)),
    (DOWN,),
    ("node3",),
    1,
    Fragmenting("eth0", 1400, 1500, True),
    40,
)


@pytest.mark.parametrize("status", [STATUS, PathStatus(), PathStatus(False, "this node has no probe endpoint")])
def test_a_status_is_read_as_it_was_written(status: PathStatus) -> None:
    """What an agent writes can be read, through JSON, and a field of a later release is left out."""
    plain = json.loads(json.dumps(status.to_dict()))
    assert path_status.decode(plain) == status
    assert path_status.decode({**plain, "later": 1}) == status


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("down", [DOWN.__dict__] * 17),
        ("pools", [STATUS.pools[0].__dict__] * 65),
        ("nodes", ["x" * 254]),
        ("nodes", ["node"] * 17),
        ("count_nodes", -1),
        ("reassembled", -1),
        ("reassembled", 1.5),
        ("reason", "x" * 501),
        ("watched", 1),
        ("down", [{**DOWN.__dict__, "reason": "because"}]),
        ("down", [{**DOWN.__dict__, "node": "node2 is up"}]),
        ("down", [{**DOWN.__dict__, "since": "yesterday\n"}]),
        ("down", [{**DOWN.__dict__, "direction": "up"}]),
        ("down", [{**DOWN.__dict__, "by": "my router"}]),
        ("down", [{**DOWN.__dict__, "address": "\x1b[2J"}]),
        ("down", [{**DOWN.__dict__, "heard": float("nan")}]),
        ("fragmenting", {"device": "x" * 16, "mtu": 1, "planned": 1, "slower": False}),
    ],
)
def test_a_status_out_of_bounds_is_refused(field: str, value: t.Any) -> None:
    """A node cannot say more or something else than an agent says."""
    with pytest.raises(Unreadable):
        path_status.decode({**STATUS.to_dict(), field: value})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (PathStatus(), "not watched"),
        (PathStatus(False, "no endpoint"), "not watched: no endpoint"),
        (PathStatus(True), "none to watch"),
        (STATUS, "3 of 6 up, 1 down, 1 to nodes that are down, 1 not tried yet; each is tried within 30 s"),
        (PathStatus(True, "", (PoolCounts("web", 3, 3, 0, 0, 0, 5),)), "3 of 3 up; each is tried within 5 s"),
    ],
)
def test_counts_in_words(status: PathStatus, words: str) -> None:
    """The counts of a status in one line."""
    assert status.summary() == words


def test_sentences() -> None:
    """A path that is down is named with its pool, pair, direction, reason and time; an MTU with what to write."""
    down = dataclasses.replace(DOWN, reason=path_loss.TOO_LARGE, by="10.9.9.9", direction=path_loss.THERE)
    assert path_status.sentence("node1", down) == (
        "node1 -> node2 in pool web: too large for the path, says 10.9.9.9 (lost on the way there), since"
        " 2026-11-29T20:00:00Z (10.244.1.7 -> 10.244.2.7, 1500 bytes)"
    )
    assert str(STATUS.fragmenting) == (
        "eth0 has MTU 1400, but the fleet uses 1500: packets in VXLAN tunnels over IPv4 are fragmented: slower, not"
        " down. Raise its MTU, or set calico_underlay_mtu: 1400 and run playbooks/site.yml."
    )
    assert "larger packets are lost" in str(Fragmenting("eth0", 1400, 1500, False))


@pytest.mark.parametrize(
    ("heard", "seconds", "count", "direction"),
    [
        (2.0, 30.0, 1, path_loss.BACK),
        (29.0, 30.0, 1, path_loss.THERE),
        (100.0, 30.0, 1, path_loss.THERE),
        (None, 30.0, 1, path_loss.THERE),
        (25.0, 900.0, 1, path_loss.BACK),
        (45.0, 900.0, 1, path_loss.THERE),
        (45.0, 900.0, 20, path_loss.BACK),
    ],
)
def test_direction_by_what_the_other_end_heard(heard: float | None, seconds: float, count: int, direction: str) -> None:
    """The other end of a path knows whether probes come lately; what an end knows itself stays."""
    reverse = PathDown(
        "web",
        "node1",
        DOWN.address,
        DOWN.source,
        1500,
        path_loss.NO_ANSWER,
        "",
        path_loss.THERE,
        DOWN.since,
        20.0,
        heard,
    )
    status = dataclasses.replace(
        STATUS,
        pools=(PoolCounts("web", 30, 0, count, 0, 0, 5),),
        down=(dataclasses.replace(DOWN, seconds=seconds),),
    )
    found = path_status.with_directions({"node1": status, "node2": PathStatus(True, "", (), (reverse,))})
    assert found["node1"].down[0].direction == direction
    assert found["node2"].down[0].direction == path_loss.THERE
    assert path_status.with_directions({"node1": STATUS}) == {"node1": STATUS}
