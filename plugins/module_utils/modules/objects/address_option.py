# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules for single objects read the addresses in their options here."""

from __future__ import annotations

import socket

from ...base.addresses import ip_address


def kernel_text(text: str, version: int) -> str:
    """Return the address of IP `version` (4 or 6) that `text` spells, as netlink's decoder and inet_ntop(3) write it.

    Raise ValueError for any other text, also for an address with a zone (fe80::1%eth0).
    """
    return socket.inet_ntop(socket.AF_INET if version == 4 else socket.AF_INET6, ip_address(text, version).packed)
