# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the reconciler on a fake kernel and a virtual clock."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import threading

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.driver_thread import DriverThread
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.locks import RWLock
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile import repair
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.loop import Loop
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.pace import RESYNC, Pace
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.passes import Passes
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.stages import (
    Listener,
    Stages,
    Wanted,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    ForwardingEntry,
    InterfaceAddress,
    KernelError,
    NeighborEntry,
    NewLink,
    RouteAttributes,
    RouteOperation,
    RuleEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedDrivers,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IpSet,
    IptablesTable,
    Route,
    Sysctl,
    VethEndpoint,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.virtual_time import inline, run
from tests.unit.dataplane.suites.drivers import route_to, underlay, write_route
from tests.unit.dataplane.suites.suite_node import STATE, foreign, state_of


class Node:
    """A loop with its passes and their kernel. `told` has the reported changes as lines, with "drift " before drift.

    `start` empties it. `heard` are further callbacks of Listener. `excluded`, `chance` and `registry` are arguments of
    Wanted, Pace and CachedDrivers, `on_tick` is that of Loop.run, `resync` the seconds between two resyncs.
    """

    def __init__(
        self,
        state=STATE,
        excluded=tuple,
        chance=lambda: 0.5,
        registry=REGISTRY,
        on_tick=lambda: None,
        resync=RESYNC,
        **heard,
    ):
        self.kernel = FakeKernel()
        underlay(self.kernel)
        self.state = state
        self.removals = True
        self.told = []
        self.write_lock = RWLock()
        self.worker = inline
        self.on_change = lambda change, drift: self.told.append(("drift " if drift else "") + change.line())
        self.on_tick = on_tick
        self.stages = Stages(
            self.kernel,
            Wanted(lambda: self.state, lambda: self.removals, excluded),
            self.write_lock,
            Listener(self._changed, **heard),
            drivers=CachedDrivers(asyncio.get_running_loop().time, registry),
            run=self._run,
            pace=Pace(resync, chance),
        )
        self.passes = Passes(self.stages)
        self.loop = Loop(self.passes)

    def _changed(self, change, drift):
        self.on_change(change, drift)

    async def _run(self, work):
        return await self.worker(work)

    async def start(self):
        self.task = asyncio.ensure_future(self.loop.run(self.on_tick))
        await asyncio.sleep(0.5)
        assert self.passes.in_sync, self.passes.problems
        self.told.clear()

    def delete_route(self, destination):
        found = dict(self.kernel.routes(table=254))[destination]
        assert self.kernel.route_batch([RouteOperation("delete", destination, found)]) == []


def everything(kernel):
    found = kernel.snapshot()
    for end in (found, found["namespaces"].get("web-1", {"links": []})):
        end["links"] = sorted((dataclasses.replace(link, mac="") for link in end["links"]), key=repr)
    return found


def test_a_fresh_node_is_built_and_none_of_it_is_drift():
    async def scenario():
        node = Node()
        foreign(node.kernel)
        outcome = await node.passes.resync()
        assert outcome.problems == () and outcome.in_sync
        assert len(outcome.changes) == len(node.told) == 17
        assert not any(line.startswith("drift") for line in node.told)
        before = state_of(node.kernel)
        assert (await node.passes.resync()).changes == ()
        assert state_of(node.kernel) == before
        assert node.passes.in_sync

    run(scenario())


def sabotages():
    """Return {name: (act on the kernel, the kind that the monitor marks, the lines reported)}.

    An act is a function of the kernel, and most raise an error if the kernel refuses.
    """

    def route(kernel, destination="10.244.1.5/32"):
        found = dict(kernel.routes(table=254))[destination]
        assert kernel.route_batch([RouteOperation("delete", destination, found)]) == []

    def replaced(kernel):
        other = RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=179)
        assert kernel.route_batch([RouteOperation("replace", "10.244.1.5/32", other)]) == []

    def iptables(*lines):
        def act(kernel):
            text = "\n".join(["*filter", *lines, "COMMIT", ""])
            assert kernel.run(["iptables-restore", "--noflush"], stdin=text).code == 0

        return act

    vxlan = "drift + device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
    address = "drift + address  10.244.1.1/32  dev vxlan.calico"
    neighbor = "drift + neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico"
    fdb = "drift + fdb      66:00:00:00:00:02  dst 10.10.1.12 dev vxlan.calico"
    own = NeighborEntry("vxlan.calico", "10.10.1.12", "66:00:00:00:00:02")
    forwarding = ForwardingEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.12")
    back = [
        "drift + workload default/web-1  eth0 10.244.1.5  host end cali111  mtu 1450",
        "drift + sysctl   net.ipv4.neigh.cali111.proxy_delay  0",
        "drift + sysctl   net.ipv4.conf.cali111.proxy_arp  1",
        "drift + sysctl   net.ipv4.conf.cali111.forwarding  1",
        "drift + route    10.244.1.5/32  dev cali111",
    ]
    return {
        "route": (route, "route", ["drift + route    10.244.1.5/32  dev cali111"]),
        "blackhole": (
            lambda kernel: route(kernel, "10.244.1.0/26"),
            "route",
            ["drift + route    10.244.1.0/26  blackhole"],
        ),
        "route replaced": (
            replaced,
            "route",
            ["drift ~ route    10.244.1.5/32  via 10.10.1.9 dev eth0  ->  dev cali111"],
        ),
        "tunnel address": (
            lambda kernel: kernel.address_delete(InterfaceAddress("vxlan.calico", "10.244.1.1", 32)),
            "tunnel",
            [address],
        ),
        "neighbour": (lambda kernel: kernel.neighbor_delete(own), "neighbor", [neighbor]),
        "forwarding entry": (lambda kernel: kernel.fdb_delete(forwarding), "neighbor", [fdb]),
        "sysctl": (
            lambda kernel: kernel.sysctl_write("net/ipv4/conf/cali111/proxy_arp", "0"),
            "sysctl",
            ["drift ~ sysctl   net.ipv4.conf.cali111.proxy_arp  0  ->  1"],
        ),
        "tunnel device": (lambda kernel: kernel.link_delete("vxlan.calico"), "tunnel", [vxlan, address, neighbor, fdb]),
        "host end": (lambda kernel: kernel.link_delete("cali111"), "workload", back),
        "host end down": (
            lambda kernel: kernel.link_set("cali111", up=False),
            "workload",
            [
                "drift ~ workload default/web-1  host end down  ->  host end up",
                "drift + route    10.244.1.5/32  dev cali111",
            ],
        ),
        "hook": (
            iptables("-F INPUT", "-A INPUT -j theirs"),
            "iptables",
            ["drift + iptables filter INPUT  -j cali-INPUT    first in the chain"],
        ),
        "rule of a chain": (
            iptables("-F cali-INPUT"),
            "iptables",
            ["drift ~ iptables filter cali-INPUT  0 rules  ->  1 rule"],
        ),
        "chain": (
            iptables("-F INPUT", "-A INPUT -j theirs", "-F cali-INPUT", "-X cali-INPUT"),
            "iptables",
            [
                "drift + iptables filter cali-INPUT  1 rule",
                "drift + iptables filter INPUT  -j cali-INPUT    first in the chain",
            ],
        ),
        "member of a set": (
            lambda kernel: kernel.run(["ipset", "del", "cali40all-hosts-net", "10.10.1.12"]),
            "ipset",
            ["drift ~ ipset    cali40all-hosts-net  hash:net  1 member  ->  hash:net  2 members    1 in, 0 out"],
        ),
        "rule": (
            lambda kernel: kernel.rule_delete(RuleEntry(179, 179, 0xCA11, protocol=179)),
            "rule",
            ["drift + rule     179  fwmark 0xca11 lookup 179"],
        ),
        "a route too much": (
            lambda kernel: write_route(
                kernel, "10.244.1.9/32", RouteAttributes(device="cali111", protocol=179, scope=253)
            ),
            "route",
            ["drift - route    10.244.1.9/32  dev cali111"],
        ),
    }


