# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about policy: the findings of policy_lint and probe_lint, with the places where the resources are written."""

from __future__ import annotations

import typing as t

from ....policy.documents.from_resources import STAGED_PREFIX
from ..finding import Issue
from ..network import LintedFleet
from . import policy_lint, probe_lint


def odd_policy(network: LintedFleet) -> t.Iterator[Issue]:
    """Report rules and policies that are never reached, names that look mistyped, and HostEndpoints without policy.

    Also report tiers other than `default` without policy, and named ports in rules that no endpoint has.
    """
    for found in _of_policy(network):
        yield _placed(network, found)


def denies_probes(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a HostEndpoint that denies the probes by which nodes test their paths.

    There is an issue for each direction and protocol. A HostEndpoint that `odd_policy` reports is left out.
    """
    told = {(one.kind, one.name) for one in _of_policy(network)}
    for found in probe_lint.findings(network.fleet):
        if (found.kind, found.name) not in told:
            yield _placed(network, found)


def _of_policy(network: LintedFleet) -> list[policy_lint.PolicyFinding]:
    parts = network.fleet.policy
    if parts is None:
        return []
    return policy_lint.findings(parts.policy.policy_set, [one for own in parts.own.values() for one in own])


def _placed(network: LintedFleet, found: policy_lint.PolicyFinding) -> Issue:
    who = f"{found.kind} {found.name}"
    parts = network.fleet.policy
    # The policy model gives a policy of a staged kind the kind of an enforced one, and a prefixed name. The keys of
    # `places` have the kind and the name as the inventory does.
    written = f"Staged{who.replace(STAGED_PREFIX, '')}" if STAGED_PREFIX in found.name else who
    place = parts.policy.places.get(written, "") if parts else ""
    file = place[len("in ") :] if place.startswith("in ") else ""
    label = "" if file else place
    what, remedy = _sentences(found.text)
    return Issue(label or who, None, f"({who}) {what}" if label else what, remedy, file)


def _sentences(text: str) -> tuple[str, str]:
    """Return the first sentence of `text`, which says what is wrong, and the rest, which is the remedy ("" if none)."""
    what, separator, remedy = text.partition(". ")
    return f"{what}{'.' if separator else ''}", remedy
