# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes from any NodeState to any other, on FakeKernel: they are completed, and interrupt nothing on the way.

Objects of others stay. `holds` decides from the kernel's own tables whether a state is reached; it shares no code with
the drivers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    KernelError,
    NeighborEntry,
    NewLink,
    RouteAttributes,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    UNDERLAY,
    FdbEntry,
    Hook,
    IpSet,
    IptablesTable,
    Neighbor,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import OWN, underlay, write_route

POOL = Pool("pool", "10.244.0.0/16", 26, "VXLAN", True)
tunnel_addresses = st.sampled_from([None, "10.244.1.1", "10.244.1.2"])
vxlan_devices = st.builds(
    TunnelDevice,
    name=st.just("vxlan.calico"),
    kind=st.just("vxlan"),
    mtu=st.sampled_from([1400, 1450]),
    local=st.just(OWN),
    address=tunnel_addresses,
    mac=st.sampled_from(["66:00:00:00:00:01", "66:00:00:00:00:02"]),
    vni=st.sampled_from([4096, 4097]),
    port=st.just(4789),
)
ipip_devices = st.builds(
    TunnelDevice, st.just("tunl0"), st.just("ipip"), st.sampled_from([1400, 1480]), st.just(OWN), tunnel_addresses
)
NAMES = ["a", "b", "c"]


@st.composite
def workloads(draw, name):
    return VethEndpoint(
        name=name,
        interface=f"cali{name}",
        address=f"10.244.1.{10 + NAMES.index(name)}" if draw(st.booleans()) else f"10.244.1.{20 + NAMES.index(name)}",
        mtu=draw(st.sampled_from([1400, 1450])),
        pool="pool",
        netns=draw(st.sampled_from([name, f"{name}-other"])),
        route_mtu=draw(st.sampled_from([None, 1400])),
    )


@st.composite
def probe_endpoints(draw):
    first, *further = draw(
        st.lists(st.sampled_from(["10.244.1.63", "10.245.1.63", "10.246.1.63"]), min_size=1, unique=True)
    )
    mtu = draw(st.sampled_from([1400, 1450]))
    return VethEndpoint(
        "probe", "caliprobe", first, mtu, "pool", "calico-system", "calico-probe", further=tuple(further)
    )


