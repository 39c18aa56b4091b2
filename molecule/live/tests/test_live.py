# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""inventories/live: four nodes that know each other's workloads by three members of etcd, with TLS and users."""

from __future__ import annotations

import json
import time

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.suite_converged import *  # noqa: F403
from tests.lab.suite_converged import NAMES, every_node

POOLS = (Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True),)
WORKLOADS = {name: (node, "default-ipv4-ippool") for name, node in (("web-1", "node1"), ("db-1", "node3"))}
MEMBERS = ("node1", "node3", "node5")
OTHER_HOSTS = ("node5",)

every_member = pytest.mark.parametrize("name", MEMBERS)


@every_member
def test_a_member_and_its_gate_run_and_the_distributions_own_does_not(lab: BaseLab, name: str) -> None:
    units = ("calico-etcd.service", "calico-etcd-gate.service", "etcd.service")
    shown = [lab.exec(name, ["systemctl", "is-active", unit], check=False).stdout.strip() for unit in units]
    assert shown == ["active", "active", "inactive"]


@every_member
def test_a_member_serves_nobody_without_a_certificate(lab: BaseLab, name: str) -> None:
    address = {"node1": "10.10.1.11", "node3": "10.10.2.11", "node5": "10.10.1.13"}[name]
    script = f"exec 3<>/dev/tcp/{address}/2379 && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 5 cat <&3"
    said = lab.exec(name, ["bash", "-c", script], check=False).stdout
    assert '"health"' not in said


@every_node
def test_a_node_follows_the_datastore(lab: BaseLab, name: str) -> None:
    status = json.loads(lab.exec(name, "calicoctl status -o json").stdout)
    assert status["datastore"]["synced"] and status["datastore"]["workloads"] == len(WORKLOADS)
    assert status["problems"] == []


def test_a_workload_that_attaches_is_known_to_all_nodes_until_it_goes(lab: BaseLab) -> None:
    lab.exec("node2", "ip netns add between")
    lab.exec("node2", "calicoctl workload add between --netns between --label app=web")
    _until_all_know(lab, len(WORKLOADS) + 1)
    lab.exec("node2", "calicoctl workload delete between; ip netns delete between")
    _until_all_know(lab, len(WORKLOADS))


def test_every_node_shows_the_fleet(lab: BaseLab) -> None:
    for name in NAMES:
        shown = lab.exec(name, "calicoctl get nodes -o wide").stdout
        assert all(other in shown for other in NAMES), shown


def _until_all_know(lab: BaseLab, count: int) -> None:
    end = time.monotonic() + 30
    for name in NAMES:
        while json.loads(lab.exec(name, "calicoctl status -o json").stdout)["datastore"]["workloads"] != count:
            assert time.monotonic() < end, f"{name} does not know {count} workloads"
