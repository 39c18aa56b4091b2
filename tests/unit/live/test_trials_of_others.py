# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes while another operator tries one: they are refused in words, or end that trial on request and say so."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import (
    QUESTION,
    TRIAL,
    OpenChange,
)

from tests.unit.live.conftest import Operator, policy
from tests.unit.live.test_agreement import Nodes, ask, hash_of, nodes  # noqa: F401  (nodes is a fixture)

ID = "20261130T160212.001-000001"
SAID = (
    f"bob tries a change ({ID}) of GlobalNetworkPolicy(b0), GlobalNetworkPolicy(b1), GlobalNetworkPolicy(b2) and 1 "
    "more since 2026-11-30T16:02:12Z, until 2026-11-30T16:03:12Z at the latest"
)
REFUSED = (
    f"{SAID}. A change that is made meanwhile ends that trial. Wait until it has ended, or add --force, which ends it "
    "now\n"
)
ENDS = f"{SAID}. --force ends that trial.\n"
PATCH = ("patch", "gnp", "a", "-p", '{"spec": {"order": 7}}')


def open_by_bob(operator: Operator, kind: str = TRIAL, change: str = ID) -> bytes:
    """Open a change of four documents as bob, and return its value."""
    names = [DocumentKey("GlobalNetworkPolicy", "", f"b{number}") for number in range(4)]
    values = {name: documents.encoded(policy(name.name)) for name in names}
    value = open_change.encode(OpenChange(change, "bob", kind, 60, 1, values))
    operator.etcd.put(keys.OPEN_CHANGE, value)
    return value


def opened(operator: Operator) -> t.Optional[bytes]:
    event = operator.etcd.data().get(keys.OPEN_CHANGE.encode())
    return None if event is None else event.value


def written(operator: Operator, revision: int) -> set[str]:
    """Return the kinds of keys that a transaction has written."""
    return {event.key.decode().split("/")[3] for event in operator.etcd.log if event.revision == revision}


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "-f", "FILE"),
        ("create", "-f", "FILE", "--skip-exists"),
        ("replace", "-f", "CHANGED"),
        PATCH,
        ("label", "gnp", "a", "rack=a"),
        ("delete", "gnp", "a"),
        ("rollback", "CHANGE"),
    ],
)
def test_a_trial_of_another_operator_forbids_each_change(words: tuple[str, ...], operator: Operator) -> None:
    operator.apply(policy("a"))
    known = {
        "FILE": operator.file(policy("a"), policy("c")),
        "CHANGED": operator.file(policy("a", 7), name="changed.json"),
        "CHANGE": operator.last_change,
    }
    words = tuple(known.get(word, word) for word in words)
    trial = open_by_bob(operator)
    before, revision = operator.live(), operator.etcd.revision
    assert operator.run(*words) == (1, "", f"calicoctl: {REFUSED}")
    assert (operator.live(), operator.etcd.revision, opened(operator)) == (before, revision, trial)
    status, out, err = operator.run(*words, "--force")
    assert (status, err) == (0, "") and out.startswith(ENDS) and out.count("ends that trial") == 1
    assert operator.etcd.revision == revision + 1 and opened(operator) is None
    assert written(operator, revision + 1) == {"documents", "history", "changes"}
    assert operator.live() != before


def test_what_changes_nothing_is_no_change(operator: Operator) -> None:
    operator.apply(policy("a"))
    trial = open_by_bob(operator)
    assert operator.apply(policy("a"))[::2] == (0, "") and operator.apply(policy("a"), options=["--force"])[0] == 0
    assert opened(operator) == trial


def test_a_trial_that_begins_meanwhile_forbids_it_too(operator: Operator) -> None:
    """The transaction itself has the condition: the trial begins after all that the command has read."""
    trials = [open_by_bob]
    operator.meanwhile(lambda dummy: trials.pop()(operator) if trials else None)
    assert operator.apply(policy("a")) == (1, "", f"calicoctl: {REFUSED}")
    assert operator.live() == {} and opened(operator) is not None


def test_another_trial_than_the_one_that_was_named_does_not_end(operator: Operator) -> None:
    """Force ends the trial that the command named. One that has taken its place is named as well."""
    open_by_bob(operator)
    other = "20261130T160212.002-000002"
    trials = [other]
    operator.meanwhile(lambda dummy: open_by_bob(operator, change=trials.pop()) if trials else None)
    status, out, dummy = operator.apply(policy("a"), options=["--force"])
    assert status == 0 and out.startswith(ENDS + ENDS.replace(ID, other)) and opened(operator) is None


