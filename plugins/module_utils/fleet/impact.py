# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run would interrupt in the fleet as a whole, told from the nodes' states, and whether that is allowed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ..base.addresses import family_of
from ..bgp import session_changes
from ..bgp.bird_state import Bird
from ..bgp.session_changes import SessionChange
from ..state.node_state import NodeState
from . import transition

_NAMED = 3  # as many of a kind are named, and how many more there are


@dataclasses.dataclass(frozen=True)
class Reset:
    """A session that ends or restarts, once for both of its ends: `ends` are two nodes, or a node and an address."""

    ends: tuple[str, str]
    external: bool
    text: str  # `restarts: cluster id`

    def __str__(self) -> str:
        return f"{self.ends[0]} with {self.ends[1]} {self.text}"


@dataclasses.dataclass(frozen=True)
class Impact:
    """`hold`: backup routes hold traffic meanwhile, in the phases of a change. They hold what nodes of the fleet send;
    what routers outside send to it goes by their sessions alone, so those of `resets` are bare. `withdrawn`: blocks
    (CIDR) that are announced and will not be. `hosts`: those whose state changes. `divert`: packets take backup routes
    into tunnels before sessions change."""

    resets: tuple[Reset, ...] = ()
    withdrawn: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    hold: bool = False
    divert: bool = False

    @property
    def bare(self) -> tuple[Reset, ...]:
        return tuple(reset for reset in self.resets if reset.external)

    def digest(self, plan: str) -> str:
        """Names this impact of the plan: another of either has another name."""
        content = [plan, [str(reset) for reset in self.resets], self.withdrawn, self.hosts]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def lines(self) -> list[str]:
        """Nothing where no session and no route is concerned."""
        found = []
        if self.resets:
            reasons: dict[str, int] = {}
            for reset in self.resets:
                reasons[reset.text] = reasons.get(reset.text, 0) + 1
            most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            texts = [f"{count} {text}" for text, count in most[:_NAMED]]
            if len(most) > _NAMED:
                texts.append(f"{sum(count for dummy, count in most[_NAMED:])} for other reasons")
            held = "backup routes hold the traffic between nodes" if self.hold else "nothing depends on them"
            found.append(f"sessions  {', '.join(texts)} · {held}")
        if self.bare:
            found.append(f"sessions  {len(self.bare)} of these with routers outside: {_some(self.bare)}")
        if self.withdrawn:
            found.append(f"routes    {len(self.withdrawn)} withdrawn: {_some(self.withdrawn)}")
        return found


@dataclasses.dataclass(frozen=True)
class ImpactLimits:
    """How much a run may do without being asked again; a negative number is no limit."""

    session_resets: int = -1
    external_resets: int = -1
    hosts_changed: int = -1
    routes_withdrawn: int = -1

    def exceeded(self, impact: Impact) -> list[str]:
        """In words, with the variable of the role that says so."""
        kinds: list[tuple[str, str, str, tuple[t.Any, ...], int]] = [
            ("reset", "session", "max_session_resets", impact.resets, self.session_resets),
            ("reset", "session", "max_external_resets", impact.bare, self.external_resets),
            ("change", "host", "max_hosts_changed", impact.hosts, self.hosts_changed),
            ("withdraw", "route", "max_routes_withdrawn", impact.withdrawn, self.routes_withdrawn),
        ]
        found = []
        for verb, noun, variable, items, limit in kinds:
            if 0 <= limit < len(items):
                plural = "" if len(items) == 1 else "s"
                outside = {
                    "max_external_resets": " with routers outside the fleet",
                    "max_hosts_changed": ", policy aside,",
                }.get(variable, "")
                found.append(
                    f"it would {verb} {len(items)} {noun}{plural}{outside} and calico_node_{variable} is {limit} "
                    f"({_some(items)})"
                )
        return found


def of_run(
    before: t.Mapping[str, t.Optional[NodeState]],
    after: t.Mapping[str, t.Optional[Bird]],
    announced: t.Collection[str],
    staying: t.Container[str],
    passwords: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
) -> Impact:
    """`before` and `after` by node, of the nodes that take part. `announced`: the blocks that the fleet will have;
    `staying`: all nodes that will be there; `passwords`: the names of those that change, by node."""
    resets: dict[tuple[tuple[str, str], int], Reset] = {}
    hold = divert = False
    for node, state in before.items():
        if state is None or node not in after:
            continue
        target, changing = after[node], (passwords or {}).get(node, ())
        hold = hold or transition.endangered(state, target, staying, changing)
        divert = divert or transition.diverts(state, target)
        for change in session_changes.resets(state.bird, target, changing):
            reset = _reset(node, change)
            resets.setdefault((reset.ends, family_of(change.address)), reset)
    known = {block for state in before.values() for block in announced_by(state)}
    return Impact(
        resets=tuple(sorted(resets.values(), key=lambda reset: reset.ends)),
        withdrawn=tuple(sorted(known.difference(announced))),
        hold=hold,
        divert=hold and divert,
    )


def changing(before: t.Mapping[str, t.Optional[NodeState]], after: t.Mapping[str, NodeState]) -> tuple[str, ...]:
    """The hosts of `after` whose state differs, for Impact.hosts: the dearest part of it."""
    return tuple(node for node, state in before.items() if node in after and _changes(state, after[node]))


def _reset(node: str, change: SessionChange) -> Reset:
    if change.external:
        return Reset((node, change.address), True, change.text)
    one, other = sorted((node, change.node))
    return Reset((one, other), False, change.text)


def announced_by(state: t.Optional[NodeState]) -> t.Iterator[str]:
    """Blocks that the node announces or is to hear of."""
    if state is None:
        return
    if state.bird is not None:
        yield from state.bird.blocks
        yield from (route.destination for route in state.bird_routes)
    else:
        yield from (route.destination for route in state.routes if route.gateway)


def _changes(before: t.Optional[NodeState], after: NodeState) -> bool:
    return before is None or before.phase != after.phase or _written(before) != _written(after)


def _written(state: NodeState) -> NodeState:
    """What is written to a node, policy aside: as NodeState.digest, at a tenth of its cost."""
    ipam = dataclasses.replace(state.ipam, generation=0)
    return dataclasses.replace(state, plan="", nodes=(), bird_routes=(), policy=None, ipam=ipam)


def _some(items: t.Sequence[t.Any]) -> str:
    shown = [str(item) for item in items[:_NAMED]]
    more = len(items) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
