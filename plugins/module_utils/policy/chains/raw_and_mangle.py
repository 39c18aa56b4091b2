# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables raw and mangle: policy that acts before connection tracking, before DNAT, and on what DNAT changed."""

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
    Rule,
    clear_marks,
    comes_in_by,
    jump,
    marked,
    marked_at_all,
    state,
)
from .tables import MANGLE, RAW, Hook, Table


def raw_table(node: NodeChains) -> Table:
    """Return the table raw: checks on sources, and doNotTrack policies behind them.

    What such a policy accepts is not tracked: its replies need a policy of their own. Marks are cleared here, at the
    first sight of a packet: one that a tunnel delivers still has those of the outer packet.
    """
    write = node.writer(RAW)
    hosts = [one for one in node.hosts if one.untracked and one.interface != WILDCARD]
    # To write a mark costs more than to see that there is none, and this is asked of every packet of the host.
    clear = Rule((marked_at_all(node.marks.every),), clear_marks(node.marks.every))
    accepted = (marked(node.marks.accept),)
    accept = (Rule(accepted, NOTRACK), Rule(accepted, ACCEPT))
    incoming = [clear, *source_checks.rules(write.writer, node.workload_interfaces)]
    chains: Chains = source_checks.chains(write.writer, node.workload_interfaces)
    hooks = [Hook("PREROUTING", Rule((), jump("cali-PREROUTING")))]
    if hosts:
        incoming += [Rule((), jump(names.FROM_HOST_ENDPOINT)), *accept]
        hooks.append(Hook("OUTPUT", Rule((), jump("cali-OUTPUT"))))
        chains["cali-OUTPUT"] = (clear, Rule((), jump(names.TO_HOST_ENDPOINT)), *accept)
        chains[names.FROM_HOST_ENDPOINT] = host_dispatch.dispatch(hosts, INGRESS)
        chains[names.TO_HOST_ENDPOINT] = host_dispatch.dispatch(hosts, EGRESS)
        chains.update(failsafes.chains(node.settings, node.family, both_ways=True))
        for one in hosts:
            for direction in DIRECTIONS:
                chains[names.host_chain(one.interface, direction)] = tuple(write.untracked(one, direction))
    chains["cali-PREROUTING"] = tuple(incoming)
    return node.table(write, hooks, chains)


def mangle_table(node: NodeChains) -> Table:
    """Return the table mangle: preDNAT policies, and what the host sends to an address that DNAT changes.

    For the latter the table filter sees the interface of before DNAT. It leaves the packet to POSTROUTING, marked.
    """
    write = node.writer(MANGLE)
    hooks: list[Hook] = []
    chains: Chains = failsafes.chains(node.settings, node.family)
    before_dnat = [one for one in node.hosts if one.pre_dnat]
    if before_dnat:
        hooks.append(Hook("PREROUTING", Rule((), jump("cali-PREROUTING"))))
        accept = tuple(write.accept(marked(node.marks.accept)))
        dispatch = (Rule((), jump(names.FROM_HOST_ENDPOINT)),)
        chains["cali-PREROUTING"] = (*write.accept(ESTABLISHED), *accept, *dispatch, *accept)
        # A HostEndpoint without such policies keeps its interface from the wildcard all the same.
        others = [one.interface for one in node.hosts if not one.pre_dnat and one.interface != WILDCARD]
        chains[names.FROM_HOST_ENDPOINT] = (
            *(Rule((comes_in_by(interface),), RETURN) for interface in others),
            *host_dispatch.dispatch(before_dnat, INGRESS),
        )
        for one in before_dnat:
            chains[names.host_chain(one.interface, INGRESS)] = tuple(write.pre_dnat(one))
    if node.hosts:
        hooks.append(Hook("POSTROUTING", Rule((), jump("cali-POSTROUTING"))))
        turned = (marked(node.marks.pending), state("DNAT"))
        chains["cali-POSTROUTING"] = (Rule(turned, jump(names.TO_HOST_ENDPOINT)),)
        chains[names.TO_HOST_ENDPOINT] = host_dispatch.dispatch(
            node.hosts, EGRESS, not_by_wildcard=node.workload_interfaces
        )
        for one in node.hosts:
            chains[names.host_chain(one.interface, EGRESS)] = tuple(write.host(one, EGRESS))
    return node.table(write, hooks, chains)
