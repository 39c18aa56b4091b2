# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of the gate: who has how many connections, whatever the others do."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import places
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.places import (
    ConnectionPlace,
    ConnectionPlaces,
)

AGENTS = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(1000)]


class Clock:
    """A time at which each connection is new: no rate is reached."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def gate_of(*fleet: str) -> ConnectionPlaces:
    return ConnectionPlaces(map(ipaddress.ip_address, fleet))


def taken(found: ConnectionPlaces, address: str, times: int, clock: Clock) -> list[ConnectionPlace]:
    """Take places for connections whose handshakes end at once."""
    have = []
    for dummy in range(times):
        place = found.take(address, clock())
        if place is not None:
            place.established()
            have.append(place)
    return have


def test_a_thousand_agents_fit_into_one_gate_with_two_connections_each() -> None:
    """Strangers and single nodes that take all that they can do not change it."""
    found, clock = gate_of(*AGENTS), Clock()
    for number in range(300):
        taken(found, f"192.0.2.{number % 250}", 20, clock)
        taken(found, f"2001:db8:{number:x}::1", 20, clock)
        taken(found, AGENTS[number % 50], 40, clock)
    for agent in AGENTS[50:]:
        assert len(taken(found, agent, 2, clock)) == 2
    assert found.taken <= places.FLEET + places.EXTRA + places.OTHERS


def test_strangers_share_a_few_places() -> None:
    found, clock = gate_of("10.0.0.1"), Clock()
    assert len(taken(found, "192.0.2.1", 100, clock)) == places.OTHER_ADDRESS
    others = [place for number in range(100) for place in taken(found, f"198.51.100.{number}", 100, clock)]
    assert len(others) == places.OTHERS - places.OTHER_ADDRESS
    assert len(taken(found, "10.0.0.1", 100, clock)) == places.FLEET_ADDRESS
    others[0].release()
    assert len(taken(found, "203.0.113.1", 2, clock)) == 1


@pytest.mark.parametrize("own", [True, False])
def test_a_network_of_ipv6_counts_as_one_stranger_and_nodes_in_it_singly(own: bool) -> None:
    addresses = [f"2001:db8::{number:x}" for number in range(1, 40)]
    found, clock = gate_of(*addresses) if own else gate_of(), Clock()
    have = [place for address in addresses for place in taken(found, address, 1, clock)]
    assert len(have) == (len(addresses) if own else places.OTHER_ADDRESS)
    assert len(taken(found, "2001:db8:0:1::1", 1, clock)) == 1


def test_an_address_with_a_zone_is_that_address() -> None:
    assert gate_of("fe80::1").take("fe80::1%eth0", 0.0) is not None


@pytest.mark.parametrize(("fleet", "most"), [(["10.0.0.1"], places.FLEET_ADDRESS), ([], places.OTHER_ADDRESS)])
def test_the_oldest_handshake_gives_way_to_a_new_one(fleet: list[str], most: int) -> None:
    """Handshakes that are slow on purpose keep no place from an agent. Connections in use stay open."""
    found, clock, ended = gate_of(*fleet), Clock(), []
    (agent,) = taken(found, "10.0.0.1", 1, clock)
    agent.end = lambda: ended.append(-1)
    slow = []
    for number in range(most + 2):
        place = found.take("10.0.0.1", clock())
        assert place is not None
        place.end = lambda number=number: ended.append(number)  # type: ignore[misc]
        slow.append(place)
    assert ended == [0, 1, 2] and found.taken == most
    for place in slow:
        place.established()
    assert found.take("10.0.0.1", clock()) is None
    for place in (agent, *slow):
        place.release()
    assert found.taken == 0 and not found._sources


def test_connections_come_at_a_rate() -> None:
    found = gate_of("10.0.0.1", "10.0.0.2")
    for dummy in range(1000):
        for address in ("10.0.0.1", "192.0.2.1", "192.0.2.2"):
            place = found.take(address, 0.0)
            if place is not None:
                place.release()
    assert found.take("10.0.0.1", 0.0) is None and found.take("192.0.2.3", 0.0) is None
    assert found.take("10.0.0.2", 0.0) is not None
    assert found.take("10.0.0.1", 0.2) is not None and found.take("192.0.2.3", 0.2) is not None


def test_a_fleet_may_change() -> None:
    found, clock = gate_of(), Clock()
    before = taken(found, "10.0.0.1", 100, clock)
    assert len(before) == places.OTHER_ADDRESS
    found.fleet = frozenset([ipaddress.ip_address("10.0.0.1")])
    assert len(taken(found, "10.0.0.1", 100, clock)) == places.FLEET_ADDRESS - len(before)
    for place in before:
        place.release()
    assert found.taken == places.FLEET_ADDRESS - len(before)
