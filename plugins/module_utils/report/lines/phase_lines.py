# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts about a change in phases: a line for each phase, and why it was not made."""

from __future__ import annotations

import typing as t

from ...fleet.node_answers import outcome
from ...fleet.paths import untried
from ...fleet.run.targets import Targets
from ...state.phase import Phase
from . import probed_paths


def phase(
    name: str,
    hosts: t.Sequence[str],
    results: t.Mapping[str, t.Mapping[str, t.Any]],
    targets: Targets,
    max_lost_probes: int = 0,
) -> tuple[str, list[str]]:
    """Return the line about the phase `name`, and the problems that stop the change, an empty list for none.

    `results` are those of the phase, by host. Each host without a usable result is a problem, and so is each path with
    lost probes in the phases "prove" and "soak". Up to `max_lost_probes` lost probes of the phase "soak", summed over
    all paths, are no problem; if there are more, each path with a loss is one.
    """
    problems = []
    for host in hosts:
        answer = results.get(host)
        if not outcome.usable(answer):
            problems.append(f"{host}: {outcome.reason(answer)}")
    if name in ("prove", "soak"):
        return _probes(name, results, problems, max_lost_probes if name == "soak" else 0, targets)
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


def _probes(
    name: str, results: t.Mapping[str, t.Mapping[str, t.Any]], problems: list[str], max_lost_probes: int, to: Targets
) -> tuple[str, list[str]]:
    paths = probed_paths.probed(results)
    sent, lost = sum(path.sent for path in paths), sum(path.lost for path in paths)
    tolerated = 0 < lost <= max_lost_probes
    for path in paths if not tolerated else ():
        if path.lost:
            why = path.reason or f"{path.lost} of {path.sent} lost"
            gap = f", longest gap {path.gap:.1f} ms" if name == "soak" and path.gap else ""
            problems.append(f"{path}: {why}{gap}")
    gaps = untried.of_run({host: untried.from_data(answer.get("untried", ())) for host, answer in results.items()}, {})
    if name == "prove":
        good = sum(not path.lost for path in paths)
        where = "the routes to come" if to.hold or to.moved else "the new mode"
        proven = f"{name:<9} {good}/{len(paths)} paths answer over {where}, full size"
        untouched = f"{proven} (marked probes, live traffic untouched)"
        return " · ".join([untouched, *(f"not tried: {gap}" for gap in gaps)]), problems
    counted = f"{name:<9} {lost:,} lost of {sent:,} probes over {len(paths)} paths"
    worst = max(paths, key=lambda path: path.gap, default=None)
    longest = f"{worst.gap:.1f} ms ({worst})" if worst is not None and worst.gap else "0.0 ms"
    unseen = probed_paths.unwatched(results)
    parts = [counted + ("" if unseen else " since before the flip"), f"longest gap {longest}"]
    if tolerated:
        parts.append(f"calico_node_max_lost_probes is {max_lost_probes:,}")
    if unseen:
        more = f" and {len(unseen) - 3} more" if len(unseen) > 3 else ""
        parts.append(f"the flip is not all counted on {', '.join(unseen[:3])}{more}")
    late = sum(path.late for path in paths)
    if late:
        parts.append(f"{late} {'path' if late == 1 else 'paths'} answered only since the flip")
    parts += untried.clause(gaps)
    return " · ".join(parts), problems


def _kept(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    kept = [f"{host}: {line}" for host, answer in sorted(results.items()) for line in answer.get("kept", ())]
    return f" ({'; '.join(kept)})" if kept else ""


def returned(
    hosts: t.Sequence[str],
    results: t.Mapping[str, t.Mapping[str, t.Any]],
    causes: t.Sequence[str],
    hold: bool = False,
) -> str:
    """Return a text about why a change was not made, how many nodes run as before, and what the other nodes do.

    `results` are those of the return, by host. `hold` says whether backup routes carried traffic during the change.
    """
    back = [host for host in hosts if outcome.usable(results.get(host))]
    left = [host for host in hosts if host not in back]
    what = "The change of sessions" if hold else "The change of mode"
    lines = [f"{what} did not go through.", *(f"  {cause}" for cause in causes[:20])]
    if len(causes) > 20:
        lines.append(f"  ... and {len(causes) - 20} more.")
    lines.append(f"{len(back)} of {len(hosts)} nodes run as before.")
    for host in left:
        answer = results.get(host)
        if hold and answer is not None and answer.get("skipped"):
            lines.append(f"  {host} keeps backup routes: not all is there by BGP again. Run the playbook again.")
            continue
        meanwhile = "backup routes hold its traffic" if hold else "it accepts both modes"
        reason = outcome.reason(answer)
        lines.append(f"  {host} could not be put back ({reason}): {meanwhile}. Run the playbook again.")
    return "\n".join(lines)
