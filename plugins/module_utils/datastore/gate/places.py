# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of the gate: how many connections there may be, counted from their acceptance on.

Each address of the fleet is counted by itself, and has places that nobody else can take. All other addresses share a
few. An IPv6 network of 64 bits counts as one address there, because a host can have all of them.
"""

from __future__ import annotations

import ipaddress
import typing as t

from .buckets import Buckets

#: The connections that each address of the fleet can have, whatever the others do: an agent has two, a command one.
OWN = 3
#: The most of these, for 1,024 addresses, and the most connections above them. A connection costs the gate at most
#: 96 KiB, with its own one to the member. So all of them fit into 350 MiB (MemoryMax of the unit), and 1,000 agents
#: with two each into one gate.
FLEET, EXTRA = 1024 * OWN, 512
#: The most connections of one address of the fleet.
FLEET_ADDRESS = 32
#: The most connections of all other addresses, and of one of them.
OTHERS, OTHER_ADDRESS = 64, 8
#: The connections that may come at once, and new ones a second: of one address of the fleet, and of all others. A
#: handshake takes 2 ms of the processor.
_FLEET_RATE, _OTHERS_RATE = (128.0, 16.0), (64.0, 8.0)

_POOLS: t.Mapping[str, int] = {"own": FLEET, "extra": EXTRA, "others": OTHERS}
IPAddress = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


class ConnectionPlace:
    """The place of one connection. `source` is the address or network that it counts for, `pool` where it is from."""

    def __init__(self, source: str, of_fleet: bool, pool: str, places: ConnectionPlaces) -> None:
        self.source = source
        self.of_fleet = of_fleet
        self.pool = pool
        self.released = False
        #: What ends the connection.
        self.end: t.Callable[[], None] = lambda: None
        self._places = places

    def established(self) -> None:
        self._places.established(self)

    def release(self) -> None:
        self._places.release(self)


class _Source:
    """The places that an address has."""

    def __init__(self) -> None:
        self.count = 0
        self.handshakes: dict[ConnectionPlace, None] = {}  # the oldest first


class ConnectionPlaces:
    """The places that are taken. `fleet` are the addresses of the fleet; it may change at any time."""

    def __init__(self, fleet: t.Iterable[IPAddress] = ()) -> None:
        self.fleet = frozenset(fleet)
        self._sources: dict[str, _Source] = {}
        self._taken = dict.fromkeys(_POOLS, 0)
        self._fleet_rates = Buckets(*_FLEET_RATE)
        self._others_rates = Buckets(*_OTHERS_RATE)

    @property
    def taken(self) -> int:
        """The number of all connections."""
        return sum(self._taken.values())

    def take(self, address: str, now: float) -> t.Optional[ConnectionPlace]:
        """Return a place for a connection from an address, None if there is none. `now` is in seconds of any clock.

        Without room, the address' oldest connection in its handshake makes room: slow handshakes keep no place from
        others.
        """
        found = ipaddress.ip_address(address.partition("%")[0])
        of_fleet = found in self.fleet
        source = _counted(found, of_fleet)
        have = self._sources.get(source) or _Source()
        if not (have.handshakes or self._has_room(_pool(have.count, of_fleet))):
            return None
        rates = self._fleet_rates if of_fleet else self._others_rates
        if rates.take(source if of_fleet else "", now):
            return None
        if not self._has_room(_pool(have.count, of_fleet)):
            oldest = next(iter(have.handshakes))
            self.release(oldest)
            oldest.end()
        place = ConnectionPlace(source, of_fleet, _pool(have.count, of_fleet), self)
        have.count += 1
        have.handshakes[place] = None
        self._sources[source] = have
        self._taken[place.pool] += 1
        return place

    def _has_room(self, pool: str) -> bool:
        return pool in _POOLS and self._taken[pool] < _POOLS[pool]

    def established(self, place: ConnectionPlace) -> None:
        """Note the end of a connection's handshake."""
        if not place.released:
            self._sources[place.source].handshakes.pop(place, None)

    def release(self, place: ConnectionPlace) -> None:
        """Give a connection's place to others, unless that was done before."""
        if place.released:
            return
        place.released = True
        have = self._sources[place.source]
        have.handshakes.pop(place, None)
        have.count -= 1
        self._taken[place.pool] -= 1
        if not have.count:
            del self._sources[place.source]


def _pool(count: int, of_fleet: bool) -> str:
    """Return from which pool an address with `count` connections has the next one, "" for none."""
    if not of_fleet:
        return "others" if count < OTHER_ADDRESS else ""
    if count < OWN:
        return "own"
    return "extra" if count < FLEET_ADDRESS else ""


def _counted(address: IPAddress, of_fleet: bool) -> str:
    if of_fleet or address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
