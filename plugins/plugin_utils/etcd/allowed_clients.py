# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that may reach the members, as tokens of nftables."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def networks(variable: str, values: t.Iterable[str]) -> list[Network]:
    """Return the networks of addresses and CIDRs. Raise FleetError for a text that is neither."""
    found: list[Network] = []
    for value in values:
        try:
            found.append(ipaddress.ip_network(value, strict=False))
        except ValueError:
            raise FleetError(
                variable, value, "is neither an address nor a CIDR.", "Write it like 192.0.2.5 or 192.0.2.0/24."
            ) from None
    return found


def answered(values: t.Iterable[str]) -> list[Network]:
    """Return the networks of single addresses that hosts answered. Other texts are left out."""
    found: list[Network] = []
    for value in values:
        try:
            found.append(ipaddress.ip_network(ipaddress.ip_address(value)))
        except ValueError:
            continue
    return found


def by_version(found: t.Iterable[Network]) -> dict[str, list[str]]:
    """Return {"ipv4": [...], "ipv6": [...]}: each network once, without those in another one, sorted."""
    listed = list(found)
    four = ipaddress.collapse_addresses(one for one in listed if isinstance(one, ipaddress.IPv4Network))
    six = ipaddress.collapse_addresses(one for one in listed if isinstance(one, ipaddress.IPv6Network))
    return {"ipv4": [_shown(one) for one in four], "ipv6": [_shown(one) for one in six]}


def _shown(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)
