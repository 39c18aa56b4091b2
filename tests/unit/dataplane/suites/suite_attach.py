# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload attached and detached: the result equals that of the drivers, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import errno
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    KernelError,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_routes,
    endpoint_sysctls,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    HOST_MAC,
    NodeState,
    Route,
    Sysctl,
    VethEndpoint,
)

from tests.unit.dataplane.suites.drivers import OWN, route_to, underlay, write_route
from tests.unit.dataplane.suites.suite_node import state_of

WEB = VethEndpoint("web-1", "cali111", "10.244.1.5", 1450, "pool", netns="web-1")
POD = dataclasses.replace(WEB, netns="pod", netns_owned=False)
BLOCK = Route("10.244.1.0/26", "blackhole")


def state(*endpoints):
    """Return the NodeState that an agent would want with these workloads."""
    return NodeState(
        node="node1",
        address=f"{OWN}/24",
        workloads=endpoints,
        routes=(BLOCK, *(route for found in endpoints for route in endpoint_routes(found))),
        sysctls=(Sysctl("net/ipv4/ip_forward", "1"), *(s for found in endpoints for s in endpoint_sysctls(found))),
    )


def planned(kernel, *endpoints):
    plan = plan_node(kernel, state(*endpoints))
    return [change.line() for change in (*plan.changes, *plan.kept)]


def host(kernel):
    underlay(kernel)
    apply_node(kernel, plan_node(kernel, state()))


def test_the_drivers_find_nothing_to_do_afterwards(kernel):
    host(kernel)
    attached = attach.attach(kernel, WEB)
    peer = kernel.inside("web-1").link("eth0")
    assert attached == (peer.mac, 1450, kernel.inside("web-1").identity)
    assert planned(kernel, WEB) == []
    assert kernel.netns_owners() == {"web-1": "default/web-1"}


@pytest.mark.parametrize("endpoint", [WEB, POD], ids=["ours", "theirs"])
def test_nothing_is_left_after_it_is_detached(kernel, endpoint):
    host(kernel)
    kernel.netns_add("pod", "")
    before = state_of(kernel)
    attach.attach(kernel, endpoint)
    attach.detach_route(kernel, endpoint)
    assert route_to(kernel, "10.244.1.5/32") is None
    assert kernel.link("cali111").up
    assert not attach.detach_links(kernel, [endpoint])
    assert state_of(kernel) == before
    assert [link.name for link in kernel.inside("pod").links() if link.kind == "veth"] == []
    assert planned(kernel) == []


def test_all_of_it_may_be_repeated(kernel):
    host(kernel)
    first = attach.attach(kernel, WEB)
    assert attach.attach(kernel, WEB) == first
    assert planned(kernel, WEB) == []
    for _again in range(2):
        attach.detach_route(kernel, WEB)
        assert not attach.detach_links(kernel, [WEB])
    assert planned(kernel) == []


def test_mac_and_route_mtu_are_as_asked_for(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    asked = dataclasses.replace(POD, mac="02:11:22:33:44:55", mtu=1400, route_mtu=1300, peer_interface="net1")
    assert attach.attach(kernel, asked)[:2] == ("02:11:22:33:44:55", 1400)
    assert planned(kernel, asked) == []
    inner = kernel.inside("pod")
    assert (inner.link("net1").mac, inner.link("net1").mtu) == ("02:11:22:33:44:55", 1400)
    assert dict(inner.routes(table=254))["0.0.0.0/0"].mtu == 1300
    other = dataclasses.replace(asked, mac="02:11:22:33:44:66")
    assert planned(kernel, other) == [
        "~ workload default/web-1  net1 mac 02:11:22:33:44:55  ->  net1 mac 02:11:22:33:44:66"
    ]
    assert attach.attach(kernel, other).mac == "02:11:22:33:44:66"
    assert planned(kernel, other) == []


def test_a_namespace_of_somebody_else_is_not_made(kernel):
    host(kernel)
    before = state_of(kernel)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, POD)
    assert (caught.value.code, str(caught.value)) == (
        "not_found",
        "There is no network namespace pod to attach default/web-1 to."
        " Make it first (or see why its container is gone), then try again.",
    )
    assert state_of(kernel) == before


