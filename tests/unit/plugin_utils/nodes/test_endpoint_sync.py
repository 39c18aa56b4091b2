# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exchange of workloads on the controller: what each node gets, and the report. Nodes are dictionaries here."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.endpoint_sync import Teller, parts, teller
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    PlannedPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import sync_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
    read_updates,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugin_utils import controller

NODES = ("node1", "node2", "node3")
DOWN = {"unreachable": True, "msg": "ssh: no route to host"}


def endpoints(node: str, names: t.Iterable[int]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            "WorkloadEndpoint", f"default/w{n}", node, f"cali{n}", (f"10.{node[-1]}.0.{n}",),
            namespaced_labels({}, "default"), namespace="default",
        )
        for n in names
    )  # fmt: skip


def blocks(node: str) -> list[str]:
    return [f"10.{node[-1]}.0.0/26"]


def tellers(answers: t.Mapping[str, dict[str, t.Any]]) -> dict[str, Teller]:
    found = {}
    for node, said in answers.items():
        found[node], left_out = teller(node, said, blocks(node))
        assert left_out == ()
    return found


def answer(node: str, own: t.Iterable[int], remote: RemoteEndpoints) -> dict[str, t.Any]:
    """Return a node's answer to remote_endpoints_info: its workloads `own`, and digests of the others' in `remote`."""
    told = Collected("", endpoints(node, own))
    known = {
        name: {"collected": one.when, "endpoints": len(one.endpoints), "digest": one.digest}
        for name, one in remote.nodes.items()
    }
    return {"node": node, "endpoints": to_plain(told.endpoints), "digest": told.digest, "known": known}


Step = t.Mapping[str, t.Optional[frozenset[int]]]
STEPS = st.lists(
    st.fixed_dictionaries(dict.fromkeys(NODES, st.none() | st.frozensets(st.integers(1, 3), max_size=2))), max_size=4
)


@settings(max_examples=60)
@given(STEPS)
def test_after_each_exchange_a_node_knows_what_others_last_told_it(steps: list[Step]) -> None:
    """After each exchange a node knows what others last reported, and gets only workloads that it does not know.

    Each step is {node: its workloads, None if it cannot be reached}.
    """
    known = dict.fromkeys(NODES, RemoteEndpoints())
    expected: dict[str, dict[str, Collected]] = {node: {} for node in NODES}
    for hour, step in enumerate(steps):
        when = f"2026-11-22T0{hour}:00:00Z"
        reached = {node: own for node, own in step.items() if own is not None}
        answers = {node: answer(node, sorted(own), known[node]) for node, own in reached.items()}
        sent = json.loads(json.dumps(parts(tellers(answers), NODES, when)))
        assert set(sent) == set(reached)
        for node, part in sent.items():
            for other, entry in part["told"].items():
                news = Collected(when, endpoints(other, sorted(reached[other])), tuple(blocks(other)))
                before = expected[node].get(other)
                assert ("endpoints" in entry) == (before is None or before.endpoints != news.endpoints)
                expected[node][other] = news
            told, left_out = read_updates(part["told"])
            assert left_out == ()
            known[node] = known[node].updated(told, part["nodes"])
        assert {node: dict(remote.nodes) for node, remote in known.items()} == expected


def test_the_report_of_a_sync_counts_changes_and_names_failures() -> None:
    asked = {"node1": answer("node1", [1, 2], RemoteEndpoints()), "node2": answer("node2", [3], RemoteEndpoints())}
    change = {"action": "+", "subject": "default/w1 on node1"}
    gone = {"action": "-", "subject": "default/w9 on node2"}
    taken = {"node1": {"changes": [gone]}, "node2": {"changes": [change]}, "node3": {"changes": [change, gone]}}

    def said(hosts: t.Sequence[str], check: bool = False, **more: t.Any) -> list[str]:
        return sync_lines.lines(hosts, {**asked, **more}, {**taken, "node3": more.get("taken", taken["node3"])}, check)

    assert said(["node1", "node2"]) == ["synced  2/2 nodes · 3 workloads that came between runs · 1 added, 1 gone"]
    assert said(["node1", "node2"], check=True)[0].startswith("to sync  2/2 nodes")
    assert said(NODES, node3=DOWN) == [
        "! node3 could not be asked (unreachable: ssh: no route to host). The others keep what they knew of its "
        "workloads.",
        "incomplete  2/3 nodes · 3 workloads that came between runs · 1 added, 1 gone",
    ]
    unread = "/var/lib/calico/state.json cannot be read: NodeState has no field 'later'. Use that release."
    for failed in ({"failed": True, "msg": unread}, {"failed": False, "msg": f"{unread}\nmore"}):
        assert said(NODES, node3=failed)[0] == (
            f"! node3 could not be asked ({unread.rstrip('.')}). The others keep what they knew of its workloads."
        )
    failed = {"failed": True, "msg": "the disk is full.\nmore"}
    assert said(NODES, node3=answer("node3", [], RemoteEndpoints()), taken=failed) == [
        "! node3 could not be told: the disk is full.",
        "incomplete  2/3 nodes · 3 workloads that came between runs · 1 added, 1 gone",
    ]
    nothing: dict[str, t.Any] = {"node1": {"changes": []}}
    one = {"node1": answer("node1", [1], RemoteEndpoints())}
    assert sync_lines.lines(["node1"], one, nothing, False) == [
        "synced  1/1 nodes · 1 workload that came between runs · nothing new"
    ]


def lockfile(folder: pathlib.Path, *nodes: str) -> None:
    grants = {node: NodeAllocations(tuple(BlockGrant(cidr, "ten") for cidr in blocks(node))) for node in nodes}
    lockfile_store.write(
        str(folder / lockfile_store.NAME), AllocationPlan(3, {"ten": PlannedPool("10.0.0.0/8", 26)}, grants)
    )


def test_the_actions(tmp_path: pathlib.Path) -> None:
    hosts_file = tmp_path / "hosts.yml"
    hosts_file.write_text("calico_nodes: {hosts: {node1: , node2: , node3: , node4: }}\n")
    lockfile(tmp_path, "node1", "node2", "node3")
    registered = {
        "node1": {"asked": answer("node1", [1], RemoteEndpoints()), "taken": {"changes": []}},
        "node2": {"asked": answer("node2", [2], RemoteEndpoints()), "taken": {"changes": []}},
        "node3": {"asked": DOWN},
    }
    report = {"asked": "asked", "taken": "taken"}

    def run(action: str, **args: t.Any) -> controller.Run:
        return controller.Run(action, args, str(hosts_file), registered)

    worked_out, said, strict = controller.run(
        [
            run("endpoint_sync", asked="asked"),
            run("endpoint_sync_report", **report),
            run("endpoint_sync_report", **report, strict=True),
        ]
    )
    assert [result.get("exception") for result in (worked_out, said, strict)] == [None] * 3
    assert (worked_out["changed"], worked_out["answered"]) == (False, ["node1", "node2"])
    assert said["lines"][-1] == "incomplete  2/3 nodes · 2 workloads that came between runs · nothing new"
    assert len(said["problems"]) == 1
    assert (strict["failed"], strict["msg"]) == (True, "1 node is not in step with the others, see above.")
