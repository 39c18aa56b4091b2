# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole fleet as one table, with and without problems."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import release
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import status_lines

from tests.unit.plugin_utils import controller
from tests.unit.plugin_utils.controller import Run

DRIFT = {"total": 9, "day": 0, "kinds": {}}
AGENT = {
    "wanted": True,
    "running": True,
    "version": "0.2.0",
    "since": "x",
    "uptime": 9 * 86400 + 5,
    "in_sync": True,
    "problems": [],
}


def session(node: str, state: str = "Established", **more: t.Any) -> dict[str, t.Any]:
    plain = {"name": "Mesh_x", "node": node, "address": "10.10.1.1", "established": state == "Established"}
    return {**plain, "state": state, "since": "", "error": "", "routes_kept": False, **more}


def block(cidr: str, in_use: int = 3, spare: bool = False) -> dict[str, t.Any]:
    numbers = {"size": 64, "in_use": in_use, "reserved": 0, "free": 64 - in_use}
    return {"cidr": cidr, "pool": "default", **numbers, "spare": spare, "cooling": 0}


def node(name: str, **more: t.Any) -> dict[str, t.Any]:
    others = [other for other in ("node1", "node2", "node3") if other != name]
    return {
        "changed": False,
        "failed": False,
        "node": name,
        "plan": "7f3a91",
        "phase": "converge",
        "complete": True,
        "bgp": {"enabled": True, "running": True, "sessions": [session(other) for other in others]},
        "routes": {"expected": 2, "present": 2, "missing": []},
        "blocks": [block("10.244.3.0/26"), block("10.244.9.64/26", 0, spare=True)],
        "workloads": 2,
        "agent": {**AGENT, "drift": DRIFT},
        "problems": [],
        **more,
    }


def lost(name: str, **more: t.Any) -> dict[str, t.Any]:
    return session(name, "Active", since="14:02:11", error="Hold timer expired", **more)