@st.composite
def node_states(draw):
    devices = []
    if draw(st.booleans()):
        devices.append(draw(ipip_devices))
    vxlan = draw(st.none() | vxlan_devices)
    if vxlan:
        devices.append(vxlan)
    peers = draw(st.sets(st.integers(12, 15))) if vxlan else set()
    endpoints = tuple(draw(workloads(name)) for name in NAMES if draw(st.booleans()))
    probe = draw(st.none() | probe_endpoints())
    joined = endpoints if probe is None else (*endpoints, probe)
    routes = [Route(f"{one}/32", device=endpoint.interface) for endpoint in joined for one in endpoint.addresses]
    gateways = st.sampled_from([UNDERLAY, *(device.name for device in devices)])
    for block in sorted(draw(st.sets(st.integers(2, 6)))):
        if draw(st.booleans()):
            routes.append(Route(f"10.244.{block}.0/26", "blackhole"))
        else:
            device = draw(gateways)
            mtu = draw(st.sampled_from([None, 1400]))
            onlink = device != UNDERLAY
            routes.append(Route(f"10.244.{block}.0/26", device=device, gateway="10.10.1.12", onlink=onlink, mtu=mtu))
    rules = []
    if draw(st.booleans()):
        rules.append(
            draw(st.sampled_from([RoutingRule(0xCA11, 179, 179), RoutingRule(0, 179, 179, 4, "caliprobe", 28)]))
        )
        routes.append(Route("10.244.2.0/26", device=UNDERLAY, gateway="10.10.1.13", table=179))
    sysctls = [Sysctl("net/ipv4/ip_forward", "1"), Sysctl(f"net/ipv4/conf/{UNDERLAY}/accept_redirects", "0")]
    for endpoint in joined:
        sysctls += [
            Sysctl(f"net/ipv4/neigh/{endpoint.interface}/proxy_delay", "0"),
            Sysctl(f"net/ipv4/conf/{endpoint.interface}/proxy_arp", "1"),
            Sysctl(f"net/ipv4/conf/{endpoint.interface}/forwarding", "1"),
        ]
    ipsets, tables = (), []
    if draw(st.booleans()):
        members = tuple(f"10.10.1.{n}" for n in sorted(draw(st.sets(st.integers(11, 15)))))
        ipsets = (IpSet("cali40all-hosts-net", "hash:net", members),)
        rule = "-p 4 -m set --match-set cali40all-hosts-net src -j ACCEPT"
        tables.append(
            IptablesTable("filter", {"cali-INPUT": (rule, "-p 4 -j DROP")}, (Hook("INPUT", "-j cali-INPUT"),))
        )
    if draw(st.booleans()):
        chains = {
            "cali-POSTROUTING": ("-j cali-nat",),
            "cali-nat": tuple(draw(st.permutations(["-j RETURN", "-j DROP"]))),
        }
        tables.append(IptablesTable("nat", chains, (Hook("POSTROUTING", "-j cali-POSTROUTING"),)))
    return NodeState(
        node="node1",
        address=f"{OWN}/24",
        pools=(POOL,),
        devices=tuple(devices),
        neighbors=tuple(Neighbor("vxlan.calico", f"10.10.1.{n}", f"66:00:00:00:01:{n}") for n in sorted(peers)),
        fdb=tuple(FdbEntry("vxlan.calico", f"66:00:00:00:01:{n}", f"10.10.1.{n}") for n in sorted(peers)),
        workloads=endpoints,
        probe_endpoint=probe,
        routes=tuple(routes),
        rules=tuple(rules),
        sysctls=tuple(sysctls),
        ipsets=ipsets,
        iptables=tuple(tables),
    )


def machine():
    """Return a FakeKernel with an underlay, and with objects of others of many kinds."""
    kernel = FakeKernel()
    with contextlib.suppress(KernelError):  # It fails and loads the module: each namespace then has a tunl0.
        kernel.link_add(NewLink("tunl0", "ipip"))
    underlay(kernel)
    kernel.link_add(NewLink("br0", "bridge"))
    kernel.link_set("br0", up=True, alias="theirs")
    kernel.address_add(InterfaceAddress("br0", "192.0.2.1", 24))
    for destination, protocol in (("198.51.100.0/24", 4), ("10.244.77.0/26", 12), ("203.0.113.0/24", 80)):
        write_route(kernel, destination, RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=protocol))
    kernel.neighbor_replace(NeighborEntry("eth0", "10.10.1.12", "02:00:00:00:99:12"))
    kernel.rule_add(RuleEntry(100, 100, 7, protocol=3))
    kernel.run(["ipset", "create", "theirs", "hash:ip"])
    kernel.run(
        ["iptables-restore", "--noflush"],
        stdin="*filter\n:theirs - [0:0]\n-A theirs -j ACCEPT\n-A INPUT -j theirs\nCOMMIT\n"
        "*nat\n-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE\nCOMMIT\n",
    )
    kernel.netns_add("theirs", "")
    kernel.inside("theirs").link_set("lo", up=True)
    return kernel


def theirs(kernel):
    links = {link.name: link for link in kernel.links()}
    saved = kernel.run(["iptables-save"]).output.splitlines()
    return (
        [(name, links[name].up, links[name].alias, links[name].mtu) for name in ("lo", "eth0", "wire0", "br0")],
        [address for address in kernel.addresses() if address.device in ("lo", "eth0", "br0")],
        sorted(entry for entry in kernel.routes() if entry[1].protocol != 179),
        kernel.neighbors("eth0"),
        [rule for rule in kernel.rules() if rule.protocol != 179],
        [line for line in saved if line.startswith("-A") and "host-routing:" not in line],
        [line for line in kernel.run(["ipset", "save"]).output.splitlines() if "theirs" in line],
        kernel.inside("theirs").snapshot(),
    )


