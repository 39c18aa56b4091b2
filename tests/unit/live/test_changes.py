# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of live documents by calicoctl: verbs, words, conditions and transactions."""

from __future__ import annotations

import json

from ansible_collections.baremetal.host_routing.plugins.module_utils.live import commands

from tests.unit.live.conftest import TIER, Operator, document, policy


def test_apply_writes_documents_and_history_at_once(operator: Operator) -> None:
    before = operator.etcd.revision
    status, out, err = operator.apply(TIER, policy("web.a", tier="web"))
    assert (status, err) == (0, "")
    change = operator.last_change
    assert out == (f"Successfully applied 2 resource(s)\nIt is change {change}, revision {before + 1}.\n")
    assert operator.etcd.revision == before + 1
    assert operator.live() == {"tiers/web": TIER, "globalnetworkpolicies/web.a": policy("web.a", tier="web")}


def test_verbs(operator: Operator) -> None:
    assert operator.apply(policy("a"), verb="replace") == (
        1, "", "calicoctl: failed to replace 'GlobalNetworkPolicy' resource: [resource does not exist: "
        "GlobalNetworkPolicy(a)]\n"
    )  # fmt: skip
    assert operator.apply(policy("a"), verb="create")[0] == 0
    status, out, err = operator.apply(policy("a"), verb="create")
    assert (status, out) == (1, "")
    exists = "[resource already exists: GlobalNetworkPolicy(a)]"
    assert err == f"calicoctl: failed to create 'GlobalNetworkPolicy' resource: {exists}\n"
    assert operator.apply(policy("a"), verb="create", options=["--skip-exists"])[:2] == (
        0, "Successfully created 1 'GlobalNetworkPolicy' resource(s)\nGlobalNetworkPolicy(a) is unchanged\n"
    )  # fmt: skip
    assert operator.run("patch", "gnp", "a", "-p", '{"spec": {"order": 7}}')[0] == 0
    assert operator.run("label", "gnp", "a", "rack=a")[1].startswith("Successfully set label rack on gnp a\n")
    found = operator.live()["globalnetworkpolicies/a"]
    assert found["spec"]["order"] == 7 and found["metadata"]["labels"] == {"rack": "a"}
    assert operator.run("delete", "gnp", "a")[0] == 0
    assert operator.live() == {}
    assert operator.run("delete", "gnp", "a") == (
        1, "", "calicoctl: Failed to delete 'GlobalNetworkPolicy' resource: resource does not exist: "
        "GlobalNetworkPolicy(a)\n"
    )  # fmt: skip


def test_a_move_out_of_variables_needs_an_inventory(operator: Operator) -> None:
    assert operator.run("delete", "gnp", "a", "--adopt") == (
        2, "", "calicoctl: --adopt moves resources out of an inventory's variables: add -i INVENTORY.\n"
    )  # fmt: skip


def test_other_kinds_belong_into_the_inventory(operator: Operator) -> None:
    pool = document("IPPool", "a", {"cidr": "10.0.0.0/16"})
    status, out, err = operator.apply(policy("a"), pool)
    assert (status, out) == (1, "")
    assert err == (
        "calicoctl: NODE/net.json: IPPool is not live: write it into the inventory: calicoctl -i INVENTORY\n"
    )
    assert operator.run("label", "nodes", "node1", "a=b")[2] == (
        "calicoctl: Node is not live: write it into the inventory: calicoctl -i INVENTORY\n"
    )
    assert operator.live() == {}


def test_what_a_node_would_not_understand_is_refused(operator: Operator) -> None:
    wrong = policy("a")
    wrong["spec"]["selector"] = "a =="
    assert operator.apply(wrong)[0] == 1
    large = policy("a", annotations={"note": "\u20ac" * (60 << 10)})
    assert operator.apply(large)[2].startswith("calicoctl: GlobalNetworkPolicy(a) cannot be live: it ")
    assert operator.live() == {}


def test_a_resource_version_is_a_condition(operator: Operator) -> None:
    operator.apply(policy("a"))
    old = str(operator.etcd.revision)
    operator.apply(policy("a", 7))
    stale = policy("a", 8, resourceVersion=old)
    error = (
        f"update conflict: GlobalNetworkPolicy(a) with error: resource version '{old}' is out of date "
        f"(latest: {operator.etcd.revision}). Update the resource YAML/JSON in order to make changes"
    )
    assert operator.apply(stale) == (
        1, "", f"calicoctl: failed to apply 'GlobalNetworkPolicy' resource: [{error}]\n"
    )  # fmt: skip
    assert operator.apply(stale, verb="delete")[2] == (
        f"calicoctl: Failed to delete 'GlobalNetworkPolicy' resource: {error}\n"
    )
    assert operator.apply(policy("a", 8, resourceVersion=str(operator.etcd.revision)))[0] == 0
    assert operator.run("delete", "gnp", "a")[0] == 0
    assert operator.apply(stale, verb="replace")[0] == 1 and operator.live() == {}
    assert operator.apply(stale)[0] == 0 and operator.live() == {"globalnetworkpolicies/a": policy("a", 8)}
    assert operator.live()["globalnetworkpolicies/a"] == policy("a", 8)


