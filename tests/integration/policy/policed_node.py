# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node of node_in_namespace.py under policy that is written as Calico v3 documents.

These go the way that those of an inventory go: parsed, made into policy of a NodeState, compiled by the guard, and
programmed by the drivers of a process that stays, which write what differs from before. So connections go on while
policy changes.

    node.apply(*WORKLOADS, global_policy("deny", types=["Egress"]))
    node.expect(allowed=[udp(W0, OUTSIDE)], denied=[udp(W1, W0)])
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import socket
import threading
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils import resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.cached_drivers import (
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint, Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import local_blocks
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import NodePolicyTables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    IpSet,
    NodeState,
    Pool,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.integration.policy import nflog
from tests.integration.policy.documents import Document, allow_all_profile
from tests.integration.policy.node_in_namespace import WORKLOADS as WORKLOADS_OF_NODE
from tests.integration.policy.node_in_namespace import Node, workload_interface
from tests.integration.policy.packets import packet, tag
from tests.unit.policy.explain.node_between import OWN, OWN_ADDRESSES, interface_to
from tests.unit.policy.random_policies import NODE

#: Addresses of workloads, of something beyond eth0 and beyond eth1, and of the node on these.
W0, W1, W2, W3 = (f"10.65.0.{index + 1}" for index in range(4))
W0_V6, W1_V6, W2_V6 = (f"fd65::{index + 1:x}" for index in range(3))
#: The node's blocks, in which they are.
BLOCKS = (Block("10.65.0.0/26", "pool"), Block("fd65::/122", "pool6"))
OUTSIDE, ELSEWHERE, OUTSIDE_V6 = "192.0.2.9", "198.51.100.9", "2001:db8::7"
HOST, HOST_ETH1, HOST_V6 = OWN["eth0"][0], OWN["eth1"][0], OWN["eth0"][1]

_numbers = itertools.count(1)  # each packet has a number of its own
_ports = itertools.cycle(range(20000, 60000))
_PATIENCE = 2.0  # seconds for what is to arrive
_QUIET = 0.02  # seconds in which what was let through would have arrived, behind one that did
_BETWEEN = 0.002  # seconds between the packets of a stream


class _Node(t.NamedTuple):
    """One of the fleet's nodes, with the fields that rules on tunnels use."""

    address: str
    address6: str = ""


def udp(source: str, destination: str, port: int = 5000, source_port: int = 0) -> Flow:
    """Return a UDP flow; its source port is new to connection tracking unless it is given."""
    return Flow(17, source, destination, source_port or next(_ports), port)


def tcp(source: str, destination: str, port: int = 5000) -> Flow:
    return Flow(6, source, destination, next(_ports), port)


def ping(source: str, destination: str) -> Flow:
    return icmp(128 if ":" in source else 8, source, destination)


def icmp(kind: int, source: str, destination: str) -> Flow:
    """Return a flow of an ICMP or ICMPv6 message of this type."""
    return Flow(58 if ":" in source else 1, source, destination, None, None, kind, 0)


def of_protocol(number: int, source: str, destination: str) -> Flow:
    return Flow(number, source, destination)


def back(flow: Flow) -> Flow:
    """Return the flow of the answer."""
    return dataclasses.replace(
        flow,
        source=flow.destination,
        destination=flow.source,
        source_port=flow.destination_port,
        destination_port=flow.source_port,
    )


def interface_of(address: str) -> str:
    """Return the interface for packets from and to an address, "" for the node's own."""
    if address in OWN_ADDRESSES:
        return ""
    for index in range(WORKLOADS_OF_NODE):
        if address in (f"10.65.0.{index + 1}", f"fd65::{index + 1:x}"):
            return workload_interface(index)
    return interface_to(address)


class PolicedNode:
    """The node under policy; a new one has none."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.state = NodeState(NODE, f"{HOST}/24")
        self._guard = NodePolicyTables()
        self._cached = (CachedSets(), CachedTables())
        self._arrived: dict[tuple[int, int], str] = {}
        self._open = contextlib.ExitStack()
        self._watched: dict[str, socket.socket] = {}

    def close(self) -> None:
        self._open.close()
        self.node.close()

    # --- policy

    def apply(
        self,
        *documents: Document,
        settings: t.Optional[PolicySettings] = None,
        devices: t.Sequence[TunnelDevice] = (),
        fleet: t.Sequence[str] = (),
        pools: t.Sequence[Pool] = (),
    ) -> None:
        """Replace the node's policy by these documents.

        `fleet` holds the addresses of its nodes, which may encapsulate.
        """
        found = [resources.parse(one) for one in (allow_all_profile(), *documents)]
        policy_set = from_resources.policy_set(found)
        self.state = dataclasses.replace(
            self.state,
            devices=tuple(devices),
            pools=tuple(pools),
            workloads=tuple(_workloads(found)),
            ipsets=(*_sets(devices, fleet), *local_blocks.ipsets(BLOCKS, (4, 6))),
            iptables=firewall.tables(pools, devices),
            policy=PolicyState(policy_set, tuple(_endpoints(found)), settings or PolicySettings()),
        )
        self.program()

    def without_policy(
        self,
        settings: t.Optional[ChainSettings] = None,
        devices: t.Sequence[TunnelDevice] = (),
        fleet: t.Sequence[str] = (),
        pools: t.Sequence[Pool] = (),
    ) -> None:
        """Program what the compiler does for a node that has no policy."""
        checks = dataclasses.replace(settings or ChainSettings(), local_blocks=(4, 6))
        self.state = dataclasses.replace(
            self.state,
            devices=tuple(devices),
            pools=tuple(pools),
            ipsets=(*_sets(devices, fleet), *local_blocks.ipsets(BLOCKS, (4, 6))),
            iptables=(*firewall.sources(checks), *firewall.tables(pools, devices)),
            policy=None,
        )
        self.program()

    def program(self) -> None:
        """Program the difference between state and kernel through the drivers, as an agent does."""
        state = self._guard.with_policy(self.state)
        plan = plan_node(self.node.kernel, state, ("ipset", "iptables"), registry=REGISTRY.replacing(*self._cached))
        apply_node(self.node.kernel, plan)

    def iptables(self, *arguments: str) -> None:
        """Run iptables as another program would."""
        self.node.iptables(*arguments)
        self.forget()

    def forget(self) -> None:
        """Forget the cache, so that the kernel is read again, as after another program's write."""
        for driver in self._cached:
            driver.forget()

    def written(self) -> t.Optional[int]:
        """Return the kernel's count of nftables transactions; None for the other backend, which does not count."""
        return self.node.kernel.ruleset_mark() if self.node.backend == "nft" else None

    # --- packets

    def expect(self, allowed: t.Iterable[Flow] = (), denied: t.Iterable[Flow] = ()) -> None:
        """Send the first packet of each flow; check that it leaves towards its destination, or is dropped."""
        wanted = {flow: interface_of(flow.destination) for flow in allowed}
        expected: dict[Flow, t.Optional[str]] = {**wanted, **dict.fromkeys(denied)}
        seen = self.see(expected)
        differing = [flow for flow, where in expected.items() if seen[flow] != where]
        assert not differing, [f"{flow}: {expected[flow]!r} expected, {seen[flow]!r} seen" for flow in differing]

    def see(self, flows: t.Mapping[Flow, t.Optional[str]], by: t.Optional[str] = None) -> dict[Flow, t.Optional[str]]:
        """Return the interface by which each flow leaves.

        "" means that the node received it, None that it was dropped. `flows` says what is expected. With `by`, all
        packets arrive on this interface, whatever their source.
        """
        numbers = {flow: self.send(flow, by) for flow in flows}
        self._await(number for flow, number in numbers.items() if flows[flow] is not None)
        return {flow: self._arrived.get((0, number)) for flow, number in numbers.items()}

    def sources(self, flows: t.Iterable[Flow]) -> dict[Flow, str]:
        """Return the source addresses that receivers see, IPv4 only; "" for a flow that does not arrive."""
        found = {}
        for flow in flows:
            with self.node.watching(interface_of(flow.destination)) as frames:
                self.send(flow)
                found[flow] = _source(frames)
        return found

    def takes(self, flow: Flow) -> float:
        """Return the seconds that a packet of the flow takes through the node."""
        interface = interface_of(flow.destination)
        if interface not in self._watched:
            self._watched[interface] = self._open.enter_context(self.node.watching(interface))
        began = time.perf_counter()
        self.send(flow)
        assert _source(self._watched[interface]) == flow.source
        return time.perf_counter() - began

    def send(self, flow: Flow, by: t.Optional[str] = None, world: int = 0) -> int:
        """Send the flow's next packet, and return its number."""
        number = next(_numbers) % 65536
        interface = interface_of(flow.source) if by is None else by
        if interface:
            self.node.comes_in(interface, packet(flow, world, number))
        else:
            self.node.sends(flow.destination, packet(flow, world, number))
        return number

    def send_raw(self, data: bytes, by: str) -> None:
        """Send a whole IP packet to the node on the interface `by`."""
        self.node.comes_in(by, data)

    def establish(self, flow: Flow) -> None:
        """Send a packet there and one back, so that the connection is established."""
        self.expect([flow])
        self.expect([back(flow)])

    @contextlib.contextmanager
    def logged(self, group: int = PolicySettings.nflog_group) -> t.Iterator[list[str]]:
        """Yield a list that holds the logged prefixes at the end of the with block."""
        found: list[str] = []
        with self.node.kernel._there(lambda: nflog.open_socket(group)) as opened:
            yield found
            found += nflog.prefixes(opened)

    def _await(self, numbers: t.Iterable[int]) -> None:
        # Behind all others goes one that always arrives: the host reaches its workloads (line 24).
        last = self.send(udp(HOST, W3))
        waited_for = {(0, number) for number in (*numbers, last)}
        until = time.monotonic() + _PATIENCE
        while not waited_for <= self._arrived.keys() and time.monotonic() < until:
            self._collect()
        until = time.monotonic() + _QUIET
        while time.monotonic() < until:
            self._collect()

    def _collect(self) -> None:
        for mark, interface in self.node.seen((), 0.0).items():
            self._arrived.setdefault(mark, interface)

    def arrived(self, world: int) -> set[int]:
        """Return the numbers of a stream's packets that have arrived."""
        self._await(())
        return {number for found, number in self._arrived if found == world}


class Stream:
    """Packets of a flow one after the other, for as long as the context lasts.

    `fresh`: each is the first of a connection; else all are of one that has been established.
    """

    _worlds = itertools.count(1)

    def __init__(self, node: PolicedNode, flow: Flow, fresh: bool = False) -> None:
        self.sent: list[int] = []
        self._node = node
        self._flow = flow
        self._fresh = fresh
        self._world = next(self._worlds)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_BETWEEN):
            port = next(_ports) if self._fresh else self._flow.source_port
            self.sent.append(self._node.send(dataclasses.replace(self._flow, source_port=port), world=self._world))

    def lost(self) -> list[int]:
        """Return the positions of lost packets, after the end."""
        arrived = self._node.arrived(self._world)
        return [position for position, number in enumerate(self.sent) if number not in arrived]

    def got_through(self) -> list[int]:
        arrived = self._node.arrived(self._world)
        return [position for position, number in enumerate(self.sent) if number in arrived]


