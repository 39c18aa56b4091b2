# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NodeState with the workloads that were attached and the blocks that were opened after it was compiled."""

from __future__ import annotations

import dataclasses
import json
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NETNS,
    Block,
    NodeState,
    Pool,
    Route,
    Sysctl,
    VethEndpoint,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import build, pool, stored, workload

POOL = Pool("default", "10.244.0.0/16", 26, "IPIP", workload_mtu=1480)
POOL6 = Pool("six", "fd00::/64", 122, "None", workload_mtu=1500)
CONTAINER = AttachedWorkload(
    "podman.3f2a.eth0",
    "web",
    interface="cali3f2a",
    netns="/run/netns/cni-1",
    addresses=("fd00::1", "10.244.228.200"),
    pool="default",
    labels={"app": "web"},
    mac="02:00:00:00:00:01",
    network="podman",
    container="3f2a",
    since="2026-11-21T20:00:00Z",
)


def state(*pools: t.Mapping[str, t.Any], **rest: t.Any) -> NodeState:
    return compiler.node_state(build(*pools, **rest), "node1")


def attached(number: int, address: str, **fields: t.Any) -> AttachedWorkload:
    values = {"name": f"d{number}", "interface": f"calid{number}", "netns": f"d{number}", "pool": "default", **fields}
    return AttachedWorkload(f"default/d{number}", addresses=(address,), **values)


# --- a workload as a value ------------------------------------------------------------------------------------------


def test_a_workload_survives_json() -> None:
    assert AttachedWorkload.from_dict(json.loads(json.dumps(CONTAINER.to_dict()))) == CONTAINER


def test_published_ports_survive_json() -> None:
    port = PublishedPort("udp", 53, 5353, "192.0.2.1")
    shop = dataclasses.replace(CONTAINER, ports=(port,), runtime="podman")
    assert AttachedWorkload.from_dict(json.loads(json.dumps(shop.to_record()))) == shop
    assert {"ports", "runtime"}.isdisjoint(CONTAINER.to_record())


@pytest.mark.parametrize(
    "ports", [{}, "8080:80", [8080], [{"port": 0}], [{"port": 80, "host_address": "x\n"}], [{"port": 80}] * 1025]
)
def test_a_record_with_ports_that_cannot_be_is_refused(ports: t.Any) -> None:
    with pytest.raises(ValueError):
        AttachedWorkload.from_dict({**CONTAINER.to_dict(), "ports": ports})


def test_attached_by_names_the_runtime_of_a_workload() -> None:
    own = dataclasses.replace(CONTAINER, container="")
    found = [
        one.attached_by
        for one in (
            own,
            CONTAINER,
            dataclasses.replace(CONTAINER, runtime="podman"),
            dataclasses.replace(own, handed_over=True),
        )
    ]
    assert found == ["", "cni", "podman", "docker"]


