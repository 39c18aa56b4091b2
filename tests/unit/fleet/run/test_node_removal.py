# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that a fleet can do without a node, and the node's places in the inventory."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import node_removal
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.fleets import LAB, hosts, workload

RR1, RR2 = {"rr1": "10.10.1.2/24"}, {"rr2": "10.10.2.2/24"}
PEER = {"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "node": "node1"}
ENDPOINT = {"apiVersion": "x", "kind": "HostEndpoint", "metadata": {"name": "h"}, "spec": {"node": "node1"}}


def removal(name: str, **given: t.Any) -> node_removal.Removal:
    return node_removal.of(hosts(**{"workloads": [], **given}), name)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "nodes1",
            {},
            "node nodes1 is no host of groups calico_nodes and calico_rr. Did you mean node1? One that was deleted "
            "there already is forgotten by the others with the next playbooks/site.yml.",
        ),
        (
            "node1",
            {"nodes": {"node1": LAB["node1"]}, "reflectors": RR1},
            "node node1 is the last one in calico_nodes. To take down the whole fleet, use playbooks/teardown.yml.",
        ),
        (
            "rr1",
            {"reflectors": RR1},
            "node rr1 is the only route reflector: without it no node hears of another's blocks. First put another "
            "host into calico_rr, or return to the mesh, with playbooks/switch_topology.yml.",
        ),
        (
            "node1",
            {"workloads": [workload("w", "node2"), workload("v", "node1")]},
            "calico_workloads[1].node node1 is the node that is to go. Give it to another node or delete it.",
        ),
        (
            "node1",
            {"bgp_peers": [PEER]},
            "calico_bgp_peers[0].node node1 is the node that is to go. Give it to another node or delete it.",
        ),
        (
            "node1",
            {"policies": [ENDPOINT]},
            "calico_policies[0].node node1 is the node that is to go. Give it to another node or delete it.",
        ),
    ],
)
def test_a_node_that_others_need_is_not_removed(name: str, given: dict[str, t.Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        removal(name, **given)
    assert str(caught.value) == message


@pytest.mark.parametrize("spec", ["node1", ["node1"], None, 7])
def test_an_entry_that_is_no_resource_is_on_no_node(spec: t.Any) -> None:
    """An entry whose spec is no dictionary is placed on no node; reading the fleet reports what is wrong with it."""
    found = removal("node1", policies=[{**ENDPOINT, "spec": spec}, None, "node1"])
    assert [host.name for host in found.others] == ["node2", "node3", "node4"]


def test_all_other_nodes_and_reflectors_stay_after_a_removal() -> None:
    assert [host.name for host in removal("node2").others] == ["node1", "node3", "node4"]
    found = removal("rr2", reflectors={**RR1, **RR2})
    assert [host.name for host in found.others if host.reflector] == ["rr1"]


@pytest.mark.parametrize(
    ("origins", "places"),
    [
        ({}, ()),
        ({"calico_node_address": "/i/hosts.yml:7", "calico_ip_pools": "/i/group_vars/all.yml:1"}, ("/i/hosts.yml:7",)),
        ({"calico_node_address_ipv6": "/i/hosts.yml:8"}, ("/i/hosts.yml:8",)),
        ({"calico_node_address": "/i/host_vars/node1.yml:3"}, ("/i/host_vars/node1.yml",)),
        (
            {"calico_node_address": "/i/hosts.yml:7", "calico_node_labels": "/i/host_vars/node1/labels.yml:1"},
            ("/i/hosts.yml:7", "/i/host_vars/node1/labels.yml"),
        ),
        ({"calico_node_labels": "/i/host_vars/node10.yml:1"}, ()),
    ],
)
def test_places_of_a_node_are_the_files_of_its_own_variables(origins: dict[str, str], places: tuple[str, ...]) -> None:
    given = hosts(workloads=[])
    given[0] = dataclasses.replace(given[0], origins=origins)
    assert node_removal.of(given, "node1").places == places