def test_a_namespace_of_somebody_else_may_be_attached_twice(kernel):
    """Two workloads may be attached to a namespace of others, as eth0 and net1, in any order, and each be detached.

    The routes of eth0 are preferred: their metric is lower.
    """
    host(kernel)
    kernel.netns_add("pod", "")
    first = POD
    second = dataclasses.replace(POD, name="web-2", interface="cali222", address="10.244.1.6", peer_interface="net1")
    for one, other in ((first, second), (second, first)):
        attach.attach(kernel, one)
        attach.attach(kernel, other)
        attach.attach(kernel, one)  # An attached workload is brought into order by the drivers.
        assert planned(kernel, first, second) == []
        routes = kernel.inside("pod").routes(table=254)
        found = {(to, through.device, through.metric) for to, through in routes}
        assert found == {
            *((to, "eth0", 0) for to in ("0.0.0.0/0", "169.254.1.1/32")),
            *((to, "net1", 101) for to in ("0.0.0.0/0", "169.254.1.1/32")),
        }
        attach.detach_route(kernel, one)
        assert not attach.detach_links(kernel, [one])
        assert planned(kernel, other) == []
        attach.detach_route(kernel, other)
        assert not attach.detach_links(kernel, [other])


@pytest.mark.parametrize(
    ("there", "other", "metric"), [("data", "ctrl", 100), ("net1", "sec1", 101), ("net2", "x000002", 102)]
)
def test_two_further_interfaces_of_the_same_number_are_refused_in_words(kernel, there, other, metric):
    """The second interface is refused with the reason, and the first one keeps its routes."""
    host(kernel)
    kernel.netns_add("pod", "")
    first = dataclasses.replace(POD, peer_interface=there)
    second = dataclasses.replace(POD, name="web-2", interface="cali222", address="10.244.1.6", peer_interface=other)
    attach.attach(kernel, first)
    before = state_of(kernel)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, second)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        f"Inside network namespace pod the interfaces {there} and {other} would have routes of the same metric,"
        f" {metric}: it is 100 plus the number at the end of the name, 0 without one. Nothing was changed. Give the"
        " interface another name, with a number that no other interface of this namespace has (such as net2), then try"
        " again.",
    )
    assert state_of(kernel) == before
    assert planned(kernel, first) == []


def test_a_workload_ends_with_a_namespace_of_somebody_else(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    attach.attach(kernel, POD)
    kernel.netns_delete("pod")
    wait_for(lambda: kernel.link("cali111") is None)
    assert planned(kernel, POD) == [
        "= workload default/web-1  eth0 10.244.1.5  host end cali111  mtu 1450    its network namespace is gone"
    ]
    apply_node(kernel, plan_node(kernel, state(POD)))
    assert (kernel.link("cali111"), "pod" in kernel.netns_list()) == (None, False)
    for kind in ("route", "sysctl"):
        assert plan_node(kernel, state(POD), kinds=[kind]).changes == ()


def test_a_name_that_leads_to_another_namespace_is_not_repaired_into(kernel):
    """If the name of a workload's namespace leads to another namespace, nothing is changed in that one."""
    host(kernel)
    kernel.netns_add("pod", "")
    endpoint = attached_to(kernel, POD)
    kernel.leave("pod")
    kernel.netns_delete("pod")
    wait_for(lambda: kernel.link("cali111") is None)
    kernel.netns_add("pod", "")
    before = kernel.observe_namespace("pod")
    assert planned(kernel, endpoint) == [
        "= workload default/web-1  eth0 10.244.1.5  host end cali111  mtu 1450"
        "    pod does not lead to the network namespace that it was attached to"
    ]
    assert workload.unlike(kernel, [endpoint]) == []
    apply_node(kernel, plan_node(kernel, state(endpoint)))
    assert (kernel.observe_namespace("pod"), kernel.link("cali111")) == (before, None)
    for kind in ("route", "sysctl"):
        assert plan_node(kernel, state(endpoint), kinds=[kind]).changes == ()
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, endpoint)
    assert (caught.value.code, caught.value.field, str(caught.value)) == (
        "conflict",
        "netns",
        "default/web-1 was attached to another network namespace than the one that pod leads to now. It was not"
        " touched. Delete the workload, then add it again.",
    )
    assert kernel.observe_namespace("pod") == before
    attach.detach_route(kernel, endpoint)
    assert not attach.detach_links(kernel, [endpoint])
    assert planned(kernel) == []


