# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights of nodes, and the plan that brings the users and roles of a cluster to them."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import InvalidKey, KeyRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import auth, rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.auth import Permission
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.rights import (
    Access,
    AccessStep,
    ForeignUser,
)

SECRET = b"0123456789abcdef"
SHOWN = "reads blocks/..endpoints/ heartbeats/, writes endpoints/node1/ heartbeats/node1/"
LIVE = (
    "reads blocks/..endpoints/ heartbeats/ inventory/ settings/, writes answers/node1/ endpoints/node1/ "
    "heartbeats/node1/"
)
OPERATOR = "reads /host-routing/v1/, writes changes/ documents/ history/ada/"
OPERATORS = {"ada": "operator/ada/0"}
WITH_ADA = Access({"root": ("root",), "ada": ("ada",)}, {"ada": rights.operator_permissions("ada")})
NOTHING = Access({}, {})


def given(*nodes: str) -> Access:
    """Return what a cluster has after a run with these nodes."""
    return Access(
        {"root": ("root",), **{node: (node,) for node in nodes}}, {node: rights.permissions(node) for node in nodes}
    )


def lines(nodes: list[str], access: Access, renewed: tuple[str, ...] = ()) -> list[str]:
    return [change.line() for change in rights.plan(nodes, access, "root", renewed)]


def test_a_node_may_write_its_two_prefixes_and_read_what_it_needs() -> None:
    assert rights.permissions("node1") == {
        Permission(KeyRange("/host-routing/v1/endpoints/node1/", "/host-routing/v1/endpoints/node10"), "READWRITE"),
        Permission(KeyRange("/host-routing/v1/heartbeats/node1/", "/host-routing/v1/heartbeats/node10"), "READWRITE"),
        Permission(KeyRange("/host-routing/v1/blocks/", "/host-routing/v1/endpoints0"), "READ"),
        Permission(KeyRange("/host-routing/v1/heartbeats/", "/host-routing/v1/heartbeats0"), "READ"),
    }
    (own,) = [one.keys for one in rights.permissions("node1") if "endpoints/node1/" in one.keys.start]
    assert keys.endpoint_key("node1", "cali1") in own and keys.endpoint_key("node10", "cali1") not in own


def test_with_live_policy_a_node_answers_and_reads_what_a_run_says() -> None:
    more = rights.permissions("node1", live=True) - rights.permissions("node1")
    assert more == {
        Permission(KeyRange("/host-routing/v1/answers/node1/", "/host-routing/v1/answers/node10"), "READWRITE"),
        Permission(KeyRange("/host-routing/v1/inventory/", "/host-routing/v1/inventory0"), "READ"),
        Permission(KeyRange("/host-routing/v1/settings/", "/host-routing/v1/settings0"), "READ"),
    }
    assert rights.permissions("node1", live=True) > rights.permissions("node1")
    (role,) = rights.plan(["node1"], given("node1"), "root", live=True)
    assert role.line() == f"~ role     node1  {SHOWN}  ->  {LIVE}"
    live = Access({"root": ("root",), "node1": ("node1",)}, {"node1": rights.permissions("node1", live=True)})
    assert rights.plan(["node1"], live, "root", live=True) == ()
    (back,) = rights.plan(["node1"], live, "root")
    assert back.line() == f"~ role     node1  {LIVE}  ->  {SHOWN}"
    assert {step.path for step in back.new} == {auth.ROLE_REVOKE} and len(back.new) == 3


def test_an_operator_reads_everything_and_writes_documents_changes_and_its_own_history() -> None:
    assert rights.operator_permissions("ada") == {
        Permission(KeyRange("/host-routing/v1/", "/host-routing/v10"), "READ"),
        Permission(KeyRange("/host-routing/v1/changes/", "/host-routing/v1/changes0"), "READWRITE"),
        Permission(KeyRange("/host-routing/v1/documents/", "/host-routing/v1/documents0"), "READWRITE"),
        Permission(KeyRange("/host-routing/v1/history/ada/", "/host-routing/v1/history/ada0"), "READWRITE"),
    }
    changes = rights.plan([], NOTHING, "root", operators=OPERATORS)
    assert [change.line() for change in changes] == [f"+ role     ada  {OPERATOR}", "+ user     ada  role ada"]
    assert changes[1].new == (
        AccessStep(auth.USER_ADD, password_of="ada", origin="operator/ada/0"),
        AccessStep(auth.USER_GRANT, auth.grant_role("ada", "ada")),
    )
    assert rights.plan([], WITH_ADA, "root", operators=OPERATORS) == ()


