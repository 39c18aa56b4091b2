# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has an address: what a selector in a rule is asked about, for a packet bears addresses and no labels."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...base import selectors
from ...base.addresses import Cidr, parse_cidr_or_address
from ..model import Endpoint, EndpointPort, NamedPortKey, PolicySet
from .labels import Labels, effective_labels, labels_by_profile


@functools.lru_cache(maxsize=65536)
def cidr(text: str) -> Cidr:
    """A range, or an address as a range of one. Raises ValueError."""
    parsed = parse_cidr_or_address(text)
    if parsed is None:
        raise ValueError(f"{text!r} is neither an address nor a range of addresses")
    return parsed


def contains(net: str, address: str) -> bool:
    """Whether the CIDR `net` holds `address`; never that of the other family."""
    outer, inner = cidr(net), cidr(address)
    return outer.length <= inner.length and outer.overlaps(inner)


@dataclasses.dataclass(frozen=True)
class Bearer:
    """An endpoint or a network set that has an address, with its labels, inherited ones included."""

    kind: str
    name: str
    labels: Labels
    ports: tuple[EndpointPort, ...] = ()


class Bearers:
    """All endpoints and network sets, asked by address."""

    def __init__(self, policy_set: PolicySet, endpoints: t.Iterable[Endpoint]) -> None:
        given = labels_by_profile(policy_set.profiles)
        self._by_address: dict[str, list[Bearer]] = {}
        self._by_net: list[tuple[str, Bearer]] = []
        self._cache: dict[str, tuple[Bearer, ...]] = {}
        for endpoint in endpoints:
            labels = effective_labels(endpoint.labels, endpoint.profiles, given)
            bearer = Bearer(endpoint.kind, endpoint.name, labels, endpoint.ports)
            for address in dict.fromkeys(endpoint.addresses):
                self._by_address.setdefault(address, []).append(bearer)
        for network_set in policy_set.network_sets:
            labels = effective_labels(network_set.labels, network_set.profiles, given)
            bearer = Bearer("NetworkSet" if network_set.namespace else "GlobalNetworkSet", network_set.name, labels)
            self._by_net.extend((net, bearer) for net in network_set.nets)

    def of(self, address: str) -> tuple[Bearer, ...]:
        """All that have `address`, which is canonical."""
        if address not in self._cache:
            by_net = (bearer for net, bearer in self._by_net if contains(net, address))
            self._cache[address] = (*self._by_address.get(address, ()), *by_net)
        return self._cache[address]

    def match(self, selector: str, address: str) -> bool:
        """Whether something that `selector` matches has `address`."""
        parsed = selectors.parse(selector)
        return any(parsed.matches(bearer.labels) for bearer in self.of(address))

    def have_port(self, key: NamedPortKey, address: str, port: t.Optional[int]) -> bool:
        """Whether `port` at `address` is what an endpoint that the key's selector matches calls by the key's name."""
        if port is None:
            return False
        wanted = EndpointPort(key.name, key.protocol, port)
        parsed = selectors.parse(key.selector)
        return any(wanted in bearer.ports and parsed.matches(bearer.labels) for bearer in self.of(address))
