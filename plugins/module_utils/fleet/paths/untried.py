# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that no probe tries, and why: what a run or a status must not call proven.

A path leads from one node to a block of another node. Nodes answer probes at the addresses of their tunnels alone, and
a node has one such address for each kind of tunnel. So a pool without a tunnel has no path that is tried, and of
several pools with the same kind of tunnel only one has.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import contains
from ...ipam.allocation_plan import AllocationPlan, NodeAllocations
from ...state.node_state import NodeIpam, Pool
from ..fleet import tunnel_kind

#: The most nodes that an Untried names.
NAMED = 6

WITHOUT_TUNNEL = "without a tunnel it has no address to probe"
OTHER_POOL = "the addresses of its tunnels are in another pool"
NO_ADDRESS = "nodes have no tunnel address in it"
NOT_ADVERTISED = "disableBGPExport keeps its routes from other nodes"
SAMPLED = "calico_node_probe_sample leaves them out"
NO_PROBES = "status.yml sends no probes"
NOT_IN_RUN = "not in this run"
FAILED = "unreachable or failed in this run"


@dataclasses.dataclass(frozen=True)
class Untried:
    """Paths that are not tried for one `reason`.

    They are `count` paths of `pool`; or with pool "" all paths of `count` nodes. `nodes` has the names of at most NAMED
    nodes, sorted: of those at the other end, or of the nodes that took no part.
    """

    pool: str
    reason: str
    count: int
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.pool:
            more = f" and {self.count - len(self.nodes)} more" if self.count > len(self.nodes) else ""
            return f"paths of {', '.join(self.nodes)}{more} ({self.reason})"
        return f"{self.count} {'path' if self.count == 1 else 'paths'} of pool {self.pool} ({self.reason})"


def address_in(pool: Pool, tunnels: t.Mapping[str, str], kinds: t.Container[t.Optional[str]]) -> t.Optional[str]:
    """Return the least of the `tunnels` (kind to address) of one of `kinds` that lies in the pool, None without one."""
    return next(
        (found for found in sorted(tunnels[kind] for kind in tunnels if kind in kinds) if contains(pool.cidr, found)),
        None,
    )


def reason_for(pool: Pool, owner: t.Union[NodeIpam, NodeAllocations]) -> t.Optional[str]:
    """Return why paths to an owner's blocks of `pool`, without an `address_in`, are untried; None without blocks."""
    if not any(block.pool == pool.name for block in (*owner.blocks, *owner.spare_blocks)):
        return None
    kind = tunnel_kind(pool)
    if kind is None:
        return WITHOUT_TUNNEL
    return OTHER_POOL if kind in owner.tunnels else NO_ADDRESS


def grouped(gaps: t.Mapping[tuple[str, str], t.Collection[str]]) -> list[Untried]:
    """Return an Untried for each (pool, reason) in `gaps`, whose values are the names of nodes at the other ends."""
    return [Untried(pool, reason, len(nodes), tuple(sorted(nodes)[:NAMED])) for (pool, reason), nodes in gaps.items()]


def of_run(own: t.Mapping[str, t.Iterable[Untried]], absent: t.Mapping[str, str]) -> list[Untried]:
    """Return what a run did not try: pools by name, then nodes.

    `own` has what each node that probed did not try. `absent` has the reason of each node that did not probe.
    """
    counts: dict[tuple[str, str], int] = {}
    names: dict[tuple[str, str], set[str]] = {}
    for gaps in own.values():
        for gap in gaps:
            key = gap.pool, gap.reason
            counts[key] = counts.get(key, 0) + gap.count
            names.setdefault(key, set()).update(gap.nodes)
    found = [Untried(*key, counts[key], tuple(sorted(names[key])[:NAMED])) for key in sorted(counts)]
    for reason in sorted(set(absent.values())):
        nodes = sorted(node for node in absent if absent[node] == reason)
        found.append(Untried("", reason, len(nodes), tuple(nodes[:NAMED])))
    return found


def by_any_run(plan: AllocationPlan) -> list[Untried]:
    """Return a plan's paths that no run tries, by pool. An unknown encapsulation counts as one without a tunnel."""
    pools = [
        Pool(name, planned.cidr, planned.block_size, plan.encapsulations.get(name, "None"))
        for name, planned in sorted(plan.pools.items())
    ]
    kinds = {tunnel_kind(pool) for pool in pools}
    gaps: dict[tuple[str, str], list[str]] = {}
    for name, owner in plan.nodes.items():
        for pool in pools:
            reason = reason_for(pool, owner)
            if reason is not None and address_in(pool, owner.tunnels, kinds) is None:
                gaps.setdefault((pool.name, reason), []).append(name)
    return [
        dataclasses.replace(gap, count=gap.count * (len(plan.nodes) - 1))
        for gap in grouped(gaps)
        if len(plan.nodes) > 1
    ]


def of_status(hosts: t.Collection[str], plan: t.Optional[AllocationPlan]) -> list[Untried]:
    """Return what a status of `hosts` does not try: all their paths, and those of `plan` that no run tries."""
    everything = Untried("", NO_PROBES, len(hosts), tuple(sorted(hosts)[:NAMED]))
    return [everything, *(by_any_run(plan) if plan is not None else ())]


#: The clause by which the verdict of a status says that it is none about paths.
OF_STATUS = "paths not tried"


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
