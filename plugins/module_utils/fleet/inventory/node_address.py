# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables calico_node_address and calico_node_address_ipv6: a node's addresses on the underlay."""

from __future__ import annotations

import re
import typing as t

from ...base.addresses import cidr, family_of, host, ip_address, not_carried, special_word
from ...state.errors import FleetError
from .. import variables
from ..host import Host

EXAMPLES = {4: "10.10.1.11/24", 6: "fd00:10:10:1::11/64"}
VARIABLES = {4: "calico_node_address", 6: "calico_node_address_ipv6"}

_PREFIX_LENGTH = re.compile("[0-9]{1,3}")


def label(version: int, host: str) -> str:
    """Return how errors name a host's address variable of this IP version: `calico_node_address of node1`."""
    return f"{VARIABLES[version]} of {host}"


def origin(host: Host) -> str:
    """Return the file and line of the host's address, preferably the IPv4 one; "" if they are unknown."""
    return next((host.origins[name] for name in VARIABLES.values() if name in host.origins), "")


def read(version: int, name: str, given: t.Any) -> tuple[str, int]:
    """Return the address and prefix length in `given`, the value of the address variable of host `name`.

    Raise FleetError if it is not an address of IP `version` with a prefix length from 1 up, or not one that a host can
    have: one that is not carried (see `not_carried`), link-local, reserved in IPv6, network, broadcast or subnet-router
    anycast.
    """
    where = label(version, name)
    value = variables.check(VARIABLES[version], given, name)
    address, slash, length = value.partition("/")
    remedy = (
        f"Write the node's own address on the underlay with its prefix length, for example {EXAMPLES[version]}."
        if family_of(address) == version
        else f"Write one such as {EXAMPLES[version]}; one of IPv{10 - version} belongs in {VARIABLES[10 - version]}."
    )
    try:
        ip = ip_address(address, version)
    except ValueError:
        raise FleetError(where, value, f"is not an IPv{version} address with a prefix length.", remedy) from None
    bits = ip.max_prefixlen
    if not slash or not _PREFIX_LENGTH.fullmatch(length) or not 1 <= int(length) <= bits:
        raise FleetError(where, value, f"has no prefix length from /1 to /{bits}.", remedy)
    prefix = int(length)
    # Linux and BIRD carry 240.0.0.0/4 like any other range; validate warns of it.
    if ip.is_link_local or not_carried(host(str(ip))) or (version == 6 and ip.is_reserved):
        raise FleetError(where, value, "is not an address that other nodes can reach.", remedy)
    word = special_word(cidr(f"{ip}/{prefix}"))
    if word:
        raise FleetError(where, value, f"is the {word} address of its subnet.", remedy)
    return str(ip), prefix
