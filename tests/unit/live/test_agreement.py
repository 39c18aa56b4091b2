# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that nodes are asked about, and changes that they try before they are made."""

from __future__ import annotations

import json
import re
import signal
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import change_answer, open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_effect import (
    ChangedObject,
    ChangeEffect,
    DeniedFlow,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import agreement

from tests.unit.live.conftest import Operator, policy
from tests.unit.live.test_nodes import NODES, beat, follow, say

EFFECT = ChangeEffect((ChangedObject("GlobalNetworkPolicy", "a", "+", 2),), 1, 2, 4, 1, 0)
FLOW = DeniedFlow(6, "10.0.0.1", 40_000, "2001:db8::1", 443, "a#1 (ingress, WorkloadEndpoint default/web)")


class Nodes:
    """Nodes that answer the open change by `says`, each None for one that is silent; `seen` are the changes."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.etcd = operator, operator.etcd
        self.says: dict[str, bytes | ChangeAnswer | None] = {}
        self.seen: list[OpenChange] = []
        self.then: t.Callable[[], None] = lambda: None
        for node in NODES:
            beat(operator, node)
            say(operator, node, operator.etcd.revision)
            self.says[node] = answered(EFFECT)
        operator.before_call = self.look

    def look(self) -> None:
        event = self.etcd.data().get(keys.OPEN_CHANGE.encode())
        if event is not None and event.value is not None and event.value.startswith(b"{"):
            change = open_change.decode(event.value)
            if change.id not in [one.id for one in self.seen]:
                self.seen.append(change)
                for node, says in self.says.items():
                    if isinstance(says, ChangeAnswer):
                        says = change_answer.encode(says)
                    if says is not None:
                        self.etcd.put(keys.answer_key(node, change.id), says)
                self.then()

    def try_all(self) -> None:
        self.says = dict.fromkeys(NODES, ChangeAnswer("", "", 1.0, "in_force"))

    @property
    def is_open(self) -> bool:
        return keys.OPEN_CHANGE.encode() in self.etcd.data()


def answered(effect: ChangeEffect, state: str = "answered", reason: str = "") -> ChangeAnswer:
    return ChangeAnswer("", "", 1.0, state, reason, effect)


@pytest.fixture
def nodes(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    monkeypatch.setattr(agreement, "_PATIENCE", 0.0)
    monkeypatch.setattr(agreement, "ASKED_SECONDS", 1)
    return Nodes(operator)


def ask(nodes: Nodes, *options: str) -> tuple[int, str, str]:
    return nodes.operator.apply(policy("a"), options=["--dry-run=server", *options])


def hash_of(out: str) -> str:
    found = re.search(r"This is plan ([0-9a-f]{16}): ", out)
    assert found is not None, out
    return found.group(1)


def test_nodes_say_what_would_change(nodes: Nodes) -> None:
    nodes.says["node2"] = answered(EFFECT._replace(denied=25, flows=(FLOW,) * 20))
    nodes.says["node3"] = answered(EFFECT._replace(objects=(EFFECT.objects[0]._replace(endpoints=0),), endpoints=0))
    status, out, err = ask(nodes)
    assert (status, err) == (0, "")
    shown = out[out.index("Nothing was written") :].splitlines()
    assert shown[2:6] == [
        "KIND                  NAME   CHANGE   ENDPOINTS   NODES",
        "GlobalNetworkPolicy   a      added    4           node1 (2), node2 (2)",
        "Rules: 12 chains and 3 members of sets change on 3 nodes.",
        "Connections that stand and would be denied: 25 on 1 node. They would go on, and could not be opened again.",
    ]
    assert shown[6].split() == ["NODE", "CONNECTION", "DENIED", "BY"]
    assert shown[7] == ("node2   tcp 10.0.0.1:40000 > [2001:db8::1]:443   a#1 (ingress, WorkloadEndpoint default/web)")
    assert len(shown) == 7 + 20 + 1
    assert nodes.operator.live() == {} and not nodes.is_open and nodes.etcd.leases == {}
    (question,) = nodes.seen
    assert (question.kind, question.user, question.seconds) == ("question", "ada", 1)


def test_programs_get_json(nodes: Nodes) -> None:
    nodes.says["node2"] = answered(EFFECT._replace(denied=1, flows=(FLOW,), cut=True))
    status, out, err = ask(nodes, "-o", "json")
    found = json.loads(out)
    assert (status, err, found["denied"], found["silent"]) == (0, "", 1, {})
    assert found["documents"] == [{"kind": "GlobalNetworkPolicy", "namespace": "", "name": "a", "action": "added"}]
    assert found["nodes"]["node2"]["flows"][0]["by"] == FLOW.by
    assert len(found["plan"]) == 16


def test_diff_asks_nodes_too(nodes: Nodes) -> None:
    status, out, dummy = nodes.operator.run("diff", "-f", nodes.operator.file(policy("a")), "--nodes")
    assert status == 1 and "+  name: a" in out and "added" in out
    status, out, err = nodes.operator.run("diff", "-f", nodes.operator.file(policy("a")), "--nodes", "-o", "json")
    assert (status, err) == (1, "") and json.loads(out)["nodes"].keys() == set(NODES)


def test_nodes_that_do_not_say_it_are_named(nodes: Nodes) -> None:
    beat(nodes.operator, "node3", age=300.0)
    nodes.says = {"node1": None, "node2": answered(EFFECT, "refused", "ssh would be \x1b[2Jcut")}
    begun = time.monotonic()
    status, out, err = ask(nodes)
    assert status == 1 and time.monotonic() - begun < 5 and "\x1b" not in out + err
    assert err.splitlines() == [
        "calicoctl: node2 would hold it back: ssh would be \\x1b[2Jcut.",
        "calicoctl: node1 gives no answer: it did not answer within 1 s.",
        "calicoctl: node3 is not asked: it has no fresh heartbeat.",
    ]


LIES = [
    b"",
    b"nonsense",
    b"[" * 30_000,
    b'{"written":1,"state":"answered","reason":"","effect":{}}',
    b'{"written":1,"state":"done","reason":""}',
    *(
        documents.encoded({"written": 1.0, "state": "answered", "reason": "", "effect": {**EFFECT.to_dict(), **lie}})
        for lie in (
            {"denied": 1e30},
            {"denied": 10**30},
            {"denied": True},
            {"count_objects": -1},
            {"objects": [["Pod", "a", "+", 1]]},
            {"objects": [["Tier", "a" * 600, "+", 1]]},
            {"objects": [["Tier", "a", "+", 1]] * 101},
            {"flows": [[6, "\x1b[2J", 1, "10.0.0.1", 2, ""]]},
            {"flows": [[6, "10.0.0.1", 99_999, "10.0.0.1", 2, ""]]},
            {"flows": [[6, "10.0.0.1", 1, "10.0.0.1", 2, ""]] * 21},
            {"unknown": "x" * 10_000},
        )
    ),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: repr(lie[:60]))
def test_a_node_that_lies_is_named_and_others_are_heard(lie: bytes, nodes: Nodes) -> None:
    nodes.says["node2"] = lie
    status, out, err = ask(nodes)
    assert status == 1 and "node1 (2), node3 (2)" in out
    assert err.startswith("calicoctl: node2 gives no answer: its answer cannot be read: it") and len(err) < 500


def test_texts_of_nodes_are_escaped(nodes: Nodes) -> None:
    evil = ChangedObject("Tier", "\x1b[2J\nnode1 (9)", "+", 4_000_000_000)
    nodes.says["node2"] = answered(
        EFFECT._replace(objects=(evil,), flows=(FLOW._replace(by="\x1b]0;x\x07"),), denied=1)
    )
    dummy, out, err = ask(nodes)
    assert "\x1b" not in out + err and "\\x1b[2J\\nnode1" in out and "\\x1b]0;x\\x07" in out


def test_a_plan_is_applied_as_it_was_seen(nodes: Nodes) -> None:
    seen = hash_of(ask(nodes)[1])
    nodes.says["node2"] = answered(EFFECT._replace(chains=9))
    status, dummy, err = nodes.operator.apply(policy("a"), options=["--plan", seen])
    assert status == 1 and f"it is no longer what plan {seen} showed" in err and nodes.operator.live() == {}
    nodes.says["node2"] = answered(EFFECT)
    status, dummy, err = nodes.operator.apply(policy("a", 99), options=["--plan", seen])
    assert status == 1 and nodes.operator.live() == {}
    nodes.operator.put(policy("a", 3))
    assert nodes.operator.apply(policy("a"), options=["--plan", seen])[0] == 1
    nodes.operator.remove("GlobalNetworkPolicy", "a")
    status, out, err = nodes.operator.apply(policy("a"), options=["--plan", seen])
    assert (status, err) == (0, "") and out.startswith("Successfully applied 1 ")
    assert nodes.operator.value("GlobalNetworkPolicy", "a") is not None and not nodes.is_open


def test_an_empty_plan_applies_nothing(nodes: Nodes) -> None:
    for more in ([], ["--confirm", "5s"]):
        status, out, err = nodes.operator.apply(policy("a"), options=["--plan", "", *more])
        assert (status, out) == (1, "") and nodes.operator.live() == {} and not nodes.is_open
        assert err == (
            "calicoctl: the name of the plan is empty, which is a plan that would change nothing, and this change has "
            "documents. Look at it by --dry-run=server, and give the name that this shows\n"
        )
    nodes.operator.put(policy("a"))
    assert nodes.operator.apply(policy("a"), options=["--plan", ""])[0] == 0
    status, dummy, err = nodes.operator.apply(policy("a"), options=["--plan", "", "--dry-run"])
    assert status == 2 and "a dry run makes none" in err


def test_connections_come_and_go_and_a_plan_stays(nodes: Nodes) -> None:
    nodes.says["node2"] = answered(EFFECT._replace(denied=5, flows=(FLOW,)))
    seen = hash_of(ask(nodes)[1])
    nodes.says["node2"] = answered(EFFECT._replace(denied=7))
    assert hash_of(ask(nodes)[1]) == seen
    nodes.says["node2"] = answered(EFFECT)
    assert hash_of(ask(nodes)[1]) != seen


def test_what_changes_between_plan_and_write_is_refused(nodes: Nodes) -> None:
    seen = hash_of(ask(nodes)[1])
    nodes.operator.meanwhile(
        lambda operations: len(operations) > 1 and nodes.operator.put(policy("a", 5)) if len(nodes.seen) > 1 else None
    )
    status, dummy, err = nodes.operator.apply(policy("a"), options=["--plan", seen])
    assert status == 1 and "nothing is committed: others have changed the same meanwhile" in err


def test_one_change_is_open_at_a_time(nodes: Nodes) -> None:
    other = OpenChange("20261130T160212.001-000001", "bob", "trial", 60, 1, {})
    nodes.etcd.put(keys.OPEN_CHANGE, open_change.encode(other))
    status, dummy, err = ask(nodes)
    said = "bob tries a change (20261130T160212.001-000001) since 2026-11-30T16:02:12Z, until 2026-11-30T16:03:12Z at "
    assert status == 1 and err.endswith(f"calicoctl: {said}the latest. Try again when that has ended\n")
    assert nodes.is_open and nodes.etcd.leases == {}
    nodes.etcd.put(keys.OPEN_CHANGE, b"\x1b[2J")
    status, dummy, err = ask(nodes)
    assert status == 1 and "\x1b" not in err and "another change is open, which cannot be read" in err


def test_an_answer_that_got_lost_is_no_other_change(nodes: Nodes) -> None:
    nodes.operator.lose_answers = 1
    assert ask(nodes)[0] == 0 and not nodes.is_open


@pytest.mark.parametrize("options", [["--dry-run=server"], ["--confirm", "60s"]])
def test_a_user_who_interrupts_leaves_nothing_open(options: list[str], nodes: Nodes) -> None:
    nodes.says = {}
    nodes.then = lambda: signal.raise_signal(signal.SIGINT)
    assert nodes.operator.apply(policy("a"), options=options)[0] == 1
    assert len(nodes.seen) == 1 and not nodes.is_open and nodes.etcd.leases == {} and nodes.operator.live() == {}


def test_a_question_ends_by_time_without_its_writer(nodes: Nodes) -> None:
    held: list[int] = []
    nodes.then = lambda: held.extend(seconds for seconds, keys_ in nodes.etcd.leases.values() if keys_)
    ask(nodes)
    assert held == [1 + 10]


def test_large_changes_are_not_asked_about(nodes: Nodes) -> None:
    many = [policy(f"a{number}") for number in range(keys.CHANGE_DOCUMENTS + 1)]
    status, dummy, err = nodes.operator.apply(*many, options=["--dry-run=server"])
    assert status == 1 and "it has 101 documents in " in err
    status, dummy, err = nodes.operator.apply(*many, options=["--confirm", "60s"])
    assert status == 1 and "it is 2 transactions, and nodes are asked about one" in err
    assert nodes.seen == [] and nodes.operator.live() == {}


def test_options_that_make_no_sense_together(nodes: Nodes) -> None:
    for options in (["-o", "json"], ["--dry-run", "--confirm", "60s"], ["--dry-run=server", "--plan", "x"]):
        assert nodes.operator.apply(policy("a"), options=options)[0] == 2
    for wrong in ("0", "601s", "x", "1h", "-1s"):
        assert nodes.operator.apply(policy("a"), options=[f"--confirm={wrong}"])[0] == 2


# --- trials


def confirm(nodes: Nodes, *options: str) -> tuple[int, str, str]:
    return nodes.operator.apply(policy("a"), options=["--confirm", "2s", *options])


def test_a_trial_that_all_nodes_have_in_force_is_committed(nodes: Nodes) -> None:
    nodes.try_all()
    look = nodes.operator.before_call
    follow(nodes.operator, *NODES)
    beats = nodes.operator.before_call
    nodes.operator.before_call = lambda: (look(), beats())  # type: ignore[assignment,func-returns-value]
    status, out, err = confirm(nodes)
    assert (status, err) == (0, "")
    assert re.match(r"trial    in force on 3 nodes after \d+\.\d s\nSuccessfully applied 1 ", out)
    assert re.search(r"\nIt is in force on 3 nodes after \d+\.\d\d s\.\n$", out), out
    (trial,) = nodes.seen
    assert (trial.kind, trial.seconds) == ("trial", 2)
    # One transaction has the documents, the history and the end of the trial.
    revision = next(event.revision for event in nodes.etcd.log if event.key.startswith(keys.DOCUMENTS.encode()))
    together = {event.key.decode().split("/")[3]: event.value for event in nodes.etcd.log if event.revision == revision}
    assert together.keys() == {"documents", "history", "changes"} and together["changes"] is None
    assert together["documents"] == next(iter(trial.documents.values())) and nodes.etcd.leases == {}


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (ChangeAnswer("", "", 1.0, "refused", "ssh would be cut"), "node2: it has refused it: ssh would be cut"),
        (ChangeAnswer("", "", 1.0, "reverted", "it lost etcd"), "node2: it has reverted it: it lost etcd"),
        (None, "node2: it did not answer within 2 s"),
        (b"\x1b[2J", "node2: its answer cannot be read: it is not JSON"),
    ],
)
def test_a_node_that_does_not_keep_to_it_ends_the_trial(
    says: bytes | ChangeAnswer | None, why: str, nodes: Nodes
) -> None:
    nodes.try_all()
    nodes.says["node2"] = says
    status, out, err = confirm(nodes)
    assert (status, out) == (1, "") and nodes.operator.live() == {} and not nodes.is_open
    assert err == f"calicoctl: nothing is committed, and nodes go back to what was in force: {why}\n"


def test_a_document_that_changes_during_the_trial_ends_it(nodes: Nodes) -> None:
    nodes.try_all()
    nodes.then = lambda: nodes.operator.put(policy("a", 7))
    status, dummy, err = confirm(nodes)
    assert status == 1 and "nothing is committed: others have changed the same meanwhile, or the time was over" in err
    assert not nodes.is_open and nodes.operator.live()["globalnetworkpolicies/a"]["spec"]["order"] == 7


def test_a_trial_whose_key_has_gone_is_not_committed(nodes: Nodes) -> None:
    nodes.try_all()
    nodes.then = nodes.etcd.expire
    status, dummy, err = confirm(nodes)
    assert status == 1 and "nothing is committed" in err and nodes.operator.live() == {}


def test_a_plan_can_be_tried(nodes: Nodes) -> None:
    seen = hash_of(ask(nodes)[1])

    def then() -> None:
        if nodes.seen[-1].kind == "question":
            return
        nodes.try_all()
        for node in NODES:
            nodes.etcd.put(
                keys.answer_key(node, nodes.seen[-1].id), change_answer.encode(ChangeAnswer("", "", 1.0, "in_force"))
            )

    nodes.then = then
    status, out, dummy = confirm(nodes, "--plan", seen, "--wait", "0")
    assert out.startswith("trial    in force on 3 nodes") and len(nodes.operator.live()) == 1
    assert [one.kind for one in nodes.seen] == ["question", "question", "trial"] and status == 1


def test_a_fleet_without_nodes_tries_nothing(nodes: Nodes) -> None:
    for node in NODES:
        beat(nodes.operator, node, age=300.0)
    status, dummy, err = confirm(nodes)
    assert status == 1 and err.startswith("calicoctl: no node can try it: node1: it has no fresh heartbeat; ")
    assert ask(nodes)[0] == 1 and nodes.seen == [] and nodes.operator.live() == {}


def test_a_way_back_is_tried_too(nodes: Nodes) -> None:
    assert nodes.operator.apply(policy("a"))[0] == 0
    change = nodes.operator.last_change
    assert nodes.operator.run("rollback", change, "--dry-run=server")[0] == 0
    nodes.try_all()
    assert nodes.operator.run("rollback", change, "--confirm", "5s", "--wait", "0")[1].startswith("trial    in force")
    assert nodes.operator.live() == {}
