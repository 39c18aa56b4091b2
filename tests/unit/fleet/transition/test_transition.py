# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of changes of mode, most in a model of the fleet in which two nodes may be in any two steps of one phase."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_TOS,
    TABLE_MAIN,
    TABLE_PROBE,
    NodeState,
    RoutingRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import ADDRESSES6, LAB, MODES, build, pool, states, stored, workload
from tests.unit.fleet.transition import forwarding

NODES = {name: LAB[name] for name in ("node1", "node2", "node3")}
POOLS = {"a": "10.244.0.0/16", "b": "10.245.0.0/16"}
WORKLOADS = [workload(f"w{n}{p}", f"node{n}", pool=p) for n in (1, 2, 3) for p in POOLS]
OVERHEADS = {"ipip": 20, "ipip-crosssubnet": 20, "vxlan": 50, "vxlan-crosssubnet": 50, "direct": 0}

States = dict[str, NodeState]


@dataclasses.dataclass(frozen=True)
class Wish:
    """The settings that an operator may choose: the modes of both pools, the underlay's MTU, the workloads, BGP.

    `mtu` is in bytes, and `workloads` are indexes in WORKLOADS.
    """

    modes: tuple[str, str]
    mtu: int = 1500
    workloads: tuple[int, ...] = tuple(range(len(WORKLOADS)))
    bgp: bool = True

    def fleet(self, previous: t.Optional[Fleet] = None) -> Fleet:
        return build(
            *(pool(mode, name, cidr) for mode, (name, cidr) in zip(self.modes, POOLS.items())),
            nodes=NODES,
            workloads=[WORKLOADS[index] for index in self.workloads],
            underlay_mtu=self.mtu,
            bgp_enabled=self.bgp,
            previous=previous.allocation if previous else None,
        )


def wishes(bgp: bool = True) -> st.SearchStrategy[Wish]:
    mode = st.sampled_from(sorted(MODES) if bgp else ["vxlan", "vxlan-crosssubnet"])
    chosen = st.sets(st.integers(0, len(WORKLOADS) - 1), min_size=2).map(lambda found: tuple(sorted(found)))
    return st.builds(
        Wish,
        modes=st.tuples(mode, mode),
        mtu=st.sampled_from([1450, 1470, 1480, 1500, 9000]),
        workloads=st.one_of(st.just(tuple(range(len(WORKLOADS)))), chosen),
        bgp=st.just(bgp),
    )


@st.composite
def changes(draw: st.DrawFn, count: int = 2) -> list[Wish]:
    bgp = draw(st.sampled_from([True, True, False]))
    return [draw(wishes(bgp)) for dummy in range(count)]


@dataclasses.dataclass(frozen=True)
class Lasting:
    """An address of a workload, or of a probe endpoint, that exists during the whole change.

    `floor` is the MTU in bytes that fits all modes of its pools. `shared` is True if the workload also has an address
    of the other IP version, with which it shares one MTU.
    """

    name: str
    node: str
    address: str
    pool: str
    floor: int
    shared: bool = False


def check(senders: t.Sequence[NodeState], receivers: t.Sequence[NodeState], targets: t.Iterable[Lasting]) -> None:
    """Assert that each packet of one node arrives at each lasting workload of another, in all of these states of both.

    Both may be one node. Packets from one pool to another, and those of a host or of a node without IPv4 to a workload
    of both IP versions, are no larger than the floor: path MTU discovery limits them at rest, too. Raise Lost if a
    packet does not arrive, AssertionError if a host or a workload of the same pool sends less than the floor.
    """
    for version in (4, 6):
        of_version = [target for target in targets if (":" in target.address) == (version == 6)]
        if of_version:
            check_version(version, senders, receivers, of_version)


def check_version(
    version: int, senders: t.Sequence[NodeState], receivers: t.Sequence[NodeState], targets: t.Iterable[Lasting]
) -> None:
    next_hop = forwarding.own_address(receivers[0], version)
    packets = set()
    for target in targets:
        if target.node != receivers[0].node:
            continue
        for sender in senders:
            if sender.node == target.node:
                packets.add(forwarding.Packet(target.address, target.floor, "", next_hop))
                continue
            host = forwarding.sent(sender, target.address, next_hop)
            assert host.size >= target.floor
            packets.add(dataclasses.replace(host, size=target.floor) if target.shared else host)
            if sender.probe_endpoint is not None:
                assert sender.probe_endpoint.mtu >= target.floor
                packets.add(forwarding.sent(sender, target.address, next_hop, target.floor))
            for source in sender.workloads:
                size = forwarding.largest(source)
                same = target.pool in (source.pool, source.pool6)
                assert not same or size >= target.floor
                # A workload on a node with IPv6 alone has the MTU of its only pool, at rest as well.
                alike = same and (bool(sender.address) or not target.shared)
                size = size if alike else min(size, target.floor)
                packets.add(forwarding.sent(sender, target.address, next_hop, size))
    address = forwarding.own_address(senders[0], version)
    for receiver in {forwarding.reception(receiver, address) for receiver in receivers}:
        for packet in packets:
            forwarding.arrives(packet, receiver)


