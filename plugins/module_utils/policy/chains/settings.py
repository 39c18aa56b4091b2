# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided around policy: how packets are dropped and logged, what no policy can close, who may encapsulate."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.ports import VXLAN_PORT
from ..model import Failsafe
from .rules.marks import DEFAULT_MASK

#: Values of `default_endpoint_to_host_action`, `deny_action` and `allow_action`.
DROP, REJECT, ACCEPT, RETURN = "Drop", "Reject", "Accept", "Return"

IPIP, VXLAN = "ipip", "vxlan"

#: Ports of the host that no policy closes, so that nobody is locked out: SSH, BGP, BFD and DHCP.
FAILSAFE_INBOUND = (
    Failsafe("tcp", 22),
    Failsafe("tcp", 179),
    Failsafe("udp", 3784),
    Failsafe("udp", 3785),
    Failsafe("udp", 68),
)
#: The host's own connections: BGP, BFD, DNS, DHCP and NTP.
FAILSAFE_OUTBOUND = (
    Failsafe("tcp", 179),
    Failsafe("udp", 3784),
    Failsafe("udp", 3785),
    Failsafe("udp", 53),
    Failsafe("tcp", 53),
    Failsafe("udp", 67),
    Failsafe("udp", 123),
)


class Encapsulation(t.NamedTuple):
    """A tunnel between the fleet's nodes: "ipip" or "vxlan" with its port, and the IP version of the outer header."""

    kind: str
    port: int = 0
    ip_version: int = 4


@dataclasses.dataclass(frozen=True)
class ChainSettings:
    """Names and values are those of a FelixConfiguration, where it has them.

    `interface_prefixes`: host ends of workloads begin with one of these. `default_endpoint_to_host_action`: "Drop",
    "Return" or "Accept", for what a workload's policy lets it send to the host. `deny_action`: "Drop" or "Reject"
    (which only the table filter can; elsewhere packets are dropped). `allow_action`: "Accept", or "Return" to let
    rules of others see what policy allows. `encapsulations`: accepted from and to members of the set `all-hosts-net`.
    `nflog_group`: 0 logs nothing, neither drops nor the action Log. `audit`: what policy would drop is logged and
    accepted, on this whole node. `cut_marked_flows`: connections whose mark has `Marks.cut` are dropped.
    `workload_source_spoofing`: workloads may send from addresses that are not theirs. `local_blocks`: the IP versions
    of which the node has a set of its own blocks.
    """

    interface_prefixes: tuple[str, ...] = ("cali",)
    default_endpoint_to_host_action: str = DROP
    deny_action: str = DROP
    allow_action: str = ACCEPT
    failsafe_inbound: tuple[Failsafe, ...] = FAILSAFE_INBOUND
    failsafe_outbound: tuple[Failsafe, ...] = FAILSAFE_OUTBOUND
    drop_invalid: bool = True
    encapsulations: tuple[Encapsulation, ...] = ()
    vxlan_port: int = VXLAN_PORT
    allow_vxlan_from_workloads: bool = False
    allow_ipip_from_workloads: bool = False
    nflog_group: int = 179
    audit: bool = False
    cut_marked_flows: bool = False
    mark_mask: int = DEFAULT_MASK
    workload_source_spoofing: bool = False
    local_blocks: tuple[int, ...] = ()

    @property
    def vxlan_ports(self) -> tuple[int, ...]:
        """The ports by which workloads may not encapsulate: the fleet's and the assigned one."""
        return tuple(sorted({self.vxlan_port, VXLAN_PORT}))

    @property
    def rp_filter(self) -> bool:
        """Whether the kernel checks IPv4 sources by the sysctl rp_filter of workloads' interfaces.

        A state of an earlier release has neither those sysctls nor the set of the node's blocks.
        """
        return 4 in self.local_blocks
