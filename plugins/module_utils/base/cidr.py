# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and CIDRs that are known to be good, as whole numbers: those of IPv4 at a fraction of what ipaddress takes.

What is IPv6 has a ':' in it.
"""

from __future__ import annotations

import ipaddress


def number(address: str) -> int:
    if ":" in address:
        return int(ipaddress.IPv6Address(address))
    a, b, c, d = address.split(".")
    return int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d)


def bounds(cidr: str) -> tuple[int, int]:
    """First and last address."""
    address, dummy, length = cidr.partition("/")
    first = number(address)
    bits = 128 if ":" in address else 32
    return first, first | (1 << (bits - int(length))) - 1


def inside(cidr: str, outer: str) -> bool:
    """Whether all of `cidr` lies in `outer`; never across IP versions."""
    if (":" in cidr) != (":" in outer):
        return False
    first, last = bounds(cidr)
    outer_first, outer_last = bounds(outer)
    return outer_first <= first and last <= outer_last


def host(address: str) -> str:
    """The CIDR that holds this one address."""
    return f"{address}/128" if ":" in address else f"{address}/32"


def contains(cidr: str, address: str) -> bool:
    return inside(host(address), cidr)
