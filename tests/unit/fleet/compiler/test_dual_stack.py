# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of fleets with IPv6, beside IPv4 or alone.

golden/dual-stack has whole states of such a fleet. The property tests of the compiler and of changes have random ones.
"""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy

from tests.unit.fleet.fleets import ADDRESSES6, WORKLOADS, build, hosts, pool, states, workload

SIX = "fd00:10:244::/64"


def dual(*workloads: t.Mapping[str, t.Any], mode6: str = "direct", **rest: t.Any) -> Fleet:
    pools = rest.pop("pools", [pool("ipip"), pool(mode6, "six", SIX, **rest.pop("six", {}))])
    return build(*pools, workloads=workloads or WORKLOADS, own=ADDRESSES6, **rest)


def addresses(fleet: Fleet, name: str) -> tuple[str, ...]:
    return next(w.addresses for state in states(fleet).values() for w in state.workloads if w.name == name)


def test_a_workload_has_what_its_families_say() -> None:
    fleet = dual(
        workload("both", "node1"),
        workload("four", "node1", ip_families=["IPv4"]),
        workload("six", "node1", ip_families=["IPv6"], address_ipv6="fd00:10:244::77/128"),
        workload("chosen", "node1", pool_ipv6="six", pool="default", address="10.244.9.9"),
    )
    assert [":" in address for address in addresses(fleet, "both")] == [False, True]
    assert [":" in address for address in addresses(fleet, "four")] == [False]
    assert addresses(fleet, "six") == ("fd00:10:244::77",)
    assert addresses(fleet, "chosen")[0] == "10.244.9.9"


def test_a_fleet_of_ipv6_pools_alone_has_workloads_of_ipv6_alone() -> None:
    fleet = dual(pools=[pool("vxlan", "six", SIX)])
    state = states(fleet)["node1"]
    assert [(w.address, w.pool, w.pool6, w.mtu) for w in state.workloads] == [("", "", "six", 1430)]
    assert [device.name for device in state.devices] == ["vxlan-v6.calico"]
    assert all(table.family == 6 for table in state.iptables if table.name != "raw")


ALONE = {name: {**own, "calico_node_address": None} for name, own in ADDRESSES6.items()}


@pytest.mark.parametrize("bgp", [True, False])
def test_a_fleet_without_any_ipv4_address(bgp: bool) -> None:
    fleet = build(pool("vxlan", "six", SIX), own=ALONE, bgp_enabled=bgp)
    for name, state in states(fleet).items():
        assert (state.address, state.address6) == ("", ADDRESSES6[name]["calico_node_address_ipv6"])
        assert [device.name for device in state.devices] == ["vxlan-v6.calico"]
        assert [":" in address for w in state.workloads for address in w.addresses] == [True]
        ways = state.bird_routes if bgp else [route for route in state.routes if route.gateway]
        others = [other for other in fleet.nodes if other != name]
        assert {way.gateway for way in ways} == {naming.vtep_link_local(other) for other in others}
        if state.bird:
            assert {peer.address for peer in state.bird.peers} == {
                other.address6 for other in fleet.nodes.values() if other.name != name
            }
            assert state.bird.router_id == naming.router_id(name)


def test_a_node_comes_to_have_ipv6_alone() -> None:
    before = dual()
    alone = {"calico_node_labels": {"alone": "yes"}, "calico_node_address": None}
    own = {**ADDRESSES6, "node4": {**ADDRESSES6["node4"], **alone}}
    pools = [pool("ipip", nodeSelector="!has(alone)"), pool("direct", "six", SIX)]
    after = build(*pools, own=own, previous=before.allocation)
    state = states(after)["node4"]
    assert [w.addresses for w in state.workloads] == [addresses(before, "w4")[1:]]
    assert not any("." in route.destination for route in (*state.bird_routes, *state.routes))
    others = states(after)["node1"].bird_routes
    assert [route.next_hop for route in others if route.node == "node4"] == ["fd00:10:10:2::14"]
    for name in ("node1", "node2", "node3"):
        assert addresses(after, f"w{name[-1]}") == addresses(before, f"w{name[-1]}")


def test_ipv6_joins_a_fleet_and_leaves_it_without_moving_anything_of_ipv4() -> None:
    before = build(pool("ipip"))
    text = lockfile.dump(before.allocation)
    assert "workloads6" not in text
    joined = dual(previous=lockfile.load(text))
    retired = {"disabled": True, "nodeSelector": "!all()"}
    left = dual(six=retired, previous=joined.allocation)
    for name, part in before.allocation.nodes.items():
        for later in (joined, left):
            now = later.allocation.nodes[name]
            assert now.workloads == part.workloads
            assert now.tunnels["ipip"] == part.tunnels["ipip"]
            assert set(part.blocks) <= set(now.blocks)
        assert len(joined.allocation.nodes[name].workloads6) == 1
        assert left.allocation.nodes[name].workloads6 == {}
    assert build(pool("ipip"), previous=left.allocation).allocation.nodes == before.allocation.nodes


def test_a_disabled_ipv6_pool_keeps_the_addresses_that_it_gave() -> None:
    before = dual()
    after = dual(six={"disabled": True}, previous=before.allocation)
    assert {name: part.workloads6 for name, part in after.allocation.nodes.items()} == {
        name: part.workloads6 for name, part in before.allocation.nodes.items()
    }


def test_an_ipv4_fleet_whose_nodes_have_ipv6_addresses_routes_none_of_it() -> None:
    plain, named = (states(build(pool("vxlan"), own=own))["node1"] for own in ({}, ADDRESSES6))
    assert (named.address6, plain.address6) == ("fd00:10:10:1::11/64", "")
    for part in ("ipam", "devices", "neighbors", "fdb", "workloads", "routes", "sysctls", "ipsets", "iptables"):
        assert getattr(named, part) == getattr(plain, part)


@pytest.mark.parametrize("mode", ["vxlan", "vxlan-crosssubnet"])
def test_without_bgp_the_routes_go_to_the_link_local_addresses_of_the_vteps(mode: str) -> None:
    fleet = dual(pools=[pool("vxlan"), pool(mode, "six", SIX)], bgp_enabled=False)
    state = states(fleet)["node1"]
    vteps = {neighbor.address: neighbor.mac for neighbor in state.neighbors if neighbor.device == "vxlan-v6.calico"}
    assert vteps == {naming.vtep_link_local(f"node{n}"): naming.vtep_mac(f"node{n}") for n in (2, 3, 4)}
    ways = {(r.device, r.gateway) for r in state.routes if r.gateway and ":" in r.destination}
    tunnelled = {("vxlan-v6.calico", naming.vtep_link_local(f"node{n}")) for n in (2, 3, 4)}
    near = ("vxlan-v6.calico", naming.vtep_link_local("node2"))
    assert ways == (tunnelled if mode == "vxlan" else tunnelled - {near} | {("{underlay}", "fd00:10:10:1::12")})


def test_policy_knows_workloads_by_the_addresses_of_both_versions() -> None:
    policies = [
        {
            "kind": "NetworkPolicy",
            "name": "web",
            "selector": "app == 'web'",
            "ingress": [{"action": "Allow", "source": {"selector": "app == 'client'"}}],
        }
    ]
    fleet = dual(
        workload("web", "node1", labels={"app": "web"}),
        workload("client", "node3", labels={"app": "client"}),
        policies=policies,
    )
    state = with_policy(states(fleet)["node1"])
    client = addresses(fleet, "client")
    for version, address in ((4, client[0]), (6, client[1])):
        sets = {ipset.name: ipset.members for ipset in state.ipsets if ipset.name.startswith(f"cali{version}0s")}
        assert list(sets.values()) == [(address,)]
        table = next(found for found in state.iptables if (found.name, found.family) == ("filter", version))
        assert any(f"--match-set {name} src" in rule for name in sets for r in table.chains.values() for rule in r)
        assert any(chain.startswith("cali-tw-") for chain in table.chains)


def test_reservations_of_both_versions() -> None:
    fleet = dual(ip_reservations=["fd00:10:244::/65", "10.244.0.0/28"])
    assert fleet.settings.ip_reservations == ("10.244.0.0/28", "fd00:10:244::/65")
    reserved = ipaddress.IPv6Network("fd00:10:244::/65")
    for part in fleet.allocation.nodes.values():
        assert all(ipaddress.IPv6Address(address) not in reserved for address in part.workloads6.values())


@pytest.mark.parametrize(
    ("fields", "automatic"),
    [
        ({}, True),
        ({"disabled": True}, True),
        ({"assignmentMode": "Manual"}, False),
        ({"allowedUses": ["Tunnel"]}, False),
        ({"nodeSelector": "!all()"}, False),
    ],
)
def test_a_workload_gets_ipv6_only_from_a_pool_that_gives_addresses_by_itself(
    fields: dict[str, t.Any], automatic: bool
) -> None:
    """A pool of IPv6, even a disabled one, gives its family to workloads that ask for none.

    A pool that is manual, only for tunnels, or selects no node does not.
    """
    given = hosts(pool("ipip"), pool("direct", "six", SIX, **fields), own=ADDRESSES6)
    assert {w.families for w in inventory.read(given).workloads} == {(4, 6) if automatic else (4,)}


@pytest.mark.parametrize(
    ("field", "written", "address"),
    [("address", "10.244.9.9/32", "10.244.9.9"), ("address_ipv6", "FD00:10:244::0077/128", "fd00:10:244::77")],
)
def test_an_address_may_have_the_prefix_length_of_one_address(field: str, written: str, address: str) -> None:
    """An address with /32 or /128 is read as the address, in its canonical form."""
    (found,) = inventory.read(hosts(own=ADDRESSES6, workloads=[workload("w", "node1", **{field: written})])).workloads
    assert address in (found.address, found.address6)


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("address", "10.244.9.9/128"),
        ("address", "10.244.9.9/31"),
        ("address", "fd00:10:244::77"),
        ("address_ipv6", "fd00:10:244::77/32"),
        ("address_ipv6", "10.244.9.9"),
        ("address_ipv6", 7),
    ],
)
def test_a_subnet_or_the_other_family_is_no_address(field: str, written: t.Any) -> None:
    """An address with any other prefix length, of the other IP version, or that is no text is refused."""
    with pytest.raises(FleetError, match=rf"calico_workloads\[0\]\.{field} .* is not an IPv[46] address\."):
        inventory.read(hosts(own=ADDRESSES6, workloads=[workload("w", "node1", **{field: written})]))


def test_the_longest_name_and_device_of_a_workload() -> None:
    """A name or namespace has at most 63 characters (a DNS label's), and a device 15 (IFNAMSIZ without its zero).

    The device `lo` is refused, too.
    """
    good = workload("w" * 63, "node1", namespace="n" * 63, endpoint="e" * 15)
    assert len(inventory.read(hosts(workloads=[good])).workloads) == 1
    for field, value in (("name", "w" * 64), ("namespace", "n" * 64), ("endpoint", "e" * 16), ("endpoint", "lo")):
        with pytest.raises(FleetError, match=rf"^calico_workloads\[0\]\.{field} "):
            inventory.read(hosts(workloads=[{**good, field: value}]))


def test_two_workloads_without_an_address_are_no_conflict() -> None:
    """Two workloads may lack an address. One that is written twice is refused, and the error names both places."""
    assert len(inventory.read(hosts(workloads=[workload("a", "node1"), workload("b", "node1")])).workloads) == 2
    twice = [workload(name, "node1", address="10.244.9.9") for name in ("a", "b")]
    with pytest.raises(
        FleetError, match=r"\[1\]\.address 10\.244\.9\.9 is also the address of calico_workloads\[0\]\."
    ):
        inventory.read(hosts(workloads=twice))
