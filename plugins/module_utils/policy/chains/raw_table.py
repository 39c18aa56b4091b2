# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table raw, before connection tracking: checks on sources, and doNotTrack policies behind them.

What such a policy accepts is not tracked: its replies need a policy of their own.
Marks are cleared here, at the first sight of a packet: one that a tunnel delivers still has those of the outer packet.
"""

from __future__ import annotations

from ..model import EGRESS, INGRESS, WILDCARD
from . import failsafes, host_dispatch, source_checks
from .node_chains import DIRECTIONS, NodeChains
from .rules import names
from .rules.rule import ACCEPT, NOTRACK, Chains, Rule, clear_marks, jump, marked, marked_at_all
from .tables import RAW, Hook, Table


def table(node: NodeChains) -> Table:
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
