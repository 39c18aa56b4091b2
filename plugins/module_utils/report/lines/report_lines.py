# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of a run: the state of the fleet, or what a plan would change."""

from __future__ import annotations

import typing as t

from ...fleet.node_answers import outcome
from ...fleet.paths import untried, verdict
from ...fleet.paths.verdict import PathVerdict
from ...state.derived.probe_paths import Untried
from . import path_lines

Results = t.Mapping[str, t.Mapping[str, t.Any]]


def plan(hosts: t.Sequence[str], plans: Results) -> list[str]:
    """Return one line for each host that could not be planned, one per phase, and one or two for the fleet."""
    usable = {host: answer for host, answer in plans.items() if outcome.usable(answer)}
    changing = [host for host, answer in usable.items() if answer.get("changed")]
    resets = sum(answer.get("sessions_reset", 0) for answer in usable.values())
    withdrawn = sum(answer.get("routes_withdrawn", 0) for answer in usable.values())
    lines = [f"! {host}: {outcome.reason(plans.get(host))}" for host in hosts if host not in usable]
    lines += phases(usable)
    if not changing:
        return [*lines, f"fleet  nothing to change on {len(usable)} of {len(hosts)} nodes"]
    lines += touched(usable)
    lines.append(
        f"fleet  {len(changing)} of {len(hosts)} nodes change · {resets} BGP sessions reset"
        f" · {withdrawn} routes withdrawn"
    )
    return lines


def new_files(plans: Results) -> list[str]:
    """Return a heading and one line for each new file, with its size and the nodes that get it; [] without any.

    Equal files are one entry of the line. The entries of a file that differs everywhere are the range of its sizes.
    """
    found: dict[str, dict[tuple[str, int], list[str]]] = {}
    for host, answer in sorted(plans.items()):
        for change in answer.get("changes", ()):
            if "digest" in change and "subject" in change:
                same = (change["digest"] or f"of {host}", change.get("size", 0))
                found.setdefault(change["subject"], {}).setdefault(same, []).append(host)
    if not found:
        return []
    width = min(max(map(len, found)), 60)
    lines = ["new files  (-e files=true shows their contents)"]
    for path, variants in sorted(found.items()):
        if len(variants) > _VARIANTS:
            sizes = [size for dummy, size in variants]
            hosts = [host for names in variants.values() for host in names]
            text = f"{min(sizes)} to {max(sizes)} bytes  {_names(hosts)}, each its own"
        else:
            text = " · ".join(f"{size} bytes  {_names(names)}" for (dummy, size), names in variants.items())
        lines.append(f"  {path:<{width}}  {text}")
    return lines


def touched(plans: Results) -> list[str]:
    """Return one line that says what changes on which nodes, if nodes or sessions are added; else an empty list."""
    if not any(answer.get("new") or answer.get("sessions_begun") for answer in plans.values()):
        return []
    groups: dict[str, list[str]] = {}
    for host, answer in sorted(plans.items()):
        groups.setdefault(_change_of(answer), []).append(host)
    order = {"new": 0, "unchanged": 2}
    parts = [f"{_names(groups[what])}: {what}" for what in sorted(groups, key=lambda what: (order.get(what, 1), what))]
    return [f"touched  {' · '.join(parts)}"]


def _change_of(answer: t.Mapping[str, t.Any]) -> str:
    """Return what changes on a node, by its plan: "new", "unchanged", "files", or such as "2 more sessions, rules"."""
    if answer.get("new"):
        return "new"
    if not answer.get("changed"):
        return "unchanged"
    kinds = {
        change["kind"]
        for change in answer.get("changes", ())
        if change["by"] == "node" and change["action"] in "-~+" and change["kind"] not in ("session", "file")
    }
    words = []
    for count, word in ((answer.get("sessions_begun", 0), "more"), (answer.get("sessions_reset", 0), "interrupted")):
        if count:
            words.append(f"{count} {word} session{'' if count == 1 else 's'}" if word == "more" else f"{count} {word}")
            kinds.discard("bird")
    return ", ".join([*words, *sorted(_WORDS.get(kind, kind) for kind in kinds)]) or "files"


#: The most variants of one file that a line names.
_VARIANTS = 3
#: Kinds of changes as people call them. The kind bird is that of bird.cfg and of the file with its passwords.
_WORDS = {"fdb": "FDB", "neighbor": "neighbours", "ipset": "sets", "iptables": "rules", "bird": "BIRD's configuration"}


