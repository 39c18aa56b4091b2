# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""attach() of any endpoint beside another, refused or killed anywhere, on FakeKernel. The drivers are the oracle."""

from __future__ import annotations

import copy
import dataclasses
import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool, VethEndpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.suite_attach import host, planned, state

NAMES = ("a", "b", "c")


@st.composite
def endpoints(draw, name=None):
    name = name or draw(st.sampled_from(NAMES))
    families = draw(st.sampled_from([(4,), (6,), (4, 6)]))
    return VethEndpoint(
        name=name,
        interface=f"cali{name}",
        address=f"10.244.1.{10 + NAMES.index(name)}" if 4 in families else "",
        address6=f"fd00:10:244::{10 + NAMES.index(name)}" if 6 in families else "",
        mtu=draw(st.sampled_from([1400, 1450])),
        pool="pool",
        netns=draw(st.sampled_from([name, f"{name}-other"])),
        netns_owned=draw(st.booleans()),
        peer_interface=draw(st.sampled_from(["eth0", "net1"])),
        route_mtu=draw(st.sampled_from([None, 1400])),
        mac=draw(st.sampled_from([None, "02:11:22:33:44:55", "02:11:22:33:44:66"])),
        further=(f"10.244.2.{10 + NAMES.index(name)}",) if 4 in families and draw(st.booleans()) else (),
    )


def machine(*present):
    """Return a FakeKernel with an underlay, with these workloads attached, and the namespaces of others they need.

    Raise AttachError if one cannot be attached beside those before it.
    """
    kernel = FakeKernel()
    host(kernel)
    for endpoint in present:
        ready_for(kernel, endpoint)
        attach.attach(kernel, endpoint)
    return kernel


def ready_for(kernel, endpoint):
    if not endpoint.netns_owned and not kernel.netns_exists(endpoint.netns):
        kernel.netns_add(endpoint.netns, "")


@settings(max_examples=40, deadline=None)
@given(endpoints("a"), endpoints("b"), endpoints("b"))
def test_after_attach_the_drivers_want_nothing_and_after_detach_nothing_is_left(other, endpoint, changed):
    """After attaching, the drivers remove a former namespace at most, and detaching restores the state from before.

    `changed` is the workload of `endpoint` with other settings, attached again. The state is compared only if both have
    the same namespace, and without that namespace's inside.
    """
    own = {"address": endpoint.address, "address6": endpoint.address6, "further": endpoint.further}
    changed = dataclasses.replace(changed, **own)
    kernel = machine(other)
    for one in (endpoint, changed):
        ready_for(kernel, one)
    before = kernel.snapshot()
    attach.attach(kernel, endpoint)
    attached = attach.attach(kernel, changed)
    peer = kernel.inside(changed.netns).link(changed.peer_interface)
    assert attached == (peer.mac, peer.mtu, kernel.inside(changed.netns).identity)
    assert attached.mac == (changed.mac or attached.mac)
    # The plan removes the namespace of `endpoint` if `changed` has another: no workload desires it any more.
    assert [line for line in planned(kernel, other, changed) if not line.endswith(endpoint.netns)] == []
    apply_node(kernel, plan_node(kernel, state(other, changed)))
    attach.detach_route(kernel, changed)
    assert not attach.detach_links(kernel, [changed])
    assert planned(kernel, other) == []
    after = kernel.snapshot()
    if endpoint.netns == changed.netns:  # Not compared: in a namespace of others, lo stays up.
        for world in (before, after):
            world["namespaces"].pop(changed.netns, None)
        assert after == before
    assert kernel.violations == []


REFUSALS = [
    ("netns_add", "b"),
    ("link_add", "calib"),
    ("link_set", "calib"),
    ("link_set", "lo"),
    ("link_set", "eth0"),
    ("address_add", "10.244.1.11"),
    ("route_batch", "169.254.1.1/32"),
    ("route_batch", "0.0.0.0/0"),
    ("sysctl_write", "net/ipv4/neigh/calib/proxy_delay"),
    ("sysctl_write", "net/ipv4/conf/calib/proxy_arp"),
    ("sysctl_write", "net/ipv4/conf/calib/forwarding"),
]
REFUSALS6 = [
    ("address_add", "fd00:10:244::11"),
    ("route_batch", "::/0"),
    ("sysctl_write", "net/ipv6/conf/eth0/accept_dad"),
    ("sysctl_write", "net/ipv6/conf/calib/accept_dad"),
    ("sysctl_write", "net/ipv6/conf/calib/disable_ipv6"),
]
ONE = VethEndpoint("b", "calib", "10.244.1.11", 1450, "pool", netns="b", address6="fd00:10:244::11")
POD = dataclasses.replace(ONE, netns_owned=False)


@pytest.mark.parametrize("endpoint", [ONE, POD], ids=["ours", "theirs"])
@pytest.mark.parametrize(("operation", "subject"), REFUSALS + REFUSALS6)
def test_a_refused_attachment_leaves_nothing_behind(operation, subject, endpoint):
    kernel = machine()
    ready_for(kernel, endpoint)
    kernel.inside("b").link_set("lo", up=True) if not endpoint.netns_owned else None
    before = kernel.snapshot()
    kernel.fail_next(operation, errno.ENOMEM, subject)
    if operation == "netns_add" and not endpoint.netns_owned:
        attach.attach(kernel, endpoint)  # The namespace is not to be made, so nothing is refused.
        return
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, endpoint)
    assert caught.value.code == "kernel"
    assert "It said: Cannot allocate memory. Nothing of it was left behind" in str(caught.value)
    assert kernel.snapshot() == before


