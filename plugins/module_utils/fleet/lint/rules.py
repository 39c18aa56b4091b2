# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rules, in the order in which their findings are told."""

from __future__ import annotations

import typing as t

from ...state.errors import FleetError, did_you_mean
from ..host import Host, origin
from . import announcements, placement, policy, pools, reach, reflectors, sessions, timers, underlay
from .finding import ERROR, WARNING, Finding, Odd
from .network import Network


class Rule(t.NamedTuple):
    """`check` tells what it means in the first line of its documentation."""

    name: str
    severity: str
    check: t.Callable[[Network], t.Iterable[Odd]]


RULES: tuple[Rule, ...] = (
    Rule("host-in-no-group", WARNING, placement.in_no_group),
    Rule("subnets-disagree", ERROR, placement.subnets_disagree),
    Rule("subnet-of-its-own", WARNING, placement.alone_in_its_subnet),
    Rule("no-common-family", WARNING, placement.no_common_family),
    Rule("address-on-no-device", ERROR, placement.on_no_device),
    Rule("address-moves", WARNING, placement.moves_between_hosts),
    Rule("no-spare-blocks", WARNING, placement.no_spare_blocks),
    Rule("pool-over-management", ERROR, pools.over_management),
    Rule("pool-for-nobody", WARNING, pools.for_nobody),
    Rule("pool-not-exported", WARNING, pools.not_exported),
    Rule("pool-nearly-full", WARNING, pools.nearly_full),
    Rule("pool-public-behind-nat", WARNING, pools.public_behind_nat),
    Rule("mtu-above-link", ERROR, underlay.above_the_link),
    Rule("node-without-session", ERROR, sessions.missing),
    Rule("blocks-do-not-arrive", ERROR, reach.incomplete),
    Rule("reflector-without-clients", WARNING, reflectors.without_clients),
    Rule("single-reflector", WARNING, reflectors.only_one),
    Rule("one-reflector-of-several", WARNING, reflectors.one_of_several),
    Rule("cluster-id-apart", ERROR, reflectors.apart_in_one_cluster),
    Rule("mesh-beside-reflectors", WARNING, reflectors.beside_the_mesh),
    Rule("mesh-too-large", WARNING, reflectors.mesh_too_large),
    Rule("peer-for-nobody", WARNING, sessions.for_nobody),
    Rule("peer-of-no-host", WARNING, sessions.of_no_host),
    Rule("as-number-of-another", ERROR, sessions.wrong_as),
    Rule("own-as-refused", ERROR, sessions.own_as_refused),
    Rule("session-one-sided", ERROR, sessions.one_sided),
    Rule("passwords-differ", ERROR, sessions.different_passwords),
    Rule("ttl-too-small", ERROR, sessions.ttl_too_small),
    Rule("tunnel-behind-router", ERROR, underlay.tunnel_behind_a_router),
    Rule("hold-below-keepalive", WARNING, timers.hold_below_keepalive),
    Rule("timers-too-short", WARNING, timers.too_short),
    Rule("restart-time-too-short", WARNING, timers.restart_too_short),
    Rule("bfd-on-one-side", WARNING, sessions.bfd_on_one_side),
    Rule("bfd-too-quick", WARNING, timers.bfd_too_quick),
    Rule("filter-unused", WARNING, announcements.unused_filter),
    Rule("filter-rule-unreached", WARNING, announcements.unreached_rule),
    Rule("community-unused", WARNING, announcements.unused_community),
    Rule("advertisement-of-no-block", WARNING, announcements.of_no_block),
    Rule("secret-unused", WARNING, announcements.unused_secret),
    Rule("odd-policy", WARNING, policy.odd_policy),
    Rule("probes-denied", WARNING, policy.denies_probes),
)


#: The variable that names rules whose findings are meant.
IGNORE = "calico_lint_ignore"


def named(names: t.Any) -> frozenset[str]:
    """The names of rules in calico_lint_ignore. Raises FleetError for what is none."""
    known = {rule.name for rule in RULES}
    for index, name in enumerate(names or ()):
        if name not in known:
            remedy = did_you_mean(str(name), known, "The rules are")
            raise FleetError(f"{IGNORE}[{index}]", name, "is not a rule of this release.", remedy)
    return frozenset(names or ())


def findings(network: Network, ignored: t.Collection[str] = ()) -> list[Finding]:
    """Errors first, then in the order of RULES. The work is linear in the number of hosts."""
    by_name = {host.name: host for host in (*network.hosts, *network.outside)}
    found = [
        Finding.of(rule.severity, rule.name, odd, _place(odd.variable, network.hosts, by_name))
        for rule in RULES
        if rule.name not in ignored
        for odd in rule.check(network)
    ]
    return sorted(found, key=lambda finding: finding.severity != ERROR)


def _place(variable: str, hosts: t.Sequence[Host], by_name: t.Mapping[str, Host]) -> str:
    owner = variable.partition(" of ")[2]
    return origin(variable, [by_name[owner]] if owner in by_name else hosts)
