# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of a route to another node's block: sessions within the fleet, or routers outside of it.

A router that speaks eBGP sends itself as the next hop (RFC 4271, section 5.1.3). So such a route leads via the router,
while a session of the fleet would bring one via the block's node.
"""

from __future__ import annotations

from ..base.addresses import family_of
from .bird_state import Bird, BirdPeer, BirdRoute


def routers(bird: Bird, route: BirdRoute) -> tuple[str, ...]:
    """Return the addresses of all peers outside of the fleet that may advertise the route, () if it uses a tunnel."""
    if route.device:
        return ()
    family = family_of(route.destination)
    return tuple(peer.address for peer in bird.peers if peer.kind == "external" and peer.family == family)


def by_routers_alone(bird: Bird, route: BirdRoute) -> bool:
    """Return whether only routers outside of the fleet can advertise the route: they then decide where packets go."""
    return not route.gateway and bool(routers(bird, route)) and not within_fleet(bird, route)


def within_fleet(bird: Bird, route: BirdRoute) -> bool:
    """Return whether a session of the fleet in the route's family advertises the route."""
    return bool(_of_fleet(bird, route))


def sessions(bird: Bird, route: BirdRoute) -> list[BirdPeer]:
    """Return the sessions that may advertise the route: those of the fleet, and those with `routers`."""
    outside = routers(bird, route)
    return [
        *_of_fleet(bird, route),
        *(peer for peer in bird.peers if peer.kind == "external" and peer.address in outside),
    ]


def _of_fleet(bird: Bird, route: BirdRoute) -> list[BirdPeer]:
    family = family_of(route.destination)
    peers = [peer for peer in bird.peers if peer.family == family]
    # A peer's `cluster_id` means that this node reflects for the peer. Such a node gets routes from any fleet session.
    reflects = any(peer.cluster_id for peer in peers)
    return [peer for peer in peers if peer.kind == "reflector" or (peer.node and (reflects or peer.node == route.node))]
