# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a host to playbooks of etcd, to a rollback and to commit-confirm, as root there can write them.

Of three hosts of members, host1 answers what it likes, and the others answer truly.
"""

from __future__ import annotations

import copy
import json
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.action import generation_choice
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import stored_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import node_info
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import new_connection
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import (
    allowed_clients,
    membership,
    seen_hosts,
    status_table,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.cluster_members import EtcdHost
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.membership import (
    ClusterPlan,
    ClusterRequest,
    PlanRefused,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.seen_hosts import SeenHost

from tests.integration.attacks import hostile_answers as answers
from tests.long_form import LONG

HOSTS = tuple(EtcdHost(f"host{number}", f"10.0.0.{number}") for number in (1, 2, 3))
REQUESTS = (
    *(ClusterRequest(), ClusterRequest(upgrade=True), ClusterRequest(clear_alarms=True)),
    *(ClusterRequest(only=only) for only in membership.ALONE),
)
TRIES = 20_000 if LONG else 400


def info(host: EtcdHost) -> answers.Data:
    """Return the honest answer of a host to etcd_member_info."""
    members = [
        {"id": f"{number:x}", "name": one.name, "peer_urls": [one.peer_url], "learner": False, "answers": True}
        for number, one in enumerate(HOSTS, 1)
    ]
    own = next(one["id"] for one in members if one["name"] == host.name)
    found = {"installed": "3.5.16", "candidate": "3.5.16", "data": True, "running": True, "stale": False}
    member = {"reason": "", "id": own, "version": "3.5.16", "leader": "2", "revision": 77, "db_size": 1 << 20}
    return {
        "changed": False,
        "host": {**found, "controller": "192.0.2.5"},
        "member": {**member, "db_in_use": 1 << 19, "auth": "on", "members": members, "alarms": []},
        "gate": {"reason": ""},
    }


def seen(lie: t.Any) -> list[SeenHost]:
    """Return what the hosts answered, host1 with a lie."""
    return [seen_hosts.of_run(host, lie if host is HOSTS[0] else info(host)) for host in HOSTS]


def planned(hosts: t.Sequence[SeenHost], request: ClusterRequest = REQUESTS[0]) -> ClusterPlan | str:
    """Return the plan of a run, or why it is refused."""
    try:
        return membership.plan(hosts, request)
    except PlanRefused as refused:
        return str(refused)


def harms(found: ClusterPlan | str) -> list[membership.Step]:
    """Return the steps by which a plan changes honest members, or adds one that is not in the inventory."""
    if isinstance(found, str):
        return []
    honest = {"2", "3"}
    return [
        step
        for step in found.steps
        if (step.kind == membership.REMOVE and step.identity in honest)
        or (step.kind == membership.ADD and step.host != "host1")
        or step.kind == membership.CREATE
        or step.peer_url not in ("", *(host.peer_url for host in HOSTS))
    ]


def test_tampered_answers_of_a_host_of_etcd() -> None:
    """Answer with other types, huge values, names of others, templates and terminal commands anywhere.

    Gain: A traceback that ends `etcd.yml`, `etcd_revoke.yml` or `etcd_status.yml`, or a change of honest members.
    Precedent: CWE-20, CWE-755, CWE-345.
    Closed: 0.3.0
    Result: The host is named with what is wrong, or the plan is for that host alone. A revocation goes on at others.
    """
    chance = random.Random(36)
    for number in range(TRIES):
        lie = answers.tampered(info(HOSTS[0]), chance)
        hosts = seen(lie)
        for request in REQUESTS:
            found = planned(hosts, request)
            assert not harms(found), (number, lie, found)
            if request.only == membership.REVOKE:
                assert isinstance(found, ClusterPlan), (number, lie, found)
                assert {step.host for step in found.steps} >= {"host2", "host3"}
        problems = status_table.problems(hosts, {})
        assert all(len(line) < 10_000 for line in status_table.text(hosts, {}, problems, status_table.warnings(hosts)))
        allowed_clients.answered(one.controller for one in hosts)


def listing(*changes: tuple[int, dict[str, t.Any]], more: t.Sequence[answers.Data] = ()) -> answers.Data:
    """Return host1's answer with changes to its list of members, by index, and further members."""
    found = copy.deepcopy(info(HOSTS[0]))
    for index, change in changes:
        found["member"]["members"][index].update(change)
    found["member"]["members"] += more
    return found


FOREIGN = "https://192.0.2.66:2380"
EXTRA = {"id": "2", "name": "x", "peer_urls": [FOREIGN], "learner": False, "answers": True}