def test_without_a_version_a_change_is_planned_again(operator: Operator) -> None:
    """A patch changes what another operator wrote between its reading and its writing."""
    operator.apply(policy("a"))
    others = [policy("a", 5, labels={"by": "bob"})]

    def meanwhile(dummy: object) -> None:
        while others:
            operator.put(others.pop())

    operator.meanwhile(meanwhile)
    assert operator.run("patch", "gnp", "a", "-p", '{"spec": {"order": 7}}')[0] == 0
    assert operator.live()["globalnetworkpolicies/a"] == policy("a", 7, labels={"by": "bob"})


def test_with_a_version_it_is_not(operator: Operator) -> None:
    operator.apply(policy("a"))
    asked = policy("a", 7, resourceVersion=str(operator.etcd.revision))
    others = [policy("a", 5)]
    operator.meanwhile(lambda dummy: operator.put(others.pop()) if others else None)
    status, out, err = operator.apply(asked)
    assert (status, out) == (1, "") and "update conflict: GlobalNetworkPolicy(a)" in err
    assert operator.live()["globalnetworkpolicies/a"] == policy("a", 5)


def test_retries_end(operator: Operator) -> None:
    numbers = iter(range(1, 1000))
    operator.meanwhile(lambda dummy: operator.put(policy("a", next(numbers))))
    status, dummy, err = operator.apply(policy("a", 2000))
    assert (status, err) == (1, "calicoctl: others changed the same again and again meanwhile. Try again\n")
    assert operator.live()["globalnetworkpolicies/a"]["spec"]["order"] == 9


def test_a_lost_answer_is_no_conflict(operator: Operator) -> None:
    """The transaction was done, its member broke off, and the next one is asked the same."""
    operator.lose_answers = 1
    status, out, err = operator.apply(policy("a"))
    assert (status, err) == (0, "")
    assert out.endswith(f"It is change {operator.last_change}, revision {operator.etcd.revision}.\n")
    assert len(json.loads(operator.run("history", "-o", "json")[1])) == 1


def test_tiers_are_looked_up(operator: Operator) -> None:
    missing = (
        "calicoctl: GlobalNetworkPolicy(web.a) is in tier web, which exists neither live nor in the inventory. Apply "
        "the Tier before it, or with it\n"
    )
    assert operator.apply(policy("web.a", tier="web")) == (1, "", missing)
    operator.put_inventory(TIER)
    assert operator.apply(policy("web.a", tier="web"))[0] == 0
    assert operator.apply(document("Tier", "db"), policy("db.a", tier="db"))[0] == 0
    assert operator.run("delete", "tier", "db") == (
        1, "", "calicoctl: Tier(db) is not deleted, because live policies are in it: GlobalNetworkPolicy(db.a). Delete "
        "them first, or give them another tier\n"
    )  # fmt: skip
    both = [document("Tier", "db"), policy("db.a", tier="db")]
    assert operator.apply(*both, verb="delete")[0] == 0
    assert operator.live() == {"globalnetworkpolicies/web.a": policy("web.a", tier="web")}


def test_a_tier_that_goes_meanwhile(operator: Operator) -> None:
    """A policy is not written into a tier that another operator deletes at the same time, and the reverse."""
    operator.apply(TIER)
    deleted = [True]
    operator.meanwhile(lambda dummy: operator.remove("Tier", "web") if deleted and deleted.pop() else None)
    status, out, err = operator.apply(policy("web.a", tier="web"))
    assert (status, out) == (1, "") and "exists neither live nor in the inventory" in err
    operator.etcd.gate = lambda dummy: None
    operator.apply(TIER)
    others = [policy("web.a", tier="web")]
    operator.meanwhile(lambda dummy: operator.put(others.pop()) if others else None)
    assert "live policies are in it" in operator.run("delete", "tier", "web")[2]
    assert sorted(operator.live()) == ["globalnetworkpolicies/web.a", "tiers/web"]


