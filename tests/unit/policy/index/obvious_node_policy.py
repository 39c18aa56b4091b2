# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's policy, computed in the slow and obvious way from the parts of the evaluator."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import hooks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    INGRESS,
    DefinedPort,
    Endpoint,
    NamedPortKey,
    PolicySet,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import (
    LocalEndpoint,
    NodePolicy,
    TierPolicies,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets import needed_sets


def node_policy(policy_set: PolicySet, endpoints: t.Sequence[Endpoint], node: str) -> NodePolicy:
    """Return the policy of `node`, with all policies, profiles and sets, also those that are not in use.

    HostEndpoints without an interface name are left out, because their interfaces are unknown here.
    """
    evaluator = Evaluator(policy_set, endpoints)
    local = [
        LocalEndpoint(
            one,
            one.interface,
            tiers=_tiers(evaluator, one, hooks.NORMAL),
            forward=_tiers(evaluator, one, hooks.FORWARD),
            pre_dnat=_tiers(evaluator, one, hooks.PRE_DNAT),
            untracked=_tiers(evaluator, one, hooks.UNTRACKED),
        )
        for one in sorted(endpoints, key=lambda one: (one.kind, one.interface, one.name))
        if one.node == node and one.interface
    ]
    keys = {key for owner in (*policy_set.policies, *policy_set.profiles) for key in needed_sets.of_rules(owner)}
    return NodePolicy(
        tuple(local),
        {policy.name: policy for policy in policy_set.policies},
        {profile.name: profile for profile in policy_set.profiles},
        {key: _selected(evaluator, key) for key in keys if not isinstance(key, NamedPortKey)},
        {key: _ports(evaluator, key) for key in keys if isinstance(key, NamedPortKey)},
    )


def _tiers(evaluator: Evaluator, endpoint: Endpoint, hook: str) -> tuple[TierPolicies, ...]:
    found = []
    for tier in evaluator.policy_set.tiers:
        by_direction = {
            direction: tuple(
                policy.name
                for policy in evaluator.selecting(endpoint)
                if policy.tier == tier.name and hooks.applies_at(policy, direction, hook, endpoint)
            )
            for direction in (INGRESS, EGRESS)
        }
        if any(by_direction.values()):
            found.append(TierPolicies(tier.name, tier.default_action, by_direction[INGRESS], by_direction[EGRESS]))
    return tuple(found)


def _selected(evaluator: Evaluator, selector: str) -> tuple[str, ...]:
    addresses = {one for endpoint in evaluator.endpoints for one in endpoint.addresses}
    nets = {net: one for one in evaluator.policy_set.network_sets for net in one.nets}
    parsed = selectors.parse(selector)
    index = evaluator.addresses
    found = {one for one in addresses if any(parsed.matches(b.labels) for b in index._by_address[one])}
    found |= {net for net in nets if any(parsed.matches(b.labels) for other, b in index._by_net if other == net)}
    return tuple(sorted(found))


def _ports(evaluator: Evaluator, key: NamedPortKey) -> tuple[tuple[str, int], ...]:
    parsed = selectors.parse(key.selector)
    found = {
        (address, port.port)
        for endpoint in evaluator.endpoints
        for address in endpoint.addresses
        for port in endpoint.ports
        if port == DefinedPort(key.name, key.protocol, port.port) and parsed.matches(evaluator.labels(endpoint))
    }
    return tuple(sorted(found))
