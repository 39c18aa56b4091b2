# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All drivers with IPv6, and with both IP versions at once."""

from __future__ import annotations

import dataclasses
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import underlay
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import (
    neighbor,
    route,
    rule,
    sysctl,
    tunnel,
    workload,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NeighborEntry,
    NewLink,
    RouteAttributes,
    RouteOperation,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_routes,
    endpoint_sysctls,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Neighbor,
    NodeState,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)

from tests.unit.dataplane.suites import drivers
from tests.unit.dataplane.suites.drivers import OWN, converge, fail, write_route

OWN6 = "fd00:10:10::11"
PEER6 = "fd00:10:10::12"
VTEP6 = "fe80::6400:ff:fe00:2"
ROUTES6 = [
    Route("fd00:10:244::40/122", "blackhole"),
    Route("fd00:10:244::45/128", device="eth0"),
    Route("fd00:10:244::80/122", device="eth0", gateway=PEER6, mtu=1430),
    Route("fd00:10:244::c0/122", device="eth0", gateway="fe80::99", onlink=True),
    Route("fd00:10:244::c0/122", device="eth0", gateway=PEER6, table=179),
]
VXLAN6 = TunnelDevice("vxlan-v6.calico", "vxlan", 1430, OWN6, "fd00:10:244::41", "66:00:00:00:00:01", 4096, 4789)
VXLAN = TunnelDevice("vxlan.calico", "vxlan", 1450, OWN, "10.244.1.1", "66:00:00:00:00:01", 4096, 4789)
WEB = VethEndpoint(
    "web-1", "cali111", "10.244.1.5", 1430, "default", netns="web-1", address6="fd00:10:244::45", pool6="default6"
)
ONLY6 = dataclasses.replace(WEB, address="", pool="")


def dual_stack(kernel):
    drivers.underlay(kernel)
    kernel.address_add(InterfaceAddress("eth0", OWN6, 64))
    write_route(kernel, "::/0", RouteAttributes(device="eth0", gateway="fd00:10:10::1", metric=1024))
    deadline = time.monotonic() + 60
    while kernel.route_to(OWN6).type != "local":  # the kernel makes the address local a moment later, in a work queue
        assert time.monotonic() < deadline, f"{OWN6} is no local address after 60 s"
        time.sleep(0.01)


def ours(kernel, table=254):
    return dict(kernel.routes(table=table, protocol=179, family=6))


def global6(kernel, device):
    """Return a list of the device's IPv6 addresses of global scope as CIDRs."""
    return [f"{one.address}/{one.prefix_length}" for one in kernel.addresses(device, 6) if one.scope == 0]


# ---- routes and rules


def test_routes_are_written_and_read_back(kernel):
    dual_stack(kernel)
    assert converge(route, kernel, ROUTES6) == [
        "+ route    fd00:10:244::40/122  blackhole",
        "+ route    fd00:10:244::45/128  dev eth0",
        "+ route    fd00:10:244::80/122  via fd00:10:10::12 dev eth0 mtu 1430",
        "+ route    fd00:10:244::c0/122  via fe80::99 dev eth0 onlink",
        "+ route    fd00:10:244::c0/122  via fd00:10:10::12 dev eth0 table 179",
    ]
    common = RouteAttributes(device="eth0", protocol=179, metric=1024)
    assert ours(kernel) == {
        "fd00:10:244::40/122": RouteAttributes("blackhole", protocol=179, metric=1024),
        "fd00:10:244::45/128": common,
        "fd00:10:244::80/122": common._replace(gateway=PEER6, mtu=1430),
        "fd00:10:244::c0/122": common._replace(gateway="fe80::99", onlink=True),
    }
    assert ours(kernel, 179) == {"fd00:10:244::c0/122": common._replace(gateway=PEER6, table=179)}


