# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload on BGP and BFD sessions, whose ends trust the address of its node. Real BIRDs, natOutgoing.

workload -- node1 (10.10.1.11) -- node2 (10.10.1.12, port 1179), router (10.10.1.1 and 10.10.2.1, port 179)
"""

from __future__ import annotations

import contextlib
import ipaddress
import pathlib
import re
import socket
import struct
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Pool

from tests.bird_sessions import younger_sessions
from tests.integration import iptables_backend
from tests.integration.bird.daemons import AS_NUMBER, Daemon, bird_of
from tests.integration.bird.debian_bird import debian_bird
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import POOL, POOL6, Namespace, Network, Node, wait_for

pytestmark = pytest.mark.root

FLEET_PORT, ROUTER_AS, SERVICE = 1179, 65000, 8080
OPEN = 1
#: BFD settings that are so slow that a busy machine interrupts no session.
BFD = Bfd(1000, 1000, 20)
POOLS = (Pool("pool", POOL, 26, "None", nat_outgoing=True), Pool("pool6", POOL6, 122, "None", nat_outgoing=True))


def ends(node: Node) -> tuple[str, str]:
    return node.address, node.address6


def bird(own: Node, other: Node, router: tuple[str, str]) -> Bird:
    """Return the configuration of `own`'s BIRD. It has IPv4 and IPv6 sessions to `other`, and both to the router.

    `router` is the router's IPv4 and IPv6 address. Only the sessions to the node have BFD.
    """
    peers = [
        BirdPeer(
            f"Fleet_{index}", address, AS_NUMBER, "mesh", own.index > other.index, other.name, bfd=BFD, family=family
        )
        for index, (family, address) in enumerate(zip((4, 6), ends(other)))
    ] + [
        BirdPeer(f"Router_{index}", address, ROUTER_AS, "external", multihop=False, family=family)
        for index, (family, address) in enumerate(zip((4, 6), router))
    ]  # fmt: skip
    return bird_of(
        own,
        peers,
        BirdPool(POOL, block_size=26),
        BirdPool(POOL6, block_size=122),
        blocks=(own.block, own.block6),
        address6=own.address6,
        subnet6=own.subnet6,
        listen_port=FLEET_PORT,
    )


class Sessions:
    """Two nodes and a router with their sessions, and the workload of node1, which attacks them."""

    def __init__(self, network: Network, folder: pathlib.Path) -> None:
        self.network = network
        self.node1, self.node2 = network.nodes
        self.router = self.node1.router, self.node1.router6
        self._stack = contextlib.ExitStack()
        self._workload = self._kernel(self.node1.workload_space)
        build = debian_bird("bookworm")
        self.daemons = {node.name: Daemon(build, node.space, folder, node.name) for node in network.nodes}
        for own, other in ((self.node1, self.node2), (self.node2, self.node1)):
            self.daemons[own.name].write(bird(own, other, self.router))
        router = self.daemons["router"] = Daemon(build, network.router, folder, "router")
        router.config.write_text(self._router_configuration())

    def _kernel(self, space: Namespace) -> LinuxKernel:
        kernel = LinuxKernel(f"/proc/{space.pid}/ns/net")
        self._stack.callback(kernel.close)
        return kernel

    def _router_configuration(self) -> str:
        options = f"neighbor port {FLEET_PORT}; graceful restart on; multihop;"
        sessions = (
            stranger.neighbor(f"{node.name}_{index}", address, AS_NUMBER, ROUTER_AS, options)
            for node in self.network.nodes
            for index, address in enumerate(ends(node))
        )
        settings = (
            f"router id {self.router[0]};\nlog stderr all;\ntimeformat protocol iso long;\nprotocol device {{}}\n"
        )
        return settings + "".join(sessions)

    def start(self) -> None:
        for daemon in self.daemons.values():
            daemon.start()
        for daemon in self.daemons.values():
            wait_for(f"{daemon.socket}: 4 sessions", lambda one=daemon: one.established() == 4)
        self._bfd = {
            name: wait_for(f"{name}: BFD", lambda name=name: len(found := self.bfd(name)) == 2 and found)
            for name in ("node1", "node2")
        }
        self._since = {name: daemon.sessions_since() for name, daemon in self.daemons.items()}
        assert [len(found) for found in self._since.values()] == [4, 4, 4]
        time.sleep(2)  # a restart shows in seconds

    def close(self) -> None:
        for daemon in self.daemons.values():
            daemon.stop()
        self._stack.close()

    def masquerade(self) -> None:
        """Program the tables of natOutgoing on node1, as the compiler makes them; raise ApplyError if refused.

        Raise ObserveError if iptables cannot be read.
        """
        kernel = self._kernel(self.node1.space)
        tables = (*firewall.tables(POOLS, (), (FLEET_PORT,)),)
        state = NodeState("node1", f"{self.node1.address}/24", iptables=tables)
        apply_node(kernel, plan_node(kernel, state, ("iptables",)))

    def bfd(self, name: str) -> set[str]:
        """Return the addresses to which a node's BIRD has a BFD session in state Up.

        Raise AssertionError if BIRD does not answer.
        """
        shown = self.daemons[name].birdc("show", "bfd", "sessions")
        return set(re.findall(r"^([0-9a-f]+[.:]\S+) +\S+ +Up ", shown, re.MULTILINE))

    def restarted(self) -> list[str]:
        """Return nodes whose BFD sessions differ from those at `start`, and "daemon: session" for BGP sessions that do.

        These BGP sessions are down, or have been established again. Raise AssertionError if a BIRD does not answer.
        """
        down = [node.name for node in self.network.nodes if self.bfd(node.name) != self._bfd[node.name]]
        return down + [
            f"{name}: {session}"
            for name, daemon in self.daemons.items()
            for session in younger_sessions(self._since[name], daemon.sessions_since())
        ]

    def opens(self, target: str, port: int) -> bytes:
        """Connect to a BGP speaker as the workload, send an OPEN in the name of node1, and return the answer.

        The result is b"" if the speaker refuses or closes the connection, or does not answer within 3 seconds.
        """
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        with self._workload._there(lambda: socket.socket(family, socket.SOCK_STREAM)) as made:
            made.settimeout(3)
            try:
                made.connect((target, port))
                made.sendall(open_message(self.node1.address, 6 if ":" in target else 4))
                return made.recv(4096)
            except OSError:
                return b""

    def sends(self, target: str, port: int, payload: bytes) -> None:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        with self._workload._there(lambda: socket.socket(family, socket.SOCK_DGRAM)) as made:
            made.sendto(payload, (target, port))

    def source_at_node2(self, index: int) -> str:
        """Send a datagram of the workload to a service of node2, and return the source address that it sees.

        `index` is 0 for IPv4, 1 for IPv6. Raise TimeoutError if nothing arrives within 5 seconds.
        """
        family, address = (socket.AF_INET, socket.AF_INET6)[index], ends(self.node2)[index]
        with self._kernel(self.node2.space)._there(lambda: socket.socket(family, socket.SOCK_DGRAM)) as service:
            service.bind((address, SERVICE))
            service.settimeout(5)
            self.sends(address, SERVICE, b"?")
            return str(service.recvfrom(100)[1][0])

    def refused(self, name: str) -> set[str]:
        """Return the workload's addresses from which the daemon `name` has refused connections, by its log."""
        own = {self.node1.workload, self.node1.workload6}
        return own & set(
            re.findall(r"Unexpected connect from unknown address (\S+)", self.daemons[name].log.read_text())
        )

    def bfd_source(self, target: str) -> str:
        """Send a BFD control packet of the workload to `target`, an address of node2; return the source seen there.

        Raise TimeoutError if it does not arrive within 5 seconds.
        """
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        payload = administratively_down()
        opened = self._kernel(self.node2.space)._there(
            lambda: socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_UDP)
        )
        with opened:
            end = time.monotonic() + 5
            self.sends(target, 4784, payload)
            while True:
                # Other packets, such as those of the BFD sessions, do not prolong the wait.
                opened.settimeout(max(end - time.monotonic(), 0.001))
                packet, sender = opened.recvfrom(2048)
                if packet.endswith(payload):
                    return str(sender[0])


