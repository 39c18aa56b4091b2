# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a fleet by its heartbeats, with and without problems, and as the action prints it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import heartbeat_cells
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import status_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.live_drift import LiveDrift

from tests.unit.plugin_utils import controller
from tests.unit.plugin_utils.controller import Run
from tests.unit.state.derived.test_path_status import STATUS as PATHS

NOW = 1_795_770_000.0
GOOD = Heartbeat(
    "node1", NOW - 4.2, "0.2.0", "7f3a91", "converge", True, 0, "", 0, 11, 11, (), 41, 5120, 7, True, 0.4
)  # fmt: skip
HEARTBEATS = {
    "node1": GOOD,
    "node2": dataclasses.replace(GOOD, node="node2", written=NOW - 200, sessions_established=10),
    "node3": dataclasses.replace(GOOD, node="node3", written=NOW + 90, phase="flip", in_sync=False, sessions_total=0,
                                 sessions_established=0),
    "node4": dataclasses.replace(GOOD, node="node4", problems=3, first_problem="iptables fails.\x1b[31m\nroot:",
                                 in_sync=False, feed_synced=False, feed_age=75.0, drift_day=12),
}  # fmt: skip
HOSTS = ("node1", "node2", "node3", "node4", "node5", "node6", "rr1")
AGENTS = frozenset(HOSTS) - {"rr1"}
REFUSED = {"node6": "it is not JSON."}


def text(hosts: t.Sequence[str] = HOSTS) -> list[str]:
    return HeartbeatStatus(hosts, AGENTS, HEARTBEATS, REFUSED, NOW).lines()


def test_a_good_fleet_has_no_problem_lines() -> None:
    assert text(["node1", "rr1"]) == [
        "NODE    HEARTBEAT   AGENT   BGP     WORKLOADS   SYNC   DRIFT(24h)   REVISION   PROBLEMS",
        "node1   4s          0.2.0   11/11   41          ok     0            5120       0",
        "rr1     no agent    -       -       -           -      -            -          -",
        "good  2/2 nodes · 11/11 sessions Established, counted at both ends · 41 workloads · paths not asked  "
        "(by heartbeats)",
    ]


def test_everything_that_can_be_wrong() -> None:
    assert text() == [
        "NODE    HEARTBEAT    AGENT   BGP       WORKLOADS   SYNC   DRIFT(24h)   REVISION   PROBLEMS",
        "node1   4s           0.2.0   11/11     41          ok     0            5120       0",
        "node2   3m !         0.2.0   10/11 !   41          ok     0            5120       0",
        "node3   1m ahead !   0.2.0   -         41          no !   0            5120       0",
        "node4   4s           0.2.0   11/11     41          no !   12           5120 !     3 !",
        "node5   never !      -       -         -           -      -            -          -",
        "node6   not read !   -       -         -           -      -            -          -",
        "rr1     no agent     -       -         -           -      -            -          -",
        "! node2: its last heartbeat is 3m old. The agent or the host is down, does not reach the datastore, "
        "or has a clock that is behind; what follows is from then.",
        "! node2: 1 of 11 BGP sessions is not Established.",
        "! node3: its clock is 1m ahead of the one here. Let both take the time by NTP.",
        "! node3: the agent repairs. `calicoctl plan` there says what.",
        "! node3: it is in phase flip of a change. If no run goes on, run playbooks/site.yml without --limit.",
        "! node4: iptables fails.\x1b[31m\nroot: (2 more).",
        "! node4: it hears nothing of other nodes since 1m; its policy keeps what it knows of them.",
        "! node5: has sent no heartbeat yet. Its agent does not run, or does not reach the datastore: -e source=nodes "
        "asks the node itself.",
        "! node6: its heartbeat is left out: it is not JSON.",
        "degraded  2/7 nodes good · 32/33 sessions Established, counted at both ends · 164 workloads · paths not "
        "asked  (by heartbeats)",
    ]