def test_both_families_change_in_place_and_go(kernel):
    dual_stack(kernel)
    converge(route, kernel, [*ROUTES6, Route("10.244.1.0/26", "blackhole")])
    changed = [
        Route("fd00:10:244::40/122", device="eth0", gateway=PEER6),
        Route("fd00:10:244::80/122", "blackhole"),
        Route("10.244.1.0/26", device="eth0", gateway="10.10.1.12"),
    ]
    assert converge(route, kernel, changed) == [
        "~ route    fd00:10:244::40/122  blackhole  ->  via fd00:10:10::12 dev eth0",
        "~ route    fd00:10:244::80/122  via fd00:10:10::12 dev eth0 mtu 1430  ->  blackhole",
        "~ route    10.244.1.0/26  blackhole  ->  via 10.10.1.12 dev eth0",
        "- route    fd00:10:244::c0/122  via fd00:10:10::12 dev eth0 table 179",
        "- route    fd00:10:244::45/128  dev eth0",
        "- route    fd00:10:244::c0/122  via fe80::99 dev eth0 onlink",
    ]
    assert (len(ours(kernel)), len(kernel.routes(protocol=179))) == (2, 1)
    converge(route, kernel, [])
    assert (ours(kernel), kernel.routes(protocol=179)) == ({}, [])
    assert dict(kernel.routes(table=254, family=6))["::/0"].gateway == "fd00:10:10::1"


def test_foreign_route_is_reported_and_left(kernel):
    dual_stack(kernel)
    theirs = RouteAttributes(device="eth0", gateway="fd00:10:10::66", protocol=4, metric=1024)
    write_route(kernel, "fd00:10:244::80/122", theirs)
    assert fail(route, kernel, ROUTES6) == (
        "route fd00:10:244::80/122: A route that is not ours has this destination already:"
        " fd00:10:244::80/122 via fd00:10:10::66 dev eth0 proto static. It was not touched."
        " Delete it (ip -6 route del fd00:10:244::80/122 proto 4) or stop what writes it, then run again."
    )
    assert dict(kernel.routes(table=254, family=6))["fd00:10:244::80/122"] == theirs
    assert len(ours(kernel)) == 3


def test_birds_route_is_taken_over_and_one_of_another_metric_is_none_of_ours(kernel):
    dual_stack(kernel)
    birds = RouteAttributes(device="eth0", gateway=PEER6, protocol=12, metric=1024)
    write_route(kernel, "fd00:10:244::40/122", birds)
    write_route(kernel, "fd00:10:244::80/122", birds._replace(metric=50))
    assert converge(route, kernel, ROUTES6[:3])[0] == (
        "~ route    fd00:10:244::40/122  via fd00:10:10::12 dev eth0  ->  blackhole    taken over from BIRD"
    )
    assert len(kernel.routes(protocol=12, family=6)) == 1


def test_a_gateway_on_link_by_another_device_is_refused(kernel):
    """The kernel refuses an IPv6 route by a gateway that is on another device, and accepts a link-local gateway."""
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    text = fail(route, kernel, [Route("fd00:10:244::80/122", device="vxlan-v6.calico", gateway=PEER6, onlink=True)])
    assert text.startswith("route fd00:10:244::80/122: The route fd00:10:244::80/122 via fd00:10:10::12")
    assert "invalid gateway" in text
    converge(route, kernel, [Route("fd00:10:244::80/122", device="vxlan-v6.calico", gateway=VTEP6, onlink=True)])


def test_rules_of_both_families(kernel):
    both = [RoutingRule(0xCA11, 179, 179), RoutingRule(0xCA11, 179, 179, family=6)]
    assert converge(rule, kernel, both) == [
        "+ rule     179  fwmark 0xca11 lookup 179",
        "+ rule     179 (IPv6)  fwmark 0xca11 lookup 179",
    ]
    assert RuleEntry(179, 179, 0xCA11, protocol=179, family=6) in kernel.rules(6)
    assert converge(rule, kernel, both[:1]) == ["- rule     179 (IPv6)  fwmark 0xca11 lookup 179"]
    assert (len(kernel.rules()), len(kernel.rules(6))) == (4, 2)


def test_rules_for_probes_of_both_families(kernel):
    both = [RoutingRule(0, 179, 179, family, "caliprobe", 0x1C) for family in (4, 6)]
    assert converge(rule, kernel, both) == [
        "+ rule     179  iif caliprobe tos 0x1c lookup 179",
        "+ rule     179 (IPv6)  iif caliprobe tos 0x1c lookup 179",
    ]
    for family in (4, 6):
        wanted = RuleEntry(179, 179, 0, 0, protocol=179, family=family, interface="caliprobe", tos=0x1C)
        assert wanted in kernel.rules(family)
    assert converge(rule, kernel, both[:1]) == ["- rule     179 (IPv6)  iif caliprobe tos 0x1c lookup 179"]