@pytest.mark.parametrize("name", sabotages())
def test_a_broken_object_is_repaired_as_soon_as_its_kind_is_marked(name):
    act, kind, told = sabotages()[name]

    async def scenario():
        node = Node()
        await node.start()
        foreign(node.kernel)
        before = everything(node.kernel)
        act(node.kernel)
        broken = everything(node.kernel)
        node.stages.mark(kind)
        assert not node.passes.in_sync
        await asyncio.sleep(0.05)
        assert node.told == told
        assert node.passes.in_sync
        assert everything(node.kernel) == before
        assert broken != before

    run(scenario())


def test_an_inside_is_mended_when_it_is_looked_into():
    async def scenario():
        node = Node()
        await node.start()
        inner = node.kernel.inside("web-1")
        inner.address_delete(InterfaceAddress("eth0", "10.244.1.5", 32))
        node.stages.mark("workload")
        await asyncio.sleep(0.05)
        assert node.told == []
        node.stages.mark("workload", ["cali111"])
        await asyncio.sleep(0.05)
        assert node.told == ["drift ~ workload default/web-1  address none  ->  address 10.244.1.5"]
        assert inner.addresses("eth0")

    run(scenario())


def test_changes_of_a_new_desired_state_are_not_drift():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(
            STATE,
            routes=tuple(r for r in STATE.routes if r.type != "blackhole") + (Route("10.244.9.0/26", "blackhole"),),
        )
        node.delete_route("10.244.1.5/32")
        node.stages.mark("route")
        await asyncio.sleep(0.05)
        assert node.told == [
            "drift + route    10.244.1.5/32  dev cali111",
            "+ route    10.244.9.0/26  blackhole",
            "- route    10.244.1.0/26  blackhole",
        ]

    run(scenario())


def test_objects_that_a_state_had_for_a_moment_are_not_drift():
    """Chains are made for a state that another one replaces in the same pass, which removes them, and an old one."""

    async def scenario():
        node = Node()
        before = node.state

        def with_chains(*names):
            raw = IptablesTable("raw", {f"cali-{name}": () for name in names})
            return dataclasses.replace(before, iptables=(*before.iptables, raw))

        node.state = with_chains("old", "kept")
        await node.start()
        node.state = with_chains("brief", "kept")

        def changed(change, drift):
            node.told.append(("drift " if drift else "") + change.line())
            node.state = with_chains("kept")

        node.on_change = changed
        await node.passes.resync()
        assert node.told == [
            "+ iptables raw cali-brief  0 rules",
            "- iptables raw cali-old  0 rules",
            "- iptables raw cali-brief  0 rules",
        ]

    run(scenario())


def test_a_device_kept_for_a_socket_is_removed_with_it_and_is_no_drift():
    """An undesired device stays while a socket uses its address, and is then removed, not reported as drift.

    If another program adds it again after that, its removal is drift.
    """

    async def scenario():
        node = Node()
        await node.start()
        node.kernel.sockets["10.244.1.1"] = 1
        node.state = dataclasses.replace(STATE, devices=(), neighbors=(), fdb=())
        await node.passes.resync()
        assert node.told == [
            "- neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico",
            "- fdb      66:00:00:00:00:02  dst 10.10.1.12 dev vxlan.calico",
        ]
        del node.told[:], node.kernel.sockets["10.244.1.1"]
        await node.passes.resync()
        gone = [
            "- address  10.244.1.1/32  dev vxlan.calico",
            "- device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
        ]
        assert node.told == gone
        # If another program adds the device again, its removal is drift.
        node.state = STATE
        await node.passes.resync()
        snapshot = node.kernel.link("vxlan.calico")
        node.state = dataclasses.replace(STATE, devices=(), neighbors=(), fdb=())
        await node.passes.resync()
        node.told.clear()
        node.kernel.link_add(snapshot)
        node.kernel.link_set("vxlan.calico", alias="calico: tunnel")
        await node.passes.resync()
        assert [line.split()[:4] for line in node.told] == [["drift", "-", "device", "vxlan.calico"]]

    run(scenario())


