# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks on the sources of packets in the table raw, on every node, with and without policy.

    cali-PREROUTING      from workloads to cali-wl-sources; sources of this node's blocks by their own interface alone
    cali-wl-sources      forged sources, encapsulated packets, link-local sources
    cali-wl-link-local   IPv6: no router advertisements and redirects; what makes neighbour entries is limited

They come before connection tracking and before any policy. A packet costs one look into the kernel's routes at most.
For IPv4 that is rp_filter's, which is 1 on each workload's interface; IPv6 has no rp_filter, so `rpfilter` does it.
What comes by other interfaces is looked up only if its source lies in a block of this node: such a source has a route
to its workload, or ends in the block's blackhole, and from any other interface it is forged. Workloads come and go
without a change of any rule or set here.
"""

from __future__ import annotations

import typing as t

from ..model import EGRESS
from ..sets.ip_sets import LOCAL_BLOCKS, name_of
from .policy_chains import RuleWriter
from .rules import log_prefix, names
from .rules.log_prefix import Reason
from .rules.rule import DROP, RETURN, Chains, IptablesRule, comes_in_by, goto, in_set

#: The source of the packet is not reached by the interface that it came in by.
_FORGED = "-m rpfilter --validmark --invert"

#: ICMPv6 that only routers send: advertisements and redirects.
_OF_ROUTERS = (134, 137)
#: ICMPv6 that makes no neighbour entry: multicast listeners, neighbour advertisements.
_HARMLESS = (130, 131, 132, 136, 143)
#: Packets with link-local sources that may each make a neighbour entry, for a sixteenth of the workloads. The kernel
#: removes entries older than 5 s when its table (1,024) is half full: all sixteen together leave room.
_LIMIT = "-m limit --limit 2/second --limit-burst 5"
_DIGITS = "0123456789abcdef"


def chains(write: RuleWriter, interfaces: t.Iterable[str]) -> Chains:
    """Return the chains that `rules` leads to. `interfaces` as iptables writes them (`cali+`)."""
    found: Chains = {
        names.SPOOFED: _dropped(write, log_prefix.SPOOFED),
        names.WORKLOAD_SOURCES: tuple(_of_workloads(write)),
        names.ENCAPSULATED: _dropped(write, log_prefix.ENCAPSULATION),
    }
    if write.family == 6:
        found[names.LINK_LOCAL] = tuple(_link_local(interfaces))
    return found


def rules(write: RuleWriter, interfaces: t.Iterable[str]) -> t.Iterator[IptablesRule]:
    """Yield the rules of cali-PREROUTING: no packet from a workload comes behind them."""
    for interface in interfaces:
        yield IptablesRule((comes_in_by(interface),), goto(names.WORKLOAD_SOURCES))
    yield from _of_local_blocks(write)


def _of_local_blocks(write: RuleWriter) -> t.Iterator[IptablesRule]:
    if write.family in write.settings.local_blocks:
        yield IptablesRule((in_set(name_of(write.family, LOCAL_BLOCKS), "src"), _FORGED), goto(names.SPOOFED))


def _of_workloads(write: RuleWriter) -> t.Iterator[IptablesRule]:
    settings = write.settings
    if settings.workload_source_spoofing:
        # A workload that may send as anybody still does not send as another workload of this node.
        yield from _of_local_blocks(write)
    elif write.family == 6 or not settings.rp_filter:
        yield IptablesRule((_FORGED,), goto(names.SPOOFED))
    if not settings.allow_vxlan_from_workloads:
        for port in settings.vxlan_ports:
            yield IptablesRule(("-p udp", f"-m udp --dport {port}"), goto(names.ENCAPSULATED))
    if not settings.allow_ipip_from_workloads:
        yield IptablesRule(("-p 4",), goto(names.ENCAPSULATED))
    if write.family == 6:
        yield IptablesRule(("-s fe80::/10",), goto(names.LINK_LOCAL))


def _link_local(interfaces: t.Iterable[str]) -> t.Iterator[IptablesRule]:
    """Limit what makes neighbour entries; rpfilter lets every link-local source through.

    Interfaces are told apart by the first digit of their names, which are digests. One that has used up its share takes
    nothing from the others but the common rest, which is for interfaces with other names.
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
