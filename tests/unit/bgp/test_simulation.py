# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of BGP. The oracle follows each node's blocks separately, from speaker to speaker over every session."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import peer_extensions
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.load import MEASURED, Load, Memory
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peer_definition import PeerDefinition, Unasked
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peering import Peering
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.simulation import Simulation
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.speaker import Speaker
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from hypothesis import example, given, settings
from hypothesis import strategies as st

MESH, NO_MESH = Unasked(), Unasked(mesh=False)


def node(number: int, **fields: t.Any) -> Speaker:
    address = f"10.10.{number // 200}.{number % 200 + 10}"
    own = {"name": f"n{number}", "as_number": 64512, "address": address, "labels": {"n": str(number)}}
    return Speaker(**{**own, **fields})


def reflector(number: int, cluster: str = "1.1.1.1", **fields: t.Any) -> Speaker:
    return node(number, cluster_id=cluster, reflector=True, **fields)


def peer(**fields: t.Any) -> PeerDefinition:
    theirs, ours = peer_extensions.split({"name": "peer", **fields})
    return PeerDefinition(t.cast(resources.BGPPeer, resources.parse_flat("BGPPeer", theirs)), ours)


# --- the oracle, a slow simulation, and random fleets -----------------------------------------------------------------


class Route(t.NamedTuple):
    as_path: tuple[int, ...]
    clusters: tuple[str, ...]
    session: t.Optional[BirdPeer]  # the receiving node's session, None for its own block


class Oracle:
    """A slow simulation of BGP: every node with all of its sessions, including the mesh's, without routers outside.

    `blocks` is {node: the number of its blocks}, `ribs` {node: what `follow` returns for it}. The constructor raises
    what `follow` raises.
    """

    def __init__(
        self,
        speakers: t.Sequence[Speaker],
        definitions: t.Sequence[PeerDefinition],
        unasked: Unasked,
        blocks: t.Mapping[str, int],
    ) -> None:
        peering = Peering(speakers, definitions, unasked)
        self.speakers = {one.name: one for one in speakers}
        self.sessions = {one.name: peering.sessions(one.name) for one in speakers}
        self.blocks = blocks
        self.ribs = {owner: self.follow(owner) for owner in self.speakers}

    def back(self, name: str, here: BirdPeer) -> t.Optional[BirdPeer]:
        own = self.speakers[name].address
        return next((one for one in self.sessions[here.node] if one.address == own and one.node == name), None)

    def cluster(self, name: str, session: BirdPeer) -> str:
        return session.cluster_id or self.speakers[name].address

    def told(self, name: str, route: Route, to: BirdPeer) -> t.Optional[Route]:
        own = self.speakers[name]
        external = to.as_number != own.as_number
        if route.session is None:
            return Route((own.as_number,) if external else (), (), None)
        if not own.cluster_id or route.session == to:
            return None
        if external:
            return Route((own.as_number, *route.as_path), (), None)
        if route.session.as_number != own.as_number:
            return Route(route.as_path, (), None)
        if route.session.cluster_id is None and to.cluster_id is None:
            return None
        there, here = self.cluster(name, route.session), self.cluster(name, to)
        if here in route.clusters:
            return None
        return Route(route.as_path, ((here,) if here != there else ()) + (there,) + route.clusters, None)

    def follow(self, owner: str) -> dict[str, tuple[dict[str, Route], int, int]]:
        """Return {node: ({neighbour: its accepted route}, number sent, number received)} for one block of `owner`.

        The numbers are those of sessions by which the node sends or receives a route, whether or not it is accepted.
        Raise AssertionError if the routes do not settle.
        """
        believed: dict[str, dict[str, Route]] = {name: {} for name in self.speakers}
        for dummy in range(3 * len(self.speakers)):
            before = {name: dict(found) for name, found in believed.items()}
            sent = dict.fromkeys(self.speakers, 0)
            received = dict.fromkeys(self.speakers, 0)
            for name, own in self.sessions.items():
                best = Route((), (), None) if name == owner else self.best(before[name])
                for to in own:
                    there = self.back(name, to)
                    route = self.told(name, best, to) if best is not None else None
                    sent[name] += route is not None
                    believed[to.node].pop(name, None)
                    if route is None or there is None:
                        continue
                    received[to.node] += 1
                    if to.node == owner or self.speakers[to.node].as_number in route.as_path:
                        continue
                    if self.cluster(to.node, there) not in route.clusters:
                        believed[to.node][name] = route._replace(session=there)
            if believed == before:
                return {name: (believed[name], sent[name], received[name]) for name in self.speakers}
        raise AssertionError("no end")

    def best(self, found: t.Mapping[str, Route]) -> t.Optional[Route]:
        def rank(name: str) -> tuple[t.Any, ...]:
            route = found[name]
            assert route.session
            inner = route.session.as_number == self.own_as(route.session)
            return (
                len(route.as_path),
                inner,
                len(route.clusters),
                [int(part) for part in route.session.address.split(".")],
            )

        return found[min(found, key=rank)] if found else None

    def own_as(self, session: BirdPeer) -> int:
        return next(
            self.speakers[name].as_number for name, own in self.sessions.items() if any(one is session for one in own)
        )

    def load(self, name: str) -> Load:
        of = [(owner, self.blocks.get(owner, 0), *found[name]) for owner, found in self.ribs.items()]
        return Load(
            len(self.sessions[name]),
            sum(blocks * len(believed) for dummy, blocks, believed, *rest in of),
            sum(blocks for owner, blocks, believed, *rest in of if believed),
            sum(blocks * sent for dummy, blocks, believed, sent, received in of),
            sum(blocks * received for dummy, blocks, believed, sent, received in of),
        )

    def announcements(self, owner: str) -> int:
        return sum(sent for dummy, sent, received in self.ribs[owner].values())


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Speaker], list[PeerDefinition], Unasked, dict[str, int]]:
    count = draw(st.integers(2, 6))
    speakers = []
    for number in range(count):
        fields: dict[str, t.Any] = {"as_number": draw(st.sampled_from([64512, 64512, 64513]))}
        kind = draw(st.sampled_from(["plain", "plain", "reflector", "by peers"]))
        if kind != "plain":
            fields["cluster_id"] = draw(st.sampled_from(["1.1.1.1", "1.1.1.1", "2.2.2.2"]))
            fields["reflector"] = kind == "reflector"
            fields["clients"] = draw(st.sampled_from(["all()", "n in {'0', '1'}", "n in {'1', '2', '3'}"]))
        speakers.append(node(number, **fields))
    some = st.sampled_from(["all()", "n in {'0', '1'}", "n == '2'", "n in {'1', '2', '3'}", "n in {'0', '4'}"])
    definitions = [peer(nodeSelector=draw(some), peerSelector=draw(some)) for dummy in range(draw(st.integers(0, 2)))]
    blocks = {one.name: draw(st.integers(0, 3)) for one in speakers}
    return speakers, definitions, draw(st.sampled_from([MESH, NO_MESH])), blocks


