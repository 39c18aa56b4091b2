# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole node: plan, order and idempotence; objects of others stay."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    UNDERLAY,
    UNDERLAY_GATEWAY,
    Block,
    FdbEntry,
    Hook,
    IpSet,
    IptablesTable,
    Neighbor,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)

from tests.unit.dataplane.suites.drivers import OWN, route_to, underlay, write_route

STATE = NodeState(
    node="node1",
    address="10.10.1.11/24",
    pools=(Pool("default-pool", "10.244.0.0/16", 26, "VXLAN", True),),
    ipam=NodeIpam(1, (Block("10.244.1.0/26", "default-pool"),), (Block("10.244.1.64/26", "default-pool"),)),
    devices=(TunnelDevice("vxlan.calico", "vxlan", 1450, OWN, "10.244.1.1", "66:00:00:00:00:01", 4096, 4789),),
    neighbors=(Neighbor("vxlan.calico", "10.10.1.12", "66:00:00:00:00:02"),),
    fdb=(FdbEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.12"),),
    workloads=(VethEndpoint("web-1", "cali111", "10.244.1.5", 1450, "default-pool", netns="web-1"),),
    routes=(
        Route("10.244.1.0/26", "blackhole"),
        Route("10.244.1.5/32", device="cali111"),
        Route("10.244.2.0/26", device=UNDERLAY, gateway="10.10.1.12", table=179),
    ),
    rules=(RoutingRule(0xCA11, 179, 179),),
    sysctls=(
        Sysctl("net/ipv4/ip_forward", "1"),
        Sysctl(f"net/ipv4/conf/{UNDERLAY}/rp_filter", "2"),
        Sysctl("net/ipv4/neigh/cali111/proxy_delay", "0"),
        Sysctl("net/ipv4/conf/cali111/proxy_arp", "1"),
        Sysctl("net/ipv4/conf/cali111/forwarding", "1"),
    ),
    ipsets=(IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11", "10.10.1.12")),),
    iptables=(
        IptablesTable(
            "filter",
            {"cali-INPUT": ("-p udp -m udp --dport 4789 -m set --match-set cali40all-hosts-net src -j ACCEPT",)},
            (Hook("INPUT", "-j cali-INPUT"),),
        ),
    ),
    bird_routes=(
        BirdRoute("10.244.2.0/26", "10.10.1.12", "vxlan.calico", True, "node2"),
        BirdRoute("10.244.3.0/26", "", "", False, "node3", next_hop="10.20.1.13"),
        BirdRoute("10.244.4.0/26", "10.10.1.14", "", False, "node4", next_hop="10.10.1.14"),
    ),
)
EMPTY = NodeState(node="node1", address="10.10.1.11/24", pools=STATE.pools)


def settle(kernel, state, bird=None):
    plan = plan_node(kernel, state)
    apply_node(kernel, plan, bird)
    again = plan_node(kernel, state)
    assert [change.line() for change in again.changes] == []
    assert not again.changed
    return plan


def foreign(kernel):
    """Make objects of others: a bridge, two routes, an IP set, a chain with a hook and a network namespace.

    Raise KernelError if the kernel refuses one; a failure of ipset or iptables-restore is ignored.
    """
    kernel.link_add(NewLink("br-theirs", "bridge"))
    kernel.link_set("br-theirs", up=True, alias="theirs")
    kernel.address_add(InterfaceAddress("br-theirs", "192.0.2.1", 24))
    write_route(kernel, "198.51.100.0/24", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
    write_route(kernel, "10.244.77.0/26", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=12))
    kernel.run(["ipset", "create", "theirs", "hash:ip"])
    kernel.run(
        ["iptables-restore", "--noflush"],
        stdin="*filter\n:theirs - [0:0]\n-A theirs -j ACCEPT\n-A INPUT -j theirs\nCOMMIT\n",
    )
    kernel.netns_add("theirs", "")


def state_of(kernel):
    """Return the host's state, whether ours or not, in a form to compare with `==`.

    It has links, all sets, and the names of namespaces; of IPv4 it has addresses, routes (tables 254 and 179), routing
    rules, and the rules of iptables without their table and order. It has no policies of chains, no sysctls, and
    nothing inside other namespaces.
    """
    saved = kernel.run(["iptables-save"]).output.splitlines()
    return {
        "links": sorted((link.name, link.kind, link.mtu, link.up, link.alias) for link in kernel.links()),
        "addresses": sorted(kernel.addresses()),
        "routes": sorted(kernel.routes(table=254) + kernel.routes(table=179), key=repr),
        "rules": sorted(kernel.rules()),
        "iptables": sorted(line for line in saved if line.startswith(("-A", ":cali", ":theirs"))),
        "ipsets": kernel.run(["ipset", "save"]).output,
        "namespaces": kernel.netns_list(),
    }


def test_plan_on_a_fresh_host_shows_everything_and_changes_nothing(kernel):
    underlay(kernel)
    before = state_of(kernel)
    plan = plan_node(kernel, STATE)
    assert plan.underlay == "eth0"
    assert plan.lines() == [
        "~ sysctl   net.ipv4.ip_forward                 0  ->  1",
        "~ sysctl   net.ipv4.conf.eth0.rp_filter        0  ->  2",
        "+ ipset    cali40all-hosts-net                 hash:net  2 members",
        "+ iptables filter cali-INPUT                   1 rule",
        "+ iptables filter INPUT                        -j cali-INPUT    first in the chain",
        "+ device   vxlan.calico                        vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
        "+ address  10.244.1.1/32                       dev vxlan.calico",
        "+ workload default/web-1                       eth0 10.244.1.5  host end cali111  mtu 1450",
        "+ sysctl   net.ipv4.neigh.cali111.proxy_delay  0",
        "+ sysctl   net.ipv4.conf.cali111.proxy_arp     1",
        "+ sysctl   net.ipv4.conf.cali111.forwarding    1",
        "+ neighbor 10.10.1.12                          lladdr 66:00:00:00:00:02 dev vxlan.calico",
        "+ fdb      66:00:00:00:00:02                   dst 10.10.1.12 dev vxlan.calico",
        "+ rule     179                                 fwmark 0xca11 lookup 179",
        "+ route    10.244.1.0/26                       blackhole    own block",
        "+ route    10.244.1.5/32                       dev cali111",
        "+ route    10.244.2.0/26                       via 10.10.1.12 dev eth0 table 179",
        "+ route    10.244.2.0/26                       via 10.10.1.12 dev vxlan.calico onlink    proto bird",
        "+ route    10.244.3.0/26                       via 10.10.1.1 dev eth0    proto bird",
        "+ route    10.244.4.0/26                       via 10.10.1.14 dev eth0    proto bird",
    ]
    assert state_of(kernel) == before


def test_node_converges_once_and_returns(kernel):
    underlay(kernel)
    foreign(kernel)
    before = state_of(kernel)
    settle(kernel, STATE)
    assert route_to(kernel, "10.244.1.5/32") == RouteAttributes(device="cali111", scope=253, protocol=179)
    assert kernel.sysctl_read("net/ipv4/conf/cali111/proxy_arp") == "1"
    assert kernel.link("cali111").up
    settle(kernel, EMPTY)
    assert state_of(kernel) == before


def test_bird_is_called_between_additions_and_removals(kernel):
    underlay(kernel)
    settle(kernel, STATE)
    moved = dataclasses.replace(STATE, routes=(Route("10.244.5.0/26", "blackhole"),))
    seen = []

    def bird():
        seen.append((route_to(kernel, "10.244.5.0/26") is not None, route_to(kernel, "10.244.1.0/26") is not None))

    settle(kernel, moved, bird)
    assert seen == [(True, True)]
    assert route_to(kernel, "10.244.1.0/26") is None


def test_nothing_is_removed_and_bird_not_called_when_an_addition_fails(kernel):
    underlay(kernel)
    settle(kernel, STATE)
    write_route(kernel, "10.244.6.0/26", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
    wanted = dataclasses.replace(
        STATE, routes=(Route("10.244.5.0/26", "blackhole"), Route("10.244.6.0/26", "blackhole"))
    )
    plan = plan_node(kernel, wanted)
    assert plan.lines()[0].startswith("! route    10.244.6.0/26  blackhole    A route that is not ours")
    assert [change.subject for change in plan.problems] == ["10.244.6.0/26"]
    with pytest.raises(ApplyError) as caught:
        apply_node(kernel, plan, lambda: pytest.fail("BIRD was called"))
    assert str(caught.value).startswith("route 10.244.6.0/26: A route that is not ours has this destination already")
    assert route_to(kernel, "10.244.5.0/26") is not None
    assert route_to(kernel, "10.244.1.0/26") is not None


def test_device_made_anew_gets_back_all_that_was_on_it(kernel):
    underlay(kernel)
    through = Route("10.244.9.0/26", device="vxlan.calico", gateway="10.10.1.12", onlink=True)
    state = dataclasses.replace(STATE, routes=(*STATE.routes, through))
    settle(kernel, state)
    other = dataclasses.replace(state, devices=(dataclasses.replace(STATE.devices[0], vni=4097),))
    plan = settle(kernel, other)
    assert [change.line() for change in plan.additions[1:]] == [
        "+ address  10.244.1.1/32  dev vxlan.calico",
        "+ neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico",
        "+ fdb      66:00:00:00:00:02  dst 10.10.1.12 dev vxlan.calico",
        "+ route    10.244.9.0/26  via 10.10.1.12 dev vxlan.calico onlink",
    ]


def test_workload_made_anew_gets_back_its_sysctls_and_route(kernel):
    underlay(kernel)
    settle(kernel, STATE)
    moved = dataclasses.replace(STATE, workloads=(dataclasses.replace(STATE.workloads[0], netns="elsewhere"),))
    plan = settle(kernel, moved)
    assert [change.subject for change in plan.additions] == [
        "default/web-1",
        "net.ipv4.neigh.cali111.proxy_delay",
        "net.ipv4.conf.cali111.proxy_arp",
        "net.ipv4.conf.cali111.forwarding",
        "10.244.1.5/32",
    ]
    assert kernel.sysctl_read("net/ipv4/conf/cali111/proxy_arp") == "1"


def test_objects_gone_between_plan_and_apply_are_no_failure(kernel):
    underlay(kernel)
    settle(kernel, STATE)
    plan = plan_node(kernel, EMPTY)
    kernel.link_delete("vxlan.calico")
    kernel.link_delete("cali111")
    kernel.route_batch([RouteOperation("delete", "10.244.1.0/26", RouteAttributes("blackhole", protocol=179))])
    kernel.rule_delete(RuleEntry(179, 179, 0xCA11, protocol=179))
    apply_node(kernel, plan)
    assert plan_node(kernel, EMPTY).changes == ()


def test_a_tunnel_device_that_went_by_itself_is_made_anew_in_the_same_run(kernel):
    """A tunnel device that is deleted after planning is restored with all its objects, whatever the plan changes."""
    underlay(kernel)
    settle(kernel, STATE)
    good = state_of(kernel)
    for broken in ("route", "mtu", "nothing"):
        if broken == "route":
            kernel.route_batch([RouteOperation("delete", "10.244.1.0/26", RouteAttributes("blackhole", protocol=179))])
        elif broken == "mtu":
            kernel.link_set("vxlan.calico", mtu=1300)
        plan = plan_node(kernel, STATE)
        assert len(plan.additions) == (broken != "nothing")
        kernel.link_delete("vxlan.calico")
        apply_node(kernel, plan)
        assert plan_node(kernel, STATE).changes == ()
        assert state_of(kernel) == good


def test_a_tunnel_device_that_goes_while_it_is_changed_is_made_anew_in_the_same_run(kernel):
    underlay(kernel)
    settle(kernel, STATE)
    good = state_of(kernel)
    kernel.link_set("vxlan.calico", mtu=1300)
    plan, link_set, left = plan_node(kernel, STATE), kernel.link_set, [1]

    def going(name, **changes):
        if name == "vxlan.calico" and left[0] and changes.get("up"):
            left[0] -= 1
            kernel.link_delete(name)
        link_set(name, **changes)

    kernel.link_set = going
    apply_node(kernel, plan)
    del kernel.link_set
    assert left == [0]
    assert plan_node(kernel, STATE).changes == ()
    assert state_of(kernel) == good


def test_a_device_that_is_gone_is_deleted_without_a_word(kernel):
    kernel.link_delete("none0")
    kernel.links_delete(["none0", "none1"])
    kernel.link_add(NewLink("there0", "veth", peer_name="there1"))
    kernel.link_delete("there0")
    kernel.link_delete("there0")
    assert kernel.link("there0") is None


def test_routes_that_bird_will_change(kernel):
    underlay(kernel)
    state = dataclasses.replace(STATE, devices=(), neighbors=(), fdb=())
    write_route(kernel, "10.244.2.0/26", RouteAttributes(device="eth0", gateway="10.10.1.12", protocol=12))
    write_route(kernel, "10.244.4.0/26", RouteAttributes(device="eth0", gateway="10.10.1.14", protocol=12))
    write_route(kernel, "10.244.8.0/26", RouteAttributes(device="eth0", gateway="10.10.1.18", protocol=12))
    write_route(kernel, "10.99.0.0/26", RouteAttributes(device="eth0", gateway="10.10.1.18", protocol=12))
    plan = plan_node(kernel, state)
    assert [change.line() for change in plan.expected] == [
        "~ route    10.244.2.0/26  via 10.10.1.12 dev eth0  ->  via 10.10.1.12 dev vxlan.calico onlink    proto bird",
        "+ route    10.244.3.0/26  via 10.10.1.1 dev eth0    proto bird",
        "- route    10.244.8.0/26  via 10.10.1.18 dev eth0    proto bird",
    ]
    apply_node(kernel, plan)
    assert len(kernel.routes(protocol=12)) == 4


def test_a_node_without_its_address_is_refused_with_a_remedy(kernel):
    underlay(kernel)
    with pytest.raises(ObserveError) as caught:
        plan_node(kernel, dataclasses.replace(STATE, address="10.10.1.99/24"))
    assert str(caught.value) == (
        "No network interface of node1 has its address 10.10.1.99."
        " It is taken from calico_node_address (10.10.1.99/24). eth0 has 10.10.1.11/24 instead."
        " Correct that variable, or give the host this address (ip address), then run again."
    )


def test_underlay_on_lo_as_well_is_the_other_device(kernel):
    underlay(kernel)
    kernel.address_add(InterfaceAddress("lo", OWN, 32))
    assert plan_node(kernel, STATE).underlay == "eth0"


def test_gateways_and_devices_that_the_underlay_decides(kernel):
    underlay(kernel)
    write_route(kernel, "10.20.0.0/16", RouteAttributes("blackhole"))
    write_route(kernel, "10.20.1.0/24", RouteAttributes(device="eth0", gateway="10.10.1.2"))
    # Neither BIRD's routes nor ours belong to the underlay.
    write_route(kernel, "10.30.1.0/24", RouteAttributes(device="wire0", protocol=12, scope=253))
    write_route(kernel, "10.30.2.0/24", RouteAttributes(device="wire0", protocol=179, scope=253))
    peers = ("10.10.1.12", "10.20.1.13", "10.20.2.14", "10.30.1.15", "10.30.2.16")
    open_ = tuple(
        Route(f"10.244.{number}.0/26", gateway=UNDERLAY_GATEWAY.format(address), table=179)
        for number, address in enumerate(peers, 10)
    )
    plan = plan_node(kernel, dataclasses.replace(EMPTY, routes=open_))
    assert [(route.destination, route.gateway, route.device) for route in plan.state.routes] == [
        ("10.244.10.0/26", "10.10.1.12", "eth0"),
        ("10.244.11.0/26", "10.10.1.2", "eth0"),
        ("10.244.13.0/26", "10.10.1.1", "eth0"),
        ("10.244.14.0/26", "10.10.1.1", "eth0"),
    ]
    settle(kernel, dataclasses.replace(EMPTY, routes=open_))


def test_an_underlay_without_addresses_on_its_links(kernel):
    """A fabric may reach IPv4 addresses by way of link-local gateways: their routes have the device of the address."""
    underlay(kernel)
    kernel.link_add(NewLink("eth1", "veth", peer_name="wire1"))
    for name in ("wire1", "eth1"):
        kernel.link_set(name, up=True)
    write_route(kernel, "10.20.1.13/32", RouteAttributes(device="eth1", gateway="fe80::13", protocol=4))
    open_ = (Route("10.244.10.0/26", gateway=UNDERLAY_GATEWAY.format("10.20.1.13"), table=179),)
    plan = settle(kernel, dataclasses.replace(EMPTY, routes=open_))
    assert [change.line() for change in plan.changes] == ["+ route    10.244.10.0/26  via fe80::13 dev eth1 table 179"]
