# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy drops`: the table, the request to the agent, and the output when there is nothing to show."""

from __future__ import annotations

import json
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import policy_drops

from tests.unit.agent.policy_log.test_policy_log import TO_WEB, Given
from tests.unit.cli.conftest import Node

DROP: dict[str, t.Any] = {
    "first": "2026-11-22T14:02:01Z",
    "last": "2026-11-22T14:02:11Z",
    "packets": 12,
    "verdict": "deny",
    "direction": "Ingress",
    "kind": "policy",
    "tier": "default",
    "name": "default/db",
    "rule": 2,
    "source": {"address": "10.244.3.2", "workload": "default/web-1", "node": "node1"},
    "destination": {"address": "10.244.7.2", "workload": "default/db-2", "node": "node3"},
    "protocol": "tcp",
    "source_port": 40312,
    "destination_port": 5432,
    "icmp_type": None,
    "icmp_code": None,
    "in_interface": "tunl0",
    "out_interface": "cali1f2e3d4c5b6",
}
STAGED: dict[str, t.Any] = {
    **DROP,
    "last": "2026-11-22T14:02:15Z",
    "packets": 3,
    "verdict": "would deny",
    "direction": "Egress",
    "kind": "tier",
    "tier": "platform",
    "name": "",
    "rule": 0,
    "protocol": "icmp",
    "source_port": None,
    "destination_port": None,
    "icmp_type": 8,
    "icmp_code": 0,
    "in_interface": "cali1f2e3d4c5b6",
    "out_interface": "",
    "destination": {"address": "192.0.2.9", "workload": "", "node": ""},
}
ANSWER: dict[str, t.Any] = {
    "drops": [DROP, STAGED], "next": 15, "group": 179, "wanted_group": 179, "policy": True, "lost": 0, "unlisted": 0,
}  # fmt: skip
TABLE = """\
LAST (UTC)       PACKETS   VERDICT      DIRECTION   DECIDED BY                 FROM            TO             PORT
11-22 14:02:11   12        deny         ingress     default/db#2               default/web-1   default/db-2   5432/tcp
11-22 14:02:15   3         would deny   egress      default of tier platform   default/web-1   192.0.2.9      8/icmp
"""
NOTHING = "Nothing that this asks for was dropped or logged since the agent started.\n"


def test_drops_are_printed_as_a_table_wide_or_json(node: Node) -> None:
    agent = node.agent()
    agent.answers["policy.drops"] = ANSWER
    assert node.run("policy", "drops") == (0, TABLE, "")
    assert agent.asked == [("policy.drops", {})]
    assert json.loads(node.run("policy", "drops", "-o", "json")[1]) == ANSWER
    status, wide, errors = node.run("policy", "drops", "-o", "wide")
    assert (status, errors) == (0, "")
    more = [line.split()[-8:] for line in wide.splitlines()[1:]]
    assert more == [
        ["5432/tcp", "10.244.3.2", "40312", "10.244.7.2", "tunl0", "cali1f2e3d4c5b6", "2026-11-22", "14:02:01"],
        ["8/icmp", "10.244.3.2", "-", "192.0.2.9", "cali1f2e3d4c5b6", "-", "2026-11-22", "14:02:01"],
    ]


def test_a_node_is_shown_by_its_name(node: Node) -> None:
    end = {"address": "10.10.1.12", "workload": "", "node": "node2"}
    node.agent().answers["policy.drops"] = {**ANSWER, "drops": [{**DROP, "source": end}]}
    assert node.run("policy", "drops")[1].splitlines()[1].split()[6:] == ["node2", "default/db-2", "5432/tcp"]


def test_policy_drops_sends_its_options_and_refuses_invalid_ones(node: Node) -> None:
    agent = node.agent()
    agent.answers["policy.drops"] = {**ANSWER, "drops": []}
    assert node.run("policy", "drops", "--workload", "web", "--since", "5m") == (0, "", NOTHING)
    node.run("policy", "drops", "--workload", "prod/web", "--since", "2h")
    asked = [{"workload": "default/web", "since": 300}, {"workload": "prod/web", "since": 7200}]
    assert [params for dummy, params in agent.asked] == asked
    assert node.run("policy", "drops", "--workload", "") == (
        2, "", "calicoctl: --workload '' is no workload. Write it as web or default/web.\n",
    )  # fmt: skip
    assert node.run("policy", "drops", "--since", "") == (
        2, "", "calicoctl: --since  is not a time. Write it as 90s, 5m, 2h or 1d.\n",
    )  # fmt: skip
    assert node.run("policy", "drops", "--since", "5 minutes") == (
        2, "", "calicoctl: --since 5 minutes is not a time. Write it as 90s, 5m, 2h or 1d.\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"policy": False, "wanted_group": 0, "group": 0}, "This node has no policy, so none drops anything.\n"),
        ({"wanted_group": 0, "group": 0}, "Nothing is logged on this node: calico_policy_log_group is 0.\n"),
        ({"group": 0}, "The agent does not hear what is dropped now. `calicoctl status` says why.\n"),
        ({}, NOTHING),
        (
            {"lost": 9, "unlisted": 4},
            NOTHING
            + "! 9 packets are not shown: there were more at once than can be read\n"
            + "! 4 packets are not shown: there were too many flows at once; metrics count them\n",
        ),
    ],
)
def test_an_empty_list_of_drops_says_why(node: Node, differs: dict[str, t.Any], words: str) -> None:
    node.agent().answers["policy.drops"] = {**ANSWER, "drops": [], **differs}
    assert node.run("policy", "drops") == (0, "", words)


def test_follow_asks_each_second_for_newer_drops(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = node.agent()
    answers = iter([{**ANSWER, "drops": [DROP]}, {**ANSWER, "drops": [], "next": 15}, {**ANSWER, "drops": [STAGED]}])
    agent.answers["policy.drops"] = lambda params: next(answers)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    status, out, errors = node.run("policy", "drops", "--follow")
    assert (status, errors, pauses) == (0, "", [1.0, 1.0, 1.0])
    assert [line.split() for line in out.splitlines()] == [line.split() for line in TABLE.splitlines()]
    assert [params for dummy, params in agent.asked] == [{}, {"after": 15}, {"after": 15}]


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"kind": "profile", "name": "open", "rule": 1}, "profile open#1"),
        ({"kind": "profile", "name": "open", "rule": 0}, "no such profile: open"),
        ({"kind": "no-profile", "name": "", "rule": 0}, "no profile allows it"),
        ({"kind": "host", "name": "spoofed", "rule": 0}, "host: forged address"),
        ({"kind": "host", "name": "endpoint-to-host", "rule": 0}, "host: workload to host"),
        ({"kind": "host", "name": "probe-endpoint", "rule": 0}, "host: no probe"),
        ({"kind": "host", "name": "etcd", "rule": 0}, "host: workload to etcd"),
        ({"kind": "host", "name": "new-one", "rule": 0}, "host: new-one"),
    ],
)
def test_the_deciding_rule_is_shown_in_words(differs: dict[str, t.Any], words: str) -> None:
    assert policy_drops.decided_by({**DROP, **differs}) == words


def test_the_agent_answers_with_these_fields() -> None:
    given = Given()
    given.take(given.record(TO_WEB))
    assert given.drops()[0].keys() == DROP.keys()