def only(*numbers: int) -> str:
    return f"n in {{{', '.join(repr(str(number)) for number in numbers)}}}"


def between(one: int, other: int) -> PeerDefinition:
    return peer(nodeSelector=only(one), peerSelector=only(other))


ONE_BLOCK = {f"n{number}": 1 for number in range(4)}
#: Reflectors of one cluster with different clients: neither passes on what it receives from the other one.
APART = [node(0), node(1), reflector(2, clients=only(0)), reflector(3, clients=only(1))]
#: Three in a row, both ends in one cluster, each a client of the next: the far end rejects what the near one reflected.
CHAIN = [
    node(0),
    *(node(number, cluster_id=cluster) for number, cluster in enumerate(["1.1.1.1", "2.2.2.2", "1.1.1.1"], 1)),
]
#: n3 hears of a block of n0 or n2 by eBGP from its owner and from reflector n1, both by an AS path of one number. The
#: lower router id decides between them: n0 comes before n1, and n2 after it.
TIED = [node(0), reflector(1), node(2), reflector(3, as_number=64513)]


@settings(max_examples=80, deadline=None)
@example((APART, [], NO_MESH, ONE_BLOCK))
@example((CHAIN, [between(0, 1), between(1, 2), between(2, 3)], NO_MESH, ONE_BLOCK))
@example((TIED, [], NO_MESH, ONE_BLOCK))
@given(fleets())
def test_it_is_what_following_each_block_says(
    fleet: tuple[list[Speaker], list[PeerDefinition], Unasked, dict[str, int]],
) -> None:
    simulation, oracle = Simulation(*fleet), Oracle(*fleet)
    for one in fleet[0]:
        assert simulation.load(one.name) == oracle.load(one.name), one.name
        assert simulation.announcements(one.name) == oracle.announcements(one.name), one.name
    assert simulation.sessions() * 2 == sum(len(own) for own in oracle.sessions.values())


# --- BIRD's counts, routers outside the fleet, both IP versions, a BGPPeer beside the mesh, and memory --------------