def test_a_change_inside_that_is_desired_anew_is_made_without_being_asked_to_look_there():
    async def scenario():
        node = Node()
        await node.start()
        endpoint = dataclasses.replace(STATE.workloads[0], route_mtu=1400)
        node.state = dataclasses.replace(STATE, workloads=(endpoint,))
        node.stages.mark("workload")
        await asyncio.sleep(0.05)
        assert [line[:2] for line in node.told] == ["~ "]
        assert dict(node.kernel.inside("web-1").routes())["0.0.0.0/0"].mtu == 1400

    run(scenario())


def test_nothing_is_removed_before_that_is_allowed():
    async def scenario():
        node = Node()
        node.removals = False
        foreign(node.kernel)
        await node.passes.resync()
        write_route(node.kernel, "10.244.1.9/32", RouteAttributes(device="cali111", protocol=179, scope=253))
        await node.start()
        node.delete_route("10.244.1.0/26")
        node.stages.mark("route")
        await asyncio.sleep(1.5)
        assert node.told == ["drift + route    10.244.1.0/26  blackhole"]
        assert route_to(node.kernel, "10.244.1.9/32")
        assert node.passes.in_sync
        node.removals = True
        await asyncio.sleep(1.5)
        assert node.told[1:] == ["drift - route    10.244.1.9/32  dev cali111"]

    run(scenario())


def test_a_new_state_is_handed_over_in_two_halves_and_none_of_it_is_drift():
    async def scenario():
        node = Node()
        await node.start()
        old, new = STATE.workloads[0], VethEndpoint("db", "cali222", "10.244.1.6", 1450, "default-pool", netns="db")
        node.state = dataclasses.replace(
            STATE,
            workloads=(new,),
            routes=(STATE.routes[0], Route("10.244.1.6/32", device="cali222")),
            sysctls=(STATE.sysctls[0],),
            rules=(),
        )
        node.removals = False
        first = await node.passes.resync()
        assert [change.line()[:15] for change in first.changes] == ["+ workload defa", "+ route    10.2"]
        assert first.in_sync
        assert node.kernel.link(old.interface)
        node.removals = True
        second = await node.passes.resync()
        assert [change.line() for change in second.changes] == [
            "- route    10.244.2.0/26  via 10.10.1.12 dev eth0 table 179",
            "- route    10.244.1.5/32  dev cali111",
            "- rule     179  fwmark 0xca11 lookup 179",
            "- workload default/web-1  host end cali111    with its network namespace web-1",
        ]
        assert not any(line.startswith("drift") for line in node.told)

    run(scenario())


def test_one_bad_object_does_not_keep_others_from_being_repaired():
    async def scenario():
        node = Node()
        await node.start()
        found = route_to(node.kernel, "10.244.1.5/32")
        node.delete_route("10.244.1.5/32")
        node.delete_route("10.244.1.0/26")
        write_route(node.kernel, "10.244.1.5/32", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
        node.kernel.neighbor_delete(NeighborEntry("vxlan.calico", "10.10.1.12", "66:00:00:00:00:02"))
        node.stages.mark()
        await asyncio.sleep(0.05)
        assert node.told == [
            "drift + neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico",
            "drift + route    10.244.1.0/26  blackhole",
        ]
        assert list(node.passes.problems) == ["route"]
        assert node.passes.problems["route"] == (
            "route 10.244.1.5/32: A route that is not ours has this destination already: 10.244.1.5/32 via 10.10.1.9"
            " dev eth0 proto static. It was not touched. Delete it (ip route del 10.244.1.5/32 proto 4) or stop what"
            " writes it, then run again.",
        )
        assert not node.passes.in_sync
        node.kernel.route_batch([RouteOperation("delete", "10.244.1.5/32", route_to(node.kernel, "10.244.1.5/32"))])
        await asyncio.sleep(11)
        assert route_to(node.kernel, "10.244.1.5/32") == found
        assert node.passes.in_sync and node.passes.problems == {}

    run(scenario())


def test_a_kind_that_fails_is_tried_again_more_and_more_seldom():
    async def scenario():
        node = Node()
        await node.start()
        tried = []
        loop = asyncio.get_running_loop()

        def refuse(kernel, state, kinds, *more, **others):
            if "neighbor" in kinds:
                tried.append(round(loop.time() - began, 2))
                raise KernelError(errno.EINTR, "list neighbours", "the tables changed during each of 10 dumps")
            return plan(kernel, state, kinds, *more, **others)

        plan, repair.plan = repair.plan, refuse
        try:
            began = loop.time()
            node.stages.mark("neighbor")
            await asyncio.sleep(45)
        finally:
            repair.plan = plan
        gaps = [round(later - earlier, 1) for earlier, later in zip(tried, tried[1:])]
        assert gaps == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]
        assert node.passes.problems == {
            "neighbor": ("list neighbours: Interrupted system call (the tables changed during each of 10 dumps)",)
        }
        await asyncio.sleep(10)
        assert node.passes.in_sync

    run(scenario())


def test_kinds_that_can_be_read_are_repaired_beside_one_that_cannot():
    async def scenario():
        node = Node()
        await node.start()
        node.kernel.programs.discard("ipset")
        node.kernel.run(["iptables-restore"], stdin="*filter\n-F INPUT\nCOMMIT\n")
        node.delete_route("10.244.1.5/32")
        node.kernel.fail_next("run", errno.EIO, "iptables-save")
        node.stages.mark()
        await asyncio.sleep(0.02)
        assert "drift + route    10.244.1.5/32  dev cali111" in node.told
        node.kernel.programs.add("ipset")
        await asyncio.sleep(2)
        assert node.passes.in_sync
        assert "drift + iptables filter INPUT  -j cali-INPUT    first in the chain" in node.told

    run(scenario())