def phases(plans: Results) -> list[str]:
    """Return one line for each phase of a change, with the number of changes and the nodes, or above six their number.

    Changes of sessions and objects that are kept (`=`) are not counted. The proofs between phases have no line.
    """
    counts: dict[str, dict[int, list[str]]] = {}
    for host, answer in sorted(plans.items()):
        for step in answer.get("phases", ()):
            count = sum(change["action"] != "=" and change["kind"] != "session" for change in step["changes"])
            counts.setdefault(step["phase"], {}).setdefault(count, []).append(host)
    lines = []
    for phase, groups in counts.items():
        texts = [
            f"{count} change{'' if count == 1 else 's'} on {_names(names)}" for count, names in sorted(groups.items())
        ]
        lines.append(f"{phase:<9} {' · '.join(texts)}")
    return lines


def confirmed(plans: Results) -> list[str]:
    """Return one line, with how many of the nodes that had to answer a new connection did; [] if none had to."""
    asked = [answer["confirmed"] for answer in plans.values() if "confirmed" in answer]
    return [f"confirm  {sum(asked)}/{len(asked)} nodes answered a new connection"] if asked else []


def _names(names: t.Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{len(names)} nodes"


class RunVerdict(t.NamedTuple):
    """The end of a run: its `lines`, the verdict on its paths, what was not tried, and `problem`.

    `problem` says why the run has failed by its paths, "" if it has not. A host that failed is no part of it: that host
    has failed its own task.
    """

    lines: list[str]
    paths: PathVerdict
    untried: list[Untried]
    problem: str


def converged(
    hosts: t.Sequence[str],
    plans: Results,
    convergence: Results,
    reachability: Results,
    elapsed: t.Optional[float],
    members: t.Collection[str] = (),
    max_lost_probes: int = 0,
    names: t.Optional[t.Mapping[str, str]] = None,
) -> RunVerdict:
    """Return the verdict of a run.

    A host has failed if its result in `plans` or in `convergence` is not usable. `plans`, `convergence` and
    `reachability` are the results of the modules `node`, `convergence_info` and `probe`, by host. The last two may be
    the fields `settled` in the results of `node` instead. `elapsed` is in seconds, None if it was not measured.
    `members` are the nodes of the fleet that may have workloads. `max_lost_probes` is the limit of `verdict.of_run`,
    and `names` has the names of nodes by their addresses.
    """
    lines = []
    good: list[str] = []
    up = wanted = 0
    for host in hosts:
        answer = convergence.get(host)
        sessions = (answer or {}).get("sessions", {})
        # The sums are halved below. A session between nodes is in the results of both of its nodes. One with an
        # external peer is in one result only, so it is added a second time.
        external = (answer or {}).get("external_sessions", 0)
        up += sessions.get("established", 0) + sessions.get("external_established", 0)
        wanted += sessions.get("expected", 0) + external
        if outcome.usable(answer) and outcome.usable(plans.get(host)):
            good.append(host)
            continue
        why = answer if answer is not None and not outcome.usable(answer) else plans.get(host)
        lines.append(f"! {host}: {outcome.reason(why)}")
    parts = [f"{len(good)}/{len(hosts)} nodes"]
    if wanted:
        parts.append(f"{up // 2}/{wanted // 2} sessions Established")
    paths = verdict.of_run(reachability, good, max_lost_probes)
    lines += [f"! {text}" for text in path_lines.problems(paths, names or {})]
    lines += path_lines.absent(paths)
    if paths.count:
        parts += [f"{paths.answered:,}/{paths.count:,} paths answer", f"{paths.lost:,} lost of {paths.sent:,} probes"]
    if paths.tolerated:
        parts.append(f"calico_node_max_lost_probes is {max_lost_probes:,}")
    gaps = _untried(hosts, good, reachability, members)
    parts += untried.clause(gaps)
    if elapsed is not None:
        parts.append(f"{elapsed:.0f} s")
    word = "converged" if len(good) == len(hosts) and not paths.failed else "incomplete"
    lines += [*confirmed(plans), *untried.line(gaps), f"{word}  {' · '.join(parts)}"]
    return RunVerdict(lines, paths, gaps, path_lines.failure(paths))


def _untried(
    hosts: t.Collection[str], good: t.Collection[str], reachability: Results, members: t.Collection[str]
) -> list[Untried]:
    """Return what a run did not try, with the nodes of `members` that sent no probes."""
    probed = {
        host: untried.from_data(answer.get("untried", ()))
        for host, answer in reachability.items()
        if outcome.usable(answer) and ("untried" in answer or "paths" in answer or "targets" in answer)
    }
    absent = {
        node: untried.FAILED if node in hosts else untried.NOT_IN_RUN
        for node in members
        if node not in probed or node not in good
    }
    return untried.of_run(probed, absent if len(members) > 1 else {})
