# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks on packets in the table raw, on every workload node, with or without policy: sources, tunnels, and etcd.

    cali-PREROUTING      leads packets of workloads to cali-wl-sources; drops other forged sources in this node's
                         blocks, and its own IPv6 address
    cali-wl-sources      drops forged sources, addresses of the loopback, encapsulated packets, and packets to members
                         of etcd; leads link-local sources to cali-wl-link-local
    cali-wl-link-local   IPv6: drops router advertisements and redirects; limits packets that create neighbour entries

The checks come before connection tracking and before any policy. A packet costs one lookup in the kernel's routes at
most. For IPv4, the sysctl rp_filter does it, which is 1 on a workload's interface if it must use its own address. IPv6
has no rp_filter, so the match `rpfilter` does it. It also checks IPv4's TCP segments that end a connection, since
rp_filter comes after connection tracking. A packet from another interface is looked up only if its source is in
a block of this node: the route to such a source leads to a workload or is the block's blackhole, so that source is
forged. When workloads are added or removed, no rule or set here changes. The kernel itself drops addresses of the
loopback, but not if an administrator set `net.ipv4.conf.all.route_localnet`.

The kernel drops a packet from outside with an IPv4 address of the host as source, but not one with an IPv6 address.
Only the node's address is checked here: other addresses of the host may be shared with other nodes (anycast, VRRP). A
multicast packet of the host itself comes back by the interface by which it left.
"""

from __future__ import annotations

import typing as t

from ...base import iptables_encoding as encoding
from ...base.ports import ETCD_PORTS
from ..model import EGRESS
from ..sets.ip_sets import ETCD_MEMBERS, LOCAL_BLOCKS, is_of, name_of
from .policy_chains import RuleWriter
from .rules import log_prefix, names
from .rules.log_prefix import Reason
from .rules.rule import DROP, RETURN, Chains, IptablesRule, comes_in_by, goto, in_set

#: The addresses of the loopback, by IP version. They are valid inside of a host only.
LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}
#: The condition that the route to a packet's source address does not lead to its incoming interface.
_FORGED = "-m rpfilter --validmark --invert"

#: The condition that a TCP segment ends its connection.
_ENDING = "-m tcp ! --tcp-flags FIN,RST NONE"

#: The ICMPv6 types that only routers send: advertisements and redirects.
_OF_ROUTERS = (134, 137)
#: The ICMPv6 types that create no neighbour entry: multicast listeners, neighbour advertisements.
_HARMLESS = (130, 131, 132, 136, 143)
#: The limit for packets with link-local sources from one sixteenth of the workloads. Each packet may create a neighbour
#: entry. The kernel removes entries older than 5 s when its table of 1,024 is half full. The sixteen limits of one
#: prefix of interfaces and the common limit together stay below 512 packets in 5 s.
_LIMIT = "-m limit --limit 2/second --limit-burst 5"
_DIGITS = "0123456789abcdef"


def chains(write: RuleWriter, interfaces: t.Iterable[str]) -> Chains:
    """Return a mapping from name to rules of the chains to which the result of `rules` may lead.

    `interfaces` are those of workloads as iptables patterns that end with "+", such as "cali+".
    """
    found: Chains = {
        names.SPOOFED: _dropped(write, log_prefix.SPOOFED),
        names.WORKLOAD_SOURCES: tuple(_of_workloads(write)),
        names.ENCAPSULATED: _dropped(write, log_prefix.ENCAPSULATION),
    }
    if _knows_members(write):
        found[names.TO_ETCD] = _dropped(write, log_prefix.ETCD)
    if write.family == 6:
        found[names.LINK_LOCAL] = tuple(_link_local(interfaces))
    return found


def rules(write: RuleWriter, interfaces: t.Iterable[str]) -> t.Iterator[IptablesRule]:
    """Yield the rules of cali-PREROUTING that check sources. Packets of workloads do not reach the rules behind them.

    `interfaces` are as for `chains`.
    """
    for interface in interfaces:
        yield IptablesRule((comes_in_by(interface),), goto(names.WORKLOAD_SOURCES))
    yield from _of_this_node(write)


def _of_this_node(write: RuleWriter) -> t.Iterator[IptablesRule]:
    """Yield the rules for sources that only this node has: its workloads' addresses and its own IPv6 address."""
    settings = write.settings
    if write.family not in settings.local_blocks:
        return
    if write.family == 6 and settings.own_address6:
        elsewhere = ("! -d ff00::/8", "! -i lo")
        yield IptablesRule((f"-s {encoding.cidr(settings.own_address6)}", *elsewhere), goto(names.SPOOFED))
    yield IptablesRule((in_set(name_of(write.family, LOCAL_BLOCKS), "src"), _FORGED), goto(names.SPOOFED))


