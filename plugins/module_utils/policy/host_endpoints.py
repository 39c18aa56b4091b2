# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HostEndpoints of a node and the interfaces that they govern."""

from __future__ import annotations

import typing as t

from .model import WILDCARD, Endpoint

#: {interface: its addresses} of a host, without the interfaces of workloads.
Interfaces = t.Mapping[str, t.Collection[str]]


def governing(host_endpoints: t.Iterable[Endpoint], interfaces: Interfaces) -> dict[str, Endpoint]:
    """Return a mapping from interface to the HostEndpoint that governs it; "*" is for all other interfaces.

    A HostEndpoint without an interfaceName governs each interface that has one of its expectedIPs. If several qualify,
    the one with the lowest name governs (Felix, endpoint_mgr.go).
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
    """Return the HostEndpoint of `interface`, any name, in `governed`: its own, else the one of "*", else None."""
    return governed.get(interface) or governed.get(WILDCARD)
