# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload on the settings of the host's devices, on a node without a firewall."""

from __future__ import annotations

import dataclasses
import ipaddress
import pathlib
import random
import socket
import struct
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write.writer import Direct
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    NodeState,
    Route,
)

from tests.integration.attacks import forged_packets as forged
from tests.integration.attacks.devices_under_attack import (
    HOST,
    PEER,
    Host,
    advertisement,
    arp,
    checksum,
    endpoint,
    ethernet,
    ipv4,
    received,
    state,
    udp,
    until,
)
from tests.integration.host_under_test import HostKernel, host_under_test

MANY = 10_000


@pytest.fixture
def host(tmp_path: pathlib.Path) -> t.Iterator[Host]:
    with host_under_test(tmp_path, HostKernel) as kernel:
        made = Host(kernel)
        yield made
        made.close()


@pytest.fixture
def wanted() -> NodeState:
    return state()


def spoofed(wanted: NodeState) -> list[str]:
    """Return foreign source addresses: of another workload here and elsewhere, of nodes, and unrelated ones."""
    elsewhere = next(route for route in wanted.bird_routes if route.node == "node2").destination
    return [
        endpoint(wanted, "app").address,
        str(ipaddress.ip_network(elsewhere)[1]),
        wanted.ipam.blocks[0].cidr.partition("/")[0],
        PEER,
        HOST,
        "10.10.1.1",
        "8.8.8.8",
        "169.254.1.1",
    ]


@pytest.mark.parametrize("how", ["plan", "attach"])
def test_a_workload_cannot_send_as_somebody_else(host: Host, wanted: NodeState, how: str) -> None:
    """Send from addresses of other workloads, nodes and networks, to the host and through it, without policy.

    `how` is as for Host.make.

    Gain: Access that others are allowed, and answers from others that hide the sender.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: only packets with the workload's own source arrive.
    """
    host.make(how, wanted)
    web, app = endpoint(wanted, "web"), endpoint(wanted, "app")
    here, there = host.listens(), host.listens("app")

    def arriving(destination: str, listener: socket.socket) -> set[str]:
        packets = [udp(source, destination) for source in spoofed(wanted) if source != destination]
        host.sends("web", "eth0", *map(ethernet, [*packets, udp(web.address, destination, b"last")]))
        return received(listener)

    assert arriving(HOST, here) == set()
    assert arriving(app.address, there) == set()
    # Where sources are not checked (rp_filter is 0), the same packets do arrive.
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/rp_filter", "0")
    assert len(arriving(HOST, here)) > 4
    assert len(arriving(app.address, there)) > 4


@pytest.mark.parametrize("how", ["plan", "attach"])
def test_a_workload_cannot_advertise_itself_as_router(host: Host, wanted: NodeState, how: str) -> None:
    """Send a Router Advertisement to an IPv4-only node that has no policy.

    `how` is as for Host.make.

    Gain: The host's IPv6 default route, and with it all of the host's own IPv6 traffic.
    Precedent: CVE-2020-13597.
    Closed: 0.2.0
    Result: The host accepts no route, address or MTU from it.
    """
    host.make(how, wanted)
    control = host.control()
    web = endpoint(wanted, "web").interface

    def taken() -> bool:
        # A device that is not ready for IPv6 yet drops an advertisement, so that one alone proves nothing.
        host.sends("web", "eth0", advertisement())
        host.sends("wire", "ctl1", advertisement())
        return len(host.taken(control)) >= 3

    assert until(taken), "the advertisement of this test is not sound"
    assert host.taken(web) == []
    assert web not in host.default_routes6()
    assert host.kernel.sysctl_read(f"net/ipv6/conf/{web}/mtu") == "1450"


