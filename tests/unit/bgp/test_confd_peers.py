# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions compared with the output of Calico's templates for the same resources.

Facts are read from the text of our bird.cfg. DIFFERENCES has the differences and their reasons. Each must exist: one
that is gone fails as well. Filters, communities and the kernel protocol are compared elsewhere.
"""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.bgp import bird_facts, confd_cases
from tests.unit.bgp.confd_cases import Case

FAMILIES = {"ipv4": 4, "ipv6": 6}
#: Facts of a session that must be equal. DIFFERENCES has the reasons why others may differ.
FACTS = (
    "neighbor",
    "as",
    "port",
    "password",
    "ttl_security",
    "hops",
    "next_hop",
    "rr_client",
    "rr_cluster_id",
    "local_as",
    "allow_local_as",
    "graceful_restart_time",
)
#: {a case that cannot be a fleet here: the reason}.
REFUSED = {
    "explicit_peering/local_bgp_peer": "sessions with a node's own workloads are not made",
    "mesh/static-routes-no-ipv4-address": "a node has an IPv4 address",
    "password-deadlock": "the case has no resources",
}
#: {a fact of a session that may differ from Calico's: the reason}.
DIFFERENCES = {
    "passive": "one end of each session within the fleet waits, also where Calico lets both ends call; which one goes "
    "by cluster ids and parity and not by the order of two texts, for BIRD takes 8 calls at once",
    "direct": "a router in the node's own subnet gets no `multihop`: it is one hop away, and so is its BFD",
    "source_address": "with bindMode NodeIP a session with sourceAddress None has the node's address: BIRD 2 listens "
    "by session, and not with one port on all addresses and on one of them",
}

CASES = [case for case in confd_cases.cases() if case.name not in REFUSED]
EVERY = [(case, family) for case in CASES for family in FAMILIES]
each = pytest.mark.parametrize(("case", "family"), EVERY, ids=str)


def ours(case: Case, family: str) -> dict[str, dict[str, t.Any]]:
    sessions = bird_facts.sessions(confd_cases.config(case))
    return {name: _ours(case, facts) for name, facts in sessions.items() if facts["family"] == FAMILIES[family]}


def _ours(case: Case, facts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    own = " ".join(facts["own"])
    hops, symbol = facts.get("multihop"), facts.get("password")
    return {
        **{fact: facts.get(fact) for fact in (*FACTS, "passive", "direct", "source_address")},
        "port": None if facts["port"] == 179 else facts["port"],
        "password": case.secrets[symbol[len("calico_secret_") :]] if symbol else None,
        "ttl_security": facts.get("ttl_security", "off"),
        "hops": True if hops is None else hops,
        "graceful_restart_time": str(facts["graceful_restart_time"]) if "graceful restart time" in own else None,
    }


def theirs(case: Case, family: str) -> dict[str, dict[str, t.Any]]:
    expected = case.expected[family]
    return {
        peer["name"]: {
            **{fact: peer.get(fact) for fact in (*FACTS, "passive", "source_address")},
            "hops": peer["multihop"],
            "local_as": peer.get("local_as") or expected["local_as"],
        }
        for peer in expected["peers"]
    }


def test_all_cases_with_resources_are_here() -> None:
    assert len(confd_cases.cases()) == 88
    assert sum(case.exact for case in CASES) == 65
    assert sum(len(theirs(case, family)) for case, family in EVERY) == 280


@each
def test_the_same_sessions(case: Case, family: str) -> None:
    assert sorted(ours(case, family)) == sorted(theirs(case, family))


@each
def test_each_session_has_the_same_options(case: Case, family: str) -> None:
    found = ours(case, family)
    for name, expected in theirs(case, family).items():
        assert {fact: found[name][fact] for fact in FACTS} == {fact: expected[fact] for fact in FACTS}, name


@each
def test_clients_wait_for_reflectors_and_others_by_parity(case: Case, family: str) -> None:
    own = {"ipv4": confd_cases.bird(case).address, "ipv6": confd_cases.bird(case).address6}[family]
    peers = {peer.name: peer for peer in confd_cases.bird(case).peers}
    reflectors = {
        node["metadata"]["name"]
        for node in case.of_kind("Node")
        if node["spec"].get("bgp", {}).get("routeReflectorClusterID")
    }
    for name, facts in ours(case, family).items():
        other = peers[name].node
        if not other:
            expected = None
        elif (case.node in reflectors) != (other in reflectors):
            expected = None if case.node in reflectors else True
        else:
            expected = _parity(facts["source_address"] or own, facts["neighbor"])
        assert facts["passive"] == expected, name


def _parity(own: str, peer: str) -> t.Optional[bool]:
    one, other = int(ipaddress.ip_address(own)), int(ipaddress.ip_address(peer))
    even = sum(int(digit) for digit in f"{one ^ other:b}") % 2 == 0
    return True if (one < other) == even else None


def test_the_differences_are_still_there() -> None:
    """Each difference in DIFFERENCES exists in at least one session of the cases."""
    pairs = [
        (facts, theirs(case, family)[name]) for case, family in EVERY for name, facts in ours(case, family).items()
    ]
    differ = {"passive" for one, other in pairs if one["passive"] != other["passive"]}
    differ |= {"direct" for one, dummy in pairs if one["direct"]}
    differ |= {"source_address" for one, other in pairs if one["source_address"] != other["source_address"]}
    assert differ == set(DIFFERENCES)


@each
def test_sessions_have_the_same_source_address_unless_the_kernel_cannot_choose_it(case: Case, family: str) -> None:
    found, own = ours(case, family), confd_cases.bird(case)
    for name, expected in theirs(case, family).items():
        address = own.address if family == "ipv4" else own.address6
        bound = own.strict_bind and expected["source_address"] is None
        assert found[name]["source_address"] == (address if bound else expected["source_address"]), name


def test_only_sessions_with_routers_in_the_nodes_subnet_are_direct() -> None:
    """A port on which the BIRD of the node with that address does not listen is another program's."""
    direct = {
        (case.name, name) for case, family in EVERY for name, facts in ours(case, family).items() if facts["direct"]
    }
    assert direct == {
        ("explicit_peering/global", "Global_10_192_0_1_port_166"),
        ("explicit_peering/local-as-global", "Global_10_192_0_1_port_166"),
        ("explicit_peering/global-external", "Global_10_192_0_4"),
        ("explicit_peering/global-external", "Global_10_192_0_4_port_166"),
    }


@each
def test_ways_to_peers(case: Case, family: str) -> None:
    own = bird_facts.routes(confd_cases.config(case), f"calico_reachable{FAMILIES[family]}")
    expected = [route for route in case.expected[family]["static_routes"] if " via " in route]
    assert sorted(own) == sorted(expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_router_id_and_where_sessions_are_taken(case: Case) -> None:
    expected, text = case.expected["ipv4"], confd_cases.config(case)
    assert f"router id {expected['router_id']};" in text.splitlines()
    listen = expected.get("listen", {})
    assert f"  local port {listen.get('port', 179)} as {expected['local_as']};" in text.splitlines()
    assert ("strict bind on;" in text) == ("address" in listen)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_cases_are_still_refused(name: str) -> None:
    case = next(case for case in confd_cases.cases() if case.name == name)
    with pytest.raises(FleetError):
        confd_cases.state(case)
