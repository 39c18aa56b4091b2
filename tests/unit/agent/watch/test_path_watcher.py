# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's watch over paths, with sockets and a clock in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.watch.path_watcher import PathWatcher
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.path_sockets import (
    Answer,
    Arrival,
    Complaint,
    PathSockets,
    PeerProbe,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss, path_status
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import Fragmenting
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NETNS,
    NodeIpam,
    NodeState,
    Pool,
    TunnelDevice,
    VethEndpoint,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.virtual_time import inline
from tests.unit.dataplane.suites.drivers import underlay

STATE = NodeState(
    node="node1",
    address="10.10.1.11/24",
    pools=(Pool("web", "10.244.0.0/16", 29, "None"),),
    ipam=NodeIpam(1, probes={"web": "10.244.1.7"}),
    nodes=(
        FleetMember("node1", "10.10.1.11/24", 64512, probes=("10.244.1.7",)),
        FleetMember("node2", "10.10.1.12/24", 64512, probes=("10.244.2.7",)),
    ),
    probe_endpoint=VethEndpoint("probe", PROBE_INTERFACE, "10.244.1.7", 1500, "web", netns=PROBE_NETNS),
)


class Sockets:
    """Sockets that answer each probe, or not, as a test wants."""

    def __init__(self) -> None:
        self.answers = True
        self.refusal = ""
        self.dropped = 0
        self.closed = False
        self.sent: list[tuple[str, bytes, int, int]] = []
        self.waiting: list[Arrival] = []
        self.clock = 0.0

    def send(self, source: str, address: bytes, number: int, size: int, content: bytes) -> str:
        assert not self.closed
        self.sent.append((source, address, number, size))
        if self.answers:
            self.waiting.append(Answer(address, content + bytes(20), self.clock + 0.002))
        return self.refusal

    def receive(self) -> list[Arrival]:
        found, self.waiting = self.waiting, []
        return found

    def close(self) -> None:
        self.closed = True


class Scene:
    """A node whose watch ticks when a test says so."""

    def __init__(self, state: NodeState | None = STATE) -> None:
        self.kernel = FakeKernel()
        underlay(self.kernel)
        self.kernel.netns_add(PROBE_NETNS, "probe")
        self.state = state
        self.now = 1000.0
        self.opened: list[Sockets] = []
        self.failure: OSError | None = None
        self.counter: int | None = 100
        self.watcher = PathWatcher(
            self.kernel, inline, lambda: self.state, lambda: self.now, self._open, lambda: self.counter
        )

    def _open(self, identifier: bytes, _magic: bytes) -> PathSockets:
        if self.failure is not None:
            raise self.failure
        self.opened.append(Sockets())
        return t.cast(PathSockets, self.opened[-1])

    async def pass_seconds(self, seconds: int) -> None:
        for dummy in range(seconds):
            self.now += 1.0
            for sockets in self.opened:
                sockets.clock = self.now
            await self.watcher.tick()


def test_paths_are_watched() -> None:
    """Probes leave from the pool's address with the size of the path, and their times are counted."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(30)
        status = scene.watcher.status()
        assert status.summary() == "1 of 1 up; each is tried within 5 s"
        assert len(scene.opened[0].sent) <= 8
        assert {sent[0] for sent in scene.opened[0].sent} == {"10.244.1.7"}
        assert {sent[3] for sent in scene.opened[0].sent} == {1500}
        assert scene.watcher.watch.round_trips["web"].counts[4] >= 5

    asyncio.run(scenario())


def test_a_path_that_is_down_and_why() -> None:
    """What the kernel refuses, and what a router reports about this agent's probes, is the reason."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(10)
        sockets = scene.opened[0]
        sockets.answers, sockets.refusal = False, path_loss.NO_ROUTE
        await scene.pass_seconds(15)
        (down,) = scene.watcher.status().down
        assert (down.pool, down.node, down.reason, down.by) == ("web", "node2", path_loss.NO_ROUTE, "")
        sockets.refusal = ""
        own = payload.encode(payload.Payload(scene.watcher.watch.session, 1, 1.0))
        for quoted in (b"forged", own.replace(b"CALW", b"CALX")):
            last = sockets.sent[-1]
            sockets.waiting.append(Complaint(last[1], last[2], path_loss.REFUSED, "10.6.6.6", quoted))
            await scene.pass_seconds(1)
        assert scene.watcher.status().down[0].reason == path_loss.NO_ROUTE
        for quoted in (b"", own):
            by = "10.9.9.9" if quoted else "10.8.8.8"
            sockets.waiting.append(Complaint(sockets.sent[-1][1], sockets.sent[-1][2], path_loss.TOO_LARGE, by, quoted))
            await scene.pass_seconds(1)
            assert scene.watcher.status().down[0].by == by
        for by, reason in (("10.9.9.9", path_loss.UNREACHABLE), ("10.10.1.11", path_loss.NO_ROUTE)):
            last = sockets.sent[-1]
            sockets.waiting.append(Complaint(last[1], last[2], path_loss.UNREACHABLE, by, own, no_route=True))
            await scene.pass_seconds(1)
            assert scene.watcher.status().down[0].reason == reason
        told = payload.Payload(bytes(8), 1, 1.0, scene.watcher.watch.session[:4], 0)
        sockets.waiting.append(PeerProbe(bytes([10, 244, 2, 7]), payload.encode(told)))
        await scene.pass_seconds(1)
        assert scene.watcher.status().down[0].direction == path_loss.THERE
        sockets.answers = True
        await scene.pass_seconds(15)
        assert scene.watcher.status().down == ()

    asyncio.run(scenario())


def test_a_node_without_a_session_is_down_as_a_whole() -> None:
    """A node whose session is down is one line, unless another session with it is up."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(10)
        scene.opened[0].answers = False
        await scene.pass_seconds(20)
        scene.watcher.see_sessions(["node2"], [])
        status = scene.watcher.status()
        assert (status.nodes, status.count_nodes, status.down) == (("node2",), 1, ())
        scene.watcher.see_sessions(["node2"], ["node2"])
        assert scene.watcher.status().nodes == ()

    asyncio.run(scenario())


def test_a_node_without_an_endpoint_watches_nothing() -> None:
    """Without a state or an endpoint no socket is open; with one again, paths are watched."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(3)
        for state in (dataclasses.replace(STATE, probe_endpoint=None), None):
            scene.state = state
            await scene.pass_seconds(1)
            assert scene.opened[-1].closed
            assert scene.watcher.status().summary() == "not watched: this node has no probe endpoint"
        scene.state = STATE
        await scene.pass_seconds(2)
        assert len(scene.opened) == 2 and scene.watcher.watched

    asyncio.run(scenario())


def test_sockets_follow_the_namespace() -> None:
    """Sockets of a namespace that was made anew are opened anew; while it is missing, the status has the reason."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(3)
        scene.kernel.netns_delete(PROBE_NETNS)
        await scene.pass_seconds(1)
        assert scene.opened[0].closed
        assert scene.watcher.status().reason.startswith("no probe can be sent from the network namespace calico-probe:")
        scene.kernel.netns_add(PROBE_NETNS, "probe")
        await scene.pass_seconds(6)
        assert len(scene.opened) == 2 and scene.watcher.watched

    asyncio.run(scenario())


def test_sockets_that_cannot_be_opened_are_tried_again() -> None:
    """The status has a refusal, and the next attempt follows after some seconds."""

    async def scenario() -> None:
        scene = Scene()
        scene.failure = OSError(errno.EPERM, "Operation not permitted")
        await scene.pass_seconds(2)
        assert "Operation not permitted" in scene.watcher.status().reason
        scene.failure = None
        await scene.pass_seconds(6)
        assert scene.watcher.watched

    asyncio.run(scenario())


def test_a_flood_makes_no_alarm_and_is_reported() -> None:
    """While the kernel drops packets, losses are not counted, and the status says so for a minute."""

    async def scenario() -> None:
        scene = Scene()
        await scene.pass_seconds(10)
        scene.opened[0].answers = False
        for dummy in range(30):
            scene.opened[0].dropped += 5
            await scene.pass_seconds(1)
        status = scene.watcher.status()
        assert status.down == () and "faster than they are read" in status.reason and status.watched
        scene.opened[0].answers = True
        await scene.pass_seconds(61)
        assert scene.watcher.status().reason == ""

    asyncio.run(scenario())


@pytest.mark.parametrize(("device", "slower"), [(True, True), (False, False)])
def test_an_mtu_below_the_fleet_s(device: bool, slower: bool) -> None:
    """The status has a smaller MTU of the underlay's device, and whether VXLAN over IPv4 makes it slower only."""

    async def scenario() -> None:
        tunnels = (TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11"),) if device else ()
        scene = Scene(dataclasses.replace(STATE, devices=tunnels))
        await scene.pass_seconds(1)
        assert scene.watcher.status().fragmenting is None
        scene.kernel.link_set("eth0", mtu=1400)
        await scene.pass_seconds(61)
        assert scene.watcher.status().fragmenting == Fragmenting("eth0", 1400, 1500, slower)

    asyncio.run(scenario())


def test_packets_that_arrive_in_fragments() -> None:
    """Reassembled packets are counted at each look, while a VXLAN tunnel over IPv4 is in use and a number is known."""

    async def scenario() -> None:
        scene = Scene()
        vxlan = dataclasses.replace(STATE, devices=(TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11"),))
        ipv6 = dataclasses.replace(STATE, devices=(TunnelDevice("vxlan6.calico", "vxlan", 1430, "fd00::11"),))
        seen = []
        for state, counter in (
            (STATE, 200),
            (vxlan, 300),
            (vxlan, 340),
            (vxlan, 340),
            (vxlan, None),
            (vxlan, 500),
            (vxlan, 501),
            (vxlan, 7),
            (ipv6, 900),
        ):
            scene.state, scene.counter = state, counter
            await scene.pass_seconds(60)
            status = scene.watcher.status()
            seen.append(status.reassembled)
            assert status.fragmenting is None and path_status.problems("node1", status) == []
        assert seen == [None, None, 40, 0, None, None, 1, 0, None]
        assert scene.watcher.reassembled == 41

    asyncio.run(scenario())


def test_an_error_stops_nothing() -> None:
    """A fault of the watch is its reason not to watch; the next second it goes on."""

    async def scenario() -> None:
        scene = Scene()
        broken = [True]

        def state() -> NodeState:
            if broken[0]:
                raise RuntimeError("a fault")
            return STATE

        watcher = PathWatcher(scene.kernel, inline, state, lambda: scene.now, scene._open)
        running = asyncio.ensure_future(watcher.run())
        await asyncio.sleep(1.2)
        assert not running.done()
        assert watcher.status().reason == "RuntimeError: a fault"
        broken[0] = False
        scene.now += 10.0
        await asyncio.sleep(1.2)
        assert watcher.watched
        running.cancel()

    asyncio.run(scenario())