def test_an_advertisement_accepted_from_a_workload_is_removed(host: Host, wanted: NodeState) -> None:
    """Make the host accept a Router Advertisement before it runs this release.

    Gain: The host's IPv6 default route, and with it all of the host's own IPv6 traffic.
    Precedent: CVE-2020-13597.
    Closed: 0.2.0
    Result: The plan names the accepted addresses and routes, and removes them without interrupting the workload.
    """
    host.make("plan", wanted)
    web = endpoint(wanted, "web")
    for setting in ("accept_ra", "autoconf"):
        host.kernel.sysctl_write(f"net/ipv6/conf/{web.interface}/{setting}", "1")

    def taken() -> bool:
        host.sends("web", "eth0", advertisement())
        return len(host.taken(web.interface)) >= 3 and web.interface in host.default_routes6()

    assert until(taken)
    routes = host.kernel.routes(protocol=179)

    plan = plan_node(host.kernel, wanted)
    (change,) = plan.changes
    assert (change.kind, change.action, change.subject) == ("workload", "~", "default/web")
    address = next(one for one in host.kernel.addresses(web.interface, 6) if not one.permanent)
    assert (change.before or "").split("  ")[:3] == [
        "ipv6 accept_ra 1",
        "ipv6 autoconf 1",
        f"advertised address {address.address}/64",
    ]
    assert "advertised route ::/0 via fe80::bad" in (change.before or "")
    apply_node(host.kernel, plan)
    assert host.taken(web.interface) == []
    assert web.interface not in host.default_routes6()
    assert host.kernel.sysctl_read(f"net/ipv6/conf/{web.interface}/mtu") == "1450"
    assert host.kernel.routes(protocol=179) == routes
    assert not plan_node(host.kernel, wanted).changes

    # The next run removes a route that is left because a run was stopped after it had closed the device.
    left = RouteAttributes(device=web.interface, gateway="fe80::bad", protocol=9, metric=1024)
    assert not host.kernel.route_batch([RouteOperation("add", "::/0", left)])
    host.apply(wanted)
    assert host.taken(web.interface) == []


@pytest.mark.parametrize("how", ["plan", "attach"])
def test_forged_arp_does_not_fill_the_neighbour_table(host: Host, wanted: NodeState, how: str) -> None:
    """Send thousands of ARP requests and replies with random sender addresses.

    `how` is as for Host.make.

    Gain: A full neighbour table, and no new neighbour for the host and its workloads.
    Precedent: CWE-770.
    Closed: 0.2.0
    Result: The host keeps the workload's own entry and at most two others.
    """
    host.make(how, wanted)
    web = endpoint(wanted, "web")
    chance = random.Random(20)
    pools = ["10.0.0.0/8", "10.10.1.0/24", "8.8.0.0/16", "169.254.0.0/16", wanted.ipam.blocks[0].cidr]

    def forged() -> str:
        net = ipaddress.ip_network(chance.choice(pools))
        return str(net[chance.randrange(net.num_addresses)])

    def frames(count: int) -> t.Iterator[bytes]:
        for number in range(count):
            sender = forged()
            target = ("169.254.1.1", HOST, forged(), sender)[number % 4]  # the last one is gratuitous
            yield arp(2 if number % 8 == 7 else 1, sender, target)

    host.sends("web", "eth0", *frames(MANY), arp(1, web.address, "169.254.1.1"))
    assert until(lambda: any(web.address in line for line in host.neighbours(web.interface)))
    assert len(host.neighbours(web.interface)) <= 3
    # Where sources are not checked, such frames do fill the host's neighbour table.
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/rp_filter", "0")
    host.sends("web", "eth0", *frames(200))
    assert until(lambda: len(host.neighbours(web.interface)) > 50)


