# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of live policy by the module resource: check, run, check and run again, with plans and trials."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import task_result
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.outcome import WriteOptions
from ansible_collections.baremetal.host_routing.plugins.modules import resource
from yaml import safe_load

from tests.unit.live.conftest import Data, document, policy
from tests.unit.live.test_agreement import EFFECT, Nodes, answered, nodes  # noqa: F401  (nodes is a fixture)
from tests.unit.live.test_nodes import NODES, beat, follow

CHECK, ASK = WriteOptions(dry_run=True), WriteOptions(dry_run=True, ask=True)
DIFF = (
    "--- /dev/null\n+++ live/GlobalNetworkPolicy(a)\n@@ -0,0 +1,8 @@\n+apiVersion: projectcalico.org/v3\n"
    "+kind: GlobalNetworkPolicy\n+metadata:\n+  name: a\n+spec:\n+  order: 100\n+  selector: all()\n+  tier: default\n"
)
APPLIED = "Successfully applied 1 'GlobalNetworkPolicy' resource(s)"
DOCUMENTED = {"changed", "differences", *safe_load(resource.RETURN)} - {"files"}


def result(nodes: Nodes, options: WriteOptions, *contents: Data, verb: str = "apply") -> dict[str, t.Any]:  # noqa: F811
    """Return the result of a task about these documents."""
    path = nodes.operator.folder / "ada.cfg"
    spec = {"datastoreType": "etcdv3", "etcdEndpoints": "https://10.10.1.11:2379"}
    spec |= {"etcdUsername": "ada", "etcdPassword": "secret"}
    path.write_text(json.dumps({"apiVersion": "projectcalico.org/v3", "kind": "CalicoAPIConfig", "spec": spec}))
    path.chmod(0o600)
    listed = [{"content": content, "place": "definition"} for content in contents or [policy("a")]]
    request = {"verb": verb, "namespace": "", "skip": verb == "delete", "dry_run": options.dry_run, "adopt": False,
               "documents": listed, "owner": "", "prune": False}  # fmt: skip
    found = task_result.result_of(str(path), request, options)
    assert {*found} - {"failed", "msg"} <= DOCUMENTED
    return found


def test_check_run_check_and_run_again(nodes: Nodes) -> None:  # noqa: F811
    checked = result(nodes, CHECK)
    assert checked == {
        "changed": True, "differences": DIFF, "lines": [APPLIED], "change": "", "revision": 0,
        "documents": {"created": ["GlobalNetworkPolicy(a)"], "changed": [], "deleted": [], "unchanged": []},
    }  # fmt: skip
    assert nodes.operator.live() == {}
    made = result(nodes, WriteOptions())
    change = nodes.operator.last_change
    assert made == {
        **checked, "change": change, "revision": nodes.etcd.revision,
        "lines": [APPLIED, f"It is change {change}, revision {nodes.etcd.revision}."],
    }  # fmt: skip
    unchanged = {
        "changed": False, "differences": "", "lines": [APPLIED, "GlobalNetworkPolicy(a) is unchanged"],
        "change": "", "revision": 0,
        "documents": {"created": [], "changed": [], "deleted": [], "unchanged": ["GlobalNetworkPolicy(a)"]},
    }  # fmt: skip
    assert [result(nodes, options) for options in (CHECK, WriteOptions())] == [unchanged, unchanged]
    changed = result(nodes, CHECK, policy("a", 7))
    assert changed["changed"] and "\n-  order: 100\n+  order: 7\n" in changed["differences"]
    gone = [result(nodes, options, verb="delete")["changed"] for options in (CHECK, WriteOptions(), CHECK)]
    assert gone == [True, True, False] and nodes.seen == []


