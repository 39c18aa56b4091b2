# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of one node as values: its endpoints with the policies that apply, and the members of the sets in use."""

from __future__ import annotations

import dataclasses
import typing as t

from .model import Endpoint, NamedPortKey, Policy, PolicyProfile


@dataclasses.dataclass(frozen=True, slots=True)
class TierPolicies:
    """The names of the policies of one tier that apply to an endpoint, in order, including staged ones.

    A tier without such policies in a direction is skipped in that direction.
    """

    tier: str
    default_action: str
    ingress: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """An endpoint of this node on one interface. "*" means all host interfaces without an endpoint of their own.

    `tiers` are for packets that a workload, or the host itself, sends and receives through the interface. Only host
    endpoints have the others: `forward` (applyOnForward), `pre_dnat` for all incoming packets before DNAT (ingress
    only), and `untracked` for packets before connection tracking (doNotTrack).
    """

    endpoint: Endpoint
    interface: str
    tiers: tuple[TierPolicies, ...] = ()
    forward: tuple[TierPolicies, ...] = ()
    pre_dnat: tuple[TierPolicies, ...] = ()
    untracked: tuple[TierPolicies, ...] = ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the profiles, in the order in which they are tried if no tier decides.

        A profile that is missing in NodePolicy.profiles denies all packets that none before it accepts.
        """
        return self.endpoint.profiles


@dataclasses.dataclass(frozen=True)
class NodePolicy:
    """The policy that one node has to program.

    `endpoints` are sorted by kind and interface. `selector_members` maps each canonical selector to its addresses and
    CIDRs of both IP versions, sorted and unique; a single address has no prefix length. `named_port_members` maps each
    named port to its sorted, unique (address, port) pairs. Both contain only the sets that rules of `policies` and
    `profiles` need.
    """

    endpoints: tuple[LocalEndpoint, ...] = ()
    policies: t.Mapping[str, Policy] = dataclasses.field(default_factory=dict)
    profiles: t.Mapping[str, PolicyProfile] = dataclasses.field(default_factory=dict)
    selector_members: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    named_port_members: t.Mapping[NamedPortKey, tuple[tuple[str, int], ...]] = dataclasses.field(default_factory=dict)
