# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of changes of hosts' addresses, in a model of packets, sessions and leftover routes of BGP.

A host has both addresses during the run, or the new one alone. Then its workloads are cut off until the run.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import renumbering, transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    TABLE_MAIN,
    NodeState,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long_form import LONG
from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, pool, states, stored, workload
from tests.unit.fleet.transition import forwarding
from tests.unit.fleet.transition.forwarding import Lost

States = dict[str, NodeState]
BOTH = {name: {4: LAB[name], 6: ADDRESSES6[name]["calico_node_address_ipv6"]} for name in LAB}
RACK = {
    "rr1": {4: "10.10.1.251/24", 6: "fd00:10:10:1::251/64"},
    "rr2": {4: "10.10.2.252/24", 6: "fd00:10:10:2::252/64"},
}
WORKLOADS = [workload(f"w{n}", f"node{n}") for n in range(1, 5)]
#: {mode of the IPv4 pool: mode of the IPv6 pool}
MODES = {
    "ipip": "vxlan",
    "ipip-crosssubnet": "vxlan-crosssubnet",
    "vxlan": "vxlan",
    "vxlan-crosssubnet": "vxlan-crosssubnet",
    "direct": "direct",
}
#: The new addresses of the hosts that get some: in the same subnets, in the others, exchanged, and of reflectors.
MOVES: dict[str, dict[str, dict[int, str]]] = {
    "same subnet": {"node2": {4: "10.10.1.62/24", 6: "fd00:10:10:1::62/64"}},
    "other subnet": {"node2": {4: "10.10.2.62/24", 6: "fd00:10:10:2::62/64"}},
    "a third subnet": {"node2": {4: "10.10.3.62/24", 6: "fd00:10:10:3::62/64"}},
    "one version": {"node2": {**BOTH["node2"], 6: "fd00:10:10:1::62/64"}},
    "two at once": {
        "node1": {4: "10.10.1.61/24", 6: "fd00:10:10:1::61/64"},
        "node3": {4: "10.10.2.63/24", 6: "fd00:10:10:2::63/64"},
    },
    "exchanged": {"node1": BOTH["node2"], "node2": BOTH["node1"]},
    "exchanged across subnets": {"node2": BOTH["node3"], "node3": BOTH["node2"]},
    "in a ring": {"node1": BOTH["node2"], "node2": BOTH["node3"], "node3": BOTH["node1"]},
}
OF_REFLECTORS: dict[str, dict[str, dict[int, str]]] = {
    "a reflector": {"rr1": {4: "10.10.1.99/24", 6: "fd00:10:10:1::99/64"}},
    "reflectors exchange": {"rr1": RACK["rr2"], "rr2": RACK["rr1"]},
    "a reflector and a node": {"rr1": BOTH["node2"], "node2": RACK["rr1"]},
}
PEERS: dict[str, dict[str, t.Any]] = {
    "router": {"name": "router", "peerIP": "10.10.9.1", "asNumber": 65000, "nodeSelector": "all()"},
    "nodes": {"name": "nodes", "nodeSelector": "all()", "peerSelector": "all()", "keepOriginalNextHop": True},
    "source": {"name": "source", "node": "node1", "peerIP": "10.10.2.14", "sourceAddress": "10.20.1.11"},
}
Hosts = t.Mapping[str, t.Sequence[str]]  # the CIDRs of all addresses that each host has, in its order


@dataclasses.dataclass(frozen=True)
class Network:
    """The settings of a fleet; `topology` is mesh, reflectors or none (no BGP)."""

    mode: str
    topology: str = "mesh"
    as_number: int = 64512
    peers: tuple[str, ...] = ()  # keys of PEERS

    def states(self, moved: t.Mapping[str, t.Mapping[int, str]] = {}, both: bool = False) -> States:
        """Return the states of all nodes; with `both` hosts in `moved` also still have their first addresses."""
        everybody = {**BOTH, **(RACK if self.topology == "reflectors" else {}), **moved}
        own = {name: {"calico_node_address_ipv6": addresses[6]} for name, addresses in everybody.items()}
        fleet = build(
            pool(self.mode, "four"),
            pool(MODES[self.mode], "six", "fd00:10:244::/64", blockSize=122),
            nodes={name: everybody[name][4] for name in LAB},
            reflectors={name: everybody[name][4] for name in RACK if name in everybody},
            own=own,
            workloads=WORKLOADS,
            bgp_enabled=self.topology != "none",
            bgp_as_number=self.as_number,
            bgp_peers=[PEERS[name] for name in self.peers],
        )
        first = {**BOTH, **RACK}
        return states(fleet.with_earlier_addresses(bare(first[name][4]) for name in moved if both))