def _of_workloads(write: RuleWriter) -> t.Iterator[IptablesRule]:
    settings = write.settings
    for option in ("-s", "-d"):
        yield IptablesRule((f"{option} {LOOPBACK[write.family]}",), goto(names.SPOOFED))
    if settings.workload_source_spoofing:
        # A workload that may use foreign addresses still must not use one of this node that is not its own.
        yield from _of_this_node(write)
    elif write.family == 6 or not settings.rp_filter:
        yield IptablesRule((_FORGED,), goto(names.SPOOFED))
    else:
        # The sysctl rp_filter drops packets behind connection tracking, where these have ended another's connection.
        yield IptablesRule(("-p tcp", _ENDING, _FORGED), goto(names.SPOOFED))
    if not settings.allow_vxlan_from_workloads:
        for port in settings.vxlan_ports:
            yield IptablesRule(("-p udp", f"-m udp --dport {port}"), goto(names.ENCAPSULATED))
    if not settings.allow_ipip_from_workloads:
        yield IptablesRule(("-p 4",), goto(names.ENCAPSULATED))
    if _knows_members(write):
        # Masqueraded, the packet would have the node's address, which gates and members trust.
        ports = f"-m tcp --dport {ETCD_PORTS[0]}:{ETCD_PORTS[-1]}"
        members = in_set(name_of(write.family, ETCD_MEMBERS), "dst")
        yield IptablesRule(("-p tcp", ports, members), goto(names.TO_ETCD))
    if write.family == 6:
        yield IptablesRule(("-s fe80::/10",), goto(names.LINK_LOCAL))


def _knows_members(write: RuleWriter) -> bool:
    return any(is_of(write.family, address) for address in write.settings.etcd_members)


def _link_local(interfaces: t.Iterable[str]) -> t.Iterator[IptablesRule]:
    """Yield the rules for packets with link-local sources; rpfilter cannot tell which of them are forged.

    ICMPv6 types that only routers send are dropped. Packets that may create neighbour entries are dropped beyond a
    limit of 2 per second, with bursts of 5. Interfaces share a limit by the first hex digit after the prefix of their
    names, which are digests. An interface that exceeds it takes from those with other digits only the common limit,
    which is also for interfaces without such a digit.
    """
    for kind in _OF_ROUTERS:
        yield IptablesRule(("-p 58", f"-m icmp6 --icmpv6-type {kind}"), DROP)
    for kind in _HARMLESS:
        yield IptablesRule(("-p 58", f"-m icmp6 --icmpv6-type {kind}"), RETURN)
    for interface in interfaces:
        for digit in _DIGITS:
            yield IptablesRule((comes_in_by(f"{interface[:-1]}{digit}+"), _LIMIT), RETURN)
    yield IptablesRule((_LIMIT,), RETURN)
    yield IptablesRule((), DROP)


def _dropped(write: RuleWriter, name: str) -> tuple[IptablesRule, ...]:
    return tuple(write.drop_unasked((), Reason(log_prefix.DENY, EGRESS, log_prefix.HOST, 0, name)))
