# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which points of a packet's way a policy applies (Felix: normal, forward, pre-DNAT and untracked tiers)."""

from __future__ import annotations

from .model import HOST_ENDPOINT, INGRESS, WILDCARD, Endpoint, Policy

#: A workload's traffic; what a host itself receives or sends.
NORMAL = "normal"
#: What is forwarded through a host endpoint.
FORWARD = "forward"
#: All that comes in by a host endpoint, before DNAT.
PRE_DNAT = "preDNAT"
#: All that passes a host endpoint, before connection tracking.
UNTRACKED = "untracked"

HOOKS = (UNTRACKED, PRE_DNAT, FORWARD, NORMAL)


def applies_at(policy: Policy, direction: str, hook: str, endpoint: Endpoint) -> bool:
    """Whether `policy`, if it selects `endpoint`, is asked there about a direction.

    doNotTrack and preDNAT take a policy out of all other hooks, and so away from workloads. applyOnForward adds to the
    normal one. What comes in by any interface cannot be untracked: that would take workloads' connections along.
    """
    if direction not in policy.types:
        return False
    if policy.do_not_track:
        return hook == UNTRACKED and endpoint.kind == HOST_ENDPOINT and endpoint.interface != WILDCARD
    if policy.pre_dnat:
        return hook == PRE_DNAT and endpoint.kind == HOST_ENDPOINT and direction == INGRESS
    if hook == FORWARD:
        return policy.apply_on_forward and endpoint.kind == HOST_ENDPOINT
    return hook == NORMAL
