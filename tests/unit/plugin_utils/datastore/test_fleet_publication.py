# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run brings a cluster in memory to the inventory, and says what it changes."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import PermissionDenied, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import live_policy, rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    UnusableCluster,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import (
    InventoryPolicy,
    TierInUse,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.stored_policy import (
    RestoredPolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import fleet_publication
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.fleet_publication import (
    FleetPublisher,
    Publication,
    published,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import datastore_lines

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.virtual_time import run
from tests.unit.fleet.fleets import build, pool

SECRET = b"0123456789abcdef"
NODES = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}
NOW = 1_795_770_000.0


def fleet(nodes: t.Mapping[str, str] = NODES, **rest: t.Any) -> Fleet:
    return build(pool("ipip"), nodes=nodes, workloads=[], **rest)


class Cluster:
    def __init__(self) -> None:
        self.etcd = FakeEtcd()
        self.etcd.users, self.etcd.granted, self.etcd.roles = {"root": "boss"}, {"root": {"root"}}, {"root": {}}

    def publish(
        self,
        wanted: Fleet,
        secret: bytes = SECRET,
        gated: bool = True,
        operators: t.Mapping[str, str] = {},
        **options: t.Any,
    ) -> Publication:
        client = EtcdClient(self.etcd.members, Credentials("root", "boss"), jitter=0.0)
        return run(FleetPublisher("root", secret, lambda: NOW, gated, operators).publish(client, wanted, **options))

    def lines(self, wanted: Fleet, **options: t.Any) -> list[str]:
        return datastore_lines.plan(self.publish(wanted, **options).changes)

    def beat(self, node: str, age: float = 5.0) -> None:
        self.etcd.put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, NOW - age, "0.2.0")))

    def values(self) -> dict[str, bytes | None]:
        return {event.key.decode(): event.value for event in self.etcd.data().values()}

    def authentications(self) -> int:
        return sum(member.calls.count("/v3/auth/authenticate") for member in self.etcd.members.values())


def test_a_fleet_is_published_once() -> None:
    cluster = Cluster()
    wanted = fleet()
    planned = cluster.lines(wanted, check=True)
    assert not cluster.values() and set(cluster.etcd.users) == {"root"}
    assert cluster.lines(wanted) == planned and len(planned) == 2 * 2 + 2 + 2 + 1
    assert cluster.lines(wanted) == []
    blocks = documents.decode_blocks(cluster.values()[keys.blocks_key("node1")] or b"")
    part = wanted.allocation.nodes["node1"]
    assert set(blocks.cidrs) == {grant.cidr for grant in (*part.blocks, *part.spare_blocks)} and part.spare_blocks
    found = json.loads(cluster.values()[keys.pool_key("default")] or b"")
    assert (found["cidr"], found["ipipMode"]) == ("10.244.0.0/16", "Always")


def test_live_policy_without_gates_needs_an_etcd_in_which_rights_hold() -> None:
    """A fleet without live policy, and one with gates, is published by the etcd of Debian 12 and 13."""
    cluster = Cluster()
    live = fleet(policy_enabled=True, live_policy=True)
    with pytest.raises(UnusableCluster, match="calico_live_policy is true, and m1 runs etcd "):
        cluster.publish(live, gated=False)
    assert not cluster.values() and set(cluster.etcd.users) == {"root"}
    assert cluster.publish(fleet(), gated=False).changes
    assert cluster.publish(live, gated=True).version == "3.5.16"
    cluster.etcd.version = "3.5.28"
    assert cluster.publish(live, gated=False).version == "3.5.28"


def test_the_document_of_a_node() -> None:
    found = published(fleet(), SECRET)
    assert found.nodes["node1"] == {
        "address": "10.10.1.11/24",
        "as_number": 64512,
        "labels": {"kubernetes.io/hostname": "node1"},
        "workloads": True,
        "reflector": False,
        "access": rights.fingerprint(SECRET, "node1"),
    }


