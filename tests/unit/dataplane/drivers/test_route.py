# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers of routes, rules and neighbours: their words, and errors that mean that the work is done."""

from __future__ import annotations

import errno
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import neighbor, route, rule
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    METRIC_IPV6,
    NextHop,
    RouteAttributes,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    ROUTE_PROTOCOL,
    Neighbor,
    Route,
    RoutingRule,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, lines, underlay

BLACKHOLE = Route("10.244.3.0/26", "blackhole")
MARKED = RoutingRule(fwmark=0x1, table=200, priority=100)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"type": "blackhole"}, "blackhole"),
        ({"device": "cali1"}, "dev cali1"),
        (
            {"device": "tunl0", "gateway": "10.10.1.12", "onlink": True, "mtu": 1480},
            "via 10.10.1.12 dev tunl0 onlink mtu 1480",
        ),
        ({"device": "eth0", "metric": 100, "source": "10.10.1.11"}, "dev eth0 metric 100 src 10.10.1.11"),
        ({"device": "eth0", "metric": METRIC_IPV6}, "dev eth0"),
        (
            {"multipath": (NextHop("eth0", "10.10.1.2"), NextHop("eth1", "10.10.3.2", True, 2)), "mtu": 1400},
            "nexthop via 10.10.1.2 dev eth0 nexthop via 10.10.3.2 dev eth1 onlink weight 2 mtu 1400",
        ),
        (
            {"multipath": (NextHop("eth0"), NextHop("eth1")), "table": 253},
            "nexthop dev eth0 nexthop dev eth1 table 253",
        ),
    ],
)
def test_a_route_is_worded_as_by_ip_route(fields: dict[str, t.Any], text: str) -> None:
    assert route.text(RouteAttributes(**fields)) == text


@pytest.mark.parametrize(
    ("number", "name"), [(12, "bird"), (2, "kernel"), (186, "bgp"), (80, "80 (Calico's Felix)"), (99, "99")]
)
def test_a_protocol_is_named_as_in_rt_protos(number: int, name: str) -> None:
    assert route.protocol_name(number) == name


def test_routes_that_differ_in_one_thing_are_written_each_with_its_own(kernel: FakeKernel) -> None:
    """Adjacent routes share what is equal, so a difference in anything has to be seen."""
    underlay(kernel)
    first = Route("10.244.0.0/26", "unicast", "eth0", "10.10.1.12", mtu=1400)
    others = [
        Route("10.244.1.0/26", "unicast", "eth0", "10.10.1.13", mtu=1400),
        Route("10.244.2.0/26", "unicast", "eth0", "10.10.1.12", mtu=1450),
        Route("10.244.4.0/26", "unicast", "eth0", "10.10.1.12", mtu=1400, onlink=True),
        Route("10.244.5.0/26", "unicast", "eth0", mtu=1400),
        Route("10.244.6.0/26", "blackhole"),
        Route("fd00:5::/122", "blackhole"),
    ]
    for other in others:
        converge(route, kernel, [first, other])
        converge(route, kernel, [other, first])
        found = {key[1]: value for key, value in route.observe(kernel, [first, other]).items()}
        assert found == {one.destination: route.attributes_of(one) for one in (first, other)}


@pytest.mark.parametrize(
    ("error", "ignored"), [(errno.ESRCH, True), (errno.ENODEV, True), (errno.EPERM, False), (errno.EINVAL, False)]
)
def test_a_route_that_is_gone_already_was_deleted(kernel: FakeKernel, error: int, ignored: bool) -> None:
    converge(route, kernel, [BLACKHOLE])
    changes = route.diff([], route.observe(kernel, []))
    kernel.fail_next("route_batch", error, BLACKHOLE.destination)
    if ignored:
        route.apply(kernel, changes)
    else:
        with pytest.raises(ApplyError, match="was refused"):
            route.apply(kernel, changes)