def lasting(fleets: t.Sequence[Fleet], wanted: t.Sequence[Wish]) -> list[Lasting]:
    names = set.intersection(*({w.name for found in fleet.workloads.values() for w in found} for fleet in fleets))
    found = []
    for node, part in fleets[0].allocation.nodes.items():
        for name, address in part.workloads.items():
            if name in names:
                overheads = (OVERHEADS[wish.modes[list(POOLS).index(name[-1])]] for wish in wanted)
                floor = min(wish.mtu for wish in wanted) - max(overheads)
                found.append(Lasting(name, node, address, name[-1], floor))
    found += [
        dataclasses.replace(other, name="probe", node=node, address=address)
        for node, part in fleets[0].allocation.nodes.items()
        for pool_name, address in part.probes.items()
        if all(address == fleet.allocation.nodes[node].probes.get(pool_name) for fleet in fleets)
        for other in [next((one for one in found if one.pool == pool_name), None)]
        if other is not None
    ]
    return found


def walk(
    actual: States, known: States, target: Fleet, targets: t.Sequence[Lasting], stop: int = 9, stepwise: bool = True
) -> tuple[States, States]:
    """Take all nodes through the phases before number `stop`, and check each pair of nodes in all steps of both.

    All nodes complete a phase before the next one. `actual` has the states that the nodes are in, `known` those that
    they have stored. Return both at the end. With `stepwise` each phase starts from the state of the one before,
    otherwise from the first one. Raise what `check` raises.
    """
    goal = states(target)
    start = dict(known)
    for phase in PHASES[:stop]:
        reached = {
            name: transition.phase_state(known[name] if stepwise else start[name], goal[name], phase) for name in goal
        }
        ways = {name: forwarding.steps(actual[name], reached[name]) for name in goal}
        senders = {name: [promised(state, known[name], reached[name]) for state in ways[name]] for name in goal}
        for one, other in itertools.product(goal, repeat=2):
            check(senders[one], ways[other], [target for target in targets if sends(target, start[one], goal[one])])
        actual, known = dict(reached), dict(reached)
    return actual, known


def sends(target: Lasting, *ends: NodeState) -> bool:
    """Return whether a node has an address of the target's IP version in all of `ends`, its states.

    A node that gets or loses that address cannot send to the target during the whole change.
    """
    return all(forwarding.own_address(end, 6 if ":" in target.address else 4) for end in ends)


def promised(state: NodeState, *known: NodeState) -> NodeState:
    """Return `state` without workloads that none of the states `known` has.

    A run that was to remove them was killed, and the next one removes them. Their packets need not arrive.
    """
    interfaces = {found.interface for one in known for found in one.workloads}
    return dataclasses.replace(state, workloads=tuple(w for w in state.workloads if w.interface in interfaces))


# --- both IP versions -----------------------------------------------------------------------------------------------

SIX = "fd00:10:244::/64"
OVERHEADS6 = {None: 0, "vxlan": 70, "vxlan-crosssubnet": 70, "direct": 0}
BOTH = [workload(f"w{n}a", f"node{n}") for n in (1, 2, 3)]


#: {node: its variables} of a node without an IPv4 address.
ALONE = {"node3": {**ADDRESSES6["node3"], "calico_node_address": None, "calico_node_labels": {"alone": "yes"}}}