def test_a_node_that_left_the_inventory_loses_its_user_and_blocks_and_its_own_keys_are_named() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    cluster.etcd.put(keys.endpoint_key("node2", "cali1"), b"{}")
    cluster.beat("node2")
    only = {"node1": NODES["node1"]}
    done = cluster.publish(fleet(only))
    assert [(change.action, change.kind, change.subject) for change in done.changes] == [
        ("-", "user", "node2"),
        ("-", "role", "node2"),
        ("-", "blocks", "node2"),
        ("-", "node", "node2"),
    ]
    assert done.left_behind == {"node2": 2}
    assert datastore_lines.left_behind(done.left_behind) == [
        "The datastore has keys of nodes that the inventory does not have: node2 (2). They count for nothing, because "
        "such a node has no blocks. To remove them, put the node back into the inventory and run "
        "playbooks/remove_node.yml with -e unreachable=true."
    ]
    assert keys.endpoint_key("node2", "cali1") in cluster.values()
    many = datastore_lines.left_behind({f"n{number}\x1b[1m": number for number in range(10)})
    assert len(many) == 1 and "'n7\\x1b[1m' (7) and 2 more." in many[0] and "\x1b" not in many[0]


def test_a_node_that_is_removed_leaves_nothing() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    for number in range(300):
        cluster.etcd.put(keys.endpoint_key("node2", f"cali{number}"), b"{}")
    cluster.beat("node2")
    cluster.beat("node1")
    cluster.etcd.put(keys.answer_key("node2", "1f"), b"{}")
    done = cluster.publish(fleet({"node1": NODES["node1"]}), leaving="node2")
    assert [change.line() for change in done.changes if change.kind in ("endpoint", "heartbeat", "answer")] == [
        "- endpoint endpoints/node2/*  300 keys",
        "- heartbeat heartbeats/node2/*  1 key",
        "- answer   answers/node2/*  1 key",
    ]
    assert done.left_behind == {} and not any("node2" in key for key in cluster.values())
    assert "node2" not in cluster.etcd.users and keys.heartbeat_key("node1") in cluster.values()
    assert cluster.lines(fleet({"node1": NODES["node1"]}), leaving="node2") == []


def test_a_changed_secret_changes_the_passwords_of_all_nodes() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    for node in NODES:
        cluster.beat(node)
    lines = cluster.lines(fleet(), secret=b"another secret  ")
    assert [line for line in lines if "password" in line] == [
        "~ user     node1    its password is set anew",
        "~ user     node2    its password is set anew",
    ]
    assert cluster.etcd.users["node1"] == rights.password(b"another secret  ", "node1")
    assert cluster.lines(fleet(), secret=b"another secret  ") == []


def test_a_password_that_was_changed_by_hand_is_set_where_no_heartbeat_shows_that_it_works() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    cluster.etcd.users["node1"] = cluster.etcd.users["node2"] = "by hand"
    cluster.beat("node1")
    cluster.beat("node2", age=61)
    assert cluster.lines(fleet()) == ["~ user     node2    its password is set anew"]
    cluster.beat("node1", age=-61)
    assert cluster.lines(fleet()) == ["~ user     node1    its password is set anew"]


def test_a_fleet_with_heartbeats_costs_no_authentication() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    for node in NODES:
        cluster.beat(node)
    before = cluster.authentications()
    assert cluster.lines(fleet()) == [] and cluster.authentications() == before + 1  # the operator's own


def test_rubbish_that_a_node_wrote_changes_nothing_but_the_question() -> None:
    cluster = Cluster()
    cluster.publish(fleet())
    for value in (b"\x1b[31m\n" * 1000, b"x" * (1 << 20), b"[" * 5000, json.dumps({"written": "now"}).encode()):
        cluster.etcd.put(keys.heartbeat_key("node1"), value)
        assert cluster.lines(fleet()) == []
    cluster.etcd.put(keys.node_key("node1"), b"\x1b[2J")
    (line,) = cluster.lines(fleet())
    assert line.startswith("~ node     node1  4 bytes that are no document  ->  access=")


