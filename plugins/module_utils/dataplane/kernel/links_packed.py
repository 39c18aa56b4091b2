# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and addresses in packed rtnetlink messages: the writes that attach and detach a workload.

A general netlink library takes 0.2 s to import, and several times the kernel's own time to encode; a workload is made
in half a millisecond. Each public function returns type, flags (without request and acknowledgement) and body of one
message, and raises ValueError for a MAC that is not hexadecimal and OSError for an invalid address. Layouts:
rtnetlink(7), linux/if_link.h, linux/veth.h, linux/if_addr.h. The tests compare the messages with pyroute2's.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from . import port
from .rtnetlink import (
    IFINFO,
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWRULE,
    af_of,
    attribute,
    packed_address,
)

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINKINFO, _IFLA_IFALIAS = 1, 3, 4, 18, 20
_IFLA_GROUP, _IFLA_NET_NS_FD, _IFLA_NUM_TX_QUEUES, _IFLA_NUM_RX_QUEUES = 27, 28, 31, 32
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFLA_VXLAN_LOCAL, _IFLA_VXLAN_LOCAL6 = 4, 17
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_FRA_SRC, _FRA_PRIORITY, _FRA_TABLE, _FRA_PROTOCOL = 2, 6, 15, 21
_FR_ACT_TO_TBL = 1
_RULE = struct.Struct("=BBBBBxxBI")
_IFA_F_NODAD = 2
_IFF_UP = 1
_IFADDR = struct.Struct("=BBBBI")
_U32 = struct.Struct("=I")


class Packed(t.NamedTuple):
    type: int
    flags: int
    body: bytes


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def _mac(text: str) -> bytes:
    return attribute(_IFLA_ADDRESS, bytes.fromhex(text.replace(":", "")))


def _ifinfo(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return IFINFO.pack(socket.AF_UNSPEC, 0, index, flags, change)


#: The attributes for one queue at an end of a pair. Without them, the kernel makes a queue for each processor, then
#: waits two grace periods while it reduces them to one.
_ONE_QUEUE = attribute(_IFLA_NUM_TX_QUEUES, _U32.pack(1)) + attribute(_IFLA_NUM_RX_QUEUES, _U32.pack(1))


def veth_add(link: port.NewLink, netns: t.Optional[int] = None) -> Packed:
    """Return the message that makes a veth pair.

    Its other end is created in the namespace of the file descriptor `netns`, or in the socket's own for None.
    """
    ends = _text(_IFLA_IFNAME, link.name) + _ONE_QUEUE
    peer = _text(_IFLA_IFNAME, link.peer_name) + _ONE_QUEUE
    if link.mtu is not None:
        mtu = attribute(_IFLA_MTU, _U32.pack(link.mtu))
        ends += mtu
        peer += mtu
    if link.mac is not None:
        ends += _mac(link.mac)
    if link.peer_mac is not None:
        peer += _mac(link.peer_mac)
    if netns is not None:
        peer += attribute(_IFLA_NET_NS_FD, _U32.pack(netns))
    data = attribute(_VETH_INFO_PEER, _ifinfo() + peer)
    info = _text(_IFLA_INFO_KIND, "veth") + attribute(_IFLA_INFO_DATA, data)
    return Packed(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, _ifinfo() + ends + attribute(_IFLA_LINKINFO, info))


def link_change(change: port.LinkChange) -> Packed:
    """Return the message that changes a device by name; the kernel applies alias, MAC and MTU before setting it up."""
    flags, mask = (_IFF_UP if change.up else 0, _IFF_UP) if change.up is not None else (0, 0)
    body = _ifinfo(0, flags, mask) + _text(_IFLA_IFNAME, change.name)
    if change.mtu is not None:
        body += attribute(_IFLA_MTU, _U32.pack(change.mtu))
    if change.mac is not None:
        body += _mac(change.mac)
    if change.alias is not None:
        # Only an attribute of length 0 removes an alias, so no zero byte is added.
        body += attribute(_IFLA_IFALIAS, change.alias.encode())
    if change.local is not None:
        body += attribute(_IFLA_LINKINFO, _vxlan_local(change.local))
    return Packed(RTM_NEWLINK, 0, body)


def _vxlan_local(address: str) -> bytes:
    """Return the attributes in IFLA_LINKINFO that give a VXLAN device another local address and leave all else."""
    kind = _IFLA_VXLAN_LOCAL6 if af_of(address) == socket.AF_INET6 else _IFLA_VXLAN_LOCAL
    data = attribute(kind, packed_address(address))
    return _text(_IFLA_INFO_KIND, "vxlan") + attribute(_IFLA_INFO_DATA, data)


def link_group(name: str, group: int) -> Packed:
    return Packed(RTM_NEWLINK, 0, _ifinfo() + _text(_IFLA_IFNAME, name) + attribute(_IFLA_GROUP, _U32.pack(group)))


def link_delete(name: str) -> Packed:
    return Packed(RTM_DELLINK, 0, _ifinfo() + _text(_IFLA_IFNAME, name))


def group_delete(group: int) -> Packed:
    """Return the message that deletes all devices of a group, with one wait of the kernel for all of them."""
    return Packed(RTM_DELLINK, 0, _ifinfo() + attribute(_IFLA_GROUP, _U32.pack(group)))


def _address(address: port.InterfaceAddress, index: int) -> bytes:
    packed, family = packed_address(address.address), af_of(address.address)
    flags = _IFA_F_NODAD if family == socket.AF_INET6 else 0
    head = _IFADDR.pack(family, address.prefix_length, flags, address.scope, index)
    return head + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def address_add(address: port.InterfaceAddress, index: int) -> Packed:
    """Return the message that adds an address to the device with this index."""
    return Packed(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, _address(address, index))


def address_delete(address: port.InterfaceAddress, index: int) -> Packed:
    return Packed(RTM_DELADDR, 0, _address(address, index))


def rule_add(rule: port.RuleEntry) -> Packed:
    """Return the message that adds a policy routing rule for packets from `rule.source`; its mark is ignored."""
    source = packed_address(rule.source)
    body = _RULE.pack(af_of(rule.source), 0, 8 * len(source), 0, 0, _FR_ACT_TO_TBL, 0)
    body += attribute(_FRA_SRC, source) + attribute(_FRA_PRIORITY, _U32.pack(rule.priority))
    body += attribute(_FRA_TABLE, _U32.pack(rule.table)) + attribute(_FRA_PROTOCOL, bytes((rule.protocol,)))
    return Packed(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body)
