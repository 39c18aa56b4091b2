# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a flow at one endpoint, with everything that led to it: what `calicoctl policy explain` shows and what
the compiled chains are compared with. Written to be read beside Calico's documentation, not to be fast.

Order (Felix, rules/endpoints.go): tiers, in each the policies that apply to the endpoint, in each its rules. The first
rule that matches with Allow, Deny or Pass decides; Pass goes on with the next tier. What a tier's policies apply to and
do not decide meets its default action; a tier of which none applies is passed over. After the last tier the endpoint's
profiles are asked in turn, and what none allows is denied.

Only the first packet of a flow is asked about: replies and established flows pass by connection tracking. What the host
decides around policy (failsafes, encapsulation, workload to host) is in `packet_path.py`.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import selectors
from ..hooks import FORWARD, NORMAL, applies_at
from ..index.address_index import Bearers
from ..index.labels import Labels, effective_labels, labels_by_profile
from ..model import ALLOW, DENY, LOG, Endpoint, Flow, Policy, PolicySet, Rule
from ..rule_match import mismatch

#: Verdict.action. "none": nothing at this hook decides, and the packet goes on to the next.
ALLOWED, DENIED, UNDECIDED = "allow", "deny", "none"


@dataclasses.dataclass(frozen=True)
class Step:
    """One thing that was looked at.

    `tier` and `policy`, or `profile`, say where; of a tier's default action `policy` is empty, of the end of all both
    are. `rule` counts from 1; 0 is no rule: of a policy or profile without rules, or a default. `action` is what the
    rule says ("Allow", "Deny", "Log" or "Pass"), matched or not. `reason` says why not, or what a default is for.
    """

    action: str = ""
    matched: bool = False
    reason: str = ""
    tier: str = ""
    policy: str = ""
    profile: str = ""
    rule: int = 0
    staged: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`action` is "allow", "deny" or "none"; `trace` is never empty, and its last step is the one that decided."""

    action: str
    trace: tuple[Step, ...]

    @property
    def decided_by(self) -> Step:
        return self.trace[-1]

    @property
    def would_deny(self) -> tuple[Step, ...]:
        """Where staged policies that were reached would have denied the flow."""
        return tuple(step for step in self.trace if step.staged and step.matched and step.action == DENY)


class Evaluator:
    """Verdicts of one policy set over these endpoints, those of all nodes.

    With `enforce_staged` staged policies decide as if they were not: what would become of a flow.
    """

    def __init__(
        self, policy_set: PolicySet, endpoints: t.Iterable[Endpoint] = (), *, enforce_staged: bool = False
    ) -> None:
        self.policy_set = policy_set
        self.endpoints = tuple(endpoints)
        self.enforce_staged = enforce_staged
        self.bearers = Bearers(policy_set, self.endpoints)
        self._given = labels_by_profile(policy_set.profiles)
        self._profiles = {profile.name: profile for profile in policy_set.profiles}
        self._selected: dict[tuple[str, str], tuple[Policy, ...]] = {}

    def labels(self, endpoint: Endpoint) -> Labels:
        """Its own and inherited."""
        return effective_labels(endpoint.labels, endpoint.profiles, self._given)

    def selecting(self, endpoint: Endpoint) -> tuple[Policy, ...]:
        """The policies whose selector matches the endpoint, in the order of evaluation."""
        key = (endpoint.kind, endpoint.name)
        if key not in self._selected:
            labels = self.labels(endpoint)
            self._selected[key] = tuple(
                policy for policy in self.policy_set.policies if selectors.parse(policy.selector).matches(labels)
            )
        return self._selected[key]

    def verdict(self, endpoint: Endpoint, direction: str, flow: Flow, hook: str = NORMAL) -> Verdict:
        """What policy says to `flow` in `direction`, "Ingress" or "Egress" of the endpoint, at one of `hooks.HOOKS`.

        A staged policy decides nothing. A tier to which only such apply has no default action either, but what no rule
        of theirs matches is noted as what they would deny.
        """
        trace: list[Step] = []
        for tier in self.policy_set.tiers:
            applying = [
                policy
                for policy in self.selecting(endpoint)
                if policy.tier == tier.name and applies_at(policy, direction, hook, endpoint)
            ]
            action = ""
            staged_decided = False
            for policy in applying:
                staged = policy.staged and not self.enforce_staged
                where = Step(tier=tier.name, policy=policy.name, staged=staged)
                found = self._first_match(policy.rules(direction), flow, where, trace)
                if not staged and found:
                    action = found
                    break
                staged_decided = staged_decided or bool(found)
            enforced = any(self.enforce_staged or not policy.staged for policy in applying)
            # At the other hooks there is more policy to come, which has its own say.
            if applying and not action and hook in (NORMAL, FORWARD) and (enforced or not staged_decided):
                reason = "no policy of the tier that applies decides"
                trace.append(Step(tier.default_action, True, reason, tier=tier.name, staged=not enforced))
                action = tier.default_action if enforced else ""
            if action == ALLOW:
                return Verdict(ALLOWED, tuple(trace))
            if action == DENY:
                return Verdict(DENIED, tuple(trace))
        if hook == NORMAL:
            return self._by_profiles(endpoint, direction, flow, trace)
        if hook == FORWARD:
            trace.append(Step(ALLOW, True, "what is forwarded is allowed unless a policy denies it"))
            return Verdict(ALLOWED, tuple(trace))
        trace.append(Step("", True, f"no {hook} policy decides"))
        return Verdict(UNDECIDED, tuple(trace))

    def _by_profiles(self, endpoint: Endpoint, direction: str, flow: Flow, trace: list[Step]) -> Verdict:
        for name in endpoint.profiles:
            if name not in self._profiles:
                trace.append(Step(DENY, True, "the profile does not exist", profile=name))
                return Verdict(DENIED, tuple(trace))
            action = self._first_match(self._profiles[name].rules(direction), flow, Step(profile=name), trace)
            if action in (ALLOW, DENY):
                return Verdict(ALLOWED if action == ALLOW else DENIED, tuple(trace))
        reason = "no profile allows it" if endpoint.profiles else "the endpoint has no profile"
        trace.append(Step(DENY, True, reason))
        return Verdict(DENIED, tuple(trace))

    def _first_match(self, rules: tuple[Rule, ...], flow: Flow, where: Step, trace: list[Step]) -> str:
        """The action of the first rule that matches and is no Log, "" if none does. Adds to `trace` what it tries."""
        if not rules:
            trace.append(dataclasses.replace(where, reason="has no rules in this direction"))
        for number, rule in enumerate(rules, 1):
            reason = mismatch(rule, flow, self.bearers)
            trace.append(dataclasses.replace(where, action=rule.action, matched=not reason, reason=reason, rule=number))
            if not reason and rule.action != LOG:
                return rule.action
        return ""


def verdict(
    policy_set: PolicySet, endpoints: t.Iterable[Endpoint], endpoint: Endpoint, direction: str, flow: Flow
) -> Verdict:
    """What policy says to one flow. For many, make one Evaluator."""
    return Evaluator(policy_set, endpoints).verdict(endpoint, direction, flow)
