# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between two policies of a node, by the names of policies and rule by rule, for people."""

from __future__ import annotations

import collections
import difflib
import typing as t

from ...dataplane.change import Action, Change
from ...policy.model import (
    DEFAULT_TIER,
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    Endpoint,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
)
from ...policy.rule_words import flags, rule_count, rule_text
from ...policy.sets import ip_sets
from ...state.policy_state import ALLOW_ALL, PolicySettings, PolicyState

#: Sets and tables that a node has without policy as well, and that are shown one by one. The sets of the node's own
#: blocks and the table raw are not among them, although it has these too: with policy, they count as policy's.
_WITHOUT_POLICY = {
    "ipset": tuple(ip_sets.name_of(family, ip_sets.ALL_HOSTS) for family in (4, 6)),
    "iptables": ("nat",),
}
_WHAT = {"ipset": "sets", "iptables": "chains"}


class _Subject(t.NamedTuple):
    """The name of an object of a policy, such as `tier a` or `settings`; a policy may be called `settings`, too."""

    name: str
    is_policy: bool = False


class _Text(t.NamedTuple):
    """One object of a policy in words: in short, and line by line."""

    short: str
    lines: tuple[str, ...] = ()


def changes(old: t.Optional[PolicyState], new: t.Optional[PolicyState], node: str) -> list[Change]:
    """Return what turns policy `old` into `new` on `node`, for people only; None means no policy.

    First come changes of what `old` has, then what only `new` has, in the order of `_texts`. `detail` is a unified
    diff.
    """
    before, after = _texts(old, node), _texts(new, node)
    found = []
    for subject in dict.fromkeys([*before, *after]):
        was, will = before.get(subject), after.get(subject)
        if was == will:
            continue
        action: Action = "+" if was is None else "-" if will is None else "~"
        short = (was.short if was else None, will.short if will else None)
        note = _count(was.lines, will.lines) if was and will else ""
        found.append(Change("policy", action, subject.name, *short, note, detail=_detail(subject.name, was, will)))
    return found


def folded(plan: t.Sequence[Change]) -> list[Change]:
    """Return the changes of a plan, in which those of policy's chains are one change, and those of its sets another.

    These two are at the end, and count what is written and what is removed. Changes of the sets and tables in
    `_WITHOUT_POLICY` are left as they are.
    """
    kept: list[Change] = []
    hidden: dict[str, list[Change]] = {}
    for change in plan:
        if change.kind in _WHAT and change.action in "+~-" and not _without_policy(change):
            hidden.setdefault(change.kind, []).append(change)
        else:
            kept.append(change)
    for kind, group in hidden.items():
        actions = {change.action for change in group}
        action = actions.pop() if len(actions) == 1 else "~"
        counts = collections.Counter("removed" if change.action == "-" else "written" for change in group)
        words = ", ".join(f"{counts[word]} {word}" for word in ("written", "removed") if counts[word])
        before, after = (words, None) if action == "-" else (None, words)
        kept.append(Change(kind, action, f"{_WHAT[kind]} of policy", before, after))
    return kept


def _without_policy(change: Change) -> bool:
    return change.subject.split(" ")[0] in _WITHOUT_POLICY[change.kind]


def _count(before: t.Sequence[str], after: t.Sequence[str]) -> str:
    """Return `1 added, 2 removed`, counted in lines without numbers that are 0, or "in another order"."""
    gone, come = collections.Counter(before), collections.Counter(after)
    added, removed = sum((come - gone).values()), sum((gone - come).values())
    if not added and not removed:
        return "in another order"
    return ", ".join(f"{number} {word}" for number, word in ((added, "added"), (removed, "removed")) if number)


def _detail(subject: str, was: t.Optional[_Text], will: t.Optional[_Text]) -> str:
    before, after = (list(text.lines) if text else [] for text in (was, will))
    return "\n".join(difflib.unified_diff(before, after, f"policy {subject}", f"policy {subject}", lineterm=""))


# --- in words ---------------------------------------------------------------------------------------------------------