def holds(kernel, state):
    """Raise AssertionError or KeyError unless the kernel has all of `state`, and no other objects of ours.

    Only IPv4 is looked at. Rules and chains of iptables are counted, not compared; other sysctls than those of `state`,
    bird.cfg and files are not looked at. Raise AttributeError if a workload has no eth0.
    """
    state = state.resolve_underlay("eth0")
    links = {link.name: link for link in kernel.links()}
    for device in state.devices:
        link = links[device.name]
        assert (link.kind, link.mtu, link.up) == (device.kind, device.mtu, True)
        if device.kind == "vxlan":
            assert (link.vni, link.port, link.local, link.mac) == (device.vni, device.port, device.local, device.mac)
        assert [a.address for a in kernel.addresses(device.name)] == ([device.address] if device.address else [])
    names = {device.name for device in state.devices}
    if "tunl0" in links and "tunl0" not in names:
        assert (links["tunl0"].up, links["tunl0"].alias, kernel.addresses("tunl0")) == (False, "", [])
    assert ("vxlan.calico" in links) == ("vxlan.calico" in names)
    if "vxlan.calico" in names:
        assert {(n.address, n.mac) for n in kernel.neighbors("vxlan.calico")} == {
            (n.address, n.mac) for n in state.neighbors
        }
        assert {(e.mac, e.destination) for e in kernel.fdb("vxlan.calico")} == {
            (e.mac, e.destination) for e in state.fdb
        }
    assert {name for name in links if name.startswith("cali")} == {w.interface for w in state.endpoints}
    assert set(kernel.netns_list()) == {"theirs"} | {w.netns for w in state.endpoints}
    for endpoint in state.endpoints:
        link, inner = links[endpoint.interface], kernel.inside(endpoint.netns)
        peer = inner.link("eth0")
        assert (link.up, link.mtu, link.mac, peer.up, peer.mtu) == (
            True,
            endpoint.mtu,
            "ee:ee:ee:ee:ee:ee",
            True,
            endpoint.mtu,
        )
        assert sorted(a.address for a in inner.addresses("eth0")) == sorted(endpoint.addresses)
        assert sorted((d, r.gateway, r.device, r.mtu) for d, r in inner.routes()) == [
            ("0.0.0.0/0", "169.254.1.1", "eth0", endpoint.route_mtu),
            ("169.254.1.1/32", None, "eth0", endpoint.route_mtu),
        ]
    assert sorted(
        (d, r.table, r.type, r.device, r.gateway, r.onlink, r.mtu) for d, r in kernel.routes(protocol=179)
    ) == sorted((r.destination, r.table, r.type, r.device, r.gateway, r.onlink, r.mtu) for r in state.routes)
    assert [(r.fwmark, r.interface, r.tos, r.table) for r in kernel.rules() if r.protocol == 179] == [
        (r.fwmark, r.interface, r.tos, r.table) for r in state.rules
    ]
    for sysctl in state.sysctls:
        assert kernel.sysctl_read(sysctl.key) == sysctl.value
    saved = kernel.run(["iptables-save"]).output
    assert saved.count(":cali-") == sum(len(table.chains) for table in state.iptables)
    assert saved.count("host-routing:") == sum(
        len(table.hooks) + sum(map(len, table.chains.values())) for table in state.iptables
    )
    sets = kernel.run(["ipset", "save"]).output
    assert [line for line in sets.splitlines() if "cali4" in line] == [
        line
        for ipset in state.ipsets
        for line in [
            f"create {ipset.name} {ipset.type} family inet hashsize 1024 maxelem 1048576",
            *(line for line in sets.splitlines() if line.startswith(f"add {ipset.name}")),
        ]
    ]
    for ipset in state.ipsets:
        assert {line.split()[2] for line in sets.splitlines() if line.startswith(f"add {ipset.name}")} == set(
            ipset.members
        )


def settle(kernel, state):
    plan = plan_node(kernel, state)
    apply_node(kernel, plan)
    assert plan_node(kernel, state).changes == ()
    return plan


