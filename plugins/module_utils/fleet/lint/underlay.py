# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about packets that the underlay loses: too large for its links, or in tunnels to a router that drops them."""

from __future__ import annotations

import typing as t

from ...bgp.speaker import Speaker, lies_in
from .finding import Issue
from .network import LintedFleet, listed


def tunnel_behind_a_router(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool with a tunnel whose routes a node gets from eBGP routers only, which set themselves as next hop.

    A CrossSubnet pool may have a router in the node's subnet. Pools with disableBGPExport are left out.
    """
    for given, local, remote in network.meant:
        far = given.address
        if far is None or remote:
            continue
        hearing = [one for one in local if _hears_by_routers_alone(network, one, given.peer.asNumber)]
        for label, pool in network.pools:
            if pool.encapsulation == "None" or pool.version != far.family or pool.disableBGPExport:
                continue
            crossing = pool.encapsulation.endswith("CrossSubnet")
            nodes = [one.name for one in hearing if not (crossing and lies_in(far.address, one.subnet_of(far.family)))]
            if nodes:
                yield Issue(
                    given.where,
                    f"brings {listed(nodes)} the blocks of other nodes with {given.peer.peerIP} as next hop, and pool "
                    f"{pool.name} ({label}) is {pool.encapsulation}: the router would get packets in a tunnel that it "
                    "does not end.",
                    "Route that pool directly (ipipMode and vxlanMode Never), or connect the nodes with each other, by "
                    "the mesh or reflectors.",
                )


def _hears_by_routers_alone(network: LintedFleet, speaker: Speaker, as_number: t.Optional[int]) -> bool:
    """Return whether `speaker` gets other nodes' blocks from routers only, and `as_number` is not its own AS number.

    It is False if a session is with another node, whose own advertisements it prefers, also in the mesh. It is also
    False if it gets no blocks: all workload nodes are of its AS, and no session accepts its own AS number in a path.
    """
    sessions = network.sessions[speaker.name]
    if speaker.name in network.mesh or any(peer.node for peer in sessions) or as_number == speaker.as_number:
        return False
    own_as_too = any(peer.allow_local_as for peer in sessions)
    return own_as_too or bool(network.as_numbers - {speaker.as_number})


def above_the_link(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a calico_underlay_mtu that is larger than the MTU of a node's own device, according to gathered facts."""
    mtu = network.fleet.settings.underlay_mtu
    links = (*network.links.items(), *network.links6.items())
    small = [(link.mtu, node, link.name) for node, link in links if link and link.mtu < mtu]
    if small:
        least, dummy, device = min(small)
        nodes = listed(sorted({node for found, node, dummy in small if found == least}))
        yield Issue(
            "calico_underlay_mtu",
            f"is more than {device} of {nodes} carries ({least}): larger packets are lost.",
            f"Set it to {least}, or raise the MTU of the devices and of all switches between them.",
            value=mtu,
        )
