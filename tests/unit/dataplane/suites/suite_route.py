# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the drivers of routes, routing rules and sysctls, on any kernel."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import route, rule, sysctl
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    NextHop,
    RouteAttributes,
    RouteOperation,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Route, RoutingRule, Sysctl

from tests.unit.dataplane.suites.drivers import converge, fail, lines, route_to, underlay, write_route

ROUTES = [
    Route("10.244.1.0/26", "blackhole"),
    Route("10.244.1.5/32", device="eth0"),
    Route("10.244.2.0/26", device="eth0", gateway="10.10.1.12", mtu=1450),
    Route("10.244.3.0/26", device="eth0", gateway="172.31.0.1", onlink=True),
    Route("10.244.3.0/26", device="eth0", gateway="10.10.1.13", table=179),
]


def test_routes_are_written_and_read_back(kernel):
    underlay(kernel)
    assert converge(route, kernel, ROUTES) == [
        "+ route    10.244.1.0/26  blackhole",
        "+ route    10.244.1.5/32  dev eth0",
        "+ route    10.244.2.0/26  via 10.10.1.12 dev eth0 mtu 1450",
        "+ route    10.244.3.0/26  via 172.31.0.1 dev eth0 onlink",
        "+ route    10.244.3.0/26  via 10.10.1.13 dev eth0 table 179",
    ]
    ours = sorted(kernel.routes(protocol=179), key=repr)
    assert ours == sorted(
        [
            ("10.244.1.0/26", RouteAttributes("blackhole", protocol=179)),
            ("10.244.1.5/32", RouteAttributes(device="eth0", protocol=179, scope=253)),
            ("10.244.2.0/26", RouteAttributes(device="eth0", gateway="10.10.1.12", mtu=1450, protocol=179)),
            ("10.244.3.0/26", RouteAttributes(device="eth0", gateway="172.31.0.1", onlink=True, protocol=179)),
            ("10.244.3.0/26", RouteAttributes(device="eth0", gateway="10.10.1.13", table=179, protocol=179)),
        ],
        key=repr,
    )


def test_routes_change_in_place_and_go(kernel):
    underlay(kernel)
    converge(route, kernel, ROUTES)
    changed = [
        Route("10.244.1.0/26", device="eth0", gateway="10.10.1.9"),
        Route("10.244.2.0/26", device="eth0", gateway="10.10.1.12"),
    ]
    assert converge(route, kernel, changed) == [
        "~ route    10.244.1.0/26  blackhole  ->  via 10.10.1.9 dev eth0",
        "~ route    10.244.2.0/26  via 10.10.1.12 dev eth0 mtu 1450  ->  via 10.10.1.12 dev eth0",
        "- route    10.244.3.0/26  via 10.10.1.13 dev eth0 table 179",
        "- route    10.244.1.5/32  dev eth0",
        "- route    10.244.3.0/26  via 172.31.0.1 dev eth0 onlink",
    ]
    assert len(kernel.routes(protocol=179)) == 2
    converge(route, kernel, [])
    assert kernel.routes(protocol=179) == []
    assert route_to(kernel, "0.0.0.0/0") == RouteAttributes(device="eth0", gateway="10.10.1.1")


def test_ipv4_routes_by_way_of_ipv6_gateways(kernel):
    """An IPv4 route may have an IPv6 gateway (RFC 8950): it is written, read back, changed in place and removed."""
    underlay(kernel)
    routes = [
        Route("10.244.2.0/26", device="eth0", gateway="fe80::12", mtu=1450),
        Route("10.244.3.0/26", device="eth0", gateway="fe80::13", table=179),
        Route("10.244.4.0/26", device="eth0", gateway="10.10.1.14"),
    ]
    assert converge(route, kernel, routes) == [
        "+ route    10.244.2.0/26  via fe80::12 dev eth0 mtu 1450",
        "+ route    10.244.3.0/26  via fe80::13 dev eth0 table 179",
        "+ route    10.244.4.0/26  via 10.10.1.14 dev eth0",
    ]
    assert route_to(kernel, "10.244.2.0/26") == RouteAttributes(
        device="eth0", gateway="fe80::12", mtu=1450, protocol=179
    )
    assert kernel.route_to("10.244.2.1") == RouteAttributes(device="eth0", gateway="fe80::12")
    swapped = [
        Route("10.244.2.0/26", device="eth0", gateway="10.10.1.12"),
        Route("10.244.4.0/26", device="eth0", gateway="fe80::14"),
    ]
    assert converge(route, kernel, swapped) == [
        "~ route    10.244.2.0/26  via fe80::12 dev eth0 mtu 1450  ->  via 10.10.1.12 dev eth0",
        "~ route    10.244.4.0/26  via 10.10.1.14 dev eth0  ->  via fe80::14 dev eth0",
        "- route    10.244.3.0/26  via fe80::13 dev eth0 table 179",
    ]
    converge(route, kernel, [])
    assert kernel.routes(protocol=179) == []


