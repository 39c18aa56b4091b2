# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of all errors of an inventory at once, with the indexes of entries as written and without consequences."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import (
    WARNING,
    FindingKind,
    LintFinding,
    bounded,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.fleets import hosts, pool


def refused(given: t.Sequence[Host]) -> list[str]:
    return [str(error) for error in refusals.read(given).errors]


def test_a_valid_inventory_has_no_errors() -> None:
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
        "calico_node_labels of node2 [rack] is not a dictionary. Write for example {rack: a}.",
        "calico_node_workloads[1].name of node3 Y is not a name. Use at most 63 lower case letters, digits, '-' and "
        "'.', beginning and ending with a letter or digit.",
        "calico_node_workloads[2].labels of node3 1 is not a dictionary. Write for example {app: web}.",
    ]


def test_consequences_of_a_refused_entry_are_not_reported() -> None:
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
        "calico_policies[1].metadata [web] is not a mapping. Write its fields one a line, each with a colon.",
    ]


def test_reading_does_not_modify_the_inventory() -> None:
    given = hosts(pool(name="a", cidr="no"), pool(name="b"))
    before = [dict(host.variables) for host in given]
    refusals.read(given)
    assert [host.variables for host in given] == before


def document(content: t.Any, line: int, file: str = "policies/web.yml") -> Document:
    return Document(content, file, lambda path: line + bool(path))


def tier(name: str) -> dict[str, t.Any]:
    return {"apiVersion": "projectcalico.org/v3", "kind": "Tier", "metadata": {"name": name}, "spec": {"order": "x"}}


def test_all_documents_that_are_refused() -> None:
    """A document is taken out by its file and line, so that the errors of the next ones are found as well."""
    documents = [document(tier("red"), 1), document({**tier("blue"), "spec": {}}, 10), document(tier("grey"), 20)]
    read = refusals.read(hosts(underlay_mtu=100), [*documents, document(tier("white"), 1, "other.yml")])
    assert [(error.variable, error.origin) for error in read.errors] == [
        ("calico_underlay_mtu", ""),
        ("Tier red: spec.order", "policies/web.yml:2"),
        ("Tier grey: spec.order", "policies/web.yml:21"),
        ("Tier white: spec.order", "other.yml:2"),
    ]
    assert read.inventory is not None
    assert [one.content["metadata"]["name"] for one in read.left.documents] == ["blue"]


def test_documents_of_a_file_without_lines_are_taken_out_together() -> None:
    documents = [Document(tier(name), "a.json", lambda path: None) for name in ("a", "b")]
    read = refusals.read(hosts(), documents)
    assert [(error.variable, error.origin) for error in read.errors] == [("Tier a: spec.order", "a.json")]
    assert not read.left.documents


def test_all_hosts_without_an_address() -> None:
    """Each host whose address is missing or invalid is named, and the others are judged without them."""
    nodes = {f"node{number}": f"10.10.1.{number}/24" for number in range(1, 6)}
    own = {"node5": {"calico_node_address": "10.10.1.0/24"}}
    given = hosts(nodes={**nodes, "node2": "", "node4": ""}, own=own, workloads=[])
    given = [
        dataclasses.replace(host, variables={k: v for k, v in host.variables.items() if v != ""}) for host in given
    ]
    read = refusals.read(given)
    missing = (
        "calico_node_address of {0} is not set. Set it in host_vars/{0}.yml, for example to 10.10.1.11/24; a node that "
        "has IPv6 alone has calico_node_address_ipv6 instead."
    )
    assert [str(error) for error in read.errors] == [
        missing.format("node2"),
        missing.format("node4"),
        "calico_node_address of node5 10.10.1.0/24 is the network address of its subnet. Write the node's own address "
        "on the underlay with its prefix length, for example 10.10.1.11/24.",
    ]
    assert read.inventory is not None
    assert list(read.inventory.nodes) == ["node1", "node3"]


def test_the_addresses_of_many_hosts_take_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {f"node{number}": "" for number in range(300)}
    monkeypatch.setattr(refusals, "MOST", 3)
    read = refusals.read(hosts(nodes={**nodes, "zone": "10.10.1.1/24"}, workloads=[]))
    assert (len(read.errors), read.complete) == (300, True)
    assert read.inventory is not None
    assert list(read.inventory.nodes) == ["zone"]


def test_no_host_has_an_address() -> None:
    """The rest is read with an address that stands in, but no rule is asked about a fleet without hosts."""
    read = refusals.read(hosts(nodes={"node1": "", "node2": ""}, workloads=[{"name": "w", "node": "node9"}]))
    assert [error.variable for error in read.errors] == [
        "calico_node_address of node1",
        "calico_node_address of node2",
        "calico_workloads[0].node",
    ]
    assert (read.inventory, read.complete) == (None, True)


def test_known_errors_cause_no_further_errors() -> None:
    """A variable that cannot be evaluated, and a file that cannot be read, cause no further errors."""
    known = [
        FleetError("calico_node_address of node2", None, "is a template that cannot be evaluated.", "Correct it."),
        FleetError("calico_policy_files[0]", "x", "matches no file.", "Correct it."),
    ]
    policy = {"kind": "GlobalNetworkPolicy", "name": "p", "tier": "of-the-file", "selector": "all()"}
    read = refusals.read(
        hosts(nodes={"node1": "10.10.1.1/24", "node2": ""}, policies=[policy], workloads=[]), (), known
    )
    assert list(read.errors) == known
    assert read.inventory is not None
    assert list(read.inventory.nodes) == ["node1"]


