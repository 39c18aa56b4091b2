# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of all errors of an inventory at once, with the indexes of entries as written and without consequences."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals

from tests.unit.fleet.fleets import hosts, pool


def refused(given: t.Sequence[Host]) -> list[str]:
    inventory, errors = refusals.read(given)
    assert (inventory is None) == bool(errors)
    return [str(error) for error in errors]


def test_nothing() -> None:
    assert refused(hosts()) == []


def test_everything_in_one_list_with_its_own_number_and_line() -> None:
    given = hosts(
        pool(name="a", cidr="10.244.0.0/16"),
        pool(name="b", cidr="10.245.0.0/99"),
        pool(name="c", cidr="10.246.0.0/16"),
        pool(name="d", cidr="no"),
        pool(name="e", cidr="10.246.0.0/17"),
    )
    lines = {f"calico_ip_pools[{n}]": f"all.yml:{n}" for n in range(5)}
    assert refused([dataclasses.replace(host, origins=lines) for host in given]) == [
        "all.yml:1: calico_ip_pools[1].cidr 10.245.0.0/99 is not a range of addresses. Write it as address/prefix "
        "length, for example 10.244.0.0/16.",
        "all.yml:3: calico_ip_pools[3].cidr no is not a range of addresses. Write it as address/prefix length, for "
        "example 10.244.0.0/16.",
        "all.yml:4: calico_ip_pools[4].cidr 10.246.0.0/17 overlaps 10.246.0.0/16 of calico_ip_pools[2] (c). An address "
        "must belong to one pool: choose ranges that do not share addresses.",
    ]


def test_variables_of_the_fleet_and_of_nodes() -> None:
    own = {
        "node1": {"calico_node_address": "10.10.1.0/24"},
        "node2": {"calico_node_labels": ["rack"]},
        "node3": {"calico_node_workloads": [{"name": "x"}, {"name": "Y"}, {"name": "z", "labels": 1}]},
    }
    assert refused(hosts(own=own, workloads=[], underlay_mtu=100, spare_blocks="many")) == [
        "calico_underlay_mtu 100 is out of range. Choose a number from 1280 to 65535.",
        "calico_spare_blocks many is not a whole number. Write for example 1, which is the default.",
        "calico_node_address of node1 10.10.1.0/24 is the network address of its subnet. Write the node's own address "
        "on the underlay with its prefix length, for example 10.10.1.11/24.",
        "calico_node_labels of node2 ['rack'] is not a dictionary. Write for example {rack: a}.",
        "calico_node_workloads[1].name of node3 Y is not a name. Use at most 63 lower case letters, digits, '-' and "
        "'.', beginning and ending with a letter or digit.",
        "calico_node_workloads[2].labels of node3 1 is not a dictionary. Write for example {app: web}.",
    ]


def test_what_follows_from_what_was_taken_out_is_not_told() -> None:
    own = {"node4": {"calico_node_address": "10.10.2.14"}}
    given = hosts(
        pool(name="bad", cidr="10.244.0.0"),
        own=own,
        workloads=[{"name": "w", "node": "node4"}, {"name": "v", "node": "node1", "pool": "bad"}],
    )
    assert refused(given) == [
        "calico_ip_pools[0].cidr 10.244.0.0 is not a range of addresses. Write it as address/prefix length, for "
        "example 10.244.0.0/16.",
        "calico_node_address of node4 10.10.2.14 has no prefix length from /1 to /32. Write the node's own address on "
        "the underlay with its prefix length, for example 10.10.1.11/24.",
    ]
    assert refused(hosts(own=own, workloads=[{"name": "w", "node": "node4"}, {"name": "v", "node": "node5"}])) == [
        "calico_node_address of node4 10.10.2.14 has no prefix length from /1 to /32. Write the node's own address on "
        "the underlay with its prefix length, for example 10.10.1.11/24.",
        "calico_workloads[1].node node5 is not a host of group calico_nodes. Did you mean node3?",
    ]


