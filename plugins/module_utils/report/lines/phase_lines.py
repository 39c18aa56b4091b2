# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts about a change in phases: a line for each phase, and why it was not made."""

from __future__ import annotations

import typing as t

from ...fleet.node_answers import outcome
from ...fleet.paths import probed, untried, verdict
from ...fleet.run.targets import Targets
from ...state.derived.probe_paths import Untried
from ...state.phase import Phase
from . import path_lines

Results = t.Mapping[str, t.Mapping[str, t.Any]]


def phase(
    name: str,
    hosts: t.Sequence[str],
    results: Results,
    targets: Targets,
    max_lost_probes: int = 0,
    names: t.Optional[t.Mapping[str, str]] = None,
) -> tuple[str, list[str]]:
    """Return the line about the phase `name`, and the problems that stop the change, an empty list for none.

    `results` are those of the phase, by host. Each host without a usable result is a problem. In the phases "prove" and
    "soak" the paths that make the verdict on them (`verdict.of_run`) fail are problems as well. Its limit is
    `max_lost_probes` in "soak", and 0 in "prove": a path is proven if a round of probes lost none. `names` has the
    names of nodes by their addresses.
    """
    problems = []
    for host in hosts:
        answer = results.get(host)
        if not outcome.usable(answer):
            problems.append(f"{host}: {outcome.reason(answer)}")
    if name in ("prove", "soak"):
        limit = max_lost_probes if name == "soak" else 0
        paths = verdict.of_run(results, [host for host in hosts if outcome.usable(results.get(host))], limit)
        problems += path_lines.problems(paths, names or {})
        line = _proven(results, paths) if name == "prove" else _soaked(results, paths)
        return line, problems
    done = f"{len(hosts) - len(problems)}/{len(hosts)}"
    texts: dict[str, str] = {
        Phase.PREPARE: "receive paths of both modes in place, packets held at the smaller MTU",
        Phase.FLIP: "routes replaced",
        Phase.RETIRE: "the old mode is gone",
    }
    if targets.moved:
        texts[Phase.PREPARE] = "receive paths of earlier and new addresses in place, packets held at the smaller MTU"
        texts[Phase.RETIRE] = "the earlier modes and addresses are gone"
    if targets.hold:
        texts = {
            Phase.PREPARE: "backup routes in place, sessions as they were",
            Phase.DIVERT: "all traffic goes into tunnels, sessions as they were",
            Phase.FLIP: "sessions changed",
            Phase.RETIRE: "backup routes are gone",
        }
        if targets.moved:
            texts[Phase.FLIP] = "sessions changed to the new addresses"
    text = texts.get(name, "") + (_kept(results) if name == Phase.RETIRE else "")
    return f"{name:<9} {done}  {text}".rstrip(), problems


def _proven(results: Results, paths: verdict.PathVerdict) -> str:
    good = sum(not path.lost for path in paths.paths)
    proven = f"prove     {good:,}/{paths.count:,} paths answer over the new routes, full size"
    untouched = f"{proven} (probes only, live traffic untouched)"
    return " · ".join([untouched, *(f"not tried: {gap}" for gap in _untried(results))])


def _soaked(results: Results, paths: verdict.PathVerdict) -> str:
    counted = f"soak      {paths.lost:,} lost of {paths.sent:,} probes over {paths.count:,} paths"
    worst = max(paths.paths, key=lambda path: path.gap, default=None)
    longest = f"{worst.gap:.1f} ms ({worst})" if worst is not None and worst.gap else "0.0 ms"
    unseen = probed.unwatched(results)
    parts = [counted + ("" if unseen else " since before the flip"), f"longest gap {longest}"]
    if paths.tolerated:
        parts.append(f"calico_node_max_lost_probes is {paths.limit:,}")
    if unseen:
        more = f" and {len(unseen) - 3} more" if len(unseen) > 3 else ""
        parts.append(f"the flip is not all counted on {', '.join(unseen[:3])}{more}")
    late = sum(path.late for path in paths.paths)
    if late:
        parts.append(f"{late} {'path' if late == 1 else 'paths'} answered only since the flip")
    return " · ".join([*parts, *untried.clause(_untried(results))])


def _untried(results: Results) -> list[Untried]:
    return untried.of_run({host: untried.from_data(answer.get("untried", ())) for host, answer in results.items()}, {})


def _kept(results: Results) -> str:
    kept = [f"{host}: {line}" for host, answer in sorted(results.items()) for line in answer.get("kept", ())]
    return f" ({'; '.join(kept)})" if kept else ""


def returned(
    hosts: t.Sequence[str],
    results: Results,
    causes: t.Sequence[str],
    targets: Targets,
    probes: t.Optional[Results] = None,
    max_lost_probes: int = 0,
    names: t.Optional[t.Mapping[str, str]] = None,
) -> str:
    """Return a text about why a change was not made, how many nodes run as before, and what the other nodes do.

    `results` are those of the return, by host; `targets` are those of the change. `probes` are the results of probes
    after it: the text ends with whether all paths between the nodes that run as before answer, or which ones do not.
    `max_lost_probes` and `names` are those of `phase`.
    """
    back = [host for host in hosts if outcome.usable(results.get(host))]
    left = [host for host in hosts if host not in back]
    what, meanwhile = "mode", "it accepts both modes"
    if targets.hold:
        what, meanwhile = "sessions", "backup routes hold its traffic"
    elif targets.moved:
        what, meanwhile = "addresses", "it accepts earlier and new addresses"
    lines = [f"The change of {what} did not go through.", *(f"  {cause}" for cause in causes[:20])]
    if len(causes) > 20:
        lines.append(f"  ... and {len(causes) - 20} more.")
    lines.append(f"{len(back)} of {len(hosts)} nodes run as before.")
    for host in left:
        answer = results.get(host)
        if targets.hold and answer is not None and answer.get("skipped"):
            lines.append(f"  {host} keeps backup routes: not all is there by BGP again. Run the playbook again.")
            continue
        reason = outcome.reason(answer)
        lines.append(f"  {host} could not be put back ({reason}): {meanwhile}. Run the playbook again.")
    return "\n".join([*lines, *_paths_after(back, probes or {}, max_lost_probes, names or {})])


def _paths_after(back: t.Sequence[str], probes: Results, limit: int, names: path_lines.Names) -> list[str]:
    """Return lines about the paths after a return, in which the nodes `back` run as before; [] if none was probed."""
    found = verdict.of_run({host: answer for host, answer in probes.items() if outcome.usable(answer)}, back, limit)
    silent = [host for host in back if host in probes and not outcome.usable(probes[host])]
    wrong = path_lines.problems(found, names) + path_lines.absent(found)
    wrong += [f"{host} did not try its paths ({outcome.reason(probes[host])})." for host in silent]
    if not found.count:
        return [f"  {line}" for line in wrong]
    if not wrong:
        return [
            f"All {found.count:,} paths answer as before." if found.count > 1 else "The only path answers as before."
        ]
    return [f"{found.answered:,} of {found.count:,} paths answer.", *(f"  {line}" for line in wrong)]
