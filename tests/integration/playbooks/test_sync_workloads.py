# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/sync_workloads.yml as users run it, on "hosts" that are this machine with folders of their own."""

from __future__ import annotations

import pathlib
import re
import stat
import sys

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    PlannedPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.lockfile import dump
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.remote_endpoints import known
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam

from tests.integration.ansible_playbook import PIPELINED, play
from tests.unit.agent.node_under_test import with_state

NODES = ("node1", "node2", "node3")


class Sandbox:
    """Three nodes, each with a workload that was attached between runs; `known` is what a node knows of the others."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict[str, object]] = {}
        for index, node in enumerate(NODES, 1):
            root = folder / node
            store = root / "lib" / "calico"
            Store(str(store)).save(
                Stored(
                    with_state(node=node, ipam=NodeIpam(1, (Block(f"10.244.{index}.0/26", "default"),))), complete=True
                )
            )
            self.endpoints(node).save(
                AttachedWorkload(
                    "default/web", "web", interface="cali1", addresses=(f"10.244.{index}.2",), labels={"on": node}
                )
            )
            interpreter = root / "python"
            interpreter.write_text(
                f"#!/bin/sh\nexec unshare --mount --net sh -c 'mount --bind {root}/lib /var/lib &&"
                f' mount --bind {root}/run /run && exec {sys.executable} "$@"\' sh "$@"\n'
            )
            interpreter.chmod(interpreter.stat().st_mode | stat.S_IXUSR)
            self.hosts[node] = {"ansible_connection": "local", "ansible_python_interpreter": str(interpreter)}

    def endpoints(self, node: str) -> Endpoints:
        return Endpoints(str(self.folder / node / "run" / "calico" / "workloads"))

    def known(self, node: str) -> dict[str, list[tuple[str, ...]]]:
        remote = known(str(self.folder / node / "lib" / "calico")).remote
        return {name: [one.addresses for one in told.endpoints] for name, told in remote.nodes.items()}

    def write(self, down: bool = False) -> pathlib.Path:
        """Write inventory and lockfile, with node3 unreachable if `down`, and return the inventory's path."""
        hosts = dict(self.hosts)
        if down:
            hosts["node3"] = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}
        grants = {
            node: NodeAllocations((BlockGrant(f"10.244.{index}.0/26", "default"),))
            for index, node in enumerate(NODES, 1)
        }
        plan = AllocationPlan(1, {"default": PlannedPool("10.244.0.0/16", 26)}, grants)
        (self.folder / ".calico.lock.yml").write_text(dump(plan))
        inventory = self.folder / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"calico_nodes": {"hosts": hosts}}))
        return inventory

    def play(self, *options: str, down: bool = False) -> tuple[int, list[str], dict[str, int]]:
        """Write inventory and lockfile anew, and run sync_workloads.yml, with node3 unreachable if `down`.

        Return its exit status, the lines of its report, and {host: number of tasks that changed it}. Raise
        AssertionError if the output has a traceback or no report, and subprocess.TimeoutExpired after 120 seconds.
        """
        inventory = self.write(down)
        done = play("playbooks/sync_workloads.yml", inventory, *options, environment=PIPELINED)
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        said = [line for line in done.stdout.splitlines() if re.match(r"! |synced |incomplete |to sync ", line)]
        assert said, done.stdout + done.stderr
        changed = re.findall(r"^(\w+) .*changed=(\d+)", done.stdout, re.MULTILINE)
        return done.returncode, said, {host: int(count) for host, count in changed}


@pytest.fixture
def sandbox(tmp_path: pathlib.Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_nodes_learn_of_each_other(sandbox: Sandbox) -> None:
    tail = "3 workloads that came between runs"
    added = [f"to sync  3/3 nodes · {tail} · 3 added"]
    assert sandbox.play("--check", "--diff") == (0, added, dict.fromkeys(NODES, 1))
    assert sandbox.known("node1") == {}
    assert sandbox.play() == (0, [f"synced  3/3 nodes · {tail} · 3 added"], dict.fromkeys(NODES, 1))
    assert sandbox.known("node1") == {"node2": [("10.244.2.2",)], "node3": [("10.244.3.2",)]}
    # A workload is deleted, and node3 is unreachable.
    sandbox.endpoints("node2").remove("default/web")
    status, said, changed = sandbox.play("-e", "strict=true", down=True)
    assert (status, changed) == (2, {"node1": 1, "node2": 0, "node3": 0})
    assert said[0].startswith("! node3 could not be asked (unreachable: ")
    assert said[1] == "incomplete  2/3 nodes · 1 workload that came between runs · 1 gone"
    assert sandbox.known("node1") == {"node2": [], "node3": [("10.244.3.2",)]}
    assert sandbox.known("node3") == {"node1": [("10.244.1.2",)], "node2": [("10.244.2.2",)]}