def test_each_transaction_of_a_large_change_keeps_to_it(operator: Operator) -> None:
    """A trial that begins between two transactions forbids the second one, which is said."""
    many = [policy(f"a{number:03}") for number in range(101)]

    def begins(operations: list[dict[str, t.Any]]) -> None:
        if operator.live() and opened(operator) is None:
            open_by_bob(operator)

    operator.meanwhile(begins)
    status, dummy, err = operator.apply(*many)
    change = operator.last_change
    assert status == 1 and len(operator.live()) == 100 and opened(operator) is not None
    assert err.startswith("calicoctl: Partial success: 100 of 101 resources are changed: GlobalNetworkPolicy(a000), ")
    assert err.endswith(f"The others are not: {REFUSED[:-1]}. Undo what is done: calicoctl rollback {change}\n")


def test_a_large_change_ends_a_trial_with_its_first_transaction(operator: Operator) -> None:
    open_by_bob(operator)
    revision = operator.etcd.revision
    status, out, err = operator.apply(*(policy(f"a{number:03}") for number in range(101)), options=["--force"])
    assert (status, err) == (0, "") and ENDS in out and opened(operator) is None
    assert [written(operator, revision + number) for number in (1, 2)] == [
        {"documents", "history", "changes"},
        {"documents", "history"},
    ]


def test_a_question_forbids_nothing(operator: Operator) -> None:
    question = open_by_bob(operator, QUESTION)
    assert operator.apply(policy("a"))[::2] == (0, "")
    assert opened(operator) == question
    questions = [lambda: open_by_bob(operator, QUESTION, "20261130T160212.002-000002")]
    operator.meanwhile(lambda dummy: questions.pop()() if questions else None)
    assert operator.run(*PATCH)[::2] == (0, "") and operator.live()["globalnetworkpolicies/a"]["spec"]["order"] == 7
    assert opened(operator) not in (None, question)


def test_an_open_change_that_cannot_be_read_counts_as_a_trial(operator: Operator) -> None:
    operator.etcd.put(keys.OPEN_CHANGE, b"\x1b[2J")
    assert operator.apply(policy("a")) == (
        1, "", "calicoctl: another change is open, which cannot be read: it is not JSON. A change that is made "
        "meanwhile ends that trial. Wait until it has ended, or add --force, which ends it now\n"
    )  # fmt: skip
    assert operator.apply(policy("a"), options=["--force"])[0] == 0 and opened(operator) is None


def test_an_id_of_another_form_has_no_time(operator: Operator) -> None:
    for change in ("mine", "99999999T999999.001-000001"):
        open_by_bob(operator, change=change)
        assert f"bob tries a change ({change}) of " in (err := operator.apply(policy("a"))[2])
        assert " and 1 more, for 60 s at most. A change " in err


def test_a_dry_run_says_it(operator: Operator) -> None:
    trial = open_by_bob(operator)
    status, dummy, err = operator.apply(policy("a"), options=["--dry-run"])
    assert (status, err) == (0, f"calicoctl: {SAID}. Until that has ended, this change is refused.\n")
    assert operator.apply(policy("a"), options=["--dry-run", "--force"])[2] == (
        f"calicoctl: {SAID}. This change ends that trial.\n"
    )
    assert operator.run("diff", "-f", operator.file(policy("a")))[2] == err
    assert opened(operator) == trial and operator.live() == {}


def test_an_answer_that_got_lost_is_no_other_trial(operator: Operator) -> None:
    open_by_bob(operator)
    operator.lose_answers = 1
    assert operator.apply(policy("a"), options=["--force"])[::2] == (0, "")
    assert opened(operator) is None and len(operator.changes()) == 1


def test_a_plan_that_was_seen_is_no_reason(nodes: Nodes) -> None:  # noqa: F811
    """A trial that begins after the nodes were asked forbids a change of the plan, too."""
    operator = nodes.operator
    seen = hash_of(ask(nodes)[1])

    def begins(operations: list[dict[str, t.Any]]) -> None:
        if any(operator.is_key(one, "globalnetworkpolicies/a") for one in operations):
            open_by_bob(operator)

    operator.meanwhile(begins)
    status, dummy, err = operator.apply(policy("a"), options=["--plan", seen])
    assert status == 1 and "nothing is committed: others have changed the same meanwhile" in err
    assert operator.live() == {}
    operator.meanwhile(lambda dummy: None)
    assert f"{SAID}. Try again when that has ended" in operator.apply(policy("a"), options=["--plan", seen])[2]
