# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of assigned port numbers."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import ports


def test_ports_are_those_that_iana_assigned() -> None:
    """Routers outside the fleet use bgp 179, bfd-control 3784, bfd-echo 3785, bfd-multi-ctl 4784 and vxlan 4789."""
    assert ports.BGP_PORT == 179
    assert ports.BFD_PORTS == (3784, 3785, 4784)
    assert ports.VXLAN_PORT == 4789
