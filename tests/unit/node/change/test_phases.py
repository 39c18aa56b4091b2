# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the plan of each phase, made before a change, is what the phases then plan one by one, and do."""

from __future__ import annotations

import itertools
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply, phases
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.plan import plan_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES

from tests.fakes.kernel import FakeKernel
from tests.unit.fleet.fleets import ADDRESSES6, MODES, WORKLOADS, build, pool, states, workload
from tests.unit.modules.harness import Host

Shown = t.Tuple[str, str, str, t.Optional[str], t.Optional[str]]


def config(state: NodeState) -> t.Optional[str]:
    """Return a substitute for bird.cfg, which differs if the state's BIRD does; None if the state has no BIRD.

    It has one line: a plan shows the number of lines of bird.cfg.
    """
    return f"# {state.bird}\n" if state.bird else None


def stored(state: NodeState) -> Stored:
    return Stored(state, config(state), who="test")


@pytest.fixture
def here(tmp_path: pathlib.Path) -> machine.Machine:
    return Host(tmp_path, FakeKernel()).machine


def shown(changes: t.Iterable[Change]) -> set[Shown]:
    """Return (action, kind, subject, before, after) of each change that adds, changes or removes something.

    BIRD's routes are left out, because no BIRD runs in the tests.
    """
    return {
        (change.action, change.kind, change.subject, change.before, change.after)
        for change in changes
        if change.note != "proto bird" and change.action in "+~-"
    }


def walk(
    here: machine.Machine, before: NodeState, target: NodeState, names: t.Sequence[str] = PHASES
) -> tuple[list[set[Shown]], list[set[Shown]]]:
    """Bring the node to `before`, then through phases to `target`; return (what was planned, what was done).

    `names` are the phases. Each part of the result is a list with the set of shown changes of each phase. Raise
    AssertionError if planning changes the kernel.
    """
    apply.bring_to(here, stored(before))
    ways = [stored(transition.phase_state(before, target, name)) for name in names]
    untouched = here.kernel.snapshot()
    planned = [shown(step) for step in phases.steps([plan_change(here, way) for way in ways])]
    assert here.kernel.snapshot() == untouched
    return planned, [shown(apply.bring_to(here, way).plan.shown) for way in ways]


BGP = [(one, other, True) for one, other in itertools.permutations(MODES, 2)]
VXLAN = [("vxlan", "vxlan-crosssubnet", False), ("vxlan-crosssubnet", "vxlan", False)]


@pytest.mark.parametrize(("one", "other", "bgp"), [*BGP, *VXLAN])
def test_every_phase_of_every_switch(here: machine.Machine, one: str, other: str, bgp: bool) -> None:
    first = build(pool(one, natOutgoing=True), bgp_enabled=bgp)
    second = build(pool(other, natOutgoing=True), previous=first.allocation, bgp_enabled=bgp)
    planned, done = walk(here, states(first)["node1"], states(second)["node1"])
    for name, expected, found in zip(PHASES, planned, done):
        assert expected == found, name
    assert planned[0] and planned[-1]


def kinds(changes: set[Shown]) -> set[tuple[str, str, str]]:
    return {change[:3] for change in changes}


@pytest.mark.parametrize("name", ["prepare", "links", "divert", "flip"])
def test_a_change_that_was_stopped(here: machine.Machine, name: str) -> None:
    """The plan from the middle of a change back to its start, or on to its target, is what is then done."""
    first = build(pool("ipip"))
    second = build(pool("vxlan"), previous=first.allocation)
    start, target = states(first)["node1"], states(second)["node1"]
    left = transition.phase_state(start, target, name)
    for way in (start, target):
        planned, done = walk(here, left, way)
        assert planned == done


def test_objects_of_both_ip_versions_are_planned_and_made(here: machine.Machine) -> None:
    """If pools of both IP versions change, each has rules for probes, and forwarding entries with the same MACs."""

    def fleet(mode: str, mode6: str, previous: t.Optional[AllocationPlan] = None) -> Fleet:
        six = pool(mode6, "six", "fd00:10:244::/48")
        return build(pool(mode), six, own=ADDRESSES6, workloads=[], previous=previous)

    here.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10:1::11", 64))
    first = fleet("direct", "direct")
    second = fleet("vxlan", "vxlan", first.allocation)
    planned, done = walk(here, states(first)["node1"], states(second)["node1"])
    assert planned == done
    rules = [sorted(entry for entry in kinds(step) if entry[1] == "rule") for step in planned]
    both = ["179", "179 (IPv6)"]
    assert [*filter(None, rules)] == [[(action, "rule", subject) for subject in both] for action in "+-"]


def test_workloads_come_and_go_and_the_underlay_changes_with_the_mode(here: machine.Machine) -> None:
    """In a change of mode, MTU and workloads, the planned changes and those done agree in action, kind and subject.

    Values may differ where only a part of a new workload changes, because its plan has all of it.
    """
    first = build(pool("ipip"))
    more = [*WORKLOADS[1:], workload("new", "node1")]
    second = build(pool("direct"), previous=first.allocation, workloads=more, underlay_mtu=1400)
    planned, done = walk(here, states(first)["node1"], states(second)["node1"])
    assert [kinds(step) for step in planned] == [kinds(step) for step in done]
    assert ("-", "workload", "default/w1") in kinds(planned[-1])
    assert ("+", "workload", "default/new") in kinds(planned[0])


def test_kept_objects_are_reported_in_the_last_phase_only(here: machine.Machine) -> None:
    first = build(pool("ipip"))
    second = build(pool("direct"), previous=first.allocation)
    before, target = states(first)["node1"], states(second)["node1"]
    apply.bring_to(here, stored(before))
    address = before.devices[0].address
    here.kernel.sockets[address] = 2  # type: ignore[attr-defined]
    plans = [plan_change(here, stored(transition.phase_state(before, target, name))) for name in PHASES]
    kept = [[change for change in step if change.action == "="] for step in phases.steps(plans)]
    assert [len(step) for step in kept] == [0, 0, 0, 0, 2]
    assert kept[-1][0].note == "kept: 2 open sockets use it"
