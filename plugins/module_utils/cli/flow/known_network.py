# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a question about a flow is asked of: the network as one node knows it, or as an inventory has it. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import family_of
from ...policy.model import HOST_ENDPOINT, WILDCARD, Endpoint
from ...state.node_state import NodeState


class Place(t.NamedTuple):
    """Where an address is: on which node, "" outside the fleet, and whether it is the node's own."""

    node: str = ""
    is_node: bool = False


class Underlay(t.NamedTuple):
    """The interface that has a node's address, "" where nobody knows. `assumed` is the HostEndpoint by which it was
    guessed."""

    interface: str = ""
    assumed: t.Optional[Endpoint] = None


def _nothing(dummy: Endpoint) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class KnownNetwork:
    """`who` knows it: a node's name, or "the inventory"; `at` is that node, "" for an inventory.

    `members` {node: its IPv4 address}, `members6` the same of IPv6; each has one of both at least. `states` are those
    of the nodes of which one is known; `endpoints` all that policy is about. `interfaces` {node: {interface that is no
    workload's: its addresses}}, as far as known. `place` says where an address is. `device_to` says by which interface
    the kernel of `at` sends to an address, "" where that is not known. `since` says of an endpoint, in words, since
    when it is known to be as it is, "" where it is so now.
    """

    who: str
    at: str
    members: t.Mapping[str, str]
    states: t.Mapping[str, NodeState]
    endpoints: tuple[Endpoint, ...]
    place: t.Callable[[str], Place]
    interfaces: t.Mapping[str, t.Mapping[str, tuple[str, ...]]] = dataclasses.field(default_factory=dict)
    device_to: t.Optional[t.Callable[[str], str]] = None
    since: t.Callable[[Endpoint], str] = _nothing
    members6: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """All their names."""
        return sorted({*self.members, *self.members6})

    def addresses(self, node: str) -> tuple[str, ...]:
        """The node's own on the underlay, IPv4 first."""
        return tuple(held[node] for held in (self.members, self.members6) if node in held)

    def member(self, node: str, like: str = "") -> str:
        """The node's address of the family of the address `like`, "" where it has none."""
        return (self.members6 if family_of(like) == 6 else self.members).get(node, "")

    def host_endpoints(self, node: str) -> list[Endpoint]:
        """Those of a node."""
        return [one for one in self.endpoints if one.kind == HOST_ENDPOINT and one.node == node]

    def underlay(self, node: str) -> Underlay:
        """By the node's interfaces, else by what its HostEndpoints expect, else the only one that a HostEndpoint
        names: that is what it is for."""
        address = next(iter(self.addresses(node)), "")
        for name, held in self.interfaces.get(node, {}).items():
            if address in held:
                return Underlay(name)
        owners = self.host_endpoints(node)
        for one in owners:
            if address in one.addresses:
                return Underlay(one.interface)
        tunnels = {device.name for device in self.states[node].devices} if node in self.states else set()
        named = [one for one in owners if one.interface not in ("", WILDCARD) and one.interface not in tunnels]
        if len(named) == 1 and not named[0].addresses and node != self.at:
            return Underlay(named[0].interface, named[0])
        return Underlay()
