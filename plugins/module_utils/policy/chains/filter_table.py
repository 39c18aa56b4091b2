# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table filter: rules for packets to the host, from it and through it, in this order.

    INPUT     encapsulated packets, from nodes of the fleet only; packets from workloads; host endpoints
    FORWARD   incoming host endpoint, source workload, destination workload, outgoing host endpoint; the probe endpoint
              takes the place of a workload
    OUTPUT    workloads of this node, which the host may always reach; encapsulated packets; host endpoints

Each begins with the drop of packets of cut connections, if the settings want it. Without host endpoints there is no
OUTPUT. Packets of established connections are accepted before the lookup of a workload, and at the beginning of the
chain of a host endpoint.
"""

from __future__ import annotations

import typing as t

from ..model import EGRESS, INGRESS
from ..sets.ip_sets import ALL_HOSTS, name_of
from . import failsafes, host_dispatch, probe_rules, settings, workload_groups
from .endpoint_chains import EndpointChains
from .node_chains import DIRECTIONS, NodeChains
from .rules import log_prefix, names
from .rules.log_prefix import Reason
from .rules.rule import (
    ACCEPT,
    DROP,
    ESTABLISHED,
    RETURN,
    Chains,
    IptablesRule,
    clear_marks,
    comes_in_by,
    connection_marked,
    goes_out_by,
    goto,
    in_set,
    jump,
    marked,
    set_marks,
    state,
    unmarked,
)
from .tables import FILTER, HookRule, Table

_TO_HOST = {settings.ACCEPT: ACCEPT, settings.RETURN: RETURN, settings.DROP: DROP}


def table(node: NodeChains) -> Table:
    """Return the table filter of a node."""
    write = node.writer(FILTER)
    chains: Chains = {
        "cali-INPUT": tuple(_input(node, write)),
        "cali-FORWARD": tuple(_forward(node, write)),
        names.WORKLOAD_TO_HOST: tuple(_workload_to_host(node, write)),
    }
    hooks = [
        HookRule("INPUT", IptablesRule((), jump("cali-INPUT"))),
        HookRule("FORWARD", IptablesRule((), jump("cali-FORWARD"))),
    ]
    if node.settings.allow_action == settings.ACCEPT:
        # At the end of FORWARD, so that rules of others can still deny packets that policy allows.
        hooks.append(HookRule("FORWARD", IptablesRule((marked(node.marks.accept),), ACCEPT), last=True))
    for direction in DIRECTIONS:
        _workloads(node, write, direction, chains)
    if node.hosts:
        hooks.append(HookRule("OUTPUT", IptablesRule((), jump("cali-OUTPUT"))))
        chains["cali-OUTPUT"] = tuple(_output(node, write))
        _hosts(node, write, chains)
    return node.table(write, hooks, chains)


def _input(node: NodeChains, write: EndpointChains) -> t.Iterator[IptablesRule]:
    yield from _cut(node, write, INGRESS)
    for matching in _encapsulations(node):
        to_host = "-m addrtype --dst-type LOCAL"
        yield IptablesRule((*matching, in_set(name_of(node.family, ALL_HOSTS), "src"), to_host), ACCEPT)
        yield IptablesRule((*matching, to_host), DROP)
    for interface in node.workload_interfaces:
        yield IptablesRule((comes_in_by(interface),), goto(names.WORKLOAD_TO_HOST))
    if node.hosts:
        yield from write.accept(marked(node.marks.accept))
        yield IptablesRule((), clear_marks(node.marks.every))
        yield IptablesRule((), jump(names.FROM_HOST_ENDPOINT))
        yield from write.accept(marked(node.marks.accept))


def _cut(node: NodeChains, write: EndpointChains, direction: str) -> t.Iterator[IptablesRule]:
    """Yield the rules that log and drop packets of connections marked with `Marks.cut`, none if not in the settings.

    Deleting a connection's conntrack entry is not enough: a packet of the other end would create it again where policy
    allows that direction.
    """
    if node.settings.cut_marked_flows:
        reason = Reason(log_prefix.DENY, direction, log_prefix.HOST, 0, log_prefix.CUT)
        yield from write.writer.drop_unasked((connection_marked(node.marks.cut),), reason)


def _forward(node: NodeChains, write: EndpointChains) -> t.Iterator[IptablesRule]:
    yield from _cut(node, write, INGRESS)
    # At the beginning, clear the marks that the tables raw and mangle may have left, except for the one by which they
    # accept the packet. At the end, leave only the mark that accepts it, for the rule at the end of FORWARD.
    clear = IptablesRule((), clear_marks(node.marks.every & ~node.marks.accept))
    if node.hosts:
        yield clear
        yield IptablesRule((unmarked(node.marks.accept),), jump(names.FROM_HOST_FORWARD))
    for by, chain in ((comes_in_by, names.FROM_WORKLOAD), (goes_out_by, names.TO_WORKLOAD)):
        for interface in node.workload_interfaces:
            if node.settings.allow_action == settings.ACCEPT:
                # `chain` would accept packets of established connections, too. This rule saves them the jump.
                yield IptablesRule((by(interface), ESTABLISHED), ACCEPT)
            yield IptablesRule((by(interface),), jump(chain))
    if node.hosts:
        yield IptablesRule((), jump(names.TO_HOST_FORWARD))
        yield clear


def _output(node: NodeChains, write: EndpointChains) -> t.Iterator[IptablesRule]:
    yield from _cut(node, write, EGRESS)
    yield from write.accept(marked(node.marks.accept))
    for interface in node.workload_interfaces:
        yield IptablesRule((goes_out_by(interface),), RETURN)
    for matching in _encapsulations(node):
        to_fleet = in_set(name_of(node.family, ALL_HOSTS), "dst")
        yield IptablesRule((*matching, to_fleet, "-m addrtype --src-type LOCAL"), ACCEPT)
    yield IptablesRule((), clear_marks(node.marks.every))
    yield IptablesRule((state("DNAT"),), set_marks(node.marks.pending))
    yield IptablesRule((unmarked(node.marks.pending),), jump(names.TO_HOST_ENDPOINT))
    yield from write.accept(marked(node.marks.accept))


def _encapsulations(node: NodeChains) -> t.Iterator[tuple[str, ...]]:
    for one in node.settings.encapsulations:
        if one.ip_version == node.family:
            yield ("-p 4",) if one.kind == settings.IPIP else ("-p udp", f"-m udp --dport {one.port}")


def _workload_to_host(node: NodeChains, write: EndpointChains) -> t.Iterator[IptablesRule]:
    yield from write.accept(ESTABLISHED)
    if node.family == 6:
        for kind in settings.NEIGHBOR_DISCOVERY:
            yield IptablesRule(("-p 58", f"-m icmp6 --icmpv6-type {kind}"), ACCEPT)
    yield IptablesRule((), jump(names.FROM_WORKLOAD))
    action = node.settings.default_endpoint_to_host_action
    if action == settings.DROP:
        yield from write.writer.drop_unasked(
            (), Reason(log_prefix.DENY, EGRESS, log_prefix.HOST, 0, log_prefix.ENDPOINT_TO_HOST)
        )
    else:
        yield IptablesRule((), _TO_HOST[action])


def _workloads(node: NodeChains, write: EndpointChains, direction: str, chains: Chains) -> None:
    first, root, side = (
        (names.FROM_WORKLOAD, names.FROM_WORKLOAD_DISPATCH, "src")
        if direction == EGRESS
        else (names.TO_WORKLOAD, names.TO_WORKLOAD_DISPATCH, "dst")
    )
    chains[first] = (
        *write.accept(ESTABLISHED),
        *write.drop_invalid(direction),
        IptablesRule((), goto(root)),
    )

    def chain_of_group(group: str) -> str:
        return names.workload_chain(group, direction)

    unknown = Reason(log_prefix.DENY, direction, log_prefix.HOST, 0, log_prefix.UNKNOWN_INTERFACE)
    otherwise = tuple(write.writer.drop_unasked((), unknown))
    if node.settings.workload_source_spoofing:
        by = comes_in_by if direction == EGRESS else goes_out_by
        otherwise = (*workload_groups.by_interface(node.groups, by, chain_of_group), *otherwise)
    if node.family in node.settings.probes:
        # Behind the lookups of workloads, whose packets then do not pass this rule.
        by_probe, chain = probe_rules.WAYS[0 if direction == EGRESS else 1]
        otherwise = (IptablesRule((by_probe,), goto(chain)), *otherwise)
        chains[chain] = tuple(_probe(node, write, direction))
    chains.update(workload_groups.chains(node.dispatch, root, side, node.family, chain_of_group, otherwise))
    for group, rules in node.workload_chains(write, direction).items():
        chains[chain_of_group(group)] = rules


def _probe(node: NodeChains, write: EndpointChains, direction: str) -> t.Iterator[IptablesRule]:
    """Yield the rules for packets from the probe endpoint (egress) or to it. Related errors are accepted before."""
    yield from probe_rules.echoes(node.family, "dst" if direction == EGRESS else "src", goto(names.ALLOWED))
    reason = Reason(log_prefix.DENY, direction, log_prefix.HOST, 0, log_prefix.PROBE_ENDPOINT)
    yield from write.writer.drop_unasked((), reason)


def _hosts(node: NodeChains, write: EndpointChains, chains: Chains) -> None:
    chains.update(failsafes.chains(node.settings, node.family))
    chains[names.FROM_HOST_ENDPOINT] = host_dispatch.dispatch(node.hosts, INGRESS)
    chains[names.TO_HOST_ENDPOINT] = host_dispatch.dispatch(node.hosts, EGRESS)
    for direction, root in ((INGRESS, names.FROM_HOST_FORWARD), (EGRESS, names.TO_HOST_FORWARD)):
        chains[root] = host_dispatch.dispatch(node.hosts, direction, forward=True)
        for one in node.hosts:
            chains[names.host_chain(one.interface, direction)] = tuple(write.host(one, direction))
            forward = names.host_chain(one.interface, direction, forward=True)
            chains[forward] = tuple(write.forward(one, direction))
