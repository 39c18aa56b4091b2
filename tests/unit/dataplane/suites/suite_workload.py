# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the driver of workload endpoints, on any kernel."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import HOST_MAC, VethEndpoint

from tests.unit.dataplane.suites.drivers import converge, fail, route_to, underlay, write_route

WEB = VethEndpoint("web-1", "cali111", "10.244.1.5", 1450, "default", netns="web-1")
DB = VethEndpoint("db-1", "cali222", "10.244.1.6", 1450, "default", netns="db-1", namespace="prod")


def inside(kernel, endpoint=WEB):
    """Return (mtu, up, addresses, {destination: (gateway, device, mtu)}) of eth0 and the routes, as seen inside.

    All is of IPv4. An MTU is in bytes, None for a route without its own. Raise KernelError if the namespace does not
    exist, and AttributeError if it has no eth0.
    """
    inner = kernel.inside(endpoint.netns)
    link = inner.link("eth0")
    shown = {destination: (route.gateway, route.device, route.mtu) for destination, route in inner.routes(table=254)}
    return link.mtu, link.up, [address.address for address in inner.addresses("eth0")], shown


def test_workload_is_made(kernel):
    underlay(kernel)
    assert converge(workload, kernel, [WEB, DB]) == [
        "+ workload default/web-1  eth0 10.244.1.5  host end cali111  mtu 1450",
        "+ workload prod/db-1  eth0 10.244.1.6  host end cali222  mtu 1450",
    ]
    link = kernel.link("cali111")
    assert (link.kind, link.mtu, link.mac, link.up, link.running) == ("veth", 1450, "ee:ee:ee:ee:ee:ee", True, True)
    assert link.alias == "calico: workload default/web-1"
    assert kernel.link("cali222").alias == "calico: workload prod/db-1"
    assert inside(kernel) == (
        1450,
        True,
        ["10.244.1.5"],
        {"169.254.1.1/32": (None, "eth0", None), "0.0.0.0/0": ("169.254.1.1", "eth0", None)},
    )
    inner = kernel.inside("web-1")
    assert inner.addresses("eth0") == [InterfaceAddress("eth0", "10.244.1.5", 32)]
    assert inner.link("lo").up
    assert kernel.netns_owners() == {"web-1": "default/web-1", "db-1": "prod/db-1"}


def test_host_end_stays_down_until_activated(kernel):
    changes = workload.diff([WEB], workload.observe(kernel, [WEB]))
    workload.apply(kernel, changes)
    assert not kernel.link("cali111").up
    # A run may be stopped here. The next run completes the workload.
    assert converge(workload, kernel, [WEB]) == ["~ workload default/web-1  host end down  ->  host end up"]
    assert kernel.link("cali111").up


def test_mtu_changes_on_both_ends(kernel):
    converge(workload, kernel, [WEB])
    assert converge(workload, kernel, [dataclasses.replace(WEB, mtu=1400)]) == [
        "~ workload default/web-1  mtu 1450  eth0 mtu 1450  ->  mtu 1400  eth0 mtu 1400"
    ]
    assert kernel.link("cali111").mtu == 1400
    assert inside(kernel)[0] == 1400


def test_route_mtu_comes_and_goes(kernel):
    converge(workload, kernel, [WEB])
    assert converge(workload, kernel, [dataclasses.replace(WEB, route_mtu=1400)]) == [
        "~ workload default/web-1  169.254.1.1 dev eth0  default via 169.254.1.1"
        "  ->  169.254.1.1 dev eth0 mtu 1400  default via 169.254.1.1 mtu 1400"
    ]
    assert inside(kernel)[3] == {
        "169.254.1.1/32": (None, "eth0", 1400),
        "0.0.0.0/0": ("169.254.1.1", "eth0", 1400),
    }
    converge(workload, kernel, [WEB])
    assert inside(kernel)[3]["0.0.0.0/0"] == ("169.254.1.1", "eth0", None)


def test_new_workload_with_route_mtu(kernel):
    converge(workload, kernel, [dataclasses.replace(WEB, route_mtu=1400)])
    assert inside(kernel)[3]["0.0.0.0/0"] == ("169.254.1.1", "eth0", 1400)