def hosts_of(before: States, moved: t.Mapping[str, t.Mapping[int, str]], both: bool) -> dict[str, t.Sequence[str]]:
    """Return the addresses of all hosts during the run: old and then new ones if `both`, else the new ones alone."""
    found = {}
    for name, state in before.items():
        old = [state.address, state.address6]
        new = list(moved[name].values()) if name in moved else old
        found[name] = [*old, *new] if both else new
    return found


def bare(cidr: str) -> str:
    return cidr.partition("/")[0]


def has(hosts: Hosts, name: str, address: str) -> bool:
    return address in map(bare, hosts[name])


def on_link(hosts: Hosts, name: str, address: str) -> bool:
    wanted = ipaddress.ip_address(address)
    return any(wanted in ipaddress.ip_interface(cidr).network for cidr in hosts[name])


def source_of(bird: Bird, address: str) -> str:
    return bird.address6 if ":" in address else bird.address


def sessions_between(one: NodeState, other: NodeState, hosts: Hosts) -> t.Iterator[tuple[str, str]]:
    """Yield (address of `one`, address of `other`) for each session that BIRD of both can have on these hosts."""
    if one.bird is None or other.bird is None:
        return
    for peer in one.bird.peers:
        source = source_of(one.bird, peer.address)
        if not (has(hosts, other.node, peer.address) and has(hosts, one.node, source)):
            continue
        for back in other.bird.peers:
            own = source_of(other.bird, back.address)
            ends_meet = back.address == source and own == peer.address
            if ends_meet and back.password == peer.password and not (back.passive and peer.passive):
                yield source, peer.address


def next_hops(sender: NodeState, owner: str, fleet: t.Mapping[str, NodeState], version: int, hosts: Hosts) -> set[str]:
    """Return all next hops that the best route of `sender` to a block of `owner` may have, {} for none.

    Where no session brings the route, graceful restart may still keep the one by an address of before the change, as
    long as BIRD has a session with that name; else the backup route is used. `fleet` has the states of all nodes.
    """
    assert sender.bird is not None
    own_blocks = {block.cidr for block in fleet[owner].ipam.blocks if (":" in block.cidr) == (version == 6)}
    backups = {route.next_hop for route in sender.bird.backups if route.destination in own_blocks}
    if sender.bird.backups_lead and backups:
        return backups
    brought = set()
    for via in fleet.values():
        # Either the owner itself, or a reflector that has a session with both.
        if via.node == owner:
            brought |= {there for dummy, there in sessions_between(sender, via, hosts)}
        elif via.bird is not None and via.bird.cluster_id and list(sessions_between(sender, via, hosts)):
            brought |= {own for own, dummy in sessions_between(fleet[owner], via, hosts)}
    brought = {address for address in brought if (":" in address) == (version == 6)}
    if brought:
        return brought
    stale = {
        peer.address if peer.kind == "mesh" else forwarding.own_address(fleet[owner], version)
        for peer in sender.bird.peers
        if (peer.kind == "reflector" or peer.node == owner) and (":" in peer.address) == (version == 6)
    }
    return backups | stale


def check_packet(
    sender: NodeState, receiver: NodeState, fleet: t.Mapping[str, NodeState], version: int, hosts: Hosts
) -> None:
    """Raise Lost unless packets of `sender` arrive at the workload of `receiver`, whichever route it has."""
    endpoint = receiver.workloads[0]
    address = endpoint.address6 if version == 6 else endpoint.address
    if sender.bird is None:
        inside = (route for route in sender.routes if route.gateway and forwarding.inside(address, route.destination))
        hops = {next(str(route.gateway) for route in inside if route.table == TABLE_MAIN)}
    else:
        hops = next_hops(sender, receiver.node, fleet, version, hosts)
    if not hops:
        raise Lost(f"{sender.node} has no route to {address}")
    for hop in hops:
        packet = forwarding.sent(sender, address, hop, endpoint.mtu)
        # The kernel chooses the source of IPIP: the host's first address, which is the old one while the host has both.
        source = next(bare(cidr) for cidr in hosts[sender.node] if (":" in cidr) == (version == 6))
        if packet.device.startswith("vxlan"):
            (source,) = (device.local for device in sender.devices if device.name == packet.device)
            if not has(hosts, sender.node, source):
                raise Lost(f"{sender.node} sends from {source}, which it has not")
        elif not packet.device and "crosssubnet" in str(receiver.pools).lower():
            if not on_link(hosts, sender.node, packet.end):
                raise Lost(f"{sender.node} sends to {packet.end} without a tunnel, by a router")
        received = forwarding.reception(receiver, source)
        all_own = frozenset(bare(cidr) for cidr in hosts[receiver.node])
        forwarding.arrives(packet, dataclasses.replace(received, own_addresses=all_own))