def test_an_ipv6_gateway_of_an_ipv4_route_that_is_not_on_the_link(kernel):
    underlay(kernel)
    assert fail(route, kernel, [Route("10.244.2.0/26", device="eth0", gateway="2001:db8::12")]) == (
        "route 10.244.2.0/26: The route 10.244.2.0/26 via 2001:db8::12 dev eth0 was refused."
        " The kernel said: No route to host."
    )


def test_foreign_route_is_reported_and_left_and_the_others_are_written(kernel):
    underlay(kernel)
    theirs = RouteAttributes(device="eth0", gateway="10.10.1.66", protocol=4)
    write_route(kernel, "10.244.2.0/26", theirs)
    assert fail(route, kernel, ROUTES) == (
        "route 10.244.2.0/26: A route that is not ours has this destination already:"
        " 10.244.2.0/26 via 10.10.1.66 dev eth0 proto static. It was not touched."
        " Delete it (ip route del 10.244.2.0/26 proto 4) or stop what writes it, then run again."
    )
    assert route_to(kernel, "10.244.2.0/26") == theirs
    assert len(kernel.routes(protocol=179)) == len(ROUTES) - 1


def test_route_of_bird_is_taken_over_in_place(kernel):
    underlay(kernel)
    write_route(kernel, "10.244.2.0/26", RouteAttributes(device="eth0", gateway="10.10.1.66", protocol=12))
    assert converge(route, kernel, [Route("10.244.2.0/26", "blackhole")]) == [
        "~ route    10.244.2.0/26  via 10.10.1.66 dev eth0  ->  blackhole    taken over from BIRD"
    ]


BOTH = (NextHop("eth0", "10.10.1.2"), NextHop("eth1", "10.10.3.2", weight=2))
BOTH6 = (NextHop("eth0", "fe80::2"), NextHop("eth1", "fe80::3"))


def second_uplink(kernel):
    """Make eth1 with the address 10.10.3.11/24, up, beside `underlay`."""
    underlay(kernel)
    kernel.link_add(NewLink("eth1", "veth", peer_name="wire1"))
    kernel.link_set("wire1", up=True)
    kernel.link_set("eth1", up=True)
    kernel.address_add(InterfaceAddress("eth1", "10.10.3.11", 24))


@pytest.mark.parametrize(
    ("destination", "hops", "metric"), [("10.244.2.0/26", BOTH, 0), ("fd00:10:244:2::/122", BOTH6, 1024)]
)
def test_all_next_hops_of_a_route_are_written_and_read(kernel, destination, hops, metric):
    """A route with several next hops is replaced in place by another one, by one with a single one, and back."""
    second_uplink(kernel)
    several = RouteAttributes(protocol=12, metric=metric).over(hops)
    back = several.over(hops[::-1])
    single = several.over(hops[1:])._replace(mtu=1400)
    write_route(kernel, destination, several)
    family = 6 if ":" in destination else 4
    for want in (back, single, several):
        assert kernel.route_batch([RouteOperation("replace", destination, want)]) == []
        (found,) = kernel.routes(protocol=12, family=family)
        assert found[0] == destination
        assert (found[1].mtu, sorted(found[1].next_hops)) == (want.mtu, sorted(want.next_hops))
    assert kernel.route_batch([RouteOperation("delete", destination, several)]) == []
    assert kernel.routes(protocol=12, family=family) == []


def test_a_route_through_a_missing_second_device_is_refused_by_its_name(kernel):
    underlay(kernel)
    several = RouteAttributes(protocol=12).over((NextHop("eth0", "10.10.1.2"), NextHop("eth7", "10.10.3.2")))
    (failure,) = kernel.route_batch([RouteOperation("add", "10.244.2.0/26", several)])
    assert (failure.error.errno, failure.error.said) == (errno.ENODEV, "No such device (there is no device eth7)")


