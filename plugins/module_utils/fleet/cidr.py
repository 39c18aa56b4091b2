# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv4 addresses and CIDRs that are known to be good, as whole numbers: a fraction of what ipaddress takes."""

from __future__ import annotations


def number(address: str) -> int:
    a, b, c, d = address.split(".")
    return int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d)


def bounds(cidr: str) -> tuple[int, int]:
    """First and last address."""
    address, dummy, length = cidr.partition("/")
    first = number(address)
    return first, first | (1 << (32 - int(length))) - 1


def inside(cidr: str, outer: str) -> bool:
    """Whether all of `cidr` lies in `outer`."""
    first, last = bounds(cidr)
    outer_first, outer_last = bounds(outer)
    return outer_first <= first and last <= outer_last
