# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loss of a switch: its phases with the times of their gates, and what the watches of all nodes counted."""

from __future__ import annotations

import typing as t

from ..fleet.paths.probed import ProbedPath, probed, unwatched
from .lines import path_lines
from .model import Loss, LossyPath, SwitchPhase

Results = t.Mapping[str, t.Mapping[str, t.Any]]
#: The phases in their order, with the suffix of the variable that their gate registered.
GATES = ("prepare", "prove", "divert", "flip", "soak", "retire")
#: The most paths with losses that a report shows.
PATHS = 100
#: The form of strftime for a time in words.
MOMENT = "%Y-%m-%d %H:%M:%S %Z"


def measured(
    subject: str,
    gates: t.Mapping[str, t.Mapping[str, t.Any]],
    soaks: Results,
    switched: bool,
    local_time: t.Callable[[float, str], str],
    names: t.Optional[path_lines.Names] = None,
) -> Loss:
    """Return the loss by the gates' results, by phase, and the results of `soak` by host (readers.soak).

    `switched` says whether the change was made. `local_time` writes seconds since 1970 in a form of strftime. `names`
    has the names of nodes by their addresses.
    """
    tried = probed(soaks)
    paths = [shown_path(path, names or {}) for path in tried if path.lost or path.gap]
    by_second: dict[int, int] = {}
    watches = [answer.get("watch") or {} for answer in soaks.values()]
    for pair in (pair for watch in watches for pair in watch.get("lost_by_second", ())):
        if len(pair) == 2:
            by_second[pair[0]] = by_second.get(pair[0], 0) + pair[1]
    paths.sort(key=lambda path: (-path.lost, -path.gap, path.path))
    longest = max(paths, key=lambda path: path.gap, default=None)
    phases = _phases(gates, local_time)
    times = [gate["at"] for gate in gates.values() if gate.get("at")]
    return Loss(
        subject,
        when=local_time(max(times), MOMENT) if times else "",
        switched=switched,
        proof=not switched and "line" not in gates.get("flip", {}),  # a skipped gate has none
        phases=phases,
        sent=sum(path.sent for path in tried),
        lost=sum(path.lost for path in tried),
        paths=len(tried),
        gap=longest.gap if longest else 0.0,
        worst=longest.path if longest else "",
        resolution=max((watch.get("resolution", 0.0) for watch in watches), default=0.0),
        lossy=tuple(paths[:PATHS]),
        lossy_more=max(0, len(paths) - PATHS),
        by_second=tuple(sorted(by_second.items())),
        watched=max((watch.get("seconds", 0.0) for watch in watches), default=0.0),
        unwatched=tuple(unwatched(soaks)),
    )


def shown_path(path: ProbedPath, names: path_lines.Names) -> LossyPath:
    """Return the row of a path in the HTML report. `names` maps the addresses of nodes to their names."""
    return LossyPath(str(path), path.sent, path.lost, path.gap, path_lines.why(path.loss, names), path.pool)


def _phases(
    gates: t.Mapping[str, t.Mapping[str, t.Any]], local_time: t.Callable[[float, str], str]
) -> tuple[SwitchPhase, ...]:
    found = []
    first: t.Optional[float] = None
    for name in GATES:
        gate = gates.get(name)
        if not gate or "line" not in gate:
            continue
        at = gate.get("at")
        if at is not None and first is None:
            first = at
        line = str(gate["line"])
        found.append(
            SwitchPhase(
                name,
                line[len(name) :].strip() if line.startswith(name) else line,
                bool(gate.get("ok")),
                local_time(at, "%H:%M:%S") if at is not None else "",
                at - first if at is not None and first is not None else None,
            )
        )
    return tuple(found)
