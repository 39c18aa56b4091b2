# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what a run interrupts in the whole fleet, and of the limits above which it needs confirmation."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BackupRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import impact, witnesses
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import Impact, ImpactLimits, Reset
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, pool, states, stored, workload

TOR = [{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "all()"}]
REFLECTORS = {"rr1": "10.10.1.251/24", "rr2": "10.10.2.252/24"}

States = dict[str, NodeState]


def fleet(nodes: t.Mapping[str, str] = LAB, **rest: t.Any) -> States:
    return states(build(pool(), nodes=nodes, workloads=[], **rest))


def dual() -> States:
    """Return the states of the lab's nodes with addresses and pools of both IP versions."""
    six = pool("direct", "six", "fd00:10:244::/48", blockSize=122)
    return states(build(pool(), six, workloads=[], own=ADDRESSES6))


def without_bird(before: States) -> States:
    return {name: dataclasses.replace(state, bird=None) for name, state in before.items()}


def of_run(before: t.Mapping[str, t.Optional[NodeState]], after: States, **rest: t.Any) -> Impact:
    """Return the impact of a change from `before` to `after`, with the hosts that change.

    `before` has None for a node without a stored state. `rest` are further arguments of `impact.of_run`.
    """
    kept = {name: stored(state) if state else None for name, state in before.items()}
    announced = {block for state in after.values() for block in impact.announced_by(state)}
    found = impact.of_run(kept, {name: state.bird for name, state in after.items()}, announced, after, **rest)
    return dataclasses.replace(found, hosts=impact.changing(kept, after))


def test_nothing_changes() -> None:
    found = of_run(fleet(), fleet())
    assert found == Impact()
    assert found.lines == []


def test_a_session_counts_once_for_both_of_its_ends() -> None:
    found = of_run(fleet(reflectors=REFLECTORS), fleet(reflectors=REFLECTORS, rr_cluster_id="244.0.0.9"))
    pairs = sorted((node, reflector) for node in LAB for reflector in REFLECTORS)
    assert [reset.ends for reset in found.resets] == pairs
    assert {reset.text for reset in found.resets} == {"restarts: cluster id"}
    assert found.hold
    assert found.hosts == ("rr1", "rr2")
    assert found.lines == [
        "sessions  8 restarts: cluster id · backup routes hold the traffic between nodes",
    ]


def test_sessions_with_routers_outside_are_bare() -> None:
    found = of_run(fleet(bgp_peers=TOR), fleet(bgp_peers=TOR, bgp_as_number=64600))
    assert len(found.resets) == 6 + 4
    assert [str(reset) for reset in found.bare] == [
        f"{node} with 10.10.1.1 restarts: own AS number" for node in sorted(LAB)
    ]
    assert found.lines[1] == (
        "sessions  4 of these with routers outside: node1 with 10.10.1.1 restarts: own AS number, node2 with 10.10.1.1 "
        "restarts: own AS number, node3 with 10.10.1.1 restarts: own AS number and 1 more"
    )