def test_the_way_that_a_packet_takes(kernel):
    dual_stack(kernel)
    write_route(kernel, "fd00:99::/64", RouteAttributes(device="eth0", gateway=PEER6, metric=1024))
    assert kernel.route_to(PEER6) == RouteAttributes(device="eth0")
    assert kernel.route_to("fd00:99::7") == RouteAttributes(device="eth0", gateway=PEER6)
    hops = underlay.NextHops(kernel)
    assert hops.route("fd00:99::7").gateway == PEER6
    assert hops.route("2001:db8::1").gateway == "fd00:10:10::1"
    assert hops.route("192.0.2.1").gateway == "10.10.1.1"


def test_marks_of_routes_move_with_ipv6(kernel):
    dual_stack(kernel)
    before = kernel.routes_mark(179)
    converge(route, kernel, ROUTES6[:1])
    assert kernel.routes_mark(179) != before
    converge(route, kernel, [])
    assert kernel.routes_mark(179) == before


# ---- tunnels and neighbours


def test_tunnels_of_both_families_stand_side_by_side(kernel):
    dual_stack(kernel)
    assert converge(tunnel, kernel, [VXLAN, VXLAN6]) == [
        "+ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
        "+ address  10.244.1.1/32  dev vxlan.calico",
        "+ device   vxlan-v6.calico  vni 4096 port 4789 local fd00:10:10::11  mtu 1430  up",
        "+ address  fd00:10:244::41/128  dev vxlan-v6.calico",
    ]
    link = kernel.link("vxlan-v6.calico")
    assert (link.vni, link.port, link.local, link.mac, link.mtu) == (4096, 4789, OWN6, VXLAN6.mac, 1430)
    assert link.alias == "calico: tunnel fd00:10:244::41"
    assert global6(kernel, "vxlan-v6.calico") == ["fd00:10:244::41/128"]
    moved = [dataclasses.replace(VXLAN, local="10.10.1.99"), dataclasses.replace(VXLAN6, local="fd00:10:10::99")]
    assert converge(tunnel, kernel, moved) == [
        "~ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
        "  ->  vni 4096 port 4789 local 10.10.1.99  mtu 1450  up",
        "~ device   vxlan-v6.calico  vni 4096 port 4789 local fd00:10:10::11  mtu 1430  up"
        "  ->  vni 4096 port 4789 local fd00:10:10::99  mtu 1430  up",
    ]
    assert kernel.link("vxlan-v6.calico").index == link.index
    assert kernel.link("vxlan-v6.calico").local == "fd00:10:10::99"
    assert global6(kernel, "vxlan-v6.calico") == ["fd00:10:244::41/128"]
    assert converge(tunnel, kernel, moved[:1]) == [
        "- address  fd00:10:244::41/128  dev vxlan-v6.calico",
        "- device   vxlan-v6.calico  vni 4096 port 4789 local fd00:10:10::99  mtu 1430  up",
    ]
    assert kernel.link("vxlan-v6.calico") is None
    assert kernel.link("vxlan.calico").up


def test_a_change_of_the_local_address_that_did_not_end_is_completed(kernel):
    """Entries name the underlay's device while the local address changes, and the next run writes them anew."""
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    macs = [f"66:00:00:00:00:0{number}" for number in (2, 3)]
    entries = [FdbEntry("vxlan-v6.calico", mac, f"fd00:10:10::1{mac[-1]}") for mac in macs]
    converge(neighbor, kernel, entries)
    plain = sorted(kernel.fdb("vxlan-v6.calico"))
    pinned = [entry._replace(via=kernel.link("eth0").index) for entry in plain if entry.destination]
    for entry in pinned:
        kernel.fdb_replace(entry)
    assert set(pinned) <= set(kernel.fdb("vxlan-v6.calico"))
    via = f"via device {pinned[0].via} dev vxlan-v6.calico"
    assert converge(neighbor, kernel, entries[:1]) == [
        f"~ fdb      {macs[0]}  dst fd00:10:10::12 {via}  ->  dst fd00:10:10::12 dev vxlan-v6.calico",
        f"- fdb      {macs[1]}  dst fd00:10:10::13 {via}",
    ]
    converge(neighbor, kernel, entries)
    converge(tunnel, kernel, [dataclasses.replace(VXLAN6, local="fd00:10:10::99")])
    assert sorted(kernel.fdb("vxlan-v6.calico")) == plain