def open_message(router_id: str, family: int) -> bytes:
    """Return a BGP OPEN message of the fleet's AS for routes of one IP version (4 or 6)."""
    capabilities = struct.pack("!BBHBB", 1, 4, 1 if family == 4 else 2, 0, 1) + struct.pack("!BBI", 65, 4, AS_NUMBER)
    options = struct.pack("!BB", 2, len(capabilities)) + capabilities
    body = struct.pack("!BHH", 4, AS_NUMBER, 90) + ipaddress.ip_address(router_id).packed
    body += bytes([len(options)]) + options
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), OPEN) + body


def administratively_down() -> bytes:
    """Return a BFD control packet that says "administratively down", with a receiver's discriminator of 0."""
    return struct.pack("!BBBBIIIII", 1 << 5, 0, 20, 24, 4711, 0, 1_000_000, 1_000_000, 0)


@pytest.fixture(params=["nft", "legacy"])
def sessions(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[Sessions]:
    iptables_backend.choose(request.param, tmp_path, monkeypatch)
    network = Network(2)
    made = Sessions(network, tmp_path)
    try:
        made.masquerade()
        made.start()
        yield made
    finally:
        made.close()
        network.close()


def test_a_workload_opens_a_session_as_its_node(sessions: Sessions) -> None:
    """Connect to BGP of another node, of any address of a router, and of its own node, with natOutgoing.

    Gain: The node's session, which the peer replaces by the newer one, and so any route for the whole fleet.
    Precedent: CWE-290, CWE-441.
    Closed: 0.2.0
    Result: The packets keep the workload's own address, and each BIRD refuses it. Packets to services are masqueraded.
    """
    node1, node2 = sessions.node1, sessions.node2
    targets = {
        "node2": [(address, FLEET_PORT) for address in ends(node2)],
        "router": [(address, 179) for address in (*sessions.router, "10.10.2.1", "fd00:10:2::1")],
        "node1": [(address, FLEET_PORT) for address in (*ends(node1), node1.tunnel("vxlan.calico"))],
    }
    answers = {target: sessions.opens(*target) for found in targets.values() for target in found}
    assert answers == dict.fromkeys(answers, b"")
    own = {node1.workload, node1.workload6}
    assert [sessions.refused(name) for name in targets] == [own] * len(targets)
    assert sessions.restarted() == []
    assert [sessions.source_at_node2(index) for index in (0, 1)] == [*ends(node1)]


def test_a_workload_ends_a_session_by_bfd(sessions: Sessions) -> None:
    """Send BFD control packets that say "administratively down" to another node and to its own node.

    Gain: One datagram interrupts a session with all its routes, if the sender knows or guesses a discriminator.
    Precedent: CWE-290, RFC 5880 section 9.
    Closed: 0.2.0
    Result: The packets keep the workload's own address, for which BIRD has no session.
    """
    own = (sessions.node1.workload, sessions.node1.workload6)
    assert tuple(sessions.bfd_source(address) for address in ends(sessions.node2)) == own
    for address in ends(sessions.node1):
        sessions.sends(address, 4784, administratively_down())
    assert sessions.restarted() == []
