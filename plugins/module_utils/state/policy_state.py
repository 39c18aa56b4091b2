# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a NodeState: all that may apply on the node, whatever workloads come to it later."""

from __future__ import annotations

import dataclasses
import typing as t

from ..policy import model
from ..policy.chains import settings as chains
from ..policy.chains.rules.marks import DEFAULT_MASK
from ..policy.model import Endpoint, Failsafe, Policy, PolicyNetworkSet, PolicyProfile, PolicySet, PolicyTier
from .plain_data import Data, SharedValues, mapping_of, reader, to_plain

#: Calico's profile for host endpoints that it creates itself, and here the default profile of workloads. It allows
#: everything and need not be defined.
ALLOW_ALL = "projectcalico-default-allow"

#: The policy of an inventory without any: the tier `default`, empty.
NO_POLICY = model.policy_set()


def allow_all() -> PolicyProfile:
    allow = (model.PolicyRule(model.ALLOW),)
    return PolicyProfile(ALLOW_ALL, ingress=allow, egress=allow)


@dataclasses.dataclass(frozen=True)
class PolicySettings:
    """The settings around policy; policy/chains/settings.py defines their values.

    `workload_profiles` are the profiles of workloads that name none. `nflog_group` 0 turns logging off. With `audit`,
    packets that policy would drop are logged and accepted. With `cut_denied_flows`, a new policy ends the connections
    that it denies. `live`: documents of the datastore count beside the inventory's.
    """

    default_endpoint_to_host_action: str = chains.DROP
    deny_action: str = chains.DROP
    allow_action: str = chains.ACCEPT
    failsafe_inbound: tuple[Failsafe, ...] = chains.FAILSAFE_INBOUND
    failsafe_outbound: tuple[Failsafe, ...] = chains.FAILSAFE_OUTBOUND
    workload_profiles: tuple[str, ...] = (ALLOW_ALL,)
    drop_invalid: bool = True
    allow_vxlan_from_workloads: bool = False
    allow_ipip_from_workloads: bool = False
    nflog_group: int = 179
    audit: bool = False
    cut_denied_flows: bool = False
    mark_mask: int = DEFAULT_MASK
    live: bool = False

    @property
    def accepts_allowed(self) -> bool:
        """Whether packets that policy allows are accepted, and rules of others cannot drop them by default."""
        return self.allow_action == chains.ACCEPT

    def to_dict(self) -> Data:
        """Return all settings as plain data, also defaults: a later release that reads them may have others.

        `live` is left out at its default, because an earlier release does not know it.
        """
        found = {field.name: to_plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return found if self.live else {name: value for name, value in found.items() if name != "live"}


@dataclasses.dataclass(frozen=True)
class PolicyState:
    """The policies, endpoints and settings of one node.

    `endpoints` are the inventory's: this node's workloads and HostEndpoints, and those of other nodes that a selector
    or named port of a rule matches. Workloads that come to the node between runs are not among them.
    """

    policy_set: PolicySet = NO_POLICY
    endpoints: tuple[Endpoint, ...] = ()
    settings: PolicySettings = PolicySettings()

    def to_dict(self) -> Data:
        """Return the state as plain data for JSON; `from_dict` reads it."""
        return {
            "tiers": to_plain(self.policy_set.tiers),
            "policies": to_plain(self.policy_set.policies),
            "profiles": to_plain(self.policy_set.profiles),
            "network_sets": to_plain(self.policy_set.network_sets),
            "endpoints": to_plain(self.endpoints),
            "settings": self.settings.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: t.Mapping[str, t.Any]) -> PolicyState:
        """Return the state in `data`, the result of `to_dict`. Selectors are not parsed.

        Raise ValueError if `data` is not a PolicyState, or if `model.policy_set` refuses the policies.
        """
        fields = mapping_of(data)
        unknown = sorted(set(fields).difference(_KINDS))
        if unknown:
            raise ValueError(f"PolicyState has no field {unknown[0]!r}")
        known = SharedValues()
        try:
            found = {name: reader(kind)(fields[name], known) for name, kind in _KINDS.items()}
        except KeyError as error:
            raise ValueError(f"PolicyState lacks {error}") from error
        endpoints, settings = found.pop("endpoints"), found.pop("settings")
        return cls(model.policy_set(**found), endpoints, settings)


#: The type of each field of a PolicyState as plain data.
_KINDS: t.Mapping[str, t.Any] = {
    "tiers": tuple[PolicyTier, ...],
    "policies": tuple[Policy, ...],
    "profiles": tuple[PolicyProfile, ...],
    "network_sets": tuple[PolicyNetworkSet, ...],
    "endpoints": tuple[Endpoint, ...],
    "settings": PolicySettings,
}
