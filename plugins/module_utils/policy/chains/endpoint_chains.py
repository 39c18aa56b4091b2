# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of endpoints: which policies and profiles are asked in which order, and what happens if none decides.

Each begins with the marks cleared and ends with the packet dropped or marked as accepted; the chain that came here
looks at that mark. Policies of one tier are asked as long as none of them has accepted or passed.
"""

from __future__ import annotations

import typing as t

from .. import model
from ..node_policy import LocalEndpoint, NodePolicy, TierPolicies
from .policy_chains import RuleWriter
from .rules import log_prefix, names
from .rules.log_prefix import Reason
from .rules.rule import (
    ACCEPT,
    ESTABLISHED,
    INVALID,
    RETURN,
    IptablesRule,
    clear_marks,
    jump,
    marked,
    set_marks,
    undecided,
    unmarked,
)
from .settings import RETURN as RETURN_ACTION

Profiles = t.Optional[tuple[str, ...]]


class EndpointChains:
    """Writes the chains of endpoints of one node, for one table."""

    def __init__(self, writer: RuleWriter, node: NodePolicy) -> None:
        self.writer = writer
        self.marks = writer.marks
        self.node = node

    # --- one per kind of chain

    def workload(
        self, tiers: tuple[TierPolicies, ...], profiles: tuple[str, ...], direction: str
    ) -> list[IptablesRule]:
        """What comes here is neither established nor invalid: `cali-from-workload` saw to that."""
        return [IptablesRule((), clear_marks(self.marks.verdict)), *self._decide(tiers, direction, profiles, True)]

    def host(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """What the host itself receives or sends."""
        return [
            *self._tracked(direction),
            *self._failsafes(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.tiers, direction, endpoint.profiles, True),
        ]

    def forward(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """What is forwarded: allowed unless a policy with applyOnForward says otherwise."""
        return [
            *self._tracked(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.forward, direction, None, True),
            IptablesRule((), set_marks(self.marks.accept)),
        ]

    def pre_dnat(self, endpoint: LocalEndpoint) -> list[IptablesRule]:
        """What comes in, before DNAT. What is not decided goes on, to be judged by the other chains."""
        return [
            *self._tracked(model.INGRESS),
            *self._failsafes(model.INGRESS),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.pre_dnat, model.INGRESS, None, False),
        ]

    def untracked(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """Before connection tracking. What is not decided goes on."""
        return [
            *self._failsafes(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.untracked, direction, None, False),
        ]

    # --- what they have in common

    def accept(self, *matching: str) -> t.Iterator[IptablesRule]:
        """What policy has nothing more to say about: accepted, or so marked where rules of others are to see it."""
        if self.writer.settings.allow_action == RETURN_ACTION:
            yield IptablesRule(matching, set_marks(self.marks.accept))
            yield IptablesRule(matching, RETURN)
        else:
            yield IptablesRule(matching, ACCEPT)

    def drop_invalid(self, direction: str) -> t.Iterator[IptablesRule]:
        if self.writer.settings.drop_invalid:
            reason = Reason(log_prefix.DENY, direction, log_prefix.HOST, 0, log_prefix.INVALID_STATE)
            yield from self.writer.drop_unasked((INVALID,), reason)

    def _tracked(self, direction: str) -> t.Iterator[IptablesRule]:
        yield from self.accept(ESTABLISHED)
        yield from self.drop_invalid(direction)

    def _failsafes(self, direction: str) -> t.Iterator[IptablesRule]:
        yield IptablesRule((), jump(names.FAILSAFE_IN if direction == model.INGRESS else names.FAILSAFE_OUT))

    def _decide(
        self, tiers: tuple[TierPolicies, ...], direction: str, profiles: Profiles, last: bool
    ) -> t.Iterator[IptablesRule]:
        """`last`: no other hook decides after this one, so tiers have their default actions here. `profiles`: None at
        hooks where these are not asked.
        """
        asked = False
        for tier in tiers:
            applying = tier.ingress if direction == model.INGRESS else tier.egress
            if applying:
                yield from self._tier(tier, [self.node.policies[name] for name in applying], direction, asked, last)
                asked = True
        if profiles is not None:
            yield from self._by_profiles(profiles, direction)

    def _tier(
        self, tier: TierPolicies, policies: list[model.Policy], direction: str, asked: bool, last: bool
    ) -> t.Iterator[IptablesRule]:
        marks = self.marks
        if asked:
            yield IptablesRule((), clear_marks(marks.passed | marks.staged))
        fresh = True
        for policy in policies:
            yield IptablesRule(() if fresh else (undecided(marks),), jump(names.policy_chain(policy.name, direction)))
            fresh = fresh and policy.staged
        yield IptablesRule((marked(marks.accept),), RETURN)
        if not last or tier.default_action != model.DENY:
            return
        reason = Reason(log_prefix.DENY, direction, log_prefix.TIER, 0, tier.tier)
        if all(policy.staged for policy in policies):
            yield from self.writer.note((unmarked(marks.staged),), reason._replace(verdict=log_prefix.AUDIT))
        else:
            yield from self.writer.deny((unmarked(marks.passed),), reason)

    def _by_profiles(self, profiles: tuple[str, ...], direction: str) -> t.Iterator[IptablesRule]:
        accepted = self.marks.accept
        for index, name in enumerate(profiles):
            matching = (unmarked(accepted),) if index else ()
            if name not in self.node.profiles:
                reason = Reason(log_prefix.DENY, direction, log_prefix.PROFILE, 0, name)
                yield from self.writer.deny(matching, reason)
                break
            yield IptablesRule(matching, jump(names.profile_chain(name, direction)))
        if profiles:
            yield IptablesRule((marked(accepted),), RETURN)
        yield from self.writer.deny((), Reason(log_prefix.DENY, direction, log_prefix.NO_PROFILE, 0, ""))