def walk(
    before: States,
    after: States,
    moved: t.Collection[str],
    hosts: Hosts,
    both: bool,
    hold: bool,
    stop: int = len(PHASES),
) -> States:
    """Take all nodes through the phases before number `stop`, and check all pairs in each two steps of a phase.

    Packets between hosts that keep their addresses always arrive, and with `both` so do all. Otherwise packets of and
    to a host with a new address arrive from the end of `links` on, when they are probed.
    """
    now = dict(before)
    live = both
    for phase in PHASES[:stop]:
        reached = {name: transition.phase_state(stored(before[name]), after[name], phase, hold) for name in after}
        ways = {name: forwarding.steps(now[name], reached[name]) for name in reached}
        for one, other in itertools.permutations([name for name in reached if reached[name].workloads], 2):
            if not live and {one, other} & set(moved):
                continue
            for sender, receiver in itertools.product(ways[one], ways[other]):
                fleet = {**now, one: sender, other: receiver}
                for version in (4, 6):
                    check_packet(sender, receiver, fleet, version, hosts)
        now = reached
        if phase == Phase.LINKS:
            live = True
    return now


def moves_of(topology: str) -> dict[str, dict[str, dict[int, str]]]:
    return {**MOVES, **OF_REFLECTORS} if topology == "reflectors" else MOVES


CASES = [
    (mode, topology, move, both)
    for topology in ("mesh", "reflectors", "none")
    for mode in MODES
    if topology != "none" or mode.startswith("vxlan")
    for move in moves_of(topology)
    for both in (True, False)
    if not (both and ("exchange" in move or "ring" in move or "and a node" in move))
]


@pytest.mark.parametrize(("mode", "topology", "move", "both"), CASES)
def test_a_host_gets_another_address_and_nothing_is_lost(mode: str, topology: str, move: str, both: bool) -> None:
    network = Network(mode, topology)
    moved = moves_of(topology)[move]
    before, after = network.states(), network.states(moved, both)
    hold = any(transition.endangered(before[name], state.bird, set(after)) for name, state in after.items())
    assert hold is (topology != "none")
    reached = walk(before, after, moved, hosts_of(before, moved, both), both, hold)
    assert reached == after


@pytest.mark.parametrize("phase", PHASES)
def test_two_hosts_that_exchange_addresses_change_partners_behind_names_that_stay(phase: Phase) -> None:
    """Node1's session with an address has another node at its end, and so another password and tunnel end."""
    labels = {name: {"calico_node_labels": {"host": name}} for name in LAB}
    peers = [
        {
            "name": f"with-{name}",
            "node": "node1",
            "peerSelector": f"host == '{name}'",
            "password": {"secretKeyRef": {"name": "bgp", "key": name}},
        }
        for name in ("node2", "node3")
    ]

    def network(node2: str, node3: str) -> States:
        nodes = {**LAB, "node2": node2, "node3": node3}
        options: dict[str, t.Any] = {"own": labels, "bgp_peers": peers, "bgp_node_to_node_mesh": False}
        options["bgp_secrets"] = {"bgp": {"node2": "secret-2", "node3": "secret-3"}}
        return states(build(pool("vxlan"), nodes=nodes, workloads=[], **options))

    two, three = LAB["node2"], LAB["node3"]
    before, after = network(two, three), network(three, two)
    reached = transition.phase_state(before["node1"], after["node1"], phase, True)
    assert reached.bird is not None
    macs = {name: naming.vtep_mac(name) for name in LAB}
    ends = {entry.mac: entry.destination for entry in reached.fdb}
    gateways = {entry.address: entry.mac for entry in reached.neighbors}
    assert (ends[macs["node2"]], ends[macs["node3"]]) == (bare(three), bare(two))
    assert (gateways[bare(three)], gateways[bare(two)]) == (macs["node2"], macs["node3"])
    changed = phase in (Phase.FLIP, Phase.RETIRE)
    found = {(peer.address, peer.node, peer.password) for peer in reached.bird.peers}
    assert found == {
        (bare(three if changed else two), "node2", "bgp:node2"),
        (bare(two if changed else three), "node3", "bgp:node3"),
    }
    assert before["node1"].bird is not None and after["node1"].bird is not None
    assert {peer.name for peer in before["node1"].bird.peers} == {peer.name for peer in after["node1"].bird.peers}
    resets = session_changes.resets(before["node1"].bird, after["node1"].bird)
    assert [change.text for change in resets if "password" in change.text] == [change.text for change in resets]
    assert len(resets) == 2
    returned = transition.with_sessions_of(after["node1"], before["node1"]).bird
    assert returned is not None and sorted(map(repr, returned.peers)) == sorted(map(repr, after["node1"].bird.peers))