def test_a_tunnel_is_not_created_before_the_rules_that_guard_it():
    async def scenario():
        node = Node()
        node.kernel.programs.discard("iptables-restore")
        outcome = await node.passes.resync()
        assert node.kernel.link("vxlan.calico") is None
        assert node.kernel.link("cali111").up
        assert "tunnel: not before iptables stand, which guard it." in outcome.problems
        node.kernel.programs.add("iptables-restore")
        assert (await node.passes.resync()).problems == ()
        assert node.kernel.link("vxlan.calico").up

    run(scenario())


def refused_chain(state, rule="-j TCPMSS --set-mss 1400"):
    """Return the state with one more chain, whose only rule is `rule`; the kernel refuses the default one.

    Raise ValueError unless the state has exactly one table.
    """
    (table,) = state.iptables
    chains = {**table.chains, "cali-pi-bad": (rule,)}
    return dataclasses.replace(state, iptables=(dataclasses.replace(table, chains=chains),))


def test_a_chain_that_is_refused_holds_nothing_up_and_is_not_tried_again_before_it_is_another():
    async def scenario():
        failures = []
        node = Node(refused_chain(STATE), on_failure=failures.append)
        outcome = await node.passes.resync()
        assert not outcome.in_sync
        (problem,) = outcome.problems
        assert problem.startswith("iptables filter cali-pi-bad: iptables-restore refused chain cali-pi-bad of table")
        assert node.kernel.link("vxlan.calico") is not None
        task = asyncio.ensure_future(node.loop.run(node.on_tick))
        await asyncio.sleep(1)
        ran, tried = node.kernel.run, []

        def watch(argv, stdin="", timeout=60.0):
            if "restore" in argv[0]:
                tried.append(stdin)
            return ran(argv, stdin, timeout)

        node.kernel.run = watch
        failures.clear()
        await asyncio.sleep(60)
        node.stages.mark("iptables")
        await asyncio.sleep(1)
        assert tried == [] and failures == []
        assert node.passes.problems == {"iptables": (problem,)} and not node.passes.in_sync
        await asyncio.sleep(90)  # longer than until the next periodic resync, which retries everything
        assert len(tried) == len(failures) == 1
        node.state = refused_chain(STATE, "-j ACCEPT")
        node.stages.expect(["iptables"])
        await asyncio.sleep(1)
        assert node.passes.in_sync and node.passes.problems == {}
        task.cancel()

    run(scenario())


def test_a_pass_that_changes_nothing_writes_nothing_and_reads_no_rule():
    async def scenario():
        node = Node()
        await node.start()
        ran, programs = node.kernel.run, []

        def watch(argv, stdin="", timeout=60.0):
            programs.append(argv[0])
            return ran(argv, stdin, timeout)

        node.kernel.run = watch
        node.kernel.watch(lambda dummy: programs.append("written"))
        for _time in range(5):
            node.stages.expect(["ipset", "iptables"])
            await asyncio.sleep(1)
        assert programs == []
        node.stages.mark("iptables")
        await asyncio.sleep(1)
        assert programs == []
        node.stages.mark("ipset")  # sets are read at each mark: the kernel does not say which program wrote a set
        await asyncio.sleep(1)
        assert programs == ["ipset"]
        more = dataclasses.replace(STATE.ipsets[0], members=(*STATE.ipsets[0].members, "10.10.1.13"))
        node.state = dataclasses.replace(STATE, ipsets=(more,))
        node.kernel.watch(None)
        programs.clear()
        node.stages.expect(["ipset", "iptables"])
        await asyncio.sleep(1)
        assert programs == [] and node.told == [
            "~ ipset    cali40all-hosts-net  hash:net  2 members  ->  hash:net  3 members    1 in, 0 out"
        ]

    run(scenario())


def test_a_device_that_is_missing_or_down_is_waited_for():
    async def scenario():
        routes = (*STATE.routes, Route("10.244.8.0/26", device="bond0", gateway="10.10.1.12"))
        node = Node(dataclasses.replace(STATE, routes=routes))
        await node.start()
        assert node.stages.kinds.waiting == {"route": ("route 10.244.8.0/26 waits for its device.",)}
        assert node.passes.problems == {}
        node.kernel.link_set("eth0", up=False)
        node.stages.mark()
        await asyncio.sleep(0.05)
        assert node.passes.problems == {}
        assert len(node.stages.kinds.waiting["route"]) == 2

    run(scenario())


def test_the_address_of_the_node_may_be_away_for_a_while():
    async def scenario():
        node = Node()
        await node.start()
        node.kernel.address_delete(InterfaceAddress("eth0", "10.10.1.11", 24))
        node.stages.mark()
        await asyncio.sleep(0.05)
        outcome = await node.passes.resync()
        assert outcome.problems == (
            "No network interface of node1 has its address 10.10.1.11. It is taken from calico_node_address"
            " (10.10.1.11/24). Correct that variable, or give the host this address (ip address), then run again.",
        )
        node.kernel.address_add(InterfaceAddress("eth0", "10.10.1.11", 24))
        await asyncio.sleep(11)
        assert node.passes.in_sync

    run(scenario())


def test_another_address_of_a_lease_is_named_with_its_remedy():
    """A DHCP server that gives the host another address at a renewal leaves the node without its own."""

    async def scenario():
        node = Node()
        await node.start()
        node.kernel.address_delete(InterfaceAddress("eth0", "10.10.1.11", 24))
        node.kernel.address_add(InterfaceAddress("eth0", "10.10.1.62", 24, permanent=False))
        node.stages.mark()
        await asyncio.sleep(0.05)
        outcome = await node.passes.resync()
        assert outcome.problems == (
            "No network interface of node1 has its address 10.10.1.11. It is taken from calico_node_address"
            " (10.10.1.11/24). eth0 has 10.10.1.62/24 instead, with a lifetime: reserve one address for this host in"
            " DHCP. Correct that variable, or give the host this address (ip address), then run again.",
        )

    run(scenario())


