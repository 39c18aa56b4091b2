# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the kernel's notifications to the monitor: which of them reach it, and what it marks then."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import functools
import pathlib
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.watch import monitor as monitor_
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.watch.monitor import Monitor, open_socket
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import rtnetlink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.attach import (
    attach,
    detach_links,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node

from tests.integration.host_under_test import HOST, HostKernel, host_under_test
from tests.unit.dataplane.suites.drivers import underlay
from tests.unit.dataplane.suites.suite_node import STATE

BIRD, OSPF = 12, 188
_T = t.TypeVar("_T")


class Marked:
    """A stand-in for the reconciler that records the kinds that the monitor marks; None stands for all kinds."""

    def __init__(self) -> None:
        self.state = STATE
        self.devices = {"eth0", "cali111"}
        self.marks: list[str | None] = []

    def mark(self, kind: str | None = None) -> None:
        self.marks.append(kind)


class Host:
    """A host's namespace, and a monitor of it, which `listen` makes.

    `kernel` changes the namespace as another program does, `ours` as the agent does. `lost` is the number of times that
    the monitor has reported lost notifications, and `leaving` has the interfaces that the agent no longer wants.
    """

    def __init__(self, kernel: LinuxKernel, folder: pathlib.Path) -> None:
        self.kernel = kernel
        self.folder = folder
        self.ours = LinuxKernel(HOST, netns_folder=str(folder / "netns"), marker_folder=str(folder / "markers"))
        self.marked = Marked()
        self.lost = 0
        self.addresses = 0  # the number of reports that the host's addresses have changed
        self.leaving: set[str] = set()

    def listen(self, buffer: int = 8 << 20, **options: t.Any) -> Monitor:
        def lose() -> None:
            self.lost += 1

        def addresses() -> None:
            self.addresses += 1

        self.monitor = Monitor(
            self.marked,
            ports=lambda: [self.ours.netlink_port],
            wanted=lambda interface: interface not in self.leaving,
            opener=options.pop("opener", lambda: self.kernel._there(functools.partial(open_socket, buffer))),
            asker=lambda: self.kernel._there(rtnetlink.open_socket),
            on_lost=lose,
            on_addresses=addresses,
            **options,
        )
        return self.monitor

    async def until(self, holds: t.Callable[[], t.Any]) -> None:
        for dummy in range(6000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("not within 60 seconds")

    async def quiet(self) -> None:
        """Wait until no notification arrives for half a second; then clear the marks and the count of notifications.

        The wait has no limit.
        """
        before = -1
        while before != self.monitor.datagrams:
            before = self.monitor.datagrams
            await asyncio.sleep(0.5)
        self.marked.marks.clear()
        self.monitor.datagrams = 0

    async def marks_of(self, act: t.Callable[[], object], least: t.Collection[str] = ()) -> set[str | None]:
        """Wait for `quiet`, run `act`, and return the kinds marked until 0.6 seconds after it; set() if none was.

        These begin when the kinds `least` are marked. The set holds None if all kinds were marked at once.
        Raise AssertionError if `least` are not marked within 60 seconds.
        """
        await self.quiet()
        act()
        await self.until(lambda: set(self.marked.marks) >= set(least))
        await asyncio.sleep(0.6)
        return set(self.marked.marks)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> t.Iterator[Host]:
    with host_under_test(tmp_path, HostKernel) as kernel:
        underlay(kernel)
        found = Host(kernel, tmp_path)
        plan = plan_node(found.ours, STATE)
        apply_node(found.ours, plan)
        yield found
        found.ours.close()


def run(host: Host, scenario: t.Callable[[], t.Coroutine[t.Any, t.Any, _T]], **options: t.Any) -> _T:
    async def whole() -> _T:
        task = asyncio.ensure_future(host.listen(**options).run())
        try:
            await host.until(lambda: host.marked.marks or task.done())
            return await scenario()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(whole())


def routes(action: str, count: int, protocol: int, gateway: str = "10.10.1.9") -> list[RouteOperation]:
    attributes = RouteAttributes(device="eth0", gateway=gateway, protocol=protocol)
    return [
        RouteOperation(action, f"172.{16 + (n >> 16)}.{n >> 8 & 255}.{n & 255}/32", attributes) for n in range(count)
    ]


def test_a_flap_of_ten_thousand_bird_routes_does_not_wake_the_monitor(host: Host) -> None:
    async def scenario() -> None:
        await host.quiet()
        for action, gateway in (("add", "10.10.1.9"), ("replace", "10.10.1.10"), ("delete", "10.10.1.10")):
            assert host.kernel.route_batch(routes(action, 10_000, BIRD, gateway)) == []
        await asyncio.sleep(0.5)
        assert host.monitor.datagrams == 0
        assert host.marked.marks == []

    run(host, scenario)


def test_ten_thousand_routes_of_another_daemon_have_nothing_looked_at(host: Host) -> None:
    async def scenario() -> None:
        await host.quiet()
        assert host.kernel.route_batch(routes("add", 10_000, OSPF)) == []
        await host.until(lambda: host.monitor.datagrams == 10_000)
        assert host.marked.marks == []
        assert host.lost == 0

    run(host, scenario)


def test_a_buffer_that_overflows_has_everything_looked_at(host: Host) -> None:
    async def scenario() -> None:
        await host.quiet()
        host.kernel.route_batch(routes("add", 10_000, OSPF))  # meanwhile the event loop reads no notification
        await host.until(lambda: host.marked.marks)
        assert host.marked.marks == [None]
        assert host.lost == host.monitor.lost == 1
        await host.marks_of(lambda: host.kernel.link_set("cali111", up=False), {"workload"})

    run(host, scenario, buffer=4096)


class Perishable:
    """A netlink socket whose `recv` raises OSError once `dead` is true."""

    def __init__(self, real: socket.socket) -> None:
        self.real = real
        self.dead = False

    def recv(self, size: int) -> bytes:
        if self.dead:
            raise OSError(errno.EBADF, "gone")
        return self.real.recv(size)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self.real, name)


def test_a_lost_socket_is_opened_anew_and_everything_looked_at(host: Host) -> None:
    opened: list[t.Any] = []

    async def scenario() -> None:
        await host.quiet()
        opened[-1].setsockopt(270, 1, 1)  # NETLINK_ADD_MEMBERSHIP, which would fail on a closed socket
        opened[-1].dead = True
        host.kernel.link_set("cali111", up=False)
        await host.until(lambda: None in host.marked.marks)
        await host.until(lambda: len(opened) == 2)
        host.kernel.link_set("cali111", up=True)
        await host.marks_of(lambda: host.kernel.link_set("cali111", up=False), {"workload"})

    def opener() -> t.Any:
        opened.append(Perishable(host.kernel._there(open_socket)))
        return opened[-1]

    run(host, scenario, opener=opener, reopen=0.05)


def test_our_own_changes_do_not_come_back(host: Host) -> None:
    """The agent's own changes of a workload mark nothing, and notifications of its own routes are not even received."""
    endpoint = dataclasses.replace(STATE.workloads[0], name="db", interface="cali222", address="10.244.1.6", netns="db")

    async def scenario() -> None:
        await host.quiet()
        assert host.ours.route_batch(routes("add", 100, 179)) == []
        await asyncio.sleep(0.1)
        assert host.monitor.datagrams == 0
        attach(host.ours, endpoint)
        await asyncio.sleep(0.6)
        host.leaving.add("cali222")
        assert not detach_links(host.ours, [endpoint])
        await asyncio.sleep(0.6)
        assert host.marked.marks == []

    run(host, scenario)


@pytest.mark.parametrize(
    ("what", "kinds"),
    [
        ("ip route del 10.244.1.5", {"route"}),
        ("ip route replace 10.244.1.5 via 10.10.1.9", {"route"}),
        ("ip route add 10.244.1.99 dev cali111 proto 179", {"route"}),
        ("ip route add 198.51.100.0/24 via 10.10.1.9", set()),
        ("ip route add 10.244.1.99 via 10.10.1.9 table 77", set()),
        ("ip -6 route add 2001:db8::/64 dev eth0", set()),
        ("ip rule del priority 179", {"rule"}),
        ("ip rule add priority 99 fwmark 7 lookup 99", set()),
        ("ip address del 10.244.1.1/32 dev vxlan.calico", {"tunnel", "route"}),
        ("ip address add 192.0.2.1/32 dev eth0", set()),
        (
            "ip address del 10.10.1.11/24 dev eth0",
            {"tunnel", "workload", "sysctl", "neighbor", "rule", "route"},
        ),
        ("ip neighbor del 10.10.1.12 dev vxlan.calico", {"neighbor"}),
        ("bridge fdb del 66:00:00:00:00:02 dev vxlan.calico dst 10.10.1.12", {"neighbor"}),
        ("ip neighbor replace 10.10.1.77 lladdr 02:00:00:00:00:01 dev eth0", set()),
        ("ip link del vxlan.calico", {"tunnel", "neighbor", "route"}),
        ("ip link set vxlan.calico down", {"tunnel", "neighbor", "route"}),
        ("ip link set cali111 down", {"workload", "sysctl"}),
        ("ip link set cali111 mtu 1300", {"workload"}),
        ("ip link del cali111", {"workload"}),
        ("ip link set eth0 down", {"route"}),
        ("ip link add theirs0 type veth peer name theirs1; ip link set theirs0 up; ip link del theirs0", set()),
        ("ip link add br9 type bridge; ip link set wire0 master br9; ip link set wire0 nomaster", set()),
        ("echo 0 > /proc/sys/net/ipv4/conf/cali111/proxy_arp", {"workload", "sysctl"}),
        ("echo 0 > /proc/sys/net/ipv4/conf/cali111/forwarding", {"workload", "sysctl"}),
        ("echo 0 > /proc/sys/net/ipv4/conf/eth0/rp_filter", {"sysctl"}),
        ("echo 1 > /proc/sys/net/ipv4/conf/cali111/rp_filter", set()),
    ],
)
def test_each_change_marks_the_kinds_that_it_affects(host: Host, what: str, kinds: set[str]) -> None:
    def act() -> None:
        done = host.kernel.run(["sh", "-euc", what])
        assert done.code == 0, done

    async def scenario() -> None:
        found = await host.marks_of(act, kinds)
        assert kinds or not found

    run(host, scenario)


@pytest.mark.parametrize("whose", ["kernel", "ours"])
def test_the_filter_follows_a_tunnel_device_that_was_made_anew(host: Host, whose: str) -> None:
    async def scenario() -> None:
        await host.quiet()
        getattr(host, whose).link_delete("vxlan.calico")
        host.ours.link_add(NewLink("vxlan.calico", "vxlan", vni=7, port=4790, local="10.10.1.11"))
        host.ours.link_set("vxlan.calico", up=True)
        host.ours.address_add(InterfaceAddress("vxlan.calico", "10.244.1.1", 32))
        await asyncio.sleep(1.2)
        add = ["ip", "neighbor", "replace", "10.10.1.12", "lladdr", "66:00:00:00:00:02", "dev", "vxlan.calico"]
        assert await host.marks_of(lambda: host.kernel.run(add), {"neighbor"}) == {"neighbor"}

    run(host, scenario)


def test_tunnel_devices_are_asked_for_when_there_is_news_of_them(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its start, the monitor reads a tunnel device only when the kernel reports a change.

    The reason is that the kernel answers such a question only when no device is being changed.
    """
    asked = []
    get_link = rtnetlink.get_link
    monkeypatch.setattr(monitor_.rt, "get_link", lambda channel, name: (asked.append(name), get_link(channel, name))[1])

    async def scenario() -> None:
        await host.quiet()
        for dummy in range(20):  # the monitor reads the devices once more after it has begun to listen
            asked.clear()
            await asyncio.sleep(2.2)
            if not asked:
                break
        assert asked == []
        host.kernel.link_set("vxlan.calico", up=False)
        await host.until(lambda: "vxlan.calico" in asked)

    run(host, scenario)


def test_changed_addresses_of_the_host_are_reported(host: Host) -> None:
    async def scenario() -> None:
        await host.quiet()
        for act in (host.kernel.address_add, host.kernel.address_delete):
            before = host.addresses
            act(InterfaceAddress("eth0", "192.0.2.77", 32))
            await host.until(lambda before=before: host.addresses > before)
        before = host.addresses
        host.kernel.link_set("eth0", mtu=1400)
        await asyncio.sleep(0.3)
        assert host.addresses == before

    run(host, scenario)