def unharmed(before, after):
    """Return what must exist throughout the change from one state to the other: (routes, addressed devices).

    Both are sets. Routes are pairs (destination, table). The devices are tunnel devices, by name, with an address in
    both states. Devices that are made anew in between, and routes on them, are left out.
    """
    before, after = before.resolve_underlay("eth0"), after.resolve_underlay("eth0")

    def identities(state):
        devices = {(d.name, d.vni, d.port) for d in state.devices}
        return devices | {("eth0",)} | {(w.interface, w.netns) for w in state.endpoints}

    stay = {identity[0] for identity in identities(before) & identities(after)}

    def routes(state):
        return {(r.destination, r.table) for r in state.routes if r.device is None or r.device in stay}

    addressed = {d.name for d in before.devices if d.address} & {d.name for d in after.devices if d.address} & stay
    return routes(before) & routes(after), addressed


def watched(kernel, before, after):
    kept_routes, addressed = unharmed(before, after)

    def check(_changed):
        present = {(destination, attributes.table) for destination, attributes in kernel.routes()}
        assert kept_routes <= present, "a route was missing on the way"
        for device in addressed:
            assert kernel.addresses(device), f"{device} was without an address on the way"
        for link in kernel.links():
            if link.name.startswith("cali") and link.up:
                assert kernel.sysctl_read(f"net/ipv4/conf/{link.name}/proxy_arp") == "1", (
                    f"{link.name} was up too early"
                )

    kernel.watch(check)


@settings(max_examples=60, deadline=None)
@given(node_states(), node_states())
def test_any_state_is_reached_from_any_other(before, after):
    kernel = machine()
    others = theirs(kernel)
    settle(kernel, before)
    holds(kernel, before)
    watched(kernel, before, after)
    settle(kernel, after)
    kernel.watch(None)
    holds(kernel, after)
    assert theirs(kernel) == others
    assert kernel.violations == []
    settle(kernel, dataclasses.replace(after, sysctls=(), **dict.fromkeys(_OURS, ())))
    assert theirs(kernel) == others


_OURS = ("devices", "neighbors", "fdb", "workloads", "routes", "rules", "ipsets", "iptables")


@settings(max_examples=30, deadline=None)
@given(node_states(), node_states())
def test_planning_changes_nothing(before, after):
    kernel = machine()
    settle(kernel, before)
    snapshot = kernel.snapshot()
    plan_node(kernel, after).lines()
    assert kernel.snapshot() == snapshot


class _Killed(BaseException):
    pass


@settings(max_examples=60, deadline=None)
@given(node_states(), node_states(), st.integers(0, 60))
def test_a_run_killed_anywhere_is_completed_by_the_next(before, after, writes):
    kernel = machine()
    others = theirs(kernel)
    settle(kernel, before)
    left = [writes]

    def die(_changed):
        left[0] -= 1
        if left[0] < 0:
            raise _Killed

    kernel.watch(die)
    with contextlib.suppress(_Killed):
        apply_node(kernel, plan_node(kernel, after))
    kernel.watch(None)
    settle(kernel, after)
    holds(kernel, after)
    assert theirs(kernel) == others


OPERATIONS = [
    "link_add", "link_set", "link_delete", "address_add", "address_delete", "route_batch", "neighbor_replace",
    "neighbor_delete", "fdb_replace", "fdb_delete", "rule_add", "rule_delete", "sysctl_write", "netns_add",
    "netns_delete", "run",
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(node_states(), node_states(), st.sampled_from(OPERATIONS))
def test_a_refusal_is_reported_and_the_next_run_completes(before, after, operation):
    kernel = machine()
    others = theirs(kernel)
    settle(kernel, before)
    plan = plan_node(kernel, after)
    kernel.fail_next(operation, errno.ENOMEM)
    try:
        apply_node(kernel, plan)
    except ApplyError as error:
        assert "Cannot allocate memory" in str(error)
        assert not kernel.machine.failures
    else:
        assert kernel.machine.failures, "a refusal was passed over"
    kernel.machine.failures.clear()
    settle(kernel, after)
    holds(kernel, after)
    assert theirs(kernel) == others