def test_tunnel_address_moves(kernel):
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    assert converge(tunnel, kernel, [dataclasses.replace(VXLAN6, address="fd00:10:244::77")]) == [
        "+ address  fd00:10:244::77/128  dev vxlan-v6.calico",
        "- address  fd00:10:244::41/128  dev vxlan-v6.calico",
    ]
    assert global6(kernel, "vxlan-v6.calico") == ["fd00:10:244::77/128"]


def test_tunnel_address_stays_while_sockets_use_it(kernel, hold_socket):
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    with hold_socket("fd00:10:244::41"):
        assert converge(tunnel, kernel, [dataclasses.replace(VXLAN6, address="fd00:10:244::77")]) == [
            "+ address  fd00:10:244::77/128  dev vxlan-v6.calico",
            "= address  fd00:10:244::41/128  dev vxlan-v6.calico    kept: 1 open socket uses it",
        ]


@pytest.mark.parametrize("breakage", ["down", "off"])
def test_tunnel_that_lost_its_address_gets_it_back(kernel, breakage):
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    if breakage == "down":
        kernel.link_set("vxlan-v6.calico", up=False)
    else:
        kernel.sysctl_write("net/ipv6/conf/vxlan-v6.calico/disable_ipv6", "1")
    assert global6(kernel, "vxlan-v6.calico") == []
    assert converge(tunnel, kernel, [VXLAN6])[-1] == "+ address  fd00:10:244::41/128  dev vxlan-v6.calico"
    assert global6(kernel, "vxlan-v6.calico") == ["fd00:10:244::41/128"]


def test_tunnel_on_a_host_whose_default_is_no_ipv6(kernel):
    dual_stack(kernel)
    kernel.sysctl_write("net/ipv6/conf/default/disable_ipv6", "1")
    converge(tunnel, kernel, [VXLAN6])
    assert global6(kernel, "vxlan-v6.calico") == ["fd00:10:244::41/128"]


def test_neighbors_and_forwarding_entries(kernel):
    dual_stack(kernel)
    converge(tunnel, kernel, [VXLAN6])
    desired = [
        Neighbor("vxlan-v6.calico", VTEP6, "66:00:00:00:00:02"),
        FdbEntry("vxlan-v6.calico", "66:00:00:00:00:02", PEER6),
    ]
    assert converge(neighbor, kernel, desired) == [
        "+ neighbor fe80::6400:ff:fe00:2  lladdr 66:00:00:00:00:02 dev vxlan-v6.calico",
        "+ fdb      66:00:00:00:00:02  dst fd00:10:10::12 dev vxlan-v6.calico",
    ]
    entry = NeighborEntry("vxlan-v6.calico", VTEP6, "66:00:00:00:00:02")
    assert [one for one in kernel.neighbors("vxlan-v6.calico") if one.permanent] == [entry]
    moved = [desired[0], FdbEntry("vxlan-v6.calico", "66:00:00:00:00:02", "fd00:10:10::13")]
    assert converge(neighbor, kernel, moved) == [
        "~ fdb      66:00:00:00:00:02  dst fd00:10:10::12 dev vxlan-v6.calico"
        "  ->  dst fd00:10:10::13 dev vxlan-v6.calico"
    ]
    assert len(converge(neighbor, kernel, [])) == 2
    assert not [one for one in kernel.neighbors("vxlan-v6.calico") if one.permanent]


# ---- workloads


def interior(kernel, endpoint=WEB):
    """Return (eth0's IPv4 addresses, its IPv6 addresses, {default route: (gateway, MTU)}), as seen inside.

    The IPv6 addresses are those of global scope, as CIDRs; the IPv4 addresses have no prefix length. An MTU is in
    bytes, None for a route without its own. Raise KernelError if the namespace does not exist.
    """
    inner = kernel.inside(endpoint.netns)
    routes = [*inner.routes(table=254), *inner.routes(table=254, family=6)]
    default = {to: (found.gateway, found.mtu) for to, found in routes if to in ("0.0.0.0/0", "::/0")}
    return [one.address for one in inner.addresses("eth0")], global6(inner, "eth0"), default


