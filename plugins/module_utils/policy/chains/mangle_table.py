# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table mangle: preDNAT policies, and what the host sends to an address that DNAT changes.

Of the latter the table filter sees the interface of before DNAT. It leaves the packet to POSTROUTING, marked.
"""

from __future__ import annotations

from ..model import EGRESS, INGRESS, WILDCARD
from . import failsafes, host_dispatch
from .node_chains import NodeChains
from .rules import names
from .rules.rule import ESTABLISHED, RETURN, Chains, Rule, comes_in_by, jump, marked, state
from .tables import MANGLE, Hook, Table


def table(node: NodeChains) -> Table:
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
