# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that no probe tries, and why: what a run or a status must not call proven.

A path leads from one node to a block of another node. Which ones a node does not try is in
`state.derived.probe_paths`; this adds them up for a run and for a status, and puts them into words.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import typing as t

from ...ipam.allocation_plan import AllocationPlan
from ...state.derived.probe_paths import NAMED, PathEnd, Untried, missing
from ...state.node_state import Pool

NO_PROBES = "status.yml sends no probes"
NOT_IN_RUN = "not in this run"
FAILED = "unreachable or failed in this run"


def of_run(own: t.Mapping[str, t.Iterable[Untried]], absent: t.Mapping[str, str]) -> list[Untried]:
    """Return what a run did not try: pools by name, then nodes.

    `own` has what each node that probed did not try. `absent` has the reason of each node that did not probe.
    """
    found = sorted(_summed(itertools.chain.from_iterable(own.values())), key=lambda gap: (gap.pool, gap.reason))
    for reason in sorted(set(absent.values())):
        nodes = sorted(node for node in absent if absent[node] == reason)
        found.append(Untried("", reason, len(nodes), tuple(nodes[:NAMED])))
    return found


def by_any_run(plan: AllocationPlan) -> list[Untried]:
    """Return a plan's paths that no run tries, by pool: those that lack a probe address."""
    pools = [
        Pool(name, planned.cidr, planned.block_size, plan.encapsulations.get(name, "None"))
        for name, planned in sorted(plan.pools.items())
    ]
    names: dict[tuple[frozenset[str], frozenset[str]], list[str]] = {}
    ends: dict[tuple[frozenset[str], frozenset[str]], PathEnd] = {}
    for name, owner in sorted(plan.nodes.items()):
        blocks = frozenset(block.pool for block in (*owner.blocks, *owner.spare_blocks))
        alike = blocks, frozenset(owner.probes)  # the many nodes of a fleet are of a few kinds
        ends[alike] = PathEnd(blocks, owner.probes)
        names.setdefault(alike, []).append(name)
    probed = {pool for end in ends.values() for pool in end.probes}
    found = []
    for pool in pools:
        for other in ends:
            for own in ends if pool.name in other[0] else ():
                count = len(names[own]) * len(names[other]) - (len(names[own]) if own == other else 0)
                reason = missing(pool, ends[own], ends[other], probed)
                if reason is not None and count:
                    found.append(Untried(pool.name, reason, count, tuple(names[other][:NAMED])))
    return _summed(found)


def _summed(gaps: t.Iterable[Untried]) -> list[Untried]:
    """Return one Untried for each pool and reason in `gaps`, in the order of the first ones."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    nodes: dict[tuple[str, str], set[str]] = {}
    for gap in gaps:
        counts[gap.pool, gap.reason] += gap.count
        nodes.setdefault((gap.pool, gap.reason), set()).update(gap.nodes)
    return [Untried(*key, count, tuple(sorted(nodes[key])[:NAMED])) for key, count in counts.items()]


def of_status(hosts: t.Collection[str], plan: t.Optional[AllocationPlan]) -> list[Untried]:
    """Return what a status of `hosts` does not try: all their paths, and those of `plan` that no run tries."""
    everything = Untried("", NO_PROBES, len(hosts), tuple(sorted(hosts)[:NAMED]))
    return [everything, *(by_any_run(plan) if plan is not None else ())]


def lines_of_status(found: t.Sequence[Untried]) -> list[str]:
    """Return one line about the paths in what `of_status` found that no run tries either, [] if there are none."""
    never = [str(gap) for gap in found if gap.pool]
    return [f"not tried  by site.yml either: {' · '.join(never)}"] if never else []


def line(found: t.Sequence[Untried]) -> list[str]:
    """Return one line that names what was not tried, [] if nothing was left out."""
    return [f"not tried  {' · '.join(map(str, found))}"] if found else []


def clause(found: t.Sequence[Untried]) -> list[str]:
    """Return one clause that counts what was not tried, [] if nothing was left out: `12 paths not tried`."""
    paths = sum(gap.count for gap in found if gap.pool)
    nodes = sum(gap.count for gap in found if not gap.pool)
    counts = ((paths, "path"), (nodes, "node"))
    parts = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count]
    return [f"{' and '.join(parts)} not tried"] if parts else []


def to_data(found: t.Iterable[Untried]) -> list[dict[str, t.Any]]:
    """Return plain data for a task's result: dicts of pool, reason, count and nodes."""
    return [dataclasses.asdict(gap) for gap in found]


def from_data(found: t.Iterable[t.Mapping[str, t.Any]]) -> list[Untried]:
    """Return what `to_data` was given."""
    return [Untried(gap["pool"], gap["reason"], gap["count"], tuple(gap["nodes"])) for gap in found]
