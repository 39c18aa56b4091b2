# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables raw and mangle: checks on sources, and policy before connection tracking, before DNAT and after it."""

from __future__ import annotations

from ..model import EGRESS, INGRESS, WILDCARD
from . import failsafes, host_dispatch, source_checks
from .node_chains import DIRECTIONS, NodeChains
from .rules import names
from .rules.rule import (
    ACCEPT,
    ESTABLISHED,
    NOTRACK,
    RETURN,
    Chains,
    IptablesRule,
    clear_marks,
    comes_in_by,
    jump,
    marked,
    marked_at_all,
    state,
)
from .tables import MANGLE, RAW, HookRule, Table


def raw_table(node: NodeChains) -> Table:
    """Return the table raw: checks on source addresses, followed by doNotTrack policies.

    Those of the host endpoint "*" are left out. Packets that a doNotTrack policy accepts are not tracked, so replies
    need a policy of their own. This table sees an incoming packet first, and clears its marks: a packet from a tunnel
    still has the marks of the outer packet.
    """
    write = node.writer(RAW)
    hosts = [one for one in node.hosts if one.untracked and one.interface != WILDCARD]
    # Every incoming packet passes this rule, and every outgoing one if there are `hosts`. To test a mark costs less
    # than to write it.
    clear = IptablesRule((marked_at_all(node.marks.every),), clear_marks(node.marks.every))
    accepted = (marked(node.marks.accept),)
    accept = (IptablesRule(accepted, NOTRACK), IptablesRule(accepted, ACCEPT))
    incoming = [clear, *source_checks.rules(write.writer, node.workload_interfaces)]
    chains: Chains = source_checks.chains(write.writer, node.workload_interfaces)
    hooks = [HookRule("PREROUTING", IptablesRule((), jump("cali-PREROUTING")))]
    if hosts:
        incoming += [IptablesRule((), jump(names.FROM_HOST_ENDPOINT)), *accept]
        hooks.append(HookRule("OUTPUT", IptablesRule((), jump("cali-OUTPUT"))))
        chains["cali-OUTPUT"] = (clear, IptablesRule((), jump(names.TO_HOST_ENDPOINT)), *accept)
        chains[names.FROM_HOST_ENDPOINT] = host_dispatch.dispatch(hosts, INGRESS)
        chains[names.TO_HOST_ENDPOINT] = host_dispatch.dispatch(hosts, EGRESS)
        chains.update(failsafes.chains(node.settings, node.family, both_ways=True))
        for one in hosts:
            for direction in DIRECTIONS:
                chains[names.host_chain(one.interface, direction)] = tuple(write.untracked(one, direction))
    chains["cali-PREROUTING"] = tuple(incoming)
    return node.table(write, hooks, chains)


def mangle_table(node: NodeChains) -> Table:
    """Return the table mangle: preDNAT policies, and policy for packets of the host whose destination DNAT changes.

    For the latter, the table filter sees the outgoing interface from before DNAT. So it only marks the packet, and
    POSTROUTING decides. Without host endpoints the table is empty.
    """
    write = node.writer(MANGLE)
    hooks: list[HookRule] = []
    chains: Chains = failsafes.chains(node.settings, node.family)
    before_dnat = [one for one in node.hosts if one.pre_dnat]
    if before_dnat:
        hooks.append(HookRule("PREROUTING", IptablesRule((), jump("cali-PREROUTING"))))
        accept = tuple(write.accept(marked(node.marks.accept)))
        dispatch = (IptablesRule((), jump(names.FROM_HOST_ENDPOINT)),)
        chains["cali-PREROUTING"] = (*write.accept(ESTABLISHED), *accept, *dispatch, *accept)
        # A HostEndpoint without preDNAT policies still excludes its interface from the wildcard.
        others = [one.interface for one in node.hosts if not one.pre_dnat and one.interface != WILDCARD]
        chains[names.FROM_HOST_ENDPOINT] = (
            *(IptablesRule((comes_in_by(interface),), RETURN) for interface in others),
            *host_dispatch.dispatch(before_dnat, INGRESS),
        )
        for one in before_dnat:
            chains[names.host_chain(one.interface, INGRESS)] = tuple(write.pre_dnat(one))
    if node.hosts:
        hooks.append(HookRule("POSTROUTING", IptablesRule((), jump("cali-POSTROUTING"))))
        turned = (marked(node.marks.pending), state("DNAT"))
        chains["cali-POSTROUTING"] = (IptablesRule(turned, jump(names.TO_HOST_ENDPOINT)),)
        chains[names.TO_HOST_ENDPOINT] = host_dispatch.dispatch(
            node.hosts, EGRESS, not_by_wildcard=node.workload_interfaces
        )
        for one in node.hosts:
            chains[names.host_chain(one.interface, EGRESS)] = tuple(write.host(one, EGRESS))
    return node.table(write, hooks, chains)