def test_a_dictionary_goes_as_a_whole() -> None:
    peer = {"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000}
    password = {"secretKeyRef": {"name": "tor", "key": "password"}}
    given = hosts(
        bgp_secrets={"tor": {"password": "x" * 100}},
        bgp_bfd={"minRx": 1},
        bgp_peers=[{**peer, "password": password}, {**peer, "asNumber": "many"}],
    )
    assert refused(given) == [
        "calico_bgp_secrets.tor.password has 100 bytes. TCP MD5 signatures take at most 80: choose a shorter one.",
        "calico_bgp_bfd.minRx 1 is out of range. Choose a number from 10 to 60000.",
        "calico_bgp_peers[1].asNumber many is not an AS number. Write a number from 0 to 4294967295, or two "
        "from 0 to 65535 with a dot between, in quotes.",
    ]


def test_entries_of_a_tuple_are_taken_out_as_those_of_a_list() -> None:
    entries = (pool(name="one", cidr="no"), pool(name="two", cidr="10.245.0.0/99"))
    expected = [
        "calico_ip_pools[0].cidr no is not a range of addresses. Write it as address/prefix length, for example "
        "10.244.0.0/16.",
        "calico_ip_pools[1].cidr 10.245.0.0/99 is not a range of addresses. Write it as address/prefix length, for "
        "example 10.244.0.0/16.",
    ]
    for pools in (list(entries), entries):
        assert refused(hosts(ip_pools=pools)) == expected


def test_metadata_that_is_no_dictionary_is_an_error_like_others() -> None:
    policies = [{"kind": "NetworkPolicy", "metadata": "web"}, {"kind": "NetworkPolicy", "metadata": ["web"]}]
    assert refused(hosts(policies=policies, underlay_mtu=100)) == [
        "calico_underlay_mtu 100 is out of range. Choose a number from 1280 to 65535.",
        "calico_policies[0].metadata web is not a mapping. Write its fields one a line, each with a colon.",
        "calico_policies[1].metadata ['web'] is not a mapping. Write its fields one a line, each with a colon.",
    ]


def test_what_the_inventory_says_is_left_as_it_is() -> None:
    given = hosts(pool(name="a", cidr="no"), pool(name="b"))
    before = [dict(host.variables) for host in given]
    refusals.read(given)
    assert [host.variables for host in given] == before


def test_an_error_that_no_variable_has_is_the_last_one() -> None:
    """An error in a file cannot be taken out of the inventory: it is reported once, and the search ends."""
    document = Document({"kind": "NetworkPolicy", "metadata": "web"}, "policies/web.yml", lambda path: 1)
    inventory, errors = refusals.read(hosts(underlay_mtu=100), [document])
    assert inventory is None
    assert [error.variable for error in errors] == ["calico_underlay_mtu", "NetworkPolicy: metadata"]


def test_at_most_20_errors_are_reported() -> None:
    """Each error takes another reading of the inventory, so the search ends after 20 of them."""
    for count, reported in ((19, 19), (20, 20), (25, 20)):
        given = hosts(workloads=[{"name": f"w{number}", "node": "node1", "labels": 1} for number in range(count)])
        dummy, errors = refusals.read(given)
        assert [error.variable for error in errors] == [
            f"calico_workloads[{number}].labels" for number in range(reported)
        ]


def test_a_fleet_of_one_host_with_an_invalid_address() -> None:
    """No error about a missing address or a fleet without hosts follows from the invalid address of the only host."""
    own = {"node1": {"calico_node_address": "10.10.1.0/24"}}
    given = hosts(nodes={"node1": ""}, own=own, workloads=[], spare_blocks="many")
    assert [error.partition(" is ")[0] for error in refused(given)] == [
        "calico_spare_blocks many",
        "calico_node_address of node1 10.10.1.0/24",
    ]


def test_a_finding_of_an_error() -> None:
    dummy, errors = refusals.read(hosts(underlay_mtu=100))
    assert str(refusals.finding(errors[0])) == (
        "error: calico_underlay_mtu 100 is out of range. Choose a number from 1280 to 65535. [refused]"
    )
