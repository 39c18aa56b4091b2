# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report on a run: what a plan would change where, or what a run has changed, and whether all paths answer."""

from __future__ import annotations

import dataclasses
import typing as t

from ..fleet.node_answers import outcome
from ..fleet.paths import probed
from ..state.derived.probe_paths import Untried
from . import drawing, switch_loss
from .lines import report_lines
from .model import ChangeGroup, FleetReport, Loss, Origin, ShownNode, ShownPlan, State
from .places import Links, Places

Results = t.Mapping[str, t.Mapping[str, t.Any]]
#: The most lines of one kind that are shown, and the most changes of one node that are looked at one by one.
_LINES, _PER_NODE = 120, 3000
#: The most lines of all kinds together.
_ALL_LINES = 1200
_ORDER = "!-~+="


class RunFacts(t.NamedTuple):
    """What the run itself knows: whether nothing was changed, its plan, approval, impact and warnings."""

    check: bool
    plan: str = ""
    approval: str = ""
    impact: t.Sequence[str] = ()
    warnings: t.Sequence[str] = ()
    phases: t.Sequence[str] = ()  # lines about the phases that were gone through
    problems: t.Sequence[str] = ()  # why a switch was not made
    untried: t.Sequence[Untried] = ()  # paths that the run did not try
    names: t.Mapping[str, str] = {}  # the names of nodes by their addresses


def report(
    origin: Origin,
    hosts: t.Sequence[str],
    plans: Results,
    changes: Results,
    reachability: Results,
    places: Places,
    facts: RunFacts,
    lines: t.Sequence[str],
    loss: t.Optional[Loss] = None,
) -> FleetReport:
    """Return the report of a run. `lines` are those that it prints at its end. The last one is the verdict.

    `plans` are the answers of the module `node`, of all steps of the run together (`of_steps`), `changes` the same with
    subjects (readers.CHANGES), and `reachability` those of `probe` or `soak`.
    """
    usable = {host: answer for host, answer in plans.items() if outcome.usable(answer)}
    put_back = loss is not None and not loss.switched
    links = Links(places, drawing.RING)
    tried = probed.probed(reachability)
    for path in tried:
        if path.other not in ("", path.host):
            links.probes(path.host, path.other, path.sent, path.lost)
    lossy = links.all()
    wrong = [line[2:] for line in lines if line.startswith("! ")]
    lost = sum(link.lost for link in lossy)
    paths = sorted((path for path in tried if path.lost), key=lambda path: (not path.silent, -path.lost, str(path)))
    plan = ShownPlan(
        made=not facts.check,
        put_back=put_back,
        hosts=len(hosts),
        changing=sum(bool(answer.get("changed")) for answer in plans.values()),
        resets=sum(answer.get("sessions_reset", 0) for answer in plans.values()),
        withdrawn=sum(answer.get("routes_withdrawn", 0) for answer in plans.values()),
        name=facts.plan,
        approval=facts.approval if facts.check else "",
        impact=tuple(facts.impact),
        phases=tuple(facts.phases or report_lines.phases(usable)),
        groups=groups(changes),
    )
    verdict = lines[-1] if lines else ""
    if put_back:
        wrong = [
            *facts.problems,
            *(f"{host}: {outcome.reason(plans.get(host))}" for host in hosts if host not in usable),
        ]
        verdict = f"  {len(usable)} of {len(hosts)} nodes run as before"
    state: State = "good" if len(usable) == len(hosts) and not wrong else "bad"
    if loss is not None and (loss.lost or not loss.switched):
        state = "bad"
    if lost and state == "good":
        state = "warn"  # within what the run allows, or to nodes that took no part: else the verdict names them
    if facts.check and state == "good" and (plan.changing or facts.warnings):
        state = "warn"
    return FleetReport(
        origin,
        state=state,
        word=_word(facts, loss, verdict),
        verdict=verdict.partition("  ")[2] or verdict,
        problems=tuple(wrong),
        warnings=tuple(facts.warnings),
        notes=tuple(f"Not tried: {gap}." for gap in facts.untried),
        nodes=tuple(
            _node(places.node(host), plans.get(host), changes.get(host), facts.check, put_back) for host in hosts
        ),
        links=lossy,
        paths=tuple(switch_loss.shown_path(path, facts.names) for path in paths[: switch_loss.PATHS]),
        paths_more=max(0, len(paths) - switch_loss.PATHS),
        pools=places.pools({}, {}),
        modes=places.route_modes(None),
        plan=plan,
        loss=loss,
    )


def _word(facts: RunFacts, loss: t.Optional[Loss], verdict: str) -> str:
    """Return what the run is or has become, in a few words."""
    if facts.check:
        return "Plan, nothing was changed"
    if loss is not None:
        lost = f"{loss.lost:,} of {loss.sent:,} probes lost" if loss.sent else "no probes counted"
        return f"Switched, {lost}" if loss.switched else "Not switched" if loss.proof else f"Not switched, {lost}"
    return verdict.partition("  ")[0].capitalize()


