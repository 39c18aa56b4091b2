# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Part of a node at a time: the plan of some kinds, and its application as far as it can be done now.

All of it blocks and belongs in the driver thread. What cannot be done does not keep the rest from being done.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...dataplane import node
from ...dataplane.change import ApplyError, Change, ObserveError
from ...dataplane.drivers.iptables import SetAside
from ...dataplane.kernel.port import Kernel, MissingLibrary
from ...state.node_state import UNDERLAY, NodeState

#: The drivers in the order of their additions; removals go the other way.
KINDS = tuple(node.DRIVERS)

#: What guards the others.
FIREWALL = ("ipset", "iptables")

#: Kinds that one application takes together: a host end is set up between its sysctls and its routes.
STEPS = (FIREWALL, ("tunnel",), ("workload", "sysctl"), ("neighbor",), ("rule", "route"))

#: What goes with an object of a kind when that goes, and has to be looked at when it was made anew.
FOLLOWERS: t.Mapping[str, tuple[str, ...]] = {
    "ipset": ("iptables",),
    "tunnel": ("sysctl", "neighbor", "route"),
    "workload": ("sysctl", "route"),
}

#: Additions that have to stand before anything of a kind is removed, for they may still lead over what would go.
NEEDED: t.Mapping[str, tuple[str, ...]] = {
    "ipset": ("ipset", "iptables"),
    "iptables": ("ipset", "iptables"),
    "tunnel": ("tunnel", "neighbor", "route"),
    "workload": (),
    "sysctl": (),
    "neighbor": ("neighbor", "route"),
    "rule": ("rule", "route"),
    "route": ("route",),
}

#: Devices that wait for the rules which guard them.
GUARDED: t.Mapping[str, tuple[str, ...]] = {"tunnel": ("ipset", "iptables")}

#: What reading or writing the node may raise; anything else is a mistake in the program.
ERRORS = (ObserveError, MissingLibrary, OSError)

_FEW = 50  # devices that are asked for one by one
_FORWARDING = "net/ipv4/ip_forward"
_SYSCTL_DEVICE = re.compile(r"net/ipv[46]/(?:conf|neigh)/(.+)/[^/]+")


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
    interiors: t.Union[bool, t.Collection[str]] = False,
    stale: bool = True,
    remembered: t.Mapping[str, t.Any] = node.NONE_REMEMBERED,
) -> node.NodePlan:
    """The part of the node's plan that belongs to these kinds; see plan_node. Raises one of ERRORS."""
    return node.plan_node(kernel, state, kinds, interiors, stale, remembered)


def narrowed(state: NodeState, kinds: t.Collection[str], found: t.Sequence[Change]) -> NodeState:
    """The state with those of its workloads and sysctls alone that are concerned by the changes `found`: enough to
    plan again what has to be added of these kinds, and much less to read."""
    if not set(kinds) <= {"workload", "sysctl"}:
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


def additions(kernel: Kernel, planned: node.NodePlan) -> Applied:
    """Makes and mends. What waits for its device is left out."""
    return _apply(kernel, planned, "+~!")


def removals(kernel: Kernel, planned: node.NodePlan, chosen: t.Sequence[Change]) -> Applied:
    """Removes those chosen of what the plan removes."""
    keep = {id(change) for change in chosen}
    return _apply(kernel, planned, "-", [change for change in planned.removals if id(change) not in keep])


def same(change: Change) -> tuple[t.Any, ...]:
    """What two changes have in common that do the same to the same object."""
    return change.kind, change.action, change.subject, change.after


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


def _apply(kernel: Kernel, planned: node.NodePlan, actions: str, without: t.Sequence[Change] = ()) -> Applied:
    planned = _part(planned, actions, without)
    waiting = _waiting(kernel, planned.additions)
    if waiting:
        planned = _part(planned, actions, waiting)
    try:
        node.apply_node(kernel, planned)
    except ApplyError as error:
        return _partly(planned.changes, error, waiting)
    return Applied(planned.changes, (), tuple(waiting))


def _partly(changes: t.Sequence[Change], error: ApplyError, waiting: t.Sequence[Change]) -> Applied:
    failed = {id(change) for change, _reason in error.failures}
    if isinstance(error, SetAside):
        done = tuple(change for change in changes if id(change) not in failed)
        return Applied(done, (), tuple(waiting), tuple(error.failures))
    # They are written in one go: of a refused one nothing is done.
    refused = {change.kind for change, _reason in error.failures if change.kind in FIREWALL}
    done = tuple(change for change in changes if id(change) not in failed and change.kind not in refused)
    return Applied(done, tuple(error.failures), tuple(waiting))


def _waiting(kernel: Kernel, changes: t.Sequence[Change]) -> list[Change]:
    """Of these additions, those whose device is missing or down. That is a state of theirs, and no failure."""
    named = [(change, _device(change)) for change in changes]
    if not any(device for _change, device in named):
        return []
    links = _up(kernel, {device for _change, device in named if device})
    made = {change.new.interface for change in changes if change.kind == "workload" and change.action in "+~"}
    waiting = []
    for change, device in named:
        if not device or device in made or device in ("all", "default"):
            continue
        if device not in links or (change.kind == "route" and not links[device]):
            waiting.append(change)
    return waiting


def _up(kernel: Kernel, devices: t.Collection[str]) -> dict[str, bool]:
    """{device: whether it is up} of those that are there."""
    if len(devices) > _FEW:
        return {link.name: link.up for link in kernel.links()}
    found = [kernel.link(device) for device in devices]
    return {link.name: link.up for link in found if link is not None}


def _device(change: Change) -> str:
    """The device that has to be there before this addition can be made; "" for none."""
    if change.action not in ("+", "~"):
        return ""
    if change.kind == "route":
        return change.new.device or ""
    if change.kind in ("neighbor", "fdb"):
        return str(change.new.device)
    if change.kind == "sysctl":
        found = _SYSCTL_DEVICE.fullmatch(change.new[0].key)
        return found.group(1) if found else ""
    return ""


def _part(planned: node.NodePlan, actions: str, without: t.Sequence[Change] = ()) -> node.NodePlan:
    left_out = {id(change) for change in without}
    groups = tuple(
        group._replace(
            changes=[change for change in group.changes if change.action in actions and id(change) not in left_out]
        )
        for group in planned.groups
    )
    return dataclasses.replace(
        planned,
        additions=tuple(change for group in groups for change in group.changes if change.action in "+~!"),
        removals=tuple(change for group in reversed(groups) for change in group.changes if change.action == "-"),
        kept=(),
        expected=(),
        groups=groups,
    )
