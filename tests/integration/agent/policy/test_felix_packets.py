# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real packets under the running agent, compared with what arrived under real Felix (unit/policy/felix_packets.py).

The node has the six workloads of these worlds, and beyond its eth0 is a host with three addresses. Each has TCP
listeners and a UDP echo, and answers echo requests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import select
import socket
import struct
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import packed_state
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import HOST_ENDPOINT
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam, Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import BASE
from tests.unit.policy.felix_packets import HOST_ADDRESS, NODE, FelixWorld, Probe, worlds

BEYOND = ("10.10.1.1", "192.0.2.9", "198.51.100.1")
#: Worlds with a HostEndpoint "*" (12), with doNotTrack (1, 2 and 18), and with both selectors in a rule (1 and 3).
SAMPLE = ("102-1", "102-2", "102-3", "102-12", "102-18")
TCP_PORTS, UDP_PORT = (80, 8050, 9999), 80

_PATIENCE = 60.0  # seconds in which an answer arrives even on a busy machine
_AGAIN = 0.5  # seconds after which a datagram without an answer is sent again
_FENCE = 0.05  # seconds for a packet that policy should have dropped, after the last expected answer

_BLOCK = "10.244.0.0/26"
_STATE = dataclasses.replace(
    BASE,
    node=NODE,
    ipam=NodeIpam(1, (Block(_BLOCK, "default-pool"),), ()),
    routes=(Route(_BLOCK, "blackhole"),),
)

T = t.TypeVar("T")