def dual(
    mode: str, mode6: t.Optional[str], mtu: int = 1500, previous: t.Optional[Fleet] = None, alone: bool = False
) -> Fleet:
    """Return a fleet with an IPv4 pool in `mode`, a key of MODES, and an IPv6 pool in `mode6`, one of OVERHEADS6.

    If `mode6` is None, there is no IPv6 pool, or a disabled one if `previous` has one. `previous` is the fleet before,
    whose allocations are kept; None for a new fleet. With `alone` node3 has IPv6 only. `mtu` is that of the underlay in
    bytes.
    """
    pools = [pool(mode, "a", POOLS["a"], nodeSelector="!has(alone)")]
    if mode6 is not None:
        pools.append(pool(mode6, "six", SIX))
    elif previous is not None and len(previous.pools) > 1:
        modes = {"vxlanMode": previous.pools[1].vxlanMode}
        pools.append(pool("direct", "six", SIX, disabled=True, nodeSelector="!all()", **modes))
    return build(
        *pools,
        nodes=NODES,
        workloads=BOTH,
        own={**ADDRESSES6, **ALONE} if alone else ADDRESSES6,
        underlay_mtu=mtu,
        previous=previous.allocation if previous else None,
    )


Modes = tuple[str, t.Optional[str], int]


def lasting_of_both(fleets: t.Sequence[Fleet], modes: t.Sequence[Modes]) -> list[Lasting]:
    least = min(mtu for dummy, dummy, mtu in modes)
    floor = least - max(max(OVERHEADS[one], OVERHEADS6[six]) for one, six, dummy in modes)
    found = []
    for node, part in fleets[0].allocation.nodes.items():
        other = fleets[1].allocation.nodes[node]
        for name, address in (*part.workloads.items(), *part.workloads6.items()):
            if address in (other.workloads.get(name), other.workloads6.get(name)):
                found.append(Lasting(name, node, address, "six" if ":" in address else "a", floor, shared=True))
        for pool_name, address in part.probes.items():
            if address == other.probes.get(pool_name):
                found.append(Lasting("probe", node, address, pool_name, floor, shared=True))
    return found


_SIXES: list[t.Optional[str]] = ["vxlan", "vxlan-crosssubnet", "direct", None]


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(_SIXES, 2)))
@pytest.mark.parametrize("mode", ["ipip", "direct"])
def test_every_switch_of_an_ipv6_pool_loses_nothing_of_either_version(
    mode: str, before: t.Optional[str], after: t.Optional[str]
) -> None:
    modes = [(mode, before, 1500), (mode, after, 1500)]
    current = dual(mode, before)
    target = dual(mode, after, previous=current)
    old = states(current)
    if OVERHEADS6[before] != OVERHEADS6[after]:
        assert all(transition.needed(state, target.pools, 1500) for state in old.values())
    actual, dummy = walk(old, old, target, lasting_of_both([current, target], modes))
    assert {name: dataclasses.replace(state, phase=Phase.CONVERGE) for name, state in actual.items()} == states(target)


_MODES: st.SearchStrategy[Modes] = st.tuples(
    st.sampled_from(sorted(MODES)), st.sampled_from(_SIXES), st.sampled_from([1450, 1500, 9000])
)


@settings(max_examples=15, deadline=None)
@given(_MODES, _MODES, st.booleans())
def test_any_change_of_both_versions_loses_nothing(one: Modes, other: Modes, stepwise: bool) -> None:
    current = dual(*one)
    target = dual(*other, previous=current)
    old = states(current)
    walk(old, old, target, lasting_of_both([current, target], [one, other]), stepwise=stepwise)


_WITH_SIX = _MODES.filter(lambda modes: modes[1] is not None)


@settings(max_examples=15, deadline=None)
@given(_WITH_SIX, _WITH_SIX, st.booleans(), st.booleans(), st.booleans())
def test_any_change_with_a_node_that_has_ipv6_alone_loses_nothing(
    one: Modes, other: Modes, alone: bool, stays: bool, stepwise: bool
) -> None:
    """No packet is lost in a change of modes and MTU, with node3 with IPv6 alone (`alone`) or not.

    This also holds if node3 gets or loses its IPv4 address (not `stays`): the others keep IPv4 between each other. Each
    phase starts from the state of the one before (`stepwise`), or from the one before the change.
    """
    current = dual(*one, alone=alone)
    target = dual(*other, previous=current, alone=alone if stays else not alone)
    walk(states(current), states(current), target, lasting_of_both([current, target], [one, other]), stepwise=stepwise)


@pytest.mark.parametrize("stepwise", [True, False])
def test_a_pool_that_only_shares_links_with_one_that_changes_holds_its_workloads_and_not_its_routes(
    stepwise: bool,
) -> None:
    """While the IPv6 pool changes, workloads of the IPv4 pool get the smaller MTU, 1430, but its BIRD routes get none.

    BIRD 3.4 would not remove the MTU of a route again. With `stepwise` each phase starts from the state of the one
    before, otherwise from the one before the change.
    """
    current = dual("direct", "vxlan")
    start = now = states(current)["node1"]
    target = states(dual("direct", "direct", previous=current))["node1"]
    for phase in (Phase.PREPARE, Phase.LINKS):
        now = transition.phase_state(now if stepwise else start, target, phase)
        assert now.bird is not None
        assert [pool.mtu for pool in now.bird.pools] == [None, 1430]
        assert [pool.route_mtu for pool in now.pools] == [1430, 1430]
        assert {route.mtu for route in now.bird_routes if ":" not in route.destination} == {None}


