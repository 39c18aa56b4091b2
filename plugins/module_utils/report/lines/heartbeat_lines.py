# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of all nodes by the heartbeats in the datastore: one row for each, then problems and a verdict."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...cli.render import heartbeat_cells, tables
from ...datastore.heartbeats import Heartbeat
from ...fleet.paths import untried
from ...state.derived.probe_paths import Untried
from . import member_lines, watch_lines
from .live_drift import LiveDrift


@dataclasses.dataclass(frozen=True)
class HeartbeatStatus:
    """The status of `hosts` by their heartbeats.

    `agents` are the hosts with an agent. `found` has heartbeats by node, `refused` the reason for each that cannot be
    read. `now` is in seconds since 1970. `members` is the number of members of the etcd cluster, 0 if they were not
    asked, and `silent_members` has the reason for each that does not answer. `drift` compares live policy with a
    folder, if that was asked.
    """

    hosts: t.Sequence[str]
    agents: t.Collection[str]
    found: t.Mapping[str, Heartbeat]
    refused: t.Mapping[str, str]
    now: float
    members: int = 0
    silent_members: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    drift: t.Optional[LiveDrift] = None

    def lines(self, gaps: t.Sequence[Untried] = ()) -> list[str]:
        """Return the table, lines about problems, equal live policy and paths that no run tries, and one for the fleet.

        `gaps` are those of `untried.of_status`.
        """
        rows = []
        for host in self.hosts:
            cells = heartbeat_cells.cells(self.found.get(host), self.now)
            if host not in self.agents and host not in self.found:
                cells = ("no agent", *cells[1:])
            elif host in self.refused:
                cells = ("not read !", *cells[1:])
            rows.append((host, *cells))
        lines = tables.columns(("NODE", *heartbeat_cells.HEADINGS), rows).splitlines()
        lines += [f"! {problem}" for problem in self.problems]
        lines += self.drift.lines if self.drift else ()
        return [*lines, *untried.lines_of_status(gaps), self.verdict]

    @functools.cached_property
    def troubled(self) -> frozenset[str]:
        """The hosts to blame for sessions that are down: without a fresh heartbeat, or with most of theirs down."""
        return frozenset(filter(self._is_troubled, self.hosts))

    def _is_troubled(self, host: str) -> bool:
        if host not in self.found:
            return host in self.agents or host in self.refused
        found = self.found[host]
        return not heartbeat_cells.is_fresh(found, self.now) or heartbeat_cells.mostly_down(found)

    @functools.cached_property
    def wrong(self) -> dict[str, list[str]]:
        """Clauses about errors by host. A session that is down with a `troubled` node is that node's fault."""
        return {host: list(self._wrong_of(host)) for host in self.hosts}

    @property
    def problems(self) -> list[str]:
        """Sentences about what is wrong."""
        found = [f"{host}: {what}" for host in self.hosts for what in self.wrong[host]]
        found += [*self._clock_here, *member_lines.problems(self.silent_members)]
        return [*found, *(self.drift.problems if self.drift else ())]

    @property
    def _clock_here(self) -> list[str]:
        """A sentence if the clock here is probably wrong: no heartbeat is fresh, and all are equally old."""
        ages = [one.age(self.now) for one in self.heartbeats]
        if len(ages) < 2 or any(heartbeat_cells.is_fresh(one, self.now) for one in self.heartbeats):
            return []
        if max(ages) - min(ages) > heartbeat_cells.STALE_SECONDS:
            return []
        age = min(ages)
        differs = f"{heartbeat_cells.duration(abs(age))} {'ahead' if age > 0 else 'behind'}"
        return [f"the clock here is probably {differs}: all heartbeats differ by that. Let it take the time by NTP."]

    def _wrong_of(self, host: str) -> t.Iterator[str]:
        if host in self.refused:
            yield f"its heartbeat is left out: {self.refused[host]}"
        elif host in self.found:
            yield from heartbeat_cells.wrong(self.found[host], self.now, self.troubled)
        elif host in self.agents:
            yield (
                "has sent no heartbeat yet. Its agent does not run, or does not reach the datastore: -e source=nodes "
                "asks the node itself."
            )

    @property
    def heartbeats(self) -> list[Heartbeat]:
        """The heartbeats of the hosts that have one."""
        return [self.found[host] for host in self.hosts if host in self.found]

    @property
    def _paths(self) -> list[watch_lines.Said]:
        absent = [watch_lines.NOT_WATCHED for host in self.hosts if host not in self.found]
        said = [watch_lines.NOT_ASKED if one.paths is None else one.paths for one in self.heartbeats]
        return [*said, *absent]

    @property
    def verdict(self) -> str:
        """The line about the whole fleet."""
        good = sum(not self.wrong[host] for host in self.hosts)
        word, nodes = ("good", "nodes") if good == len(self.hosts) else ("degraded", "nodes good")
        if self.silent_members or (self.drift and self.drift.problems):
            word = "degraded"
        parts = [f"{good}/{len(self.hosts)} {nodes}"]
        total = sum(one.sessions_total for one in self.heartbeats)
        if total:
            up = sum(one.sessions_established for one in self.heartbeats)
            parts.append(f"{up}/{total} sessions Established, counted at both ends")
        parts += [f"{sum(one.workloads for one in self.heartbeats)} workloads", watch_lines.verdict(self._paths)]
        parts += member_lines.verdict(self.members, self.silent_members)
        return f"{word}  {' · '.join(parts)}  (by heartbeats)"
