# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repair of part of a node: the plan of some kinds, and its application as far as that is possible now.

The functions that take a kernel block, belong in the drivers' thread, and raise ObserveError or KernelError if the
kernel cannot be read. A change that fails does not prevent the others, except those that are in one transaction with it
(rules, sets).
"""

from __future__ import annotations

import dataclasses
import types
import typing as t

from ...dataplane.change import ApplyError, Change, ObserveError, SetAside
from ...dataplane.driver import DriverRegistry
from ...dataplane.drivers import ipset, iptables, iptables_backend, sysctl, workload
from ...dataplane.kernel.port import Kernel, MissingLibrary
from ...dataplane.planning.apply import apply_node
from ...dataplane.planning.plan import NodePlan, Part, plan_node
from ...state.node_state import PROBE_INTERFACE, UNDERLAY, NodeState
from ..known.policy_compilers import PolicyNotCompiled

#: The errors of reading or writing the node, or of a stored policy that cannot be compiled.
ERRORS = (ObserveError, MissingLibrary, OSError, PolicyNotCompiled)

_FEW = 50  # up to 50 devices are read one by one; for more, all devices are read at once
_FORWARDING = "net/ipv4/ip_forward"


_NOTHING: t.Mapping[str, Part] = types.MappingProxyType({})

#: The key that two changes with the same effect share: kind, action, subject, value afterwards.
Same = tuple[str, str, str, t.Optional[str]]


class Applied(t.NamedTuple):
    """The result of applying a plan: the changes that were done, and those that were not.

    `failed` is a sequence of (change, reason). `waiting` are changes whose device is missing, or down although it must
    be up. `aside` are (change, reason) of chains that the kernel refused; all others were written. If a whole table, or
    all that was left of the sets, failed, one change in `failed` stands for them; the others are `unmade`, and so are
    refused chains beside it. Sets that keep surplus members because others failed are in none of these.
    """

    done: tuple[Change, ...] = ()
    failed: tuple[tuple[Change, str], ...] = ()
    waiting: tuple[Change, ...] = ()
    aside: tuple[tuple[Change, str], ...] = ()
    unmade: tuple[Change, ...] = ()


def plan(
    kernel: Kernel,
    state: NodeState,
    kinds: t.Collection[str],
    registry: DriverRegistry,
    interiors: t.Union[bool, t.Collection[str]] = False,
    stale: bool = True,
) -> NodePlan:
    """Return the plan of the drivers named `kinds`, as if the other drivers changed nothing; only read.

    Objects on a device that only another driver recreates are not missing in it. The arguments and errors are those of
    plan_node.
    """
    return plan_node(kernel, state, kinds, interiors, stale, registry)


def narrowed(state: NodeState, kinds: t.Collection[str], found: t.Sequence[Change]) -> NodeState:
    """Return `state` with only those of its endpoints and sysctls that the changes `found` concern.

    Planning these kinds again then reads much less. Other sysctls of these workloads and those of the underlay's device
    stay too. Return `state` itself if `kinds` has others than workloads and sysctls, if IPv4 forwarding changes, or if
    the source check of all interfaces is a conflict or would be judged in another way: all workloads decide about that.
    """
    if not set(kinds) <= {workload.STEP.name, sysctl.STEP.name}:
        return state
    keys = {change.new[0].key for change in found if change.kind == "sysctl"}
    # Writing ip_forward resets other sysctls, which have to be repaired after it.
    if _FORWARDING in keys or sysctl.OF_ALL in keys:
        return state
    interfaces = {change.new.interface for change in found if change.kind == "workload"}
    part = dataclasses.replace(
        state,
        workloads=tuple(endpoint for endpoint in state.workloads if endpoint.interface in interfaces),
        probe_endpoint=state.probe_endpoint if PROBE_INTERFACE in interfaces else None,
        sysctls=tuple(
            wanted
            for wanted in state.sysctls
            if wanted.key in keys or UNDERLAY in wanted.key or not interfaces.isdisjoint(wanted.key.split("/"))
        ),
    )
    of_part = sysctl.greatest_source_check(part.sysctls)
    return part if of_part in (None, sysctl.greatest_source_check(state.sysctls)) else state


def additions(kernel: Kernel, planned: NodePlan, instead: t.Mapping[str, Part] = _NOTHING) -> Applied:
    """Make the additions and changes of a plan, except those that wait for their device. Return what was applied.

    Such a device is missing, or down although it must be up. `instead` has parts, by driver name, that are made in
    place of the plan's. Failures are in the result, but MissingLibrary is raised before any change if pyroute2 is
    needed and missing.
    """
    waiting = _waiting(kernel, planned.parts)
    left_out = {id(change) for change in waiting}
    chosen = planned.only(lambda change: change.action != "-" and id(change) not in left_out)
    if instead:
        chosen = chosen.with_parts([instead.get(part.name, part) for part in chosen.parts])
    return _apply(kernel, chosen, waiting)


def removals(kernel: Kernel, planned: NodePlan, chosen: t.Sequence[Change]) -> Applied:
    """Remove the objects of `chosen`, changes of `planned`; return what was applied. Errors as in `additions`."""
    to_remove = {id(change) for change in chosen}
    return _apply(kernel, planned.only(lambda change: id(change) in to_remove))


def both(
    kernel: Kernel, planned: NodePlan, extra: t.Sequence[Change], planned_again: t.Callable[[], NodePlan]
) -> tuple[Applied, Applied]:
    """Make the additions of a plan, then remove the objects of `extra`, changes of the plan; return what was applied.

    The first result is that of additions, the second that of removals. A driver with additions whose writes are one
    transaction also makes its removals in it. If the transaction fails, what is left of additions is planned again by
    `planned_again` and made alone, before removals. Nothing more is removed after a failed addition. Errors as in
    `additions`.
    """
    to_remove = {id(change) for change in extra}
    together: dict[str, Part] = {}
    for part in planned.parts:
        if part.driver.STEP.transaction and part.additions:
            going = [change for change in part.removals if id(change) in to_remove]
            if going:
                together[part.name] = part._replace(changes=[*part.additions, *going], together=True)
    applied = additions(kernel, planned, together)
    with_it = {id(change) for part in together.values() for change in part.changes}
    gone = tuple(change for change in applied.done if change.action == "-")
    refused = tuple((change, reason) for change, reason in applied.aside if change.action == "-")
    made = applied._replace(
        done=tuple(change for change in applied.done if change.action != "-"),
        aside=tuple((change, reason) for change, reason in applied.aside if change.action != "-"),
    )
    rest = [change for change in extra if id(change) not in with_it]
    if made.failed and together:
        planned = planned_again()
        again = additions(kernel, planned)
        made, rest = again._replace(done=made.done + again.done), list(planned.removals)
    if made.failed:
        return made, Applied(gone, refused)
    removed = removals(kernel, planned, rest)
    return made, Applied(gone + removed.done, refused + removed.failed + removed.aside)


def same(change: Change) -> Same:
    """Return the key (kind, action, subject, value afterwards), which changes with the same effect share."""
    return change.kind, change.action, change.subject, change.after


def drift(
    kernel: Kernel,
    changes: t.Sequence[Change],
    state: NodeState,
    before: t.Mapping[str, t.Optional[NodeState]],
    registry: DriverRegistry,
    interiors: t.Collection[str],
) -> set[Same]:
    """Return the keys (see `same`) of the changes that are drift: the kind's former state would need them as well.

    `changes` lead to `state`. `before` maps each kind to the state that it was last brought to; kinds without one have
    no drift. The result may have further keys. `interiors` are host ends whose namespaces are looked into.
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
        # The host may no longer have the address of that time.
        earlier = dataclasses.replace(earlier, address=state.address, address6=state.address6)
        found |= {same(change) for change in plan(kernel, earlier, kinds, registry, interiors).changes}
    return found


