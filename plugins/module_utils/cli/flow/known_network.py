# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that answers questions about flows, as one node or an inventory knows it. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import family_of
from ...dataplane.drivers import tunnel
from ...policy.model import HOST_ENDPOINT, WILDCARD, Endpoint, LiveNames
from ...state.node_state import NodeState


class Place(t.NamedTuple):
    """The place of an address: its node, "" outside the fleet, and whether it is the node's own."""

    node: str = ""
    is_node: bool = False


class Underlay(t.NamedTuple):
    """The interface with a node's address, "" if unknown. `assumed` is the HostEndpoint that it was guessed from."""

    interface: str = ""
    assumed: t.Optional[Endpoint] = None


def _nothing(dummy: Endpoint) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class KnownNetwork:
    """A network as `who` knows it: a node's name or "the inventory". `at` is that node, "" for an inventory.

    `members` is {node: IPv4 address} and `members6` {node: IPv6 address}; each node is in one of them at least.
    `states` are the known states of nodes, `endpoints` all endpoints of policy. `interfaces` is {node: {interface: its
    addresses}}, as far as known, without the interfaces of workloads. `place` returns the place of an address,
    `device_to` the interface by which the kernel of `at` sends to an address ("" if unknown; no function for an
    inventory; KernelError if the kernel refuses to tell), and `since` a text that dates the knowledge of an endpoint
    ("" if it is observed now). `attached` is a sentence about workloads that agents attached elsewhere, for the error
    about an unknown end; "" is for no datastore. `containers` is {name of a container: names of its workloads on `at`}.
    `live` are the names of what live documents add to the policy of `states`, None where they do not count.
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
    attached: str = ""
    containers: t.Mapping[str, t.Sequence[str]] = dataclasses.field(default_factory=dict)
    live: t.Optional[LiveNames] = None

    @property
    def nodes(self) -> list[str]:
        return sorted({*self.members, *self.members6})

    def addresses(self, node: str) -> tuple[str, ...]:
        """Return the node's own addresses on the underlay, IPv4 first; () for an unknown node."""
        return tuple(held[node] for held in (self.members, self.members6) if node in held)

    def member(self, node: str, like: str = "") -> str:
        """Return the node's address of the family of `like`, by default IPv4; "" if it has none or is unknown."""
        return (self.members6 if family_of(like) == 6 else self.members).get(node, "")

    def host_endpoints(self, node: str) -> list[Endpoint]:
        return [one for one in self.endpoints if one.kind == HOST_ENDPOINT and one.node == node]

    def underlay(self, node: str) -> Underlay:
        """Return the node's underlay interface: the one that has its first address. Its name is "" if unknown.

        The node's known interfaces tell it, or else the HostEndpoint that expects the address. On another node than
        `at`, it is otherwise assumed to be that of the only HostEndpoint that names one interface, not a tunnel, and
        expects no addresses.
        """
        address = next(iter(self.addresses(node)), "")
        for name, held in self.interfaces.get(node, {}).items():
            if address in held:
                return Underlay(name)
        owners = self.host_endpoints(node)
        for one in owners:
            if address in one.addresses:
                return Underlay(one.interface)
        named = [one for one in owners if one.interface not in ("", WILDCARD, *tunnel.NAMES)]
        if len(named) == 1 and not named[0].addresses and node != self.at:
            return Underlay(named[0].interface, named[0])
        return Underlay()
