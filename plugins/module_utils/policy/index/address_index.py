# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owners of addresses. Rules select by labels, but packets have only addresses."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import selectors
from ..model import DefinedPort, Endpoint, NamedPortKey, PolicySet
from .labels import Labels, effective_labels, labels_by_profile
from .net_index import NetIndex


@dataclasses.dataclass(frozen=True)
class AddressOwner:
    """An endpoint or a network set that has an address, with its own and inherited labels. `kind` is Calico's."""

    kind: str
    name: str
    labels: Labels
    ports: tuple[DefinedPort, ...] = ()


class AddressIndex:
    """An index of all endpoints and network sets by address. Methods raise SelectorError for an invalid selector."""

    def __init__(self, policy_set: PolicySet, endpoints: t.Iterable[Endpoint]) -> None:
        given = labels_by_profile(policy_set.profiles)
        self._by_address: dict[str, list[AddressOwner]] = {}
        self._cache: dict[str, tuple[AddressOwner, ...]] = {}
        for endpoint in endpoints:
            labels = effective_labels(endpoint.labels, endpoint.profiles, given)
            owner = AddressOwner(endpoint.kind, endpoint.name, labels, endpoint.ports)
            for address in dict.fromkeys(endpoint.addresses):
                self._by_address.setdefault(address, []).append(owner)
        self._by_net: list[tuple[str, AddressOwner]] = []
        for network_set in policy_set.network_sets:
            labels = effective_labels(network_set.labels, network_set.profiles, given)
            owner = AddressOwner(
                "NetworkSet" if network_set.namespace else "GlobalNetworkSet", network_set.name, labels
            )
            self._by_net.extend((net, owner) for net in network_set.nets)
        self._nets = NetIndex(self._by_net)

    def of(self, address: str) -> tuple[AddressOwner, ...]:
        """Return the endpoints, then the network sets, that have `address`, a canonical one.

        A network set occurs once for each of its nets that contains the address.
        """
        if address not in self._cache:
            self._cache[address] = (*self._by_address.get(address, ()), *self._nets.of(address))
        return self._cache[address]

    def match(self, selector: str, address: str) -> bool:
        """Return whether an endpoint or network set that `selector` matches has `address`."""
        parsed = selectors.parse(selector)
        return any(parsed.matches(owner.labels) for owner in self.of(address))

    def have_port(self, key: NamedPortKey, address: str, port: t.Optional[int]) -> bool:
        """Return whether an endpoint that has `address` and matches the key's selector gives `port` the key's name."""
        if port is None:
            return False
        wanted = DefinedPort(key.name, key.protocol, port)
        parsed = selectors.parse(key.selector)
        return any(wanted in owner.ports and parsed.matches(owner.labels) for owner in self.of(address))
