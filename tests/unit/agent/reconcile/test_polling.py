# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of polling with the reconciler on a fake kernel: unannounced changes are repaired within two seconds."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import math
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known.policy_compilers import (
    PolicyNotCompiled,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.polling import Polling
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Sysctl, VethEndpoint

from tests.unit.agent.reconcile.test_reconcile import Node
from tests.unit.agent.virtual_time import run
from tests.unit.dataplane.suites.suite_node import STATE


class Marked:
    """A proxy of stages that counts calls of `ask` in `asked`, and keeps the marks in `marks`.

    A mark is a kind, None for all kinds, or (kind, interiors) if there are interiors.
    """

    def __init__(self, stages):
        self.stages = stages
        self.wanted = stages.wanted
        self.marks = []
        self.asked = 0

    changed = property(lambda self: self.stages.changed)
    rules_mark = property(lambda self: self.stages.rules_mark)
    are_sets_doubtful = property(lambda self: self.stages.are_sets_doubtful)

    async def ask(self, question):
        self.asked += 1
        return await self.stages.ask(question)

    def mark(self, kind=None, interiors=()):
        self.marks.append((kind, tuple(interiors)) if interiors else kind)
        self.stages.mark(kind, interiors)


async def polled(node, **options):
    """Start `node` and its polling, and return a Marked for it after the first poll; the next poll is 0.1 s away.

    `options` are those of Polling, whose period stays one second of the loop's clock. Raise AssertionError if the node
    is not in sync after its start, or the polling has ended.
    """
    await node.start()
    await asyncio.sleep(1 - asyncio.get_running_loop().time() % 1)
    marked = Marked(node.stages)
    task = asyncio.ensure_future(Polling(marked, **options).run())
    await asyncio.sleep(0.9)
    marked.marks.clear()
    assert not task.done()
    return marked


def restore(kernel, *lines):
    text = "\n".join(["*filter", *lines, "COMMIT", ""])
    assert kernel.run(["iptables-restore", "--noflush"], stdin=text).code == 0


def replace_by_bird(kernel):
    other = RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=12)
    assert kernel.route_batch([RouteOperation("replace", "10.244.1.5/32", other)]) == []


@pytest.mark.parametrize(
    ("act", "kind", "told"),
    [
        (
            lambda kernel: kernel.sysctl_write("net/ipv4/neigh/cali111/proxy_delay", "80"),
            "sysctl",
            "drift ~ sysctl   net.ipv4.neigh.cali111.proxy_delay  80  ->  0",
        ),
        (
            lambda kernel: restore(kernel, "-F cali-INPUT"),
            "iptables",
            "drift ~ iptables filter cali-INPUT  0 rules  ->  1 rule",
        ),
        (
            lambda kernel: kernel.run(["ipset", "del", "cali40all-hosts-net", "10.10.1.12"]),
            "ipset",
            "drift ~ ipset    cali40all-hosts-net  hash:net  1 member  ->  hash:net  2 members    1 in, 0 out",
        ),
        (
            replace_by_bird,
            "route",
            "drift ~ route    10.244.1.5/32  via 10.10.1.9 dev eth0  ->  dev cali111    taken over from BIRD",
        ),
        (
            lambda kernel: kernel.inside("web-1").address_delete(InterfaceAddress("eth0", "10.244.1.5", 32)),
            ("workload", ("cali111",)),
            "drift ~ workload default/web-1  address none  ->  address 10.244.1.5",
        ),
    ],
)
def test_unannounced_changes_are_repaired_within_two_seconds(act, kind, told):
    async def scenario():
        node = Node()
        marked = await polled(node)
        act(node.kernel)
        await asyncio.sleep(2)
        assert kind in marked.marks
        assert node.told == [told]
        assert node.passes.in_sync
        # Break the kernel again as soon as it is repaired, so that a poll reads the same as the poll before.
        for count in range(2, 6):
            act(node.kernel)
            for dummy in range(200):
                if len(node.told) < count:
                    await asyncio.sleep(0.01)
            assert node.told == [told] * count
        await asyncio.sleep(5)
        marked.marks.clear()
        await asyncio.sleep(60)
        assert marked.marks == []

    run(scenario())


def test_nothing_is_marked_where_nothing_changes():
    async def scenario():
        node = Node()
        marked = await polled(node)
        await asyncio.sleep(60)
        assert marked.marks == []
        assert node.told == []

    run(scenario())


def test_a_small_node_is_read_in_one_go_each_second():
    """A poll of a small node asks the drivers' thread once a second: a question costs more than the reads in it."""

    async def scenario():
        marked = await polled(Node())
        before = marked.asked
        await asyncio.sleep(10)
        assert marked.asked - before == 10

    run(scenario())