def without(*away: str, **odd: Heartbeat) -> list[str]:
    """Return the problems and the verdict of five nodes of a mesh from which the nodes `away` have gone."""
    hosts = [f"node{number}" for number in range(1, 6)]
    others = {
        host: dataclasses.replace(
            GOOD, node=host, sessions_established=4 - len(away), sessions_total=4, sessions_down=away, workloads=1
        )
        for host in hosts
        if host not in away
    }
    lines = HeartbeatStatus(hosts, hosts, {**others, **odd}, {}, NOW).lines()
    return lines[len(hosts) + 1 :]


def test_a_node_that_is_down_is_the_only_one_to_blame() -> None:
    """Its peers are well whether its heartbeat is old, its BIRD has ended, or most of its sessions are down."""
    old = dataclasses.replace(GOOD, node="node5", written=NOW - 200, sessions_total=4, sessions_established=4)
    silent = dataclasses.replace(
        GOOD, node="node5", problems=1, first_problem="BIRD does not answer.", sessions_total=0, sessions_established=0
    )
    cut = dataclasses.replace(
        GOOD, node="node5", sessions_total=4, sessions_established=1, sessions_down=("node1", "node2", "node3")
    )
    assert without("node5", node5=old) == [
        "! node5: its last heartbeat is 3m old. The agent or the host is down, does not reach the datastore, "
        "or has a clock that is behind; what follows is from then.",
        "degraded  4/5 nodes good · 16/20 sessions Established, counted at both ends · 45 workloads · paths not asked  "
        "(by heartbeats)",
    ]
    assert without("node5", node5=silent) == [
        "! node5: BIRD does not answer.",
        "degraded  4/5 nodes good · 12/16 sessions Established, counted at both ends · 45 workloads · paths not asked  "
        "(by heartbeats)",
    ]
    assert without("node5", node5=cut) == [
        "! node5: 3 of 4 BGP sessions are not Established.",
        "degraded  4/5 nodes good · 13/20 sessions Established, counted at both ends · 45 workloads · paths not asked  "
        "(by heartbeats)",
    ]
    assert without("node5") == [
        "! node5: has sent no heartbeat yet. Its agent does not run, or does not reach the datastore: -e source=nodes "
        "asks the node itself.",
        "degraded  4/5 nodes good · 12/16 sessions Established, counted at both ends · 4 workloads · paths not "
        "asked  (by heartbeats)",
    ]


def test_a_session_with_a_node_that_does_well_counts() -> None:
    """It counts also beside a session with a node that is down, and if the heartbeat does not name its other end."""
    one = dataclasses.replace(
        GOOD, sessions_total=4, sessions_established=1, sessions_down=("node5", "node2"), workloads=1
    )
    fine = dataclasses.replace(
        GOOD, node="node5", sessions_total=4, sessions_established=3, sessions_down=("node1",), workloads=1
    )
    other = dataclasses.replace(one, sessions_established=2)
    assert without("node5", node1=other)[0] == "! node1: 1 of 4 BGP sessions is not Established."
    assert without("node5", node1=one)[0] == "! node1: 3 of 4 BGP sessions are not Established."
    assert without(node5=fine)[0] == "! node5: 1 of 4 BGP sessions is not Established."


def test_a_node_that_never_heard_of_others() -> None:
    deaf = dataclasses.replace(GOOD, feed_synced=False, feed_age=None, sessions_established=8)
    assert list(heartbeat_cells.wrong(deaf, NOW)) == [
        "3 of 11 BGP sessions are not Established.",
        "it hears nothing of other nodes so far; its policy keeps what it knows of them.",
    ]
    single = dataclasses.replace(GOOD, problems=1, first_problem="the disk is full")
    assert list(heartbeat_cells.wrong(single, NOW)) == ["the disk is full."]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-5, "0s"), (59.9, "59s"), (60, "1m"), (3_599, "59m"), (7_200, "2h"), (200_000, "2d")]
)
def test_a_duration_is_shown_in_its_largest_unit(seconds: float, shown: str) -> None:
    assert heartbeat_cells.duration(seconds) == shown