def test_a_route_ends_with_the_device_of_a_next_hop(kernel):
    """The kernel removes an IPv4 route whole, and only the next hop of an IPv6 route."""
    second_uplink(kernel)
    write_route(kernel, "10.244.2.0/26", RouteAttributes(protocol=12).over(BOTH))
    write_route(kernel, "fd00:10:244:2::/122", RouteAttributes(protocol=12, metric=1024).over(BOTH6))
    kernel.link_delete("eth1")
    assert kernel.routes(protocol=12) == []
    left = RouteAttributes(device="eth0", gateway="fe80::2", protocol=12, metric=1024)
    assert kernel.routes(protocol=12, family=6) == [("fd00:10:244:2::/122", left)]


def test_routes_of_others_are_never_removed(kernel):
    underlay(kernel)
    for number, protocol in enumerate((3, 4, 12, 80)):
        attributes = RouteAttributes(device="eth0", gateway="10.10.1.66", protocol=protocol)
        write_route(kernel, f"10.244.{number}.0/26", attributes)
    before = sorted(kernel.routes(), key=repr)
    converge(route, kernel, [Route("10.244.9.0/26", "blackhole")])
    converge(route, kernel, [])
    assert sorted(kernel.routes(), key=repr) == before


def test_diff_removes_nothing_of_others_whatever_it_is_shown():
    observed = {
        (254, f"10.244.{protocol}.0/26", 0): RouteAttributes("blackhole", protocol=protocol) for protocol in range(256)
    }
    assert lines(route.diff([], observed)) == ["- route    10.244.179.0/26  blackhole"]


def test_our_route_with_a_metric_is_not_the_desired_one(kernel):
    underlay(kernel)
    write_route(kernel, "10.244.9.0/26", RouteAttributes("blackhole", protocol=179, metric=50))
    assert converge(route, kernel, [Route("10.244.9.0/26", "blackhole")]) == [
        "+ route    10.244.9.0/26  blackhole",
        "- route    10.244.9.0/26  blackhole metric 50",
    ]
    assert route_to(kernel, "10.244.9.0/26") == RouteAttributes("blackhole", protocol=179)


def test_route_without_its_device(kernel):
    assert fail(route, kernel, [Route("10.244.1.5/32", device="cali9")]) == (
        "route 10.244.1.5/32: There is no device cali9 to route through."
        " The kernel said: No such device (there is no device cali9). Run again to have it made."
    )


def test_route_through_a_device_that_is_down(kernel):
    kernel.link_add(NewLink("cali9", "veth", peer_name="wire9"))
    text = fail(route, kernel, [Route("10.244.1.5/32", device="cali9")])
    assert text.startswith("route 10.244.1.5/32: Device cali9 is down. The kernel said: Network is down")
    assert text.endswith("Set it up (ip link set cali9 up), then run again.")


def test_route_by_a_gateway_that_is_not_there(kernel):
    underlay(kernel)
    text = fail(route, kernel, [Route("10.244.1.0/26", device="eth0", gateway="172.31.0.1")])
    assert text.startswith(
        "route 10.244.1.0/26: The gateway 172.31.0.1 cannot be reached directly through eth0."
        " The kernel said: Network is unreachable"
    )
    assert text.endswith("Check the node's address and its interface (ip address), then run again.")


def test_each_of_many_failed_routes_is_named(kernel):
    underlay(kernel)
    desired = [Route(f"10.244.{n}.0/26", device="eth0" if n % 3 else "gone") for n in range(9)]
    text = fail(route, kernel, desired)
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "route 10.244.0.0/26",
        "route 10.244.3.0/26",
        "route 10.244.6.0/26",
    ]
    assert len(kernel.routes(protocol=179)) == 6


def test_a_routing_rule_is_added_and_removed(kernel):
    assert converge(rule, kernel, [RoutingRule(0xCA11, 179, 179)]) == ["+ rule     179  fwmark 0xca11 lookup 179"]
    assert RuleEntry(179, 179, 0xCA11, protocol=179) in kernel.rules()
    assert converge(rule, kernel, []) == ["- rule     179  fwmark 0xca11 lookup 179"]
    assert len(kernel.rules()) == 3


