# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet action as Ansible runs it, on inventories that are good."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.unit.fleet.bad_inventories import ALL, HOSTS, Case
from tests.unit.fleet.fleets import build, pool, states
from tests.unit.plugin_utils import controller

NODES = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}


def folder_with(tmp_path: pathlib.Path, name: str, text: str = ALL) -> pathlib.Path:
    folder = tmp_path / name
    folder.mkdir()
    Case(name, text, HOSTS, None, {}, None, "", "").write(folder)
    return folder


def answers(**registered: t.Any) -> dict[str, dict[str, t.Any]]:
    return {host: {"seen": answer} for host, answer in registered.items()}


NOTHING = {"state": None}


def test_runs_on_good_inventories(tmp_path: pathlib.Path) -> None:
    """All in one process; what each is about stands beside it."""
    templated = "calico_ip_pools: '{{ [shared] }}'\nshared: {name: default, cidr: 10.244.0.0/16, vxlanMode: Always}\n"
    folders = {
        name: folder_with(tmp_path, name, text)
        for name, text in {"plain": ALL, "check": ALL, "templated": templated, "down": ALL}.items()
    }

    def run(name: str, registered: t.Mapping[str, t.Any], check: bool = False, **args: t.Any) -> controller.Run:
        return controller.Run(
            "fleet", {"observed": "seen", **args}, str(folders[name] / "hosts.yml"), registered, check
        )

    both = answers(node1=NOTHING, node2=NOTHING)
    results = controller.run(
        [
            run("plain", both),
            run("plain", both),
            run("check", both, check=True),
            run("templated", both),
            run("plain", both, pool="default", mode="direct"),
            run("down", answers(node1={"unreachable": True, "msg": "no"}, node2=NOTHING)),
        ]
    )
    assert [result.get("exception") for result in results] == [None] * 6
    first, second, check, from_template, switched, down = results
    lockfile = folders["plain"] / ".calico.lock.yml"

    assert (first["changed"], first["generation"], first["change"]) == (True, 1, False)
    assert first["lockfile"] == str(lockfile)
    assert first["diff"]["before"] == ""
    assert first["diff"]["after"] == lockfile.read_text()

    assert (second["changed"], second["generation"], second["plan"]) == (False, 1, first["plan"])
    assert "diff" not in second

    assert check["changed"] is True
    assert check["diff"]["after"] == first["diff"]["after"]
    assert not (folders["check"] / ".calico.lock.yml").exists()

    assert from_template["modes"] == {"default": "vxlan"}
    assert switched["modes"] == {"default": "direct"}

    assert down.get("failed") is not True
    assert down["warnings"] == [
        f"{folders['down'] / '.calico.lock.yml'} is missing and no node that answered has blocks: planned as a new "
        "fleet, without the copies of node1."
    ]


@pytest.fixture(scope="module")
def stored() -> dict[str, t.Any]:
    fleet = build(pool("ipip"), nodes=NODES, workloads=[])
    return {name: state.to_dict() for name, state in states(fleet).items()}


def test_stored_states(tmp_path: pathlib.Path, stored: dict[str, t.Any]) -> None:
    hosts_file = str(folder_with(tmp_path, "restore") / "hosts.yml")
    newer = {**stored["node1"], "version": 99}
    without_bgp = {**stored["node2"], "bird": None}
    generation = {"generation": {"state": stored["node1"]}}
    now = {name: {"state": state} for name, state in stored.items()}
    both_kept = {
        "node1": {"seen": now["node1"], "kept": generation},
        "node2": {"seen": now["node2"], "kept": generation},
    }
    one_kept = {"node1": {"seen": now["node1"], "kept": generation}, "node2": {"seen": now["node2"], "kept": {}}}
    run = [
        controller.Run("fleet", {"observed": "seen"}, hosts_file, answers(node1={"state": newer}, node2=NOTHING)),
        controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, both_kept),
        controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, one_kept),
        controller.Run(
            "fleet", {"observed": "seen"}, hosts_file, answers(node1=now["node1"], node2={"state": without_bgp})
        ),
        controller.Run(
            "fleet", {"observed": "seen", "pool": "default", "mode": "vxlan"}, hosts_file, answers(node1=now["node1"])
        ),
    ]
    results = controller.run(run)
    assert [result.get("exception") for result in results] == [None] * len(run)
    assert [result.get("msg") for result in results] == [
        "stored state of node1 cannot be read: NodeState version 99 is not 1, the one that this release reads. It was "
        "written by another release of this collection: use that release, or remove /var/lib/calico/state.json on the "
        "node if its workloads may be planned anew.",
        None,
        "generation is not stored on node2. Choose one that every node has (playbooks/rollback.yml without a plan "
        "lists them), or leave those nodes out with --limit.",
        "calico_bgp_enabled true differs from how node2 is running. A running fleet cannot change it in this release: "
        "set it back, or move its workloads to new nodes. Nothing was changed.",
        results[4]["msg"],
    ]
    assert (results[1]["changed"], results[1]["change"], results[1]["modes"]) == (False, False, {"default": "ipip"})
    assert results[1]["plan"] == stored["node1"]["plan"]
    assert results[4]["failed"] is True
    assert "node2" in results[4]["msg"]


def test_results_can_be_told_apart() -> None:
    """The harness itself: an action that touches the host is caught."""
    with pytest.raises(AssertionError, match=r"a host was to be touched: connection\.exec_command"):
        controller._NoConnection().exec_command("true")
