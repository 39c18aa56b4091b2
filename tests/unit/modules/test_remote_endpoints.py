# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of remote_endpoints and its _info: a node reports its workloads, and its policy uses those of other nodes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import of_machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import remote_endpoints as disk
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import RemoteEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import running_agent
from ansible_collections.baremetal.host_routing.plugins.modules import remote_endpoints, remote_endpoints_info

from tests.unit.agent.node_under_test import with_state
from tests.unit.modules.agent_in_process import AgentInProcess

EARLY, LATE = "2026-11-22T06:00:00Z", "2026-11-22T07:00:00Z"
FROM_APP = Policy("db", selector='app == "db"', ingress=(PolicyRule("Allow", source=Entity(selector='app == "app"')),))
POLICY = PolicyState(policy_set([], [FROM_APP], [allow_all()]))
NODES = ["node1", "node2", "node3"]


def endpoint(name, node, address, app="app"):
    labels = namespaced_labels({"app": app}, "default")
    return Endpoint(
        "WorkloadEndpoint", f"default/{name}", node, f"cali9{name}", (address,), labels,
        ("projectcalico-default-allow",), namespace="default",
    )  # fmt: skip


def told(when=EARLY, **endpoints):
    return {
        node: {
            "collected": when,
            "blocks": [f"10.244.{node[-1]}.0/26"],
            **({} if found is None else {"endpoints": to_plain(tuple(found))}),
        }
        for node, found in endpoints.items()
    }


@pytest.fixture
def node(host):
    Store(host.machine.store).save(Stored(with_state(policy=POLICY), complete=True))
    db = AttachedWorkload("default/db", "db", interface="cali1", addresses=("10.244.1.2",), labels={"app": "db"})
    Endpoints(host.machine.workloads).save(db)
    return host


def sources(node):
    """Return, as one set, the members of the kernel's IPv4 sets of selectors: the addresses that may reach db."""
    saved = [line.split() for line in node.kernel.run(["ipset", "save"]).output.splitlines()]
    return {words[2] for words in saved if words[0] == "add" and words[1].startswith("cali40s:")}


def test_the_info_module_returns_own_endpoints_and_known_nodes(node):
    answer = node.run(remote_endpoints_info)
    (db,) = answer["endpoints"]
    assert (answer["node"], db["name"], db["addresses"], db["node"]) == ("node1", "default/db", ["10.244.1.2"], "node1")
    assert answer["known"] == {} and len(answer["digest"]) == 16
    node.run(remote_endpoints, told=told(node2=[endpoint("app", "node2", "10.244.2.2")], node3=[]), nodes=NODES)
    known = node.run(remote_endpoints_info)["known"]
    assert {name: (entry["collected"], entry["endpoints"]) for name, entry in known.items()} == {
        "node2": (EARLY, 1),
        "node3": (EARLY, 0),
    }


def test_a_host_without_a_state_reports_nothing_and_stores_reports(host):
    answer = host.run(remote_endpoints_info)
    assert (answer["node"], answer["endpoints"]) == ("", [])
    host.four_times(remote_endpoints, told=told(node2=[endpoint("app", "node2", "10.244.2.2")]), nodes=NODES)
    assert [one.name for one in disk.load(host.machine.store, None).endpoints] == ["default/app"]


def test_policy_counts_on_what_was_told(node):
    app, two = endpoint("app", "node2", "10.244.2.2"), endpoint("app", "node3", "10.244.3.2")
    dummy, done = node.four_times(remote_endpoints, told=told(node2=[app], node3=[two]), nodes=NODES)
    assert done["plan"] == [
        "+ endpoint default/app on node2  10.244.2.2  labels app=app",
        "+ endpoint default/app on node3  10.244.3.2  labels app=app",
    ]
    assert done["changes"] == [
        {"action": "+", "subject": "default/app on node2"},
        {"action": "+", "subject": "default/app on node3"},
    ]
    assert sources(node) == {"10.244.2.2", "10.244.3.2"}
    # Labels change, a workload is added, and nothing is reported of node3.
    moved = told(
        LATE, node2=[endpoint("app", "node2", "10.244.2.2", app="other"), endpoint("b", "node2", "10.244.2.9")]
    )
    dummy, done = node.four_times(remote_endpoints, told=moved, nodes=NODES)
    assert done["plan"] == [
        "~ endpoint default/app on node2  10.244.2.2  labels app=app  ->  10.244.2.2  labels app=other",
        "+ endpoint default/b on node2    10.244.2.9  labels app=app",
    ]
    assert sources(node) == {"10.244.2.9", "10.244.3.2"}
    dummy, done = node.four_times(remote_endpoints, told={}, nodes=["node1", "node2"])
    assert done["plan"] == ["- endpoint default/app on node3  10.244.3.2  labels app=app"]
    assert sources(node) == {"10.244.2.9"}


