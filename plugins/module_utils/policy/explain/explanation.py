# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A flow's path as text for people: the verdict, the rule that decided, all steps, and why rules did not match.

DENY   by platform.no-db#2 (tier platform), egress of default/web-1
  1 platform.allow-dns   egress   no match: destination port 5432 is not 53
  2 platform.no-db       egress   rule 1 no match: udp is not tcp
                                  MATCH rule 2: Deny
hint   app.db-access allows this, but its tier comes later
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ..hooks import FORWARD, NORMAL, applies_at
from ..model import ALLOW, DENY, LOG, PASS, Endpoint, Flow, LiveNames, Policy
from ..rule_words import flags
from .evaluator import ALLOWED, DENIED, EvaluationStep, Evaluator, Verdict
from .packet_path import Path, Stage, answer_to
from .rule_match import mismatch


def explain(
    path: Path,
    flow: Flow,
    evaluator: Evaluator,
    knowledge: t.Optional[t.Mapping[str, str]] = None,
    *,
    way: t.Sequence[str] = (),
    all_policies: bool = False,
    live: t.Optional[LiveNames] = None,
) -> list[str]:
    """Return the lines of text that explain `path`, the result of `Paths.of` for `flow`.

    `knowledge` maps names of endpoints to a text that says since when their data are known; only owners of the flow's
    two addresses are looked up. `way` is lines about the packet's route, which are inserted before the hints. With
    `all_policies`, each policy that does not apply at a stage is listed with the reason, else they are counted. `live`
    are the names of live documents, which the first line marks. Errors are those of `Evaluator.verdict`: hints try
    rules that the path did not.
    """
    lines = [_headline(path, live or LiveNames())]
    rows = [row for stage in path.stages for row in _rows(stage, path)]
    others = [row for stage in path.stages for row in _not_applying(stage, evaluator)]
    lines += _table([*rows, *others] if all_policies else rows)
    count = len({row.name for row in others} - set(_applying(path, evaluator)))
    if count and not all_policies:
        lines.append(f"other  {count} polic{'y does' if count == 1 else 'ies do'} not apply (verbose: which, and why)")
    lines += way
    lines += [f"hint   {hint}" for stage in path.stages for hint in _hints(stage, flow, evaluator)]
    owners = dict.fromkeys(
        owner.name for address in (flow.source, flow.destination) for owner in evaluator.addresses.of(address)
    )
    since: dict[str, list[str]] = {}
    for name in owners:
        if knowledge and name in knowledge:
            since.setdefault(knowledge[name], []).append(name)
    return lines + [f"known  {', '.join(names)}: {text}" for text, names in since.items()]


def to_document(path: Path, live: t.Optional[LiveNames] = None) -> dict[str, t.Any]:
    """Return `path` as a mapping for JSON, with "verdict" ("allow" or "deny"), "would_deny" and a list "stages".

    "would_deny" is true if the flow is allowed only because a host is in audit mode. In a stage, "endpoint" is a name,
    None if the host decides, "answer" whether it is about the answer to the flow, and "tried" the fields of each
    EvaluationStep. Where there may be live documents, whose names are `live`, each of these has a "source": "live" or
    "inventory", and "" for what is of no policy or tier.
    """
    return {
        "verdict": path.action,
        "would_deny": bool(would_deny(path)),
        "stages": [
            {
                "host": stage.host,
                "endpoint": stage.endpoint.name if stage.endpoint else None,
                "direction": stage.direction,
                "hook": stage.hook,
                "answer": stage.answer,
                "verdict": stage.verdict.action,
                "tried": [
                    {**dataclasses.asdict(step), **({} if live is None else {"source": _source(step, live)})}
                    for step in stage.verdict.trace
                ],
            }
            for stage in path.stages
        ],
    }


def decided_by(stage: Stage) -> str:
    """Return what decided at a stage, and where, as a text: "default/no-ssh#1 (ingress, HostEndpoint node1-eth0)".

    Instead of a policy's rule it may be "profile NAME#1", "the default of tier NAME", or "default (REASON)".
    """
    step, endpoint = stage.verdict.decided_by, stage.endpoint
    name = _name(step)
    why = "" if step.policy or step.profile or step.tier else f" ({step.reason})"
    whom = f"{endpoint.kind} {endpoint.name}" if endpoint else f"host {stage.host}"
    return f"{name}{why} ({stage.direction.lower()}, {whom}{', for the answer' if stage.answer else ''})"