def test_a_storm_of_events_is_answered_ten_times_a_second():
    async def scenario():
        node = Node()
        await node.start()
        looks = []

        async def counting(work):
            looks.append(asyncio.get_running_loop().time())
            return await inline(work)

        node.worker = counting
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        node.stages.mark("route")
        await asyncio.sleep(0.001)
        assert looks == [pytest.approx(began, abs=0.001)]  # the reconciler looks at once, because it was idle before
        for dummy in range(10_000):
            node.stages.mark("route")
            await asyncio.sleep(0.001)
        assert 100 <= len(looks) <= 130

    run(scenario())


def test_a_full_check_runs_about_every_ninety_seconds():
    async def scenario(chance):
        node = Node(chance=lambda: chance)
        await node.start()
        node.delete_route("10.244.1.5/32")
        loop = asyncio.get_running_loop()
        while not node.told and not node.task.done():
            await asyncio.sleep(0.1)
        return loop.time()

    assert run(scenario(0.0)) == pytest.approx(81, abs=0.5)
    assert run(scenario(0.999)) == pytest.approx(99, abs=0.5)


def test_a_repair_waits_for_the_turn_and_reads_what_is_desired_then():
    """A repair waits while another task holds the turn, and then reads the desired state: nothing is left to do."""

    async def scenario():
        node = Node()
        await node.start()
        async with node.write_lock:
            write_route(node.kernel, "10.244.1.6/32", RouteAttributes(device="cali111", protocol=179, scope=253))
            node.stages.mark()
            await asyncio.sleep(1)
            assert node.told == []
            node.state = dataclasses.replace(STATE, routes=(*STATE.routes, Route("10.244.1.6/32", device="cali111")))
        await asyncio.sleep(0.1)
        assert node.told == []
        assert route_to(node.kernel, "10.244.1.6/32")

    run(scenario())


def test_a_workload_that_is_half_attached_is_left_to_who_attaches_it():
    async def scenario():
        node = Node()
        await node.start()
        async with node.write_lock:
            node.delete_route("10.244.1.5/32")  # as in an add: the workload is desired, its route not written
            node.stages.mark()
            await asyncio.sleep(1)
            assert node.told == [] and route_to(node.kernel, "10.244.1.5/32") is None
            write_route(node.kernel, "10.244.1.5/32", RouteAttributes(device="cali111", protocol=179, scope=253))
        await asyncio.sleep(0.1)
        assert node.told == []

    run(scenario())


def test_changes_of_a_refused_iptables_transaction_are_not_reported():
    """If iptables-restore fails for a whole table, none of its changes is reported: they are one transaction.

    The retry makes and reports them.
    """

    async def scenario():
        node = Node()
        await node.start()
        node.kernel.run(["iptables-restore", "--noflush"], stdin="*filter\n-F INPUT\n-F cali-INPUT\nCOMMIT\n")
        node.kernel.fail_next("run", errno.EPERM, "iptables-restore")
        outcome = await node.passes.resync()
        assert len(outcome.problems) == 1 and outcome.changes == ()
        await asyncio.sleep(0.5)
        assert len(node.told) == 2 and node.passes.in_sync

    run(scenario())


def test_sets_and_tables_that_are_written_beside_refused_ones_are_told():
    """A set and a table that are refused hide no other changes: each of these is reported once, though retries fail.

    A set of interfaces keeps its surplus member until nothing is refused, so that it is not reported before.
    """

    async def scenario():
        gone = IpSet("cali40w:x", "hash:net,iface", ("10.244.1.9,cali9",))
        node = Node(dataclasses.replace(STATE, ipsets=(*STATE.ipsets, gone)))
        await node.start()
        good = IpSet("cali40s:good", "hash:net", ("10.244.1.7",))
        bad = IpSet("cali40n:bad", "hash:ip,port", ("10.10.1.12,nope:80",))
        chain = "cali-new", ("-j ACCEPT",)
        raw = IptablesTable("raw", dict([chain]))
        nat = IptablesTable("nat", dict([chain]), (Hook("POSTROUTING", "-j TCPMSS --set-mss 1400"),))
        node.state = dataclasses.replace(
            STATE,
            ipsets=(*STATE.ipsets, dataclasses.replace(gone, members=()), good, bad),
            iptables=(*STATE.iptables, raw, nat),
        )
        outcome = await node.passes.resync()
        assert len(outcome.problems) == 2
        assert node.told == ["+ ipset    cali40s:good  hash:net  1 member", "+ iptables raw cali-new  1 rule"]
        await node.passes.resync()
        assert len(node.told) == 2
        node.state = dataclasses.replace(
            node.state,
            ipsets=node.state.ipsets[:-1],
            iptables=(*STATE.iptables, raw, dataclasses.replace(nat, hooks=())),
        )
        await node.passes.resync()
        assert node.passes.in_sync
        assert [line.split()[2] for line in node.told[2:]] == ["cali40w:x", "nat"]

    run(scenario())


