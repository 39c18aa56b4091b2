# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of all rules, in the order in which their findings are printed."""

from __future__ import annotations

import typing as t

from ...state.errors import FleetError, did_you_mean
from ..host import Host, origin
from . import announcements, placement, pools, reach, reflectors, sessions, timers, underlay
from .finding import ERROR, WARNING, Issue, LintFinding
from .network import LintedFleet
from .policies import policy
from .written import files, groups, values
from .written_inventory import WrittenInventory


class LintRule(t.NamedTuple):
    """A rule of `validate`. Its `check` takes a LintedFleet, or a WrittenInventory in WRITTEN, and returns the issues.

    The first line of the docstring of `check` begins with "Report". The rest of it is the rule's line in
    docs/reference/validate.md.

    A rule `of_the_whole` reports something that no other part of the inventory uses, matches, answers or permits. It is
    asked only if nothing in the inventory is refused: what it misses may be in a part that is. The findings of a rule
    `of_text` come from the text of files alone, so they never follow from an error.
    """

    name: str
    severity: str
    check: t.Callable[[t.Any], t.Iterable[Issue]]
    of_the_whole: bool = False
    of_text: bool = False


#: The rules that need no valid fleet. They are checked although a run refuses the inventory.
WRITTEN: tuple[LintRule, ...] = (
    LintRule("group-name", ERROR, groups.look_alike),
    LintRule("two-places", WARNING, groups.in_two_places),
    LintRule("reflector-with-workloads", WARNING, groups.reflector_with_workloads),
    LintRule("key-twice", ERROR, files.key_twice, of_text=True),
    LintRule("number-not-as-written", ERROR, files.odd_number, of_text=True),
    LintRule("group-key", ERROR, files.group_key, of_text=True),
    LintRule("document-without-effect", WARNING, files.without_effect, of_text=True),
    LintRule("variables-of-nobody", WARNING, files.of_nobody),
    LintRule("secret-in-clear-text", WARNING, files.clear_secret),
    LintRule("variable-misspelt", ERROR, values.misspelt),
    LintRule("variable-unknown", WARNING, values.unknown),
    LintRule("role-variable", ERROR, values.of_role),
    LintRule("label-is-boolean", WARNING, values.label_is_boolean),
)
_OF_FLEET: tuple[LintRule, ...] = (
    LintRule("host-in-no-group", WARNING, placement.in_no_group),
    LintRule("subnets-disagree", ERROR, placement.subnets_disagree),
    LintRule("subnet-of-its-own", WARNING, placement.alone_in_its_subnet),
    LintRule("no-common-family", WARNING, placement.no_common_family),
    LintRule("address-on-no-device", ERROR, placement.on_no_device),
    LintRule("address-moves", WARNING, placement.moves_between_hosts),
    LintRule("no-spare-blocks", WARNING, placement.no_spare_blocks),
    LintRule("pool-over-management", ERROR, pools.over_management),
    LintRule("pool-for-nobody", WARNING, pools.for_nobody, of_the_whole=True),
    LintRule("pool-not-exported", WARNING, pools.not_exported),
    LintRule("pool-nearly-full", WARNING, pools.nearly_full),
    LintRule("pool-public-behind-nat", WARNING, pools.public_behind_nat),
    LintRule("address-reserved", WARNING, pools.reserved),
    LintRule("mtu-above-link", ERROR, underlay.above_the_link),
    LintRule("node-without-session", ERROR, sessions.missing, of_the_whole=True),
    LintRule("blocks-do-not-arrive", ERROR, reach.incomplete, of_the_whole=True),
    LintRule("pool-unknown-to-routers", WARNING, reach.unknown_to_routers, of_the_whole=True),
    LintRule("reflector-without-clients", WARNING, reflectors.without_clients, of_the_whole=True),
    LintRule("single-reflector", WARNING, reflectors.only_one, of_the_whole=True),
    LintRule("one-reflector-of-several", WARNING, reflectors.one_of_several, of_the_whole=True),
    LintRule("cluster-id-apart", ERROR, reflectors.apart_in_one_cluster, of_the_whole=True),
    LintRule("mesh-beside-reflectors", WARNING, reflectors.beside_the_mesh),
    LintRule("mesh-too-large", WARNING, reflectors.mesh_too_large),
    LintRule("peer-for-nobody", WARNING, sessions.for_nobody, of_the_whole=True),
    LintRule("peer-of-no-host", WARNING, sessions.of_no_host, of_the_whole=True),
    LintRule("peer-at-own-address", WARNING, sessions.at_own_address),
    LintRule("as-number-of-another", ERROR, sessions.wrong_as),
    LintRule("as-numbers-of-one-address", WARNING, sessions.two_as_numbers),
    LintRule("own-as-refused", ERROR, sessions.own_as_refused, of_the_whole=True),
    LintRule("session-one-sided", ERROR, sessions.one_sided, of_the_whole=True),
    LintRule("passwords-differ", ERROR, sessions.different_passwords, of_the_whole=True),
    LintRule("ttl-too-small", ERROR, sessions.ttl_too_small),
    LintRule("tunnel-behind-router", ERROR, underlay.tunnel_behind_a_router),
    LintRule("hold-below-keepalive", WARNING, timers.hold_below_keepalive),
    LintRule("timers-too-short", WARNING, timers.too_short),
    LintRule("restart-time-too-short", WARNING, timers.restart_too_short),
    LintRule("bfd-on-one-side", WARNING, sessions.bfd_on_one_side, of_the_whole=True),
    LintRule("bfd-too-quick", WARNING, timers.bfd_too_quick),
    LintRule("filter-unused", WARNING, announcements.unused_filter, of_the_whole=True),
    LintRule("filter-rule-unreached", WARNING, announcements.unreached_rule),
    LintRule("community-unused", WARNING, announcements.unused_community, of_the_whole=True),
    LintRule("advertisement-of-no-block", WARNING, announcements.of_no_block, of_the_whole=True),
    LintRule("secret-unused", WARNING, announcements.unused_secret, of_the_whole=True),
    LintRule("odd-policy", WARNING, policy.odd_policy, of_the_whole=True),
    LintRule("probes-denied", WARNING, policy.denies_probes, of_the_whole=True),
    LintRule("deny-passed-by-port", WARNING, policy.lets_ports_in, of_the_whole=True),
)
RULES = (*WRITTEN, *_OF_FLEET)
#: The names of the rules with `of_the_whole`, and of those with `of_text`.
OF_THE_WHOLE = frozenset(rule.name for rule in RULES if rule.of_the_whole)
OF_TEXT = frozenset(rule.name for rule in RULES if rule.of_text)