def test_an_error_that_means_gone_is_no_success_of_an_addition(kernel: FakeKernel) -> None:
    kernel.fail_next("route_batch", errno.ESRCH, BLACKHOLE.destination)
    with pytest.raises(ApplyError, match="was refused"):
        route.apply(kernel, route.diff([BLACKHOLE], route.observe(kernel, [BLACKHOLE])))


@pytest.mark.parametrize(("destination", "ip"), [("10.244.9.0/26", "ip route"), ("fd00:9::/122", "ip -6 route")])
def test_a_route_of_others_is_named_with_the_command_that_deletes_it(destination: str, ip: str) -> None:
    wanted = Route(destination, "blackhole")
    theirs = route.attributes_of(wanted)._replace(protocol=4)
    (change,) = route.diff([wanted], {route.place(wanted): theirs})
    assert change.action == "!"
    assert f"blackhole proto static. It was not touched. Delete it ({ip} del {destination} proto 4)" in change.note


@pytest.mark.parametrize(
    ("fields", "is_ours"),
    [
        ({}, True),
        ({"plain": False}, False),
        ({"fwmask": 0xFF}, False),
        ({"priority": 101}, False),
        ({"fwmark": 2}, False),
        ({"table": 201}, False),
    ],
)
def test_a_rule_of_others_serves_only_if_it_is_the_same(
    kernel: FakeKernel, fields: dict[str, t.Any], is_ours: bool
) -> None:
    kernel.rule_add(RuleEntry(**{"priority": 100, "table": 200, "fwmark": 1, "protocol": 4, **fields}))
    assert bool(rule.diff([MARKED], rule.observe(kernel, [MARKED]))) != is_ours
    assert rule.diff([], rule.observe(kernel, [])) == [], "it is never removed"


@pytest.mark.parametrize(
    ("adding", "error", "ignored"),
    [
        (True, errno.EEXIST, True),
        (True, errno.ENOENT, False),
        (False, errno.ENOENT, True),
        (False, errno.EEXIST, False),
    ],
)
def test_a_rule_that_is_there_or_gone_already_is_done(
    kernel: FakeKernel, adding: bool, error: int, ignored: bool
) -> None:
    if not adding:
        converge(rule, kernel, [MARKED])
    desired = [MARKED] if adding else []
    changes = rule.diff(desired, rule.observe(kernel, desired))
    kernel.fail_next("rule_add" if adding else "rule_delete", error)
    if ignored:
        rule.apply(kernel, changes)
    else:
        with pytest.raises(ApplyError):
            rule.apply(kernel, changes)


def test_the_subject_of_a_rule_names_ipv6(kernel: FakeKernel) -> None:
    six = RoutingRule(fwmark=0x1, table=200, priority=100, family=6)
    assert lines(rule.diff([MARKED, six], {})) == [
        "+ rule     100  fwmark 0x1 lookup 200",
        "+ rule     100 (IPv6)  fwmark 0x1 lookup 200",
    ]
    ours = RuleEntry(100, 200, 1, protocol=ROUTE_PROTOCOL)
    assert lines(rule.diff([], {rule.RuleKey(100, 1, 200, 4): ours})) == ["- rule     100  fwmark 0x1 lookup 200"]


@pytest.mark.parametrize(("error", "ignored"), [(errno.ENOENT, True), (errno.ENODEV, True), (errno.EPERM, False)])
def test_a_neighbour_that_is_gone_already_was_deleted(kernel: FakeKernel, error: int, ignored: bool) -> None:
    underlay(kernel)
    entry = Neighbor("eth0", "10.244.7.0", "66:00:00:00:00:07")
    converge(neighbor, kernel, [entry])
    changes = neighbor.diff([], neighbor.observe(kernel, [entry]))
    assert [change.action for change in changes] == ["-"]
    kernel.fail_next("neighbor_delete", error)
    if ignored:
        neighbor.apply(kernel, changes)
    else:
        with pytest.raises(ApplyError):
            neighbor.apply(kernel, changes)