TWO_DAEMONS = [
    {"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "name in {'node1', 'node2'}"},
    {
        "name": "tor2",
        "peerIP": "10.10.1.1:1790",
        "asNumber": 65000,
        "listenPort": 1791,
        "nodeSelector": "name in {'node1', 'node2'}",
    },
]
NAMED = {name: {"calico_node_labels": {"name": name}} for name in LAB}


@pytest.mark.parametrize(("removed", "count"), [([], 4), (TWO_DAEMONS[:1], 2), (TWO_DAEMONS[1:], 2)])
def test_sessions_with_two_ports_of_a_router_count_for_themselves(removed: list[dict[str, t.Any]], count: int) -> None:
    """A node with sessions on ports 179 and 1790 of one router resets each that goes, and the limits count each."""
    found = of_run(fleet(bgp_peers=TWO_DAEMONS, own=NAMED), fleet(bgp_peers=removed, own=NAMED))
    assert [reset.ends[0] for reset in found.resets] == ["node1"] * (count // 2) + ["node2"] * (count // 2)
    assert found.bare == found.resets
    assert ImpactLimits(session_resets=count, external_resets=count).exceeded(found) == []
    assert ImpactLimits(session_resets=count - 1, external_resets=count - 1).excess(found) == 2
    assert found.without(dataclasses.replace(found, resets=found.resets[:1])).resets == found.resets[1:]


P = {"name": "p", "node": "node1", "peerIP": "10.10.2.13", "sourceAddress": "10.20.1.11"}
Q = {"name": "q", "node": "node3", "peerIP": "10.10.1.11", "sourceAddress": "10.20.2.13"}


@pytest.mark.parametrize(
    "before",
    [
        fleet(),
        dual(),
        fleet(reflectors=REFLECTORS),
        fleet(bgp_listen_port=1179),
        fleet(own={"node1": {"calico_node_bgp_listen_port": 1791}, "node3": {"calico_node_bgp_listen_port": 1793}}),
        fleet(bgp_peers=[{"name": "p", "peerSelector": "all()", "sourceAddress": "None"}]),
        fleet(bgp_node_to_node_mesh=False, bgp_peers=[P]),
        fleet(bgp_peers=[{"name": "p", "node": "node1", "peerIP": "10.10.2.13", "listenPort": 1790}]),
    ],
)
def test_all_sessions_between_nodes_have_two_ends_and_count_once(before: States) -> None:
    """Without BGP every session ends: half as many as the nodes' BIRDs have in all."""
    ends = [peer for state in before.values() if state.bird is not None for peer in state.bird.peers]
    found = of_run(before, without_bird(before))
    assert 2 * len(found.resets) == len(ends) > 0
    assert found.bare == ()


@pytest.mark.parametrize(
    ("peers", "sockets"),
    [
        (  # each node listens on a port of its own for one of the sessions, and the other's port is 179
            [{"name": "p", "node": "node1", "peerIP": "10.10.2.13", "listenPort": 1790},
             {"name": "q", "node": "node3", "peerIP": "10.10.1.11", "listenPort": 1791}],
            [(("10.10.1.11", 179), ("10.10.2.13", 1791)), (("10.10.1.11", 1790), ("10.10.2.13", 179))],
        ),
        (
            [P, Q],
            [(("10.10.1.11", 179), ("10.20.2.13", 179)), (("10.10.2.13", 179), ("10.20.1.11", 179))],
        ),
    ],
)  # fmt: skip
def test_two_sessions_of_the_same_nodes_count_as_two(peers: list[dict[str, t.Any]], sockets: t.Any) -> None:
    """Sessions of the same nodes and IP version that differ in a port or an address are two, each with both ends."""
    before = fleet(bgp_node_to_node_mesh=False, bgp_peers=peers)
    resets = of_run(before, without_bird(before)).resets
    assert [(reset.ends, reset.sockets) for reset in resets] == [(("node1", "node3"), pair) for pair in sockets]


def test_a_node_that_joins_interrupts_nothing() -> None:
    before = {**fleet({name: LAB[name] for name in ("node1", "node2", "node3")})}
    after = fleet()
    found = of_run({**before, "node4": None}, after)
    assert (found.resets, found.withdrawn, found.hold) == ((), (), False)
    assert "node4" in found.hosts


def test_a_node_that_goes_takes_its_routes_with_it() -> None:
    before = fleet()
    after = fleet({name: LAB[name] for name in ("node1", "node2", "node3")})
    gone = {block.cidr for block in before["node4"].ipam.blocks + before["node4"].ipam.spare_blocks}
    found = of_run({name: before[name] for name in after}, after)
    announced = {route.destination for route in before["node1"].bird_routes}
    assert set(found.withdrawn) == gone & announced != set()
    assert [reset.ends for reset in found.resets] == [(name, "node4") for name in ("node1", "node2", "node3")]
    assert not found.hold
    assert found.lines[0] == "sessions  3 ends · nothing depends on them"
    assert found.lines[-1].startswith("routes    1 withdrawn: ")


def test_a_new_value_of_a_password_restarts_its_sessions() -> None:
    def with_password(state: NodeState) -> NodeState:
        assert state.bird is not None
        peers = tuple(dataclasses.replace(peer, password="bgp:mesh") for peer in state.bird.peers)
        return dataclasses.replace(state, bird=dataclasses.replace(state.bird, peers=peers))

    both = {name: with_password(state) for name, state in fleet().items()}
    assert of_run(both, both) == Impact()
    found = of_run(both, both, passwords={"node1": ["bgp:mesh"], "node2": ["bgp:tor"]})
    assert [str(reset) for reset in found.resets] == [f"node1 with node{n} restarts: password" for n in (2, 3, 4)]
    assert found.hold


MANY = Impact(
    resets=tuple(Reset(("node1", f"node{n}"), n > 5, "ends") for n in range(2, 8)),
    withdrawn=("10.244.0.0/26", "10.244.1.0/26"),
    hosts=("node1",),
)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (ImpactLimits(), []),
        (ImpactLimits(session_resets=6, external_resets=2, hosts_changed=1, routes_withdrawn=2), []),
        (ImpactLimits(session_resets=5), [
            "it would reset 6 sessions and calico_node_max_session_resets is 5 (node1 with node2 ends, node1 with "
            "node3 ends, node1 with node4 ends and 3 more)"
        ]),
        (ImpactLimits(external_resets=0), [
            "it would reset 2 sessions with routers outside the fleet and calico_node_max_external_resets is 0 "
            "(node1 with node6 ends, node1 with node7 ends)"
        ]),
        (ImpactLimits(hosts_changed=0, routes_withdrawn=1), [
            "it would change 1 host (policy changes excluded) and calico_node_max_hosts_changed is 0 (node1)",
            "it would withdraw 2 routes and calico_node_max_routes_withdrawn is 1 (10.244.0.0/26, 10.244.1.0/26)",
        ]),
    ],
)  # fmt: skip
def test_an_impact_above_a_limit_is_named(limits: ImpactLimits, expected: list[str]) -> None:
    assert limits.exceeded(MANY) == expected