def test_a_plan_that_another_namespace_came_between_is_not_carried_out_there(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    endpoint = attached_to(kernel, POD)
    kernel.link_delete("cali111")
    plan = plan_node(kernel, state(endpoint))
    assert [change.action for change in plan.additions if change.kind == "workload"] == ["+"]
    kernel.leave("pod")
    kernel.netns_delete("pod")
    kernel.netns_add("pod", "")
    with pytest.raises(ApplyError, match=r"enter network namespace pod\. The kernel said: .* than the workload was"):
        apply_node(kernel, plan)
    assert kernel.link("cali111") is None
    assert [link.name for link in kernel.observe_namespace("pod").links if link.kind == "veth"] == []


def test_a_name_of_the_workloads_own_that_leads_to_another_namespace_is_not_repaired_into(kernel):
    """A missing namespace that was made for a workload is recreated; one that others make in its place is not used."""
    host(kernel)
    endpoint = attached_to(kernel, WEB)
    kernel.leave("web-1")
    kernel.netns_delete("web-1")
    wait_for(lambda: kernel.link("cali111") is None)
    apply_node(kernel, plan_node(kernel, state(endpoint)))
    assert planned(kernel, endpoint) == [] and kernel.netns_owners() == {"web-1": "default/web-1"}
    kernel.netns_delete("web-1")
    wait_for(lambda: kernel.link("cali111") is None)
    kernel.netns_add("web-1", "")
    assert [line[0] for line in planned(kernel, endpoint)] == ["="]


def test_a_namespace_that_is_missing_is_deleted_already(kernel):
    kernel.netns_add("web-1", "default/web-1")
    for _attempt in range(2):
        kernel.netns_delete("web-1")
        assert not kernel.netns_exists("web-1") and kernel.netns_owners() == {}


def test_a_workload_without_an_identity_is_kept_if_its_pair_is_complete(kernel):
    """A workload whose record lacks the identity of its namespace is kept and repaired while its pair is complete.

    Records of earlier releases lack it. Without the pair, the namespace is left alone.
    """
    host(kernel)
    kernel.netns_add("pod", "")
    attached = attach.attach(kernel, POD)
    assert planned(kernel, POD) == []
    assert workload.adopted(kernel, POD) == attached.netns_identity
    assert workload.adopted(kernel, dataclasses.replace(POD, address="10.244.1.9")) == ""
    kernel.inside("pod").link_set("lo", up=False)
    assert [line[0] for line in planned(kernel, POD)] == ["~"]
    kernel.link_delete("cali111")
    assert [line[0] for line in planned(kernel, POD)] == ["="]
    assert workload.adopted(kernel, POD) == ""
    kernel.leave("pod")
    kernel.netns_delete("pod")
    assert workload.adopted(kernel, POD) == ""


def test_without_cookies_a_workload_is_kept_while_its_pair_exists(kernel):
    """If only an inode number identifies a namespace, as on Linux 5.10, a workload is there while its pair exists."""
    host(kernel)
    kernel.netns_add("pod", "")
    endpoint = attached_to(kernel, POD)
    weak = dataclasses.replace(endpoint, netns_identity="inode:7")
    kernel.netns_is = lambda netns, identity: identity == "inode:7"
    kernel.inside("pod").__dict__["_identity"] = kernel.inside("pod").__dict__["_cookie"] = "inode:7"
    kernel.leave("pod")
    assert workload.gone(kernel, [weak]) == {}
    kernel.link_delete("cali111")
    assert workload.gone(kernel, [weak]) == {
        "cali111": "pod does not lead to the network namespace that it was attached to"
    }


def attached_to(kernel, endpoint):
    """Attach an endpoint, and return it with the namespace's identity, as its record then has it.

    Its device inside has its carrier: the kernel notices that in a work queue, or at once if the device is looked at.
    Raise AttachError if it cannot be attached.
    """
    attached = attach.attach(kernel, endpoint)
    name = workload.netns_name(endpoint)
    kernel.inside(name).link(endpoint.peer_interface)
    kernel.leave(name)
    return dataclasses.replace(endpoint, netns_identity=attached.netns_identity)


def wait_for(condition):
    """Wait up to 60 seconds until `condition()` is true, and assert that it is.

    The kernel removes a namespace in the background.
    """
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_an_attachment_without_a_route_to_the_gateway_is_refused(kernel):
    kernel.netns_add("pod", "")
    before = state_of(kernel)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, POD)
    assert (caught.value.code, str(caught.value)) == (
        "unavailable",
        "This host has no route to 169.254.1.1, the gateway of all workloads, so its kernel would not answer for it and"
        " default/web-1 would reach nothing. It was not attached. Give the host a default route, or that address on its"
        " loopback (ip address add 169.254.1.1/32 dev lo), then try again.",
    )
    assert state_of(kernel) == before
    kernel.link_set("lo", up=True)
    kernel.address_add(InterfaceAddress("lo", "169.254.1.1", 32))
    attach.attach_link(kernel, POD)
    assert kernel.link("cali111").up


