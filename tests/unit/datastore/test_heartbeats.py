# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a heartbeat, and what its reader refuses."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat

from tests.unit.state.derived.test_path_status import STATUS as PATHS

GOOD = Heartbeat(
    node="node1",
    written=1795770000.5,
    version="0.1.0",
    plan="7f3a91c2",
    phase="converge",
    in_sync=True,
    problems=2,
    first_problem="route 10.244.7.0/26 is missing",
    drift_day=3,
    sessions_established=10,
    sessions_total=12,
    sessions_down=("node7", "node8.example.org"),
    workloads=41,
    revision=5120,
    cluster=14841639068965178418,
    feed_synced=True,
    feed_age=0.4,
)


def document(**fields: t.Any) -> bytes:
    return json.dumps({**json.loads(heartbeats.encode(GOOD)), **fields}).encode()


def test_a_heartbeat_is_read_as_it_was_written() -> None:
    for one in (GOOD, Heartbeat("node2", 0.0, "0.1.0"), dataclasses.replace(GOOD, feed_age=None)):
        assert heartbeats.decode(one.node, heartbeats.encode(one)) == one
    assert b"node1" not in heartbeats.encode(GOOD)
    assert GOOD.age(1795770010.5) == 10.0 and GOOD.age(1795770000.0) == -0.5


def test_a_long_problem_is_cut_and_the_longest_heartbeat_is_read() -> None:
    longest = dataclasses.replace(
        GOOD, first_problem="\U0001f600" * 500, version="9" * 40, plan="f" * 64, cluster=2**64 - 1, revision=2**64 - 1,
        sessions_total=2**32, sessions_down=["n" * 253] * 1000,
    )  # fmt: skip
    encoded = heartbeats.encode(longest)
    assert len(encoded) < 7_000
    found = heartbeats.decode("node1", encoded)
    assert (found.first_problem, found.sessions_down) == ("\U0001f600" * 200, ("n" * 253,) * 15)
    many = dataclasses.replace(longest, sessions_down=[f"node{number}" for number in range(1000)])
    assert heartbeats.decode("node1", heartbeats.encode(many)).sessions_down == tuple(f"node{n}" for n in range(32))


def test_paths_are_read_as_they_were_written() -> None:
    """A heartbeat has at most eight paths and nodes by name, and the counts of all."""
    one = dataclasses.replace(GOOD, paths=PATHS)
    assert heartbeats.decode("node1", heartbeats.encode(one)) == one
    many = dataclasses.replace(PATHS, down=PATHS.down * 16, nodes=PATHS.nodes * 16)
    found = heartbeats.decode("node1", heartbeats.encode(dataclasses.replace(GOOD, paths=many))).paths
    assert found is not None and (len(found.down), len(found.nodes), found.pools) == (8, 8, PATHS.pools)


def test_the_longest_paths_leave_a_heartbeat_readable() -> None:
    """A heartbeat with the longest names stays below its limit: it names fewer paths, and keeps the counts."""
    longest = dataclasses.replace(
        PATHS.down[0], pool="p" * 253, node="n" * 253, by="2001:db8:1111:2222:3333:4444:5555:1"
    )
    paths = dataclasses.replace(
        PATHS,
        down=(longest,) * 16,
        nodes=("m" * 253,) * 16,
        pools=tuple(dataclasses.replace(PATHS.pools[0], pool="q" * 253) for dummy in range(64)),
    )
    one = dataclasses.replace(
        GOOD, paths=paths, sessions_total=2**32, sessions_down=["n" * 253] * 1000, first_problem="\U0001f600" * 500
    )
    encoded = heartbeats.encode(one)
    found = heartbeats.decode("node1", encoded).paths
    assert len(encoded) <= 8192 and found is not None
    assert (found.count, found.count_down) == (64 * 3, 64)


def test_a_field_of_a_newer_release_is_skipped() -> None:
    assert heartbeats.decode("node1", document(mood=["good"], node="node2")) == GOOD


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is not JSON."),
        (b"\xff\x00", "it is not JSON."),
        (b"[" * 5000, "it is not JSON."),
        (b"[]", "it is no JSON object."),
        (b" " * 8193, "it has more than 8192 bytes."),
        (b"x" * (1 << 20), "it has more than 8192 bytes."),
        (b"{}", "its field written is missing."),
        (document(written=True), "its field written is True, not a number from 0 to 1e+11."),
        (document(written=float("nan")), "it is not JSON."),
        (document(written=-1), "its field written is -1, not a number from 0 to 1e+11."),
        (document(written=10**400), "its field written is a very large number, not a number from 0 to 1e+11."),
        (document(version=""), "its field version is '', not the number of a release."),
        (document(version="1\n"), "its field version is '1\\n', not the number of a release."),
        (
            document(version="\x1b[31m0.1.0\nnode2 good"),
            "its field version is '\\x1b[31m0.1.0\\nnode2 good', not the number of a release.",
        ),
        (document(plan="../x"), "its field plan is ../x, not the name of a plan."),
        (document(phase="soak"), "its field phase is soak, not a phase."),
        (document(phase=["flip"]), "its field phase is a list, not a phase."),
        (document(in_sync=1), "its field in_sync is 1, not true or false."),
        (document(problems=-1), "its field problems is -1, not a whole number from 0 to 4294967296."),
        (document(problems=["x"]), "its field problems is a list, not a whole number from 0 to 4294967296."),
        (document(drift_day=1.5), "its field drift_day is 1.5, not a whole number from 0 to 4294967296."),
        (document(workloads=False), "its field workloads is False, not a whole number from 0 to 4294967296."),
        (
            document(first_problem="x" * 201),
            f"its field first_problem is {'x' * 77}..., not a text of at most 200 characters.",
        ),
        (document(first_problem={}), "its field first_problem is a table, not a text of at most 200 characters."),
        (document(sessions_established=13), "more of its BGP sessions are established than there are."),
        (document(sessions_established=11), "it names more BGP sessions that are down than there are."),
        (
            document(sessions_down="node7"),
            "its field sessions_down is node7, not a list of at most 32.",
        ),
        (
            document(sessions_down=["n"] * 33, sessions_total=99),
            "its field sessions_down is a list of 33, not a list of at most 32.",
        ),
        (document(sessions_down=["node7", 8]), "its field sessions_down[1] is 8, not the name of a node."),
        (
            document(sessions_down=["node7\n! node2: is down"]),
            "its field sessions_down[0] is 'node7\\n! node2: is down', not the name of a node.",
        ),
        (document(revision=2**64), f"its field revision is {2**64}, not a whole number from 0 to {2**64 - 1}."),
        (document(cluster="7"), f"its field cluster is 7, not a whole number from 0 to {2**64 - 1}."),
        (document(feed_synced=None), "its field feed_synced is None, not true or false."),
        (document(feed_age="soon"), "its field feed_age is soon, not a number from 0 to 1e+11."),
    ],
)
def test_rubbish_is_refused_in_words(value: bytes, reason: str) -> None:
    with pytest.raises(RefusedDocument) as refusal:
        heartbeats.decode("node1", value)
    assert str(refusal.value) == reason


def test_each_field_is_needed() -> None:
    whole = json.loads(heartbeats.encode(GOOD))
    for name in whole:
        if name not in ("feed_age", "paths"):
            with pytest.raises(RefusedDocument, match=f"its field {name} is missing"):
                heartbeats.decode("node1", json.dumps({k: v for k, v in whole.items() if k != name}).encode())
