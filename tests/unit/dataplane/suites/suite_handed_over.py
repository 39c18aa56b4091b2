# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads whose inner end a container engine moves and configures: what is compared, repaired and left alone."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import VethEndpoint

from tests.unit.dataplane.suites.drivers import route_to
from tests.unit.dataplane.suites.suite_attach import host, planned, state
from tests.unit.dataplane.suites.suite_node import state_of

END = "calit111"
BOX = VethEndpoint(
    "box",
    "cali111",
    "10.244.1.5",
    1450,
    "pool",
    netns_owned=False,
    peer_interface=END,
    mac="02:42:00:00:00:05",
    handed_over=True,
)


def moved(kernel, move, path, name="eth0", endpoint=BOX):
    """Do what a container engine does to the inner end, and return the endpoint with the path of the namespace."""
    move(END, path, name)
    inner = kernel.inside(path)
    inner.address_add(InterfaceAddress(name, "10.244.1.5", 32))
    inner.link_set(name, up=True)
    kernel.leave(path)
    return dataclasses.replace(endpoint, netns=path)


@pytest.fixture
def box(kernel, netns_path, move):
    """The workload BOX of a configured host, in a container."""
    host(kernel)
    attach.attach(kernel, BOX)
    return moved(kernel, move, netns_path("box"))


def test_both_ends_stay_on_the_host_and_the_drivers_find_nothing_to_do(kernel):
    host(kernel)
    assert attach.attach(kernel, BOX) == ("02:42:00:00:00:05", 1450, "")
    end = kernel.link(END)
    assert (end.mac, end.mtu, end.up) == ("02:42:00:00:00:05", 1450, False)
    assert kernel.addresses(END) == [] and kernel.link("cali111").up
    assert route_to(kernel, "10.244.1.5/32").device == "cali111"
    assert planned(kernel, BOX) == []
    assert workload.left_here(kernel, [BOX]) == {"cali111"}


def test_it_may_be_attached_again(kernel, netns_path, move):
    host(kernel)
    attached = attach.attach(kernel, BOX)
    assert attach.attach(kernel, BOX) == attached
    box = moved(kernel, move, netns_path("box"))
    assert attach.attach(kernel, box) == attached
    # Without the path of the namespace, the inner end cannot be found: what was asked for is said.
    assert attach.attach(kernel, BOX) == attached
    assert planned(kernel, box) == []


def test_the_inside_is_the_engines(kernel, box):
    """Another name, more addresses, no addresses, no routes and a namespace of no path are no differences."""
    inner = kernel.inside(box.netns)
    assert workload.left_here(kernel, [box]) == set()
    for change in (
        lambda: inner.address_add(InterfaceAddress("eth0", "10.9.9.9", 24)),
        lambda: inner.link_set("eth0", mac="02:42:00:00:00:99"),
        lambda: inner.link_set("eth0", up=False),
    ):
        change()
        assert planned(kernel, box) == []
    assert planned(kernel, dataclasses.replace(box, netns="/var/run/docker/netns/none")) == []
    assert planned(kernel, dataclasses.replace(box, netns="")) == []


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda kernel: kernel.link_set("cali111", up=False), "host end down"),
        (lambda kernel: kernel.link_set("cali111", mac="02:00:00:00:00:77"), "mac 02:00:00:00:00:77"),
        (lambda kernel: kernel.link_set("cali111", mtu=1400), "mtu 1400"),
    ],
    ids=["down", "mac", "mtu"],
)
def test_the_host_end_is_repaired(kernel, box, damage, line):
    damage(kernel)
    assert any(line in found for found in planned(kernel, box)), planned(kernel, box)
    apply_node(kernel, plan_node(kernel, state(box)))
    assert planned(kernel, box) == []


def test_a_new_mtu_reaches_both_ends(kernel, box):
    for mtu in (1300, 1480):
        wanted = dataclasses.replace(box, mtu=mtu)
        apply_node(kernel, plan_node(kernel, state(wanted)))
        assert (kernel.link("cali111").mtu, kernel.inside(box.netns).link("eth0").mtu) == (mtu, mtu)
        assert planned(kernel, wanted) == []


