# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node of node_in_namespace.py under policy that is written as Calico v3 documents.

The documents take the way of an inventory's documents: they are parsed, become policy of a NodeState, are compiled by
NodePolicyTables, and are programmed by drivers with a cache, which write only the differences. So connections go on
while policy changes.

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

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import PROBE_INTERFACE
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint, Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
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
from tests.integration.policy.node_in_namespace import PROBE, PROBE_V6, Node, workload_interface
from tests.integration.policy.node_in_namespace import WORKLOADS as WORKLOADS_OF_NODE
from tests.integration.policy.packets import packet, tag
from tests.unit.policy.explain.node_between import OWN, OWN_ADDRESSES, interface_to
from tests.unit.policy.random_policies import NODE

#: The IPv4 addresses of the four workloads, and the IPv6 addresses of the first three.
W0, W1, W2, W3 = (f"10.65.0.{index + 1}" for index in range(4))
W0_V6, W1_V6, W2_V6 = (f"fd65::{index + 1:x}" for index in range(3))
#: The node's blocks, which hold the workloads' addresses.
BLOCKS = (Block("10.65.0.0/26", "pool"), Block("fd65::/122", "pool6"))
#: Addresses beyond eth0 (OUTSIDE, OUTSIDE_V6) and beyond eth1 (ELSEWHERE), and the node's own on these interfaces.
OUTSIDE, ELSEWHERE, OUTSIDE_V6 = "192.0.2.9", "198.51.100.9", "2001:db8::7"
HOST, HOST_ETH1, HOST_V6 = OWN["eth0"][0], OWN["eth1"][0], OWN["eth0"][1]

_numbers = itertools.count(1)  # each packet has a number of its own
_ports = itertools.cycle(range(20000, 60000))
_PATIENCE = 20.0  # seconds to wait for packets that are expected to arrive
_QUIET = 0.02  # seconds to wait afterwards for packets that are expected to be dropped
_BETWEEN = 0.002  # seconds between the packets of a stream


class _Node(t.NamedTuple):
    """One of the fleet's nodes, with the fields that rules on tunnels use."""

    address: str
    address6: str = ""


def udp(source: str, destination: str, port: int = 5000, source_port: int = 0) -> Flow:
    """Return a UDP flow; if `source_port` is 0, its source port is the next of 20000 to 59999 in turn."""
    return Flow(17, source, destination, source_port or next(_ports), port)


def tcp(source: str, destination: str, port: int = 5000) -> Flow:
    return Flow(6, source, destination, next(_ports), port)


def ping(source: str, destination: str) -> Flow:
    return icmp(128 if ":" in source else 8, source, destination)


def icmp(kind: int, source: str, destination: str) -> Flow:
    """Return a flow of an ICMP message of this type with code 0, or of an ICMPv6 message if `source` is IPv6."""
    return Flow(58 if ":" in source else 1, source, destination, None, None, kind, 0)


def of_protocol(number: int, source: str, destination: str) -> Flow:
    return Flow(number, source, destination)


def back(flow: Flow) -> Flow:
    """Return the flow of the answer: addresses and ports are swapped, the rest stays."""
    return dataclasses.replace(
        flow,
        source=flow.destination,
        destination=flow.source,
        source_port=flow.destination_port,
        destination_port=flow.source_port,
    )


def interface_of(address: str) -> str:
    """Return the node's interface for packets from and to an address, "" for the node's own addresses."""
    if address in OWN_ADDRESSES:
        return ""
    if address in (PROBE, PROBE_V6):
        return PROBE_INTERFACE
    for index in range(WORKLOADS_OF_NODE):
        if address in (f"10.65.0.{index + 1}", f"fd65::{index + 1:x}"):
            return workload_interface(index)
    return interface_to(address)