HOSTS_FILE = "calico_nodes: {hosts: {node1: {}, node2: {}}}\ncalico_rr: {hosts: {rr1: {}}}\n"


def test_the_action_prints_heartbeats_if_the_datastore_was_read(tmp_path: pathlib.Path) -> None:
    """Texts of nodes reach the terminal escaped; the source etcd fails without a datastore; asked nodes are named."""
    (tmp_path / "hosts.yml").write_text(HOSTS_FILE)
    now = time.time()
    hostile = dataclasses.replace(
        GOOD, node="node2", written=now, problems=1, first_problem="\x1b[2Jgone\n! node1: bad"
    )
    nodes = {
        one.node: {**dataclasses.asdict(one), "age": 1.0} for one in (dataclasses.replace(GOOD, written=now), hostile)
    }
    read = {"reachable": True, "reason": "", "nodes": nodes, "refused": {}, "changed": False}
    away = {"reachable": False, "reason": "no member of the etcd cluster answers (https://a: refused)", "nodes": {}}

    def run(known: t.Mapping[str, t.Any], **args: t.Any) -> Run:
        wanted = {"status": "seen", "datastore": "known", **args}
        answers = {
            host: {"known": known, "seen": {"unreachable": True, "msg": "no"}} for host in ("node1", "node2", "rr1")
        }
        return Run("fleet_status", wanted, str(tmp_path / "hosts.yml"), answers)

    printed, results = controller.printed(
        [
            run(read),
            run(read, output="json"),
            run(read, strict=True),
            run(away),
            run(away, source="etcd"),
            run({"reachable": None, "reason": ""}, source="etcd"),
            run({"skipped": True}, source="nodes"),
        ]
    )
    table, as_json, strict, asked, must, none, nodes_only = results
    assert table["problems"] == ["node2: \\x1b[2Jgone\n! node1: bad."] and not table["good"]
    assert "! node2: \\x1b[2Jgone\\n! node1: bad." in printed and "\x1b" not in printed
    assert set(table["nodes"]) == {"node1", "node2", "rr1"} and table["nodes"]["rr1"] is None
    assert json.loads("\n".join(as_json["lines"]))["source"] == "etcd"
    assert strict["msg"] == "1 thing is not well with the fleet, see above."
    assert asked["warnings_found"] == [f"the datastore was not read, so the nodes were asked: {away['reason']}"]
    assert must["msg"] == f"The datastore cannot be read: {away['reason']}. -e source=nodes asks the nodes."
    assert none["msg"] == (
        "The datastore cannot be read: the inventory names none (calico_etcd_endpoints, group calico_etcd). -e "
        "source=nodes asks the nodes."
    )
    assert nodes_only["warnings_found"] == []


def test_paths_that_are_down() -> None:
    """Each path that is down is a line of its node, unless it leads to a node that is itself to blame."""
    paths = dataclasses.replace(PATHS, nodes=(), count_nodes=0, fragmenting=None)
    found = {"node1": dataclasses.replace(GOOD, paths=paths), "node2": dataclasses.replace(GOOD, node="node2")}
    lines = HeartbeatStatus(["node1", "node2"], AGENTS, found, {}, NOW).lines()
    assert lines[-2:] == [
        "! node1: the path to node2 in pool web: no answer, since 2026-11-29T20:00:00Z (10.244.1.7 -> 10.244.2.7, 1500 "
        "bytes).",
        "degraded  1/2 nodes good · 22/22 sessions Established, counted at both ends · 82 workloads · 3/6 paths up, "
        "those of 1 node not asked  (by heartbeats)",
    ]
    old = {**found, "node2": dataclasses.replace(found["node2"], written=NOW - 200)}
    assert not any("pool web" in line for line in HeartbeatStatus(["node1", "node2"], AGENTS, old, {}, NOW).lines())