def _texts(state: t.Optional[PolicyState], node: str) -> dict[_Subject, _Text]:
    """Return the text of each object of the policy, in the order in which people read them; {} without a policy.

    The workloads of `node` are one object, and so are all endpoints of other nodes. The tier `default` and the profile
    ALLOW_ALL are left out.
    """
    if state is None:
        return {}
    found: dict[_Subject, _Text] = {}
    for tier in state.policy_set.tiers:
        if tier.name != DEFAULT_TIER:
            short = f"order {_number(tier.order)}, default action {tier.default_action}"
            found[_Subject(f"tier {tier.name}")] = _Text(short, (short,))
    for policy in state.policy_set.policies:
        found[_Subject(policy.name, is_policy=True)] = _Text(rule_count(policy), tuple(_policy(policy)))
    for profile in state.policy_set.profiles:
        if profile.name != ALLOW_ALL:
            found[_Subject(f"profile {profile.name}")] = _Text(rule_count(profile), tuple(_profile(profile)))
    for network_set in state.policy_set.network_sets:
        found[_Subject(f"network set {network_set.name}")] = _network_set(network_set)
    for one in state.endpoints:
        if one.node == node and one.kind == HOST_ENDPOINT:
            interface = (f"interface {one.interface}",) if one.interface else ()
            short = one.interface or ", ".join(one.addresses)
            found[_Subject(f"host endpoint {one.name}")] = _Text(short, (*interface, *_endpoint(one)))
    for here, subject in ((True, "workloads of this node"), (False, "endpoints of other nodes")):
        those = [one for one in state.endpoints if (one.node == node) == here]
        lines = [" ".join([one.name, *_endpoint(one)]) for one in those if not here or one.kind != HOST_ENDPOINT]
        if lines:
            found[_Subject(subject)] = _Text(str(len(lines)), tuple(sorted(lines)))
    found[_Subject("settings")] = _Text("", tuple(_settings(state.settings)))
    return found


def _policy(policy: Policy) -> t.Iterator[str]:
    yield f"kind {policy.kind}"
    yield f"tier {policy.tier}"
    if policy.order is not None:
        yield f"order {_number(policy.order)}"
    yield f"selector {policy.selector}"
    yield f"types {', '.join(policy.types)}"
    yield from flags(policy)
    if policy.staged:
        yield "staged"
    for direction in (INGRESS, EGRESS):
        if direction in policy.types:
            yield from (f"{direction.lower()}  {rule_text(rule)}" for rule in policy.rules(direction))


def _profile(profile: PolicyProfile) -> t.Iterator[str]:
    yield from (f"label {key}={value}" for key, value in profile.labels)
    for direction in (INGRESS, EGRESS):
        yield from (f"{direction.lower()}  {rule_text(rule)}" for rule in profile.rules(direction))


def _network_set(network_set: PolicyNetworkSet) -> _Text:
    count = len(network_set.nets)
    labels = [f"label {key}={value}" for key, value in network_set.labels]
    return _Text(f"{count} net{'' if count == 1 else 's'}", (*labels, *(f"net {net}" for net in network_set.nets)))


def _endpoint(endpoint: Endpoint) -> t.Iterator[str]:
    yield from endpoint.addresses
    yield from (
        f"{key}={value}" for key, value in endpoint.labels if not key.startswith(("pcns.", "projectcalico.org/"))
    )
    yield from (f"profile {name}" for name in endpoint.profiles)
    yield from (f"port {port.name}={port.port}/{port.protocol}" for port in endpoint.ports)


def _settings(settings: PolicySettings) -> t.Iterator[str]:
    yield f"audit {'on' if settings.audit else 'off'}"
    yield f"workloads to their host: {settings.default_endpoint_to_host_action}"
    yield f"allowed: {settings.allow_action}, denied: {settings.deny_action}"
    for direction, ports in (("inbound", settings.failsafe_inbound), ("outbound", settings.failsafe_outbound)):
        for port in ports:
            yield f"failsafe {direction} {port.protocol} {port.port}" + (f" {port.net}" if port.net else "")
    yield f"profiles of workloads without any: {', '.join(settings.workload_profiles) or 'none'}"
    yield f"NFLOG group {settings.nflog_group}"
    if not settings.drop_invalid:
        yield "packets that connection tracking finds invalid are not dropped"
    if settings.allow_vxlan_from_workloads:
        yield "workloads may send VXLAN"
    if settings.allow_ipip_from_workloads:
        yield "workloads may send IP-in-IP"
    if settings.cut_denied_flows:
        yield "connections that a new policy denies are cut"
    if settings.live:
        yield "live policy of the datastore is in force, too"
    yield f"mark mask {settings.mark_mask:#x}"


def _number(order: t.Optional[float]) -> str:
    return "none" if order is None else f"{order:g}" if order < 1e6 else f"{order:.0f}"