@pytest.mark.parametrize(
    ("limits", "excess"),
    [
        (ImpactLimits(), 0),
        (ImpactLimits(session_resets=6, external_resets=2, routes_withdrawn=2), 0),
        (ImpactLimits(session_resets=7, external_resets=1), 1),  # a limit that is kept makes up for no other one
        (ImpactLimits(session_resets=0, external_resets=0, routes_withdrawn=0), 6 + 2 + 2),
        (ImpactLimits(hosts_changed=0), 0),  # hosts are no sessions and no routes
    ],
)
def test_the_excess_is_the_sum_over_the_limits(limits: ImpactLimits, excess: int) -> None:
    """The excess counts the sessions and routes beyond each limit, and nothing for a limit that is kept."""
    assert limits.excess(MANY) == excess


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (3, "1 ends 1, 1 ends 2, 1 ends 3"),
        (4, "1 ends 1, 1 ends 2, 1 ends 3, 1 for other reasons"),
        (6, "1 ends 1, 1 ends 2, 1 ends 3, 3 for other reasons"),
    ],
)
def test_three_reasons_are_named(count: int, words: str) -> None:
    """A line names three reasons for resets, and counts the sessions that have others."""
    found = Impact(tuple(Reset(("a", f"b{n}"), False, f"ends {n}") for n in range(1, count + 1)))
    assert found.lines == [f"sessions  {words} · nothing depends on them"]