def _node(
    place: ShownNode,
    plan: t.Optional[t.Mapping[str, t.Any]],
    answer: t.Optional[t.Mapping[str, t.Any]],
    check: bool,
    put_back: bool,
) -> ShownNode:
    """Return the node at `place`, with its part of the run."""
    if not outcome.usable(plan) or plan is None:
        word = (
            "unreachable" if plan is not None and plan.get("unreachable") else "not put back" if put_back else "failed"
        )
        return dataclasses.replace(place, state="bad", word=word, detail=outcome.reason(plan))
    count = sum(change["action"] != "=" for change in (answer or {}).get("changes", ()))
    settled = plan.get("settled") or {}
    found = settled.get("sessions") or {}
    if not plan.get("changed"):
        word = "nothing to change" if check else "unchanged"
    else:
        word = "new node" if plan.get("new") else "changes" if check else "changed"
    if put_back:
        word = "as before"
    return dataclasses.replace(
        place,
        state="warn" if check and plan.get("changed") else "good",
        word=word,
        detail="; ".join(plan.get("cut", ())),
        sessions_up=found.get("established"),
        sessions_all=found.get("expected"),
        changes=count,
    )


def of_steps(steps: t.Iterable[Results]) -> dict[str, dict[str, t.Any]]:
    """Return the last result of `node` by host; what earlier steps of the run changed and interrupted is added."""
    found: dict[str, dict[str, t.Any]] = {}
    for results in steps:
        for host, result in results.items():
            if result.get("skipped"):
                continue
            before = found.get(host, {})
            after = {**result}
            for name in ("changed", "new"):
                after[name] = bool(before.get(name)) or bool(result.get(name))
            for name in ("sessions_begun", "sessions_reset", "routes_withdrawn"):
                after[name] = before.get(name, 0) + result.get(name, 0)
            found[host] = after
    return found


def changes_of_steps(steps: t.Iterable[Results]) -> dict[str, dict[str, t.Any]]:
    """Return the changes of all steps together by host. Each of `steps` has answers of readers.CHANGES by host."""
    found: dict[str, dict[str, t.Any]] = {}
    for answers in steps:
        for host, answer in answers.items():
            found.setdefault(host, {"changes": []})["changes"].extend(answer.get("changes", ()))
    return found


def phase_lines(phases: t.Mapping[str, Results]) -> list[str]:
    """Return one line for each phase, with the number of changes and the nodes. `phases` has answers by phase."""
    steps: dict[str, dict[str, t.Any]] = {}
    for phase, answers in phases.items():
        for host, answer in answers.items():
            if "changes" in answer:
                steps.setdefault(host, {"phases": []})["phases"].append({"phase": phase, "changes": answer["changes"]})
    return report_lines.phases(steps)


def groups(changes: Results) -> tuple[ChangeGroup, ...]:
    """Return the changes of all nodes by action and kind, those that break something first, and files last.

    Equal changes of several nodes are one line. A group has up to 120 lines, from 3,000 changes of each node.
    """
    counts: dict[tuple[str, str], int] = {}
    on: dict[tuple[str, str], set[str]] = {}
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    for host, answer in sorted(changes.items()):
        for index, change in enumerate(answer.get("changes", ())):
            key = (change["action"], change["kind"])
            counts[key] = counts.get(key, 0) + 1
            on.setdefault(key, set()).add(host)
            if index < _PER_NODE:
                lines.setdefault(key, {}).setdefault(_line(change), []).append(host)
    found: list[ChangeGroup] = []
    left = _ALL_LINES
    for key in sorted(counts, key=lambda key: (key[1] == "file", _ORDER.index(key[0]), -counts[key], key)):
        every = lines.get(key, {})
        shown = sorted(every.items(), key=lambda item: (-len(item[1]), item[0]))[: min(_LINES, left)]
        left -= len(shown)
        found.append(
            ChangeGroup(
                key[1],
                key[0],
                counts[key],
                len(on[key]),
                tuple((line, _names(hosts)) for line, hosts in shown),
                len(every) - len(shown),
            )
        )
    return tuple(found)


def _line(change: t.Mapping[str, t.Any]) -> str:
    before, after = change.get("before") or "", change.get("after") or ""
    if change["action"] == "~" and before and after:
        value = f"{before}  ->  {after}"
    else:
        value = before if change["action"] == "-" else after
    note = f"  ({change['note']})" if change.get("note") else ""
    return f"{change.get('subject', '')}  {value}{note}".strip()


def _names(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts) if len(hosts) <= 6 else f"{', '.join(hosts[:3])} and {len(hosts) - 3} more nodes"