def test_a_refused_attachment_names_the_operation_and_the_error():
    kernel = machine()
    kernel.fail_next("sysctl_write", errno.EROFS, "net/ipv4/conf/calib/proxy_arp")
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, ONE)
    assert str(caught.value) == (
        "default/b could not be attached: the kernel refused to write sysctl net/ipv4/conf/calib/proxy_arp."
        " It said: Read-only file system. Nothing of it was left behind; put that right, then try again."
    )


def test_refused_route_takes_the_pair_away():
    kernel = machine()
    before = kernel.snapshot()
    for _attempt in range(2):  # Refused twice: first attach.py tries, then the driver.
        kernel.fail_next("route_batch", errno.ENOMEM, "10.244.1.11/32")
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, ONE)
    assert str(caught.value) == (
        "The route 10.244.1.11/32 dev calib was refused. The kernel said: Cannot allocate memory."
    )
    assert kernel.snapshot() == before


@pytest.mark.parametrize("endpoint", [ONE, POD], ids=["ours", "theirs"])
def test_refused_repair_keeps_what_was_attached(endpoint):
    kernel = machine(endpoint)
    kernel.sysctl_write("net/ipv4/conf/calib/proxy_arp", "0")
    before = kernel.snapshot()
    kernel.fail_next("sysctl_write", errno.EROFS, "net/ipv4/conf/calib/proxy_arp")
    with pytest.raises(attach.AttachError):
        attach.attach(kernel, endpoint)
    assert kernel.snapshot() == before
    attach.attach(kernel, endpoint)
    assert planned(kernel, endpoint) == []


def test_refused_repair_in_words():
    kernel = machine(ONE)
    kernel.inside = refused
    with pytest.raises(attach.AttachError) as caught:
        attach.attach(kernel, ONE)
    assert str(caught.value) == (
        "default/b could not be attached: the kernel refused to enter network namespace b."
        " It said: Operation not permitted. Its devices were kept; put that right, then try again."
    )


def refused(name, identity=""):
    raise KernelError(errno.EPERM, f"enter network namespace {name}")


@settings(max_examples=40, deadline=None)
@given(endpoints("a"), endpoints("b"), st.integers(1, 14))
def test_an_attachment_killed_anywhere_can_be_removed_or_completed(other, endpoint, writes):
    """If attach() is killed after one of its first 14 writes, the next process can remove or complete the workload."""
    kernel = machine(other)
    ready_for(kernel, endpoint)
    before = kernel.snapshot()
    worlds = []
    left = [writes]

    def look(_changed):
        left[0] -= 1
        if left[0] == 0:
            kernel.watch(None)
            worlds.extend((copy.deepcopy(kernel), copy.deepcopy(kernel)))
            kernel.watch(look)

    kernel.watch(look)
    attach.attach(kernel, endpoint)
    kernel.watch(None)
    if not worlds:
        return
    taken_away, completed = worlds
    attach.detach_route(taken_away, endpoint)
    assert not attach.detach_links(taken_away, [endpoint])
    after = taken_away.snapshot()
    for world in (before, after):
        world["namespaces"].pop(endpoint.netns, None)
    assert after == before
    attach.attach(completed, endpoint)
    assert planned(completed, other, endpoint) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(endpoints(), unique_by=lambda one: one.name, max_size=3), st.data())
def test_interiors_that_are_not_looked_into_are_not_repaired_and_the_rest_is(present, data):
    kernel = machine(*present)
    looked = data.draw(st.sets(st.sampled_from([f"cali{name}" for name in NAMES])))
    broken = data.draw(st.sets(st.sampled_from(["inside", "host"])))
    for endpoint in present:
        if "inside" in broken:
            kernel.inside(endpoint.netns).link_set(endpoint.peer_interface, up=False)
        if "host" in broken:
            kernel.link_set(endpoint.interface, mtu=1300)
    for interiors, seen in ((looked, looked), (False, set()), (True, {one.interface for one in present})):
        plan = plan_node(kernel, state(*present), kinds=["workload"], interiors=interiors)
        assert {change.subject for change in plan.changes} == {
            f"default/{one.name}"
            for one in present
            if "host" in broken or ("inside" in broken and one.interface in seen)
        }


def test_only_the_drivers_asked_for_plan():
    kernel = machine()
    kernel.netns_add("b", "")
    wanted = dataclasses.replace(
        state(ONE),
        pools=(Pool("pool", "10.244.0.0/16", 26, "None"),),
        bird_routes=(BirdRoute("10.244.9.0/26", "10.10.1.12"),),
    )
    whole = plan_node(kernel, wanted)
    assert [change.subject for change in whole.expected] == ["10.244.9.0/26"]
    for kind in REGISTRY.names:
        plan = plan_node(kernel, wanted, kinds=[kind])
        assert plan.expected == ()
        kinds = {"tunnel": {"device", "address"}, "neighbor": {"neighbor", "fdb"}}.get(kind, {kind})
        assert plan.changes == tuple(change for change in whole.changes if change.kind in kinds)
    with pytest.raises(ValueError, match="no such drivers: routes"):
        plan_node(kernel, state(ONE), kinds=["routes"])


def test_namespaces_whose_owners_cannot_be_read_are_reported_and_the_pairs_are_deleted():
    ours = VethEndpoint("a", "calia", "10.244.1.10", 1450, "pool", netns="a")
    theirs = dataclasses.replace(ours, name="b", interface="calib", address="10.244.1.11", netns="b", netns_owned=False)
    kernel = machine(ours, theirs)
    kernel.machine.failures.append(("netns_owners", errno.EACCES, ""))
    assert attach.detach_links(kernel, [ours, theirs]) == {
        "calia": "list the markers of network namespaces: Permission denied"
    }
    assert (kernel.link("calia"), kernel.link("calib")) == (None, None)
    assert attach.detach_links(kernel, [ours, theirs]) == {} and not kernel.netns_exists("a")
