# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the probe endpoint, a workload with an address of each pool, on any kernel."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    endpoint_sysctls,
    own_routes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NAME,
    PROBE_NAMESPACE,
    PROBE_NETNS,
    NodeIpam,
    NodeState,
    VethEndpoint,
)

from tests.unit.dataplane.suites.drivers import converge, fail, underlay
from tests.unit.dataplane.suites.suite_workload import WEB

PROBE = VethEndpoint(
    PROBE_NAME,
    PROBE_INTERFACE,
    "10.244.1.63",
    1480,
    "default",
    PROBE_NAMESPACE,
    PROBE_NETNS,
    address6="fd00:10:244::7f",
    pool6="six",
    further=("10.245.1.63", "fd00:10:245::7f"),
)


def addresses(kernel) -> list[str]:
    """Return the global addresses of the probe endpoint inside, sorted. Raise KernelError without its namespace."""
    inner = kernel.inside(PROBE_NETNS)
    found = [one for family in (4, 6) for one in inner.addresses("eth0", family) if one.scope == 0]
    assert {one.prefix_length for one in found} <= {32, 128}
    return sorted(one.address for one in found)


def index(kernel) -> int:
    return kernel.link(PROBE_INTERFACE).index


def test_probe_endpoint_is_made_and_removed(kernel):
    """It has all of its addresses, in a namespace that goes with it, and a second run finds nothing to do."""
    assert converge(workload, kernel, [PROBE]) == [
        "+ workload caliprobe  eth0 10.244.1.63 fd00:10:244::7f 10.245.1.63 fd00:10:245::7f  probe endpoint  mtu 1480"
    ]
    assert addresses(kernel) == sorted(PROBE.addresses)
    assert kernel.netns_owners() == {"calico-probe": "calico-system/probe"}
    assert kernel.inside(PROBE_NETNS).link("eth0").alias == (
        "calico: address 10.244.1.63 fd00:10:244::7f 10.245.1.63 fd00:10:245::7f"
    )
    assert converge(workload, kernel, [PROBE]) == []
    assert converge(workload, kernel, []) == [
        "- workload caliprobe  host end caliprobe    with its network namespace calico-probe"
    ]
    assert not kernel.netns_exists(PROBE_NETNS)


def test_one_further_address_comes_and_goes(kernel):
    """Only the address of the added or removed pool changes: the pair stays, whichever address is the first."""
    less = dataclasses.replace(PROBE, further=("fd00:10:245::7f",))
    converge(workload, kernel, [PROBE])
    made = index(kernel)
    assert converge(workload, kernel, [less]) == ["~ workload caliprobe  address 10.245.1.63  ->  address none"]
    assert converge(workload, kernel, [PROBE]) == ["~ workload caliprobe  address none  ->  address 10.245.1.63"]
    other = dataclasses.replace(PROBE, address="10.245.1.63", further=PROBE.further[1:])
    assert converge(workload, kernel, [other]) == ["~ workload caliprobe  address 10.244.1.63  ->  address none"]
    assert addresses(kernel) == sorted(other.addresses)
    four = dataclasses.replace(PROBE, address6="", pool6="", further=())
    assert converge(workload, kernel, [four]) == [
        "~ workload caliprobe  address 10.245.1.63 fd00:10:244::7f fd00:10:245::7f  ->  address 10.244.1.63"
    ]
    assert addresses(kernel) == ["10.244.1.63"]
    assert index(kernel) == made


@pytest.mark.parametrize("lost", PROBE.addresses)
def test_lost_address_is_repaired(kernel, lost):
    converge(workload, kernel, [PROBE])
    inner = kernel.inside(PROBE_NETNS)
    inner.address_delete(InterfaceAddress("eth0", lost, 128 if ":" in lost else 32))
    assert converge(workload, kernel, [PROBE]) == [f"~ workload caliprobe  address none  ->  address {lost}"]


def test_more_addresses_than_an_alias_can_list(kernel):
    """An endpoint of 20 pools has all their addresses, and loses those of removed pools."""
    many = dataclasses.replace(PROBE, further=tuple(f"10.{n}.100.163" for n in range(100, 118)))
    converge(workload, kernel, [PROBE])
    converge(workload, kernel, [many])
    assert addresses(kernel) == sorted(many.addresses)
    assert kernel.inside(PROBE_NETNS).link("eth0").alias == "calico: every address"
    assert converge(workload, kernel, [many]) == []
    fewer = dataclasses.replace(many, further=many.further[1:])
    assert converge(workload, kernel, [fewer]) == ["~ workload caliprobe  address 10.100.100.163  ->  address none"]
    converge(workload, kernel, [PROBE])
    assert addresses(kernel) == sorted(PROBE.addresses)


def test_namespace_of_others_with_its_name_is_reported_and_left(kernel):
    """A namespace calico-probe without our marker for the probe endpoint is not touched."""
    kernel.netns_add(PROBE_NETNS, "")
    assert fail(workload, kernel, [PROBE]) == (
        "workload caliprobe: A network namespace calico-probe exists on this host that this collection did not make,"
        " which needs this name for its probe endpoint. It was not touched. Give it another name or delete it (ip netns"
        " del calico-probe), then run again."
    )
    assert [link.name for link in kernel.inside(PROBE_NETNS).links("veth")] == []
    assert converge(workload, kernel, []) == []
    kernel.netns_delete(PROBE_NETNS)
    converge(workload, kernel, [PROBE])


def test_its_namespace_is_recreated(kernel):
    """A deleted namespace, as after a restart of the host, is recreated with all addresses."""
    converge(workload, kernel, [WEB, PROBE])
    kernel.netns_delete(PROBE_NETNS)
    converge(workload, kernel, [WEB, PROBE])
    assert addresses(kernel) == sorted(PROBE.addresses)


def test_state_with_a_probe_endpoint(kernel):
    """A node gets the endpoint, its sysctls and its routes, and loses them in a state without it."""
    underlay(kernel)
    four = dataclasses.replace(PROBE, address6="", pool6="", further=("10.245.1.63",))
    state = NodeState(
        node="node1",
        address="10.10.1.11/24",
        probe_endpoint=four,
        routes=own_routes(True, NodeIpam(), [four]),
        sysctls=endpoint_sysctls(four),
    )
    plan = plan_node(kernel, state)
    assert [(change.action, change.kind, change.subject) for change in plan.changes if change.kind != "sysctl"] == [
        ("+", "workload", "caliprobe"),
        ("+", "route", "10.244.1.63/32"),
        ("+", "route", "10.245.1.63/32"),
    ]
    apply_node(kernel, plan)
    assert plan_node(kernel, state).changes == ()
    assert kernel.sysctl_read("net/ipv4/conf/caliprobe/rp_filter") == "1"
    kernel.link_delete(PROBE_INTERFACE)
    apply_node(kernel, plan_node(kernel, state))
    assert addresses(kernel) == ["10.244.1.63", "10.245.1.63"]
    assert plan_node(kernel, state).changes == ()
    earlier = NodeState(node="node1", address="10.10.1.11/24")
    apply_node(kernel, plan_node(kernel, earlier))
    assert plan_node(kernel, earlier).changes == ()
    assert not kernel.netns_exists(PROBE_NETNS) and kernel.link(PROBE_INTERFACE) is None
