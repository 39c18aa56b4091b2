# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait until nodes have a change in force, and writes that nodes cannot follow."""

from __future__ import annotations

import json
import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import policy_heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import nodes

from tests.unit.live.conftest import Operator, policy

NODES = ("node1", "node2", "node3")


def beat(operator: Operator, node: str, age: float = 1.0, version: str = VERSION) -> None:
    """Write the heartbeat of a node's agent."""
    operator.etcd.put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, time.time() - age, version)))


def say(operator: Operator, node: str, revision: int, **more: t.Any) -> None:
    """Write what a node says of its live policy."""
    found = PolicyHeartbeat(node, time.time(), more.pop("release", VERSION), more.pop("cluster", 7), revision, **more)
    operator.etcd.put(keys.policy_heartbeat_key(node), policy_heartbeat.encode(found))


@pytest.fixture
def fleet(operator: Operator) -> Operator:
    """A fleet whose three nodes know live policy, and have none."""
    for node in NODES:
        beat(operator, node)
        say(operator, node, operator.etcd.revision)
    return operator


def changed_at(operator: Operator) -> int:
    """Return the revision of the last change of a document, 0 for none."""
    start = keys.DOCUMENTS.encode()
    return max((event.revision for event in operator.etcd.log if event.key.startswith(start)), default=0)


def follow(operator: Operator, *names: str, calls: int = 3) -> None:
    """Let nodes have each change in force after so many calls of calicoctl."""
    seen = {"calls": 0, "said": 0}

    def act() -> None:
        revision = changed_at(operator)
        if revision > seen["said"]:
            seen["calls"] += 1
            if seen["calls"] >= calls:
                seen.update(calls=0, said=revision)
                for name in names:
                    say(operator, name, revision)

    operator.before_call = act


def test_all_nodes_have_it(fleet: Operator) -> None:
    follow(fleet, *NODES)
    begun = time.monotonic()
    status, out, err = fleet.apply(policy("a"), options=["--wait"])
    assert (status, err) == (0, "")
    assert re.search(r"\nIt is in force on 3 nodes after \d+\.\d\d s\.\n$", out), out
    assert time.monotonic() - begun < 5
    assert fleet.run("patch", "gnp", "a", "--wait", "5", "-p", '{"spec": {"order": 3}}')[0] == 0
    assert fleet.run("rollback", fleet.last_change, "--wait=5")[0] == 0
    assert fleet.apply(policy("a"), options=["--wait"])[1] == (
        "Successfully applied 1 'GlobalNetworkPolicy' resource(s)\nGlobalNetworkPolicy(a) is unchanged\n"
    )


