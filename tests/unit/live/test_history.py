# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of live documents, and the way back."""

from __future__ import annotations

import itertools
import json
import re
import time
import types

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import history
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.history import HistoryEntry
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import change as live_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import store

from tests.unit.live.conftest import TIER, Operator, document, policy

ID = "20261130T160212.123-9f3a1c"


def test_who_what_and_when(operator: Operator) -> None:
    operator.apply(policy("a"))
    operator.fleet.read_as("bob")
    operator.run("patch", "gnp", "a", "-p", '{"spec": {"order": 7}}')
    operator.put(policy("c"))
    operator.run("rollback", operator.last_change)
    status, out, err = operator.run("history")
    assert (status, err) == (0, "")
    lines = [re.split(r" {3,}", line) for line in out.splitlines()]
    ids = [one["id"] for one in operator.changes()]
    assert lines[0] == ["ID", "USER", "WHEN", "CHANGE", "DOCUMENTS"]
    assert [[line[0], line[1], *line[3:]] for line in lines[1:]] == [
        [ids[0], "ada", "apply", "GlobalNetworkPolicy(a)"],
        [ids[1], "bob", "patch", "GlobalNetworkPolicy(a)"],
        ["-", "-", "changed by another tool", "GlobalNetworkPolicy(c)"],
        [ids[3], "bob", f"rollback of {ids[1]}", "GlobalNetworkPolicy(a)"],
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ|-", line[2]) for line in lines[1:])
    assert operator.run("history", ids[1])[1] == (
        f"--- live/GlobalNetworkPolicy(a) (revision {operator.changes()[1]['revision']})\n"
        "+++ live/GlobalNetworkPolicy(a)\n@@ -3,6 +3,6 @@\n metadata:\n   name: a\n spec:\n-  order: 100\n+  order: 7\n"
        "   selector: all()\n   tier: default\n"
    )
    shown = json.loads(operator.run("history", ids[1], "-o", "json")[1])
    assert shown[0]["before"] == {"GlobalNetworkPolicy(a)": policy("a")}
    assert (shown[0]["user"], shown[0]["verb"]) == ("bob", "patch")
    assert operator.run("history", "-o", "yaml")[0] == 0
    assert operator.run("history", "--last", "2")[1].count("\n") == 3
    assert operator.run("history", "x")[::2] == (
        2, "calicoctl: x is not the id of a change. `calicoctl history` lists them.\n"
    )  # fmt: skip
    assert (
        operator.run("history", ID)[2] == f"calicoctl: the history has no change {ID}. `calicoctl history` lists all.\n"
    )


def test_a_large_change_is_shown_whole_though_the_clock_stepped_back(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transactions have ids of their own, by the time at which each was made."""
    hours = itertools.count(1_900_000_000, -3600)
    clock = types.SimpleNamespace(time=lambda: next(hours), monotonic=time.monotonic)
    monkeypatch.setattr(live_change, "time", clock)
    operator.apply(*(policy(f"p{number}") for number in range(120)))
    first, second = (one["id"] for one in operator.changes())
    assert second < first
    shown = json.loads(operator.run("history", first, "-o", "json")[1])
    assert [one["id"] for one in shown] == [first, second]


def test_undone_exactly(operator: Operator) -> None:
    operator.put_raw("tiers/web", b'{"kind": "Tier",  "metadata": {"name": "web"}}')
    operator.apply(policy("web.a", tier="web"), policy("b"))
    before = operator.etcd.data()
    operator.apply(policy("b", 1), document("Tier", "web", {"order": 3}), policy("c"))
    change = operator.last_change
    status, out, err = operator.run("rollback", change)
    assert (status, err) == (0, "")
    assert out.startswith(f"Successfully undone {change}: 3 resource(s)\nIt is change ")
    left = {key: event.value for key, event in operator.etcd.data().items() if b"/history/" not in key}
    assert left == {key: event.value for key, event in before.items() if b"/history/" not in key}
    undone = operator.last_change
    assert operator.run("rollback", undone)[0] == 0
    assert "globalnetworkpolicies/c" in operator.live_keys()


def test_later_changes_forbid_it(operator: Operator) -> None:
    operator.apply(policy("a"), policy("b"), policy("c"))
    first = operator.last_change
    operator.fleet.read_as("bob")
    operator.apply(policy("a", 7))
    operator.fleet.read_as("ada")
    operator.run("delete", "gnp", "b")
    ids = [one["id"] for one in operator.changes()]
    refused = f"calicoctl: {first} is not undone, because later changes touch the same: "
    assert operator.run("rollback", first) == (
        1, "", f"{refused}{ids[1]} of bob (GlobalNetworkPolicy(a)), {ids[2]} of ada (GlobalNetworkPolicy(b)). "
        "Undo those first, the newest one first: calicoctl history\n"
    )  # fmt: skip
    assert operator.run("rollback", ids[1])[0] == 0
    assert operator.run("rollback", first)[2] == (
        f"{refused}{ids[2]} of ada (GlobalNetworkPolicy(b)). Undo those first, the newest one first: calicoctl "
        "history\n"
    )
    assert operator.run("rollback", ids[2])[0] == 0
    assert operator.run("rollback", first)[0] == 0
    assert operator.live() == {}


def test_what_was_absent_is_touched_too(operator: Operator) -> None:
    """A deletion is not undone over a later creation and deletion of the same, until those are undone."""
    for word in ("apply", "delete", "apply", "delete"):
        operator.apply(policy("a", 1 if word == "apply" else 2), verb=word)
    ids = [one["id"] for one in operator.changes()]
    later = f"later changes touch the same: {ids[3]} of ada (GlobalNetworkPolicy(a)). Undo those first"
    assert operator.run("rollback", ids[1])[0] == 1 and later in operator.run("rollback", ids[1])[2]
    for change in reversed(ids):
        assert operator.run("rollback", change)[::2] == (0, "")
    assert operator.live() == {}


def test_another_tool_is_named(operator: Operator) -> None:
    operator.apply(policy("a"), policy("b"), policy("c"))
    first = operator.last_change
    operator.put(policy("a", 7))
    operator.remove("GlobalNetworkPolicy", "b")
    refused = f"calicoctl: {first} is not undone, because later changes touch the same: "
    by_hand = f"See what was there before another tool: calicoctl history {first}\n"
    another = f"another tool (GlobalNetworkPolicy(a), GlobalNetworkPolicy(b)). {by_hand}"
    assert operator.run("rollback", first) == (1, "", f"{refused}{another}")
    operator.apply(policy("c", 7))
    second = operator.last_change
    assert operator.run("rollback", first)[2] == (
        f"{refused}{second} of ada (GlobalNetworkPolicy(c)), another tool (GlobalNetworkPolicy(a), "
        f"GlobalNetworkPolicy(b)). Undo those first, the newest one first: calicoctl history. {by_hand}"
    )


def test_back_and_forth(operator: Operator) -> None:
    """Each change can be undone once those after it are undone, and what is undone can be done again."""
    orders = (1, 2, 3)
    for order in orders:
        operator.apply(policy("a", order))
    ids = [one["id"] for one in operator.changes()]
    seen = []
    for change in reversed(ids):
        assert operator.run("rollback", change)[::2] == (0, "")
        seen.append(operator.live().get("globalnetworkpolicies/a", {}).get("spec", {}).get("order"))
    assert seen == [2, 1, None]
    undone = [one["id"] for one in operator.changes()][3:]
    for change in reversed(undone):
        assert operator.run("rollback", change)[::2] == (0, "")
    assert operator.live()["globalnetworkpolicies/a"] == policy("a", 3)
    for change in reversed(ids):
        assert operator.run("rollback", change)[::2] == (0, "")
    assert operator.live() == {}
    operator.apply(policy("a", 1))
    assert operator.run("rollback", ids[0])[0] == 1


def test_a_tier_that_is_in_use_stays(operator: Operator) -> None:
    operator.apply(TIER)
    made = operator.last_change
    operator.apply(policy("web.a", tier="web"))
    assert "live policies are in it: GlobalNetworkPolicy(web.a)" in operator.run("rollback", made)[2]
    assert operator.run("rollback", made, "--dry-run")[0] == 1


def test_entries_of_others_names(operator: Operator) -> None:
    """The prefix says whose entry it is, and what the entry itself says of its user does not count."""
    key = keys.history_key("bob", ID)
    operator.apply(policy("a"))
    entry = HistoryEntry("ada", 0.0, "apply\x1b[2J", ID, {}, {})
    operator.etcd.put(key, history.encode(entry))
    operator.etcd.put(f"{keys.HISTORY}bob/20261130T160212.124-9f3a1c", b"{")
    operator.etcd.put(f"{keys.HISTORY}bob/what", b"{}")
    status, out, err = operator.run("history")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert re.search(rf"^{re.escape(ID)} +bob +1970-01-01T00:00:00Z +apply", out, re.MULTILINE)
    assert "its entry cannot be read: it is not JSON." in out
    assert operator.run("rollback", ID)[0] == 0


@pytest.mark.parametrize(
    "value",
    [
        b"[]",
        b'{"user": 1}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({"user": "a", "when": 1, "verb": "a", "change": ID, "before": {"x": 1}, "after": {"x": 1}}).encode(),
        json.dumps(
            {
                "user": "a",
                "when": 1,
                "verb": "a",
                "change": ID,
                "before": {},
                "after": {"/host-routing/v1/documents/tiers/a": 1},
            }
        ).encode(),
        b" " * ((1 << 20) + 1),
    ],
)
def test_entries_that_cannot_be_read(operator: Operator, value: bytes) -> None:
    operator.etcd.put(f"{keys.HISTORY}bob/{ID}", value)
    status, out, err = operator.run("history")
    assert (status, err) == (0, "") and "its entry cannot be read: it" in out
    assert "cannot be read: it" in operator.run("rollback", ID)[2]


def test_old_changes_go(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_CHANGES", 40)
    for number in range(60):
        operator.apply(policy("a", number))
    found = operator.changes()
    assert 24 <= len(found) <= 40
    orders = [next(iter(one["after"].values()))["spec"]["order"] for one in found]
    assert orders == list(range(60 - len(found), 60))


def test_large_changes_go(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_HISTORY_BYTES", (16 << 20) + (100 << 10))
    for number in range(64):
        operator.apply(policy("a", number, annotations={"note": "x" * 10_000}))
    assert 4 <= len(operator.changes()) <= 20
