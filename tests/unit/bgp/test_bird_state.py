# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Defaults of a BIRD for its sessions, and of what is counted of them."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    Bfd,
    Bird,
    BirdPeer,
    BirdPool,
    BirdRoute,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.load import Load
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peer_definition import Unasked
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.simulation import Simulation

BIRD = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", address6="fd00::11", listen_port=1790)


@pytest.mark.parametrize(
    ("address", "family", "source"), [("10.10.1.12", 4, "10.10.1.11"), ("fd00::12", 6, "fd00::11")]
)
def test_a_session_comes_from_the_nodes_address_of_its_family(address: str, family: int, source: str) -> None:
    peer = BirdPeer("peer", address, 64512, "mesh", family=family)
    assert BIRD.with_defaults(peer).source_address == source


@pytest.mark.parametrize(("kind", "port"), [("external", 179), ("mesh", 1790)])
def test_nodes_listen_at_the_port_of_the_fleet_and_other_routers_at_that_of_bgp(kind: str, port: int) -> None:
    found = BIRD.with_defaults(BirdPeer("peer", "10.10.1.12", 64512, kind))
    assert (found.port, found.local_port) == (port, 1790)


@pytest.mark.parametrize(
    ("peer", "sockets"),
    [
        (BirdPeer("p", "10.10.1.12", 1, "mesh"), (("10.10.1.11", 1790), ("10.10.1.12", 1790))),
        (BirdPeer("p", "10.10.1.1", 1, "external"), (("10.10.1.1", 179), ("10.10.1.11", 1790))),
        (BirdPeer("p", "10.10.1.1", 1, "external", port=1791), (("10.10.1.1", 1791), ("10.10.1.11", 1790))),
        (BirdPeer("p", "fd00::12", 1, "mesh", family=6, local_port=7), (("fd00::11", 7), ("fd00::12", 1790))),
        (BirdPeer("p", "fd00::12", 1, "mesh", family=6, source_address=""), (("fd00::11", 1790), ("fd00::12", 1790))),
        (BirdPeer("p", "10.10.1.12", 1, "node", source_address="10.9.0.1"), (("10.10.1.12", 1790), ("10.9.0.1", 1790))),
    ],
)
def test_both_ends_of_a_session_have_its_sockets_sorted(peer: BirdPeer, sockets: tuple[tuple[str, int], ...]) -> None:
    """The sockets are the address and port of each end, whatever the peer leaves to the defaults of the BIRD."""
    assert BIRD.sockets(peer) == sockets


def test_a_field_missing_in_an_earlier_state_has_its_former_meaning() -> None:
    """Defaults of fields that came later than their classes: a stored state without them means what it meant then."""
    peer, pool = BirdPeer("peer", "10.10.1.12", 64512, "mesh"), BirdPool("10.244.0.0/16")
    assert (peer.family, peer.passive, peer.multihop, peer.source_address) == (4, False, True, None)
    assert (pool.export, pool.cross_subnet) == (True, False)
    assert (BIRD.workload_node, BIRD.backups_lead, BIRD.strict_bind) == (True, False, False)
    assert not BirdRoute("10.244.7.0/26", "10.10.1.12").onlink


def test_bfd_notices_a_dead_peer_within_half_a_second() -> None:
    """By default BFD sends every 100 ms and notices a dead peer after five intervals, as docs/reference/bgp.md says."""
    assert (Bfd().min_rx, Bfd().min_tx * Bfd().multiplier, Bfd().multiplier) == (100, 500, 5)


def test_a_node_outside_of_the_fleet_has_no_load() -> None:
    assert Simulation([], [], Unasked(), {}).load("node9") == Load(sessions=0, paths=0, routes=0, sent=0, received=0)
