# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver is, and the registry that puts drivers in their order.

A driver is a module (or an object) with `STEP`, which says where it belongs, and three functions: `observe`, `diff` and
`apply`. `registry.py` lists the drivers of a node; docs/adding-a-driver.md shows how to add one.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..state.node_state import NodeState
from .change import Change
from .kernel.port import Kernel

Desired = t.TypeVar("Desired")
Observed = t.TypeVar("Observed")

#: Writes changes. Raises ApplyError with those that failed.
Apply = t.Callable[[Kernel, t.Sequence[Change]], None]


class Scope(t.NamedTuple):
    """How much of a node is read for a plan.

    `interiors` are the workloads whose network namespaces are looked into: all, none, or those of these interfaces.
    Without `stale`, workloads that nothing desires are not looked for.
    """

    interiors: t.Union[bool, t.Collection[str]] = True
    stale: bool = True


class Driver(t.Protocol[Desired, Observed]):
    """What brings one kind of kernel object to what is desired."""

    #: Where the driver belongs among the others.
    STEP: DriverStep[Desired, Observed]

    def observe(self, kernel: Kernel, desired: Desired) -> Observed:
        """Return our objects in the kernel, and those of others that take a desired one's place.

        Reads only, with the standard library alone. Raises ObserveError or KernelError.
        """

    def diff(self, desired: Desired, observed: Observed) -> list[Change]:
        """Return the changes that lead from `observed` to `desired`, in the order of their application. Pure."""

    def apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Make these changes, whatever becomes of each single one. Raises ApplyError with all that failed."""


AnyDriver = Driver[t.Any, t.Any]


@dataclasses.dataclass(frozen=True)
class DriverStep(t.Generic[Desired, Observed]):
    """Where a driver belongs, and how its changes concern those of other drivers.

    Drivers are named by `name`, which events, metrics and problems show; `kinds` are the kinds of the driver's changes.
    `desired` takes what the driver needs out of a NodeState.

    Steps of one `stage` are planned and applied together; a stage is any word, and its steps stand side by side.
    """

    name: str
    kinds: tuple[str, ...]
    stage: str
    desired: t.Callable[[NodeState], Desired]

    #: Drivers whose objects go with one of ours, and are looked at again when one was made anew.
    followers: tuple[str, ...] = ()
    #: Drivers whose additions have to stand before anything of ours is removed: they may still lead over what goes.
    needs: tuple[str, ...] = ()
    #: Drivers that have to be without problems before the agent adds anything of ours.
    guarded_by: tuple[str, ...] = ()
    #: Whether our objects guard all others. They name nothing of the underlay, so that they can be there before it. A
    #: change is written with all others or not at all, and nothing of another stage is added after one that failed.
    guard: bool = False
    #: Kinds of changes that need pyroute2.
    by_library: tuple[str, ...] = ()

    #: The device that has to be there before an addition can be made; "" for none.
    device: t.Callable[[Change], str] = lambda change: ""
    #: Whether that device has to be up, too.
    device_up: bool = False
    #: Devices that are new once these changes are made.
    made: t.Callable[[t.Sequence[Change]], t.Collection[str]] = lambda changes: ()
    #: Devices that these changes make anew: what was on them or led through them is gone afterwards.
    recreated: t.Callable[[t.Sequence[Change]], t.Collection[str]] = lambda changes: ()
    #: {device: index} of the desired devices, None for a missing one. Where a device goes by itself while a plan is
    #: applied, its followers are planned again.
    indexes: t.Optional[t.Callable[[Kernel, Desired], dict[str, t.Optional[int]]]] = None

    #: Observes in place of the driver's `observe`, where that depends on the scope.
    look: t.Optional[t.Callable[[Kernel, Desired, Scope], Observed]] = None
    #: Takes out of what was observed all that goes when these devices are made anew.
    without: t.Optional[t.Callable[[Observed, t.Collection[str]], Observed]] = None
    #: Further changes, which follow from more of the kernel than `observe` reads.
    besides: t.Callable[[Kernel, Desired], list[Change]] = lambda kernel, desired: []

    #: Makes additions, in place of the driver's `apply`.
    add: t.Optional[Apply] = None
    #: Completes additions once those of the whole stage were tried; `failed` says whether one of the stage failed.
    finish: t.Optional[t.Callable[[Kernel, t.Sequence[Change], bool], None]] = None

    def plan(
        self, driver: Driver[Desired, Observed], kernel: Kernel, state: NodeState, scope: Scope, anew: t.Collection[str]
    ) -> list[Change]:
        """Return what `driver` has to change for `state`, where the devices `anew` are made anew before.

        Raises ObserveError or KernelError.
        """
        desired = self.desired(state)
        observed = self.look(kernel, desired, scope) if self.look is not None else driver.observe(kernel, desired)
        if anew and self.without is not None:
            observed = self.without(observed, anew)
        return [*driver.diff(desired, observed), *self.besides(kernel, desired)]


def registered(driver: Driver[Desired, Observed]) -> AnyDriver:
    """Return the driver itself, after mypy has checked that its step and its functions agree on their types."""
    return driver


class DriverRegistry:
    """The drivers of a node in the order of their additions; removals go the other way."""

    def __init__(self, drivers: t.Iterable[AnyDriver]) -> None:
        """Raise ValueError for drivers that contradict each other."""
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
        #: Names of the drivers.
        self.names = tuple(self._drivers)
        #: Names by stage.
        self.stages = tuple(tuple(names) for names in stages.values())
        #: Kinds of all drivers' changes.
        self.kinds = tuple(self._kinds)
        #: Names of the drivers that guard the others.
        self.guards = tuple(name for name in self.names if self.step(name).guard)
        for name in self.names:
            step = self.step(name)
            unknown = {*step.followers, *step.needs, *step.guarded_by} - self._drivers.keys()
            if unknown:
                raise ValueError(f"Driver {name} names drivers that do not exist: {', '.join(sorted(unknown))}.")

    def driver(self, name: str) -> AnyDriver:
        """Return a driver. Raises KeyError."""
        return self._drivers[name]

    def step(self, name: str) -> DriverStep[t.Any, t.Any]:
        """Return the step of a driver. Raises KeyError."""
        return self._drivers[name].STEP

    def name_of(self, change: Change) -> str:
        """Return the name of the driver that a change is of; its kind, if it is of no driver."""
        return self._kinds.get(change.kind, change.kind)

    def followers(self, names: t.Iterable[str]) -> set[str]:
        """Return the names of the drivers that follow one of these."""
        return {follower for name in names if name in self._drivers for follower in self.step(name).followers}

    def chosen(self, names: t.Optional[t.Collection[str]]) -> tuple[str, ...]:
        """Return these names in the order of additions; None: all. Raises ValueError for a name of no driver."""
        if names is None:
            return self.names
        if not set(names) <= self._drivers.keys():
            raise ValueError(f"no such drivers: {', '.join(sorted(set(names) - self._drivers.keys()))}")
        return tuple(name for name in self.names if name in names)

    def replacing(self, *drivers: AnyDriver) -> DriverRegistry:
        """Return a registry with these drivers in place of those of their names."""
        others = {driver.STEP.name: driver for driver in drivers}
        return DriverRegistry(others.get(name, driver) for name, driver in self._drivers.items())
