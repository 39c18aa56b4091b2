# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node must program: its endpoints with the policies that apply to them, and the members of sets in use."""

from __future__ import annotations

import dataclasses
import typing as t

from .model import Endpoint, NamedPortKey, Policy, PolicyProfile


@dataclasses.dataclass(frozen=True)
class TierPolicies:
    """The policies of one tier that apply to an endpoint, by name and in order, staged ones among them.

    A tier of which none applies in a direction is passed over in that direction.
    """

    tier: str
    default_action: str
    ingress: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class LocalEndpoint:
    """An endpoint of this node on one interface, "*" for all host interfaces without an endpoint of their own.

    `tiers` are for what a workload sends and receives, or what the host itself does through the interface. The others
    are of host endpoints only: `forward` for what is forwarded through it (applyOnForward), `pre_dnat` for all that
    comes in, before DNAT (ingress only), `untracked` before connection tracking (doNotTrack).
    """

    endpoint: Endpoint
    interface: str
    tiers: tuple[TierPolicies, ...] = ()
    forward: tuple[TierPolicies, ...] = ()
    pre_dnat: tuple[TierPolicies, ...] = ()
    untracked: tuple[TierPolicies, ...] = ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """Tried in this order where no tier decides. One that is not in NodePolicy.profiles denies everything."""
        return self.endpoint.profiles


@dataclasses.dataclass(frozen=True)
class NodePolicy:
    """`endpoints` are sorted by kind and interface; of several for one interface the one with the lowest name counts.

    `selector_members`: canonical selector -> addresses and CIDRs of both families, sorted, each once; a single address
    has no prefix length. `named_port_members`: -> pairs of address and port, likewise. Both hold just what the rules
    of `policies` and `profiles` need.
    """

    endpoints: tuple[LocalEndpoint, ...] = ()
    policies: t.Mapping[str, Policy] = dataclasses.field(default_factory=dict)
    profiles: t.Mapping[str, PolicyProfile] = dataclasses.field(default_factory=dict)
    selector_members: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    named_port_members: t.Mapping[NamedPortKey, tuple[tuple[str, int], ...]] = dataclasses.field(default_factory=dict)