@settings(max_examples=15, deadline=None)
@given(_MODES, _MODES)
def test_workloads_of_the_agent_with_both_versions_get_what_those_of_the_inventory_get(
    one: Modes, other: Modes
) -> None:
    current = dual(*one)
    target = dual(*other, previous=current)
    for name, start in states(current).items():
        for phase in PHASES:
            reached = transition.phase_state(start, states(target)[name], phase)
            for planned in reached.workloads:
                own = attachment.AttachedWorkload("d", "d", addresses=planned.addresses, pool=planned.pool)
                agents = attachment.endpoint(own, *attachment.pools_of(reached, own))
                both = len({len(state.workloads[0].addresses) for state in (start, reached)}) == 1
                if both:  # otherwise the workload gets or loses an address, which an agent's workload never does
                    assert (agents.mtu, agents.route_mtu) == (planned.mtu, planned.route_mtu)


# --- These tests are about walks, states of phases, and workloads of agents -----------------------------------------


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(MODES, 2)))
def test_every_switch_loses_nothing(before: str, after: str) -> None:
    wanted = [Wish((before, "direct")), Wish((after, "direct"))]
    current = wanted[0].fleet()
    target = wanted[1].fleet(current)
    actual, dummy = walk(states(current), states(current), target, lasting([current, target], wanted))
    assert {name: dataclasses.replace(state, phase=Phase.CONVERGE) for name, state in actual.items()} == states(target)


@settings(max_examples=30, deadline=None)
@given(changes(), st.booleans())
def test_any_change_loses_nothing(wanted: list[Wish], stepwise: bool) -> None:
    current = wanted[0].fleet()
    target = wanted[1].fleet(current)
    walk(states(current), states(current), target, lasting([current, target], wanted), stepwise=stepwise)


@settings(max_examples=30, deadline=None)
@given(changes(3), st.integers(0, len(PHASES) - 1), st.booleans(), st.data())
def test_a_run_that_was_stopped_anywhere_can_be_completed_undone_or_replaced(
    wanted: list[Wish], stop: int, stepwise: bool, data: st.DataObject
) -> None:
    """The next run loses no packet after a run that was killed in phase number `stop`.

    It completes, undoes or replaces the change. Each node has finished that phase, has not begun it, or is at any step
    of it. `stepwise` is that of `walk` for the next run.
    """
    first = wanted[0].fleet()
    second = wanted[1].fleet(first)
    then = data.draw(st.sampled_from(["complete", "undo", "replace"]))
    wish = {"complete": wanted[1], "undo": wanted[0], "replace": wanted[2]}[then]
    last = wish.fleet(second)
    floors = lasting([first, second, last], [*wanted[:2], wish])
    actual, known = walk(states(first), states(first), second, floors, stop=stop)
    phase = PHASES[stop]
    goal = states(second)
    for name in sorted(goal):
        reached = transition.phase_state(known[name], goal[name], phase)
        way = forwarding.steps(actual[name], reached)
        position = data.draw(st.integers(0, len(way) - 1), label=f"{name} stopped at")
        # A node stores its next state before it begins to change.
        actual[name], known[name] = way[position], (reached if position else known[name])
        # The stored states have all workloads until the phase that removes some.
        assert phase == Phase.RETIRE or promised(actual[name], known[name]) == actual[name]
    walk(actual, known, last, floors, stepwise=stepwise)


def test_a_smaller_underlay_in_place_of_a_switch_that_stopped() -> None:
    """No packet is lost if the next run makes the underlay's MTU smaller, while packets of pool b still take tunl0.

    A switch of pool b from IPIP to direct was stopped after its first phase. Then the target has IPIP for pool a.
    """
    wanted = [Wish(("direct", "ipip"), 1470), Wish(("direct", "direct"), 1470), Wish(("ipip", "direct"), 1450)]
    first = wanted[0].fleet()
    second = wanted[1].fleet(first)
    last = wanted[2].fleet(second)
    floors = lasting([first, second, last], wanted)
    actual, known = walk(states(first), states(first), second, floors, stop=1)
    walk(actual, known, last, floors)