def test_address_changes(kernel):
    converge(workload, kernel, [WEB])
    kernel.inside("web-1").address_add(InterfaceAddress("eth0", "192.0.2.7", 32))
    assert converge(workload, kernel, [dataclasses.replace(WEB, address="10.244.1.50")]) == [
        "~ workload default/web-1  address 10.244.1.5  ->  address 10.244.1.50"
    ]
    assert sorted(inside(kernel)[2]) == ["10.244.1.50", "192.0.2.7"]


def test_an_address_that_was_added_inside_with_another_prefix_length_is_removed(kernel):
    """Root inside records an address as ours, and adds it with other prefix lengths than ours."""
    converge(workload, kernel, [WEB])
    inner = kernel.inside("web-1")
    inner.link_set("eth0", alias="calico: address 10.9.9.9")
    inner.address_add(InterfaceAddress("eth0", "10.9.9.9", 24))
    inner.address_add(InterfaceAddress("eth0", "10.9.9.9", 16))
    assert converge(workload, kernel, [WEB]) == ["~ workload default/web-1  address 10.9.9.9  ->  address none"]
    assert inner.addresses("eth0") == [InterfaceAddress("eth0", "10.244.1.5", 32)]


@pytest.mark.parametrize("breakage", ["host end down", "peer down", "no address", "no route", "lo down", "other mac"])
def test_a_workload_broken_by_others_is_repaired(kernel, breakage):
    converge(workload, kernel, [WEB])
    good = inside(kernel)
    inner = kernel.inside("web-1")
    if breakage == "host end down":
        kernel.link_set("cali111", up=False)
    elif breakage == "peer down":
        inner.link_set("eth0", up=False)
    elif breakage == "no address":
        inner.address_delete(InterfaceAddress("eth0", "10.244.1.5", 32))
    elif breakage == "no route":
        inner.link_set("eth0", up=False)
        inner.link_set("eth0", up=True)
    elif breakage == "lo down":
        inner.link_set("lo", up=False)
    else:
        kernel.link_set("cali111", mac="02:00:00:00:00:99")
    assert len(converge(workload, kernel, [WEB])) == 1
    assert inside(kernel) == good
    assert kernel.link("cali111").mac == "ee:ee:ee:ee:ee:ee"


def test_a_few_can_be_looked_at_alone(kernel):
    other = dataclasses.replace(WEB, name="theirs", interface="cali333", netns="nowhere", netns_owned=False)
    absent = dataclasses.replace(WEB, name="absent", interface="cali444", netns="absent")
    converge(workload, kernel, [WEB, DB])
    assert workload.unlike(kernel, [WEB, DB, other]) == []
    kernel.inside("db-1").link_set("lo", up=False)
    assert workload.unlike(kernel, [WEB, DB, other, absent]) == ["cali222", "cali444"]
    assert workload.unlike(kernel, [WEB]) == []
    kernel.link_set("cali111", mtu=1300)
    assert workload.unlike(kernel, [WEB]) == ["cali111"]
    kernel.link_delete("cali111")
    assert workload.unlike(kernel, [WEB]) == ["cali111"]


def test_stale_workload_goes_with_the_namespace_we_made(kernel):
    converge(workload, kernel, [WEB, DB])
    assert converge(workload, kernel, [DB]) == [
        "- workload default/web-1  host end cali111    with its network namespace web-1"
    ]
    assert kernel.link("cali111") is None
    assert "web-1" not in kernel.netns_list()
    assert "db-1" in kernel.netns_list()


def test_namespace_of_somebody_else_stays(kernel):
    kernel.netns_add("theirs", "")
    endpoint = dataclasses.replace(WEB, netns="theirs")
    converge(workload, kernel, [endpoint])
    assert converge(workload, kernel, []) == ["- workload default/web-1  host end cali111"]
    assert "theirs" in kernel.netns_list()
    assert kernel.inside("theirs").link("eth0") is None