def test_users_that_may_do_everything_are_named() -> None:
    """A node loses a role that it was given; a user that the collection did not make is only reported."""
    cluster = Cluster()
    cluster.publish(fleet())
    for name in ("evil\x1b[1m", "admin"):
        cluster.etcd.users[name], cluster.etcd.granted[name] = "x", {"root"}
    cluster.etcd.granted["node1"] = {"node1", "root"}
    done = cluster.publish(fleet())
    assert [change.line() for change in done.changes] == ["~ user     node1  roles node1, root  ->  role node1"]
    assert done.superusers == ("admin", "evil\x1b[1m")
    assert datastore_lines.superusers(done.superusers) == [
        "The datastore has users with the role root that no run made: admin, 'evil\\x1b[1m'. If you did not make them, "
        "look into who did, and remove them (etcdctl user delete)."
    ]
    assert datastore_lines.superusers(()) == []
    assert datastore_lines.superusers([f"u{number}" for number in range(10)])[0].count(" and 2 more.") == 1


def test_blocks_come_before_the_user_and_the_user_goes_before_the_keys() -> None:
    """No node publishes what counts for nothing, and none writes a key after its keys were taken away."""
    cluster = Cluster()
    order: list[str] = []
    for member in cluster.etcd.members.values():
        answer = member._answer

        def recorded(path: str, body: t.Any, headers: t.Any, answer: t.Any = answer) -> t.Any:
            if "request_range" not in str(body):
                order.append(path)
            return answer(path, body, headers)

        member._answer = recorded  # type: ignore[method-assign]
    cluster.publish(fleet())
    assert order.index("/v3/kv/txn") < order.index("/v3/auth/user/add")
    cluster.etcd.put(keys.endpoint_key("node2", "cali1"), b"{}")
    order.clear()
    cluster.publish(fleet({"node1": NODES["node1"]}), leaving="node2")
    assert order.index("/v3/auth/user/delete") < order.index("/v3/kv/deleterange") < order.index("/v3/kv/txn")


def test_operators_get_users_and_new_passwords_and_lose_them() -> None:
    cluster = Cluster()
    assert not cluster.publish(fleet()).operators_left
    ada, anew = ({"ada": rights.origin_of_operator("ada", rotation)} for rotation in (0, 1))
    done = cluster.publish(fleet(), operators=ada)
    assert [(change.action, change.kind, change.subject) for change in done.changes] == [
        ("+", "role", "ada"),
        ("+", "user", "ada"),
    ]
    assert cluster.etcd.users["ada"] == rights.password(SECRET, "operator/ada/0")
    assert cluster.lines(fleet(), operators=ada) == []
    assert cluster.lines(fleet(), operators=anew, check=True) == ["~ user     ada    its password is set anew"]
    assert cluster.lines(fleet(), operators=anew) == cluster.lines(fleet(), operators=ada)
    assert cluster.etcd.users["ada"] == rights.password(SECRET, "operator/ada/0")
    assert sum("password" in line for line in cluster.lines(fleet(), secret=b"another secret  ", operators=ada)) == 3
    cluster.publish(fleet(), operators=ada)
    cluster.etcd.put(keys.history_key("ada", "1f"), b"{}")
    done = cluster.publish(fleet())
    assert done.operators_left == ("ada",) and "ada" not in cluster.etcd.users and "ada" not in cluster.etcd.roles
    assert keys.history_key("ada", "1f") in cluster.values()
    assert datastore_lines.operators_left(done.operators_left, own=True) == [
        "The users of operators who are not in calico_etcd_operators were deleted: ada. Run playbooks/etcd.yml: it "
        "restarts the members, which ends watches that are still open."
    ]
    assert datastore_lines.operators_left(done.operators_left, own=False) == [
        "The users of operators who are not in calico_etcd_operators were deleted: ada. Restart the members of your "
        "cluster one by one, which ends watches that are still open."
    ]
    assert datastore_lines.operators_left((), own=True) == []


def test_with_live_policy_nodes_get_their_rights_and_lose_them_again() -> None:
    cluster = Cluster()
    cluster.publish(fleet(policy_enabled=True))
    cluster.publish(fleet(policy_enabled=True, live_policy=True))
    assert set(cluster.etcd.users) == {"root", *NODES}
    client = EtcdClient(cluster.etcd.members, Credentials("node1", rights.password(SECRET, "node1")), jitter=0.0)
    run(client.write([Put(keys.answer_key("node1", "1f"), b"{}")]))
    for key in (keys.OPEN_CHANGE, keys.FLEET_SETTINGS, keys.history_key("node1", "1f"), keys.answer_key("node2", "1")):
        with pytest.raises(PermissionDenied):
            run(client.write([Put(key, b"{}")]))
    cluster.publish(fleet(policy_enabled=True))
    with pytest.raises(PermissionDenied):
        run(client.write([Put(keys.answer_key("node1", "1f"), b"{}")]))


