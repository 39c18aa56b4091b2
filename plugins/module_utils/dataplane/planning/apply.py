# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The application of a plan, in an order that interrupts no traffic.

Additions come first, stage by stage: sets filled, iptables, sets drained; devices; workloads, sysctls, workloads set
up; neighbours and forwarding entries; rules, routes. BIRD follows, and then removals in the reverse order. No removal
is made unless all additions succeeded, but for those that `apply_node` may pass over.
"""

from __future__ import annotations

import contextlib
import itertools
import typing as t

from ..change import ApplyError, Change, Failures, SetAside
from ..kernel.port import Kernel
from .plan import NodePlan, Part, plan_node
from .registry import REGISTRY

#: Returns whether a failed change, with the reason, holds up nothing else.
Harmless = t.Callable[[Change, str], bool]

#: The most times that one driver's devices are made while a plan is applied, if devices disappear meanwhile.
_ATTEMPTS = 3


def ready_to_write(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    """Raise MissingLibrary if one of these changes needs pyroute2 and it is not installed."""
    kinds = {kind for name in REGISTRY.names for kind in REGISTRY.step(name).by_library}
    if any(change.kind in kinds and change.action in "+~-" for change in changes):
        kernel.ready_to_write()


def apply_node(
    kernel: Kernel,
    plan: NodePlan,
    bird: t.Optional[t.Callable[[], None]] = None,
    harmless: t.Optional[Harmless] = None,
) -> list[tuple[Change, str]]:
    """Apply the plan: additions, then `bird` (None: there is nothing to call), then removals.

    Return the failed additions, as (change, reason), that were passed over: those that are `harmless`, and those whose
    device is a workload's missing host end, because root in its network namespace can delete it. Without `harmless`
    none is passed over. If other additions fail as well, all of them count as failed.

    Raise ApplyError with the changes that failed. After a failed addition (a conflict or a refused chain is one) the
    others are still tried, but `bird` is not called and no removal is made. After one of a guarding driver (IP sets,
    iptables) no later stage is begun either, and single chains that were refused are only in the error's `unmade`. If
    only single chains were refused, later stages are begun; the error is then a SetAside, if no other addition fails.
    Raise MissingLibrary before any change is made if pyroute2 is needed and missing. Raise ObserveError or KernelError
    if the kernel cannot be read or does not answer. Exceptions of `bird` are passed on.
    """
    return _apply(kernel, plan.parts, plan, bird, harmless)


def apply_parts(kernel: Kernel, parts: t.Sequence[Part]) -> None:
    """Apply changes of single drivers, in the order given: all additions, then removals in the reverse order.

    Nothing is planned again and BIRD is not reloaded. Failures have the effects and errors of `apply_node`.
    """
    _apply(kernel, parts)


def _apply(
    kernel: Kernel,
    parts: t.Sequence[Part],
    plan: t.Optional[NodePlan] = None,
    bird: t.Optional[t.Callable[[], None]] = None,
    harmless: t.Optional[Harmless] = None,
) -> list[tuple[Change, str]]:
    ready_to_write(kernel, [change for part in parts for change in part.changes])
    failures, aside = Failures(), Failures()
    again: dict[str, Part] = {}
    for _stage, group in itertools.groupby(parts, key=lambda part: part.driver.STEP.stage):
        again.update(_add_stage(kernel, plan, [again.get(part.name, part) for part in group], failures, aside))
    if not failures.failures:
        aside.raise_if_any(SetAside)
    failures.failures += aside.failures
    passed_over = [] if plan is None or harmless is None else _harmless(kernel, plan, failures.failures, harmless)
    if len(passed_over) < len(failures.failures):
        failures.raise_if_any()
    if bird is not None:
        bird()
    kept = Failures()
    for part in reversed(parts):
        if part.removals:
            with _collecting(kept, kept):
                part.driver.apply(kernel, part.removals)
    kept.raise_if_any()
    return passed_over


def _harmless(
    kernel: Kernel, plan: NodePlan, failures: t.Sequence[tuple[Change, str]], harmless: Harmless
) -> list[tuple[Change, str]]:
    """Return the failures that `apply_node` passes over."""
    names = {endpoint.interface for endpoint in plan.state.endpoints}

    def is_of_missing_end(change: Change) -> bool:
        name = plan.registry.name_of(change)
        device = plan.registry.step(name).device(change) if name in plan.registry.names and change.new else ""
        return device in names and kernel.link(device) is None

    return [(change, reason) for change, reason in failures if harmless(change, reason) or is_of_missing_end(change)]


def _add_stage(
    kernel: Kernel, plan: t.Optional[NodePlan], parts: t.Sequence[Part], failures: Failures, aside: Failures
) -> dict[str, Part]:
    """Make the additions of one stage; return the parts that were planned again meanwhile, by driver name.

    Failures are added to `failures`, those of objects that were set aside to `aside`. Raise ApplyError instead, with
    the former, if a driver of a stage with a guarding one failed.
    """
    here = Failures()
    again: dict[str, Part] = {}
    for part in parts:
        if part.driver.STEP.indexes is not None and plan is not None:
            again.update(_add_devices(kernel, plan, part, here, aside))
        else:
            _add(kernel, part, here, aside)
    for part in parts:
        if part.driver.STEP.finish is not None and part.additions:
            with _collecting(here, aside):
                here.unfinished += part.driver.STEP.finish(kernel, part.additions, bool(here.failures))
    if any(part.driver.STEP.guard for part in parts):
        here.unmade += [change for change, _reason in aside.failures]
        here.raise_if_any()
    failures.failures += here.failures
    return again


def _add(kernel: Kernel, part: Part, failures: Failures, aside: Failures) -> None:
    if part.additions:
        add = part.driver.STEP.add or part.driver.apply
        with _collecting(failures, aside):
            add(kernel, part.additions)


@contextlib.contextmanager
def _collecting(failures: Failures, aside: Failures) -> t.Iterator[None]:
    """Suppress an ApplyError that is raised inside: add its changes to `aside` for a SetAside, else to `failures`."""
    try:
        yield
    except SetAside as error:
        aside.extend(error)
    except ApplyError as error:
        failures.extend(error)


def _add_devices(kernel: Kernel, plan: NodePlan, part: Part, failures: Failures, aside: Failures) -> dict[str, Part]:
    """Make the additions of a driver of devices; return the parts that were planned again, by driver name.

    If a device has disappeared by itself since the plan, the driver and its followers are planned again. After three
    attempts a device that disappeared once more stays missing. Failures are added as by `_add_stage`.
    """
    step = part.driver.STEP
    if step.indexes is None:
        raise AssertionError(f"driver {step.name} says no indexes of its devices")
    desired = step.desired(plan.state)
    again: dict[str, Part] = {}
    before = step.indexes(kernel, desired)
    lost = {device for device, index in before.items() if index is None}.difference(step.made(part.changes))
    for _attempt in range(_ATTEMPTS):
        if lost:
            again = _planned_again(kernel, plan, (step.name, *step.followers))
            part = again[step.name]
        if not part.additions:
            break
        _add(kernel, part, failures, aside)
        after = step.indexes(kernel, desired)
        lost = {device for device in before if after[device] != before[device]}.difference(step.made(part.additions))
        before = after
        if not lost:
            break
    return again


def _planned_again(kernel: Kernel, plan: NodePlan, names: t.Collection[str]) -> dict[str, Part]:
    """Return the parts of these drivers that `plan` has, by driver name, planned again except for their removals."""
    parts = [part for part in plan.parts if part.name in names]
    asked = [part.name for part in parts]
    found = {part.name: part for part in plan_node(kernel, plan.state, asked, False, registry=plan.registry).parts}
    return {
        part.name: part._replace(
            changes=[*(change for change in found[part.name].changes if change.action != "-"), *part.removals]
        )
        for part in parts
    }
