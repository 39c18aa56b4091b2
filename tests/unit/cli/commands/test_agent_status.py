# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl status`, `resync`, `plan` and `version`: the output for this node's agent."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import agent_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import INVALID_PARAMS, AgentError

from tests.unit.cli.conftest import STATE, Node
from tests.unit.state.derived.test_path_status import STATUS as PATHS

STATUS: dict[str, t.Any] = {
    "version": "0.2.0",
    "engine": "6cd0c2f4b9f3a1d8",
    "pid": 812,
    "since": "2026-11-12T07:00:00Z",
    "node": "node1",
    "plan": STATE.plan,
    "phase": "converge",
    "complete": True,
    "in_sync": True,
    "problems": [],
    "workloads": 41,
    "inventory_workloads": 1,
    "deleting": 0,
    "drift": {"total": 9, "day": 3, "kinds": {"sysctl": 1, "route": 2}},
    "last_resync": "2026-11-21T07:00:00Z",
}
GOOD = """\
node        node1
agent       0.2.0, since 2026-11-12T07:00:00Z, process 812
plan        7f3a91c02b1e, phase converge
in sync     yes, last resync 2026-11-21T07:00:00Z
workloads   42: 1 of the inventory, 41 attached by the agent
drift       3 in 24 h (2 route, 1 sysctl), 9 since the start
"""
BAD = """\
node        node1
agent       0.2.0, since 2026-11-12T07:00:00Z, process 812
plan        none, phase flip, not applied completely
in sync     no, last resync none yet
workloads   42: 1 of the inventory, 41 attached by the agent, 2 being deleted
drift       0 in 24 h, 0 since the start
! route 10.244.3.0/26: busy.
"""
ROUTE = {
    "kind": "route",
    "action": "~",
    "subject": "10.244.7.0/26",
    "before": "via 10.10.1.12 dev eth0",
    "after": "via 10.10.1.12 dev tunl0 onlink",
    "note": "",
}
BLOCK = {"kind": "route", "action": "+", "subject": "10.244.12.64/26", "before": None, "after": "blackhole"}


def test_status_has_the_paths(node: Node) -> None:
    """The paths that the agent watches are a line, and each that is down is one."""
    node.agent().answers["status"] = {**STATUS, "paths": PATHS.to_dict()}
    out = node.run("status")[1]
    assert (
        "\npaths       3 of 6 up, 1 down, 1 to nodes that are down, 1 not tried yet; each is tried within 30 s\n" in out
    )
    assert "\n! node1 -> node3: the node is down, its session and all its paths\n! node1 -> node2 in pool web:" in out


def test_status_of_an_agent_in_sync_exits_with_0(node: Node) -> None:
    node.agent().answers["status"] = STATUS
    assert node.run("status") == (0, GOOD, "")
    assert json.loads(node.run("status", "-o", "json")[1]) == STATUS


def test_status_of_an_agent_with_problems_exits_with_1(node: Node) -> None:
    bad = {"plan": "", "phase": "flip", "complete": False, "in_sync": False, "last_resync": "", "deleting": 2}
    bad.update(problems=["route 10.244.3.0/26: busy."], drift={"total": 0, "day": 0, "kinds": {}})
    node.agent().answers["status"] = {**STATUS, **bad}
    assert node.run("status") == (1, BAD, "")


DATASTORE: dict[str, t.Any] = {
    "endpoints": ["https://10.10.1.21:2379"],
    "member": "https://10.10.1.21:2379",
    "synced": True,
    "since": "2026-11-21T06:00:00Z",
    "known_until": "2026-11-21T07:00:00Z",
    "revision": 512,
    "cluster": "cafe",
    "nodes": 4,
    "workloads": 90,
    "waiting": 0,
    "published": "2026-11-21T07:00:00Z",
    "listings": 1,
    "resumptions": 0,
    "problem": "",
    "refused": [],
}
REFUSED = {"key": "/host-routing/v1/endpoints/node2/cali\x1b1", "reason": "it is not JSON."}


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        (
            {},
            "datastore   followed at https://10.10.1.21:2379 since 2026-11-21T06:00:00Z, revision 512, 90 workloads of"
            " 4 nodes\n",
        ),
        (
            {"synced": False, "member": "", "waiting": 3},
            "datastore   not followed, known as of 2026-11-21T07:00:00Z, revision 512, 90 workloads of 4 nodes, 3 keys"
            " of this node wait\n",
        ),
        (
            {"synced": False, "known_until": "", "revision": 0, "nodes": 0, "workloads": 0, "waiting": None},
            "datastore   not followed, nothing is known of it, revision 0, 0 workloads of 0 nodes\n",
        ),
        (
            {"refused": [REFUSED]},
            "datastore   followed at https://10.10.1.21:2379 since 2026-11-21T06:00:00Z, revision 512, 90 workloads of"
            " 4 nodes\n            refused /host-routing/v1/endpoints/node2/cali\\x1b1: it is not JSON.\n",
        ),
    ],
)
def test_the_datastore_is_a_line_of_its_own(node: Node, more: dict[str, t.Any], lines: str) -> None:
    node.agent().answers["status"] = {**STATUS, "datastore": {**DATASTORE, **more}}
    assert node.run("status") == (0, GOOD.replace("drift ", f"{lines}drift "), "")


