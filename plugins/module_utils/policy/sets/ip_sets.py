# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IP sets that rules refer to: their names, types and members in one IP version.

A set's name is derived from its purpose. So equal purposes share a set, and a change of members changes no rule. Names
have at most 31 characters (IPSET_MAXNAMELEN of the kernel, less the final zero).
"""

from __future__ import annotations

import base64
import functools
import hashlib
import operator
import typing as t

from ...base.addresses import HALVES, family_of
from ..model import NamedPortKey

NAME_LIMIT = 31
_NAMES = 2048  # the most names of sets that are remembered: a digest takes longer than all else about a set as before

ADDRESSES, ADDRESS_AND_PORT, ADDRESS_AND_INTERFACE = "hash:net", "hash:ip,port", "hash:net,iface"

#: The set of the addresses of all nodes of the fleet (fleet/firewall.py).
ALL_HOSTS = "all-hosts-net"
#: The set of this node's own blocks, spare ones included (state/attachment.py).
LOCAL_BLOCKS = "local-blocks"
#: The set of the addresses of hosts with a member of etcd (fleet/firewall.py).
ETCD_MEMBERS = "etcd-members"
#: The set of the addresses of all nodes' probe endpoints (fleet/firewall.py).
PROBES = "probes"


class PolicyIpSet(t.NamedTuple):
    """An IP set: `family` is "inet" or "inet6", `members` are texts as `ipset` reads them, sorted.

    `type` is ADDRESSES, ADDRESS_AND_PORT or ADDRESS_AND_INTERFACE.
    """

    name: str
    type: str
    family: str
    members: tuple[str, ...]


def name_of(family: int, name: str) -> str:
    """Return the name in the kernel of the set `name`: "cali40..." (IPv4) or "cali60...", cut to 31 characters."""
    return f"cali{family}0{name}"[:NAME_LIMIT]


@functools.lru_cache(_NAMES)
def selector_set(selector: str, family: int) -> str:
    """Return the name of the set of addresses that a canonical selector matches, in IP version `family`."""
    return name_of(family, f"s:{_digest(selector)}")


@functools.lru_cache(_NAMES)
def named_port_set(key: NamedPortKey, family: int) -> str:
    """Return the name of the set of (address, port) pairs that a named port means, in IP version `family`."""
    return name_of(family, f"n:{_digest(chr(0).join(key))}")


def nets_set(nets: t.Iterable[str], family: int) -> str:
    """Return the name of the set for a rule's list of CIDRs, whatever their order."""
    return name_of(family, f"c:{_digest(' '.join(sorted(nets)))}")


def workloads_set(group: str, family: int) -> str:
    """Return the name of the set of (address, interface) pairs of a group of workloads, by its ID.

    `group` may also be a prefix of several IDs.
    """
    return name_of(family, f"w:{group}")


def is_of(family: int, address: str) -> bool:
    return family_of(address) == family


def addresses(name: str, family: int, members: t.Iterable[str]) -> PolicyIpSet:
    """Return the set `name` of the addresses and CIDRs in `members` that are of IP version `family`.

    A CIDR of all addresses becomes two halves, because the kernel refuses it as a member.
    """
    members = tuple(members)
    text = " ".join(members)
    if ":" not in text and "/0" not in text:
        # The common case. To look at each of ten thousand addresses in turn would take ten times as long.
        if family == 6:
            return PolicyIpSet(name, ADDRESSES, _inet(family), ())
        ordered = all(map(operator.lt, members, members[1:]))
        return PolicyIpSet(name, ADDRESSES, _inet(family), members if ordered else tuple(sorted(set(members))))
    found: set[str] = set()
    for member in members:
        if is_of(family, member):
            found.update(HALVES.get(member, (member,)))
    return PolicyIpSet(name, ADDRESSES, _inet(family), tuple(sorted(found)))


def addresses_and_ports(name: str, family: int, members: tuple[str, t.Iterable[tuple[str, int]]]) -> PolicyIpSet:
    """Return the set `name` of (address, port) pairs of IP version `family`, as texts such as "10.65.0.1,tcp:80".

    `members` is (protocol, pairs), where the protocol is a name such as "tcp".
    """
    protocol, pairs = members
    found = {f"{address},{protocol}:{port}" for address, port in pairs if is_of(family, address)}
    return PolicyIpSet(name, ADDRESS_AND_PORT, _inet(family), tuple(sorted(found)))


def addresses_and_interfaces(name: str, family: int, members: t.Iterable[tuple[str, str]]) -> PolicyIpSet:
    """Return the set `name` of the (address, interface) pairs of IP version `family`, as texts: "10.65.0.1,cali1"."""
    found = {f"{address},{interface}" for address, interface in members if is_of(family, address)}
    return PolicyIpSet(name, ADDRESS_AND_INTERFACE, _inet(family), tuple(sorted(found)))


def _inet(family: int) -> str:
    return "inet6" if family == 6 else "inet"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha224(text.encode("utf-8", "surrogatepass")).digest()).decode()[:23]