def test_a_folder_that_differs_from_live_policy_is_a_problem() -> None:
    """Equal policy is a line and no problem, in the status by heartbeats and by nodes."""
    one = {"node1": dataclasses.replace(GOOD, paths=None)}
    equal = LiveDrift("live", same=2)
    status = HeartbeatStatus(["node1"], AGENTS, one, {}, NOW, drift=equal)
    assert status.problems == [] and status.verdict.startswith("good  ")
    assert status.lines()[-2] == "live policy is that of the folder live: 2 documents"
    differs = LiveDrift("live", missing=("Tier(web)",), same=2)
    status = HeartbeatStatus(["node1"], AGENTS, one, {}, NOW, drift=differs)
    assert status.problems == differs.problems and status.verdict.startswith("degraded  1/1 nodes")
    assert status.lines()[-2] == f"! {differs.problems[0]}"
    assert status_lines.text([], {}, drift=equal)[1] == equal.lines[0]
    by_nodes = status_lines.text([], {}, drift=differs)
    assert by_nodes[1] == f"! {differs.problems[0]}" and by_nodes[2].startswith("degraded  ")


def test_the_action_says_how_live_policy_differs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS_FILE)
    own = dataclasses.asdict(dataclasses.replace(GOOD, written=time.time()))
    nodes = {name: {**own, "node": name, "age": 1.0} for name in ("node1", "node2", "rr1")}
    read = {"reachable": True, "reason": "", "nodes": nodes, "refused": {}}
    plan = {"documents": {"created": ["Tier(\x1b[2J)"], "changed": [], "deleted": [], "unchanged": ["Tier(a)"]}}
    failed = {"failed": False, "msg": "the datastore cannot be read: no member answers."}

    def run(live: t.Mapping[str, t.Any], **args: t.Any) -> Run:
        known = {host: {"known": read, "seen": {}, "drift": live} for host in ("node1", "node2", "rr1")}
        wanted = {"status": "seen", "datastore": "known", "live": "drift", "live_folder": "x", **args}
        return Run("fleet_status", wanted, str(tmp_path / "hosts.yml"), known)

    printed, results = controller.printed(
        [run(plan), run(failed), run(failed, strict=True), run(plan, live_folder=""), run({}, output="json")]
    )
    differs, away, strict, not_asked, unknown = results
    assert differs["live"]["missing"] == {"count": 1, "names": ["Tier(\\x1b[2J)"]} and not differs["good"]
    assert differs["live"]["command"] == "ansible-playbook playbooks/live.yml -e folder=x --check --diff"
    assert "! live policy differs from the folder x: 1 document is missing (Tier(\\x1b[2J))." in printed
    assert away["problems"] == ["live policy was not compared with the folder x: the datastore cannot be read: no "
                                "member answers."]  # fmt: skip
    assert strict["failed"] and "live" not in not_asked and not_asked["good"]
    assert json.loads("\n".join(unknown["lines"]))["live"]["compared"] is False


def test_members_of_etcd_that_do_not_answer_are_named() -> None:
    """A cluster that lacks one of three members works, and is not good."""
    hosts = ["node1", "rr1"]
    silent = {"https://10.10.1.13:2379": "connection refused"}
    status = HeartbeatStatus(hosts, AGENTS, HEARTBEATS, REFUSED, NOW, 3, silent)
    problem = (
        "etcd: member https://10.10.1.13:2379 does not answer: connection refused. playbooks/etcd_status.yml asks its "
        "host."
    )
    assert status.problems == [problem]
    assert status.lines()[-2:] == [
        f"! {problem}",
        "degraded  2/2 nodes · 11/11 sessions Established, counted at both ends · 41 workloads · paths not asked · "
        "2/3 members of etcd answer  (by heartbeats)",
    ]
    whole = HeartbeatStatus(hosts, AGENTS, HEARTBEATS, REFUSED, NOW, 3)
    assert whole.problems == []
    assert whole.verdict.startswith("good") and "3/3 members of etcd answer" in whole.verdict
