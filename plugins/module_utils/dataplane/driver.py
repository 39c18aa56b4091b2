# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of a driver, and the registry that puts drivers in their order.

A driver is a module (or an object) with `STEP`, `observe`, `diff` and `apply`. `registry.py` lists the drivers of a
node; docs/contributing/adding-a-driver.md shows how to add one.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..state.node_state import NodeState
from .change import Change
from .kernel.port import Kernel

Desired = t.TypeVar("Desired")
Observed = t.TypeVar("Observed")

#: A function that makes changes and raises ApplyError with those that failed.
Apply = t.Callable[[Kernel, t.Sequence[Change]], None]


class Scope(t.NamedTuple):
    """The part of a node that is read for a plan.

    `interiors` are the workloads whose network namespaces are read: True for all, False for none, or the names of their
    host interfaces. That of a workload whose host end is missing or unmarked is read, too, and that of one that has
    ended is not. If `stale` is False, workloads that are no longer desired are not searched for, and the namespaces of
    all desired ones that have not ended are read, whatever `interiors` says.
    """

    interiors: t.Union[bool, t.Collection[str]] = True
    stale: bool = True


class Driver(t.Protocol[Desired, Observed]):
    """The code that changes one kind of kernel object until it is as desired."""

    #: The driver's name, its place among the other drivers, and the effects of its changes on theirs.
    STEP: DriverStep[Desired, Observed]

    def observe(self, kernel: Kernel, desired: Desired) -> Observed:
        """Return our objects in the kernel, and at least those of others that occupy the place of a desired one.

        The driver defines the type. It only reads, with the standard library alone. Raise ObserveError or KernelError
        if the kernel cannot be read.
        """

    def diff(self, desired: Desired, observed: Observed) -> list[Change]:
        """Return the changes that lead from `observed` to `desired`, without reading the kernel; [] if there are none.

        Changes with action `!` report what cannot be applied, those with `=` what is kept or left out.
        """

    def apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Make all of these changes; a failure does not stop the others, apart from what ApplyError says.

        A change `!` fails with its note, a change `=` is ignored. Raise ApplyError with all that failed, and
        MissingLibrary if a change needs pyroute2 and it is missing. Raise KernelError if the kernel does not answer, or
        its namespace cannot be entered.
        """


AnyDriver = Driver[t.Any, t.Any]


@dataclasses.dataclass(frozen=True)
class DriverStep(t.Generic[Desired, Observed]):
    """A driver's place among the others, and the effects of its changes on theirs.

    `name` names the driver, also in events, metrics and problems; `kinds` are the kinds of its changes. `desired` takes
    what it needs out of a NodeState. Steps of one `stage`, any word, are adjacent in the registry and applied together.
    """

    name: str
    kinds: tuple[str, ...]
    stage: str
    desired: t.Callable[[NodeState], Desired]

    #: Drivers whose objects disappear with an object of this driver, or are refused without it. The agent plans them
    #: again after an addition of this driver.
    followers: tuple[str, ...] = ()
    #: Drivers without whose additions no object of this driver is removed, because their objects may still use it. The
    #: agent removes it although single chains were refused.
    needs: tuple[str, ...] = ()
    #: Drivers whose additions must all be made, but for refused single chains, before the agent adds an object of this
    #: driver.
    guarded_by: tuple[str, ...] = ()
    #: Whether this driver's objects protect all others, as firewall rules do. They depend on nothing of the underlay,
    #: so that they can be written before it exists. If one of their changes fails, no later stage is applied, except
    #: after a SetAside.
    guard: bool = False
    #: Kinds of this driver's changes that need pyroute2.
    by_library: tuple[str, ...] = ()

    #: The device that must exist before an addition can be made; "" for none, `all` or `default` for sysctls of all.
    device: t.Callable[[Change], str] = lambda change: ""
    #: Whether the device that must exist before an addition must also be up.
    device_up: bool = False
    #: Devices that exist and are up once these changes are made; all new ones are among them.
    made: t.Callable[[t.Sequence[Change]], t.Collection[str]] = lambda changes: ()
    #: Devices that these changes delete and create again: objects on them or through them are gone afterwards.
    recreated: t.Callable[[t.Sequence[Change]], t.Collection[str]] = lambda changes: ()
    #: {device: index} of the desired devices, None for a missing one. If a device disappears by itself while a plan is
    #: applied, this driver and its followers are planned again.
    indexes: t.Optional[t.Callable[[Kernel, Desired], dict[str, t.Optional[int]]]] = None

    #: Called instead of the driver's `observe`, where the result depends on the scope.
    observe_scope: t.Optional[t.Callable[[Kernel, Desired, Scope], Observed]] = None
    #: Returns the observed objects without those that disappear when these devices are recreated.
    without: t.Optional[t.Callable[[Observed, t.Collection[str]], Observed]] = None
    #: Returns further changes, which depend on parts of the kernel that `observe` does not read.
    besides: t.Callable[[Kernel, Desired], list[Change]] = lambda kernel, desired: []

    #: Whether `apply` makes additions and removals in one transaction. Then removals cost nothing beside additions.
    transaction: bool = False
    #: Makes additions instead of the driver's `apply`.
    add: t.Optional[Apply] = None
    #: Completes additions after those of the whole stage were tried. Its last argument says whether one of them failed;
    #: what a SetAside names does not count. Returns those of the changes that it left incomplete because of that.
    finish: t.Optional[t.Callable[[Kernel, t.Sequence[Change], bool], t.Sequence[Change]]] = None

    def plan(
        self, driver: Driver[Desired, Observed], kernel: Kernel, state: NodeState, scope: Scope, anew: t.Collection[str]
    ) -> list[Change]:
        """Return the changes that `driver` has to make for `state`; raise the errors of its `observe`.

        Earlier steps of the plan recreate the devices `anew`, so objects on these devices count as missing.
        """
        desired = self.desired(state)
        if self.observe_scope is not None:
            observed = self.observe_scope(kernel, desired, scope)
        else:
            observed = driver.observe(kernel, desired)
        if anew and self.without is not None:
            observed = self.without(observed, anew)
        return [*driver.diff(desired, observed), *self.besides(kernel, desired)]


def registered(driver: Driver[Desired, Observed]) -> AnyDriver:
    """Return `driver` unchanged; calling this lets mypy check that its step and its functions agree on their types."""
    return driver


class DriverRegistry:
    """The drivers of a node in the order of their additions; removals are made in the reverse order.

    The constructor raises ValueError if two drivers share a name or a kind of change, if a stage's drivers are not
    adjacent, or if a step names an unknown driver.
    """

    def __init__(self, drivers: t.Iterable[AnyDriver]) -> None:
        self._drivers: dict[str, AnyDriver] = {}
        self._kinds: dict[str, str] = {}
        stages: dict[str, list[str]] = {}
        last = ""
        for driver in drivers:
            step = driver.STEP
            if step.name in self._drivers or not self._kinds.keys().isdisjoint(step.kinds):
                raise ValueError(f"There are two drivers {step.name}, or two of its kinds.")
            if step.stage in stages and step.stage != last:
                raise ValueError(f"Driver {step.name} does not stand beside the others of stage {step.stage}.")
            self._drivers[step.name] = driver
            self._kinds.update(dict.fromkeys(step.kinds, step.name))
            stages.setdefault(step.stage, []).append(step.name)
            last = step.stage
        #: The drivers' names, in order.
        self.names = tuple(self._drivers)
        #: The drivers' names, one tuple for each stage.
        self.stages = tuple(tuple(names) for names in stages.values())
        #: The kinds of all drivers' changes.
        self.kinds = tuple(self._kinds)
        #: Names of the drivers that guard the others.
        self.guards = tuple(name for name in self.names if self.step(name).guard)
        for name in self.names:
            step = self.step(name)
            unknown = {*step.followers, *step.needs, *step.guarded_by} - self._drivers.keys()
            if unknown:
                raise ValueError(f"Driver {name} names drivers that do not exist: {', '.join(sorted(unknown))}.")

    def driver(self, name: str) -> AnyDriver:
        """Return the driver of this name. Raise KeyError if there is none."""
        return self._drivers[name]

    def step(self, name: str) -> DriverStep[t.Any, t.Any]:
        """Return the step of the driver of this name. Raise KeyError if there is none."""
        return self._drivers[name].STEP

    def name_of(self, change: Change) -> str:
        """Return the name of the driver that makes changes of this kind, or the kind itself if no driver does."""
        return self._kinds.get(change.kind, change.kind)

    def followers(self, names: t.Iterable[str]) -> set[str]:
        """Return the names of the direct followers of the drivers `names`. Unknown names are ignored."""
        return {follower for name in names if name in self._drivers for follower in self.step(name).followers}

    def chosen(self, names: t.Optional[t.Collection[str]]) -> tuple[str, ...]:
        """Return these names, or all for None, in the order of additions. Raise ValueError for an unknown name."""
        if names is None:
            return self.names
        if not set(names) <= self._drivers.keys():
            raise ValueError(f"no such drivers: {', '.join(sorted(set(names) - self._drivers.keys()))}")
        return tuple(name for name in self.names if name in names)

    def replacing(self, *drivers: AnyDriver) -> DriverRegistry:
        """Return a new registry in which each of these drivers replaces the one with its name; others are ignored."""
        others = {driver.STEP.name: driver for driver in drivers}
        return DriverRegistry(others.get(name, driver) for name, driver in self._drivers.items())
