# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A compiled fleet of many nodes as real BIRDs, and a comparison of their counts with the simulation's.

Each node is a network namespace on one bridge, with the bird.cfg that a run writes or another one. A netlink socket in
each namespace receives notifications of new routes, so that one process can watch hundreds of nodes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import errno
import os
import pathlib
import re
import selectors
import socket
import struct
import subprocess
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.simulation import Simulation
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.bird_sessions import established_since, younger_sessions

from .debian_bird import Build
from .network import Namespace, wait_for

#: Blocks that no node has: they are in a pool that no node may use.
FREE_BLOCKS = tuple(f"10.31.{number}.0/26" for number in range(31))
BIRD_PROTOCOL, OURS = 12, 179
CLONE_NEWNET = 0x40000000
RTMGRP_IPV4_ROUTE = 0x40
RTM_NEWROUTE, RTM_DELROUTE, RTA_DST = 24, 25, 1
NLM_F_REQUEST, NLM_F_CREATE = 1, 0x400
RT_TABLE_MAIN, RTN_BLACKHOLE = 254, 6
SO_RCVBUFFORCE = 33
_LIBC = ctypes.CDLL(None, use_errno=True)


# --- the fleet ------------------------------------------------------------------------------------------------------


def hosts(nodes: int, reflectors: int = 0, blocks: int = 1) -> list[Host]:
    """Return the hosts of a fleet of `nodes` nodes and `reflectors` pure reflectors.

    Each node has one workload and `blocks` blocks, all but one of them spare.
    """
    shared = {
        "calico_ip_pools": [
            {"name": "pool", "cidr": "10.64.0.0/10"},
            {"name": "free", "cidr": "10.31.0.0/16", "nodeSelector": "!all()"},
        ],
        "calico_spare_blocks": blocks - 1,
        "calico_bgp_log_severity": "Error",
    }
    found = []
    for index in range(nodes):
        variables = {
            **shared,
            "calico_node_address": f"10.{32 + index // 60000}.{index // 240 % 250}.{index % 240 + 10}/11",
            "calico_node_workloads": [{"name": f"w{index}"}],
        }
        found.append(Host(f"node{index:05}", variables, workload_node=True))
    for index in range(reflectors):
        variables = {**shared, "calico_node_address": f"10.63.0.{index + 10}/11"}
        found.append(Host(f"rr{index}", variables, workload_node=False, reflector=True))
    return found


def compiled(nodes: int, reflectors: int = 0, blocks: int = 1, previous: t.Optional[Fleet] = None) -> Fleet:
    plan = previous.allocation if previous else None
    return Fleet.build(inventory.read(hosts(nodes, reflectors, blocks)), plan)


def birds(fleet: Fleet) -> dict[str, Bird]:
    return {name: bird for name in fleet.nodes for bird in [compiler.bird(fleet, name)] if bird}


def simulation(fleet: Fleet) -> Simulation:
    blocks = {name: len(bird.blocks) for name, bird in birds(fleet).items()}
    return Simulation(fleet.bgp.speakers.values(), fleet.bgp.peers, fleet.bgp.unasked, blocks)


def ours(bird: Bird) -> str:
    return bird_config.render(dataclasses.asdict(bird))


# --- routes in a kernel ---------------------------------------------------------------------------------------------


def key(block: str) -> bytes:
    """Return the key of an IPv4 block or address: four bytes of the address, and one of the prefix length.

    Raise OSError for another address.
    """
    address, dummy, length = block.partition("/")
    return socket.inet_aton(address) + bytes([int(length or 32)])


def _netlink_inside(pid: int, groups: int) -> socket.socket:
    """Return a non-blocking rtnetlink socket in the network namespace of process `pid`.

    `groups` is the bit mask of the notifications that it receives. Raise OSError if the namespace cannot be entered.
    """
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if _LIBC.setns(other, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        found.bind((0, groups))
        found.setblocking(False)
        return found
    finally:
        _LIBC.setns(own, CLONE_NEWNET)
        os.close(own)
        os.close(other)


def _new_routes(data: bytes) -> t.Iterator[bytes]:
    """Yield the keys (as of `key`) of the IPv4 routes that BIRD has added or replaced, from netlink messages.

    A default route is left out, because its message has no address.
    """
    offset = 0
    while offset + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, offset)
        if kind == RTM_NEWROUTE and data[offset + 16 + 5] == BIRD_PROTOCOL:
            at, end = offset + 16 + 12, offset + length
            while at + 4 <= end:
                size, attribute = struct.unpack_from("=HH", data, at)
                if attribute == RTA_DST:
                    yield data[at + 4 : at + 8] + data[offset + 17 : offset + 18]
                at += (size + 3) & ~3
        offset += (length + 3) & ~3