BOTH = (
    ["10.244.1.5"],
    ["fd00:10:244::45/128"],
    {"0.0.0.0/0": ("169.254.1.1", None), "::/0": ("fe80::ecee:eeff:feee:eeee", None)},
)


def test_workload_with_both_families(kernel):
    dual_stack(kernel)
    assert converge(workload, kernel, [WEB]) == [
        "+ workload default/web-1  eth0 10.244.1.5 fd00:10:244::45  host end cali111  mtu 1430"
    ]
    assert interior(kernel) == BOTH
    assert kernel.inside("web-1").link("eth0").alias == "calico: address 10.244.1.5 fd00:10:244::45"


def test_workload_with_ipv6_alone(kernel):
    converge(workload, kernel, [ONLY6])
    assert interior(kernel) == ([], BOTH[1], {"::/0": ("fe80::ecee:eeff:feee:eeee", None)})


def test_a_family_comes_and_goes(kernel):
    only4 = dataclasses.replace(WEB, address6="", pool6="")
    converge(workload, kernel, [only4])
    assert converge(workload, kernel, [WEB]) == [
        "~ workload default/web-1  address none  no route -6 default  ->  address fd00:10:244::45  route -6 default"
    ]
    assert interior(kernel) == BOTH
    assert converge(workload, kernel, [only4]) == [
        "~ workload default/web-1  address fd00:10:244::45  ->  address none"
    ]
    assert interior(kernel)[:2] == (["10.244.1.5"], [])


@pytest.mark.parametrize("breakage", ["no address", "off", "down"])
def test_a_workload_interior_with_broken_ipv6_is_repaired(kernel, breakage):
    converge(workload, kernel, [WEB])
    inner = kernel.inside("web-1")
    if breakage == "no address":
        inner.address_delete(InterfaceAddress("eth0", "fd00:10:244::45", 128))
    elif breakage == "off":
        inner.sysctl_write("net/ipv6/conf/eth0/disable_ipv6", "1")
    else:
        inner.link_set("eth0", up=False)
    assert workload.unlike(kernel, [WEB]) == ["cali111"]
    assert len(converge(workload, kernel, [WEB])) == 1
    assert interior(kernel) == BOTH


def test_route_mtu_is_on_the_ways_of_both(kernel):
    converge(workload, kernel, [dataclasses.replace(WEB, route_mtu=1400)])
    assert interior(kernel)[2] == {
        "0.0.0.0/0": ("169.254.1.1", 1400),
        "::/0": ("fe80::ecee:eeff:feee:eeee", 1400),
    }
    converge(workload, kernel, [WEB])
    assert interior(kernel) == BOTH


def test_foreign_default_route_inside_is_reported_and_left(kernel):
    kernel.netns_add("web-1", "")
    inner = kernel.inside("web-1")
    inner.link_add(NewLink("out0", "veth", peer_name="out1"))
    inner.link_set("out1", up=True)
    inner.link_set("out0", up=True)
    write_route(inner, "::/0", RouteAttributes(device="out0", metric=1024))
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: Inside network namespace web-1 there is a route default through out0 already."
        " It was not touched. Delete it (ip netns exec web-1 ip -6 route del default), then run again."
    )


def test_host_end_sysctls(kernel):
    kernel.sysctl_write("net/ipv6/conf/default/disable_ipv6", "1")
    changes = workload.diff([WEB], workload.observe(kernel, [WEB]))
    workload.apply(kernel, changes)
    converge(sysctl, kernel, endpoint_sysctls(WEB))
    workload.activate(kernel, changes)
    assert [kernel.sysctl_read(one.key) for one in endpoint_sysctls(WEB)] == [
        one.value for one in endpoint_sysctls(WEB)
    ]
    converge(route, kernel, endpoint_routes(WEB))
    assert "fd00:10:244::45/128" in ours(kernel)


# ---- These tests are about one workload at once, the whole node, connections, and a batch


def state_of(*endpoints, **fields):
    return NodeState(
        node="node1",
        address=f"{OWN}/24",
        address6=f"{OWN6}/64",
        workloads=endpoints,
        routes=tuple(one for found in endpoints for one in endpoint_routes(found)),
        sysctls=tuple(one for found in endpoints for one in endpoint_sysctls(found)),
        **fields,
    )


