# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel counts the IPv4 packets that it put together from fragments, whatever program sent them.

VXLAN over IPv4 causes fragments where a link between two nodes has a smaller MTU. Others' datagrams cause them too.
"""

from __future__ import annotations

import typing as t

from ...files import bounded

PATH = "/proc/net/snmp"
_LIMIT = 64 << 10  # bytes; the file has about 2,000
_NAME = "ReasmOKs"


def read(path: str = PATH) -> t.Optional[int]:
    """Return the number of packets since the network namespace exists, None if it cannot be read."""
    try:
        return parse(bounded.read(path, _LIMIT).decode("ascii"))
    except (OSError, ValueError):
        return None


def parse(text: str) -> t.Optional[int]:
    """Return the number in the pair of lines `Ip: NAME...` and `Ip: NUMBER...`, None without one."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Ip: ")][:2]
    found = dict(zip(*lines)) if len(lines) == 2 else {}
    number = found.get(_NAME, "")
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 20 else None