def test_each_plan_and_impact_has_a_different_digest() -> None:
    names = [
        MANY.digest("plan"),
        MANY.digest("other"),
        dataclasses.replace(MANY, withdrawn=()).digest("plan"),
        dataclasses.replace(MANY, hosts=()).digest("plan"),
        dataclasses.replace(MANY, resets=MANY.resets[1:]).digest("plan"),
        dataclasses.replace(
            MANY,
            resets=(
                dataclasses.replace(MANY.resets[0], sockets=(("10.10.1.11", 179), ("10.10.1.12", 1790))),
                *MANY.resets[1:],
            ),
        ).digest("plan"),
    ]
    assert len(set(names)) == 6
    assert names[0] == dataclasses.replace(MANY).digest("plan")
    assert len(names[0]) == 12


@pytest.mark.parametrize("rest", [{}, {"reflectors": REFLECTORS, "bgp_peers": TOR}, {"bgp_enabled": False}])
def test_the_compiler_has_birds_and_blocks_by_themselves(rest: t.Mapping[str, t.Any]) -> None:
    hidden = pool("vxlan", "hidden", "10.245.0.0/16", disableBGPExport=True)
    compiled = build(pool("vxlan"), hidden, workloads=[workload("w", "node1", pool="hidden")], **rest)
    whole = states(compiled)
    assert {name: compiler.bird(compiled, name) for name in compiled.nodes} == {n: s.bird for n, s in whole.items()}
    known = {block for state in whole.values() for block in impact.announced_by(state)}
    assert known <= compiled.announced
    own = {block.cidr for state in whole.values() for block in state.ipam.blocks + state.ipam.spare_blocks}
    assert compiled.announced <= own
    assert compiled.announced != own or not compiled.settings.bgp_enabled


# --- These tests are about what one node alone says, and about nodes that report a change of the fleet --------------


def reported_alone(before: t.Mapping[str, t.Optional[NodeState]], after: States) -> tuple[Impact, dict[str, Impact]]:
    found = of_run(before, after)
    return found, impact.reported_alone(found, before, {name: state.bird for name, state in after.items()})


def test_an_impact_that_two_nodes_report_is_not_reported_alone() -> None:
    after = fleet({name: LAB[name] for name in ("node1", "node2", "node3")}, bgp_as_number=64600)
    before = fleet()
    found, alone = reported_alone({name: before[name] for name in after}, after)
    assert found.withdrawn
    assert {node: [str(reset) for reset in part.resets] for node, part in alone.items()} == {
        name: [f"{name} with node4 ends"] for name in after
    }  # node4 is not in the run, so only the other end reports the session
    assert all(part.withdrawn == () for part in alone.values())


def test_sessions_of_each_ip_version_count_for_themselves() -> None:
    after = dual()
    bird = after["node3"].bird
    assert bird is not None
    peers = [dataclasses.replace(peer, as_number=1) if peer.family == 6 else peer for peer in bird.peers]
    lying = dataclasses.replace(bird, peers=tuple(peers), blocks=(*bird.blocks, "fd00:10:244::/122", "10.244.0.0/26"))
    before = {**after, "node3": dataclasses.replace(after["node3"], bird=lying)}
    found, alone = reported_alone(before, after)
    assert set(alone) == {"node3"}
    assert (sorted(map(str, alone["node3"].resets)), set(alone["node3"].withdrawn)) == (
        sorted(map(str, found.resets)),
        {"fd00:10:244::/122", "10.244.0.0/26"},
    )
    assert len(found.resets) == 3
    left = found.without(alone["node3"])
    assert (left.resets, left.withdrawn) == ((), ())