def test_an_operators_password_is_no_nodes_and_changes_with_its_rotation() -> None:
    texts = [rights.origin_of_operator("ada", 0), rights.origin_of_operator("ada", 1), "ada"]
    assert texts[:2] == ["operator/ada/0", "operator/ada/1"] and not any(map(keys.is_node, texts[:2]))
    assert len({rights.password(SECRET, text) for text in texts}) == 3
    (change,) = rights.plan([], WITH_ADA, "root", ["ada"], operators={"ada": texts[1]})
    assert change.line() == "~ user     ada    its password is set anew"
    assert change.new == (AccessStep(auth.USER_PASSWORD, password_of="ada", origin="operator/ada/1"),)


def test_an_operator_who_left_the_list_loses_its_user_and_role() -> None:
    changes = rights.plan(["node1"], WITH_ADA._replace(users={**WITH_ADA.users, "node1": ("node1",)}), "root")
    assert [change.line() for change in changes[:2]] == ["- user     ada  role ada", f"- role     ada  {OPERATOR}"]
    assert rights.was_operator("ada", WITH_ADA) and not rights.was_operator("node1", given("node1"))
    assert not rights.was_operator("a/b", Access({}, {"a/b": rights.operator_permissions("ada")}))


def test_a_node_that_becomes_an_operator_keeps_no_right_of_a_node() -> None:
    """And an operator that becomes a node keeps none of an operator."""
    (change,) = rights.plan([], given("ada"), "root", operators=OPERATORS)
    assert {step.path for step in change.new} == {auth.ROLE_REVOKE, auth.ROLE_GRANT}
    assert change.line().endswith(f"->  {OPERATOR}")
    (change,) = rights.plan(["ada"], WITH_ADA, "root")
    assert change.line() == f"~ role     ada  {OPERATOR}  ->  {SHOWN.replace('node1', 'ada')}"


@pytest.mark.parametrize(
    ("nodes", "operators", "said"),
    [
        (["ada"], ["ada"], "A node and an operator are called ada. Rename the operator in calico_etcd_operators."),
        ([], ["boss"], "An operator is called boss, like the user of the datastore that may do everything. Rename it."),
        ([], ["root"], "An operator is called root, like the user of the datastore that may do everything. Rename it."),
        (
            [],
            ["backup"],
            "The datastore has a user or role backup with rights that no operator has: it belongs to something else. "
            "Rename the operator, or remove them (etcdctl user delete backup; etcdctl role delete backup).",
        ),
    ],
)
def test_names_that_no_operator_may_have(nodes: list[str], operators: list[str], said: str) -> None:
    access = Access({"backup": ("reader",)}, {"reader": frozenset()})
    with pytest.raises(ForeignUser) as refusal:
        rights.plan(nodes, access, "boss", operators=dict.fromkeys(operators, "operator/x/0"))
    assert str(refusal.value) == said


def test_a_password_is_made_of_the_secret_and_the_name() -> None:
    """The value is fixed: a new one would lock out every node of a running fleet."""
    assert rights.password(SECRET, "node1") == "28976b962aa854a721a07223363d205666e6b5421cee05fb5367f420843f12b3"
    made = {rights.password(SECRET, "node1"), rights.password(SECRET, "node2"), rights.password(SECRET + b"x", "node1")}
    assert len(made) == 3 and all(len(one) == 64 and int(one, 16) for one in made)
    fingerprints = {rights.fingerprint(SECRET, "node1"), rights.fingerprint(SECRET, "node2")}
    assert len(fingerprints) == 2
    assert not any(fingerprint in password for fingerprint in fingerprints for password in made)


def test_new_nodes_get_a_role_and_a_user() -> None:
    changes = rights.plan(["node1"], NOTHING, "root")
    assert [change.line() for change in changes] == [
        f"+ role     node1  {SHOWN}",
        "+ user     node1  role node1",
    ]
    role, user = changes
    assert role.new[0] == AccessStep(auth.ROLE_ADD, auth.new_role("node1")) and set(role.new[1:]) == {
        AccessStep(auth.ROLE_GRANT, auth.grant("node1", one)) for one in rights.permissions("node1")
    }
    assert user.new == (
        AccessStep(auth.USER_ADD, password_of="node1"),
        AccessStep(auth.USER_GRANT, auth.grant_role("node1", "node1")),
    )


def test_a_cluster_that_is_as_it_shall_be_needs_no_change() -> None:
    assert lines(["node1", "node2"], given("node1", "node2")) == []


def test_a_node_that_left_the_inventory_loses_its_user_and_role() -> None:
    changes = rights.plan(["node2"], given("node1", "node2"), "root")
    assert [change.line() for change in changes] == ["- user     node1  role node1", f"- role     node1  {SHOWN}"]
    assert [change.new for change in changes] == [
        (AccessStep(auth.USER_DELETE, auth.named_user("node1")),),
        (AccessStep(auth.ROLE_DELETE, auth.named_role("node1")),),
    ]


def test_users_and_roles_of_others_stay() -> None:
    others = Access(
        {"backup": ("reader",), "admin": ("root",), "lonely": ()},
        {
            "reader": frozenset({Permission(KeyRange("", "\0"), auth.READ)}),
            "no name of a node": frozenset(),
            # It reads what nodes read, and is none: a run made no role without a node's own prefixes.
            "watcher": frozenset({Permission(keys.WATCHED, auth.READ)}),
        },
    )
    assert lines([], others) == []


