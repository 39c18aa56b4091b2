# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which HostEndpoint governs which interface of its node."""

from __future__ import annotations

import typing as t

from .model import WILDCARD, Endpoint

#: Interfaces of a host that are no workload's, with their addresses.
Interfaces = t.Mapping[str, t.Collection[str]]


def governing(host_endpoints: t.Iterable[Endpoint], interfaces: Interfaces) -> dict[str, Endpoint]:
    """Interface -> the HostEndpoint that governs it; "*" -> that of all others, of those to come as well.

    One with an interfaceName governs that, whether it is there yet or not. One without governs each interface that
    has one of its expectedIPs. Of several the one with the lowest name does (Felix, endpoint_mgr.go).
    """
    found: dict[str, Endpoint] = {}
    for endpoint in sorted(host_endpoints, key=lambda endpoint: endpoint.name):
        if endpoint.interface:
            names = [endpoint.interface]
        else:
            names = [name for name, held in interfaces.items() if not set(endpoint.addresses).isdisjoint(held)]
        for name in names:
            found.setdefault(name, endpoint)
    return found


def endpoint_of(interface: str, governed: t.Mapping[str, Endpoint]) -> t.Optional[Endpoint]:
    """The HostEndpoint of one interface; one of its own replaces that of all interfaces, adding nothing to it."""
    return governed.get(interface) or governed.get(WILDCARD)
