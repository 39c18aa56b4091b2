# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes that BIRD is expected to write, held against those that the kernel has from it."""

from __future__ import annotations

import typing as t

from ..dataplane.kernel import PROTOCOL_BIRD, Kernel, RouteAttributes
from ..fleet.node_state import TABLE_MAIN, BirdRoute, NodeState
from . import underlay


class Expected(t.NamedTuple):
    """`gateway` is what the kernel will show; "" where nothing leads to the next hop yet."""

    destination: str
    gateway: str
    device: str
    onlink: bool
    mtu: t.Optional[int]
    node: str

    def text(self) -> str:
        words = ["via", self.gateway or "?"]
        words += ["dev", self.device] if self.device else []
        words += ["onlink"] if self.onlink else []
        words += ["mtu", str(self.mtu)] if self.mtu else []
        return " ".join(words)

    def shown_by(self, attributes: RouteAttributes) -> bool:
        """Whether the kernel's route is this one. A device that the state leaves open may be any but a tunnel."""
        if (attributes.gateway or "", attributes.onlink, attributes.mtu) != (self.gateway, self.onlink, self.mtu):
            return False
        return attributes.device == self.device if self.device else attributes.device not in ("tunl0", "vxlan.calico")


def expected(kernel: Kernel, state: NodeState) -> list[Expected]:
    """With the gateways that only the node knows filled in."""
    routes: t.Sequence[BirdRoute] = state.bird_routes
    known = underlay.next_hops(kernel, {route.next_hop for route in routes if not route.gateway and route.next_hop})
    return [
        Expected(
            route.destination,
            route.gateway or known.get(route.next_hop, ("", None))[0],
            route.device,
            route.onlink,
            route.mtu,
            route.node,
        )
        for route in routes
    ]


def present(kernel: Kernel) -> dict[str, RouteAttributes]:
    """{destination: route} of BIRD in the main table."""
    return dict(kernel.routes(table=TABLE_MAIN, protocol=PROTOCOL_BIRD))
