# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about policy: the findings of the searches in this folder, with the places where the resources are written."""

from __future__ import annotations

import typing as t

from ....policy.documents.from_resources import STAGED_PREFIX
from ...fleet import Fleet
from ..finding import Issue
from ..network import LintedFleet
from . import policy_lint, port_lint, probe_lint
from .policy_lint import PolicyFinding


def odd_policy(network: LintedFleet) -> t.Iterator[Issue]:
    """Report rules and policies that are never reached, names that look mistyped, and HostEndpoints without policy.

    Also report tiers other than `default` without policy, and named ports in rules that no endpoint has.
    """
    for found in mistakes(network.fleet):
        yield _issue(network.fleet, found)


def denies_probes(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a HostEndpoint whose policies with `applyOnForward` deny the probes by which nodes test their paths.

    There is an issue for each direction and protocol. A HostEndpoint that `odd_policy` reports is left out.
    """
    for found in denied_probes(network.fleet):
        yield _issue(network.fleet, found)


def lets_ports_in(network: LintedFleet) -> t.Iterator[Issue]:
    """Report an ingress rule that denies workloads by selector or net, but not if they come by a published port.

    By the port they come as their node, which another rule allows. That is so with natOutgoing and
    `calico_nat_outgoing_exclusions: IPPoolsOnly`.
    """
    for found in port_lint.findings(network.fleet):
        yield _issue(network.fleet, found)


def mistakes(fleet: Fleet) -> list[PolicyFinding]:
    """Return the likely mistakes in a fleet's policy, [] without policy."""
    parts = fleet.policy
    if parts is None:
        return []
    return policy_lint.findings(parts.policy.policy_set, [one for own in parts.own.values() for one in own])


def denied_probes(fleet: Fleet, known: t.Optional[t.Sequence[PolicyFinding]] = None) -> list[PolicyFinding]:
    """Return the findings about HostEndpoints that deny probes, without those that have one in `known`.

    `known` are the mistakes of the fleet, None to have them searched if they are needed.
    """
    found = probe_lint.findings(fleet)
    if found and known is None:
        known = mistakes(fleet)
    named = {(one.kind, one.name) for one in known or ()}
    return [one for one in found if (one.kind, one.name) not in named]


def written_at(fleet: Fleet, found: PolicyFinding) -> tuple[str, str]:
    """Return (variable, file with line) of the resource that a finding is about; both are "" if they are unknown."""
    who = f"{found.kind} {found.name}"
    # The policy model gives a policy of a staged kind the kind of an enforced one, and a prefixed name. The keys of
    # `places` have the kind and the name as the inventory does.
    written = f"Staged{who.replace(STAGED_PREFIX, '')}" if STAGED_PREFIX in found.name else who
    place = fleet.policy.policy.places.get(written, "") if fleet.policy else ""
    return ("", place[len("in ") :]) if place.startswith("in ") else (place, "")


def _issue(fleet: Fleet, found: PolicyFinding) -> Issue:
    """Return the issue: the first sentence of the finding's text says what is wrong, the rest is the remedy."""
    who = f"{found.kind} {found.name}"
    variable, file = written_at(fleet, found)
    what, separator, remedy = found.text.partition(". ")
    what += "." if separator else ""
    return Issue(variable or who, f"({who}) {what}" if variable else what, remedy, file)