class Network:
    """The node with its workloads and the host beyond. Sockets of tests are made in its namespaces, by address."""

    def __init__(self, daemon: Daemon, labels: t.Mapping[str, t.Mapping[str, str]]) -> None:
        self.daemon = daemon
        daemon.netns("beyond")
        self._beyond = daemon.kernel.inside("beyond")
        self._run(daemon.kernel, f"ip link set wire0 netns {daemon.folder}/netns/beyond")
        for line in (
            "ip link set lo up",
            "ip link set wire0 up",
            *(f"ip address add {one}/{24 if one == BEYOND[0] else 32} dev wire0" for one in BEYOND),
            f"ip route add 10.244.0.0/16 via {HOST_ADDRESS}",
        ):
            self._run(self._beyond, line)
        self._names = {address: f"w{index}" for index, address in enumerate(labels)}
        for address, name in self._names.items():
            daemon.add(name, address=address, labels=dict(labels[address]))
        self._stop = threading.Event()
        self._servers = [one for address in (*self._names, HOST_ADDRESS, *BEYOND) for one in self._listen(address)]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @staticmethod
    def _run(kernel: t.Any, line: str) -> None:
        done = kernel.run(line.split())
        assert done.code == 0, (line, done.errors)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for one in self._servers:
            one.close()

    def at(self, address: str, make: t.Callable[[], T]) -> T:
        """Run `make` in the namespace that has this address, and return its result."""
        if address in self._names:
            return self.daemon.kernel.inside(self._names[address])._there(make)
        return (self._beyond if address in BEYOND else self.daemon.kernel)._there(make)

    def _listen(self, address: str) -> list[socket.socket]:
        def make() -> list[socket.socket]:
            made = []
            for port in TCP_PORTS:
                one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((address, port))
                one.listen(512)
                made.append(one)
            echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            echo.bind((address, UDP_PORT))
            made.append(echo)
            for one in made:
                one.setblocking(False)
            return made

        return self.at(address, make)

    def _serve(self) -> None:
        """Accept and close connections, and send datagrams back, until `close`."""
        while not self._stop.is_set():
            for one in select.select(self._servers, [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    if one.type == socket.SOCK_STREAM:
                        one.accept()[0].close()
                    else:
                        data, peer = one.recvfrom(64)
                        one.sendto(data, peer)

    def apply(self, world: FelixWorld) -> None:
        """Let the agent program the world's policy, and forget all tracked connections."""
        hosts = tuple(one for one in world.endpoints() if one.kind == HOST_ENDPOINT)
        policy = PolicyState(world.policy_set(), hosts, PolicySettings(workload_profiles=("felixnet",)))
        state = dataclasses.replace(_STATE, policy=policy)
        assert self.daemon.call("node.apply", state=packed_state.pack(state), removals=True)["problems"] == []
        self.daemon.kernel._there(_forget_connections)

    def answered(self, world: FelixWorld) -> frozenset[Probe]:
        """Send all probes of the world, and return those whose answer comes back.

        Expected ones are waited for, up to a minute.
        """
        sent = [
            self.at(probe.source, functools.partial(_sent, probe, number)) for number, probe in enumerate(world.probes)
        ]
        try:
            until, again, found = time.monotonic() + _PATIENCE, time.monotonic() + _AGAIN, set[Probe]()
            while not world.answered <= found and time.monotonic() < until:
                _collect(sent, found, 0.02)
                if time.monotonic() > again:
                    again += _AGAIN
                    for one in sent:
                        if one.probe in world.answered - found:
                            one.send()
            _collect(sent, found, _FENCE)
            return frozenset(found)
        finally:
            for one in sent:
                one.socket.close()


class Sent(t.NamedTuple):
    """A probe that was sent by a socket of its own. ICMP has the identifier `number`."""

    probe: Probe
    number: int
    socket: socket.socket

    def send(self) -> None:
        """Send a datagram or echo request. A refusal by policy is no error, and TCP repeats by itself."""
        with contextlib.suppress(PermissionError):
            if self.probe.protocol == "udp":
                self.socket.send(b"probe")
            elif self.probe.protocol == "icmp":
                head = struct.pack("!BBHHH", 8, 0, 0, self.number, 1)
                self.socket.send(struct.pack("!BBHHH", 8, 0, _checksum(head), self.number, 1))

    def is_answered(self) -> bool:
        """Return whether the answer is there; the socket must be readable, for TCP writable."""
        if self.probe.protocol == "tcp":
            return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        try:
            data = self.socket.recv(256)
        except OSError:  # an ICMP error
            return False
        return self.probe.protocol == "udp" or (data[20], data[24:26]) == (0, struct.pack("!H", self.number))


def _sent(probe: Probe, number: int) -> Sent:
    kinds = {"tcp": (socket.SOCK_STREAM, 0), "udp": (socket.SOCK_DGRAM, 0), "icmp": (socket.SOCK_RAW, 1)}
    made = Sent(probe, number, socket.socket(socket.AF_INET, *kinds[probe.protocol]))
    made.socket.setblocking(False)
    made.socket.bind((probe.source, 0))
    if probe.protocol == "tcp":
        made.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    refused = made.socket.connect_ex((probe.destination, probe.port))
    assert refused in (0, errno.EINPROGRESS, errno.EPERM), (probe, refused)
    made.send()
    return made


def _collect(sent: t.Iterable[Sent], found: set[Probe], seconds: float) -> None:
    """Add the probes that are answered within `seconds` to `found`."""
    until = time.monotonic() + seconds
    poll = select.poll()
    waiting = {one.socket.fileno(): one for one in sent if one.probe not in found}
    for number, one in waiting.items():
        poll.register(number, select.POLLOUT if one.probe.protocol == "tcp" else select.POLLIN)
    while waiting:
        events = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        for number, _event in events:
            one = waiting[number]
            if one.is_answered():
                found.add(one.probe)
            elif one.probe.protocol != "tcp":
                continue  # another packet, maybe of another probe with the same addresses
            poll.unregister(number)
            del waiting[number]
        if time.monotonic() >= until:
            return


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _forget_connections() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as tracker:  # NETLINK_NETFILTER
        # IPCTNL_MSG_CT_DELETE without a filter deletes all connections.
        tracker.send(struct.pack("=IHHIIBBH", 20, 0x0102, 0x0005, 1, 0, 0, 0, 0))
        assert struct.unpack_from("=i", tracker.recv(4096), 16)[0] == 0


def _compare(daemon: Daemon, chosen: t.Sequence[FelixWorld]) -> None:
    """Send the probes of these worlds, which have the same workloads, and compare what is answered."""
    daemon.desire(_STATE)
    daemon.start()
    daemon.in_sync()
    network = Network(daemon, chosen[0].labels)
    try:
        for world in chosen:
            network.apply(world)
            answered = network.answered(world)
            assert answered == world.answered, (world.name, sorted(answered ^ world.answered))
    finally:
        network.close()


def test_the_agent_lets_pass_what_felix_does(stopped_daemon: Daemon) -> None:
    _compare(stopped_daemon, [world for world in worlds() if world.name in SAMPLE])


@pytest.mark.soak
@pytest.mark.parametrize("run", sorted({world.run for world in worlds()}))
def test_the_agent_lets_pass_what_felix_does_in_all_worlds(stopped_daemon: Daemon, run: str) -> None:
    _compare(stopped_daemon, [world for world in worlds() if world.run == run])