def test_a_workload_cannot_route_by_the_senders_list(host: Host, wanted: NodeState) -> None:
    """Send a packet with a source route that leads to another workload (loose source routing).

    Gain: Packets that reach others from an address of the host, past filters for forwarded packets.
    Precedent: CWE-291, CVE-1999-0909.
    Closed: 0.2.0
    Result: The host drops such packets, whatever its setting for all interfaces.
    """
    host.make("attach", wanted)
    web, app = endpoint(wanted, "web"), endpoint(wanted, "app")
    there = host.listens("app")
    options = bytes((131, 7, 4)) + ipaddress.ip_address(app.address).packed + b"\0"

    def arriving() -> set[str]:
        host.sends("web", "eth0", ethernet(udp(web.address, HOST, options=options)))
        host.sends("web", "eth0", ethernet(udp(web.address, app.address, b"last")))
        return received(there)

    host.inside("app").sysctl_write("net/ipv4/conf/all/accept_source_route", "1")
    host.inside("app").sysctl_write("net/ipv4/conf/eth0/accept_source_route", "1")
    assert arriving() == set()
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/accept_source_route", "1")
    assert arriving() == {web.address}


@pytest.mark.parametrize("how", ["plan", "attach"])
def test_a_workload_cannot_reach_the_loopback(host: Host, wanted: NodeState, how: str) -> None:
    """Send to 127.0.0.1 of a host whose new devices route such packets (net.ipv4.conf.default.route_localnet).

    `how` is as for Host.make.

    Gain: Services that listen on the loopback alone because they trust every local program.
    Precedent: CVE-2020-8558.
    Closed: 0.2.0
    Result: The device's own setting drops them, also on a node without rules.
    """
    host.kernel.sysctl_write("net/ipv4/conf/default/route_localnet", "1")
    host.make(how, wanted)
    web = endpoint(wanted, "web")
    listener = host.listens()

    def arriving() -> set[str]:
        host.sends("web", "eth0", ethernet(udp(web.address, "127.0.0.1")), ethernet(udp(web.address, HOST, b"last")))
        return received(listener)

    assert arriving() == set()
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/route_localnet", "1")
    assert arriving() == {web.address}


@pytest.mark.parametrize("how", ["plan", "attach"])
def test_unasked_advertisements_do_not_fill_the_neighbour_table(host: Host, wanted: NodeState, how: str) -> None:
    """Send unsolicited neighbour advertisements to a host whose new devices learn from them (accept_untracked_na).

    `how` is as for Host.make.

    Gain: A full neighbour table, and no new neighbour for the host and its workloads.
    Precedent: CWE-770, RFC 9131.
    Closed: 0.2.0
    Result: The host learns no entry.
    """
    keys = [f"net/ipv6/conf/{name}/accept_untracked_na" for name in ("default", endpoint(wanted, "web").interface)]
    # Older kernels lack the setting, and never learn from such messages.
    has_setting = host.kernel.sysctl_read(keys[0]) is not None
    if has_setting:
        host.kernel.sysctl_write(keys[0], "1")
    host.make(how, wanted)
    host.kernel.sysctl_write("net/ipv6/conf/all/forwarding", "1")
    web = endpoint(wanted, "web")

    def learned(*numbers: int) -> int:
        host.sends("web", "eth0", *(neighbour_advertisement(f"fe80::bad:{number:x}") for number in numbers))
        host.sends("web", "eth0", ethernet(udp(web.address, HOST, b"last")))
        assert received(listener) == set()
        shown = host.kernel.run(["ip", "-6", "neighbour", "show", "nud", "all", "dev", web.interface]).output
        return shown.count("fe80::bad:")

    listener = host.listens()
    assert learned(*range(1, 50)) == 0
    if has_setting:
        host.kernel.sysctl_write(keys[1], "1")
        assert learned(*range(1, 50)) > 20


def neighbour_advertisement(target: str) -> bytes:
    """Return an Ethernet frame with an unsolicited neighbour advertisement of `target` to all nodes.

    The MAC address that it advertises is 02:00:00:00:00:66, which is its sender's.
    """
    body = struct.pack("!I", 0x20000000) + ipaddress.ip_address(target).packed + b"\2\1" + b"\2\0\0\0\0\x66"
    packet = forged.icmpv6(target, "ff02::1", forged.NEIGHBOR_ADVERTISEMENT, body)
    return ethernet(packet, "33:33:00:00:00:01", kind=0x86DD)


