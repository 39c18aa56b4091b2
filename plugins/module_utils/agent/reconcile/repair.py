# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Part of a node at a time: the plan of some kinds, and its application as far as it can be done now.

All of it blocks and belongs in the driver thread. What cannot be done does not keep the rest from being done.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.apply import apply_node
from ...dataplane.change import ApplyError, Change, ObserveError, SetAside
from ...dataplane.driver import DriverRegistry
from ...dataplane.drivers import sysctl, workload
from ...dataplane.kernel.port import Kernel, MissingLibrary
from ...dataplane.plan import NodePlan, Part, plan_node
from ...state.node_state import UNDERLAY, NodeState

#: What reading or writing the node may raise; anything else is a mistake in the program.
ERRORS = (ObserveError, MissingLibrary, OSError)

_FEW = 50  # devices that are asked for one by one
_FORWARDING = "net/ipv4/ip_forward"


#: What two changes have in common that do the same: kind, action, subject, what is there afterwards.
Same = tuple[str, str, str, t.Optional[str]]


class Applied(t.NamedTuple):
    """`failed` is [(change, reason)]; `waiting` is what cannot be there before its device is there and up; `aside` are
    chains that were refused, and failed alone."""

    done: tuple[Change, ...] = ()
    failed: tuple[tuple[Change, str], ...] = ()
    waiting: tuple[Change, ...] = ()
    aside: tuple[tuple[Change, str], ...] = ()


def plan(
    kernel: Kernel,
    state: NodeState,
    kinds: t.Collection[str],
    registry: DriverRegistry,
    interiors: t.Union[bool, t.Collection[str]] = False,
    stale: bool = True,
) -> NodePlan:
    """Return the part of the node's plan that belongs to these kinds; see plan_node. Raises one of ERRORS."""
    return plan_node(kernel, state, kinds, interiors, stale, registry)


def narrowed(state: NodeState, kinds: t.Collection[str], found: t.Sequence[Change]) -> NodeState:
    """The state with those of its workloads and sysctls alone that are concerned by the changes `found`: enough to
    plan again what has to be added of these kinds, and much less to read."""
    if not set(kinds) <= {workload.STEP.name, sysctl.STEP.name}:
        return state
    keys = {change.new[0].key for change in found if change.kind == "sysctl"}
    if _FORWARDING in keys:  # it resets others when it is written, which are put right again behind it
        return state
    interfaces = {change.new.interface for change in found if change.kind == "workload"}
    return dataclasses.replace(
        state,
        workloads=tuple(endpoint for endpoint in state.workloads if endpoint.interface in interfaces),
        sysctls=tuple(
            wanted
            for wanted in state.sysctls
            if wanted.key in keys or UNDERLAY in wanted.key or not interfaces.isdisjoint(wanted.key.split("/"))
        ),
    )


def additions(kernel: Kernel, planned: NodePlan) -> Applied:
    """Make and mend. What waits for its device is left out."""
    waiting = _waiting(kernel, planned.parts)
    left_out = {id(change) for change in waiting}
    return _apply(kernel, planned.only(lambda change: change.action != "-" and id(change) not in left_out), waiting)


def removals(kernel: Kernel, planned: NodePlan, chosen: t.Sequence[Change]) -> Applied:
    """Remove those chosen of what the plan removes."""
    going = {id(change) for change in chosen}
    return _apply(kernel, planned.only(lambda change: id(change) in going))


def same(change: Change) -> Same:
    """Return what two changes have in common that do the same to the same object."""
    return change.kind, change.action, change.subject, change.after


def drift(
    kernel: Kernel,
    changes: t.Sequence[Change],
    state: NodeState,
    before: t.Mapping[str, t.Optional[NodeState]],
    registry: DriverRegistry,
    interiors: t.Collection[str],
) -> set[Same]:
    """Return `same` of the changes that are drift: those that the former state of their kind would bring as well.

    `changes` lead to `state`; `before` has the state that each kind was last brought to, None for none. Raises one of
    ERRORS.
    """
    found: set[Same] = set()
    asked: list[tuple[NodeState, list[str]]] = []
    for kind in {registry.name_of(change) for change in changes}:
        earlier = before.get(kind)
        if earlier is None:
            continue
        if earlier is state or earlier == state:
            found |= {same(change) for change in changes if registry.name_of(change) == kind}
            continue
        together = next((kinds for other, kinds in asked if other is earlier), None)
        if together is None:
            asked.append((earlier, [kind]))
        else:
            together.append(kind)
    for earlier, kinds in asked:
        found |= {same(change) for change in plan(kernel, earlier, kinds, registry, interiors).changes}
    return found


def sentence(change: Change, drift: bool) -> str:
    """One line for the log: what was found, and what was done about it."""
    if change.action == "+":
        found, done = "was missing", "made"
    elif change.action == "~":
        found, done = f"was {change.before or 'different'}", "made right"
    else:
        found, done = f"was there ({change.before})" if change.before else "was there", "removed"
    if change.action != "-" and change.after:
        done = f"{done}: {change.after}"
    note = f" ({change.note})" if change.note else ""
    return f"{'Repaired' if drift else 'Applied'} {change.kind} {change.subject}: it {found}; {done}{note}."


def _apply(kernel: Kernel, planned: NodePlan, waiting: t.Sequence[Change] = ()) -> Applied:
    try:
        apply_node(kernel, planned)
    except ApplyError as error:
        return _partly(planned, error, waiting)
    return Applied(planned.changes, (), tuple(waiting))


def _partly(planned: NodePlan, error: ApplyError, waiting: t.Sequence[Change]) -> Applied:
    failed = {id(change) for change, _reason in error.failures}
    if isinstance(error, SetAside):
        done = tuple(change for change in planned.changes if id(change) not in failed)
        return Applied(done, (), tuple(waiting), tuple(error.failures))
    # A guard's changes are written in one go: of a refused one nothing is done.
    guards = {kind for part in planned.parts if part.driver.STEP.guard for kind in part.driver.STEP.kinds}
    refused = {change.kind for change, _reason in error.failures} & guards
    done = tuple(change for change in planned.changes if id(change) not in failed and change.kind not in refused)
    return Applied(done, tuple(error.failures), tuple(waiting))


def _waiting(kernel: Kernel, parts: t.Iterable[Part]) -> list[Change]:
    """Return the additions whose device is missing or down. That is a state of theirs, and no failure."""
    named: list[tuple[Change, str, bool]] = []
    made: set[str] = set()
    for part in parts:
        step, changes = part.driver.STEP, [change for change in part.changes if change.action in ("+", "~")]
        made.update(step.made(changes))
        named += [(change, step.device(change), step.device_up) for change in changes]
    if not any(device for _change, device, _up in named):
        return []
    links = _up(kernel, {device for _change, device, _up in named if device})
    waiting = []
    for change, device, has_to_be_up in named:
        if not device or device in made or device in ("all", "default"):
            continue
        if device not in links or (has_to_be_up and not links[device]):
            waiting.append(change)
    return waiting


def _up(kernel: Kernel, devices: t.Collection[str]) -> dict[str, bool]:
    """Return {device: whether it is up} of those that are there."""
    if len(devices) > _FEW:
        return {link.name: link.up for link in kernel.links()}
    found = [kernel.link(device) for device in devices]
    return {link.name: link.up for link in found if link is not None}