def test_a_blackhole_to_the_gateway_is_no_route(kernel):
    underlay(kernel)
    write_route(kernel, "169.254.0.0/16", RouteAttributes("blackhole"))
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, WEB)
    assert caught.value.code == "unavailable"


def test_a_route_to_the_gateway_by_the_workload_itself_does_not_count(kernel):
    """attach() fails if the host's only route to the gateway is by the workload's device: no ARP is answered then."""
    kernel.netns_add("pod", "")
    kernel.link_add(NewLink("cali111", "veth", 1450, HOST_MAC, peer_name="eth0", peer_netns="pod"))
    kernel.inside("pod").link_set("eth0", up=True)
    kernel.link_set("cali111", up=True)
    write_route(kernel, "169.254.1.1/32", RouteAttributes(device="cali111", scope=253))
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, POD)
    assert caught.value.code == "unavailable"


def test_a_foreign_inner_device_is_a_conflict_if_the_host_end_is_gone(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    inner = kernel.inside("pod")
    inner.link_add(NewLink("eth0", "bridge"))
    endpoint = dataclasses.replace(POD, netns_identity=inner.identity)
    plan = plan_node(kernel, state(endpoint), kinds=["workload"], interiors=False)
    assert [change.action for change in plan.changes] == ["!"]


def test_foreign_host_device_refuses_an_attach_and_is_reported_and_left(kernel):
    host(kernel)
    kernel.link_add(NewLink("cali111", "bridge"))
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, WEB)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        "A device cali111 exists on this host that this collection did not make. It was not touched."
        " Rename or delete it (ip link del cali111), then run again.",
    )
    assert not attach.detach_links(kernel, [WEB])
    assert kernel.link("cali111").kind == "bridge"
    assert "web-1" not in kernel.netns_list()