@pytest.fixture(autouse=True)
def this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release of this controller, the one that AGENT has."""
    monkeypatch.setattr(release, "VERSION", "0.2.0")


HOSTS = ["node1", "node2", "node3"]
GOOD = """\
NODE    BGP   BLOCKS          WORKLOADS   ROUTES   DRIFT(24h)   AGENT
node1   2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d
node2   2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d
node3   2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d
good  3/3 nodes · 3/3 sessions Established · 6 workloads · paths not asked
"""
BAD = """\
NODE    BGP     BLOCKS             WORKLOADS   ROUTES      DRIFT(24h)        AGENT
node1   1/2 !   10.244.3.0/26 +1   2/128       1 missing   3 (route, rule)   0.2.0 up 3h !
node2   1/2 !   10.244.3.0/26      2/64        ok          -                 down !
node3   -       -                  -           -           -                 unreachable !
! node1 <-> node2: Active since 14:02:11 (Hold timer expired); its routes are kept by graceful restart
! node1: route 10.244.7.0/26 of node2 is missing, expected via 10.10.1.12 dev tunl0 onlink
! node1: the agent repairs, and is not done within seconds. `calicoctl plan` there says what.
! node2: the agent does not run. `systemctl status calico-agent` there says why.
! node3: unreachable: Failed to connect to the host via ssh: timed out
degraded  0/3 nodes good · 1/2 sessions Established · 4 workloads · paths not asked
"""


def shown(hosts: t.Sequence[str], results: t.Mapping[str, t.Any]) -> str:
    return "".join(f"{line}\n" for line in status_lines.text(hosts, results))


def results_of_bad() -> dict[str, t.Any]:
    missing = "route 10.244.7.0/26 of node2 is missing, expected via 10.10.1.12 dev tunl0 onlink"
    return {
        "node1": node(
            "node1",
            bgp={"enabled": True, "running": True, "sessions": [lost("node2", routes_kept=True), session("node3")]},
            routes={"expected": 2, "present": 1, "missing": [missing]},
            blocks=[block("10.244.3.0/26"), block("10.244.4.0/26")],
            agent={
                **AGENT,
                "uptime": 3 * 3600,
                "in_sync": False,
                "drift": {"total": 3, "day": 3, "kinds": {"rule": 1, "route": 2}},
            },
        ),
        "node2": node(
            "node2",
            bgp={"enabled": True, "running": True, "sessions": [lost("node1"), session("node3")]},
            agent={"wanted": True, "running": False},
        ),
        "node3": {"unreachable": True, "msg": "Task failed: Failed to connect to the host via ssh: timed out\nmore"},
    }


def test_a_good_fleet_is_one_table() -> None:
    assert shown(HOSTS, {name: node(name) for name in HOSTS}) == GOOD


def mesh(*down: set[str]) -> dict[str, t.Any]:
    """Return the answers of a mesh of five in which the sessions between these pairs are down."""
    names = [f"node{number}" for number in range(1, 6)]
    return {
        name: node(
            name,
            bgp={
                "enabled": True,
                "running": True,
                "sessions": [
                    lost(other) if {name, other} in down else session(other) for other in names if other != name
                ],
            },
        )
        for name in names
    }


def test_a_node_that_is_down_does_not_count_against_its_peers() -> None:
    of_node5 = [{f"node{number}", "node5"} for number in range(1, 5)]
    unreachable, silent, cut = mesh(*of_node5), mesh(*of_node5), mesh(*of_node5)
    unreachable["node5"] = {"unreachable": True, "msg": "timed out"}
    silent["node5"]["bgp"] = {"enabled": True, "running": False, "sessions": [session(f"node{n}") for n in range(1, 5)]}
    for results in (unreachable, silent, cut):
        assert status_lines.text(list(results), results)[-1].startswith("degraded  4/5 nodes good · ")
    some = mesh({"node1", "node2"})
    assert status_lines.text(list(some), some)[-1].startswith("degraded  3/5 nodes good · 9/10 sessions")
    halves = mesh(*({f"node{n}", f"node{m}"} for n in (1, 2) for m in (3, 4, 5)))
    assert status_lines.text(list(halves), halves)[-1].startswith("degraded  3/5 nodes good · 4/10 sessions")


def test_members_of_etcd_are_in_the_table_of_the_nodes() -> None:
    """A member that does not answer is a problem, and no node's; without etcd nothing is said of members."""
    results = {"node1": node("node1")}
    good = status_lines.text(["node1"], results, members=3)[-1]
    assert good.startswith("good  1/1 nodes") and good.endswith(" · 3/3 members of etcd answer")
    lines = status_lines.text(["node1"], results, members=3, silent={"https://m2:2379": "no answer within 5 s"})
    assert (
        "! etcd: member https://m2:2379 does not answer: no answer within 5 s. playbooks/etcd_status.yml asks its host."
    ) in lines
    assert lines[-1].startswith("degraded  1/1 nodes good") and lines[-1].endswith(" · 2/3 members of etcd answer")
    assert "etcd" not in str(status_lines.text(["node1"], results))


def test_a_session_with_somebody_else_has_one_end_here() -> None:
    bgp = {"enabled": True, "running": True, "sessions": [session(""), session("", "Active")]}
    lines = status_lines.text(["node1"], {"node1": node("node1", bgp=bgp)})
    assert lines[1].startswith("node1   1/2 !   ")
    assert lines[-1] == "degraded  0/1 nodes good · 1/2 sessions Established · 2 workloads · paths not asked"


def test_problems_of_a_fleet_are_shown_as_on_the_page() -> None:
    assert shown(HOSTS, results_of_bad()) == BAD
    page = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "calicoctl.md"
    assert f"playbooks/status.yml -i inventories/prod\n{BAD}```" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("changed", "row", "problems"),
    [
        ({"node": None, "problems": []}, "-     -        -           -        -            no state !",
         ["node1: has no state yet. Run playbooks/site.yml."]),
        ({"node": None, "problems": ["state.json cannot be read: x."]},
         "-     -        -           -        -            no state !", ["node1: state.json cannot be read: x."]),
        ({"complete": False}, "2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d",
         ["node1: its last run was cut short. Run playbooks/site.yml, which completes it."]),
        ({"bgp": {"enabled": False, "running": False, "sessions": []}},
         "-     10.244.3.0/26   2/64        ok       0            0.2.0 up 9d", []),
        ({"bgp": {"enabled": True, "running": False, "sessions": [session("", "none")]},
          "problems": ["BIRD does not answer."]},
         "0/1 !   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d", ["node1: BIRD does not answer."]),
        ({"bgp": {"enabled": True, "running": True, "sessions": [session("", "Idle")]}},
         "0/1 !   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d", ["node1 <-> 10.10.1.1: Idle"]),
        ({"blocks": [], "workloads": 0, "agent": {"wanted": False, "running": False}},
         "2/2   -        -           ok       -            -", []),
        ({"blocks": [block("10.244.3.0/26", 60), block("10.244.9.0/26", 43, spare=True)]},
         "2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d",
         []),
        ({"agent": {**AGENT, "in_sync": False, "problems": ["device tunl0: busy."], "drift": DRIFT}},
         "2/2   10.244.3.0/26   2/64        ok       0            0.2.0 up 9d !", ["node1: device tunl0: busy."]),
    ],
)  # fmt: skip
def test_a_node_has_its_row_and_its_problems(changed: dict[str, t.Any], row: str, problems: list[str]) -> None:
    results = {"node1": node("node1", **changed)}
    assert status_lines.problems(["node1"], results) == problems
    assert status_lines.text(["node1"], results)[1] == f"node1   {row}"