def test_what_nodes_were_asked_is_what_is_made(nodes: Nodes) -> None:  # noqa: F811
    seen = result(nodes, ASK)
    assert (seen["changed"], seen["differences"]) == (True, DIFF) and "failed" not in seen
    assert nodes.operator.live() == {} and not nodes.is_open
    asked = seen["asked"]
    assert asked["documents"] == [{"kind": "GlobalNetworkPolicy", "namespace": "", "name": "a", "action": "added"}]
    assert (asked["nodes"].keys(), asked["silent"], asked["unasked"], asked["denied"]) == ({*NODES}, {}, {}, 0)
    assert seen["lines"] == [
        APPLIED,
        "KIND                  NAME   CHANGE   ENDPOINTS   NODES",
        "GlobalNetworkPolicy   a      added    6           node1 (2), node2 (2), node3 (2)",
        "Rules: 12 chains and 3 members of sets change on 3 nodes.",
        "Connections that stand and would be denied: 0.",
        f"This is plan {asked['plan']}.",
    ]
    made = result(nodes, WriteOptions(plan=asked["plan"]))
    assert made["changed"] and made["change"] == nodes.operator.last_change
    again = result(nodes, WriteOptions(plan=asked["plan"]))
    assert (again["changed"], again["differences"]) == (False, "")
    nothing = result(nodes, ASK)
    empty = {"plan": "", "documents": [], "nodes": {}, "silent": {}, "unasked": {}, "denied": 0}
    assert not nothing["changed"] and nothing["asked"] == empty and "failed" not in nothing


def test_what_was_not_seen_is_not_made(nodes: Nodes) -> None:  # noqa: F811
    seen = result(nodes, ASK)["asked"]["plan"]
    nodes.says["node2"] = answered(EFFECT._replace(endpoints=3))
    now = result(nodes, ASK)["asked"]["plan"]
    with pytest.raises(CommandError) as raised:
        result(nodes, WriteOptions(plan=seen))
    assert str(raised.value) == (
        f"it is no longer what plan {seen} showed: documents, their revisions or what nodes answer differ. It is plan "
        f"{now} now. Look at it by --dry-run=server"
    )
    assert nodes.operator.live() == {} and result(nodes, CHECK._replace(plan="x", confirm=1))["changed"]


def test_a_node_that_would_hold_it_back_fails_the_question(nodes: Nodes) -> None:  # noqa: F811
    beat(nodes.operator, "node3", age=300.0)
    nodes.says = {"node1": None, "node2": answered(EFFECT, "refused", "ssh would be \x1b[2Jcut")}
    found = result(nodes, ASK)
    problems = [
        "node2 would hold it back: ssh would be \x1b[2Jcut.",
        "node1 gives no answer: it did not answer within 1 s.",
        "node3 is not asked: it has no fresh heartbeat.",
    ]
    assert found["failed"] and found["changed"] and found["msg"] == " ".join(problems)
    assert found["lines"][1:4] == problems and found["asked"]["nodes"]["node2"]["state"] == "refused"


def test_a_change_is_tried_first(nodes: Nodes) -> None:  # noqa: F811
    nodes.try_all()
    look = nodes.operator.before_call
    follow(nodes.operator, *NODES)
    beats = nodes.operator.before_call
    nodes.operator.before_call = lambda: (look(), beats())  # type: ignore[assignment,func-returns-value]
    tried = WriteOptions(wait=30.0, confirm=2)
    made = result(nodes, tried)
    assert made["changed"] and made["lines"][0].startswith("trial    in force on 3 nodes after ")
    assert made["lines"][-1].startswith("It is in force on 3 nodes") and [one.kind for one in nodes.seen] == ["trial"]
    assert not result(nodes, tried)["changed"] and len(nodes.seen) == 1
    nodes.says["node2"] = answered(EFFECT, "refused", "ssh would be cut")
    with pytest.raises(CommandError) as raised:
        result(nodes, tried, policy("a", 7))
    assert str(raised.value) == (
        "nothing is committed, and nodes go back to what was in force: node2: it has refused it: ssh would be cut"
    )
    assert nodes.operator.live() == {"globalnetworkpolicies/a": policy("a")} and not nodes.is_open


def test_words_of_warnings_are_in_the_result(nodes: Nodes) -> None:  # noqa: F811
    nodes.operator.put_inventory(policy("a"))
    warning = "the inventory has GlobalNetworkPolicy(a), too. The live one has no effect until the inventory's goes."
    assert result(nodes, CHECK)["lines"] == [warning, APPLIED]
    with pytest.raises(CommandError, match="IPPool is not live: write it into the inventory"):
        result(nodes, CHECK, document("IPPool", "a"))