def test_routes_that_take_long_to_read_are_read_seldom():
    """Reading them takes a thousandth of a processor; a foreign route is repaired all the same, only later."""

    async def scenario():
        node = Node()
        marked = await polled(node)
        read, reads = node.kernel.routes_mark, []

        def slow(protocol):
            reads.append(protocol)
            end = time.thread_time() + 0.005
            while time.thread_time() < end:
                pass
            return read(protocol)

        node.kernel.routes_mark = slow
        await asyncio.sleep(60)
        assert 3 <= len(reads) <= 11
        replace_by_bird(node.kernel)
        await asyncio.sleep(20)
        assert set(marked.marks) == {"route"}
        assert [line.split()[:4] for line in node.told] == ["drift ~ route 10.244.1.5/32".split()]

    run(scenario())


def test_a_fault_that_cannot_be_repaired_is_marked_once():
    """A fault that cannot be repaired is marked once; the reconciler itself retries, here 8 to 13 times a minute."""

    async def scenario():
        node = Node()
        marked = await polled(node)
        refused = 0

        def refuse(key, value):
            nonlocal refused
            refused += 1
            raise OSError(errno.EROFS, "Read-only file system")

        write, node.kernel.sysctl_write = node.kernel.sysctl_write, refuse
        write("net/ipv4/neigh/cali111/proxy_delay", "80")
        await asyncio.sleep(60)
        assert marked.marks.count("sysctl") == 1
        assert 8 <= refused <= 13
        node.kernel.sysctl_write = write
        await asyncio.sleep(11)
        assert node.passes.in_sync

    run(scenario())


def test_polling_reads_only_sysctls_that_the_monitor_does_not_report():
    async def scenario():
        node = Node()
        await polled(node)
        read, keys = node.kernel.sysctl_read, []
        node.kernel.sysctl_read = lambda key: (keys.append(key), read(key))[1]
        await asyncio.sleep(1)
        assert set(keys) == {"net/ipv4/neigh/cali111/proxy_delay"}

    run(scenario())