@pytest.mark.parametrize("family", [4, 6])
def test_without_takes_away_the_sessions_of_one_ip_version_alone(family: int) -> None:
    """The session of the other IP version, which ends between the same nodes with the same words, stays."""
    before = dual()
    after = without_bird(before)
    bird = before["node4"].bird
    assert bird is not None
    # node4's state tells only of sessions of the other IP version, so the nodes 1 to 3 tell alone of those of `family`.
    quiet = dataclasses.replace(bird, peers=tuple(peer for peer in bird.peers if peer.family != family))
    found, alone = reported_alone({**before, "node4": dataclasses.replace(before["node4"], bird=quiet)}, after)
    assert len(found.resets) == 2 * 6
    left = found.without(alone["node1"])
    assert len(left.resets) == 2 * 6 - 1
    assert [str(reset) for reset in left.resets].count("node1 with node4 ends") == 1


def lies(**counts: int) -> tuple[Impact, dict[str, Impact]]:
    """Return an impact, and {node: the part that only this node reports}.

    `counts` maps a node to the number of sessions with routers that it alone reports. The impact also has two sessions
    between nodes, which are in no node's part, and hosts a and b.
    """
    alone = {
        node: Impact(tuple(Reset((node, f"10.9.0.{n}"), True, "ends") for n in range(count)))
        for node, count in counts.items()
    }
    shared = tuple(Reset(("a", f"b{n}"), False, "ends") for n in range(2))
    return Impact((*shared, *(reset for part in alone.values() for reset in part.resets)), hosts=("a", "b")), alone


@pytest.mark.parametrize(
    ("counts", "limits", "expected"),
    [
        ({"a": 1}, ImpactLimits(external_resets=0), ("a",)),
        ({"a": 1, "b": 5}, ImpactLimits(external_resets=1), ("b",)),
        ({"a": 1, "b": 5}, ImpactLimits(external_resets=0), ("a", "b")),
        ({"a": 1, "b": 1, "c": 1}, ImpactLimits(external_resets=0), ()),  # no node: three of four are not few
        ({"a": 3}, ImpactLimits(session_resets=2), ("a",)),
        ({"a": 3}, ImpactLimits(session_resets=1), ()),  # no node: the two shared sessions alone exceed 1
        ({"a": 3}, ImpactLimits(external_resets=0, hosts_changed=0), ()),  # without a's part still two hosts, above 0
        ({"a": 3}, ImpactLimits(), ()),
    ],
)
def test_the_few_whose_word_goes_too_far(
    counts: dict[str, int], limits: ImpactLimits, expected: tuple[str, ...]
) -> None:
    found, alone = lies(**counts)
    observed = dict(list(fleet().items())[:4])
    assert witnesses.too_far(found, limits, alone, observed) == expected


def test_a_node_whose_word_changes_nothing_about_a_limit_is_kept() -> None:
    """A node is left out only if that brings the run nearer to its limits: routes do not count as sessions."""
    found, alone = lies(a=1)
    alone["b"] = Impact(withdrawn=tuple(f"10.244.{n}.0/26" for n in range(5)))
    found = dataclasses.replace(found, withdrawn=alone["b"].withdrawn)
    assert witnesses.too_far(found, ImpactLimits(external_resets=0), alone, fleet()) == ("a",)
    assert witnesses.too_far(found, ImpactLimits(external_resets=0, routes_withdrawn=4), alone, fleet()) == ("a", "b")


def test_the_node_that_tells_of_most_goes_first() -> None:
    """Sessions and routes both count, so that as few nodes as possible are left out."""
    found, alone = lies(a=2, b=3)
    alone["a"] = dataclasses.replace(alone["a"], withdrawn=("10.244.0.0/26", "10.244.0.64/26"))
    found = dataclasses.replace(found, withdrawn=alone["a"].withdrawn)
    assert witnesses.too_far(found, ImpactLimits(external_resets=3), alone, fleet()) == ("a",)


@pytest.mark.parametrize(("liars", "left_out"), [(64, 64), (65, 0)])
def test_at_most_64_nodes_are_left_out(liars: int, left_out: int) -> None:
    """A run that exceeds its limits by the word of more nodes has to be confirmed, however large the fleet is."""
    found, alone = lies(**{f"n{number}": 1 for number in range(liars)})
    some = next(iter(fleet().values()))
    observed = {f"n{number}": some for number in range(200)}
    assert len(witnesses.too_far(found, ImpactLimits(external_resets=0), alone, observed)) == left_out