@settings(max_examples=30, deadline=None)
@given(changes())
def test_states_of_phases_do_not_depend_on_whether_they_are_reached_step_by_step(wanted: list[Wish]) -> None:
    current = wanted[0].fleet()
    target = wanted[1].fleet(current)
    goal = states(target)
    for name, start in states(current).items():
        now = start
        for phase in PHASES:
            now = transition.phase_state(stored(now), goal[name], phase)
            at_once = transition.phase_state(start, goal[name], phase)
            # This also holds for a pool without workloads on this node, whose MTU no state limits after the flip.
            assert now == at_once
            assert transition.phase_state(now, goal[name], phase) == now


@settings(max_examples=12, deadline=None)
@given(changes(3), st.sampled_from(PHASES), st.booleans())
def test_workloads_of_the_agent_get_what_those_of_the_inventory_get(
    wanted: list[Wish], stop: str, stepwise: bool
) -> None:
    """In each phase agents' workloads get the MTUs of the inventory's, also in a change after one stopped in `stop`.

    With `stepwise` each phase starts from the state of the one before, otherwise from the one before the change.
    """
    first = wanted[0].fleet()
    second = wanted[1].fleet(first)
    third = wanted[2].fleet(second)
    for name, start in states(first).items():
        goals = [states(second)[name], states(third)[name]]
        held = transition.phase_state(start, goals[0], stop)
        staying = set.intersection(*({found.interface for found in state.workloads} for state in (start, *goals)))
        for begun, goal in zip((start, held), goals):
            now = begun
            for phase in PHASES:
                reached = transition.phase_state(now if stepwise else begun, goal, phase)
                pools = {found.name: found for found in reached.pools}
                for inventorys in reached.workloads:
                    if inventorys.interface in staying:
                        own = attachment.AttachedWorkload(
                            "d", "d", addresses=(inventorys.address,), pool=inventorys.pool
                        )
                        agents = attachment.endpoint(own, pools[inventorys.pool])
                        assert (agents.mtu, agents.route_mtu) == (inventorys.mtu, inventorys.route_mtu)
                now = reached


# --- single promises ------------------------------------------------------------------------------------------------


def pair(before: str = "ipip", after: str = "vxlan", **rest: t.Any) -> tuple[NodeState, NodeState]:
    current = build(pool(before, natOutgoing=True), **rest)
    target = build(pool(after, natOutgoing=True), previous=current.allocation, **rest)
    return compiler.node_state(current, "node1"), compiler.node_state(target, "node1")


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LINKS, Phase.DIVERT, Phase.FLIP])
def test_receive_paths_of_both_modes_stand_until_the_end(phase: str) -> None:
    current, target = pair()
    state = transition.phase_state(current, target, phase)
    assert [device.name for device in state.devices] == ["vxlan.calico", "tunl0"]
    assert state.neighbors == target.neighbors
    assert state.fdb == target.fdb
    accepted = next(table for table in state.iptables if table.name == "filter").chains["cali-INPUT"]
    assert [rule.split(" -m set")[0] for rule in accepted if rule.endswith("ACCEPT")] == [
        "-p udp -m udp --dport 4789",
        "-p 4",
    ]
    assert {s.key.split("/")[-2] for s in state.sysctls if s.key.endswith("rp_filter")} == {
        "{underlay}", "tunl0", "vxlan.calico", *(endpoint.interface for endpoint in target.endpoints),
    }  # fmt: skip


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LINKS, Phase.DIVERT, Phase.FLIP])
def test_nodes_that_come_and_nodes_that_go_are_both_let_in(phase: str) -> None:
    without3 = {name: address for name, address in LAB.items() if name != "node3"}
    without4 = {name: address for name, address in LAB.items() if name != "node4"}
    current = build(pool("ipip"), nodes=without4, workloads=[])
    target = build(pool("vxlan"), nodes=without3, workloads=[], previous=current.allocation)
    state = transition.phase_state(compiler.node_state(current, "node1"), compiler.node_state(target, "node1"), phase)
    assert state.ipsets[0].members == ("10.10.1.11", "10.10.1.12", "10.10.2.13", "10.10.2.14")
    assert transition.phase_state(state, compiler.node_state(target, "node1"), Phase.RETIRE).ipsets[0].members == (
        "10.10.1.11",
        "10.10.1.12",
        "10.10.2.14",
    )


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LINKS, Phase.DIVERT, Phase.FLIP])
def test_bird_knows_a_pool_that_comes_from_the_first_phase_on(phase: str) -> None:
    came = pool("vxlan", "two", "10.245.0.0/16")
    current = build(pool("ipip"), workloads=[])
    target = build(pool("vxlan"), came, workloads=[], previous=current.allocation)
    bird = transition.phase_state(*(compiler.node_state(plan, "node1") for plan in (current, target)), phase).bird
    assert bird is not None
    device = "vxlan.calico" if phase == Phase.FLIP else "tunl0"
    assert {one.cidr: one.device for one in bird.pools} == {"10.244.0.0/16": device, "10.245.0.0/16": "vxlan.calico"}