def test_taken_device_inside_refuses_an_attach_and_is_reported_and_left(kernel):
    """attach() fails, and changes nothing, if the namespace has an eth0 of others, as CNI requires of an ADD."""
    host(kernel)
    kernel.netns_add("pod", "")
    kernel.inside("pod").link_add(NewLink("eth0", "bridge"))
    before = state_of(kernel)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, POD)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        "Inside network namespace pod there is a device eth0 already, which is not this workload's. It was not touched."
        " Give the workload another endpoint name or another namespace, then run again.",
    )
    assert state_of(kernel) == before
    assert kernel.inside("pod").link("eth0").kind == "bridge"


def test_foreign_default_route_inside_refuses_an_attach_and_is_reported_and_left(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    inner = kernel.inside("pod")
    inner.link_add(NewLink("out0", "veth", peer_name="out1"))
    inner.link_set("out1", up=True)
    inner.link_set("out0", up=True)
    theirs = RouteAttributes(device="out0", scope=253)
    write_route(inner, "0.0.0.0/0", theirs)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, POD)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        "Inside network namespace pod there is a route default through out0 already. It was not touched."
        " Delete it (ip netns exec pod ip route del default), then run again.",
    )
    assert kernel.link("cali111") is None
    assert route_to(inner, "0.0.0.0/0") == theirs
    assert inner.link("eth0") is None


def test_a_foreign_route_is_reported_and_the_pair_removed(kernel):
    host(kernel)
    theirs = RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4)
    write_route(kernel, "10.244.1.5/32", theirs)
    before = state_of(kernel)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, WEB)
    assert (caught.value.code, str(caught.value)) == (
        "in_the_way",
        "A route that is not ours has this destination already: 10.244.1.5/32 via 10.10.1.9 dev eth0 proto static."
        " It was not touched. Delete it (ip route del 10.244.1.5/32 proto 4) or stop what writes it, then run again.",
    )
    assert state_of(kernel) == before


@pytest.mark.parametrize("endpoint", [WEB, POD], ids=["ours", "theirs"])
def test_a_workload_that_is_attached_stays_when_its_route_is_refused(kernel, endpoint):
    host(kernel)
    kernel.netns_add("pod", "")
    endpoint = attached_to(kernel, endpoint)
    attach.detach_route(kernel, endpoint)
    write_route(kernel, "10.244.1.5/32", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
    before, inside = state_of(kernel), kernel.observe_namespace(endpoint.netns)
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, endpoint)
    assert caught.value.code == "in_the_way"
    assert (state_of(kernel), kernel.observe_namespace(endpoint.netns)) == (before, inside)


@pytest.mark.parametrize("protocol", [179, 12])
def test_stale_route_of_ours_or_of_bird_is_taken_over(kernel, protocol):
    host(kernel)
    write_route(kernel, "10.244.1.5/32", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=protocol))
    attach.attach(kernel, WEB)
    assert route_to(kernel, "10.244.1.5/32") == RouteAttributes(device="cali111", scope=253, protocol=179)
    assert planned(kernel, WEB) == []


def test_detaching_leaves_a_route_that_another_workload_has_taken_over(kernel):
    host(kernel)
    other = dataclasses.replace(WEB, name="web-2", interface="cali222", netns="web-2")
    attach.attach(kernel, WEB)
    attach.attach(kernel, other)
    attach.detach_route(kernel, WEB)
    assert route_to(kernel, "10.244.1.5/32").device == "cali222"
    assert not attach.detach_links(kernel, [WEB])
    assert planned(kernel, other) == []