def test_nodes_in_a_phase_that_is_no_end_are_a_problem_of_the_fleet() -> None:
    """Each phase that a run may have left nodes in is named once, with its nodes; a node that retired is at rest."""
    phases = {"node1": "flip", "node2": "prepare", "node3": "flip", "node4": "retire"}
    results = {name: node(name, phase=phase) for name, phase in phases.items()}
    assert status_lines.problems(list(phases), results) == [
        "node1, node3 are in phase flip of a change. If no run goes on, one was left half-way: run playbooks/site.yml "
        "without --limit, which takes all nodes to the inventory's mode.",
        "node2 is in phase prepare of a change. If no run goes on, one was left half-way: run playbooks/site.yml "
        "without --limit, which takes all nodes to the inventory's mode.",
    ]
    assert status_lines.text(list(phases), results)[-1].startswith("degraded  ")


def test_a_pool_that_is_nearly_full_is_a_warning() -> None:
    """Addresses that run out are a warning below the problems, and the fleet is good nevertheless."""
    blocks = [block("10.244.3.0/26", 60), block("10.244.9.0/26", 43, spare=True)]
    results = {"node1": node("node1", blocks=blocks)}
    warning = "node1: 25 of its 128 addresses of pool default are free. Run playbooks/site.yml, which grants more."
    assert status_lines.warnings(["node1", "node2"], results) == [warning]
    lines = status_lines.text(["node1"], results)
    assert lines[2] == f"warning: {warning}"
    assert lines[3].startswith("good  1/1 nodes")


OLDER = (
    "{} release {}, and this controller has 0.2.0. playbooks/site.yml upgrades, also node by node with --limit "
    "(docs/how-to/upgrading.md)."
)
NEWER = (
    "{} release {}, newer than this controller's 0.2.0. Use the playbooks of that release: site.yml of this controller "
    "would bring the older one back."
)


@pytest.mark.parametrize(
    ("versions", "warnings"),
    [
        (("0.2.0", "0.2.0"), []),
        (("0.1.0", "0.2.0"), [OLDER.format("node1 runs", "0.1.0")]),
        (("0.1.0", "0.1.0"), [OLDER.format("node1, node2 run", "0.1.0")]),
        (("0.10.0", "0.1.9"), [NEWER.format("node1 runs", "0.10.0"), OLDER.format("node2 runs", "0.1.9")]),
        (("9" * 5000 + ".0.0", "0.2.0"), [OLDER.format("node1 runs", "9" * 40)]),
    ],
)
def test_an_agent_of_another_release_is_a_warning(versions: tuple[str, ...], warnings: list[str]) -> None:
    """Agents of another release than the controller's are named with what to do, and the fleet is good nevertheless."""
    hosts = ["node1", "node2"]
    agents = [{**AGENT, "drift": DRIFT, "version": version} for version in versions]
    results = {host: node(host, agent=agent) for host, agent in zip(hosts, agents)}
    assert status_lines.warnings(hosts, results) == warnings
    lines = status_lines.text(hosts, results)
    assert lines[3:-1] == [f"warning: {warning}" for warning in warnings]
    assert lines[-1].startswith("good  2/2 nodes")


def test_a_node_without_an_agent_has_no_release() -> None:
    results = {"node1": node("node1", agent={"wanted": False, "running": False})}
    assert status_lines.warnings(["node1"], results) == []