@pytest.mark.parametrize(("number", "seconds"), [(1000, 10), (18000, 90)])
def test_each_sysctl_is_read_once_in_a_round(number, seconds):
    """100 are read per second, or more if a round would take longer than 90 seconds; another program's are repaired."""

    async def scenario():
        keys = [f"net/ipv4/neigh/calix{n}/proxy_delay" for n in range(number - 1)]  # and the one of STATE
        state = dataclasses.replace(STATE, sysctls=(*STATE.sysctls, *(Sysctl(key, "0") for key in keys)))
        node = Node(state, resync=math.inf)
        node.kernel._sysctls.update(dict.fromkeys(keys, "0"))
        await polled(node)
        read, at = node.kernel.sysctl_read, {}

        def noted(key):
            at.setdefault(round(asyncio.get_running_loop().time()), []).append(key)
            return read(key)

        node.kernel.sysctl_read = noted
        await asyncio.sleep(seconds)
        read_keys = [key for part in at.values() for key in part]
        assert {len(part) for part in at.values()} == {number // seconds}
        assert set(read_keys) >= set(keys) and len(read_keys) == number
        node.kernel.sysctl_read = read
        node.kernel.sysctl_write("net/ipv4/neigh/cali111/proxy_delay", "80")
        await asyncio.sleep(seconds + 1)
        assert node.told == ["drift ~ sysctl   net.ipv4.neigh.cali111.proxy_delay  80  ->  0"]

    run(scenario())


def workloads(count):
    """Return the state with `count` workloads w0, w1 and so on, without routes and sysctls."""
    these = tuple(
        VethEndpoint(
            f"w{n}", f"cali{n:03}", f"10.244.{1 + n // 250}.{n % 250 + 2}", 1450, "default-pool", netns=f"w{n}"
        )
        for n in range(count)
    )
    return dataclasses.replace(STATE, workloads=these, routes=(), sysctls=())


@pytest.mark.parametrize(("number", "seconds"), [(10, 5), (180, 90), (450, 90)])
def test_each_namespace_is_looked_into_once_in_a_round(number, seconds):
    """Two are looked into per second, or more if a round would take longer than 90 seconds; faults are repaired."""

    async def scenario():
        node = Node(workloads(number), resync=math.inf)
        await polled(node)
        look, looked = node.kernel.observe_namespace, []
        node.kernel.observe_namespace = lambda netns, *what, **more: (
            looked.append(netns),
            look(netns, *what, **more),
        )[1]
        await asyncio.sleep(seconds - 0.5)
        assert set(looked) == {f"w{n}" for n in range(number)}
        assert len(looked) == seconds * max(2, number // 90)
        node.kernel.inside("w7").address_delete(InterfaceAddress("eth0", "10.244.1.9", 32))
        await asyncio.sleep(seconds + 1)
        assert [line.split()[:4] for line in node.told] == ["drift ~ workload default/w7".split()]

    run(scenario())


def test_open_settings_of_any_device_are_closed_within_two_seconds(monkeypatch):
    """Host ends are closed as soon whose workloads have their turn much later, if reading devices is fast."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)

    async def scenario():
        node = Node(workloads(200), resync=math.inf)
        marked = await polled(node)
        for count, device in enumerate(("cali000", "cali123", "cali199"), start=1):
            node.kernel.sysctl_write(f"net/ipv6/conf/{device}/accept_ra", "2")
            await asyncio.sleep(2)
            assert node.kernel.sysctl_read(f"net/ipv6/conf/{device}/accept_ra") == "0"
            assert len(node.told) == count
        marked.marks.clear()
        await asyncio.sleep(60)
        assert marked.marks == []

    run(scenario())


def test_devices_that_take_long_to_read_are_read_seldom():
    """Reading them takes a thousandth of a processor; an open setting is closed all the same, only later."""

    async def scenario():
        node = Node(workloads(200), resync=math.inf)
        await polled(node)
        read, reads = node.kernel.links_mark, []

        def slow(names):
            reads.append(names)
            end = time.thread_time() + 0.005
            while time.thread_time() < end:
                pass
            return read(names)

        node.kernel.links_mark = slow
        await asyncio.sleep(60)
        assert 1 <= len(reads) <= 11
        node.kernel.sysctl_write("net/ipv6/conf/cali199/accept_ra", "2")
        await asyncio.sleep(90)
        assert node.kernel.sysctl_read("net/ipv6/conf/cali199/accept_ra") == "0"

    run(scenario())


def test_an_open_setting_that_cannot_be_closed_is_marked_once():
    async def scenario():
        node = Node(workloads(10), resync=math.inf)
        marked = await polled(node)
        write = node.kernel.sysctl_write

        def refuse(key, value):
            raise OSError(errno.EROFS, "Read-only file system")

        node.kernel.sysctl_write = refuse
        write("net/ipv6/conf/cali007/accept_ra", "2")
        await asyncio.sleep(60)
        assert marked.marks == [("workload", ("cali007",))]
        node.kernel.sysctl_write = write
        await asyncio.sleep(12)
        assert node.kernel.sysctl_read("net/ipv6/conf/cali007/accept_ra") == "0"

    run(scenario())


def test_what_a_published_port_needs_open_is_not_looked_at():
    async def scenario():
        published = dataclasses.replace(STATE.workloads[0], ports=(PublishedPort("tcp", 8080, 80),))
        sysctls = (*STATE.sysctls, Sysctl("net/ipv4/conf/cali111/route_localnet", "1"))
        node = Node(dataclasses.replace(STATE, workloads=(published,), sysctls=sysctls), resync=math.inf)
        marked = await polled(node)
        assert dict(node.kernel.link("cali111").open_settings) == {"ipv4/route_localnet": 1}
        looks, look = [], node.kernel.observe_namespace
        node.kernel.observe_namespace = lambda *what, **more: (looks.append(what), look(*what, **more))[1]
        await asyncio.sleep(30)
        assert marked.marks == [] and len(looks) == 30  # its turn comes each second

    run(scenario())


def test_namespaces_are_looked_into_by_turns():
    async def scenario():
        workloads = tuple(
            VethEndpoint(f"w{n}", f"cali{n:03}", f"10.244.1.{n + 2}", 1450, "default-pool", netns=f"w{n}")
            for n in range(10)
        )
        node = Node(dataclasses.replace(STATE, workloads=workloads, routes=(), sysctls=()))
        await polled(node, interiors=4)
        turns = {}
        look = node.kernel.observe_namespace

        def noted(netns, *what, **more):
            turns.setdefault(round(asyncio.get_running_loop().time()), []).append(netns)
            return look(netns, *what, **more)

        node.kernel.observe_namespace = noted
        await asyncio.sleep(5)
        assert list(turns.values()) == [
            ["w4", "w5", "w6", "w7"],
            ["w8", "w9", "w0", "w1"],
            ["w2", "w3", "w4", "w5"],
            ["w6", "w7", "w8", "w9"],
            ["w0", "w1", "w2", "w3"],
        ]
        node.kernel.inside("w7").address_delete(InterfaceAddress("eth0", "10.244.1.9", 32))
        await asyncio.sleep(3)
        assert len(node.told) == 1

    run(scenario())


@pytest.mark.parametrize("default", ["nft", "legacy"])
def test_rules_are_not_read_to_know_that_they_are_there(default):
    """Polls notice changed rules, but do not run iptables-save to see that they are unchanged.

    Only the legacy backend's rules are also read from time to time. It is in use as the host's default (`default`), or
    because it holds the host's own rules.
    """

    async def scenario():
        node = Node()
        node.kernel.netfilter.default = default
        if default == "nft":
            theirs = "".join(f"-A INPUT -s 192.0.2.{number} -j DROP\n" for number in range(20))
            assert node.kernel.run(["iptables-legacy-restore"], f"*filter\n{theirs}COMMIT\n").code == 0
        marked = await polled(node)
        ran, programs = node.kernel.run, []

        def watch(argv, stdin="", timeout=60.0):
            programs.append(argv[0])
            return ran(argv, stdin, timeout)

        node.kernel.run = watch
        await asyncio.sleep(8)
        assert "iptables" not in marked.marks and programs == []
        sabotage = "*filter\n-F cali-INPUT\nCOMMIT\n"
        assert ran(["iptables-legacy-restore", "--noflush"], sabotage).code == 0
        await asyncio.sleep(1.5)
        words = " (legacy)" if default == "nft" else ""
        assert node.told == [f"drift ~ iptables filter cali-INPUT{words}  0 rules  ->  1 rule"]
        programs.clear()
        await asyncio.sleep(15)  # long enough for one of the polls that read the rules of the legacy backend
        assert programs.count("iptables-save") == 1

    run(scenario())


def test_a_node_that_cannot_be_read_for_a_while_is_polled_again():
    async def scenario():
        node = Node()
        marked = await polled(node)

        def fail(*dummy):
            raise OSError(errno.ENOBUFS, "No buffer space available")

        for name in ("ruleset_mark", "ipset_headers", "routes_mark", "sysctl_read"):
            setattr(node.kernel, name, fail)
        await asyncio.sleep(3)
        for name in ("ruleset_mark", "ipset_headers", "routes_mark", "sysctl_read"):
            delattr(node.kernel, name)
        node.kernel.run(["ipset", "del", "cali40all-hosts-net", "10.10.1.12"])
        await asyncio.sleep(2)
        assert "ipset" in marked.marks
        assert len(node.told) == 1

    run(scenario())


def test_routes_and_sysctls_are_polled_while_policy_cannot_be_compiled():
    """Polling repairs routes and sysctls meanwhile, and sets and rules as soon as policy can be compiled again."""

    async def scenario():
        node = Node()
        marked = await polled(node)

        def fail():
            raise PolicyNotCompiled("no.")

        wanted = marked.wanted
        marked.wanted = dataclasses.replace(wanted, with_policy=lambda state: fail)
        node.kernel.sysctl_write("net/ipv4/neigh/cali111/proxy_delay", "80")
        replace_by_bird(node.kernel)
        node.kernel.run(["ipset", "del", "cali40all-hosts-net", "10.10.1.12"])
        await asyncio.sleep(3)
        assert set(marked.marks) == {"route", "sysctl"}
        marked.wanted = wanted
        await asyncio.sleep(2)
        assert marked.marks[-1] == "ipset"
        assert node.passes.in_sync

    run(scenario())


def test_an_inside_that_cannot_be_mended_is_not_marked_over_and_over():
    async def scenario():
        node = Node()
        marked = await polled(node)
        inner = node.kernel.inside("web-1")
        found = dict(inner.routes())["0.0.0.0/0"]
        assert inner.route_batch([RouteOperation("delete", "0.0.0.0/0", found)]) == []
        lo = RouteAttributes(type="blackhole")
        assert inner.route_batch([RouteOperation("add", "0.0.0.0/0", lo)]) == []
        await asyncio.sleep(60)
        assert marked.marks == [("workload", ("cali111",))]
        assert list(node.passes.problems) == ["workload"]
        assert inner.route_batch([RouteOperation("delete", "0.0.0.0/0", lo)]) == []
        await asyncio.sleep(12)
        assert node.passes.in_sync
        assert dict(inner.routes())["0.0.0.0/0"] == found

    run(scenario())


def test_the_fault_of_a_removed_workload_is_forgotten():
    """A fault of a workload that was removed is forgotten: the same fault of a later workload is marked again."""

    async def scenario():
        marked = Marked(Node().stages)  # no loop runs, so the workload stays missing
        polling = Polling(marked)
        await polling.poll(STATE)
        await polling.poll(STATE)
        assert marked.marks == [("workload", ("cali111",))]
        await polling.poll(dataclasses.replace(STATE, workloads=()))
        await polling.poll(STATE)
        assert marked.marks == [("workload", ("cali111",))] * 2

    run(scenario())


def test_a_workload_that_came_after_the_last_look_is_polled_too():
    async def scenario():
        node = Node(dataclasses.replace(STATE, workloads=(), routes=STATE.routes[:1], sysctls=STATE.sysctls[:2]))
        await polled(node)
        async with node.write_lock:
            node.state = STATE
        await asyncio.sleep(2)
        assert node.kernel.link("cali111").up

    run(scenario())