def test_leftover_pair_that_is_joined_is_reused(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    kernel.link_add(NewLink("cali111", "veth", 1400, HOST_MAC, peer_name="eth0", peer_netns="pod"))
    index = kernel.link("cali111").index
    attach.attach(kernel, POD)
    assert kernel.link("cali111").index == index
    assert planned(kernel, POD) == []


def test_leftover_pair_that_ends_elsewhere_is_made_anew(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    attach.attach(kernel, WEB)
    attach.attach(kernel, POD)
    assert kernel.inside("pod").addresses("eth0") == [InterfaceAddress("eth0", "10.244.1.5", 32)]
    assert kernel.inside("web-1").link("eth0") is None


def test_pair_of_an_attach_that_was_killed_before_it_was_marked_is_deleted(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    kernel.link_add(NewLink("cali111", "veth", 1450, HOST_MAC, peer_name="eth0", peer_netns="pod"))
    assert not attach.detach_links(kernel, [POD])
    assert kernel.link("cali111") is None


def test_many_are_detached_at_once_and_others_stay(kernel):
    host(kernel)
    many = [
        VethEndpoint(f"w{n}", f"cali{n}", f"10.244.1.{n}", 1450, "pool", netns=f"w{n}", netns_owned=n % 2 == 0)
        for n in range(1, 7)
    ]
    for endpoint in many:
        if not endpoint.netns_owned:
            kernel.netns_add(endpoint.netns, "")
        attach.attach(kernel, endpoint)
    kernel.link_delete("cali2")
    kernel.link_set("cali3", alias="theirs")
    assert attach.detach_links(kernel, many[:5]) == {}
    assert [link.name for link in kernel.links() if link.name.startswith("cali")] == ["cali3", "cali6"]
    assert [name for name in kernel.netns_list() if name.startswith("w")] == ["w1", "w3", "w5", "w6"]
    kernel.link_set("cali3", alias="calico: workload default/w3")
    assert planned(kernel, many[2], many[5]) == []


def test_absolute_paths_of_namespaces(kernel, netns_path):
    host(kernel)
    path = netns_path("pod")
    assert kernel.netns_exists(path)
    endpoint = dataclasses.replace(POD, netns=path)
    attach.attach(kernel, endpoint)
    assert planned(kernel, endpoint) == []
    assert kernel.inside(path).addresses("eth0") == [InterfaceAddress("eth0", "10.244.1.5", 32)]
    kernel.leave(path)
    assert not attach.detach_links(kernel, [endpoint])
    assert kernel.netns_exists(path)
    missing = dataclasses.replace(endpoint, netns="/no/such/file")
    assert not kernel.netns_exists("/no/such/file")
    with pytest.raises(attach.AttachError, match="There is no network namespace /no/such/file"):
        attach.attach(kernel, missing)


def test_writes_are_made_in_order_and_the_first_refusal_is_raised(kernel):
    underlay(kernel)
    with pytest.raises(KernelError) as caught:
        kernel.write([InterfaceAddress("eth0", OWN, 24), InterfaceAddress("eth0", "10.10.1.99", 32)])
    assert caught.value.errno == errno.EEXIST
    assert str(caught.value).startswith(f"add address {OWN}/24 to eth0: File exists")
    with pytest.raises(KernelError) as caught:
        kernel.write([InterfaceAddress("gone", "10.10.1.98", 32)])
    assert str(caught.value) == "add address 10.10.1.98/32 to gone: No such device (there is no device gone)"


def test_links_that_are_not_there_are_passed_over_when_many_are_deleted(kernel):
    for name in ("a0", "b0"):
        kernel.link_add(NewLink(name, "veth", peer_name=f"{name}p"))
    kernel.links_delete([])
    kernel.links_delete(["gone"])
    kernel.links_delete(["a0", "gone", "b0", "gone2"])
    assert {link.name for link in kernel.links()} & {"a0", "a0p", "b0", "b0p"} == set()


def test_route_to_is_what_the_kernel_would_take(kernel):
    underlay(kernel)
    assert kernel.route_to("192.0.2.1") == RouteAttributes(device="eth0", gateway="10.10.1.1")
    assert kernel.route_to("10.10.1.77") == RouteAttributes(device="eth0")
    assert kernel.route_to(OWN) == RouteAttributes("local", device="lo")
    write_route(kernel, "192.0.2.0/24", RouteAttributes("blackhole"))
    assert kernel.route_to("192.0.2.1") is None
    assert kernel.route_to("2001:db8::1") is None  # None, and no error, because the host has no IPv6 routes.