def test_routes_have_the_smaller_mtu_until_retire_when_it_shrinks() -> None:
    current, target = pair("direct", "vxlan")
    held = {}
    for phase in PHASES:
        state = transition.phase_state(current, target, phase)
        assert state.bird is not None
        held[phase] = (state.workloads[0].mtu, state.workloads[0].route_mtu, state.bird.pools[0].mtu)
        assert all(route.mtu is None for route in state.routes)
        assert {route.mtu for route in state.bird_routes} == {state.bird.pools[0].mtu}
    assert held == {
        Phase.PREPARE: (1500, 1450, 1450),
        Phase.LINKS: (1450, 1450, 1450),
        Phase.DIVERT: (1450, 1450, 1450),
        Phase.FLIP: (1450, 1450, None),
        Phase.RETIRE: (1450, None, None),
    }


def test_routes_have_the_smaller_mtu_until_retire_when_it_grows() -> None:
    current, target = pair("vxlan", "direct")
    held = {}
    for phase in PHASES:
        state = transition.phase_state(current, target, phase)
        assert state.bird is not None
        held[phase] = (state.workloads[0].mtu, state.workloads[0].route_mtu, state.bird.pools[0].mtu)
    assert held == {
        Phase.PREPARE: (1450, 1450, 1450),
        Phase.LINKS: (1500, 1450, 1450),
        Phase.DIVERT: (1500, 1450, 1450),
        Phase.FLIP: (1500, 1450, None),
        Phase.RETIRE: (1500, None, None),
    }


def test_a_pool_that_keeps_its_mode_is_left_alone() -> None:
    current = build(pool("ipip"), pool("direct", "other", "10.245.0.0/16"))
    target = build(pool("vxlan"), pool("direct", "other", "10.245.0.0/16"), previous=current.allocation)
    before, after = states(current)["node1"], states(target)["node1"]
    for phase in PHASES:
        state = transition.phase_state(before, after, phase)
        assert state.bird is not None
        other = next(found for found in state.bird.pools if found.cidr == "10.245.0.0/16")
        assert (other.device, other.mtu) == ("", None)
        for endpoint in state.workloads:
            if endpoint.pool == "other":
                assert (endpoint.mtu, endpoint.route_mtu) == (1500, None)


def test_tunnels_change_their_mtu_with_the_links() -> None:
    big = build(pool("vxlan"), underlay_mtu=9000)
    small = build(pool("vxlan"), previous=big.allocation)
    for current, target in ((big, small), (small, big)):
        before, after = states(current)["node1"], states(target)["node1"]
        mtus = [transition.phase_state(before, after, phase).devices[0].mtu for phase in PHASES]
        assert mtus == [before.devices[0].mtu] + [after.devices[0].mtu] * 4


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LINKS, Phase.DIVERT])
def test_before_the_flip_live_packets_take_the_old_mode_and_probes_the_new(phase: str) -> None:
    current, target = pair("ipip-crosssubnet", "vxlan")
    state = transition.phase_state(current, target, phase)
    assert [(r.destination, r.device, r.gateway) for r in state.bird_routes] == [
        (r.destination, r.device, r.gateway) for r in current.bird_routes
    ]
    assert state.rules == (RoutingRule(0, TABLE_PROBE, 179, 4, PROBE_INTERFACE, PROBE_TOS),)
    probes = [route for route in state.routes if route.table == TABLE_PROBE]
    assert [(r.destination, r.device, r.gateway, r.onlink, r.mtu) for r in probes] == [
        (r.destination, "vxlan.calico", r.gateway, True, None) for r in target.bird_routes
    ]
    assert {route.destination for route in probes} == {
        block.cidr
        for name, node in states(build(pool("vxlan"))).items()
        if name != "node1"
        for block in node.ipam.blocks
    }