def _source(step: EvaluationStep, live: LiveNames) -> str:
    if step.policy:
        return "live" if step.policy in live.policies else "inventory"
    return "" if not step.tier else "live" if step.tier in live.tiers else "inventory"


def _headline(path: Path, live: LiveNames) -> str:
    if not path.stages:
        return "ALLOW  nobody asks: neither address is that of a workload or a protected host here"
    if path.action == DENIED:
        return f"DENY   by {_deciders(path.stages[-1:], live)}"
    unheeded = would_deny(path)
    if unheeded:
        return f"ALLOW  audit mode: {_deciders(unheeded, live)}, would deny"
    allowing = [stage for stage in path.stages if stage.verdict.action == ALLOWED]
    # The default that allows forwarding is worth mentioning only if no other stage decided.
    telling = [stage for stage in allowing if stage.hook != FORWARD or stage.verdict.decided_by.policy]
    return f"ALLOW  by {_deciders(telling or path.stages, live)}"


def would_deny(path: Path) -> tuple[Stage, ...]:
    """Return the stages of an allowed path whose denial had no effect because of audit mode; () for a denied path."""
    return tuple(stage for stage in path.stages if path.action == ALLOWED and stage.verdict.action == DENIED)


def _deciders(stages: t.Sequence[Stage], live: LiveNames) -> str:
    return ", and ".join(f"{_decider(stage.verdict, live)}, {_where(stage)}" for stage in stages)


def _decider(verdict: Verdict, live: LiveNames) -> str:
    """Return the name of what decided, as `_name` does, and of a policy also its tier: "web#1 (tier platform)".

    That of a live document is marked: "web#1 (tier platform, live document)".
    """
    step = verdict.decided_by
    marks = [f"tier {step.tier}"] if step.policy else []
    if _source(step, live) == "live":
        marks.append("live document")
    return f"{_name(step)} ({', '.join(marks)})" if marks else _name(step)


def _name(step: EvaluationStep) -> str:
    """Return the name of a step's owner and rule, as in "default/no-ssh#1" or "the default of tier platform"."""
    rule = f"#{step.rule}" if step.rule else ""
    if step.policy:
        return f"{step.policy}{rule}"
    if step.profile:
        return f"profile {step.profile}{rule}"
    return f"the default of tier {step.tier}" if step.tier else "default"


def _where(stage: Stage) -> str:
    whom = stage.endpoint.name if stage.endpoint else stage.host
    return f"{_direction(stage)} of {whom}{' for the answer' if stage.answer else ''}"


def _direction(stage: Stage) -> str:
    return stage.direction.lower() if stage.hook == NORMAL else f"{stage.hook} {stage.direction.lower()}"


class _Row(t.NamedTuple):
    name: str
    direction: str
    texts: list[str]


def _rows(stage: Stage, path: Path) -> t.Iterator[_Row]:
    def owner(step: EvaluationStep) -> tuple[str, str, str]:
        return step.tier, step.policy, step.profile

    # A stage that ends without a decision has a last step without an action, which is no row: the next stage continues.
    trace = [step for step in stage.verdict.trace if step.action or not step.matched]
    for (tier, policy, profile), steps in itertools.groupby(trace, owner):
        tried = list(steps)
        name = policy or (f"profile {profile}" if profile else f"tier {tier}" if tier else "default")
        texts = [_text(step, len(tried) > 1) for step in tried]
        if stage in would_deny(path) and tried[-1] is stage.verdict.decided_by:
            texts[-1] += " (audit mode: logged and let through)"
        yield _Row(name, _direction(stage) + (" (answer)" if stage.answer else ""), texts)