def test_a_rule_for_probes_replaces_one_by_mark(kernel):
    """A rule by interface and TOS is written, and an earlier release's rule by mark is removed as not desired."""
    by_mark, probes = RoutingRule(0xCA11, 179, 179), RoutingRule(0, 179, 179, interface="caliprobe", tos=0x1C)
    converge(rule, kernel, [by_mark])
    assert converge(rule, kernel, [probes]) == [
        "+ rule     179  iif caliprobe tos 0x1c lookup 179",
        "- rule     179  fwmark 0xca11 lookup 179",
    ]
    assert kernel.rules()[1] == RuleEntry(179, 179, 0, 0, protocol=179, interface="caliprobe", tos=0x1C)
    assert converge(rule, kernel, []) == ["- rule     179  iif caliprobe tos 0x1c lookup 179"]
    assert len(kernel.rules()) == 3


@pytest.mark.parametrize("protocol", [3, 179])
@pytest.mark.parametrize(
    ("rest", "serves"),
    [
        ({"interface": "caliprobe", "tos": 0x1C}, True),
        ({"interface": "cali1", "tos": 0x1C}, False),
        ({"interface": "caliprobe", "tos": 0x10}, False),
        ({"interface": "caliprobe"}, False),
        ({"tos": 0x1C}, False),
        ({"interface": "caliprobe", "tos": 0x1C, "fwmark": 1, "fwmask": 0xFFFFFFFF}, False),
    ],
)
def test_rules_beside_one_for_probes(kernel, rest, serves, protocol):
    """Only an equal rule serves as the one for probes; others are removed if they are ours."""
    other = RuleEntry(**{"priority": 179, "table": 179, "fwmask": 0, "protocol": protocol, **rest})
    kernel.rule_add(other)
    probes = [RoutingRule(0, 179, 179, interface="caliprobe", tos=0x1C)]
    done = converge(rule, kernel, probes)
    assert [line[0] for line in done] == ([] if serves else ["+", "-"] if protocol == 179 else ["+"])
    if protocol == 3:
        converge(rule, kernel, [])
        assert other in kernel.rules()


def test_rule_without_a_selector_is_never_ours(kernel):
    """A rule for all packets stays, also with our protocol number: the driver writes no such rule."""
    all_packets = RuleEntry(180, 179, fwmask=0, protocol=179)
    kernel.rule_add(all_packets)
    assert converge(rule, kernel, []) == []
    assert all_packets in kernel.rules()


def test_rule_of_somebody_else_serves_and_stays(kernel):
    theirs = RuleEntry(179, 179, 0xCA11, protocol=3)
    kernel.rule_add(theirs)
    assert converge(rule, kernel, [RoutingRule(0xCA11, 179, 179)]) == []
    assert converge(rule, kernel, []) == []
    assert theirs in kernel.rules()


def test_sysctls_in_order(kernel):
    kernel.link_add(NewLink("cali9", "veth", peer_name="wire9"))
    desired = [
        Sysctl("net/ipv4/neigh/cali9/proxy_delay", "0"),
        Sysctl("net/ipv4/conf/cali9/proxy_arp", "1"),
        Sysctl("net/ipv4/conf/cali9/route_localnet", "0"),
    ]
    assert converge(sysctl, kernel, desired) == [
        "~ sysctl   net.ipv4.neigh.cali9.proxy_delay  80  ->  0",
        "~ sysctl   net.ipv4.conf.cali9.proxy_arp  0  ->  1",
    ]
    assert kernel.sysctl_read("net/ipv4/conf/cali9/proxy_arp") == "1"


@pytest.mark.parametrize("name", ["forwarding", "accept_redirects"])
def test_sysctls_that_ip_forward_resets_are_set_again(kernel, name):
    underlay(kernel)
    desired = [Sysctl("net/ipv4/ip_forward", "1"), Sysctl(f"net/ipv4/conf/eth0/{name}", "0")]
    converge(sysctl, kernel, desired)
    assert kernel.sysctl_read("net/ipv4/ip_forward") == "1"
    assert kernel.sysctl_read(f"net/ipv4/conf/eth0/{name}") == "0"


def test_sysctl_that_is_not_there(kernel):
    assert fail(sysctl, kernel, [Sysctl("net/ipv4/conf/eth0.5/proxy_arp", "1")]) == (
        "sysctl net.ipv4.conf.eth0/5.proxy_arp: There is no /proc/sys/net/ipv4/conf/eth0.5/proxy_arp to write 1 to."
        " Its interface is missing or the kernel was built without it; see which, then run again."
    )