def test_a_record_of_a_later_release_is_read() -> None:
    assert AttachedWorkload.from_dict({**CONTAINER.to_dict(), "qos": {"ingress": 1}}) == CONTAINER


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "a workload's record is a list, not a table"),
        ({"name": "web"}, "a workload's id is missing"),
        ({"id": "default/web"}, "a workload's name is missing"),
        ({"id": 7, "name": "web"}, "a workload's id is 7, not a text of 1 to 65536 characters"),
        ({"id": "a", "name": "web", "addresses": ["10.1"]}, "a workload's addresses[0] is 10.1, not an address"),
        (
            {"id": "a", "name": "web", "addresses": "10.0.0.1"},
            "a workload's addresses is 10.0.0.1, not a list of at most 131072",
        ),
        (
            {"id": "a", "name": "web", "labels": {"a": 1}},
            "a workload's labels.a is 1, not a text of at most 4096 characters",
        ),
        (
            {"id": "a", "name": "web", "mtu": True},
            "a workload's mtu is True, not a whole number from 0 to 9007199254740992",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_in_words(record: t.Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        AttachedWorkload.from_dict(record)
    assert str(caught.value) == message


# --- its endpoint ---------------------------------------------------------------------------------------------------


def test_an_endpoint_has_what_was_asked_for_and_what_its_pool_says() -> None:
    found = attachment.endpoint(CONTAINER, dataclasses.replace(POOL, route_mtu=1450))
    assert (found.namespace, found.name) == ("default", "web")
    assert (found.address, found.mtu, found.route_mtu, found.mac) == ("10.244.228.200", 1480, 1450, CONTAINER.mac)
    assert (found.netns, found.netns_owned) == ("/run/netns/cni-1", False)


@pytest.mark.parametrize(("asked", "mtu", "route"), [(None, 1480, 1450), (9000, 1480, 1450), (1400, 1400, 1400)])
def test_no_more_than_the_pool_allows(asked: t.Optional[int], mtu: int, route: int) -> None:
    wanted = dataclasses.replace(CONTAINER, mtu=asked)
    found = attachment.endpoint(wanted, dataclasses.replace(POOL, route_mtu=1450))
    assert (found.mtu, found.route_mtu) == (mtu, route)


def test_an_endpoint_needs_an_address() -> None:
    with pytest.raises(ValueError, match=r"^workload podman.3f2a.eth0 has no address$"):
        attachment.endpoint(dataclasses.replace(CONTAINER, addresses=()), POOL)


def test_an_endpoint_of_both_families_fits_both_pools() -> None:
    pool6 = dataclasses.replace(POOL6, workload_mtu=1430, route_mtu=1400)
    found = attachment.endpoint(CONTAINER, POOL, pool6)
    assert (found.address, found.address6, found.pool, found.pool6) == ("10.244.228.200", "fd00::1", "default", "six")
    assert (found.mtu, found.route_mtu) == (1430, 1400)
    assert attachment.endpoint(dataclasses.replace(CONTAINER, mtu=1390), POOL, pool6).route_mtu == 1390
    alone = attachment.endpoint(dataclasses.replace(CONTAINER, addresses=("fd00::1",)), POOL6)
    assert (alone.address, alone.address6, alone.pool, alone.pool6) == ("", "fd00::1", "", "six")


def test_pools_are_found_by_name_first_and_then_by_address() -> None:
    pools = (POOL, dataclasses.replace(POOL, name="other", cidr="10.0.0.0/8"), POOL6)
    state = NodeState("node1", "10.10.1.11/24", pools=pools)
    assert [one.name for one in attachment.pools_of(state, CONTAINER)] == ["default", "six"]
    asked = dataclasses.replace(CONTAINER, pool="other")
    assert [one.name for one in attachment.pools_of(state, asked)] == ["other", "six"]
    six = dataclasses.replace(CONTAINER, addresses=("fd00::1",), pool="six")
    assert [one.name for one in attachment.pools_of(state, six)] == ["six"]
    gone = dataclasses.replace(CONTAINER, addresses=("fd01::1", "10.244.228.200"))
    assert [(one.name, one.workload_mtu) for one in attachment.pools_of(state, gone)] == [("default", 1480), ("", 1430)]


# --- the node's state with them -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bgp", [True, False])
def test_a_workload_gets_all_that_one_of_the_inventory_gets(bgp: bool) -> None:
    """A workload that is added to the state, with a namespace of its own, is like one of the inventory."""
    extra = workload("d1", "node1")
    before = build(pool("vxlan"), bgp_enabled=bgp)
    after = build(pool("vxlan"), bgp_enabled=bgp, previous=before.allocation, workloads=[
        *(workload(f"w{n}", f"node{n}") for n in range(1, 5)), extra,
    ])  # fmt: skip
    wanted = compiler.node_state(after, "node1")
    made = next(found for found in wanted.workloads if found.name == "d1")
    added = AttachedWorkload(
        "default/d1", "d1", interface=made.interface, netns="d1", netns_owned=True, addresses=(made.address,),
        pool="default",
    )  # fmt: skip
    found = attachment.with_workloads(compiler.node_state(before, "node1"), [added], ())
    assert sorted(found.workloads, key=lambda endpoint: endpoint.name) == sorted(
        wanted.workloads, key=lambda endpoint: endpoint.name
    )
    assert set(found.routes) == set(wanted.routes)
    assert set(found.sysctls) == set(wanted.sysctls)


def test_an_opened_block_is_granted_open_and_ends_here() -> None:
    before = state(spare_blocks=2)
    first, second = (block.cidr for block in before.ipam.spare_blocks)
    found = attachment.with_workloads(before, (), [second, "10.99.0.0/26"])
    assert found.ipam.blocks == (*before.ipam.blocks, Block(second, "default"))
    assert found.ipam.spare_blocks == (Block(first, "default"),)
    assert set(found.routes) - set(before.routes) == {Route(second, "blackhole")}
    assert found.bird == before.bird


def test_without_bgp_a_spare_block_ended_here_before() -> None:
    before = state(pool("vxlan"), bgp_enabled=False)
    found = attachment.with_workloads(before, (), [before.ipam.spare_blocks[0].cidr])
    assert found.routes == before.routes


def test_a_block_of_one_address_is_the_workloads_own_route() -> None:
    before = state(pool(blockSize=32), workloads=[])
    cidr = before.ipam.blocks[0].cidr
    found = attachment.with_workloads(before, [attached(1, cidr.partition("/")[0])], ())
    assert [route for route in found.routes if route.destination == cidr] == [Route(cidr, device="calid1")]


def test_an_attached_workload_replaces_none_of_the_inventory() -> None:
    before = state()
    own = before.workloads[0]
    same_interface = attached(1, "10.244.228.210", interface=own.interface)
    same_address = attached(2, own.address)
    assert attachment.with_workloads(before, [same_interface, same_address], ()) == before


def probed(before: NodeState) -> NodeState:
    """Return a state with a probe endpoint, its routes and sysctls: IPv4 addresses of two pools and an IPv6 address."""
    addresses = {"default": "10.244.228.255", "six": "fd00:10:244::7f", "zone": "10.245.0.63"}
    endpoint = VethEndpoint(
        "probe", PROBE_INTERFACE, addresses["default"], 1500, "default", "calico-system", PROBE_NETNS,
        address6=addresses["six"], pool6="six", further=(addresses["zone"],),
    )  # fmt: skip
    return dataclasses.replace(
        before,
        ipam=dataclasses.replace(before.ipam, probes=addresses),
        probe_endpoint=endpoint,
        routes=(*before.routes, *attachment.endpoint_routes(endpoint)),
        sysctls=(*before.sysctls, *attachment.endpoint_sysctls(endpoint)),
    )


def test_the_probe_endpoint_gives_up_an_address_that_an_agent_gave_away() -> None:
    """The workload has the route, the further address of the IP version comes in its place, and all else stays."""
    before = probed(state(unprobed_pools="*"))
    for taken, left in (
        ("10.244.228.255", ("10.245.0.63", "fd00:10:244::7f")),
        ("10.245.0.63", ("10.244.228.255", "fd00:10:244::7f")),
        ("fd00:10:244::7f", ("10.244.228.255", "10.245.0.63")),
    ):
        found = attachment.with_workloads(before, [attached(1, taken)], ())
        assert found.probe_endpoint is not None
        assert found.probe_endpoint.addresses == left
        assert sorted(found.ipam.probes.values()) == sorted(left)
        routes = [route for route in found.routes if route.device in (PROBE_INTERFACE, "calid1")]
        assert {route.destination.partition("/")[0]: route.device for route in routes} == {
            **dict.fromkeys(left, PROBE_INTERFACE), taken: "calid1",
        }  # fmt: skip
        lost = "net/ipv6/conf/caliprobe" if ":" in taken else "none"
        assert {one for one in before.sysctls if not one.key.startswith(lost)} <= {*found.sysctls}
    assert attachment.without_probes_at(before, ["10.244.228.254"]) is before


def test_a_probe_endpoint_without_an_address_is_none() -> None:
    plain = state(unprobed_pools="*")
    before = probed(plain)
    assert attachment.without_probes_at(before, before.ipam.probes.values()) == plain


def test_a_workload_without_an_address_has_nothing_here() -> None:
    before = state()
    assert attachment.with_workloads(before, [AttachedWorkload("default/d1", "d1")], ()) is before


def test_a_workload_of_both_families_has_a_way_for_each() -> None:
    before = dataclasses.replace(state(), pools=(*state().pools, POOL6))
    both = dataclasses.replace(attached(1, "10.244.228.210"), addresses=("10.244.228.210", "fd00::2"))
    found = attachment.with_workloads(before, [both], ())
    added = [route for route in found.routes if route not in before.routes]
    assert added == [Route("10.244.228.210/32", device="calid1"), Route("fd00::2/128", device="calid1")]
    assert [sysctl.key for sysctl in found.sysctls[len(before.sysctls) :]] == [
        "net/ipv4/conf/calid1/rp_filter",
        "net/ipv4/neigh/calid1/proxy_delay",
        "net/ipv4/conf/calid1/proxy_arp",
        "net/ipv4/conf/calid1/forwarding",
        "net/ipv6/conf/calid1/accept_dad",
        "net/ipv6/conf/calid1/addr_gen_mode",
        "net/ipv6/conf/calid1/forwarding",
        "net/ipv6/conf/calid1/disable_ipv6",
    ]
    # If a workload of the inventory has one of an attached workload's addresses, the attached one is left out.
    planned = dataclasses.replace(found, workloads=found.workloads[-1:])
    other = dataclasses.replace(both, id="default/d2", name="d2", interface="calid2", addresses=("10.9.9.9", "fd00::2"))
    assert attachment.with_workloads(planned, [other], ()) == planned
    assert attachment.address_conflicts(planned, [other])[0].startswith("fd00::2, planned for workload default/d1 of")


def test_nothing_more_is_the_state_itself() -> None:
    before = state()
    assert attachment.with_workloads(before, (), ()) is before


@pytest.mark.parametrize(("name", "cidr", "mtu"), [("renamed", "10.244.0.0/16", 1500), ("gone", "10.245.0.0/16", 1450)])
def test_a_workload_whose_pool_is_gone_is_kept(name: str, cidr: str, mtu: int) -> None:
    before = state(pool("direct", name, cidr), workloads=[])
    found = attachment.with_workloads(before, [attached(1, "10.244.228.210")], ())
    assert [(endpoint.name, endpoint.mtu) for endpoint in found.workloads] == [("d1", mtu)]


@pytest.mark.parametrize(
    ("addresses", "wanted"),
    [
        ((), [("gone", 1450)]),
        (("10.9.0.1",), [("gone", 1450)]),
        (("fd09::1",), [("gone", 1430)]),
        (("fd09::1", "10.9.0.1"), [("gone", 1450), ("", 1430)]),
    ],
    ids=["no address", "IPv4", "IPv6", "both"],
)
def test_a_substitute_for_a_pool_that_is_gone(addresses: tuple[str, ...], wanted: list[tuple[str, int]]) -> None:
    """The substitute has the room of the largest tunnel header of its IP version, that of IPv4 without an address.

    With both IP versions, that of IPv4 has the pool's name and that of IPv6 none.
    """
    before = NodeState("node1", "10.10.1.11/24", pools=(POOL, POOL6), underlay_mtu=1500)
    found = attachment.pools_of(before, dataclasses.replace(CONTAINER, pool="gone", addresses=addresses))
    assert [(one.name, one.workload_mtu) for one in found] == wanted
    assert {(one.cidr, one.block_size, one.encapsulation) for one in found} == {("", 0, "None")}


@settings(max_examples=25)
@given(st.lists(st.integers(1, 60), unique=True), st.randoms(use_true_random=False))
def test_the_order_of_the_workloads_makes_no_difference(numbers: list[int], order: random.Random) -> None:
    workloads = [attached(number, f"10.244.228.{190 + number}") for number in numbers]
    shuffled = order.sample(workloads, len(workloads))
    before = BEFORE
    found = attachment.with_workloads(before, workloads, ())
    assert attachment.with_workloads(before, shuffled, ()) == found
    # Each added address has one endpoint and one route to it; its interface has proxy ARP.
    taken = {endpoint.address for endpoint in before.workloads}
    wanted = [entry for entry in workloads if entry.addresses[0] not in taken]
    assert {endpoint.address for endpoint in found.workloads} == taken | {entry.addresses[0] for entry in wanted}
    for entry in wanted:
        ways = [route for route in found.routes if route.destination == f"{entry.addresses[0]}/32"]
        assert ways == [Route(f"{entry.addresses[0]}/32", device=entry.interface)]
        assert Sysctl(f"net/ipv4/conf/{entry.interface}/proxy_arp", "1") in found.sysctls


BEFORE = state(pool("ipip"))


# --- These tests go back to an earlier state, or have two workloads with one address --------------------------------


def test_going_back_keeps_the_blocks_that_were_granted_since_and_are_in_use() -> None:
    earlier = build(pool(), spare_blocks=0)
    later = build(pool(), previous=earlier.allocation, spare_blocks=2)
    before, now = compiler.node_state(earlier, "node1"), compiler.node_state(later, "node1")
    used, _unused = (block.cidr for block in now.ipam.spare_blocks)
    address = used.partition("/")[0]
    found = attachment.with_blocks_in_use(before, now, [address, "10.99.0.1", "fd00::1"])
    assert found.ipam.blocks == (*before.ipam.blocks, Block(used, "default"))
    assert set(found.routes) - set(before.routes) == {Route(used, "blackhole")}
    # The kept block is in the set of local blocks: no other workload may send from it (state/attachment.py).
    assert used in next(one.members for one in found.ipsets if one.name == "cali40local-blocks")
    assert found.bird is not None and before.bird is not None
    assert found.bird.blocks == (*before.bird.blocks, used)
    for allocated in ([], ["10.99.0.1"]):
        assert attachment.with_blocks_in_use(before, now, allocated) is before
    assert attachment.with_blocks_in_use(before, None, [address]) is before


def test_an_address_that_was_given_twice_is_a_conflict() -> None:
    before = state(pool("ipip"))
    own, tunnel = before.workloads[0].address, before.ipam.tunnels["ipip"]
    workloads = [attached(2, tunnel), attached(1, own), attached(3, "10.244.228.220")]
    assert attachment.address_conflicts(before, workloads) == [
        f"{own}, planned for workload default/w1 of node1, was given to workload default/d1 there meanwhile. "
        "Run playbooks/site.yml: it plans another address.",
        f"{tunnel}, planned for the ipip tunnel of node1, was given to workload default/d2 there meanwhile. "
        "Run playbooks/site.yml: it plans another address.",
    ]


# --- These tests are about states of other releases, members, reservations, changed labels and cached endpoints -----


def test_a_state_without_the_fields_of_this_release_is_read() -> None:
    new = state(pool("vxlan"), underlay_mtu=9000)
    old = new.to_dict()
    del old["nodes"], old["ipam"]["reservations"]
    for entry in old["pools"]:
        del entry["workload_mtu"], entry["route_mtu"]
    for entry in old["workloads"]:
        del entry["netns_owned"], entry["mac"]
    assert NodeState.from_dict(old) == dataclasses.replace(new, nodes=())
    assert NodeState.from_dict(old).digest == new.digest


def test_every_node_knows_all_nodes() -> None:
    found = state(reflectors={"rr1": "10.10.1.2/24"}, own={"node2": {"calico_node_labels": {"rack": "a"}}})
    assert [member.name for member in found.nodes] == ["node1", "node2", "node3", "node4", "rr1"]
    assert found.nodes[1] == FleetMember(
        "node2", "10.10.1.12/24", 64512, False, {"rack": "a", "kubernetes.io/hostname": "node2"},
        probes=found.nodes[1].probes,
    )  # fmt: skip
    assert found.nodes[4].reflector
    assert stored(found) == found


TWO_POOLS = (pool("vxlan", "a", "10.244.0.0/16"), pool("direct", "b", "10.245.0.0/16"))


def test_probe_endpoint_gives_way_to_an_attached_workload() -> None:
    """An attached workload keeps its address, and the probe endpoint its others; with all lost there is none."""
    found = state(*TWO_POOLS)
    assert found.probe_endpoint is not None
    first, second = found.probe_endpoint.addresses
    shared = attachment.with_workloads(found, [attached(1, first, pool="a")], ())
    assert shared.probe_endpoint is not None
    assert (shared.probe_endpoint.addresses, shared.probe_endpoint.mtu) == ((second,), found.probe_endpoint.mtu)
    assert {r.destination: r.device for r in shared.routes if r.destination in (f"{first}/32", f"{second}/32")} == {
        f"{first}/32": "calid1",
        f"{second}/32": "caliprobe",
    }
    both = attachment.with_workloads(found, [attached(1, first, pool="a"), attached(2, second, pool="b")], ())
    assert both.probe_endpoint is None
    assert "caliprobe" not in {route.device for route in both.routes}
    assert not any("caliprobe" in sysctl.key for sysctl in both.sysctls)
    assert [one.interface for one in both.workloads][-2:] == ["calid1", "calid2"]


def test_probe_endpoint_stays_beside_other_workloads() -> None:
    """Workloads with other addresses change nothing of it, and one with its interface is left out."""
    found = state(*TWO_POOLS)
    block = found.ipam.blocks[0].cidr.rpartition(".")[0]
    more = attachment.with_workloads(found, [attached(1, f"{block}.77"), attached(2, f"{block}.78")], ())
    assert (more.probe_endpoint, len(more.workloads)) == (found.probe_endpoint, len(found.workloads) + 2)
    assert {route for route in found.routes if route.device == "caliprobe"} <= set(more.routes)
    same = attachment.with_workloads(found, [attached(1, f"{block}.77", interface="caliprobe")], ())
    assert same is found


def test_probe_endpoint_survives_json_and_is_left_out_without_addresses() -> None:
    """A node reads back its probe endpoint. A state without one has no field for it, as in earlier releases."""
    found = state(*TWO_POOLS)
    assert found.probe_endpoint is not None and stored(found) == found
    assert "probe_endpoint" not in attachment.with_probe_endpoint(found, None).to_dict()


def test_reservations_reach_the_node_sorted() -> None:
    found = state(ip_reservations=["10.244.7.7", "10.244.0.0/28", "10.244.7.7/32"])
    assert found.ipam.reservations == ("10.244.0.0/28", "10.244.7.7/32")


def test_labels_that_are_given_again_yield_to_those_that_changed_meanwhile():
    one = AttachedWorkload("default/w", "w", labels={"a": "1", "b": "1"}, relabelled={"b": "2"})
    assert one.with_labels({"a": "1", "b": "1", "c": "3"}).labels == {"a": "1", "b": "2", "c": "3"}
    settled = one.with_labels({"a": "1", "b": "1"})
    assert settled.labels == {"a": "1", "b": "2"}
    assert settled.with_labels({"a": "1", "b": "1"}) is settled


@pytest.mark.parametrize(
    ("changes", "labels", "relabelled"),
    [
        ({"b": "2"}, {"a": "1", "b": "2"}, {"b": "2"}),
        ({"a": "1"}, {"a": "1", "b": "1"}, {"a": "1"}),  # no label changes, but a later ADD must not change it
        ({"a": None}, {"b": "1"}, {"a": None}),
        ({"c": None}, {"a": "1", "b": "1"}, {"c": None}),
    ],
)
def test_labels_that_are_changed_after_the_attachment(changes, labels, relabelled):
    """A change of labels is kept apart from them, and the same change again returns the same object."""
    one = AttachedWorkload("default/w", "w", labels={"a": "1", "b": "1"})
    changed = one.labelled(changes)
    assert (changed.labels, changed.relabelled) == (labels, relabelled)
    assert changed.labelled(changes) is changed
    assert one.labelled({}) is one


def test_changed_labels_survive_the_record_of_a_workload():
    """The record of a workload keeps which labels were changed and removed, and other values in it are refused."""
    one = CONTAINER.labelled({"app": None, "tier": "front"})
    assert AttachedWorkload.from_dict(json.loads(json.dumps(one.to_record()))) == one
    assert "relabelled" not in CONTAINER.to_record()
    for wrong in ({"app": 1}, {1: None}, {"app": []}, [], "app"):
        with pytest.raises(ValueError, match=r"^a workload's relabelled"):
            AttachedWorkload.from_dict({**CONTAINER.to_dict(), "relabelled": wrong})


def test_a_cached_endpoint_is_that_of_the_same_workload_pools_and_node():
    """A workload object has one endpoint object until its pool, the node's source spoofing or the object changes."""
    own, compiled = attachment.OwnEndpoints(), state(pool("ipip"))
    one = attached(1, "10.244.0.9")
    found = own.of(compiled, one)
    assert own.of(compiled, one) is found
    assert own.of(dataclasses.replace(compiled, plan="x"), one) is found
    larger = dataclasses.replace(compiled, pools=(dataclasses.replace(compiled.pools[0], workload_mtu=1400),))
    mtus = [own.of(each, one).endpoint.mtu for each in (compiled, larger, compiled)]
    assert mtus == [1480, 1400, 1480]
    spoofing = dataclasses.replace(compiled, workload_source_spoofing=True)
    assert [own.of(each, one).endpoint.source_spoofing for each in (compiled, spoofing, compiled)] == [
        False,
        True,
        False,
    ]
    kept = own.of(compiled, one)
    other = dataclasses.replace(one, labels={"app": "web"})
    assert own.of(compiled, other).endpoint.labels == {"app": "web"}
    assert own.of(compiled, one) is not kept
