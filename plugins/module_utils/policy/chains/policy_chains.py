# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of policies and profiles: one per direction, shared by all endpoints to which they apply.

A rule that allows or passes goes to a chain that marks the packet. From there the packet returns to the endpoint's
chain, which tests the mark. So most rules are one line. A rule with lists of alternatives also has a line that clears
marks, one for each alternative, which sets a mark, and last lines that test these marks.
"""

from __future__ import annotations

import typing as t

from .. import model
from ..sets import ip_sets
from ..sets.ip_sets import PolicyIpSet
from .rules import log_prefix, names
from .rules.log_prefix import Reason
from .rules.marks import Marks
from .rules.rule import DROP, REJECT, Chains, IptablesRule, clear_marks, goto, log, marked, set_marks
from .rules.rule_conditions import Conditions, conditions
from .settings import REJECT as REJECT_ACTION
from .settings import ChainSettings
from .tables import FILTER, Chain, chain_of


class RuleWriter:
    """A writer of rules for one table and IP version, according to the settings.

    `matching` are the conditions of the rules, `reason` is what the log says. Nothing is logged if the NFLOG group in
    the settings is 0.
    """

    def __init__(self, settings: ChainSettings, marks: Marks, family: int, table: str) -> None:
        self.settings = settings
        self.marks = marks
        self.family = family
        self.table = table

    @property
    def drop(self) -> str:
        """The action for packets that policy denies: REJECT in the table filter if the settings say so, else DROP."""
        return REJECT if self.settings.deny_action == REJECT_ACTION and self.table == FILTER else DROP

    def deny(self, matching: tuple[str, ...], reason: Reason) -> t.Iterator[IptablesRule]:
        """Yield the rules for packets that policy denies: log and drop them, or in audit mode log and accept them."""
        if self.settings.audit:
            yield from self.note(matching, reason._replace(verdict=log_prefix.AUDIT))
            yield IptablesRule(matching, goto(names.ALLOWED))
        else:
            yield from self.note(matching, reason)
            yield IptablesRule(matching, self.drop)

    def drop_unasked(self, matching: tuple[str, ...], reason: Reason) -> t.Iterator[IptablesRule]:
        """Yield the rules that log and drop packets that no policy can allow, also in audit mode."""
        yield from self.note(matching, reason)
        yield IptablesRule(matching, DROP)

    def note(self, matching: tuple[str, ...], reason: Reason) -> t.Iterator[IptablesRule]:
        """Yield the rule that logs matching packets to the NFLOG group."""
        if self.settings.nflog_group:
            yield IptablesRule(matching, log(self.settings.nflog_group, log_prefix.prefix(reason)))

    def policy(self, policy: model.Policy, direction: str) -> Chain:
        """Return the chain of a policy in one direction, also if it is not among its types.

        Rules without `conditions` for the IP version are left out. A staged policy decides nothing: a rule that
        matches, unless its action is Log, marks the packet as staged and leaves the chain; Deny also logs it. Raise
        ValueError for a name of a protocol that is not in model.PROTOCOL_NUMBERS.
        """
        return self._chain(policy.rules(direction), direction, log_prefix.POLICY, policy.name, policy.staged)

    def profile(self, profile: model.PolicyProfile, direction: str) -> Chain:
        """Return the chain of a profile in one direction. Raise ValueError as `policy` does."""
        return self._chain(profile.rules(direction), direction, log_prefix.PROFILE, profile.name, False)

    def _chain(self, rules: tuple[model.PolicyRule, ...], direction: str, kind: str, name: str, staged: bool) -> Chain:
        written: list[IptablesRule] = []
        sets: dict[str, PolicyIpSet] = {}
        for number, rule in enumerate(rules, 1):
            try:
                found = conditions(rule, self.family)
            except KeyError as error:
                raise ValueError(
                    f"{direction.lower()} rule {number} of {kind} {name} has the protocol {error}, which this release"
                    f" does not know. Valid are numbers and {', '.join(model.PROTOCOL_NUMBERS)}."
                ) from error
            if found is not None:
                reason = Reason(log_prefix.DENY, direction, kind, number, name)
                written += self._rule(rule.action, found, reason, staged)
                for nets in found.nets:
                    set_name = ip_sets.nets_set(nets, self.family)
                    sets[set_name] = ip_sets.addresses(set_name, self.family, nets)
        return chain_of(tuple(written), tuple(sets.values()))

    def _rule(self, action: str, found: Conditions, reason: Reason, staged: bool) -> t.Iterator[IptablesRule]:
        matching = found.all_of
        if found.any_of:
            bits = (self.marks.first, self.marks.second)[: len(found.any_of)]
            yield IptablesRule((), clear_marks(sum(bits)))
            for bit, alternatives in zip(bits, found.any_of):
                for alternative in alternatives:
                    yield IptablesRule(alternative, set_marks(bit))
            matching = (*matching, marked(sum(bits)))
        if action == model.LOG:
            yield from self.note(matching, reason._replace(verdict=log_prefix.LOG))
        elif staged:
            if action == model.DENY:
                yield from self.note(matching, reason._replace(verdict=log_prefix.AUDIT))
            yield IptablesRule(matching, goto(names.STAGED))
        elif action == model.DENY:
            yield from self.deny(matching, reason)
        else:
            yield IptablesRule(matching, goto(names.PASSED if action == model.PASS else names.ALLOWED))


def marking_chains(marks: Marks) -> Chains:
    """Return a mapping with the chains that mark a packet as allowed, passed or decided by a staged policy."""
    return {
        names.ALLOWED: (IptablesRule((), set_marks(marks.accept)),),
        names.PASSED: (IptablesRule((), set_marks(marks.passed)),),
        names.STAGED: (IptablesRule((), set_marks(marks.staged)),),
    }
