# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that brings a node's kernel to a NodeState: the changes of all drivers, or of some of them.

    plan = plan_node(kernel, state)
    print(*plan.lines(), sep=chr(10))
    apply_node(kernel, plan, bird=...)  # apply.py

Planning only reads, with the standard library alone.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.node_state import NodeState
from .. import underlay
from ..change import Change, change_lines, in_reading_order
from ..driver import AnyDriver, DriverRegistry, Scope
from ..drivers import workload
from ..kernel.port import Kernel
from .bird_routes import bird_changes
from .registry import REGISTRY


class Part(t.NamedTuple):
    """The changes of one driver."""

    driver: AnyDriver
    changes: t.Sequence[Change]
    #: Whether removals are among the additions, so that one transaction makes both.
    together: bool = False

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.driver.STEP.name

    @property
    def additions(self) -> list[Change]:
        """The changes that create or change an object (`+`, `~`), and the conflicts (`!`), which fail when applied."""
        return [change for change in self.changes if change.action in ("+~!-" if self.together else "+~!")]

    @property
    def removals(self) -> list[Change]:
        """The changes that remove an object (`-`)."""
        return [] if self.together else [change for change in self.changes if change.action == "-"]


@dataclasses.dataclass(frozen=True)
class NodePlan:
    """The differences between a NodeState and a node.

    `state` is the desired state, completed with what only the node knows unless no driver needed that. `underlay` is
    the device of the node's address, "" if no driver needed it. `additions` (conflicts among them) and `removals` are
    the changes that apply_node tries, in its order. `expected` are the changes that BIRD will make on its own, () if
    only some drivers were asked. `kept` are notes (`=`) about objects that are kept on purpose or left out. `parts` are
    additions, removals and notes by driver, in the order of additions; `registry` has these drivers.
    """

    state: NodeState
    underlay: str
    additions: tuple[Change, ...] = ()
    removals: tuple[Change, ...] = ()
    expected: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    parts: tuple[Part, ...] = dataclasses.field(default=(), repr=False, compare=False)
    registry: DriverRegistry = dataclasses.field(default=REGISTRY, repr=False, compare=False)

    def with_parts(self, parts: t.Sequence[Part]) -> NodePlan:
        """Return a copy of the plan with these parts, and additions, removals and kept objects derived from them."""
        return dataclasses.replace(
            self,
            additions=tuple(change for part in parts for change in part.additions),
            removals=tuple(change for part in reversed(parts) for change in part.removals),
            kept=tuple(change for part in parts for change in part.changes if change.action == "="),
            parts=tuple(parts),
        )

    def only(self, keep: t.Callable[[Change], bool]) -> NodePlan:
        """Return a copy of the plan with only those additions and removals for which `keep` returns True.

        The plan must be one of `plan_node`: the copy has only what is in `parts`, which is empty in a plan that the
        agent made. `expected` and `kept` stay as they are.
        """
        parts = [
            part._replace(changes=[change for change in part.changes if change.action == "=" or keep(change)])
            for part in self.parts
        ]
        return self.with_parts(parts)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The additions, conflicts among them, and then the removals."""
        return self.additions + self.removals

    @property
    def problems(self) -> tuple[Change, ...]:
        """The conflicts (`!`), which apply_node does not make: it fails with them."""
        return tuple(change for change in self.additions if change.action == "!")

    @property
    def changed(self) -> bool:
        """Whether there are additions, removals or conflicts; `expected` and `kept` do not count."""
        return bool(self.additions or self.removals)

    def shown(self) -> tuple[Change, ...]:
        """Return all changes, also `expected` and `kept`: conflicts (`!`) first, then `-`, `~`, `+` and notes (`=`).

        A change to a blackhole route for a block of this node gets a note, if it has none.
        """
        everything = [_with_note(self.state, change) for change in (*self.changes, *self.expected, *self.kept)]
        return tuple(in_reading_order(everything))

    def lines(self) -> list[str]:
        """Return one line of text for each change that `shown` returns, as `change_lines` does."""
        return change_lines(self.shown())


def _with_note(state: NodeState, change: Change) -> Change:
    if change.kind == "route" and not change.note and change.after == "blackhole":
        if change.subject in {block.cidr for block in state.ipam.spare_blocks}:
            return change._replace(note="own block, spare")
        if change.subject in {block.cidr for block in state.ipam.blocks}:
            return change._replace(note="own block")
    return change


def plan_node(
    kernel: Kernel,
    state: NodeState,
    kinds: t.Optional[t.Collection[str]] = None,
    interiors: t.Union[bool, t.Collection[str]] = True,
    stale: bool = True,
    registry: DriverRegistry = REGISTRY,
) -> NodePlan:
    """Return the differences between `state` and the kernel, reading with the standard library alone.

    `kinds` are the names of the drivers to ask; None means all of them, and also BIRD's expected changes. `interiors`
    and `stale` are those of `Scope`; with `stale` False workloads are read one by one, which suits a state with few. A
    workload that ended with its namespace is `kept`, and its routes and sysctls are not desired. A long-running process
    has a `registry` with drivers of its own (cached_drivers.py).

    Raise ObserveError or KernelError if the kernel cannot be read, ObserveError too if one of the node's addresses is
    on no interface, unless only guarding drivers are asked, and ValueError for a name that no driver has.
    """
    names = registry.chosen(kinds)
    device = ""
    if not all(registry.step(name).guard for name in names):
        device = underlay.device_of(kernel, state)
        state = underlay.resolve(kernel, state, device)
    wanted = state
    if not set(workload.STEP.followers).isdisjoint(names):
        wanted = _without(state, workload.gone(kernel, state.endpoints))
    scope = Scope(interiors, stale)
    parts: list[Part] = []
    anew: set[str] = set()
    for name in names:
        driver = registry.driver(name)
        changes = driver.STEP.plan(driver, kernel, wanted, scope, anew)
        anew.update(driver.STEP.recreated(changes))
        parts.append(Part(driver, changes))
    expected = tuple(bird_changes(kernel, state)) if kinds is None else ()
    return NodePlan(state, device, expected=expected, registry=registry).with_parts(parts)


def _without(state: NodeState, gone: t.Collection[str]) -> NodeState:
    """Return `state` without the routes and sysctls of the interfaces `gone`."""
    if not gone:
        return state
    interfaces = set(gone)
    return dataclasses.replace(
        state,
        routes=tuple(route for route in state.routes if route.device not in interfaces),
        sysctls=tuple(sysctl for sysctl in state.sysctls if interfaces.isdisjoint(sysctl.key.split("/"))),
    )