def test_it_ends_with_its_pair(kernel, box):
    """Nothing is made anew: only the engine can move another pair into the container."""
    kernel.inside(box.netns).link_delete("eth0")
    assert planned(kernel, box) == [
        "= workload default/box  calit111 10.244.1.5  host end cali111  mtu 1450"
        "    its pair is gone, and only its container engine can make another one"
    ]
    assert workload.left_here(kernel, [box]) == {"cali111"}
    assert workload.complete_handed_over(kernel, box)


def test_nothing_is_left_of_what_was_handed_over(kernel, netns_path, move):
    host(kernel)
    path = netns_path("box")
    before = state_of(kernel)
    attach.attach(kernel, BOX)
    attach.detach_route(kernel, BOX)
    assert not attach.detach_links(kernel, [BOX])
    assert state_of(kernel) == before
    attach.attach(kernel, BOX)
    box = moved(kernel, move, path)
    attach.detach_route(kernel, box)
    assert not attach.detach_links(kernel, [box])
    assert state_of(kernel) == before
    assert kernel.inside(path).link("eth0") is None


def test_a_device_of_others_with_the_name_of_the_host_end(kernel):
    host(kernel)
    kernel.link_add(NewLink("cali111", "bridge"))
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, BOX)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        "A device cali111 exists on this host that this collection did not make. It was not touched. Rename or delete"
        " it (ip link del cali111), then run again.",
    )
    assert kernel.link(END) is None


def test_a_device_of_others_with_the_name_of_the_inner_end(kernel):
    host(kernel)
    kernel.link_add(NewLink(END, "bridge"))
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, BOX)
    assert caught.value.code == "kernel" and "Nothing of it was left behind" in str(caught.value)
    assert kernel.link("cali111") is None and kernel.link(END) is not None


def test_a_second_interface_answers_by_itself(kernel, netns_path, move):
    """Once the engine is done, packets from the address of eth1 leave by eth1."""
    host(kernel)
    attach.attach(kernel, BOX)
    path = netns_path("box")
    box = dataclasses.replace(BOX, netns=path)
    assert not workload.complete_handed_over(kernel, box)  # it is not moved yet
    move(END, path, "eth1")
    inner = kernel.inside(path)
    assert not workload.complete_handed_over(kernel, box)
    inner.link_set("eth1", up=True)
    assert not workload.complete_handed_over(kernel, box)  # the address is missing
    inner.address_add(InterfaceAddress("eth1", "10.244.1.5", 32))
    for _ in range(2):
        assert workload.complete_handed_over(kernel, box)
        assert [(rule.source, rule.priority) for rule in inner.rules(4) if rule.source] == [("10.244.1.5", 1790)]
        table = next(rule.table for rule in inner.rules(4) if rule.source)
        assert [(to, through.device) for to, through in inner.routes(table=table)] == [("0.0.0.0/0", "eth1")]
        assert ("0.0.0.0/0", 101) in {(to, through.metric) for to, through in inner.routes(table=254)}
    assert planned(kernel, box) == []


def test_the_first_interface_answers_by_itself_too(kernel, box):
    """Another network's interface may get the default route later: the engine's routes stay, ours have a metric."""
    inner = kernel.inside(box.netns)
    inner.write([RouteOperation("add", "10.99.0.0/16", RouteAttributes(device="eth0", scope=253, protocol=3))])
    before = inner.routes(table=254)
    for _ in range(2):
        assert workload.complete_handed_over(kernel, box, ["10.244.0.0/16", "fd00:10:244::/48"])
        after = inner.routes(table=254)
        assert [entry for entry in after if entry in before] == before
        added = {(to, through.gateway, through.metric) for to, through in after if (to, through) not in before}
        assert added == {
            ("169.254.1.1/32", None, 100),
            ("0.0.0.0/0", "169.254.1.1", 100),
        }
        # dockerd refuses an address that a route of the main table contains, so those to pools are in another one.
        to_pools = [(to, route.gateway, route.metric) for to, route in inner.routes(table=179_000_000)]
        assert to_pools == [("10.244.0.0/16", "169.254.1.1", 100)]
        assert [rule.priority for rule in inner.rules(4) if rule.table == 179_000_000] == [1791]
        assert [(rule.source, rule.table) for rule in inner.rules(4) if rule.source] == [("10.244.1.5", 179_000_100)]
    assert planned(kernel, box) == []