def test_a_name_of_the_inventory_is_a_warning(operator: Operator) -> None:
    operator.put_inventory(policy("a", 1))
    status, dummy, err = operator.apply(policy("a", 2))
    assert status == 0
    assert err == (
        "calicoctl: the inventory has GlobalNetworkPolicy(a), too. The live one has no effect until the inventory's "
        "goes.\n"
    )
    operator.put_inventory(policy("b", 1))
    assert operator.run("delete", "gnp", "b")[2] == (
        "calicoctl: Failed to delete 'GlobalNetworkPolicy' resource: GlobalNetworkPolicy(b) stands in the inventory. "
        "Delete it there\n"
    )
    assert "Change it there" in operator.run("patch", "gnp", "b", "-p", '{"spec": {"order": 3}}')[2]


def test_a_large_change_is_several_transactions(operator: Operator) -> None:
    """Tiers come first and deletions last, and each transaction is whole."""
    operator.apply(TIER, *(policy(f"web.old{number}", tier="web") for number in range(30)))
    sets = [document("GlobalNetworkSet", f"s{number}", {"nets": ["10.0.0.0/8"]}) for number in range(60)]
    new = [policy(f"db.{number}", tier="db") for number in range(90)]
    before = operator.etcd.revision
    status, out, err = operator.apply(*new, *sets, document("Tier", "db"), options=["--prune", "--owner", "web"])
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "this change of 151 documents is large: it is 2 transactions. Each is whole, all of them together are not."
    )
    assert lines[1] == "Successfully applied 151 resource(s)"
    assert operator.etcd.revision == before + 2
    first = [key.split("/")[0] for key in operator.written_at(before + 1)]
    assert (first.count("tiers"), first.count("globalnetworksets")) == (1, 60)
    assert all(len(operator.written_at(before + number)) <= 100 for number in (1, 2))
    operator.run("rollback", operator.changes()[-2]["id"])
    assert len(operator.live()) == 31


def test_what_is_done_is_named(operator: Operator) -> None:
    """Another operator prevents the second transaction of two."""
    numbers = iter(range(1000))

    def meanwhile(operations: list[dict[str, object]]) -> None:
        if any("request_put" in one and operator.is_key(one, "globalnetworkpolicies/z") for one in operations):
            operator.put(policy("z", next(numbers)))

    operator.meanwhile(meanwhile)
    status, dummy, err = operator.apply(*(policy(f"a{number:03}") for number in range(100)), policy("z"))
    assert status == 1
    assert err.startswith("calicoctl: Partial success: 100 of 101 resources are changed: GlobalNetworkPolicy(a000), ")
    change = operator.last_change
    assert err.endswith(
        " and 80 more. The others are not: others changed the same again and again meanwhile. Try again. Undo what is "
        f"done: calicoctl rollback {change}\n"
    )
    operator.etcd.gate = lambda dummy: None
    assert operator.run("rollback", change)[0] == 0
    assert list(operator.live()) == ["globalnetworkpolicies/z"]


def test_the_rest_is_planned_again(operator: Operator) -> None:
    """What the first transaction created is not looked for again after a conflict of the second one."""
    others = [policy("z", 5)]

    def meanwhile(operations: list[dict[str, object]]) -> None:
        if others and any(operator.is_key(one, "globalnetworkpolicies/z") for one in operations):
            operator.put(others.pop())

    operator.meanwhile(meanwhile)
    documents = [*(policy(f"a{number:03}") for number in range(100)), policy("z")]
    status, dummy, err = operator.apply(*documents, verb="create")
    assert status == 1 and "resource already exists: GlobalNetworkPolicy(z)" in err
    assert len(operator.live()) == 101
    others.append(policy("z", 6))
    assert operator.apply(*documents, verb="delete")[:2] == (0, (
        "this change of 101 documents is large: it is 2 transactions. Each is whole, all of them together are not.\n"
        f"Successfully deleted 101 'GlobalNetworkPolicy' resource(s)\n"
        f"It is change {operator.changes()[-2]['id']}, revision {operator.etcd.revision}.\n"
    ))  # fmt: skip


def test_there_are_not_too_many(operator: Operator) -> None:
    file = operator.file(*({"kind": "GlobalNetworkSet", "metadata": {"name": f"s{n}"}} for n in range(10_001)))
    assert operator.run("apply", "-f", file) == (
        1, "", "calicoctl: these are 10,001 documents, and at most 10,000 can be live. Write some of them into the "
        "inventory: calicoctl -i INVENTORY\n"
    )  # fmt: skip
    operator.put_many(9_999)
    assert operator.apply(policy("a"))[0] == 0
    assert operator.apply(policy("b")) == (
        1, "", "calicoctl: there would be 10,001 live documents, and at most 10,000 can be. Delete some\n"
    )  # fmt: skip
    assert operator.apply(policy("a", 7))[0] == 0


