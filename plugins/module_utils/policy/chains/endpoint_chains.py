# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of endpoints: the order of policies and profiles, and the default if none of them decides.

Each chain clears the marks before it asks any policy. It jumps to the policies of a tier until one of them accepts or
passes the packet. The calling chain tests whether the packet is marked as accepted. The chains of workloads and of
packets of the host deny undecided packets, those of forwarded packets accept them. Those before DNAT and before
connection tracking leave undecided packets to these chains.
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
    """A writer of the chains of endpoints of one node, for the table of `writer`.

    Before any policy, the chains of hosts accept packets of established connections, drop those of invalid state if the
    settings want this, and accept those of failsafe ports. `forward` does not know failsafe ports, and `untracked` no
    connections. Methods raise KeyError if the node does not have a policy that a tier names.
    """

    def __init__(self, writer: RuleWriter, node: NodePolicy) -> None:
        self.writer = writer
        self.marks = writer.marks
        self.node = node

    # --- one method for each kind of chain

    def workload(
        self, tiers: tuple[TierPolicies, ...], profiles: tuple[str, ...], direction: str
    ) -> list[IptablesRule]:
        """Return the rules of the chain of a group of workloads with these tiers and profiles, in one direction."""
        return [IptablesRule((), clear_marks(self.marks.verdict)), *self._decide(tiers, direction, profiles, True)]

    def host(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """Return the rules for packets that the host itself receives ("Ingress") or sends ("Egress")."""
        return [
            *self._tracked(direction),
            *self._failsafes(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.tiers, direction, endpoint.profiles, True),
        ]

    def forward(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """Return the rules for forwarded packets.

        They are allowed unless a policy with applyOnForward, or the default action of its tier, denies them.
        """
        return [
            *self._tracked(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.forward, direction, None, True),
            IptablesRule((), set_marks(self.marks.accept)),
        ]

    def pre_dnat(self, endpoint: LocalEndpoint) -> list[IptablesRule]:
        """Return the rules for incoming packets before DNAT, by preDNAT policies alone. Undecided packets continue."""
        return [
            *self._tracked(model.INGRESS),
            *self._failsafes(model.INGRESS),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.pre_dnat, model.INGRESS, None, False),
        ]

    def untracked(self, endpoint: LocalEndpoint, direction: str) -> list[IptablesRule]:
        """Return the rules for packets before connection tracking, by doNotTrack policies alone.

        Undecided packets continue.
        """
        return [
            *self._failsafes(direction),
            IptablesRule((), clear_marks(self.marks.verdict)),
            *self._decide(endpoint.untracked, direction, None, False),
        ]

    # --- parts that several kinds of chains share

    def accept(self, *matching: str) -> t.Iterator[IptablesRule]:
        """Yield the rules that accept packets matching the conditions `matching`.

        With the allow action "Return", they mark the packet and return, so that rules of others see it.
        """
        if self.writer.settings.allow_action == RETURN_ACTION:
            yield IptablesRule(matching, set_marks(self.marks.accept))
            yield IptablesRule(matching, RETURN)
        else:
            yield IptablesRule(matching, ACCEPT)

    def drop_invalid(self, direction: str) -> t.Iterator[IptablesRule]:
        """Yield the rules of `drop_unasked` for packets of invalid state; none if the settings do not want this."""
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
        """Yield the rules of all tiers with policies in this direction, and then of the profiles.

        `last` means that no later hook decides, so that default actions of tiers apply. `profiles` is None at hooks
        without profiles; if it is (), packets that no tier decides are denied.
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
