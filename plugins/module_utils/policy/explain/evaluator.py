# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a flow at one endpoint, with all steps that led to it.

`calicoctl policy explain` shows it, and tests compare the compiled chains with it. The code is written to be read
beside Calico's documentation, not to be fast.

Order (Felix, rules/endpoints.go): tiers, in each tier the policies that apply to the endpoint, in each policy its
rules. The first rule that matches with Allow, Deny or Pass decides; Pass continues with the next tier. If policies of a
tier apply and none of them decides, the tier's default action does. After the last tier, the endpoint's profiles are
evaluated in turn, and a flow that none of them allows is denied.

Only the first packet of a flow is evaluated: replies and established flows pass by connection tracking. Decisions of
the host outside of policy (failsafes, encapsulation, workload to host) are in `packet_path.py`.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import selectors
from ..hooks import FORWARD, NORMAL, applies_at
from ..index.address_index import AddressIndex
from ..index.labels import Labels, effective_labels, labels_by_profile
from ..model import ALLOW, DENY, LOG, Endpoint, Flow, Policy, PolicyRule, PolicySet
from .rule_match import mismatch

#: Values of Verdict.action. "none": no policy at this hook decides, and the packet continues to the next hook.
ALLOWED, DENIED, UNDECIDED = "allow", "deny", "none"


@dataclasses.dataclass(frozen=True)
class EvaluationStep:
    """One step of an evaluation: a rule that was tried, an owner of rules that has none or does not exist, or an end.

    An end is a default action, a decision of the host (see `packet_path.py`), or that no policy decides at a hook.
    `tier` and `policy`, or `profile`, name the owner. For a tier's default action only `tier` is set, and for other
    ends none is. `rule` counts from 1, and is 0 if the step is not a rule. `action` is "Allow", "Deny", "Log" or
    "Pass", also of a rule that did not match, or "". `matched` is false only for a rule that did not match and for an
    owner without rules. `reason` says why, and is "" for a rule that matched. `staged` is true if the step decides
    nothing because its policy, or each one of its tier that applies, is staged.
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
    """The result of an evaluation at one hook. `action` is "allow", "deny" or "none".

    `trace` has all steps in order, at least one. The last one decides, or says that no policy does.
    """

    action: str
    trace: tuple[EvaluationStep, ...]

    @property
    def decided_by(self) -> EvaluationStep:
        return self.trace[-1]

    @property
    def would_deny(self) -> tuple[EvaluationStep, ...]:
        """The steps of the trace at which a staged policy would deny, or a tier's default if only staged ones apply."""
        return tuple(step for step in self.trace if step.staged and step.matched and step.action == DENY)