def test_a_removal_runs_at_once_when_the_addition_it_awaits_succeeds():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(STATE, rules=(), routes=(*STATE.routes, Route("10.244.9.0/26", "blackhole")))
        write_route(node.kernel, "10.244.9.0/26", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
        await node.passes.resync()
        assert len(node.kernel.rules()) == 4
        node.kernel.route_batch([RouteOperation("delete", "10.244.9.0/26", route_to(node.kernel, "10.244.9.0/26"))])
        node.stages.mark("route")
        await asyncio.sleep(0.05)
        assert len(node.kernel.rules()) == 3

    run(scenario())


def test_the_turn_is_not_taken_where_nothing_differs():
    async def scenario():
        node = Node()
        await node.start()
        async with node.write_lock:
            outcome = await asyncio.wait_for(node.passes.resync(), 1)
        assert outcome.in_sync and outcome.changes == ()

    run(scenario())


def test_host_ends_that_somebody_else_deletes_are_left_to_him():
    async def scenario():
        gone = {"cali111"}
        node = Node(excluded=lambda: gone)
        await node.start()
        node.state = dataclasses.replace(STATE, workloads=(), routes=STATE.routes[:1], sysctls=STATE.sysctls[:2])
        await node.passes.resync()
        assert node.kernel.link("cali111")
        gone.clear()
        await node.passes.resync()
        assert node.kernel.link("cali111") is None

    run(scenario())


def test_a_failed_removal_is_a_problem_and_is_retried():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(STATE, rules=())
        node.kernel.fail_next("rule_delete", errno.EBUSY)
        outcome = await node.passes.resync()
        assert outcome.problems == (
            "rule 179: The kernel refused to delete rule 179 (fwmark 0xca11). It said: Device or resource busy.",
        )
        assert not outcome.in_sync
        await asyncio.sleep(0.2)
        assert node.told == ["- rule     179  fwmark 0xca11 lookup 179"]
        assert node.passes.in_sync

    run(scenario())


def test_removals_wait_for_failed_additions():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(STATE, routes=(*STATE.routes[1:], Route("10.244.9.0/26", "blackhole")))
        write_route(node.kernel, "10.244.9.0/26", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
        await node.passes.resync()
        assert route_to(node.kernel, "10.244.1.0/26")
        node.kernel.route_batch([RouteOperation("delete", "10.244.9.0/26", route_to(node.kernel, "10.244.9.0/26"))])
        await asyncio.sleep(11)
        assert route_to(node.kernel, "10.244.1.0/26") is None
        assert node.told == ["+ route    10.244.9.0/26  blackhole", "- route    10.244.1.0/26  blackhole"]

    run(scenario())


def test_nothing_is_done_before_it_is_known_what_the_node_shall_have():
    async def scenario():
        node = Node(None)
        before = state_of(node.kernel)
        task = asyncio.ensure_future(node.loop.run(node.on_tick))
        await asyncio.sleep(5)
        outcome = await node.passes.resync()
        assert outcome.problems == ("What this node shall have is not known yet.",)
        assert state_of(node.kernel) == before
        assert not node.passes.in_sync
        node.state = STATE
        await asyncio.sleep(2)
        assert node.passes.in_sync
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    run(scenario())


def test_there_is_a_sign_of_life_at_least_every_ten_seconds():
    async def scenario():
        times = []
        node = Node(on_tick=lambda: times.append(asyncio.get_running_loop().time()))
        await node.start()
        await asyncio.sleep(300)
        assert max(later - earlier for earlier, later in zip(times, times[1:])) <= 10.1
        assert len(times) < 60

    run(scenario())


def test_there_is_one_also_where_the_work_never_ends():
    async def scenario():
        times = []
        node = Node(on_tick=lambda: times.append(asyncio.get_running_loop().time()))
        await node.start()

        async def endless(work):
            node.stages.mark("route")
            return await inline(work)

        node.worker = endless
        node.stages.mark("route")
        times.clear()
        await asyncio.sleep(20)
        assert len(times) >= 150

    run(scenario())


def test_a_plan_of_another_state_changes_nothing():
    async def scenario():
        node = Node()
        await node.start()
        before = state_of(node.kernel)
        plan = await node.passes.plan(lambda: dataclasses.replace(STATE, rules=()))
        assert plan.lines()[0] == "- rule     179            fwmark 0xca11 lookup 179"
        assert state_of(node.kernel) == before

    run(scenario())


def test_a_sentence_says_what_was_found_and_what_was_done():
    async def scenario():
        said = []
        node = Node()
        await node.start()
        node.on_change = lambda change, drift: said.append(repair.sentence(change, drift))
        node.kernel.sysctl_write("net/ipv4/conf/cali111/proxy_arp", "0")
        node.delete_route("10.244.1.0/26")
        write_route(node.kernel, "10.244.1.9/32", RouteAttributes(device="cali111", protocol=179, scope=253))
        await node.passes.resync()
        node.state = dataclasses.replace(STATE, rules=())
        await node.passes.resync()
        assert said == [
            "Repaired sysctl net.ipv4.conf.cali111.proxy_arp: it was 0; changed: 1.",
            "Repaired route 10.244.1.0/26: it was missing; created: blackhole.",
            "Repaired route 10.244.1.9/32: it was there (dev cali111); removed.",
            "Removed rule 179 (fwmark 0xca11 lookup 179).",
        ]

    run(scenario())


def test_a_repair_does_not_wait_for_the_check_of_all_namespaces():
    workloads = tuple(
        VethEndpoint(f"w{n}", f"cali{n:03}", f"10.244.2.{n + 2}", 1450, "default-pool", netns=f"w{n}")
        for n in range(200)
    )

    async def scenario():
        node = Node(dataclasses.replace(STATE, workloads=workloads, routes=STATE.routes[:1], sysctls=STATE.sysctls[:2]))
        await node.start()
        observe, visited, seen = node.kernel.observe_namespace, [], []

        def slow(netns, *what, **more):
            visited.append(netns)
            return observe(netns, *what, **more)

        async def worker(work):
            before = len(visited)
            result = work()
            await asyncio.sleep(0.01 * (len(visited) - before))
            return result

        node.kernel.observe_namespace = slow
        node.worker = worker
        node.on_change = lambda *dummy: seen.append(len(visited))
        resync = asyncio.ensure_future(node.passes.resync())
        await asyncio.sleep(0.1)
        node.delete_route("10.244.1.0/26")
        node.stages.mark("route")
        outcome = await resync
        assert len(visited) == 200
        assert seen == [100] or seen == [50]
        assert outcome.in_sync

    run(scenario())


def test_a_repair_reads_no_more_sysctls_than_were_found_wrong():
    """Under the lock, a repair reads only the sysctls that were found wrong, and rp_filter of the underlay.

    If ip_forward was wrong, it also reads those that a write of ip_forward resets. All writers wait for the lock.
    """

    async def scenario():
        node = Node()
        await node.start()
        read, keys = node.kernel.sysctl_read, []
        node.kernel.sysctl_read = lambda key: (keys.append(key) if node.write_lock.quiet is None else None, read(key))[
            1
        ]
        node.kernel.sysctl_write("net/ipv4/conf/cali111/proxy_arp", "0")
        await node.passes.resync()
        assert sorted(keys) == ["net/ipv4/conf/cali111/proxy_arp", "net/ipv4/conf/eth0/rp_filter"]
        keys.clear()
        node.kernel.sysctl_write("net/ipv4/ip_forward", "0")
        node.told.clear()
        await node.passes.resync()
        assert len(set(keys)) == 5  # a write of ip_forward resets other sysctls, which are repaired after it
        assert node.told[0] == "drift ~ sysctl   net.ipv4.ip_forward  0  ->  1"
        assert node.kernel.sysctl_read("net/ipv4/conf/cali111/forwarding") == "1"

    run(scenario())


def test_a_sysctl_that_cannot_be_written_is_not_forgotten_over_the_repair_of_others():
    async def scenario():
        node = Node()
        await node.start()
        write = node.kernel.sysctl_write

        def refuse(key, value):
            if key == "net/ipv4/ip_forward":
                raise KernelError(errno.EROFS, f"write sysctl {key}")
            write(key, value)

        node.kernel.sysctl_write = refuse
        write("net/ipv4/ip_forward", "0")
        await node.passes.resync()
        assert list(node.passes.problems) == ["sysctl"]
        node.kernel.link_delete("cali111")
        node.stages.mark("workload")
        await asyncio.sleep(0.02)
        assert node.kernel.sysctl_read("net/ipv4/conf/cali111/proxy_arp") == "1"
        assert list(node.passes.problems) == ["sysctl"]

    run(scenario())


def source_checks(**values):
    """Return the desired values of rp_filter of these interfaces as sysctls."""
    return tuple(Sysctl(f"net/ipv4/conf/{name}/rp_filter", value) for name, value in values.items())


def test_a_source_check_that_is_overruled_stays_a_problem_until_it_is_right():
    async def scenario():
        node = Node(dataclasses.replace(STATE, sysctls=(*STATE.sysctls, *source_checks(cali111="1"))))
        await node.start()
        node.kernel.sysctl_write("net/ipv4/conf/all/rp_filter", "2")
        node.stages.mark("sysctl")
        await asyncio.sleep(30)
        assert not node.passes.in_sync
        assert node.passes.problems == {
            "sysctl": (
                "sysctl net.ipv4.conf.all.rp_filter: net.ipv4.conf.all.rp_filter is 2, and the kernel takes the greater"
                " value of that and an interface's own: the sources of workloads' packets would be checked loosely, not"
                " strictly. It was not touched. Set it to 0 or 1 where it is set (grep -r rp_filter /etc/sysctl.d"
                " /etc/sysctl.conf) and by sysctl -w, give interfaces that need 2 that value of their own, then run"
                " again.",
            )
        }
        node.kernel.sysctl_write("net/ipv4/conf/all/rp_filter", "1")
        node.stages.mark("sysctl")
        await asyncio.sleep(0.2)
        assert node.passes.in_sync and node.passes.problems == {}

    run(scenario())


def test_a_workload_whose_source_is_not_checked_is_repaired_beside_others_without_a_problem():
    """Strict checks of all interfaces overrule none if another workload has them, whichever workload is repaired."""

    async def scenario():
        free, checked = STATE.workloads[0], WEB_3
        sysctls = source_checks(**{free.interface: "0", checked.interface: "1"})
        node = Node(dataclasses.replace(MOVED, workloads=(free, checked), sysctls=(*MOVED.sysctls, *sysctls)))
        node.kernel.sysctl_write("net/ipv4/conf/all/rp_filter", "1")
        await node.start()
        node.kernel.link_set(free.interface, up=False)
        outcome = await node.passes.resync(["workload"])
        assert outcome.problems == () and outcome.in_sync
        assert node.told == ["drift ~ workload default/web-1  host end down  ->  host end up"]

    run(scenario())


def test_only_the_namespace_of_the_broken_workload_is_read_again():
    workloads = tuple(
        VethEndpoint(f"w{n}", f"cali{n:03}", f"10.244.2.{n + 2}", 1450, "default-pool", netns=f"w{n}")
        for n in range(20)
    )

    async def scenario():
        node = Node(dataclasses.replace(STATE, workloads=workloads, routes=STATE.routes[:1], sysctls=STATE.sysctls[:2]))
        await node.start()
        observe, visited = node.kernel.observe_namespace, []
        node.kernel.observe_namespace = lambda one, *what, **more: (visited.append(one), observe(one, *what, **more))[1]
        node.kernel.link_delete("cali007")
        node.stages.mark("workload")
        await asyncio.sleep(0.05)
        assert node.told == ["drift + workload default/w7  eth0 10.244.2.9  host end cali007  mtu 1450"]
        assert set(visited) == {"w7"}
        assert len([link for link in node.kernel.links() if link.name.startswith("cali")]) == 20

    run(scenario())


#: A rule of another program that uses the set cali40old: the kernel does not destroy a set in use.
USES_THE_OLD_SET = "*filter\n:theirs - [0:0]\n-A theirs -m set --match-set cali40old src -j DROP\nCOMMIT\n"

WEB_3 = VethEndpoint("web-3", "cali333", "10.244.1.7", 1450, "default-pool", netns="web-3")
#: STATE with web-3 instead of web-1, without the sysctls of a workload; the blackhole is its only route.
MOVED = dataclasses.replace(STATE, workloads=(WEB_3,), routes=STATE.routes[:1], sysctls=STATE.sysctls[:2])


def test_an_addition_that_failed_stays_a_problem_when_another_object_of_its_kind_is_removed():
    async def scenario():
        node = Node()
        await node.start()
        node.kernel.link_add(NewLink("cali333", "bridge"))  # another program's device with the name of the host end
        node.state = MOVED
        node.stages.mark()
        await asyncio.sleep(0.05)
        assert node.kernel.link("cali111") is None
        (problem,) = node.passes.problems["workload"]
        assert "workload default/web-3" in problem and "cali333" in problem
        assert not node.passes.in_sync
        node.kernel.link_delete("cali333")
        await asyncio.sleep(11)  # the failed addition is retried within this time
        assert node.kernel.link("cali333").up
        assert node.passes.in_sync

    run(scenario())


def test_a_removal_that_fails_does_not_hide_an_addition_that_failed():
    async def scenario():
        node = Node()
        await node.start()
        node.kernel.link_add(NewLink("cali333", "bridge"))
        node.state = MOVED
        node.kernel.fail_next("link_delete", errno.EBUSY, "cali111")
        node.stages.mark("workload")
        await asyncio.sleep(0.05)
        failed = [text.split(":")[0] for text in node.passes.problems["workload"]]
        assert failed == ["workload default/web-3", "workload default/web-1"]

    run(scenario())


def test_an_object_stays_waiting_when_another_of_its_kind_is_removed():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(STATE, routes=(*STATE.routes[1:], Route("10.244.9.1/32", device="dummy9")))
        outcome = await node.passes.resync()
        assert [change.line() for change in outcome.changes] == ["- route    10.244.1.0/26  blackhole"]
        assert outcome.waiting == ("route 10.244.9.1/32 waits for its device.",)

    run(scenario())


def test_a_failed_removal_does_not_let_later_failed_additions_lose_what_they_may_need():
    async def scenario():
        node = Node()
        await node.start()
        node.state = dataclasses.replace(STATE, routes=STATE.routes[1:])
        node.kernel.fail_next("route_batch", errno.EBUSY, "10.244.1.0/26")
        await node.passes.resync()
        node.state = dataclasses.replace(STATE, routes=(*STATE.routes[1:], Route("10.244.9.0/26", "blackhole")))
        write_route(node.kernel, "10.244.9.0/26", RouteAttributes(device="eth0", gateway="10.10.1.9", protocol=4))
        await node.passes.resync()
        assert route_to(node.kernel, "10.244.1.0/26")
        assert [text.split(":")[0] for text in node.passes.problems["route"]][:1] == ["route 10.244.9.0/26"]

    run(scenario())


def test_a_failed_addition_that_exists_by_now_is_no_problem_any_more():
    async def scenario():
        node = Node()
        await node.start()
        node.removals = False
        node.state = dataclasses.replace(STATE, routes=(*STATE.routes[1:], Route("10.244.9.0/26", "blackhole")))
        node.kernel.fail_next("route_batch", errno.EBUSY, "10.244.9.0/26")
        await node.passes.resync()
        assert node.passes.problems
        write_route(node.kernel, "10.244.9.0/26", route_to(node.kernel, "10.244.1.0/26"))  # by another program
        looks = []
        plan = repair.plan
        repair.plan = lambda *arguments, **more: (looks.append(0), plan(*arguments, **more))[1]
        try:
            await asyncio.sleep(8)
        finally:
            repair.plan = plan
        assert node.passes.problems == {} and node.passes.in_sync
        assert len(looks) < 5, "a retry that is over is made again and again"

    run(scenario())


def test_an_add_that_comes_while_a_removal_of_policy_is_planned_goes_first(monkeypatch):
    """The removal is planned in a real thread until the add has asked for its own write."""
    planning, asked = threading.Event(), threading.Event()
    plan = repair.plan

    def slowly(*arguments, **more):
        planned = plan(*arguments, **more)
        if planned.removals and not planning.is_set():
            planning.set()
            assert asked.wait(30)
        return planned

    async def scenario():
        old, new = (IpSet(f"cali40s:{name}", "hash:net", ()) for name in ("old", "new"))
        node = Node(dataclasses.replace(STATE, ipsets=(*STATE.ipsets, old)))
        node.worker = DriverThread()
        await node.passes.resync()
        node.told.clear()
        monkeypatch.setattr(repair, "plan", slowly)
        node.state = STATE
        node.stages.policy_changed()
        removal = asyncio.ensure_future(node.passes.make())
        await asyncio.to_thread(planning.wait, 30)
        node.state = dataclasses.replace(STATE, ipsets=(*STATE.ipsets, new))
        add = asyncio.ensure_future(node.stages.admit(node.state, lambda: None))
        await asyncio.sleep(0)
        asked.set()
        await asyncio.gather(removal, add)
        assert [line.split()[::2][:2] for line in node.told] == [["+", new.name], ["-", old.name]]
        node.worker.close()

    asyncio.run(scenario())


def test_a_set_that_cannot_be_removed_does_not_keep_tunnels_from_being_made():
    async def scenario():
        node = Node(dataclasses.replace(STATE, ipsets=(*STATE.ipsets, IpSet("cali40old", "hash:net", ()))))
        await node.start()
        node.kernel.run(["iptables-restore", "--noflush"], stdin=USES_THE_OLD_SET)
        node.kernel.link_delete("vxlan.calico")
        node.state = STATE
        node.stages.mark()
        await asyncio.sleep(1)
        assert list(node.passes.problems) == ["ipset"]
        assert node.kernel.link("vxlan.calico").up
        node.kernel.link_delete("vxlan.calico")
        node.stages.mark("tunnel")
        await asyncio.sleep(1)
        assert node.kernel.link("vxlan.calico").up

    run(scenario())