networks = st.builds(
    Network,
    mode=st.sampled_from(sorted(MODES)),
    topology=st.sampled_from(["mesh", "reflectors"]),
    as_number=st.sampled_from([64512, 64600]),
    peers=st.sets(st.sampled_from(sorted(PEERS))).map(lambda found: tuple(sorted(found))),
)


@settings(max_examples=200 if LONG else 12, deadline=None)
@given(networks, networks, st.sampled_from(sorted(MOVES)))
def test_a_return_brings_the_old_sessions_with_the_new_addresses(old: Network, new: Network, move: str) -> None:
    """BIRD becomes what it would be if the hosts had always had these addresses, in the modes of the target."""
    reflected = {old.topology, new.topology} == {"reflectors"}
    moved = {**MOVES[move], **(OF_REFLECTORS["reflectors exchange"] if reflected else {})}
    before, target, wanted = old.states(), new.states(moved), old.states(moved)
    for name in wanted.keys() & target.keys():
        returned = transition.with_sessions_of(target[name], stored(before[name])).bird
        goal, new_bird = wanted[name].bird, target[name].bird
        assert returned is not None and goal is not None and new_bird is not None
        assert returned.peers == goal.peers
        rest: dict[str, t.Any] = {"pools": returned.pools, "blocks": returned.blocks}
        rest["vteps6"] = new_bird.vteps6 or goal.vteps6
        assert returned == dataclasses.replace(goal, **rest)


@settings(max_examples=200 if LONG else 12, deadline=None)
@given(networks | st.sampled_from([Network("vxlan", "none"), Network("vxlan-crosssubnet", "none")]), st.data())
def test_an_earlier_state_keeps_all_but_the_addresses(network: Network, data: st.DataObject) -> None:
    """It is what the plan would have been with the new addresses, but for those from which tunnels are accepted."""
    moved = moves_of(network.topology)[data.draw(st.sampled_from(sorted(moves_of(network.topology))))]
    before, wanted = network.states(), network.states(moved)
    for name in before:
        state = renumbering.returned(stored(before[name]), wanted[name])
        for one, other in zip(state.ipsets, wanted[name].ipsets):
            assert {*one.members} >= {*other.members}
        assert dataclasses.replace(state, plan=wanted[name].plan, ipsets=wanted[name].ipsets) == wanted[name]
        assert renumbering.returned(wanted[name], before[name]) is not wanted[name]
        assert renumbering.returned(before[name], before[name]) is before[name]


@settings(max_examples=100 if LONG else 4, deadline=None)
@given(
    st.sampled_from([case for case in CASES if case[1] != "none"]),
    st.integers(0, len(PHASES) - 1),
    st.sampled_from(sorted(LAB)),
)
def test_a_run_that_was_stopped_is_completed_or_undone(case: tuple[str, str, str, bool], stop: int, first: str) -> None:
    """The next run loses nothing after one that was killed in phase number `stop`, which only node `first` has done.

    It completes the change, or returns to the old sessions: both bring the new addresses everywhere.
    """
    mode, topology, move, both = case
    network = Network(mode, topology)
    moved = moves_of(topology)[move]
    before, after = network.states(), network.states(moved, both)
    hosts = hosts_of(before, moved, both)
    now = walk(before, after, moved, hosts, both, True, stop)
    now[first] = transition.phase_state(stored(before[first]), after[first], PHASES[stop], True)
    for goals in (after, {name: transition.with_sessions_of(after[name], now[name]) for name in after}):
        assert walk(now, goals, moved, hosts, both, True) == goals
        assert goals == after