def test_namespace_whose_pair_is_gone_goes_too(kernel):
    converge(workload, kernel, [WEB])
    kernel.link_delete("cali111")
    assert converge(workload, kernel, []) == ["- workload default/web-1  network namespace web-1"]
    assert "web-1" not in kernel.netns_list()


def test_workload_moves_to_another_namespace(kernel):
    converge(workload, kernel, [WEB])
    moved = dataclasses.replace(WEB, netns="elsewhere")
    assert converge(workload, kernel, [moved]) == [
        "~ workload default/web-1  host end cali111  not joined"
        "  ->  eth0 10.244.1.5  host end cali111  mtu 1450"
        "    made anew: its pair does not end in network namespace elsewhere",
        "- workload default/web-1  network namespace web-1",
    ]
    assert inside(kernel, moved)[2] == ["10.244.1.5"]
    assert "web-1" not in kernel.netns_list()


def test_a_pair_that_is_to_be_made_anew_may_go_by_itself_meanwhile(kernel):
    converge(workload, kernel, [WEB])
    moved = dataclasses.replace(WEB, netns="elsewhere")
    changes = workload.diff([moved], workload.observe(kernel, [moved]))
    kernel.link_delete("cali111")
    workload.apply(kernel, changes)
    assert inside(kernel, moved)[2] == ["10.244.1.5"]


def test_pair_left_unmarked_by_a_stopped_run_is_ours(kernel):
    kernel.netns_add("web-1", "default/web-1")
    kernel.link_add(NewLink("cali111", "veth", 1450, HOST_MAC, peer_name="eth0", peer_netns="web-1"))
    converge(workload, kernel, [WEB])
    assert kernel.link("cali111").alias == "calico: workload default/web-1"


def test_a_name_of_the_hosts_own_namespace_is_reported_and_left(kernel, own_namespace):
    """A workload is refused, and no device made, if its namespace's name leads to the host's own namespace."""
    own_namespace("web-1")
    before = sorted(link.name for link in kernel.links())
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: Network namespace web-1 cannot be a workload's: it is that of the host itself."
        " It was not touched. Give the workload another namespace, then run again."
    )
    assert sorted(link.name for link in kernel.links()) == before


def test_foreign_host_device_is_reported_and_left(kernel):
    kernel.link_add(NewLink("cali111", "bridge"))
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: A device cali111 exists on this host that this collection did not make."
        " It was not touched. Rename or delete it (ip link del cali111), then run again."
    )
    assert kernel.link("cali111").kind == "bridge"
    assert kernel.netns_list() == [] or "web-1" not in kernel.netns_list()


def test_taken_device_inside_is_reported_and_left(kernel):
    kernel.netns_add("web-1", "")
    kernel.inside("web-1").link_add(NewLink("eth0", "bridge"))
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: Inside network namespace web-1 there is a device eth0 already, which is not this"
        " workload's. It was not touched. Give the workload another endpoint name or another namespace, then run again."
    )
    assert kernel.link("cali111") is None


def test_foreign_default_route_inside_is_reported_and_left(kernel):
    kernel.netns_add("web-1", "")
    inner = kernel.inside("web-1")
    inner.link_add(NewLink("out0", "veth", peer_name="out1"))
    inner.link_set("out1", up=True)
    inner.link_set("out0", up=True)
    theirs = RouteAttributes(device="out0", scope=253)
    write_route(inner, "0.0.0.0/0", theirs)
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: Inside network namespace web-1 there is a route default through out0 already."
        " It was not touched. Delete it (ip netns exec web-1 ip route del default), then run again."
    )
    assert route_to(inner, "0.0.0.0/0") == theirs


def test_the_others_are_made_when_one_cannot_be(kernel):
    kernel.link_add(NewLink("cali111", "bridge"))
    fail(workload, kernel, [WEB, DB])
    assert inside(kernel, DB)[2] == ["10.244.1.6"]


def test_workloads_that_are_not_asked_about_are_left(kernel):
    """Workloads that were observed and are not asked about give no changes, whether they are made or not."""
    converge(workload, kernel, [WEB])
    assert workload.diff([], workload.observe(kernel, [WEB, DB])) == []
