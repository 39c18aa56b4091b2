# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of other nodes' endpoints on a real kernel: once the node knows them their packets pass, and no others."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.modules import node, remote_endpoints, remote_endpoints_info

from tests.unit.fleet.fleets import build, pool, states

POLICY = {
    "kind": "NetworkPolicy",
    "name": "db",
    "selector": "app == 'db'",
    "ingress": [{"action": "Allow", "source": {"selector": "app == 'app'"}}],
}
NODES = ["node1", "node2"]
APP, OTHER = "10.244.200.2", "10.244.200.3"
BEYOND = "node2"
PORT = 5432
#: Seconds in which a connection that policy allows is answered, unless the machine is very busy.
MOMENT = 0.4


@pytest.fixture
def db(host):
    """The address of a workload here that policy protects; the namespace node2, with APP and OTHER, is beyond eth0."""
    state = states(
        build(
            pool("direct"),
            nodes={"node1": "10.10.1.11/24"},
            workloads=[{"name": "db", "node": "node1", "labels": {"app": "db"}}],
            policies=[POLICY],
        )
    )["node1"]
    assert host.run(node, state=state.to_dict())["changed"] is True
    kernel = host.kernel
    kernel.netns_add(BEYOND, "")
    there = host.folder.parent / "netns" / BEYOND
    for words in (
        f"ip link add to-{BEYOND} type veth peer name eth0 netns {there}",
        f"ip link set to-{BEYOND} master eth0 up",
        "ip route add 10.244.200.0/24 via 10.10.1.12",
    ):
        done = kernel.run(words.split())
        assert done.code == 0, (words, done.errors)
    for words in (
        "ip link set lo up",
        "ip address add 10.10.1.12/24 dev eth0",
        *(f"ip address add {address}/32 dev lo" for address in (APP, OTHER)),
        "ip link set eth0 up",
        "ip route add 10.244.0.0/16 via 10.10.1.11",
    ):
        done = kernel.inside(BEYOND).run(words.split())
        assert done.code == 0, (words, done.errors)
    return state.workloads[0].address


def reaches(host, source, target, patience=10):
    """Return whether a TCP connection from an address beyond eth0 is answered within `patience` seconds.

    A refusal is an answer: it shows that the packet has passed.
    """

    def make():
        made = socket.socket()
        made.settimeout(patience)
        made.bind((source, 0))
        return made

    with host.kernel.inside(BEYOND)._there(make) as made:
        try:
            made.connect((target, PORT))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return True


def told(when, *addresses):
    labels = namespaced_labels({"app": "app"}, "default")
    endpoints = tuple(
        Endpoint(
            "WorkloadEndpoint", f"default/app{index}", BEYOND, f"cali{index}", (address,), labels, namespace="default"
        )
        for index, address in enumerate(addresses)
    )
    return {BEYOND: {"collected": when, "endpoints": to_plain(endpoints)}}


def test_a_reported_endpoint_gets_through_and_a_removed_one_does_not(host, db):
    assert not reaches(host, APP, db, MOMENT)
    host.four_times(remote_endpoints, told=told("2026-11-22T06:00:00Z", APP), nodes=NODES)
    assert reaches(host, APP, db) and not reaches(host, OTHER, db, MOMENT)
    # After all rules were flushed, `apply`, the command of the boot unit, writes policy's rules again.
    host.kernel.run(["iptables", "-F"])
    assert command.main(["apply"], host.machine) == 0
    assert reaches(host, APP, db) and not reaches(host, OTHER, db, MOMENT)
    host.four_times(remote_endpoints, told=told("2026-11-22T07:00:00Z", OTHER), nodes=NODES)
    assert reaches(host, OTHER, db) and not reaches(host, APP, db, MOMENT)
    host.four_times(remote_endpoints, told={}, nodes=["node1"])
    assert not reaches(host, OTHER, db, MOMENT)


def test_an_address_that_is_a_workload_s_here_is_its_own(host, db):
    """A local workload's address keeps its own labels, whatever another node reports for it."""
    stranger = host.attach("stranger")
    (address,) = stranger.addresses
    assert command.main(["apply"], host.machine) == 0
    assert host.run(remote_endpoints_info)["endpoints"][0]["addresses"] == [address]
    host.run(remote_endpoints, told=told("2026-11-22T06:00:00Z", address, APP), nodes=NODES)
    assert reaches(host, APP, db)

    def connect():
        made = socket.socket()
        made.settimeout(0.4)
        return made

    with host.kernel.inside("stranger")._there(connect) as made, pytest.raises(TimeoutError):
        made.connect((db, PORT))
