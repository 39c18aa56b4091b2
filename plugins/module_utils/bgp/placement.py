# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway and device that BIRD's kernel filter gives a route to another node's block."""

from __future__ import annotations

import dataclasses

from ..base.addresses import contains, family_of, inside
from .bird_state import Bird, BirdRoute


def placed(route: BirdRoute, bird: Bird) -> BirdRoute:
    """Return `route` with the gateway, device, `onlink` and MTU that BIRD's kernel filter gives it under `bird`.

    That assumes that the peers which are to advertise it have done so. A route outside all pools is returned unchanged.
    """
    pools = bird.backup_pools if bird.backups_lead and not bird.routers_alone and bird.backup_pools else bird.pools
    pool = next((pool for pool in pools if inside(route.destination, pool.cidr)), None)
    if pool is None:
        return route
    subnet = bird.subnet6 if family_of(route.next_hop) == 6 else bird.subnet
    near = bool(subnet) and contains(subnet, route.next_hop)
    device = "" if pool.cross_subnet and near else pool.device
    gateway = route.next_hop if device or near else ""
    if device and family_of(gateway) == 6:
        gateway = next((vtep.gateway for vtep in bird.vteps6 if vtep.next_hop == gateway), gateway)
    return dataclasses.replace(route, gateway=gateway, device=device, onlink=bool(device), mtu=pool.mtu)
