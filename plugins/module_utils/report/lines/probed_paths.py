# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that nodes probed, in the answers of the modules `probe` and `soak`."""

from __future__ import annotations

import typing as t

Results = t.Mapping[str, t.Mapping[str, t.Any]]


class ProbedPath(t.NamedTuple):
    """A path from `host` to the node `other` ("" if it is not known), and the probes on it.

    `gap` is the longest time without an answer in milliseconds. `late` says that the path answered only since the flip.
    """

    host: str
    other: str
    address: str
    sent: int
    lost: int
    gap: float
    reason: str
    late: bool

    def __str__(self) -> str:
        return f"{self.host} -> {self.other or self.address}"


def probed(results: Results) -> list[ProbedPath]:
    """Return the paths in the answers by host, in the order of hosts."""
    return [
        ProbedPath(
            host,
            target.get("name") or "",
            target["address"],
            target["sent"],
            target["lost"],
            target.get("longest_gap", 0.0),
            target.get("reason") or "",
            bool(target.get("silent")),
        )
        for host, answer in sorted(results.items())
        for target in answer.get("targets", ())
    ]


def unwatched(results: Results) -> list[str]:
    """Return "name (reason)" for each host that sent probes, but did not count them from before the flip on."""
    found = []
    for host, answer in sorted(results.items()):
        watch = answer.get("watch") or {}
        if answer.get("targets") and not watch.get("complete"):
            found.append(f"{host} ({watch.get('reason') or 'no watch was running'})")
    return found
