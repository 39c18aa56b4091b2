# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the readers of answers of nodes: what they accept, their limits, and the texts about parts left out."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import change
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import (
    node_info,
    results,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import endpoints, left_out, limits
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
    ReportUpdate,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import with_state

POOL = {"name": "p", "cidr": "10.0.0.0/8", "block_size": 26, "encapsulation": "None"}
PEER = {"name": "tor", "address": "10.0.0.1", "as_number": 65000, "kind": "external"}
BIRD = {"router_id": "10.0.0.2", "address": "10.0.0.2", "as_number": 64512, "subnet": "10.0.0.0/24"}
ROUTE = {"destination": "fd00::/122", "gateway": ""}
WHEN = "2026-11-22T06:00:00Z"


def peer(**fields: str) -> dict[str, t.Any]:
    """Return {"bird": ...}, a part of a state, with one BGP session that has these fields in place of PEER's."""
    return {"bird": {**BIRD, "peers": [{**PEER, **fields}]}}


def endpoint(*addresses: str, name: str = "web", node: str = "node2") -> Endpoint:
    labels = namespaced_labels({"app": name}, "default")
    ports = (DefinedPort("http", "tcp", 80),)
    return Endpoint(
        "WorkloadEndpoint", f"default/{name}", node, f"cali{name}", addresses, labels, ("open",), ports, "default"
    )


def test_an_honest_report_of_endpoints_is_accepted_unchanged() -> None:
    told = (endpoint("10.244.2.2", "fd00::2"), endpoint("10.244.2.70", name="x"))
    blocks = endpoints.OwnBlocks(["10.244.2.0/26", "10.244.2.64/26", "fd00::/122"])
    assert endpoints.read_endpoints("node2", json.loads(json.dumps(to_plain(told))), blocks) == (told, ())


def test_the_first_endpoint_of_a_name_address_or_interface_counts() -> None:
    web, other = endpoint("10.244.2.2"), endpoint("10.244.2.3", name="x")
    told = to_plain(
        (web, web, dataclasses.replace(other, interface="caliweb"), endpoint("10.244.2.2", name="y"), other)
    )
    found, odd = endpoints.read_endpoints("node2", told, None)
    assert found == (web, other)
    assert left_out.sentences(odd) == [
        "node2: workload default/web is left out: it stands there twice.",
        "node2: workload default/x is left out: another workload of the node has caliweb.",
        "node2: workload default/y is left out: another workload of the node has 10.244.2.2.",
    ]


@pytest.mark.parametrize(
    "change, why",
    [
        ({"kind": "HostEndpoint"}, "its kind is HostEndpoint, and nodes tell of workloads alone."),
        ({"node": "node1"}, "it is on node1, and a node speaks for itself alone."),
        ({"interface": "a b"}, "its interface a b is not the name of an interface."),
        ({"namespace": "a b"}, "its namespace a b is not a name that a namespace can have."),
        ({"name": "other/web"}, "its name is not its namespace, a '/' and the name of a workload."),
        ({"name": None}, "its name is not a text of at most 231 characters."),
        ({"addresses": []}, "its addresses are not a list of 1 to 16."),
        ({"addresses": ["10.244.2.2/32"]}, "10.244.2.2/32 is not a single address."),
        ({"addresses": ["10.244.9.2"]}, "its address 10.244.9.2 lies in none of the node's blocks."),
        ({"addresses": ["10.244.2.2"] * 2}, "it has an address twice."),
        ({"labels": {"a": "b c"}}, "b c is not a label's value, as that of a."),
        ({"labels": {str(n): "" for n in range(65)}}, "its labels are not a table of at most 64."),
        ({"profiles": ["A"]}, "A is not the name of a profile."),
        ({"profiles": ["a"] * 17}, "its profiles are not a list of at most 16."),
        ({"ports": [{"name": "http"}]}, "one of its ports is not a name, a protocol and a port."),
        ({"ports": [{"name": "H", "protocol": "tcp", "port": 1}]}, "H is not the name of a port."),
        ({"ports": [{"name": "h", "protocol": "gre", "port": 1}]}, "gre is not a protocol that has ports."),
        ({"ports": [{"name": "h", "protocol": "tcp", "port": 65536}]}, "65536 is not a port."),
        ({"a\nb": 1}, "this release does not know its field 'a\\nb'."),
    ],
)
def test_an_invalid_endpoint_is_left_out_with_its_reason(change: dict[str, t.Any], why: str) -> None:
    told = {**to_plain(endpoint("10.244.2.2")), **change}
    good = endpoint("10.244.2.3", name="good")
    found, odd = endpoints.read_endpoints("node2", [told, to_plain(good)], endpoints.OwnBlocks(["10.244.2.0/26"]))
    assert found == (good,)
    assert [(one.node, one.why) for one in odd] == [("node2", why)]


@pytest.mark.parametrize(
    "data, words",
    [
        ("x", "node2: the list of its workloads is left out: it is x."),
        ({}, "node2: the list of its workloads is left out: it is a table."),
        ([7], "node2: workload number 1 is left out: it is 7."),
        (
            [{"name": "\x1b]0;x\x07"}],
            "node2: workload '\\x1b]0;x\\x07' is left out: its kind is None, and nodes tell of workloads alone.",
        ),
    ],
)
def test_an_entry_that_is_no_workload_is_named_by_its_place(data: t.Any, words: str) -> None:
    found, odd = endpoints.read_endpoints("node2", data, None)
    assert (found, left_out.sentences(odd)) == ((), [words])


def test_a_few_are_named_and_the_others_counted() -> None:
    dummy, odd = endpoints.read_endpoints("node2", [None] * 20, None)
    assert len(left_out.sentences(odd)) == limits.NAMED + 1
    assert left_out.sentences(odd)[-1] == "node2: 12 more parts of its answer are left out."


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_shown_value_is_short_and_printable(value: t.Any) -> None:
    text = typed_json.shown(value)
    assert text.isprintable() and 0 < len(text) <= 80


@pytest.mark.parametrize(
    ("value", "text"), [("a b", "a b"), (" a", "' a'"), ("a ", "'a '"), ("", "''"), ("a\nb", "'a\\nb'"), ("é", "é")]
)
def test_text_is_quoted_where_its_ends_could_not_be_seen(value: str, text: str) -> None:
    assert typed_json.shown(value) == text


@given(st.ip_addresses())
def test_an_address_lies_in_the_blocks_that_it_lies_in(address: t.Any) -> None:
    bits = address.max_prefixlen
    blocks = endpoints.OwnBlocks([f"{address}/{bits}", "10.0.0.0/8", "fd00::/8"])
    assert (endpoints.single_address(str(address)) is not None) != (getattr(address, "ipv4_mapped", None) is not None)
    found = endpoints.single_address(str(address))
    assert found is None or found in blocks


# --- what a node accepts from others --------------------------------------------------------------------------------


def test_endpoints_outside_of_the_blocks_that_the_node_has_by_now_go() -> None:
    web, old = endpoint("10.244.2.2"), endpoint("10.244.3.2", name="old")
    known = RemoteEndpoints({"node2": Collected(WHEN, (old, web), ("10.244.2.0/26", "10.244.3.0/26"))})
    again = known.updated({"node2": ReportUpdate("later", None, ("10.244.2.0/26",))}, ["node2"])
    assert again == RemoteEndpoints({"node2": Collected("later", (web,), ("10.244.2.0/26",))})


def test_a_report_of_an_older_release_is_checked_against_the_state() -> None:
    state = with_state(
        nodes=(FleetMember("node3", "10.10.1.13/24", 64512),),
        bird_routes=(
            BirdRoute("10.244.3.0/26", "10.10.1.13", node="node3"),
            BirdRoute("10.244.2.0/26", "x", node="node2"),
        ),
    )
    told = {
        "own": endpoint("10.244.1.2", name="own"),
        "spare": endpoint("10.244.1.9", name="spare"),
        "host": endpoint("10.10.1.13", name="host"),
        "outside": endpoint("8.8.8.8", name="outside"),
        "other": endpoint("10.244.3.2", name="other"),
        "range": endpoint("0.0.0.0/0", name="range"),
        "good": endpoint("10.244.2.2", name="good"),
        "opened": endpoint("10.244.9.2", name="opened"),
    }
    remote = RemoteEndpoints({"node2": Collected(WHEN, tuple(told.values()))})
    found, odd = remote.accepted_by(state)
    assert found.nodes["node2"].endpoints == (told["good"], told["opened"])
    assert [str(one).partition(" is left out: ")[2] for one in odd] == [
        "its address 10.244.1.2 lies in a block of node1.",
        "its address 10.244.1.9 lies in a block of node1.",
        "its address 10.10.1.13 is that of a node.",
        "its address 8.8.8.8 lies in no pool.",
        "its address 10.244.3.2 lies in a block of another node.",
        "0.0.0.0/0 is not a single address.",
    ]
    nothing, odd = remote.accepted_by(None)
    assert nothing.nodes["node2"].endpoints == () and len(odd) == len(told)
    checked = RemoteEndpoints({"node2": Collected(WHEN, (told["good"],), ("10.244.2.0/26",))})
    assert checked.accepted_by(None) == checked.accepted_by(state) == (checked, ())


# --- results --------------------------------------------------------------------------------------------------------


def test_a_result_that_cannot_be_read_is_that_of_a_task_that_failed() -> None:
    why = "its answer cannot be used: sessions_reset is x, not a whole number from 0 to 131072. "
    why += "Look at the node: its modules do not answer so."
    assert results.of_result({"changed": True, "sessions_reset": "x"}, results.PLAN) == {"failed": True, "msg": why}
    assert results.of_result({"failed": "x"}, results.PLAN)["failed"] is True
    down = {"unreachable": True, "changed": False, "msg": "no route", "sessions_reset": "x"}
    assert results.of_result(down, results.PLAN) == {"unreachable": True, "changed": False, "msg": "no route"}
    long = results.of_result({"failed": True, "msg": "x" * 10_000_000}, None)
    assert len(long["msg"]) == typed_json.TEXT + 3
    assert results.of_result({"failed": True, "msg": ["x"]}, None)["msg"] == ""


def test_every_change_that_a_plan_can_have_is_read() -> None:
    assert set(results.ACTIONS) == set(change.ACTIONS)
    plan = {"changes": [{"kind": "route", "action": action, "by": "node"} for action in change.ACTIONS]}
    assert results.of_result(plan, results.PLAN) == plan


# --- what a node has ------------------------------------------------------------------------------------------------


def test_an_honest_answer_is_read_as_it_is() -> None:
    state = with_state(policy=None)
    answer = {
        "state": json.loads(json.dumps(state.to_dict())),
        "ipam": {"allocated": {"10.244.1.2": "x", "fd00::2": "y"}, "opened": ["10.244.1.8/29"]},
        "passwords_changed": ["tor:password"],
    }
    assert node_info.state("node1", answer) == state
    assert node_info.journal("node1", answer) == (node_info.Journal(("10.244.1.2", "fd00::2"), ("10.244.1.8/29",)), ())
    assert node_info.changed_passwords(answer) == ("tor:password",)
    assert node_info.state("node1", {"state": None}) is None
    assert node_info.journal("node1", {}) == (node_info.Journal(), ())


@pytest.mark.parametrize(
    "change, words",
    [
        ({"version": 2}, "it is NodeState version 2 is not 1, the one that this release reads"),
        ({"node": "node2"}, "node is node2, another one"),
        ({"phase": "x"}, "phase is x, no phase"),
        ({"underlay_mtu": 1}, "underlay_mtu is 1, no MTU"),
        ({"underlay_mtu": True}, "it is true is not of the type int"),
        ({"pools": [{**POOL, "encapsulation": "GRE"}]}, "pools p encapsulation is GRE, none that there is"),
        ({"pools": [{**POOL, "cidr": "x"}]}, "it is pools has x, which is not a CIDR without host bits"),
        ({"pools": [POOL, POOL]}, "pools is more than 1024, or two of one name"),
        ({"ipam": {"generation": -1}}, "ipam.generation is -1, no count"),
        ({"ipam": {"tunnels": {"gre": "10.0.0.1"}}}, "ipam.tunnels is of a kind that there is not"),
        ({"ipam": {"tunnels": {"ipip": "fd00::1"}}}, "ipam.tunnels ipip is fd00::1, no IPv4 address"),
        ({"ipam": {"tunnels": {"vxlan": "::ffff:10.0.0.1"}}}, "ipam.tunnels vxlan is ::ffff:10.0.0.1, no IPv4 address"),
        ({"ipam": {"tunnels": {"vxlan6": "10.0.0.1"}}}, "ipam.tunnels vxlan6 is 10.0.0.1, no IPv6 address"),
        ({"pools": 7}, "it is 7 is not a list"),
        ({"bird_routes": [{"destination": "FD00::/122", "gateway": ""}]}, "bird_routes is FD00::/122, no block"),
        ({"bird_routes": [{**ROUTE, "node": "a\nb"}]}, "bird_routes node is 'a\\nb', no name of a host"),
        ({"routes": [{"destination": "x", "gateway": "10.0.0.1"}]}, "routes is x, no block"),
        ({"bird": {**BIRD, "blocks": ["10.0.0.0/26", "fd00::1/122"]}}, "bird.blocks is fd00::1/122, no block"),
        ({"bird": {**BIRD, "blocks": ["1" * 99]}}, f"bird.blocks is {'1' * 77}..., no block"),
        ({"bird": {**BIRD, "blocks": ["10.0.0.0/26"] * 131_073}}, "bird.blocks is more than 131072"),
        (peer(address="fd00::1/64"), "bird.peers address is fd00::1/64, no single address"),
        (peer(kind="x"), "bird.peers kind is x, none that there is"),
        (peer(node="\x1b[2J"), "bird.peers node is '\\x1b[2J', no name of a host"),
        ({"bird": {**BIRD, "peers": [PEER] * 16_385}}, "bird.peers is more than 16384"),
    ],
)  # fmt: skip
def test_an_unusable_state_is_refused_with_its_field(change: dict[str, t.Any], words: str) -> None:
    data = {**json.loads(json.dumps(with_state().to_dict())), **change}
    with pytest.raises(typed_json.Unreadable) as caught:
        node_info.state("node1", {"state": data})
    assert str(caught.value) == words


def test_invalid_entries_of_a_journal_are_left_out() -> None:
    answer = {"ipam": {"allocated": ["10.244.1.2", "0.0.0.0/0", 7], "opened": ["10.244.1.9/29", "10.244.1.8/29"]}}
    journal, odd = node_info.journal("node1", answer)
    assert journal == node_info.Journal(("10.244.1.2",), ("10.244.1.8/29",))
    assert left_out.sentences(odd) == [
        "node1: an entry of allocated in its journal is left out: it is 7, not a text.",
        "node1: address 0.0.0.0/0 of its journal is left out: it is no single address.",
        "node1: block 10.244.1.9/29 of its journal is left out: it is no block.",
    ]
    journal, odd = node_info.journal("node1", {"ipam": 7})
    assert left_out.sentences(odd) == ["node1: its journal of addresses is left out: it is 7."]


def test_generations_are_read_oldest_first() -> None:
    entry = {"when": "x", "who": "y", "plan": "z", "phase": "converge", "digest": "d"}
    found = node_info.generations({"generations": [{"n": 2, **entry}, {"n": 1, **entry}]})
    assert [one["n"] for one in found] == [1, 2]
    with pytest.raises(typed_json.Unreadable) as caught:
        node_info.generations({"generations": [{**entry, "n": "1"}]})
    assert str(caught.value) == "generations[0].n is 1, not a whole number from 0 to 9007199254740992"