def shape(count: int, reflectors: int = 0, each: int = 1, **fields: t.Any) -> Simulation:
    speakers = [node(number, **fields) for number in range(count)]
    speakers += [reflector(count + number, **fields) for number in range(reflectors)]
    return Simulation(speakers, [], NO_MESH if reflectors else MESH, {f"n{number}": each for number in range(count)})


def test_the_simulation_agrees_with_counts_of_real_birds() -> None:
    """The simulation agrees with BIRD 2.0.12.

    The figures are the sums of `show protocols all` in `bench/bgp_scale.py --coefficients`.
    """
    mesh, reflected = shape(20), shape(18, 2)
    assert mesh.load("n0") == Load(sessions=19, paths=19, routes=19, sent=19, received=19)
    assert reflected.load("n0") == Load(sessions=2, paths=34, routes=17, sent=2, received=34)
    assert reflected.load("n18") == Load(sessions=19, paths=36, routes=18, sent=324, received=36)
    assert shape(10, 2, 65).load("n11") == Load(sessions=11, paths=1300, routes=650, sent=6500, received=1300)
    assert (mesh.sessions(), mesh.announcements("n0")) == (190, 19)
    assert (reflected.sessions(), reflected.announcements("n0")) == (37, 38)


def test_switches_of_racks_bring_what_other_racks_told_them() -> None:
    speakers = [node(number, as_number=64512 + number // 2) for number in range(6)]
    switches = [
        peer(peerIP=f"10.10.9.{number}", asNumber=65000, nodeSelector=f"n in {{'{2 * number}', '{2 * number + 1}'}}")
        for number in range(3)
    ]
    inner = [
        peer(nodeSelector=rack, peerSelector=rack) for rack in ("n in {'0', '1'}", "n in {'2', '3'}", "n in {'4', '5'}")
    ]
    simulation = Simulation(speakers, [*switches, *inner], NO_MESH, {f"n{number}": number for number in range(6)})
    # n2 and n3 (5 blocks together) know each other's blocks in their rack, and 10 blocks of others by the switch.
    assert simulation.load("n2") == Load(sessions=2, paths=3 + 10, routes=3 + 10, sent=2 * 2, received=3 + 10)
    assert simulation.sessions() == 6 + 3


def test_a_router_of_the_own_as_brings_all_of_it() -> None:
    speakers = [node(number) for number in range(3)]
    outer = peer(peerIP="10.10.9.1", asNumber=64512)
    simulation = Simulation(speakers, [outer], NO_MESH, {"n0": 1, "n1": 2, "n2": 4})
    assert simulation.load("n1") == Load(sessions=1, paths=5, routes=5, sent=2, received=5)


def test_families_are_counted_by_themselves_and_added() -> None:
    both = [node(0, address6="fd00::1"), node(1, address6="fd00::2"), node(2)]
    blocks = {"n0": 1, "n1": 1, "n2": 1}
    four, six = (Simulation(both, [], MESH, blocks, family) for family in (4, 6))
    assert six.load("n2") == Load()
    assert four.load("n0") + six.load("n0") == Load(sessions=3, paths=3, routes=3, sent=3, received=3)


def test_a_bgppeer_takes_the_place_of_a_session_of_the_mesh() -> None:
    speakers = [node(number) for number in range(4)]
    simulation = Simulation(speakers, [peer(peerIP="10.10.0.11", node="n0")], MESH, {"n1": 3})
    assert simulation.load("n0") == Load(sessions=3, paths=3, routes=3, sent=0, received=3)
    assert simulation.sessions() == 6


def test_memory_grows_with_sessions_and_paths() -> None:
    assert Memory(1000, 20, 0.5).of(Load(sessions=3, paths=10)) == 1065


@pytest.mark.parametrize(
    ("load", "resident"),
    [
        (Load(sessions=19, paths=19), 5370),
        (Load(sessions=2, paths=1170), 5154),
        (Load(sessions=11, paths=1300), 5292),
        (Load(sessions=99, paths=99), 6944),
        (Load(sessions=301, paths=600), 11704),
    ],
)
def test_memory_is_within_3_percent_of_what_was_measured(load: Load, resident: int) -> None:
    assert MEASURED.of(load) == pytest.approx(resident, rel=0.03)


def test_memory_is_that_of_the_documentation() -> None:
    """The model uses the coefficients that docs/explanation/scaling.md gives for calculations by hand."""
    text = (pathlib.Path(__file__).parents[3] / "docs" / "explanation" / "scaling.md").read_text(encoding="utf-8")
    written = f"{MEASURED.base:,} KiB, {MEASURED.session} KiB for each session and {MEASURED.path} KiB for each path"
    assert written in text