def test_a_report_with_only_a_newer_time_is_stored_and_is_no_change(node):
    node.run(remote_endpoints, told=told(node2=[endpoint("app", "node2", "10.244.2.2")]), nodes=NODES)
    kernel = node.kernel.snapshot()
    assert node.run(remote_endpoints, told=told(LATE, node2=None), nodes=NODES)["changed"] is False
    assert disk.known(node.machine.store).remote.nodes["node2"].when == LATE
    assert node.kernel.snapshot() == kernel
    assert node.run(remote_endpoints, told=told("2026-11-22T08:00:00Z", node2=None), nodes=NODES, check=True) == (
        {"changed": False, "plan": [], "changes": []}
    )
    assert disk.known(node.machine.store).remote.nodes["node2"].when == LATE


def test_a_node_ignores_reports_about_its_own_workloads(node):
    ghost = endpoint("ghost", "node1", "10.244.1.9")
    answer = node.run(remote_endpoints, told=told(node1=[ghost]), nodes=NODES)
    assert answer["changed"] is False and disk.known(node.machine.store).remote == RemoteEndpoints()


def test_an_interrupted_run_is_completed_by_the_next(node, monkeypatch):
    app = told(node2=[endpoint("app", "node2", "10.244.2.2")])
    with monkeypatch.context() as patch:
        patch.setattr(type(node.kernel), "run", lambda *dummy: pytest.fail("killed here"))
        with pytest.raises(pytest.fail.Exception):
            node.run(remote_endpoints, told=app, nodes=NODES)
    assert json.loads((node.folder / "calico" / disk.FILE).read_text())["complete"] is False
    answer = node.run(remote_endpoints, told=told(node2=None), nodes=NODES)
    assert (answer["changed"], answer["plan"]) == (True, [])
    assert sources(node) == {"10.244.2.2"}
    assert node.run(remote_endpoints, told=told(node2=None), nodes=NODES)["changed"] is False


def test_a_damaged_file_is_written_anew_and_holds_nothing_up(node):
    path = node.folder / "calico" / disk.FILE
    path.write_text("{")
    assert of_machine(node.machine, Store(node.machine.store).load().state).policy is not None
    answer = node.run(remote_endpoints_info)
    assert answer["known"] == {}
    assert answer["warnings"] == [
        f"{path} cannot be read: Expecting property name enclosed in double quotes: line 1 column 2 (char 1). Rules do "
        "not find the workloads of other nodes that are in it. Run playbooks/sync_workloads.yml, which writes it anew."
    ]
    node.four_times(remote_endpoints, told=told(node2=[endpoint("app", "node2", "10.244.2.2")]), nodes=NODES)
    assert sources(node) == {"10.244.2.2"}


def test_an_invalid_report_is_refused_and_changes_nothing(node):
    before = node.snapshot()
    answer = node.run(remote_endpoints, told={"node2": {"endpoints": []}}, nodes=NODES)
    assert (answer["failed"], answer["msg"]) == (
        True,
        "told: the report of node2 has no time of its collection. Give what remote_endpoints_info of this release "
        "returned.",
    )
    assert node.snapshot() == before


def test_a_policy_that_cannot_be_compiled_is_named_as_what_it_is(node):
    unusable = PolicyState(policy_set([], [FROM_APP], [allow_all()]), settings=PolicySettings(mark_mask=0x70))
    Store(node.machine.store).save(Stored(with_state(policy=unusable), complete=True))
    app = told(node2=[endpoint("app", "node2", "10.244.2.2")])
    answer = node.run(remote_endpoints, told=app, nodes=NODES)
    assert (answer["failed"], answer["msg"]) == (
        True,
        "the workloads of other nodes are stored, but this node's policy cannot be compiled with them: The mark mask "
        "0x70 has 3 bits, and policy needs 5. Give it at least 5, as 0xffff0000 has. Correct the policy in the "
        "inventory, then run playbooks/site.yml.",
    )
    Store(node.machine.store).save(Stored(with_state(policy=POLICY), complete=True))
    assert node.run(remote_endpoints, told=app, nodes=NODES)["changed"] is True
    assert sources(node) == {"10.244.2.2"}


def test_the_agent_applies_reports_at_once_and_after_a_restart(node):
    app = told(node2=[endpoint("app", "node2", "10.244.2.2")])
    for step in range(2):
        with AgentInProcess(node) as running:
            node.using(running_agent.connect)
            if step == 0:
                answer = node.run(remote_endpoints, told=app, nodes=NODES)
                assert answer["changed"] is True, answer
            assert sources(node) == {"10.244.2.2"}
            assert running.agent.desired_state.whole() == of_machine(
                node.machine, Store(node.machine.store).load().state
            )
            assert running.agent.drift.to_dict()["total"] == 0
