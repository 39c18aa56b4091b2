# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passes over the kinds of objects: what is looked at and repaired, in which order, and with what outcome.

All additions of a pass come first, stage by stage, in the drivers' order (stages.py). Removals follow in reverse order,
if they are allowed and nothing they could cut off has failed. `write_lock`, the exclusive lock of all writers, is
released between the stages; policy's sets and rules do not need it. loop.py says when passes are made.
"""

from __future__ import annotations

import asyncio
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers import workload
from ...dataplane.planning.plan import NodePlan, plan_node
from ...node.store.clock import now
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ..log.transactions import QuotedNames, transaction
from .stages import Refresh, Stages

_INTERIORS = 50  # the most network namespaces that a resync has one pass look into


class PassOutcome(t.NamedTuple):
    """The outcome of a pass: the changes made, and texts that say what failed and why, and what waits for a device.

    The texts are about all kinds, by the last attempt at each. `in_sync` is False if there are such failures, or if a
    kind that was not marked during the pass was never found with nothing missing since the start. Waiting objects,
    members left out of sets (which are not in `problems` either), and removals that are not allowed yet do not count
    against it.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    in_sync: bool = False
    waiting: tuple[str, ...] = ()


class Passes:
    """The passes of one node, made of `stages`, one pass at a time, on the event loop. Kinds are names of drivers.

    Errors of reading or writing the node and of compiling policy become problems, except in plans: these raise
    ObserveError or KernelError if the kernel cannot be read or an address of the node is on no interface,
    PolicyNotCompiled, and what `wanted` raises. An unknown kind raises KeyError.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.last_resync = ""  # when all kinds were last looked at on request, a UTC time as text; "" before
        self.seconds = 0.0  # the duration of the last pass
        self._passing = asyncio.Lock()

    @property
    def in_sync(self) -> bool:
        """Whether no kind is marked for a look, none failed last, and each was once found with nothing missing.

        A refused single chain is a failure. Waiting objects, members left out of sets, and removals that are not
        allowed yet do not count against it.
        """
        return self._in_sync_but_for(()) and not self.stages.kinds.dirty

    def brought_to(self, kind: str) -> t.Optional[NodeState]:
        """Return the last desired state whose objects of this kind were in the kernel, None if it has other problems.

        Objects that waited for their device, ended workloads, refused single chains, and members left out of sets may
        have been missing.
        """
        return None if self.stages.kinds[kind].problems else self.stages.kinds[kind].nothing_missing

    @property
    def policy_in_force(self) -> t.Optional[PolicyState]:
        """The policy all of whose sets and rules were in the kernel at the last look, None if some were not."""
        guards = self.stages.registry.guards
        states = [self.brought_to(kind) for kind in guards]
        first = states[0]
        if first is None or any(kind in self._failures for kind in guards):
            return None
        return first.policy if all(one is not None and one.policy is first.policy for one in states) else None

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """{name of a driver: what failed last, and why}, with refused single chains, and members left out of sets."""
        return _with(self._failures, self.stages.drivers.sets.STEP.name, self.stages.drivers.sets.left_out)

    @property
    def _failures(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind to what failed, and why, without members that were left out of sets."""
        tables = self.stages.drivers.tables
        return _with(self.stages.kinds.problems, tables.STEP.name, tables.set_aside)

    async def resync(self, kinds: t.Optional[t.Collection[str]] = None) -> PassOutcome:
        """Look at all kinds now, or at these and those that are marked, and repair them. Return the outcome.

        It has all changes, and the problems at the end, those of other kinds too. Unless `kinds` lacks workloads, their
        namespaces are looked into as well, in batches: an urgent repair need not wait for all of them.
        """
        whole = kinds is None
        if kinds is None:
            self.stages.listener.on_resync("request")
            self.stages.refresh(Refresh.ALL)
            kinds = self.stages.kinds.names
        self.stages.kinds.suspect(kinds)
        outcome = await self.make(kinds)
        state = self.stages.wanted.state()
        if state is not None and workload.STEP.name in kinds:
            interfaces = [endpoint.interface for endpoint in state.endpoints]
            for start in range(0, len(interfaces), _INTERIORS):
                self.stages.observe_namespace(interfaces[start : start + _INTERIORS])
                inside = await self.make((workload.STEP.name,))
                outcome = inside._replace(changes=outcome.changes + inside.changes)
        self.stages.wake.set()  # for the loop, because a retry may be due
        if whole:
            self.last_resync = now()
        return outcome

    async def plan(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return the changes that would bring the node to the state that `wanted` returns; make none.

        `wanted` is called on the loop before each look. If the first look finds changes, a second one is made, under
        `write_lock`.
        """
        found = await self.look(wanted)
        if not found.changed:
            return found
        async with self.stages.write_lock:
            return await self.look(wanted)

    async def look(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return the changes as `plan` does, by one look without `write_lock`: others may be halfway through theirs."""
        compiled = self.stages.wanted.with_policy(wanted())
        return await self.stages.ask(
            lambda kernel: plan_node(kernel, compiled(), registry=self.stages.drivers.uncached)
        )

    async def make(self, kinds: t.Collection[str] = ()) -> PassOutcome:
        """Look at the dirty kinds and `kinds`, and repair them. Return the outcome.

        While no desired state is known, the kinds only stay marked; the outcome says so.
        """
        async with self._passing:
            self.stages.kinds.mark(kinds)
            self.stages.wake.clear()
            if self.stages.wanted.state() is None:
                return PassOutcome(problems=("What this node shall have is not known yet.",))
            dirty, began = self.stages.kinds.take_dirty(), asyncio.get_running_loop().time()
            async with transaction("repair pass", more=sorted(dirty)) as lines:
                try:
                    changes = await self._through_stages(dirty)
                except asyncio.CancelledError:
                    self.stages.kinds.mark(dirty)
                    raise
                self.seconds = asyncio.get_running_loop().time() - began
                # `problems` is a dict, because the same text may be a problem of several kinds and is reported once.
                known, waiting = self._failures, self.stages.kinds.waiting
                problems = dict.fromkeys(text for kind in self.stages.kinds.names for text in known.get(kind, ()))
                changed = QuotedNames(f"{change.kind} {change.subject}" for change in changes)
                lines.ends("%d problems, %d changes %s", len(problems), len(changes), changed)
            return PassOutcome(
                tuple(changes),
                tuple(problems),
                self._in_sync_but_for(self.stages.kinds.dirty),
                tuple(text for texts in waiting.values() for text in texts),
            )

    async def _through_stages(self, dirty: set[str]) -> list[Change]:
        """Look at the kinds `dirty`, stage by stage, and repair them and followers. Return the changes made."""
        registry = self.stages.drivers.registry
        changes: list[Change] = []
        extra: set[str] = set()
        alone = dirty.issubset(registry.guards)  # No other kind is repaired, so removals have nothing to wait for.
        for stage in registry.stages:
            here = dirty.intersection(stage)
            if here.intersection(registry.guards):
                settled = await self.stages.settle(stage, removing=alone)
                changes, extra = changes + settled.changes, extra | settled.extra
                continue
            found = await self.stages.look(here) if here else None
            if found is None:
                continue
            extra |= found.removed
            if found.added:
                done = await self.stages.add(stage, found)
                changes += done
                dirty |= registry.followers(map(registry.name_of, done))
        for stage in reversed(registry.stages):
            to_remove = extra.intersection(stage)
            if to_remove.intersection(registry.guards):
                if to_remove <= set(filter(self.stages.removable, to_remove)):
                    changes += (await self.stages.settle(stage, removing=True)).changes
            elif to_remove:
                changes += await self.stages.remove(to_remove)
        return changes

    def _in_sync_but_for(self, marked: t.Collection[str]) -> bool:
        """Return whether no failure stands and every kind but `marked` was once found with nothing missing."""
        return not self._failures and self.stages.kinds.completed(but_for=marked)


def _with(problems: t.Mapping[str, tuple[str, ...]], kind: str, more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return `problems` with the texts `more` added to one kind, each text once."""
    if not more:
        return dict(problems)
    return {**problems, kind: tuple(dict.fromkeys([*problems.get(kind, ()), *more]))}
