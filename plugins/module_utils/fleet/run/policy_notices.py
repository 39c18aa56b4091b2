# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probable mistakes in an inventory's policy, with the file and line where each is written, as far as known."""

from __future__ import annotations

import typing as t

from ...policy.documents.from_resources import STAGED_PREFIX
from ..fleet import Fleet
from ..host import Host, origin
from ..lint.policies import policy_lint, probe_lint
from ..policy_parts import PolicyParts


def notices(fleet: Fleet, hosts: t.Sequence[Host]) -> tuple[str, ...]:
    """Return texts about probable mistakes in policy and denied probes, for readers of a plan; () without policy."""
    parts = fleet.policy
    if parts is None:
        return ()
    endpoints = [one for own in parts.own.values() for one in own]
    found = policy_lint.findings(parts.policy.policy_set, endpoints)
    told = {(one.kind, one.name) for one in found}
    found += [one for one in probe_lint.findings(fleet) if (one.kind, one.name) not in told]
    return tuple(_notice(one, parts, hosts) for one in found)


def _notice(found: policy_lint.PolicyFinding, parts: PolicyParts, hosts: t.Sequence[Host]) -> str:
    who = f"{found.kind} {found.name}"
    # The policy model gives a policy of a staged kind the kind of an enforced one, and a prefixed name. The keys of
    # `places` have the kind and the name as the inventory does.
    written = f"Staged{who.replace(STAGED_PREFIX, '')}" if STAGED_PREFIX in found.name else who
    place = parts.policy.places.get(written, "")
    if place.startswith("in "):
        place = place[len("in ") :]
    elif place:
        place = ": ".join(part for part in (origin(place, hosts), place) if part)
    return f"{place}: {who}: {found.text}" if place else f"{who}: {found.text}"