#: The variable that names the rules whose findings are intended.
IGNORE = "calico_lint_ignore"


def named(names: t.Optional[t.Sequence[str]]) -> frozenset[str]:
    """Return calico_lint_ignore's checked value, or None, as a set. Raise FleetError if a name is not a rule's."""
    known = {rule.name for rule in RULES}
    for index, name in enumerate(names or ()):
        if name not in known:
            remedy = did_you_mean(name, known, "The rules are")
            raise FleetError(f"{IGNORE}[{index}]", name, "is not a rule of this release.", remedy)
    return frozenset(names or ())


def findings(network: LintedFleet, ignored: t.Collection[str] = ()) -> list[LintFinding]:
    """Return the findings of all rules but the `ignored` ones: errors before warnings, each in the order of RULES."""
    by_name = {host.name: host for host in (*network.hosts, *network.outside)}
    return sorted(
        [
            *written_findings(network.written, ignored),
            *_found(_OF_FLEET, network, ignored, network.hosts, by_name),
        ],
        key=lambda finding: finding.severity != ERROR,
    )


def written_findings(written: WrittenInventory, ignored: t.Collection[str] = ()) -> list[LintFinding]:
    """Return the findings of the rules in WRITTEN but the `ignored` ones: errors before warnings, in their order."""
    by_name = {host.name: host for host in written.hosts}
    return sorted(
        _found(WRITTEN, written, ignored, written.hosts, by_name), key=lambda finding: finding.severity != ERROR
    )


def _found(
    chosen: t.Sequence[LintRule],
    given: t.Any,
    ignored: t.Collection[str],
    hosts: t.Sequence[Host],
    by_name: t.Mapping[str, Host],
) -> t.Iterator[LintFinding]:
    for rule in chosen:
        if rule.name not in ignored:
            for issue in rule.check(given):
                place = _place(issue.variable, hosts, by_name)
                yield LintFinding.from_issue(rule.severity, rule.name, issue, place)


def _place(variable: str, hosts: t.Sequence[Host], by_name: t.Mapping[str, Host]) -> str:
    owner = variable.partition(" of ")[2]
    return origin(variable, [by_name[owner]] if owner in by_name else hosts)