def test_a_role_that_was_changed_by_hand_is_corrected() -> None:
    wide = Permission(keys.EVERYTHING, auth.READWRITE)
    own = Permission(keys.under(keys.endpoints_of("node1")), auth.READ)
    kept = {one for one in rights.permissions("node1") if one.keys != own.keys}
    access = Access({"node1": ("node1",)}, {"node1": frozenset({*kept, own, wide})})
    (change,) = rights.plan(["node1"], access, "root")
    assert change.line() == (
        "~ role     node1  reads blocks/..endpoints/ endpoints/node1/ heartbeats/, writes "
        f"/host-routing/v1/ heartbeats/node1/  ->  {SHOWN}"
    )
    assert change.new == (
        AccessStep(auth.ROLE_REVOKE, auth.revoke("node1", keys.EVERYTHING)),
        AccessStep(auth.ROLE_GRANT, auth.grant("node1", own._replace(kind=auth.READWRITE))),
    )


def test_a_role_of_ours_that_reaches_foreign_keys_is_corrected_and_removed() -> None:
    outside = Permission(KeyRange("\0", "\0"), auth.READ)
    access = Access({"node1": ("node1",)}, {"node1": rights.permissions("node1") | {outside}})
    (change,) = rights.plan(["node1"], access, "root")
    assert change.new == (AccessStep(auth.ROLE_REVOKE, auth.revoke("node1", outside.keys)),)
    assert [change.line().split("  ")[0] for change in rights.plan([], access, "root")] == ["- user", "- role"]


def test_a_user_with_another_role_beside_its_own_loses_it() -> None:
    access = given("node1")._replace(users={"node1": ("node1", "root")})
    (change,) = rights.plan(["node1"], access, "root")
    assert change.line() == "~ user     node1  roles node1, root  ->  role node1"
    assert change.new == (AccessStep(auth.USER_REVOKE, auth.revoke_role("node1", "root")),)


def test_a_run_that_was_cut_short_is_completed() -> None:
    """The user was made, and did not get its role; the role was made, and got one of its permissions."""
    one = frozenset({Permission(keys.under(keys.endpoints_of("node1")), auth.READWRITE)})
    changes = rights.plan(["node1"], Access({"node1": ()}, {"node1": one}), "root")
    assert [change.line() for change in changes] == [
        f"~ role     node1  writes endpoints/node1/  ->  {SHOWN}",
        "~ user     node1  no role  ->  role node1",
    ]
    assert set(changes[0].new) == {
        AccessStep(auth.ROLE_GRANT, auth.grant("node1", missing)) for missing in rights.permissions("node1") - one
    }
    removed = rights.plan([], Access({}, {"node1": one}), "root")
    assert [change.line() for change in removed] == ["- role     node1  writes endpoints/node1/"]


def test_a_password_is_set_anew_without_being_shown() -> None:
    (change,) = rights.plan(["node1", "node2"], given("node1", "node2"), "root", ["node2"])
    assert change.line() == "~ user     node2    its password is set anew"
    assert change.new == (AccessStep(auth.USER_PASSWORD, password_of="node2"),)


@pytest.mark.parametrize("name", ["root", "boss"])
def test_no_node_may_be_called_like_the_operator(name: str) -> None:
    with pytest.raises(ForeignUser) as refusal:
        rights.plan([name], NOTHING, "boss")
    assert str(refusal.value) == (
        f"A node is called {name}, like the user of the datastore that may do everything. Rename it."
    )


@pytest.mark.parametrize(
    "access",
    [
        Access({"db": ("dba",)}, {"dba": frozenset()}),
        Access({}, {"db": frozenset({Permission(KeyRange("/db/", "/db0"), auth.READ)})}),
        Access({}, {"db": frozenset({Permission(KeyRange("", "\0"), auth.READWRITE)})}),
        Access({}, {"db": frozenset({Permission(KeyRange("/host-routing/v1/", "\0"), auth.READ)})}),
        Access({}, {"db": frozenset({Permission(KeyRange("/other", ""), auth.READ)})}),
    ],
)
def test_a_user_or_role_of_something_else_is_not_taken_over(access: Access) -> None:
    with pytest.raises(ForeignUser) as refusal:
        rights.plan(["db"], access, "root")
    assert str(refusal.value) == (
        "The datastore has a user or role db with rights that no node has: it belongs to something else. Rename the "
        "node, or remove them (etcdctl user delete db; etcdctl role delete db)."
    )
    assert lines([], access) == []


def test_a_name_that_would_reach_other_keys_is_refused() -> None:
    for name in ("node1/../node2", "", "node1 ", "nöde"):
        with pytest.raises(InvalidKey):
            rights.plan([name], NOTHING, "root")