@pytest.mark.parametrize(
    "lie",
    [
        listing((1, {"id": "3"}), more=[EXTRA]),
        listing((1, {"id": "9", "learner": True}), more=[{**EXTRA, "answers": False}]),
        listing((1, {"peer_urls": [FOREIGN]})),
        listing((1, {"peer_urls": [FOREIGN, HOSTS[1].peer_url], "learner": True}), (2, {"learner": True})),
        listing(more=[{**EXTRA, "id": "66"}]),
    ],
    ids=["identity of another", "identity of a learner", "address of another", "no vote", "a member of its own"],
)
def test_a_host_of_etcd_lies_about_members(lie: answers.Data) -> None:
    """List the identity of an honest member for one that is not in the inventory, and other false members.

    Gain: A run of `etcd.yml` that removes honest members, or adds one of the attacker.
    Precedent: CWE-345.
    Closed: 0.3.0
    Result: The list of most hosts counts. The host with another one is named, and no member is changed.
    """
    found = planned(seen(lie))
    assert isinstance(found, ClusterPlan) and found.steps == ()
    assert found.notices == ("host1 lists other members than most hosts do. Its list is left out: look at that host.",)
    assert status_table.problems(seen(lie), {}) == [
        "host1: lists other members than host2. If that stays so, look at both hosts."
    ]
    two = seen(lie)[:2]
    assert str(planned(two)).startswith("host1 and host2 list different members, and no list is that of most. ")
    for only in membership.ALONE:
        assert isinstance(planned(two, ClusterRequest(only=only)), ClusterPlan)


def test_answers_to_a_rollback_and_to_commit_confirm() -> None:
    """Answer with hostile generations and outcomes: other types, huge values, templates, terminal commands.

    Gain: A traceback that ends the run of other nodes half-way, or a change that counts as confirmed and is not.
    Precedent: CWE-20, CWE-755.
    Closed: 0.3.0
    Result: The node's action fails in words. A change is confirmed by three words alone, and for that node alone.
    """
    chance = random.Random(36)
    honest = answers.node_info(None)
    for dummy in range(TRIES):
        lie = answers.tampered({"generations": honest["generations"]}, chance)
        for plan in ("previous", "7f", "", "{{ x }}"):
            try:
                found = node_info.generations(lie)
            except Unreadable as error:
                assert len(str(error)) < 1_000
                continue
            chosen = generation_choice.choose(found, plan)
            assert chosen is None or isinstance(chosen["n"], int)
            assert len(generation_choice.table(found)) < 1_000_000
    confirmed = {"changed": True, "outcome": "confirmed", "news": "", "generation": 2}
    for make in answers.HOSTILE:
        for answer in (
            *({**confirmed, name: make()} for name in ("outcome", "news", "generation", "msg", "failed")),
            {"failed": True, "msg": make()},
            {"unreachable": True, "msg": make()},
            {"outcome": "went_back", "msg": make()},
        ):
            said = new_connection.problem("node2", answer, 60.0, make())
            assert isinstance(said, str) and len(said) < 20_000
            assert bool(said) == (answer.get("outcome") not in ("confirmed", "replaced", "nothing"))
    assert json.loads(json.dumps(confirmed)) == confirmed


def test_a_policy_that_a_node_made_up_at_a_rollback() -> None:
    """Say at a rollback that another policy was stored, or one with random errors.

    Gain: the datastore has a policy of the attacker as the inventory's, by which operators plan live policy.
    Precedent: CWE-345 (insufficient verification of data authenticity).
    Closed: 0.3.0
    Result: Published is only what several nodes agree about, chosen at random. Otherwise nothing is, and the rollback
        names the nodes. What is in force is not affected.
    """
    chance = random.Random(4711)
    settings = PolicySettings(live=True)
    tiers = [model.policy_set([model.PolicyTier(name)]) for name in ("true", "made-up")]
    true, lie = (packed_json.pack(PolicyState(tier, settings=settings).to_dict()) for tier in tiers)
    plans = dict.fromkeys(("host1", "host2", "host3"), "a")
    honest = stored_policy.read(plans, dict.fromkeys(plans, true), True)
    found = stored_policy.read(plans, {**dict.fromkeys(plans, true), "host1": lie}, True)
    assert (honest.reason, found.reason) == (
        "",
        "host1, host2, host3 say different things about the policy of the same plan",
    )
    for dummy in range(TRIES):
        made_up = answers.tampered(PolicyState(tiers[0], settings=settings).to_dict(), chance)
        try:
            tampered = packed_json.pack(made_up)
        except RecursionError:
            tampered = packed_json.pack_text("[" * 100_000)
        found = stored_policy.read(plans, {**dict.fromkeys(plans, true), "host1": tampered}, True)
        assert found.reason or found == honest
