# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points on a packet's path at which a policy applies (Felix: normal, forward, pre-DNAT and untracked tiers)."""

from __future__ import annotations

from .model import HOST_ENDPOINT, INGRESS, WILDCARD, Endpoint, Policy

#: Packets that a workload, or a host itself, sends or receives.
NORMAL = "normal"
#: Packets that are forwarded through a host endpoint.
FORWARD = "forward"
#: Packets that come in by a host endpoint, before DNAT.
PRE_DNAT = "preDNAT"
#: Packets that pass a host endpoint, before connection tracking.
UNTRACKED = "untracked"

HOOKS = (UNTRACKED, PRE_DNAT, FORWARD, NORMAL)


def applies_at(policy: Policy, direction: str, hook: str, endpoint: Endpoint) -> bool:
    """Return whether `policy`, if it selects `endpoint`, applies at `hook` in `direction`, "Ingress" or "Egress".

    A policy with doNotTrack applies only at UNTRACKED, one with preDNAT only at PRE_DNAT to ingress, and both only to
    host endpoints. Any other policy applies at NORMAL, and with applyOnForward also at FORWARD of host endpoints.
    doNotTrack leaves out the HostEndpoint "*", because it would also affect connections of workloads.
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