def test_probes_of_direct_paths_across_subnets_go_by_the_gateway_that_the_node_knows() -> None:
    current, target = pair("vxlan", "direct")
    state = transition.phase_state(current, target, Phase.PREPARE)
    assert state.underlay_gateways == ("10.10.2.13", "10.10.2.14")
    resolved = state.resolve_underlay("eth0", {"10.10.2.13": "10.10.1.1"})
    probes = {route.destination: route for route in resolved.routes if route.table == TABLE_PROBE}
    by_node = {route.node: probes.get(route.destination) for route in target.bird_routes}
    assert by_node["node2"] is not None and by_node["node2"].gateway == "10.10.1.12"
    assert by_node["node3"] is not None and by_node["node3"].gateway == "10.10.1.1"
    assert by_node["node4"] is None
    assert not any("{" in str(value) for value in (resolved.routes, resolved.sysctls))


def test_without_bgp_probes_take_the_targets_routes_as_they_are() -> None:
    current, target = pair("vxlan", "vxlan-crosssubnet", bgp_enabled=False)
    state = transition.phase_state(current, target, Phase.LINKS)
    probes = [dataclasses.replace(r, table=TABLE_MAIN) for r in state.routes if r.table == TABLE_PROBE]
    assert probes == [route for route in target.routes if route.gateway]
    live = {r.destination: (r.device, r.gateway) for r in state.routes if r.table == TABLE_MAIN and r.gateway}
    assert live == {r.destination: (r.device, r.gateway) for r in current.routes if r.gateway}
    flipped = transition.phase_state(state, target, Phase.FLIP)
    live = {r.destination: (r.device, r.gateway) for r in flipped.routes if r.table == TABLE_MAIN and r.gateway}
    assert live == {r.destination: (r.device, r.gateway) for r in target.routes if r.gateway}


def with_probes(*pools: t.Mapping[str, t.Any], previous: t.Optional[Fleet] = None, **rest: t.Any) -> Fleet:
    return build(*pools, previous=previous.allocation if previous else None, **rest)


def probes_of(state: NodeState) -> tuple[str, ...]:
    """Return the addresses of the state's probe endpoint, after a check that exactly these have routes to it."""
    found = () if state.probe_endpoint is None else state.probe_endpoint.addresses
    routed = [route.destination for route in state.routes if route.device == PROBE_INTERFACE]
    assert sorted(routed) == sorted(f"{one}/{128 if ':' in one else 32}" for one in found)
    assert bool(found) == any(PROBE_INTERFACE in one.key for one in state.sysctls)
    return found


BETWEEN = [Phase.PREPARE, Phase.LINKS, Phase.DIVERT, Phase.FLIP]


@pytest.mark.parametrize("phase", BETWEEN)
def test_probe_endpoint_has_the_addresses_of_both_states_between(phase: str) -> None:
    """An endpoint has the addresses of pools that go and of those that come, until the end, and the larger MTU."""
    old = with_probes(pool("vxlan", "a", POOLS["a"]))
    both = with_probes(pool("ipip", "a", POOLS["a"]), pool("direct", "b", POOLS["b"]), previous=old)
    current, target = states(old)["node1"], states(both)["node1"]
    assert len(probes_of(target)) == 2
    for before, after in ((current, target), (target, current)):
        between = transition.phase_state(before, after, phase)
        assert set(probes_of(between)) == set(probes_of(target))
        assert between.probe_endpoint is not None
        assert (between.probe_endpoint.mtu, between.probe_endpoint.route_mtu) == (1500, None)
        assert probes_of(transition.phase_state(between, after, Phase.RETIRE)) == probes_of(after)


@pytest.mark.parametrize("phase", [*BETWEEN, Phase.CONVERGE, Phase.RETIRE])
def test_probe_endpoint_appears_after_an_upgrade_and_goes_with_a_return(phase: str) -> None:
    """A state of an earlier release has no endpoint: a change from it adds one at once, a change to it at the end."""
    current, target = pair()
    earlier = attachment.with_probe_endpoint(current, None)
    assert probes_of(transition.phase_state(earlier, target, phase)) == probes_of(target)
    back = transition.phase_state(target, earlier, phase)
    assert probes_of(back) == (() if phase in (Phase.CONVERGE, Phase.RETIRE) else probes_of(target))


@pytest.mark.parametrize("phase", BETWEEN)
def test_without_probe_endpoints_there_is_no_table_for_probes(phase: str) -> None:
    """Pools without probes need neither the rule nor the routes of the next mode."""
    current, target = (attachment.with_probe_endpoint(one, None) for one in pair())
    state = transition.phase_state(current, target, phase)
    assert state.rules == () and not [route for route in state.routes if route.table == TABLE_PROBE]