def _blackhole(kind: int, block: str) -> bytes:
    """Return the netlink request of the collection's blackhole route of a block.

    `kind` is RTM_NEWROUTE to add it, RTM_DELROUTE to remove it.
    """
    address = key(block)
    flags = NLM_F_REQUEST | (NLM_F_CREATE if kind == RTM_NEWROUTE else 0)
    route = struct.pack("=8BI", socket.AF_INET, address[4], 0, 0, RT_TABLE_MAIN, OURS, 0, RTN_BLACKHOLE, 0)
    attribute = struct.pack("=HH", 8, RTA_DST) + address[:4]
    return struct.pack("=IHHII", 16 + len(route) + len(attribute), kind, flags, 0, 0) + route + attribute


def _quiet_namespace(name: str) -> Namespace:
    """Return a new namespace without IPv6, since the messages of 200 IPv6 devices would fill the kernel's one queue.

    The caller closes it.
    """
    space = Namespace(name)
    space.sysctl({f"conf/{which}/disable_ipv6": "1" for which in ("all", "default")}, "ipv6")
    return space


# --- the machines ---------------------------------------------------------------------------------------------------


class Machine:
    """One node: a namespace on the bridge, and a daemon in it.

    `routes` are the keys (see `key`) of the routes that BIRD has written, withdrawn ones included. `hear` adds to them,
    and `stop` empties them.
    """

    def __init__(self, name: str, bird: Bird, build: Build, folder: pathlib.Path) -> None:
        self.name, self.bird, self.blocks = name, bird, bird.blocks
        self.space = _quiet_namespace(f"fleet-{name}")
        self.routes: set[bytes] = set()
        self.text = ""  # the content of bird.cfg
        self.socket = _netlink_inside(self.space.pid, RTMGRP_IPV4_ROUTE)
        self._requests = _netlink_inside(self.space.pid, 0)
        self._process: t.Optional[subprocess.Popen[bytes]] = None
        self._build, self._config = build, folder / f"{name}.cfg"
        self._control, self._log = str(folder / f"{name}.ctl"), folder / f"{name}.log"
        self._queue = self._dropped()

    def connect(self, bridge: Namespace, index: int, macs: t.Mapping[str, str]) -> None:
        """Connect the node to the bridge, and add the blackhole routes of its blocks.

        The bridge's port is `p<index>`. `macs` maps all nodes' addresses to their MACs. Neighbour entries of peers are
        permanent, because all namespaces of a kernel share one table of 1,024 other entries. Raise KeyError if `macs`
        lacks an address, and AssertionError if a command fails.
        """
        prefix, mac = self.bird.subnet.partition("/")[2], macs[self.bird.address]
        bridge.ip(
            f"link add p{index} mtu 1500 type veth peer name eth0 address {mac} netns {self.space.pid}",
            f"link set p{index} master br0 up",
        )
        bridge.run("bridge", "fdb", "replace", mac, "dev", f"p{index}", "master", "static")
        self.space.ip(
            "link set eth0 up",
            f"address add {self.bird.address}/{prefix} dev eth0",
            *(f"route add blackhole {block} proto {OURS}" for block in self.blocks),
        )
        self.know(macs)

    def know(self, macs: t.Mapping[str, str]) -> None:
        """Write permanent neighbour entries of all peers; raise KeyError if `macs` lacks a peer's address.

        Raise AssertionError if `ip` fails.
        """
        addresses = [peer.address for peer in self.bird.peers]
        self.space.ip(*(f"neighbor replace {one} lladdr {macs[one]} dev eth0 nud permanent" for one in addresses))

    def write(self, text: str) -> None:
        self.text = text
        self._config.write_text(text)

    def start(self) -> None:
        with open(self._log, "ab") as log:
            words = self.space.command(self._build.bird, "-f", "-c", str(self._config), "-s", self._control)
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    def stop(self) -> None:
        """Kill the daemon, remove its routes from the kernel, empty `routes`, and let `dropped` count from 0."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self.space.run("ip", "-4", "route", "flush", "proto", str(BIRD_PROTOCOL))
        self.hear()
        self.routes.clear()
        self._queue = self._dropped()

    def announce(self, block: str) -> None:
        self._requests.send(_blackhole(RTM_NEWROUTE, block))

    def withdraw(self, block: str) -> None:
        self._requests.send(_blackhole(RTM_DELROUTE, block))

    def hear(self) -> None:
        """Read the kernel's notifications that have arrived, and add BIRD's new routes to `routes`.

        If some notifications were lost (ENOBUFS), add all of BIRD's routes in the kernel. Do not wait.
        """
        try:
            while True:
                try:
                    self.routes.update(_new_routes(self.socket.recv(1 << 20)))
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                    lines = self.space.routes("proto", str(BIRD_PROTOCOL))
                    self.routes.update(key(line.split()[0]) for line in lines)
        except BlockingIOError:
            pass

    def resident(self) -> int:
        """Return the daemon's resident memory in KiB.

        Raise AssertionError if it was never started, FileNotFoundError or StopIteration if it has ended.
        """
        assert self._process
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))

    def processor(self) -> float:
        """Return the seconds of processor time of the daemon's main thread; BIRD 2 has no other one.

        Raise FileNotFoundError if the kernel does not count them or `stop` was called, and AssertionError if the daemon
        was never started.
        """
        assert self._process
        return int(pathlib.Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    def birdc(self, *words: str) -> str:
        words = (self._build.birdc, "-s", self._control, *words)
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def counted(self) -> dict[str, tuple[int, int, int, int]]:
        """Return the counts of the sessions that are up.

        The shape is {session: (routes imported, routes exported, announcements received, announcements sent)}. Raise
        subprocess.CalledProcessError if the daemon does not answer, AssertionError if a session's counts are missing.
        """
        found = {}
        for part in re.split(r"\n(?=\S)", self.birdc("show", "protocols", "all")):
            words = part.split()
            if len(words) < 2 or words[1] != "BGP" or "Established" not in part:
                continue
            routes = re.search(r"Routes:\s+(\d+) imported, (?:\d+ filtered, )?(\d+) exported", part)
            received = re.search(r"Import updates:\s+(\d+)", part)
            sent = re.search(r"Export updates:.*\s(\d+)\n", part)
            assert routes and received and sent, part
            found[words[0]] = (int(routes[1]), int(routes[2]), int(received[1]), int(sent[1]))
        return found

    def sessions_since(self) -> dict[str, datetime.datetime]:
        """Return {session: time of its establishment} of the Established BGP sessions; see `established_since`.

        Raise subprocess.CalledProcessError if the daemon does not answer.
        """
        return established_since(self.birdc("show", "protocols"))

    def dropped(self) -> int:
        """Return the number of TCP connections that the listen queues have dropped since the last `stop`.

        Before the first `stop`, count from the constructor on.
        """
        return self._dropped() - self._queue

    def _dropped(self) -> int:
        text = pathlib.Path(f"/proc/{self.space.pid}/net/netstat").read_text().splitlines()
        names, values = (line.split() for line in text if line.startswith("TcpExt:"))
        # The kernel counts a connection that it counts in ListenOverflows in ListenDrops as well.
        return int(dict(zip(names, values))["ListenDrops"])

    def close(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.socket.close()
        self._requests.close()
        self.space.close()


class BirdFleet:
    """All nodes of a fleet as machines on one bridge; their daemons are not started at first."""

    def __init__(self, wanted: t.Mapping[str, Bird], build: Build, folder: pathlib.Path) -> None:
        self._build, self._folder = build, folder
        self._macs: dict[str, str] = {}
        self.machines: list[Machine] = []
        self._bridge = _quiet_namespace("fleet-bridge")
        self._bridge.ip("link add br0 type bridge", "link set br0 up")
        try:
            for bird in wanted.values():
                self._name(bird)
            for name, bird in wanted.items():
                self._add(name, bird)
        except BaseException:
            self.close()
            raise

    def _name(self, bird: Bird) -> None:
        index = len(self._macs)
        self._macs[bird.address] = f"02:bb:00:00:{index // 256:02x}:{index % 256:02x}"

    def _add(self, name: str, bird: Bird) -> Machine:
        machine = Machine(name, bird, self._build, self._folder)
        self.machines.append(machine)
        machine.connect(self._bridge, len(self.machines), self._macs)
        return machine

    def nodes(self) -> list[Machine]:
        """Return the machines of workload nodes, without pure reflectors."""
        return [machine for machine in self.machines if machine.bird.workload_node]

    def start(self, written: t.Callable[[Bird], str] = ours) -> float:
        """Start all daemons; return the seconds until all nodes' kernels have all other nodes' blocks.

        `written` returns a node's bird.cfg. Raise TimeoutError after 120 seconds.
        """
        for machine in self.machines:
            machine.write(written(machine.bird))
        blocks = {key(block) for machine in self.machines for block in machine.blocks}
        began = time.monotonic()
        for machine in self.machines:
            machine.start()
        self._until(self.nodes(), lambda m: blocks - {key(block) for block in m.blocks} <= m.routes, 120)
        return time.monotonic() - began

    def announce(self, block: str) -> float:
        """Announce a new block of the first node; return the seconds until it is in the kernels of all others.

        Raise TimeoutError after 30 seconds.
        """
        first, *others = self.nodes()
        began = time.monotonic()
        first.announce(block)
        self._until(others, lambda m: key(block) in m.routes, 30)
        return time.monotonic() - began

    def settle(self) -> None:
        """Wait until all sessions are up, including those without routes.

        Raise AssertionError after 60 seconds for one machine, and subprocess.CalledProcessError if a daemon does not
        answer.
        """
        for machine in self.machines:
            wait_for(f"sessions of {machine.name}", lambda m=machine: len(m.counted()) == len(m.bird.peers), 60)

    def join(self, wanted: t.Mapping[str, Bird]) -> tuple[list[str], list[str]]:
        """Add the new nodes in `wanted` as a run of site.yml would, and reconfigure daemons whose bird.cfg changes.

        Return the names of the reconfigured nodes, and "node: session" for each session of a node that existed before
        if it has restarted. Raise KeyError if `wanted` lacks an existing node, TimeoutError if routes to the new blocks
        are missing after 30 seconds, AssertionError if sessions of a machine are down after 60 seconds, and
        subprocess.CalledProcessError if a daemon does not answer.
        """
        before = {machine.name: machine.sessions_since() for machine in self.machines}
        added = [name for name in wanted if name not in before]
        for name in added:
            self._name(wanted[name])
        rewritten = []
        for machine in self.machines:
            text, machine.bird = ours(wanted[machine.name]), wanted[machine.name]
            if text != machine.text:
                rewritten.append(machine.name)
                machine.write(text)
                machine.know(self._macs)
                machine.birdc("configure")
        for name in added:
            machine = self._add(name, wanted[name])
            machine.write(ours(machine.bird))
            machine.start()
        blocks = {key(block) for name in added for block in wanted[name].blocks}
        self._until(self.nodes(), lambda m: m.name in added or blocks <= m.routes, 30)
        self.settle()
        young = []
        for machine in self.machines:
            now = machine.sessions_since()
            kept = {session: since for session, since in before.get(machine.name, {}).items() if session in now}
            young += [f"{machine.name}: {session}" for session in younger_sessions(kept, now)]
        return rewritten, young

    def stop(self) -> None:
        for machine in self.machines:
            machine.stop()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        self._bridge.close()

    @staticmethod
    def _until(waiting: t.Iterable[Machine], done: t.Callable[[Machine], bool], seconds: float) -> None:
        ends = time.monotonic() + seconds
        selector = selectors.DefaultSelector()
        for machine in waiting:
            if not done(machine):
                selector.register(machine.socket, selectors.EVENT_READ, machine)
        try:
            while selector.get_map():
                if time.monotonic() > ends:
                    late = sorted((one.data for one in selector.get_map().values()), key=lambda m: len(m.routes))
                    words = ", ".join(f"{machine.name} has {len(machine.routes)}" for machine in late[:5])
                    raise TimeoutError(f"{len(late)} nodes lack routes after {seconds} s: {words}")
                for one, dummy in selector.select(0.5):
                    one.data.hear()
                    if done(one.data):
                        selector.unregister(one.fileobj)
        finally:
            selector.close()


# --- comparison with the simulation ---------------------------------------------------------------------------------


def _differing(fleet: BirdFleet, simulated: Simulation) -> list[str]:
    found = []
    for machine in fleet.machines:
        load = simulated.load(machine.name)
        counted = machine.counted().values()
        imported, exported = sum(one[0] for one in counted), sum(one[1] for one in counted)
        received = sum(one[2] for one in counted)
        # A BIRD may receive more announcements than simulated: in some orders of arrival at the reflectors, a block is
        # announced twice on one session.
        if (len(counted), imported, exported) != (load.sessions, load.paths, load.sent) or received < load.received:
            found.append(f"{machine.name}: {len(counted)} {imported} {exported} {received}, simulated {load}")
    return found


def differing(fleet: BirdFleet, simulated: Simulation, seconds: float = 15) -> list[str]:
    """Return a line for each machine whose BIRD's counts differ from the simulation's; [] if all agree.

    Counts are sessions, routes imported and exported, and announcements received, which may be more than simulated.
    Wait up to `seconds` for [], since the second reflector may still be sending when every kernel is complete. Raise
    subprocess.CalledProcessError if a daemon does not answer.
    """
    ends = time.monotonic() + seconds
    while (found := _differing(fleet, simulated)) and time.monotonic() < ends:
        time.sleep(0.2)
    return found