class PolicedNode:
    """The node under policy; a new PolicedNode has programmed none."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.state = NodeState(NODE, f"{HOST}/24", address6=f"{HOST_V6}/64")
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
        etcd_members: t.Sequence[str] = (),
        probes: t.Sequence[str] = (),
    ) -> None:
        """Replace the node's policy by these documents and a profile `open` that allows all, and program it.

        `devices` are the node's tunnels, and `fleet` holds the addresses of the fleet's nodes, which may send
        encapsulated packets. `pools` decide about natOutgoing, `etcd_members` are addresses of hosts of etcd, `probes`
        those of all probe endpoints. `settings` None means the defaults. Raise ResourceError for an invalid document,
        ValueError if two policies have the same name, and what `program` raises.
        """
        found = [resources.parse(one) for one in (allow_all_profile(), *documents)]
        policy_set = from_resources.policy_set(found)
        self.state = dataclasses.replace(
            self.state,
            devices=tuple(devices),
            pools=tuple(pools),
            workloads=tuple(_workloads(found)),
            ipsets=(
                *_sets(devices, fleet),
                *firewall.etcd_members(etcd_members),
                *attachment.block_sets(BLOCKS, (4, 6)),
                *firewall.probes((FleetMember(NODE, "", 0, probes=tuple(probes)),)),
            ),
            iptables=firewall.tables(pools, devices, probed=_versions(probes)),
            policy=PolicyState(policy_set, tuple(_endpoints(found)), settings or PolicySettings()),
        )
        self.program()

    def without_policy(
        self,
        settings: t.Optional[ChainSettings] = None,
        devices: t.Sequence[TunnelDevice] = (),
        fleet: t.Sequence[str] = (),
        pools: t.Sequence[Pool] = (),
        etcd_members: t.Sequence[str] = (),
        probes: t.Sequence[str] = (),
    ) -> None:
        """Remove the policy, and program the rules that the compiler gives a node without policy.

        They check the sources of packets, and hold the rules of `pools` and `devices`. `fleet`, `etcd_members`
        and `probes` are as for `apply`, and `settings` None means the defaults. Raise what `program` raises.
        """
        checks = dataclasses.replace(
            settings or ChainSettings(), local_blocks=(4, 6), own_address6=HOST_V6, etcd_members=tuple(etcd_members)
        )
        self.state = dataclasses.replace(
            self.state,
            devices=tuple(devices),
            pools=tuple(pools),
            ipsets=(
                *_sets(devices, fleet),
                *firewall.etcd_members(etcd_members),
                *attachment.block_sets(BLOCKS, (4, 6)),
                *firewall.probes((FleetMember(NODE, "", 0, probes=tuple(probes)),)),
            ),
            iptables=(*firewall.sources(checks), *firewall.tables(pools, devices, probed=_versions(probes))),
            policy=None,
        )
        self.program()

    def program(self) -> None:
        """Program the IP sets and iptables rules of `self.state` and its policy that differ from the kernel's.

        As in an agent, the drivers have a cache of the kernel's. Raise ObserveError or KernelError if the kernel cannot
        be read, ApplyError if it refuses a change, and ValueError if the mark mask has fewer than five bits.
        """
        state = self._guard.with_policy(self.state)
        plan = plan_node(self.node.kernel, state, ("ipset", "iptables"), registry=REGISTRY.replacing(*self._cached))
        apply_node(self.node.kernel, plan)

    def iptables(self, *arguments: str) -> None:
        """Run iptables with these arguments, as another program would, and forget the cache.

        Raise AssertionError if it fails.
        """
        self.node.iptables(*arguments)
        self.forget()

    def forget(self) -> None:
        """Empty the drivers' cache, so that the next `program` reads the kernel again."""
        for driver in self._cached:
            driver.forget()

    def written(self) -> t.Optional[int]:
        """Return the generation of the nftables ruleset, which each write of rules changes, and none of IP sets.

        Return None for the backend legacy, and for a kernel without nf_tables. Raise KernelError if the kernel refuses.
        """
        return self.node.kernel.ruleset_mark() if self.node.backend == "nft" else None

    # --- packets

    def expect(self, allowed: t.Iterable[Flow] = (), denied: t.Iterable[Flow] = ()) -> None:
        """Send a packet of each flow, and raise AssertionError unless it gets the verdict given.

        An allowed one leaves by the interface towards its destination, or arrives at the node if that is the node's
        own. A denied one arrives nowhere.
        """
        wanted = {flow: interface_of(flow.destination) for flow in allowed}
        expected: dict[Flow, t.Optional[str]] = {**wanted, **dict.fromkeys(denied)}
        seen = self.see(expected)
        differing = [flow for flow, where in expected.items() if seen[flow] != where]
        assert not differing, [f"{flow}: {expected[flow]!r} expected, {seen[flow]!r} seen" for flow in differing]

    def see(self, flows: t.Mapping[Flow, t.Optional[str]], by: t.Optional[str] = None) -> dict[Flow, t.Optional[str]]:
        """Send a packet of each flow, and return {flow: interface by which it leaves}; raise what `send` raises.

        "" means that the node received it, None that it was dropped. The values of `flows` are the expected results:
        packets with another one than None are waited for, up to 2 seconds. With `by`, all packets arrive on this
        interface, whatever their source; with "" the node itself sends them.
        """
        numbers = {flow: self.send(flow, by) for flow in flows}
        self._await(number for flow, number in numbers.items() if flows[flow] is not None)
        return {flow: self._arrived.get((0, number)) for flow, number in numbers.items()}

    def sources(self, flows: t.Iterable[Flow]) -> dict[Flow, str]:
        """Send a packet of each flow (IPv4 only), and return the source addresses that receivers see.

        The address is "" for a flow if no frame leaves for a second. The destinations are not the node's own.
        """
        found = {}
        for flow in flows:
            with self.node.watching(interface_of(flow.destination)) as frames:
                self.send(flow)
                found[flow] = _source(frames)
        return found

    def takes(self, flow: Flow) -> float:
        """Send a packet of the flow (IPv4 only); return the seconds until it leaves the node.

        Raise AssertionError if no frame leaves for a second, or one with another source leaves. The interface is
        watched from the first call on: the first frame with a tag that has left it since the last call counts.
        """
        interface = interface_of(flow.destination)
        if interface not in self._watched:
            self._watched[interface] = self._open.enter_context(self.node.watching(interface))
        began = time.perf_counter()
        self.send(flow)
        assert _source(self._watched[interface]) == flow.source
        return time.perf_counter() - began

    def send(self, flow: Flow, by: t.Optional[str] = None, world: int = 0) -> int:
        """Send a packet of the flow, and return its number, which is in its tag with `world`.

        It arrives on the interface `by`, or the node itself sends it if `by` is "". With None it arrives on the
        interface of its source; the node itself sends it if the source is one of its own addresses. Numbers go round
        after 65535. Raise ValueError if the node has no interface `by`, and OSError if the kernel refuses a packet of
        the node for another reason than policy.
        """
        number = next(_numbers) % 65536
        interface = interface_of(flow.source) if by is None else by
        if interface:
            self.node.comes_in(interface, packet(flow, world, number))
        else:
            self.node.sends(flow.destination, packet(flow, world, number))
        return number

    def send_raw(self, data: bytes, by: str) -> None:
        """Send `data`, a whole IP packet, to the node on the interface `by`; raise ValueError if it has no such one."""
        self.node.comes_in(by, data)

    def establish(self, flow: Flow) -> None:
        """Send a packet there and one back, so that the connection is established.

        Raise AssertionError if one of them does not arrive.
        """
        self.expect([flow])
        self.expect([back(flow)])

    @contextlib.contextmanager
    def logged(self, group: int = PolicySettings.nflog_group) -> t.Iterator[list[str]]:
        """Yield an empty list; at the end of the with block, add the prefixes that this NFLOG group has received.

        Raise AssertionError if another socket has the group. Raise OSError at the end if packets were lost in a full
        buffer.
        """
        found: list[str] = []
        with self.node.kernel._there(lambda: nflog.open_socket(group)) as opened:
            yield found
            found += nflog.prefixes(opened)

    def _await(self, numbers: t.Iterable[int]) -> None:
        # This last packet always arrives, because the host reaches its workloads (LINES[24] in semantics.py).
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
        """Return the numbers of all packets with the tag `world` that have arrived so far, after those on their way.

        Send a packet of another world, and wait up to 20 seconds until it has arrived.
        """
        self._await(())
        return {number for found, number in self._arrived if found == world}


class Stream:
    """A thread that sends a packet of a flow about every 2 milliseconds for as long as the context lasts.

    With `fresh` each has the next source port in turn, and so begins a connection; otherwise all have the flow's own.
    `sent` holds the numbers of the packets in the order of sending.
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
        """Return the positions in `sent` of the packets that did not arrive; call it after the context has ended."""
        arrived = self._node.arrived(self._world)
        return [position for position, number in enumerate(self.sent) if number not in arrived]

    def got_through(self) -> list[int]:
        arrived = self._node.arrived(self._world)
        return [position for position, number in enumerate(self.sent) if number in arrived]


def _sets(devices: t.Sequence[TunnelDevice], fleet: t.Sequence[str]) -> tuple[IpSet, ...]:
    """Return the IP sets of the fleet's addresses, one for each IP version that `devices` tunnel through."""
    four = [_Node(address) for address in fleet if ":" not in address]
    return firewall.ipsets(devices, four + [_Node("", address) for address in fleet if ":" in address])


def _versions(addresses: t.Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({6 if ":" in address else 4 for address in addresses}))


def _source(frames: socket.socket) -> str:
    """Return the IPv4 source of the next frame with a tag, "" after a second without a frame."""
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
