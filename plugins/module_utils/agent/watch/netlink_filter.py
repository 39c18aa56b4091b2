# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter in the kernel for a netlink socket's notifications, so that uninteresting ones do not wake the process.

It is run on each datagram before it is queued. rtnetlink sends each notification as a datagram of its own
(nlmsg_notify of net/netlink/af_netlink.c), so the first message of a datagram is all of it. The filter drops:

- changes made through our own sockets, recognized by the port in the message's header;
- routes of BIRD: a BGP session that starts or ends moves tens of thousands of them;
- IPv6 routes that the kernel itself adds, and link-local IPv6 addresses, several for each device that comes or goes;
- neighbours of all but some devices: on all others they come and go with ARP.

If another program deletes or adds a route of ours, the message has its port and our protocol and is kept. A route of
ours that is replaced by one with BIRD's protocol is missed here: polling.py finds it.
"""

from __future__ import annotations

import socket
import typing as t

from ...dataplane.kernel import rtnetlink as rt
from ...dataplane.kernel.port import PROTOCOL_BIRD, PROTOCOL_KERNEL, SCOPE_LINK
from ...sockets.packet_filter import ALL, BYTE, HALF, NOTHING, WORD, Program

# Offsets in bytes of fields of a message: linux/netlink.h (struct nlmsghdr), linux/rtnetlink.h (struct rtmsg),
# linux/neighbour.h (struct ndmsg), linux/if_addr.h (struct ifaddrmsg).
_TYPE, _PORT, _FAMILY, _ROUTE_PROTOCOL, _NEIGHBOR_INDEX, _ADDRESS_SCOPE = 4, 12, 16, 16 + 5, 16 + 4, 16 + 3

_MAX = 60  # the most ports, and the most devices, in one program: the length of a jump has one byte


def program(ports: t.Collection[int], neighbors_of: t.Collection[int]) -> bytes:
    """Return the code of the filter, for `packet_filter.attach`. A datagram that it keeps reaches the socket whole.

    `ports` are the netlink ports of our own sockets; 0 is ignored. `neighbors_of` are the indexes of the devices whose
    neighbours are kept. The 60 smallest of each are used.
    """
    made = Program()
    made.load(WORD, _PORT)
    for port in sorted(ports)[:_MAX]:
        if port:  # Port 0 is the kernel, whose own messages must pass.
            made.jump_if(socket.htonl(port), "drop")
    made.load(HALF, _TYPE)
    for kind in (rt.RTM_NEWROUTE, rt.RTM_DELROUTE):
        made.jump_if(socket.htons(kind), "route")
    for kind in (rt.RTM_NEWNEIGH, rt.RTM_DELNEIGH):
        made.jump_if(socket.htons(kind), "neighbor")
    for kind in (rt.RTM_NEWADDR, rt.RTM_DELADDR):
        made.jump_if(socket.htons(kind), "address")
    made.end(ALL, "keep")
    made.label("address")
    made.load(BYTE, _FAMILY)
    made.jump_if(socket.AF_INET6, "address of IPv6")
    made.end(ALL)
    made.label("address of IPv6")
    made.load(BYTE, _ADDRESS_SCOPE)
    made.jump_if(SCOPE_LINK, "drop")
    made.end(ALL)
    made.label("route")
    made.load(BYTE, _ROUTE_PROTOCOL)
    made.jump_if(PROTOCOL_BIRD, "drop")
    made.jump_if(PROTOCOL_KERNEL, "kernel's route")
    made.end(ALL)
    made.label("kernel's route")
    made.load(BYTE, _FAMILY)
    made.jump_if(socket.AF_INET6, "drop")
    made.end(ALL)
    made.label("neighbor")
    made.load(WORD, _NEIGHBOR_INDEX)
    for index in sorted(neighbors_of)[:_MAX]:
        made.jump_if(socket.htonl(index), "keep neighbor")
    made.end(NOTHING, "drop")
    made.end(ALL, "keep neighbor")
    return made.assembled()