def unwanted(changes: t.Iterable[Change], before: t.Mapping[str, t.Optional[NodeState]]) -> list[Change]:
    """Return these removals of sets and rules without those of objects that the kind's former state desired.

    These others are no drift, whatever a plan of that state would say. `before` is that of `drift`.
    """
    sets, tables = before.get(ipset.STEP.name), before.get(iptables.STEP.name)
    names = {one.name for one in sets.ipsets} if sets is not None else set()
    chains = {(one.family, one.name): one.chains for one in tables.iptables} if tables is not None else {}
    families = {program: version for version, program in iptables_backend.FAMILIES.items()}

    def was_wanted(change: Change) -> bool:
        if change.kind == "ipset":
            return change.subject in names
        write = iptables.written(change)
        return write.chain in chains.get((families.get(write.place.program, 0), write.place.table), ())

    return [change for change in changes if not was_wanted(change)]


def sentence(change: Change, drift: bool) -> str:
    """Return one line for the log: a repair says what was found about an object, another change only what was done."""
    what, note = f"{change.kind} {change.subject}", f" ({change.note})" if change.note else ""
    after = f": {change.after}" if change.after else ""
    if not drift:
        if change.action == "-":
            return f"Removed {what}{f' ({change.before})' if change.before else ''}{note}."
        return f"{'Created' if change.action == '+' else 'Changed'} {what}{after}{note}."
    if change.action == "+":
        return f"Repaired {what}: it was missing; created{after}{note}."
    if change.action == "~":
        return f"Repaired {what}: it was {change.before or 'different'}; changed{after}{note}."
    return f"Repaired {what}: it was there{f' ({change.before})' if change.before else ''}; removed{note}."


def _apply(kernel: Kernel, planned: NodePlan, waiting: t.Sequence[Change] = ()) -> Applied:
    try:
        apply_node(kernel, planned)
    except ApplyError as error:
        return _partly(planned, error, waiting)
    return Applied(planned.changes, (), tuple(waiting))


def _partly(planned: NodePlan, error: ApplyError, waiting: t.Sequence[Change]) -> Applied:
    """Return what was applied despite `error`, by `same`, because a driver may have replaced changes."""
    left = {same(change) for change, _reason in error.failures}.union(map(same, (*error.unmade, *error.unfinished)))
    done = tuple(change for change in planned.changes if same(change) not in left)
    failed, aside = ((), error.failures) if isinstance(error, SetAside) else (error.failures, ())
    return Applied(done, tuple(failed), tuple(waiting), tuple(aside), error.unmade)


def _waiting(kernel: Kernel, parts: t.Iterable[Part]) -> list[Change]:
    """Return the additions and changes whose device is missing, or is down although it must be up.

    A device that the plan itself makes counts as there, whatever its state; so do `all` and `default`.
    """
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
    """Return {device: whether it is up} for those of `devices` that exist, and perhaps for others."""
    if len(devices) > _FEW:
        return {link.name: link.up for link in kernel.links()}
    found = [kernel.link(device) for device in devices]
    return {link.name: link.up for link in found if link is not None}