def test_a_dry_run_writes_nothing(operator: Operator) -> None:
    operator.apply(policy("a"))
    before = operator.etcd.revision
    status, out, err = operator.apply(policy("a", 7), options=["--dry-run"])
    assert (status, err) == (0, "")
    assert out == (
        f"--- live/GlobalNetworkPolicy(a) (revision {before})\n+++ live/GlobalNetworkPolicy(a)\n@@ -3,6 +3,6 @@\n"
        " metadata:\n   name: a\n spec:\n-  order: 100\n+  order: 7\n   selector: all()\n   tier: default\n"
        "Nothing was written: this is a dry run of: Successfully applied 1 'GlobalNetworkPolicy' resource(s)\n"
    )
    status, shown, err = operator.run("diff", "-f", operator.file(policy("a", 7)))
    assert (status, err) == (1, "") and out.startswith(shown) and shown
    assert operator.run("diff", "-f", operator.file(policy("a"))) == (0, "", "")
    assert operator.run("diff", "-f", "/no/such")[0] == 2
    assert operator.etcd.revision == before


def test_a_user_without_the_right(operator: Operator) -> None:
    operator.fleet.read_as("node1")
    status, out, err = operator.apply(policy("a"))
    assert (status, out) == (1, "")
    assert err == (
        "calicoctl: the user node1 of etcd has no right to that: etcdserver: permission denied. The operators that "
        "calico_etcd_operators of the inventory names write live policy.\n"
    )


def test_no_datastore_and_a_node(operator: Operator) -> None:
    """There, the verbs name the variables of the inventory."""
    refusal = "calicoctl apply is not done here: the Ansible inventory says what this node is to have"
    operator.node.store()
    assert operator.apply(policy("a"))[2].startswith(refusal)
    (operator.folder / "calico" / "state.json").unlink()
    operator.fleet.leave()
    assert operator.apply(policy("a"))[2].startswith(refusal)
    assert operator.run("history")[2].startswith("calicoctl: there is no way to a datastore.")


def test_a_node_changes_nothing(operator: Operator) -> None:
    """Neither the engine's calicoctl, which has no code for it, nor the collection's on a host that is a node."""
    operator.node.live = None
    for words in (["history"], ["rollback", "20261130T160212.123-9f3a1c"], ["diff", "-f", operator.file(policy("a"))]):
        status, out, err = operator.run(*words)
        assert (status, out) == (2, "")
        assert err == (
            "calicoctl: this is for the controller, where the collection and an operator's calicoctl.cfg are.\n"
        )
    operator.node.live = commands.run
    operator.node.store()
    assert operator.run("history")[::2] == (
        1, "calicoctl: live policy is not written from a node. Run this on the controller.\n"
    )  # fmt: skip


def test_prune_removes_what_the_owner_has(operator: Operator) -> None:
    operator.apply(policy("own"), policy("kept"), options=["--owner", "git"])
    operator.apply(policy("other"))
    operator.put_raw("tiers/broken", b"\xff")
    status, out, err = operator.apply(policy("kept"), options=["--owner", "git", "--prune"])
    assert (status, err) == (0, "")
    assert out.startswith(
        "Successfully applied 1 'GlobalNetworkPolicy' resource(s), and deleted 1 that the files do not have\n"
    )
    assert operator.value("GlobalNetworkPolicy", "own") is None
    assert operator.value("GlobalNetworkPolicy", "other") is not None
    assert operator.apply(policy("x"), options=["--prune"])[0] == 2


def test_a_document_put_by_hand_can_be_replaced_and_deleted(operator: Operator) -> None:
    operator.put_raw("tiers/a", b"\x1b]0;x\x07")
    operator.put_raw("tiers/b", b"{" * 1000)
    operator.put_raw("tiers/deep", b'{"a":' * 950 + b"1" + b"}" * 950)
    operator.put_raw("tiers/large", b" " * (300 << 10))
    assert operator.run("patch", "tier", "a", "-p", '{"spec": {"order": 3}}')[0] == 1
    assert operator.apply(document("Tier", "a", {"order": 3}))[0] == 0
    assert operator.live_keys() == ["tiers/a", "tiers/b", "tiers/deep", "tiers/large"]
    assert operator.run("rollback", operator.last_change)[0] == 0
    assert operator.value("Tier", "a") == b"\x1b]0;x\x07"
    assert "\x1b" not in operator.run("history")[1]
    assert operator.run("delete", "tier", "deep", "--dry-run")[::2] == (0, "")
    assert operator.run("delete", "tier", "a", "b", "deep", "large")[0] == 0
    assert operator.run("history", "-o", "yaml")[::2] == (0, "")
    change = operator.last_change
    assert operator.run("rollback", change)[2] == (
        f"calicoctl: {change} is not undone: the history does not have what was there before: Tier(large)\n"
    )
