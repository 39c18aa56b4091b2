# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of the node-to-node mesh."""

from __future__ import annotations

import typing as t

from .finding import Odd
from .network import Network

#: Nodes from which on route reflectors are worth their while; Calico's documents say so as well.
LARGE = 100


def too_large(network: Network) -> t.Iterator[Odd]:
    """A mesh of more than 100 nodes: sessions grow with the square of them."""
    settings, nodes = network.fleet.settings, len(network.fleet.nodes)
    if settings.bgp_enabled and network.fleet.bgp.unasked.mesh and nodes > LARGE:
        yield Odd(
            "calico_bgp_node_to_node_mesh",
            None,
            f"means {nodes - 1} sessions on each of {nodes} nodes, {nodes * (nodes - 1) // 2} in all.",
            "Put two or more hosts into group calico_rr: as route reflectors they leave each node two sessions.",
        )