def test_a_misspelt_variable_counts_as_the_one_that_it_was_meant_for() -> None:
    nodes = {"node1": "10.10.1.1/24", "node2": ""}
    given = hosts(nodes=nodes, own={"node2": {"calico_node_adress": "10.10.1.2/24"}}, workloads=[])
    given = [
        dataclasses.replace(host, variables={k: v for k, v in host.variables.items() if v != ""}) for host in given
    ]
    read = refusals.read(given)
    assert [str(error) for error in read.errors] == [
        "calico_node_adress is not a variable of this collection. Did you mean calico_node_address?"
    ]
    assert read.inventory is not None
    assert list(read.inventory.nodes) == ["node1", "node2"]


def test_pools_that_are_missing_are_replaced() -> None:
    given = [
        dataclasses.replace(host, variables={k: v for k, v in host.variables.items() if k != "calico_ip_pools"})
        for host in hosts(underlay_mtu=100)
    ]
    assert [error.partition(" is ")[0] for error in refused(given)] == ["calico_underlay_mtu 100", "calico_ip_pools"]


def test_the_search_ends_after_most_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends before its time says so."""
    monkeypatch.setattr(refusals, "MOST", 20)
    for count, reported in ((19, 19), (20, 20), (25, 20)):
        given = hosts(workloads=[{"name": f"w{number}", "node": "node1", "labels": 1} for number in range(count)])
        read = refusals.read(given)
        assert [error.variable for error in read.errors] == [
            f"calico_workloads[{number}].labels" for number in range(reported)
        ]
        assert read.complete == (count < 20)


def test_at_most_20_findings_of_a_kind() -> None:
    given = hosts(
        workloads=[{"name": f"w{number}", "node": "node1", "labels": 1} for number in range(25)],
        own={f"node{number}": {"calico_node_labels": 1} for number in range(1, 4)},
    )
    found = [refusals.finding(error) for error in refusals.read(given).errors]
    shown, more = bounded([*found, *[LintFinding(WARNING, "single-reflector", "group x", "", "is.", "Do.")] * 21])
    assert len(shown) == 20 + 3 + 20
    assert more == {
        FindingKind("error", "refused", "calico_workloads[].labels"): 5,
        FindingKind("warning", "single-reflector", ""): 1,
    }
    assert LintFinding("error", "refused", "NetworkPolicy web: spec.tier", "", "", "").kind.subject == "NetworkPolicy"
    assert (
        LintFinding("error", "refused", "calico_node_address of n1", "", "", "").kind.subject == "calico_node_address"
    )


def test_findings_in_the_rest_of_an_inventory() -> None:
    """A finding has the indexes and the line as written, and one about what was taken out is left out."""
    lines = {"calico_ip_pools[0]": "all.yml:1", "calico_ip_pools[1]": "all.yml:2"}
    given = hosts(pool(name="wrong", cidr="no"), pool(name="right", cidr="10.245.0.0/16"), workloads=[])
    read = refusals.read([dataclasses.replace(host, origins=lines) for host in given])
    found = LintFinding(
        WARNING, "rule", "calico_ip_pools[0].cidr", "all.yml:1", "calico_ip_pools[0].cidr is odd.", "Do."
    )
    assert read.as_written(found) == LintFinding(
        WARNING, "rule", "calico_ip_pools[1].cidr", "all.yml:2", "calico_ip_pools[1].cidr is odd.", "Do."
    )
    assert read.as_written(dataclasses.replace(found, what="calico_ip_pools[0].cidr is not wrong.")) is None
    assert refusals.read(hosts()).as_written(found) is found


def test_a_fleet_of_one_host_with_an_invalid_address() -> None:
    """No error about a missing address or a fleet without hosts follows from the invalid address of the only host."""
    own = {"node1": {"calico_node_address": "10.10.1.0/24"}}
    given = hosts(nodes={"node1": ""}, own=own, workloads=[], spare_blocks="many")
    assert [error.partition(" is ")[0] for error in refused(given)] == [
        "calico_spare_blocks many",
        "calico_node_address of node1 10.10.1.0/24",
    ]


def test_a_finding_of_an_error() -> None:
    errors = refusals.read(hosts(underlay_mtu=100)).errors
    assert str(refusals.finding(errors[0])) == (
        "error: calico_underlay_mtu 100 is out of range. Choose a number from 1280 to 65535. [refused]"
    )


def test_one_workload_has_one_index_in_all_messages() -> None:
    """Each host has a list of its own, and an entry before the one that is meant was refused in one of them."""
    own = {
        "node1": {"calico_node_workloads": [{"name": "Bad"}, {"name": "web"}]},
        "node2": {"calico_node_workloads": [{"name": "web"}, {"name": "Worse"}, {"name": "db", "address": "10.0.0.1"}]},
        "node3": {"calico_node_workloads": [{"name": "sql", "address": "10.0.0.1"}]},
    }
    assert [text.partition(". ")[0] for text in refused(hosts(own=own, workloads=[]))] == [
        "calico_node_workloads[0].name of node1 Bad is not a name",
        "calico_node_workloads[0].name of node2 web is also the name of calico_node_workloads[1] of node1",
        "calico_node_workloads[1].name of node2 Worse is not a name",
        "calico_node_workloads[0].address of node3 10.0.0.1 is also the address of calico_node_workloads[2] of node2",
    ]