def _text(step: EvaluationStep, among_others: bool) -> str:
    if not step.matched and not step.rule:
        return step.reason
    if not step.matched:
        rule = f"rule {step.rule} " if among_others else ""
        return f"{rule}no match: {step.reason}"
    if step.staged:
        return f"staged: would {step.action} by {f'rule {step.rule}' if step.rule else 'default'}"
    if not step.rule:
        return f"{step.action}: {step.reason}"
    return f"rule {step.rule}: logs" if step.action == LOG else f"MATCH rule {step.rule}: {step.action}"


def _table(rows: t.Sequence[_Row]) -> list[str]:
    if not rows:
        return []
    number = len(str(len(rows)))
    name = max(len(row.name) for row in rows)
    direction = max(len(row.direction) for row in rows)
    lines = []
    for index, row in enumerate(rows, 1):
        head = f"  {index:>{number}} {row.name:<{name}}  {row.direction:<{direction}}  "
        lines += [(head if not place else " " * len(head)) + text for place, text in enumerate(row.texts)]
    return lines


def _applying(path: Path, evaluator: Evaluator) -> t.Iterator[str]:
    """Yield the names of the policies that apply at a stage of the path, whether evaluated or not. Names may repeat."""
    for stage in path.stages:
        for policy in evaluator.selecting(stage.endpoint) if stage.endpoint else ():
            if stage.endpoint and applies_at(policy, stage.direction, stage.hook, stage.endpoint):
                yield policy.name


def _not_applying(stage: Stage, evaluator: Evaluator) -> t.Iterator[_Row]:
    if not stage.endpoint:
        return
    selecting = evaluator.selecting(stage.endpoint)
    labels = ", ".join(f"{label}={value}" for label, value in sorted(evaluator.labels(stage.endpoint).items()))
    for policy in evaluator.policy_set.policies:
        if policy not in selecting:
            whom = f"{stage.endpoint.name} ({labels or 'no labels'})"
            yield _Row(policy.name, _direction(stage), [f"does not apply: {policy.selector} does not select {whom}"])
        elif not applies_at(policy, stage.direction, stage.hook, stage.endpoint):
            types = ", ".join(policy.types)
            yield _Row(policy.name, _direction(stage), [f"does not apply here: it is for {types}{_special(policy)}"])


def _special(policy: Policy) -> str:
    words = flags(policy)
    return f" with {', '.join(words)}" if words else ""


def _hints(stage: Stage, flow: Flow, evaluator: Evaluator) -> t.Iterator[str]:
    if not stage.endpoint:
        return
    if stage.verdict.action == DENIED:
        packet = (answer_to(flow) if stage.answer else None) or flow
        yield from _later_allowing(stage, stage.endpoint, packet, evaluator)
        if stage.answer:
            yield "policies with doNotTrack decide on each packet alone: an answer needs rules of its own"
    staged = stage.verdict.would_deny
    if stage.verdict.action == ALLOWED and staged:
        names = dict.fromkeys(step.policy or f"the default of tier {step.tier}" for step in staged)
        yield f"{', '.join(names)} would deny this if it were not staged"


def _later_allowing(stage: Stage, endpoint: Endpoint, flow: Flow, evaluator: Evaluator) -> t.Iterator[str]:
    """Yield a hint for each enforced policy that applies and would allow the denied flow, but was not evaluated."""
    decided_by = stage.verdict.decided_by
    reached = {step.policy for step in stage.verdict.trace}
    passing = (step for step in stage.verdict.trace if step.action == PASS and step.matched and not step.staged)
    passed = {step.tier: step.policy for step in passing}
    for policy in evaluator.selecting(endpoint):
        if policy.name in reached or policy.staged:
            continue
        if not applies_at(policy, stage.direction, stage.hook, endpoint):
            continue
        matching = (rule for rule in policy.rules(stage.direction) if not mismatch(rule, flow, evaluator.addresses))
        action = next((rule.action for rule in matching if rule.action != LOG), "")
        if action == ALLOW and decided_by.action == DENY:
            if policy.tier == decided_by.tier:
                yield f"{policy.name} allows this, but it comes later"
            elif policy.tier in passed:
                yield f"{policy.name} allows this, but {passed[policy.tier]} passes it to the next tier before"
            else:
                yield f"{policy.name} allows this, but its tier comes later"