def _sets(devices: t.Sequence[TunnelDevice], fleet: t.Sequence[str]) -> tuple[IpSet, ...]:
    """Return those of the fleet's addresses, of either IP version."""
    four = [_Node(address) for address in fleet if ":" not in address]
    return firewall.ipsets(devices, four + [_Node("", address) for address in fleet if ":" in address])


def _source(frames: socket.socket) -> str:
    """Return the source of the next packet with a tag."""
    while True:
        try:
            data = frames.recv(2048)
        except TimeoutError:
            return ""
        if tag(data) is not None:
            return socket.inet_ntoa(data[26:30])


def _workloads(found: t.Iterable[resources.Resource]) -> t.Iterator[VethEndpoint]:
    for one in found:
        if isinstance(one, resources.WorkloadEndpoint) and one.node == NODE:
            address = one.ipNetworks[0].partition("/")[0]
            yield VethEndpoint(one.name, one.interfaceName, address, 1500, "pool", one.namespace)


def _endpoints(found: t.Iterable[resources.Resource]) -> t.Iterator[Endpoint]:
    for one in found:
        if isinstance(one, resources.WorkloadEndpoint):
            yield from_resources.workload_endpoint(one)
        elif isinstance(one, resources.HostEndpoint):
            yield from_resources.host_endpoint(one)