#: Commands that root runs in a workload's namespace, and the problem that the node then has with the workload, "" if it
#: can be repaired.
BREAKING = {
    "lo": (("ip link set lo down", "ip link set lo name loop"), ""),
    "address": (("ip address flush dev eth0", "ip link set eth0 alias {alias}", "{many}"), ""),
    "name": (
        ("ip link add other type bridge", "ip link del eth0", "ip link property add dev other altname eth0"),
        "make device cali",
    ),
    "device": (("ip link del eth0", "ip link add eth0 type bridge"), "there is a device eth0 already"),
    "route": (
        ("ip link add other type bridge", "ip link set other up", "ip route replace default dev other"),
        "there is a route default",
    ),
}


@pytest.mark.parametrize("how", BREAKING)
def test_a_broken_workload_namespace_blocks_nothing_else(
    host: Host, wanted: NodeState, tmp_path: pathlib.Path, how: str
) -> None:
    """Break the network namespace so that a repair may fail, for example by a taken name or by too many addresses.

    Gain: The node's BIRD is not reloaded, nothing is removed, and no run ends there any more.
    Precedent: CWE-400, CWE-636.
    Closed: 0.2.0
    Result: The workload is repaired, or the failure is reported for it. Additions, BIRD and removals go on, also
    without an agent.
    """
    gone = Route("10.244.200.0/26", "blackhole")
    host.make("plan", dataclasses.replace(wanted, routes=(*wanted.routes, gone)))
    app = endpoint(wanted, "app")
    many = [f"10.9.9.{number}" for number in range(1, 31)]
    alias = f"calico: address {' '.join(many)}"[:256].rpartition(" ")[0]
    adding = "; ".join(f"ip address add {address}/32 dev eth0" for address in many)
    commands, problem = BREAKING[how]
    for command in commands:
        script = command.format(alias=f"'{alias}'", many=adding)
        done = host.inside("web").run(["sh", "-ec", script])
        assert done.code == 0, done.output
    host.kernel.link_set(app.interface, mtu=1300)
    called: list[int] = []
    paths = {name: str(tmp_path / name) for name in ("ipam", "store", "workloads", "writer_lock")}
    writer = Direct(Machine(host.kernel, **paths), "test")
    plan = writer.plan(wanted)
    notes = [*plan.kept, *writer.apply(wanted, plan, lambda: called.append(1))]
    assert plan.problems == () and called == [1]
    assert [(note.action, note.subject, problem in note.note) for note in notes if note.kind == "workload"] == (
        [("=", "default/web", True)] if problem else []
    )
    assert gone.destination not in dict(host.kernel.routes(protocol=179))
    link = host.kernel.link(app.interface)
    assert link is not None and link.mtu == app.mtu
    if not problem:
        unlisted = set(many).difference(alias.split()) if how == "address" else set()
        held = {one.address for one in host.inside("web").addresses("eth0")}
        assert held == {endpoint(wanted, "web").address, *unlisted}
        assert [change.line() for change in writer.plan(wanted).changes] == []


