# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of ports, the ports that IANA assigned to BGP, BFD and VXLAN, and those of etcd."""

from __future__ import annotations

import dataclasses
import typing as t

BGP_PORT = 179  # the TCP port of BGP (RFC 4271)
#: UDP ports of BFD: control and echo packets over one hop (RFC 5881 section 4), control over several hops (RFC 5883).
BFD_PORTS = (3784, 3785, 4784)
VXLAN_PORT = 4789  # the UDP port of VXLAN (RFC 7348 section 5)
#: The TCP ports of a host with a member of etcd: of the gate before it, of clients and of other members. 2377, the next
#: free one below, would be that of a manager of Docker's swarm.
ETCD_GATE_PORT, ETCD_CLIENT_PORT, ETCD_PEER_PORT = ETCD_PORTS = (2378, 2379, 2380)


@dataclasses.dataclass(frozen=True, slots=True)
class PortRange:
    """The ports from `first` to `last`, both included. A single port is a range with both equal."""

    first: int
    last: int

    @property
    def plain(self) -> t.Union[int, str]:
        """The range as Calico writes it: 80, or "8000:8999"."""
        return self.first if self.first == self.last else f"{self.first}:{self.last}"
