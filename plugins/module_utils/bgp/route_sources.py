# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who can bring a node the route to another node's block: sessions within the fleet, or routers outside of it.

A router that speaks eBGP names itself as the next hop (RFC 4271, section 5.1.3), so the route is via the router, where
one of the fleet's own sessions would have brought it via the block's node.
"""

from __future__ import annotations

from ..base.addresses import family_of
from .bird_state import Bird, BirdRoute


def routers(bird: Bird, route: BirdRoute) -> tuple[str, ...]:
    """Addresses of peers outside the fleet that may bring it; none where a tunnel leads to the node itself."""
    if route.device:
        return ()
    family = family_of(route.destination)
    return tuple(peer.address for peer in bird.peers if peer.kind == "external" and peer.family == family)


def by_routers_alone(bird: Bird, route: BirdRoute) -> bool:
    """Whether nobody but a router outside the fleet can bring it, so that packets go where that one says."""
    return not route.gateway and bool(routers(bird, route)) and not within_fleet(bird, route)


def within_fleet(bird: Bird, route: BirdRoute) -> bool:
    """Whether a session of the fleet brings it: one with its node, or with somebody who reflects."""
    family = family_of(route.destination)
    peers = [peer for peer in bird.peers if peer.family == family]
    reflects = any(peer.cluster_id for peer in peers)  # then the other reflectors pass on what they have, too
    return any(peer.kind == "reflector" or (peer.node and (reflects or peer.node == route.node)) for peer in peers)