@pytest.mark.parametrize("endpoint", [WEB, ONLY6], ids=["both", "IPv6 alone"])
def test_attached_as_the_drivers_want_it_and_detached_again(kernel, endpoint):
    dual_stack(kernel)
    kernel.sysctl_write("net/ipv6/conf/default/disable_ipv6", "1")
    attach.attach(kernel, endpoint)
    assert plan_node(kernel, state_of(endpoint)).lines() == []
    assert attach.attach(kernel, endpoint).mtu == 1430
    attach.detach_route(kernel, endpoint)
    assert (ours(kernel), kernel.routes(protocol=179)) == ({}, [])
    assert not attach.detach_links(kernel, [endpoint])
    assert kernel.link("cali111") is None
    assert plan_node(kernel, state_of()).lines() == []


def test_nothing_is_left_when_one_family_cannot_be_routed(kernel):
    dual_stack(kernel)
    theirs = RouteAttributes(device="eth0", protocol=4, metric=1024)
    write_route(kernel, "fd00:10:244::45/128", theirs)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, WEB)
    assert caught.value.code == "in_the_way"
    assert kernel.link("cali111") is None
    assert kernel.routes(protocol=179) == []
    assert dict(kernel.routes(family=6, table=254))["fd00:10:244::45/128"] == theirs


def test_a_whole_dual_stack_node_is_made_and_removed(kernel):
    dual_stack(kernel)
    state = state_of(
        WEB,
        devices=(VXLAN, VXLAN6),
        neighbors=(Neighbor("vxlan-v6.calico", VTEP6, "66:00:00:00:00:02"),),
        fdb=(FdbEntry("vxlan-v6.calico", "66:00:00:00:00:02", PEER6),),
        rules=(RoutingRule(0xCA11, 179, 179, family=6),),
    )
    remote = [
        Route("fd00:10:244::80/122", device="vxlan-v6.calico", gateway=VTEP6, onlink=True),
        Route("fd00:10:244::c0/122", device="{underlay}", gateway="fd00:10:10::1"),
        Route("fd00:10:244::100/122", device="{underlay}", gateway="{via 2001:db8::5}", table=179),
    ]
    forwarding = Sysctl("net/ipv6/conf/all/forwarding", "1")
    state = dataclasses.replace(
        state, routes=(*state.routes, *remote), sysctls=(forwarding, *state.sysctls), address="10.10.1.11/24"
    )
    apply_node(kernel, plan_node(kernel, state))
    assert plan_node(kernel, state).lines() == []
    assert ours(kernel)["fd00:10:244::80/122"].gateway == VTEP6
    assert ours(kernel)["fd00:10:244::c0/122"].device == "eth0"
    assert ours(kernel, 179)["fd00:10:244::100/122"].gateway == "fd00:10:10::1"
    empty = NodeState(node="node1", address=f"{OWN}/24")
    apply_node(kernel, plan_node(kernel, empty))
    assert (ours(kernel), ours(kernel, 179), kernel.link("vxlan-v6.calico"), kernel.link("cali111")) == (
        {}, {}, None, None
    )  # fmt: skip
    assert len(kernel.rules(6)) == 2


def test_node_without_its_ipv6_address(kernel):
    drivers.underlay(kernel)
    with pytest.raises(ObserveError) as caught:
        plan_node(kernel, state_of())
    assert str(caught.value) == (
        "No network interface of node1 has its address fd00:10:10::11."
        " It is taken from calico_node_address_ipv6 (fd00:10:10::11/64)."
        " Correct that variable, or give the host this address (ip address), then run again."
    )


def test_connections_are_forgotten_by_address(kernel):
    assert kernel.conntrack_flush(["fd00:10:244::45", "10.244.1.5"]) == 0


def test_operations_of_both_families_in_one_batch(kernel):
    dual_stack(kernel)
    blackhole = RouteAttributes("blackhole", protocol=179)
    operations = [
        RouteOperation("add", "10.244.9.0/26", blackhole),
        RouteOperation("add", "fd00:10:244::200/122", blackhole),
        RouteOperation("add", "fd00:10:244::200/122", blackhole),
        RouteOperation("add", "10.244.9.64/26", blackhole),
    ]
    assert [failure.position for failure in kernel.route_batch(operations)] == [2]
    assert [to for to, _rest in kernel.routes(protocol=179)] == ["10.244.9.0/26", "10.244.9.64/26"]
    assert list(ours(kernel)) == ["fd00:10:244::200/122"]