def published_policy(wanted: Fleet) -> InventoryPolicy:
    assert wanted.policy is not None
    return live_policy.of_inventory(wanted.policy.policy.policy_set, wanted.policy.policy.settings)


TIER = {"kind": "Tier", "name": "security", "order": 100}
IN_TIER = b'{"kind": "GlobalNetworkPolicy", "spec": {"tier": "security"}}'


def test_with_live_policy_a_run_publishes_the_inventorys_policy_and_takes_it_away_again() -> None:
    cluster = Cluster()
    live = fleet(policies=[TIER], live_policy=True)
    policy = published_policy(live)
    cluster.publish(fleet(policies=[TIER]))
    planned = cluster.lines(live, live=policy, check=True)
    assert [line.split("  ")[0] for line in planned if line.startswith(("+ policy", "+ settings"))] == [
        "+ policy",
        "+ policy",
        "+ settings fleet",
    ]
    assert cluster.lines(live, live=policy) == planned and cluster.lines(live, live=policy) == []
    values = cluster.values()
    assert {key: values[key] for key in policy.values} == policy.values
    settings = json.loads(values[keys.FLEET_SETTINGS] or b"")
    assert (settings["policy"], settings["live"]) == (True, True)
    other = fleet(policies=[{**TIER, "order": 200}], live_policy=True)
    (line,) = [line for line in cluster.lines(other, live=published_policy(other)) if "policy" in line]
    assert line.startswith("~ policy   tiers/security  spec=") and '"order":200' in line
    assert [line for line in cluster.lines(fleet(policies=[TIER])) if line.startswith("- policy")] == [
        '- policy   tiers/default   apiVersion=projectcalico.org/v3 kind=Tier metadata={"name":"default"} '
        'spec={"defaultAction":"Deny","order":1000000}',
        '- policy   tiers/security  apiVersion=projectcalico.org/v3 kind=Tier metadata={"name":"security"} '
        'spec={"defaultAction":"Deny","order":200}',
    ]
    assert not any(key.startswith((keys.INVENTORY, keys.SETTINGS)) for key in cluster.values())


def test_a_run_that_takes_a_tier_from_live_documents_changes_nothing() -> None:
    cluster = Cluster()
    live, without = fleet(policies=[TIER], live_policy=True), fleet(policy_enabled=True, live_policy=True)
    cluster.publish(live, live=published_policy(live))
    cluster.etcd.put(keys.document_key(DocumentKey("GlobalNetworkPolicy", "", "web")), IN_TIER)
    before = cluster.values()
    for check in (True, False):
        with pytest.raises(TierInUse, match="no longer has the Tier security, and live documents are in it: Global"):
            cluster.publish(without, live=published_policy(without), check=check)
    assert cluster.values() == before
    cluster.etcd.put(keys.document_key(DocumentKey("Tier", "", "security")), b"{}")
    lines = cluster.lines(without, live=published_policy(without))
    assert [line for line in lines if " live " in line] == [
        "~ live     Tier security    comes into force: the inventory has none of this name any more"
    ]


def restore(cluster: Cluster, restored: RestoredPolicy, check: bool = False) -> Publication:
    client = EtcdClient(cluster.etcd.members, Credentials("root", "boss"), jitter=0.0)
    return run(fleet_publication.restore(client, restored, check))


OLD = fleet(policies=[{**TIER, "order": 50}, {**TIER, "name": "old"}], live_policy=True)


