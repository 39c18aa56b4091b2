# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the compiler besides policy: dropping and logging packets, failsafe ports, encapsulated packets."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.ports import VXLAN_PORT
from ..model import Failsafe
from .rules.marks import DEFAULT_MASK

#: Values of `default_endpoint_to_host_action`, `deny_action` and `allow_action`; `ChainSettings` says which one has
#: which.
DROP, REJECT, ACCEPT, RETURN = "Drop", "Reject", "Accept", "Return"

IPIP, VXLAN = "ipip", "vxlan"
#: The ICMPv6 types that workloads may send to their host whatever policy says, because IPv6 needs them: multicast
#: listeners (130 to 132), router solicitation (133), neighbours (135, 136). Felix has them in cali-wl-to-host.
NEIGHBOR_DISCOVERY = (130, 131, 132, 133, 135, 136)

#: The default of the destination ports at which no policy can make the host unreachable: SSH, BGP, etcd's gates,
#: clients and members, BFD and DHCP.
FAILSAFE_INBOUND = (
    Failsafe("tcp", 22),
    Failsafe("tcp", 179),
    Failsafe("tcp", 2378),
    Failsafe("tcp", 2379),
    Failsafe("tcp", 2380),
    Failsafe("udp", 3784),
    Failsafe("udp", 3785),
    Failsafe("udp", 68),
)
#: The default of the destination ports that the host can always reach: BGP, etcd, BFD, DNS, DHCP and NTP.
FAILSAFE_OUTBOUND = (
    Failsafe("tcp", 179),
    Failsafe("tcp", 2378),
    Failsafe("tcp", 2379),
    Failsafe("tcp", 2380),
    Failsafe("udp", 3784),
    Failsafe("udp", 3785),
    Failsafe("udp", 53),
    Failsafe("tcp", 53),
    Failsafe("udp", 67),
    Failsafe("udp", 123),
)


class Encapsulation(t.NamedTuple):
    """A tunnel between the fleet's nodes: `kind` is "ipip" or "vxlan", `port` the UDP port of VXLAN (0 for IPIP).

    `ip_version` is that of the outer header.
    """

    kind: str
    port: int = 0
    ip_version: int = 4


@dataclasses.dataclass(frozen=True)
class ChainSettings:
    """Settings of the compiler. Names and values are those of a FelixConfiguration, where it has them.

    - `interface_prefixes`: prefixes of the names of the host sides of workloads' interfaces.
    - `default_endpoint_to_host_action`: "Drop", "Return" or "Accept", for packets from a workload to its host that the
      workload's policy allows.
    - `deny_action`: "Drop" or "Reject". Only the table filter can reject; other tables drop.
    - `allow_action`: "Accept", or "Return" to let rules of others decide about packets that policy allows.
    - `encapsulations`: tunnels whose packets are accepted from and to members of the set `all-hosts-net`.
    - `nflog_group`: the NFLOG group of log records. 0 logs nothing, neither drops nor the action Log.
    - `audit`: packets that policy would drop are logged and accepted on this node.
    - `cut_marked_flows`: packets of connections whose mark has `Marks.cut` are dropped.
    - `workload_source_spoofing`: workloads may send from addresses that they do not have.
    - `local_blocks`: the IP versions for which the node has a set of its own blocks.
    - `own_address6`: the node's IPv6 address, which no other host sends from; "" without one.
    - `etcd_members`: addresses of hosts with a member of etcd, to whose ports workloads may not connect.
    - `probes`: the IP versions for which the node has a set of the addresses of all probe endpoints.
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
    own_address6: str = ""
    etcd_members: tuple[str, ...] = ()
    probes: tuple[int, ...] = ()

    @property
    def vxlan_ports(self) -> tuple[int, ...]:
        """The UDP ports of VXLAN to which workloads may not send by default: the fleet's and the assigned one, 4789."""
        return tuple(sorted({self.vxlan_port, VXLAN_PORT}))

    @property
    def rp_filter(self) -> bool:
        """Whether the node sets the sysctl rp_filter of workloads' interfaces.

        A NodeState of an earlier release has neither those sysctls nor the set of the node's blocks.
        """
        return 4 in self.local_blocks