def test_hosts_of_another_release_are_counted_from_the_eleventh_on() -> None:
    hosts = [f"node{number}" for number in range(1, 13)]
    results = {host: node(host, agent={**AGENT, "drift": DRIFT, "version": "0.1.0"}) for host in hosts}
    assert status_lines.warnings(hosts, results) == [
        "node1, node2, node3, node4, node5, node6, node7, node8, node9, node10 and 2 more run release 0.1.0, and this "
        "controller has 0.2.0. playbooks/site.yml upgrades, also node by node with --limit (docs/how-to/upgrading.md)."
    ]


def test_a_module_that_failed_is_a_row() -> None:
    results = {"node1": {"failed": False, "msg": "The module interpreter was not found.\nmore", "rc": 127}}
    lines = status_lines.text(["node1", "node2"], results)
    assert lines[1:] == [
        "node1   -     -        -           -        -            not read !",
        "node2   -     -        -           -        -            unreachable !",
        "! node1: The module interpreter was not found.",
        "! node2: unreachable, or failed earlier in this run (its error stands above)",
        "degraded  0/2 nodes good · 0 workloads · paths not watched",
    ]


def test_the_action_returns_text_or_json_and_fails_if_strict(tmp_path: pathlib.Path) -> None:
    """The action fleet_status returns text or JSON, and with `strict` it fails if the fleet has problems."""
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(json.dumps({"all": {"hosts": dict.fromkeys(HOSTS)}}))
    good = {name: {"seen": node(name)} for name in HOSTS}
    bad = {name: {"seen": result} for name, result in results_of_bad().items()}
    args = {"status": "seen"}
    answers = controller.run(
        [
            Run("fleet_status", {**args, "strict": True}, str(hosts), good, check_mode=True),
            Run("fleet_status", args, str(hosts), bad),
            Run("fleet_status", {**args, "output": "json"}, str(hosts), bad),
            Run("fleet_status", {**args, "strict": True}, str(hosts), bad),
        ]
    )
    assert "\n".join(answers[0]["lines"]) + "\n" == GOOD
    assert (answers[0]["good"], answers[0].get("failed", False)) == (True, False)
    assert (answers[1]["good"], answers[1].get("failed", False), len(answers[1]["problems"])) == (False, False, 5)
    assert answers[1]["lines"] == status_lines.text(HOSTS, results_of_bad())
    told = json.loads("\n".join(answers[2]["lines"]))
    assert (told["good"], told["problems"], told["nodes"]["node3"]) == (False, answers[1]["problems"], None)
    assert told["nodes"]["node1"]["workloads"] == 2
    assert (answers[3]["failed"], answers[3]["msg"]) == (True, "5 things are not well with the fleet, see above.")
    assert "nodes" not in answers[3]


def test_each_session_between_two_nodes_that_is_down_is_named_once() -> None:
    """Sessions over IPv4 and IPv6 between the same nodes are two, and both nodes report each of them."""

    def bgp(name: str, *sessions: dict[str, t.Any]) -> dict[str, t.Any]:
        return node(name, bgp={"enabled": True, "running": True, "sessions": list(sessions)})

    both = {
        "node1": bgp("node1", lost("node2", address="10.10.1.12"), lost("node2", address="fd00::12")),
        "node2": bgp("node2", lost("node1", address="fd00::11"), lost("node1", address="10.10.1.11")),
    }
    why = "Active since 14:02:11 (Hold timer expired)"
    four, six = f"node1 <-> node2 (10.10.1.12): {why}", f"node1 <-> node2 (fd00::12): {why}"
    assert status_lines.problems(["node1", "node2"], both) == [four, six]
    one = {**both, "node2": bgp("node2", lost("node1", address="fd00::11"), session("node1"))}
    assert status_lines.problems(["node1", "node2"], one) == [four, six]
    late = {**both, "node1": bgp("node1", session("node2"), lost("node2", address="fd00::12"))}
    back = f"node2 <-> node1 (10.10.1.11): {why}"
    assert status_lines.problems(["node1", "node2"], late) == [six, back]
    routers = bgp("node1", lost("", address="10.10.9.1"), lost("", address="10.10.9.1"))
    assert status_lines.problems(["node1"], {"node1": routers}) == [f"node1 <-> 10.10.9.1: {why}"] * 2