def test_a_workload_cannot_redirect_the_host(host: Host, wanted: NodeState) -> None:
    """Answer the host's packets through a routing guest with ICMP redirects to another address.

    Gain: The host's traffic to a network that the attacker chooses.
    Precedent: CWE-940.
    Closed: 0.2.0
    Result: The host's route does not change.
    """
    host.make("attach", wanted)
    web = endpoint(wanted, "web")
    host.kernel.sysctl_write("net/ipv4/conf/all/accept_redirects", "1")
    onward = RouteAttributes(device=web.interface, gateway=web.address, onlink=True)
    assert not host.kernel.route_batch([RouteOperation("add", "192.0.2.0/24", onward)])

    def redirected() -> bool:
        sends_redirect()
        host.sends("web", "eth0", arp(2, "10.10.1.99", HOST))  # the new router has to answer
        sends_redirect()
        return "10.10.1.99" in host.kernel.run(["ip", "route", "get", "192.0.2.9"]).output

    def sends_redirect() -> None:
        sent = ipv4(ipaddress.ip_address(HOST).packed + ipaddress.ip_address("192.0.2.9").packed, 1, bytes(8))
        body = struct.pack("!BBH", 5, 1, 0) + ipaddress.ip_address("10.10.1.99").packed + sent
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        ends = ipaddress.ip_address(web.address).packed + ipaddress.ip_address(HOST).packed
        host.sends("web", "eth0", ethernet(ipv4(ends, 1, body)))
        time.sleep(0.1)

    assert not redirected()
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/accept_redirects", "1")
    host.kernel.sysctl_write(f"net/ipv4/conf/{web.interface}/shared_media", "1")
    assert until(redirected), "the redirect of this test is not sound"


def test_no_device_of_ours_believes_its_neighbours(host: Host, wanted: NodeState) -> None:
    """Find a device of the collection that accepts settings from its neighbours because of the host's defaults.

    Gain: addresses, routes and redirects that the attacker chooses.
    Precedent: CVE-2020-13597.
    Closed: 0.2.0
    Result: All settings are closed on host ends and tunnel devices, and the next run closes those that a program opens.
    """
    host.make("attach", wanted)
    devices = [*(one.interface for one in wanted.workloads), *(one.name for one in wanted.devices)]
    keys = [hardening.key(setting, device) for setting in hardening.SETTINGS for device in devices]
    assert {host.kernel.sysctl_read(key) for key in keys} <= {"0", None}
    for key in keys:
        if host.kernel.sysctl_read(key) is not None:
            host.kernel.sysctl_write(key, "1")
    assert len(host.apply(wanted)) == len(devices)
    assert {host.kernel.sysctl_read(key) for key in keys} <= {"0", None}


def test_a_host_that_overrules_the_check_is_refused(host: Host, wanted: NodeState) -> None:
    """Send with a foreign source on a host whose administrator set rp_filter to 2 for all interfaces.

    Gain: Access that others are allowed.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: The plan refuses the host and names the setting to change. It also refuses the value 1 for all interfaces if
    calico_workload_source_spoofing is set.
    """
    host.kernel.sysctl_write("net/ipv4/conf/all/rp_filter", "2")
    (problem,) = plan_node(host.kernel, wanted).problems
    assert (problem.kind, problem.subject, problem.before) == ("sysctl", "net.ipv4.conf.all.rp_filter", "2")
    assert problem.note == (
        "net.ipv4.conf.all.rp_filter is 2, and the kernel takes the greater value of that and an interface's own: the"
        " sources of workloads' packets would be checked loosely, not strictly. It was not touched. Set it to 0 or 1"
        " where it is set (grep -r rp_filter /etc/sysctl.d /etc/sysctl.conf) and by sysctl -w, give interfaces that"
        " need 2 that value of their own, then run again."
    )
    host.kernel.sysctl_write("net/ipv4/conf/all/rp_filter", "1")
    assert not plan_node(host.kernel, wanted).problems
    (problem,) = plan_node(host.kernel, state(spoofing=True)).problems
    assert problem.note == (
        "net.ipv4.conf.all.rp_filter is 1, and the kernel takes the greater value of that and an interface's own: what"
        " guests route would be dropped, although calico_workload_source_spoofing is set for this node. It was not"
        " touched. Set it to 0 where it is set (grep -r rp_filter /etc/sysctl.d /etc/sysctl.conf) and by sysctl -w,"
        " give interfaces that need 1 that value of their own, then run again."
    )