def test_a_return_to_stored_states_publishes_their_policy_and_nothing_else() -> None:
    cluster = Cluster()
    live = fleet(policies=[TIER], live_policy=True)
    cluster.publish(live, live=published_policy(live))
    before = cluster.values()
    cluster.etcd.put(keys.document_key(DocumentKey("Tier", "", "old")), b"{}")
    restored = RestoredPolicy((published_policy(OLD),))
    planned = datastore_lines.plan(restore(cluster, restored, check=True).changes)
    assert [line.split("  ")[0] for line in planned] == ["~ policy", "~ live", "+ policy"]
    assert "Tier old    has no effect any more: the inventory's is in force in its place" in planned[1]
    assert {key: value for key, value in cluster.values().items() if not key.startswith(keys.DOCUMENTS)} == before
    assert datastore_lines.plan(restore(cluster, restored).changes) == planned
    assert restore(cluster, restored).changes == ()
    values = cluster.values()
    assert {key: values[key] for key in values if key.startswith((keys.INVENTORY, keys.SETTINGS))} == dict(
        published_policy(OLD).values
    )
    assert all(values[key] == value for key, value in before.items() if not key.startswith(keys.INVENTORY))
    lines = datastore_lines.plan(restore(cluster, RestoredPolicy((None,))).changes)
    assert "- live     1 live document    has no effect any more" in lines
    assert not any(key.startswith((keys.INVENTORY, keys.SETTINGS)) for key in cluster.values())


@pytest.mark.parametrize("reason", ["", "nodes return to 2 plans, which differ in policy"])
def test_a_return_that_takes_a_tier_from_live_documents_changes_nothing(reason: str) -> None:
    """It is refused as well where the policy of the stored states is not published."""
    cluster = Cluster()
    live, without = fleet(policies=[TIER], live_policy=True), fleet(policy_enabled=True, live_policy=True)
    cluster.publish(live, live=published_policy(live))
    cluster.etcd.put(keys.document_key(DocumentKey("GlobalNetworkPolicy", "", "web")), IN_TIER)
    before = cluster.values()
    each = (published_policy(live), published_policy(without)) if reason else (published_policy(without),)
    with pytest.raises(TierInUse) as error:
        restore(cluster, RestoredPolicy(each, reason))
    assert str(error.value) == (
        "The generation does not have the Tier security, and live documents are in it: GlobalNetworkPolicy web. Choose "
        "another one, move them to another tier or delete them (calicoctl apply, calicoctl delete), or write a live "
        "Tier security first."
    )
    assert cluster.values() == before


def test_a_reason_keeps_the_policy_of_stored_states_from_being_published() -> None:
    cluster = Cluster()
    live = fleet(policies=[TIER], live_policy=True)
    cluster.publish(live, live=published_policy(live))
    before = cluster.values()
    assert restore(cluster, RestoredPolicy((published_policy(OLD),), "not all nodes return")).changes == ()
    assert cluster.values() == before


def test_too_many_live_documents_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    live = fleet(policies=[TIER], live_policy=True)
    for name in ("a", "b", "c"):
        cluster.etcd.put(keys.document_key(DocumentKey("GlobalNetworkPolicy", "", name)), IN_TIER)
    cluster.etcd.put(f"{keys.DOCUMENTS}nonsense", IN_TIER)
    for bound, most, why in (
        ("MOST_DOCUMENTS", 3, "the datastore has 4 live documents, and at most 3 are read"),
        ("DOCUMENTS_BYTES", 100, "the live documents have more than 100 bytes"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(keys, bound, most)
            done = cluster.publish(live, live=published_policy(live), check=True)
        assert done.review.notices == (
            f"The plan is without live documents: {why}, ask `calicoctl policy explain` on a node. Remove some "
            "(calicoctl delete).",
        )
    done = cluster.publish(live, live=published_policy(live), check=True)
    assert [change.line() for change in done.review.changes] == ["+ live     3 live documents    come into force"]


def test_the_text_for_people() -> None:
    done = Cluster().publish(fleet({"node1": NODES["node1"]}))
    text = datastore_lines.prepared(dataclasses.replace(done, version="3.5.16\x1b[1m"))
    assert text.splitlines()[0] == f"{'datastore  5 changes':<58} etcd '3.5.16\\x1b[1m'"
    assert text.splitlines()[2].startswith("  + user     node1") and rights.password(SECRET, "node1") not in text