LIVE: dict[str, t.Any] = {
    "documents": 3,
    "cluster": "cafe",
    "revision": 509,
    "read": 512,
    "held_back": "",
    "without_effect": [],
    "count_refused": 0,
    "refused": [],
}
AT = "/host-routing/v1/documents/tiers/a"


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, ["live policy 3 documents, in force as of revision 509"]),
        ({"documents": 1, "revision": 0}, ["live policy 1 document, not in force yet"]),
        (
            {"held_back": "policy a is in tier \x1bb, which does not exist", "without_effect": ["policy web"]},
            [
                "live policy 3 documents, in force as of revision 509",
                "! later ones are held back: policy a is in tier \\x1bb, which does not exist",
                "            policy web has no effect: the inventory has one of this name",
            ],
        ),
        (
            {"count_refused": 4, "refused": [{"key": AT, "reason": "it is not JSON."}]},
            [
                "live policy 3 documents, in force as of revision 509",
                f"            refused {AT}: it is not JSON.",
                "            3 more are refused",
            ],
        ),
    ],
)
def test_live_policy_is_a_line_of_its_own(node: Node, more: dict[str, t.Any], lines: list[str]) -> None:
    node.agent().answers["status"] = {**STATUS, "datastore": {**DATASTORE, "live_policy": {**LIVE, **more}}}
    status, shown, errors = node.run("status")
    found = [line for line in shown.splitlines() if "documents" in line or line.startswith(("!", " ", "live"))]
    assert (status, found, errors) == (0, lines, "")


def test_an_agent_of_an_earlier_release_counts_its_own_workloads(node: Node) -> None:
    earlier = {key: value for key, value in STATUS.items() if key != "inventory_workloads"}
    node.agent().answers["status"] = earlier
    assert "workloads   41 attached by the agent\n" in node.run("status")[1]


def test_an_agent_that_is_just_looking_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = node.agent()
    looks = iter([False, False, True])
    monkeypatch.setattr(agent_source, "_STEP", 0.0)
    agent.answers["status"] = lambda dummy: {**STATUS, "in_sync": next(looks)}
    assert node.run("status") == (0, GOOD, "")
    monkeypatch.setattr(agent_source, "PATIENCE", 0.0)
    agent.answers["status"] = {**STATUS, "in_sync": False}
    assert node.run("status") == (1, GOOD.replace("in sync     yes", "in sync     no"), "")
    assert [method for method, dummy in agent.asked] == ["status"] * 4


def test_commands_without_an_agent_say_how_to_start_it(node: Node) -> None:
    for command in ("status", "resync", "plan", "log-level"):
        assert node.run(command) == (
            1,
            "",
            "calicoctl: the agent of this node does not answer. Its socket is NODE/run/agent.sock: No such file or "
            "directory. Start it with `systemctl start calico-agent`; `journalctl -u calico-agent` says why it "
            "stopped.\n",
        )


@pytest.mark.parametrize(
    ("changes", "problems", "expected"),
    [
        ([], [], {"plan": "nothing to change\n", "resync": "in sync, nothing to repair\n"}),
        (
            [ROUTE, BLOCK],
            [],
            "~ route    10.244.7.0/26    via 10.10.1.12 dev eth0  ->  via 10.10.1.12 dev tunl0 onlink\n"
            "+ route    10.244.12.64/26  blackhole\n",
        ),
        ([], ["device tunl0: busy."], "! device tunl0: busy.\n"),
    ],
)
def test_plan_and_resync_list_changes_and_problems(
    node: Node, changes: t.Any, problems: t.Any, expected: t.Any
) -> None:
    agent = node.agent()
    for command, method in (("plan", "node.plan"), ("resync", "resync")):
        agent.answers[method] = {"changes": changes, "problems": problems, "in_sync": not problems}
        text = expected[command] if isinstance(expected, dict) else expected
        assert node.run(command) == (1 if problems else 0, text, "")
        assert agent.asked[-1] == (method, {})


def test_the_level_of_the_log_is_shown_and_set(node: Node) -> None:
    agent = node.agent()
    agent.answers["log.level"] = {"level": "info", "before": "info"}
    assert node.run("log-level") == (0, "info\n", "")
    agent.answers["log.level"] = {"level": "debug", "before": "info"}
    assert node.run("log-level", "debug") == (0, "debug until the agent restarts; it was info\n", "")
    assert agent.asked == [("log.level", {}), ("log.level", {"level": "debug"})]
    message = "log.level: level 'loud' must be one of debug, info, warning, error."
    agent.answers["log.level"] = AgentError(INVALID_PARAMS, message)
    assert node.run("log-level", "loud") == (1, "", f"calicoctl: {message}\n")


def test_resync_with_waiting_objects_alone_succeeds(node: Node) -> None:
    waiting = ["route 10.244.3.2/32 waits for its device."]
    node.agent().answers["resync"] = {"changes": [], "problems": [], "waiting": waiting, "in_sync": True}
    assert node.run("resync") == (0, "  route 10.244.3.2/32 waits for its device.\n", "")


def test_version(node: Node) -> None:
    own = "Client Version:    0.2.0\nEngine:            not installed\n"
    assert node.run("version", "--client") == (0, own, "")
    status, out, err = node.run("version")
    assert (status, out) == (0, own)
    assert err.startswith("calicoctl: the agent does not run (nobody listens at NODE/run/agent.sock)")
    node.agent()
    expected = f"{own}Agent Version:     0.2.0\nAgent Engine:      6cd0c2f4b9f3a1d8\n"
    assert node.run("version") == (0, expected, "")