@pytest.mark.parametrize("phase", BETWEEN)
@pytest.mark.parametrize("is_new", [False, True])
def test_probe_endpoint_gives_way_to_a_workload_with_its_address(is_new: bool, phase: str) -> None:
    """A workload that gets or loses the address of the probe endpoint has it throughout the change."""
    current, target = pair()
    taken = probes_of(target)[0]
    workload_ = dataclasses.replace(target.workloads[0], interface="cali9", name="other", address=taken)
    bare = attachment.with_probe_endpoint(target, None)
    having = dataclasses.replace(
        bare, workloads=(*bare.workloads, workload_), routes=(*bare.routes, *attachment.endpoint_routes(workload_))
    )
    between = transition.phase_state(*((current, having) if is_new else (having, target)), phase)
    assert probes_of(between) == ()
    assert [route.device for route in between.routes if route.destination == f"{taken}/32"] == ["cali9"]


def test_retiring_is_the_target() -> None:
    current, target = pair()
    for phase in (Phase.RETIRE, Phase.CONVERGE):
        for start in (None, current, transition.phase_state(current, target, Phase.FLIP)):
            assert transition.phase_state(start, target, phase) == dataclasses.replace(target, phase=Phase.CONVERGE)


def test_a_node_that_has_nothing_yet_goes_straight_to_the_target() -> None:
    dummy, target = pair()
    assert transition.phase_state(None, target, Phase.PREPARE) == dataclasses.replace(target, phase=Phase.PREPARE)


def test_a_pure_reflector_gets_no_rule_for_probes() -> None:
    rr = {"rr1": "10.10.1.2/24"}
    current, target = build(pool("ipip"), reflectors=rr), build(pool("vxlan"), reflectors=rr)
    state = transition.phase_state(
        compiler.node_state(current, "rr1"), compiler.node_state(target, "rr1"), Phase.PREPARE
    )
    assert (state.devices, state.routes, state.rules, state.workloads) == ((), (), (), ())


# --- These tests are about when phases are needed, and gateways of IPv6 routes --------------------------------------


@pytest.mark.parametrize(("before", "after"), list(itertools.product(MODES, repeat=2)))
def test_phases_are_needed_when_a_mode_changes(before: str, after: str) -> None:
    current, target = pair(before, after)
    assert transition.needed(current, target.pools, target.underlay_mtu) is (before != after)


@pytest.mark.parametrize("phase", PHASES)
def test_phases_are_needed_after_a_change_that_was_left_half_way(phase: str) -> None:
    current, target = pair()
    state = transition.phase_state(current, target, phase)
    assert transition.needed(state, target.pools, target.underlay_mtu) is (phase != Phase.RETIRE)


def test_phases_are_needed_for_another_mtu_of_the_underlay() -> None:
    current, target = pair("direct", "direct")
    assert transition.needed(current, target.pools, 9000) is True


def test_phases_are_not_needed_for_what_only_comes_or_goes() -> None:
    fleet = build(pool("ipip"))
    current = compiler.node_state(fleet, "node1")
    more = build(
        pool("ipip", natOutgoing=True),
        pool("vxlan", "new", "10.245.0.0/16"),
        workloads=[workload("other", "node1")],
        bgp_as_number=65000,
        previous=fleet.allocation,
    )
    target = compiler.node_state(more, "node1")
    assert transition.needed(current, target.pools, target.underlay_mtu) is False
    assert transition.needed(target, current.pools, current.underlay_mtu) is False
    assert transition.needed(None, target.pools, 9000) is False


def test_a_route_of_ipv6_is_near_by_the_ipv6_subnet() -> None:
    """After the flip to direct, a node on the same IPv6 subnet is the gateway itself, whatever the IPv4 subnets are."""
    current = dual("direct", "vxlan")
    target = states(dual("direct", "direct", previous=current))["node1"]
    flipped = transition.phase_state(states(current)["node1"], target, Phase.FLIP)
    subnet = ADDRESSES6["node1"]["calico_node_address_ipv6"].rpartition("::")[0]
    routes = {route.destination: route for route in flipped.bird_routes if ":" in route.destination}
    near = [route for route in routes.values() if route.next_hop.startswith(f"{subnet}::")]
    assert near
    for route in near:
        assert (route.gateway, route.device, route.onlink) == (route.next_hop, "", False)
    assert routes == {route.destination: route for route in target.bird_routes if ":" in route.destination}