class Evaluator:
    """An evaluator of one policy set over the endpoints of all nodes.

    Methods raise SelectorError if a policy's selector is not valid, and what `mismatch` raises.
    """

    def __init__(self, policy_set: PolicySet, endpoints: t.Iterable[Endpoint] = ()) -> None:
        self.policy_set = policy_set
        self.endpoints = tuple(endpoints)
        self.addresses = AddressIndex(policy_set, self.endpoints)
        self._given = labels_by_profile(policy_set.profiles)
        self._profiles = {profile.name: profile for profile in policy_set.profiles}
        self._selected: dict[tuple[str, str], tuple[Policy, ...]] = {}

    def labels(self, endpoint: Endpoint) -> Labels:
        """Return the endpoint's own labels and those inherited from its profiles; own ones win."""
        return effective_labels(endpoint.labels, endpoint.profiles, self._given)

    def selecting(self, endpoint: Endpoint) -> tuple[Policy, ...]:
        """Return the policies whose selector matches the endpoint, in the order of evaluation. The result is cached."""
        key = (endpoint.kind, endpoint.name)
        if key not in self._selected:
            labels = self.labels(endpoint)
            self._selected[key] = tuple(
                policy for policy in self.policy_set.policies if selectors.parse(policy.selector).matches(labels)
            )
        return self._selected[key]

    def verdict(self, endpoint: Endpoint, direction: str, flow: Flow, hook: str = NORMAL) -> Verdict:
        """Return the verdict on `flow` at the endpoint in `direction`, "Ingress" or "Egress", at one of `hooks.HOOKS`.

        At NORMAL, the endpoint's profiles decide if no tier does, and a flow that none of them allows is denied. At
        UNTRACKED and PRE_DNAT, default actions and profiles do not count, and the action is "none" if no policy
        decides. At FORWARD, profiles do not count, and a flow is allowed if neither a policy nor a tier's default
        action decides.

        Staged policies decide nothing. If only staged policies of a tier apply, its default
        action decides nothing either. At NORMAL and FORWARD the trace has it, as staged, if none of their rules but Log
        rules matches.
        """
        trace: list[EvaluationStep] = []
        for tier in self.policy_set.tiers:
            applying = [
                policy
                for policy in self.selecting(endpoint)
                if policy.tier == tier.name and applies_at(policy, direction, hook, endpoint)
            ]
            action = ""
            staged_decided = False
            for policy in applying:
                where = EvaluationStep(tier=tier.name, policy=policy.name, staged=policy.staged)
                found = self._first_match(policy.rules(direction), flow, where, trace)
                if not policy.staged and found:
                    action = found
                    break
                staged_decided = staged_decided or bool(found)
            enforced = any(not policy.staged for policy in applying)
            # Tiers have no default actions at the other hooks, because later hooks decide about the packet.
            if applying and not action and hook in (NORMAL, FORWARD) and (enforced or not staged_decided):
                reason = "no policy of the tier that applies decides"
                trace.append(EvaluationStep(tier.default_action, True, reason, tier=tier.name, staged=not enforced))
                action = tier.default_action if enforced else ""
            if action == ALLOW:
                return Verdict(ALLOWED, tuple(trace))
            if action == DENY:
                return Verdict(DENIED, tuple(trace))
        if hook == NORMAL:
            return self._by_profiles(endpoint, direction, flow, trace)
        if hook == FORWARD:
            trace.append(EvaluationStep(ALLOW, True, "what is forwarded is allowed unless a policy denies it"))
            return Verdict(ALLOWED, tuple(trace))
        trace.append(EvaluationStep("", True, f"no {hook} policy decides"))
        return Verdict(UNDECIDED, tuple(trace))

    def _by_profiles(self, endpoint: Endpoint, direction: str, flow: Flow, trace: list[EvaluationStep]) -> Verdict:
        for name in endpoint.profiles:
            if name not in self._profiles:
                trace.append(EvaluationStep(DENY, True, "the profile does not exist", profile=name))
                return Verdict(DENIED, tuple(trace))
            action = self._first_match(self._profiles[name].rules(direction), flow, EvaluationStep(profile=name), trace)
            if action in (ALLOW, DENY):
                return Verdict(ALLOWED if action == ALLOW else DENIED, tuple(trace))
        reason = "no profile allows it" if endpoint.profiles else "the endpoint has no profile"
        trace.append(EvaluationStep(DENY, True, reason))
        return Verdict(DENIED, tuple(trace))

    def _first_match(
        self, rules: tuple[PolicyRule, ...], flow: Flow, where: EvaluationStep, trace: list[EvaluationStep]
    ) -> str:
        """Return the action of the first matching rule that is not a Log rule, or "" if there is none.

        `trace` gets a completed copy of `where` for each rule that was tried, or one copy if there are no rules.
        """
        if not rules:
            trace.append(dataclasses.replace(where, reason="has no rules in this direction"))
        for number, rule in enumerate(rules, 1):
            reason = mismatch(rule, flow, self.addresses)
            trace.append(dataclasses.replace(where, action=rule.action, matched=not reason, reason=reason, rule=number))
            if not reason and rule.action != LOG:
                return rule.action
        return ""