def test_few_are_at_most_half_of_those_that_run() -> None:
    running = fleet()
    assert witnesses.sole_reporters(["node1", "node2"], running)
    assert not witnesses.sole_reporters(["node1", "node2"], {**running, "node4": None})
    assert not witnesses.sole_reporters([], running)
    assert not witnesses.sole_reporters(["node1"], {"node1": None})


@pytest.mark.parametrize(
    ("saying", "others", "remembered", "needed"),
    [
        (0, 0, "IPIP", False),
        (0, 3, "IPIP", False),
        (1, 0, "IPIP", True),
        (1, 1, "IPIP", False),
        (1, 1, "None", True),
        (1, 2, "None", False),
        (2, 1, "IPIP", True),
        (2, 2, "IPIP", False),
        (2, 2, "None", True),
    ],
)
def test_more_than_half_of_the_nodes_say_that_the_fleet_changes(
    saying: int, others: int, remembered: str, needed: bool
) -> None:
    """The fleet needs phases if more than half of the nodes have a state of another mode than the wanted one.

    Half of them are enough if the lockfile (`remembered`) has another mode, too. If the fleet needs no phases, these
    nodes are named. Nodes without a state do not count.
    """
    rest, before = (states(build(pool(mode), workloads=[]))["node1"] for mode in ("ipip", "direct"))
    observed: dict[str, t.Optional[NodeState]] = {f"old{number}": before for number in range(saying)}
    observed |= {f"new{number}": rest for number in range(others)} | {"none1": None, "none2": None}
    found = witnesses.fleet_change(observed, rest.pools, rest.underlay_mtu, {rest.pools[0].name: remembered})
    alone = () if needed else tuple(f"old{number}" for number in range(saying))
    assert found == witnesses.FleetChange(needed, alone)


def test_backup_routes_of_a_node_tell_of_a_change() -> None:
    """A node of the wanted mode is in a change if its BIRD has backup routes, and not without them or without BIRD."""
    with_bird = states(build(pool(), workloads=[]))["node1"]
    assert with_bird.bird is not None
    bare = dataclasses.replace(with_bird, bird=None)
    held = dataclasses.replace(
        with_bird, bird=dataclasses.replace(with_bird.bird, backups=(BackupRoute("10.244.2.0/26", "10.10.1.12"),))
    )
    for state, needed in ((bare, False), (with_bird, False), (held, True)):
        found = witnesses.fleet_change({"node1": state}, with_bird.pools, with_bird.underlay_mtu, {})
        assert found.needed is needed


def test_lockouts_name_ten_hosts_and_an_example_of_each_rule() -> None:
    denied = {}
    for n in range(1, 13):
        rule = f"hosts#{n % 2} (ingress, HostEndpoint node{n:02})"
        denied[f"node{n:02}"] = [(f"ssh from 10.0.0.9 to 10.0.0.{n} port 22", rule)]
    found = Impact(lockouts=impact.lockouts({**denied, "node20": ()}))
    names = ", ".join(f"node{n:02}" for n in range(1, 11))
    assert found.lines == [
        f"lockout   SSH to 12 hosts ({names} and 2 more): hosts#1 (ingress, HostEndpoint node01) denies ssh from "
        "10.0.0.9 to 10.0.0.1 port 22, hosts#0 (ingress, HostEndpoint node02) denies ssh from 10.0.0.9 to "
        "10.0.0.2 port 22"
    ]
    assert (found.first, found.entries, ImpactLimits().excess(found)) == ("node01", 12, 12)
    assert found.without(Impact(lockouts=found.lockouts[:5])).first == "node06"
    assert found.digest("p") != Impact().digest("p") != ""