def test_who_does_not_and_why(fleet: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_HELD_BACK", 0.2)
    key = "/host-routing/v1/documents/globalnetworkpolicies/a"

    def act() -> None:
        revision = changed_at(fleet)
        if revision:
            say(fleet, "node1", 3, held_back="it would deny SSH")
            say(fleet, "node2", revision, count_refused=1, refused=((key, "it is too new."),))

    fleet.before_call = act
    beat(fleet, "node3", age=300.0)
    status, out, err = fleet.apply(policy("a"), options=["--wait", "20"])
    assert status == 1 and out.endswith("It is in force on 0 nodes.\n")
    assert err == (
        "calicoctl: node1 does not have it in force: it holds back: it would deny SSH.\n"
        f"calicoctl: node2 does not have it in force: it has left out {key}: it is too new.\n"
        "calicoctl: not known of nodes without a fresh heartbeat: node3.\n"
    )


def test_the_time_from_the_write_until_the_last_node_has_it(fleet: Operator) -> None:
    """It has the pause of the slowest node, and not the time that is spent on others that never have it."""
    begun: list[float] = []

    def act() -> None:
        revision = changed_at(fleet)
        if revision:
            begun.append(time.monotonic())
            say(fleet, "node1", revision)
            if begun[-1] - begun[0] > 0.3:
                say(fleet, "node2", revision)

    fleet.before_call = act
    status, out, dummy = fleet.apply(policy("a"), options=["--wait", "3"])
    found = re.search(r"^It is in force on 2 nodes after (\S+) s\.$", out, re.MULTILINE)
    assert status == 1 and found, out
    assert 0.3 <= float(found[1]) < 3


def test_the_wait_ends(fleet: Operator) -> None:
    follow(fleet, "node1")
    begun = time.monotonic()
    status, out, err = fleet.apply(policy("a"), options=["--wait", "0.3"])
    assert status == 1 and re.search(r"\nIt is in force on 1 node after \d+\.\d\d s\.\n$", out), out
    assert 0.3 <= time.monotonic() - begun < 5
    assert re.fullmatch(r"(calicoctl: node[23] does not have it in force: it is at revision \d+\.\n){2}", err)


def test_a_wrong_clock_is_suspected(fleet: Operator) -> None:
    for node in NODES:
        beat(fleet, node, age=-600.0)
    assert fleet.apply(policy("a"), options=["--wait"])[0::2] == (
        1, "calicoctl: not known of nodes without a fresh heartbeat: node1, node2, node3. The clock of this host may "
        "be wrong.\n"
    )  # fmt: skip


def test_another_cluster_is_not_believed(fleet: Operator) -> None:
    for name in NODES:
        say(fleet, name, 10_000, cluster=8)
    status, dummy, err = fleet.apply(policy("a"), options=["--wait", "0.2"])
    assert status == 1 and err.count("it has not read the datastore.") == 3


def test_a_release_without_live_policy(fleet: Operator) -> None:
    beat(fleet, "node2", version="0.0.9")
    fleet.etcd.delete(keys.policy_heartbeat_key("node3"))
    error = (
        "calicoctl: node2, node3 cannot have live policy in force: the release there knows none, or no run has allowed "
        "it. Run playbooks/site.yml for them, or add --force\n"
    )
    assert fleet.apply(policy("a")) == (1, "", error)
    assert fleet.live() == {}
    assert fleet.apply(policy("a"), options=["--dry-run"])[0] == 0
    assert fleet.apply(policy("a"), options=["--force"])[0] == 0
    status, dummy, err = fleet.apply(policy("a", 3), options=["--force", "--wait", "0"])
    assert status == 1 and err.count("its release knows no live policy, or no run has allowed it.") == 2
    assert fleet.run("rollback", fleet.last_change) == (1, "", error)
    beat(fleet, "node2", age=300, version="0.0.9")
    beat(fleet, "node3", age=300)
    assert fleet.run("rollback", fleet.last_change)[0] == 0


def test_a_fleet_that_does_not_allow_it(fleet: Operator) -> None:
    fleet.etcd.put(keys.FLEET_SETTINGS, json.dumps({"policy": True, "live": False}).encode())
    assert fleet.apply(policy("a"))[2] == (
        "calicoctl: the inventory does not allow live policy. Set calico_live_policy: true there and run "
        "playbooks/site.yml, or add --force\n"
    )
    fleet.etcd.put(keys.FLEET_SETTINGS, b"[")
    assert "of the datastore cannot be read: it is not JSON." in fleet.apply(policy("a"))[2]
    fleet.etcd.put(keys.FLEET_SETTINGS, json.dumps({"policy": True, "live": True, "failsafes": []}).encode())
    assert fleet.apply(policy("a"))[0] == 0


def test_options_of_live_policy_are_not_for_an_inventory(operator: Operator) -> None:
    (operator.folder / "hosts").touch()
    status, out, err = operator.apply(policy("a"), options=["-i", str(operator.folder / "hosts"), "--wait"])
    assert (status, out) == (2, "")
    assert err == (
        "calicoctl: --wait, --force, --owner, --prune, --plan, --confirm, --dry-run=server and -o are for live policy "
        "in the datastore: leave out -i.\n"
    )
    assert operator.apply(policy("a"), options=["--wait", "-1"])[0] == 2
    assert operator.apply(policy("a"), options=["--run", "--yes"])[2] == (
        "calicoctl: --run, --playbook, --yes and words behind -- are for -i INVENTORY.\n"
    )
