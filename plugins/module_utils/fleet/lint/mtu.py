# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs that are larger than what carries the packets."""

from __future__ import annotations

import typing as t

from .finding import Odd
from .network import Network, listed


def above_the_link(network: Network) -> t.Iterator[Odd]:
    """calico_underlay_mtu is larger than that of a node's own device, as gathered facts have it."""
    mtu = network.fleet.settings.underlay_mtu
    links = {*network.links.items(), *network.links6.items()}
    small = [(link.mtu, node, link.name) for node, link in links if link and link.mtu < mtu]
    if small:
        least, dummy, device = min(small)
        nodes = listed(sorted(node for found, node, dummy in small if found == least))
        yield Odd(
            "calico_underlay_mtu",
            mtu,
            f"is more than {device} of {nodes} carries ({least}): larger packets vanish.",
            f"Set it to {least}, or raise the MTU of the devices and of all switches between them.",
        )
