# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver of a kind that no other code knows: the example of docs/contributing/adding-a-driver.md, word for word."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import re
import types

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile import repair
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import drivers
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.driver import DriverRegistry, registered
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import NewLink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY

from tests.unit.agent.reconcile.test_reconcile import Node
from tests.unit.agent.virtual_time import run
from tests.unit.dataplane.suites.drivers import underlay
from tests.unit.dataplane.suites.suite_node import STATE

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "contributing" / "adding-a-driver.md"
LINE = "+ bridge   br-node1  up"


@pytest.fixture
def host(kernel):
    """A FakeKernel with an underlay, see suites/drivers.py."""
    underlay(kernel)
    return kernel


@pytest.fixture
def bridge():
    """The driver in the first Python block of docs/contributing/adding-a-driver.md, as a module."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    module = types.ModuleType(f"{drivers.__name__}.bridge")
    module.__package__ = drivers.__name__
    exec(compile(found.group(1), str(PAGE), "exec"), module.__dict__)
    return module


@pytest.fixture
def registry(bridge):
    """REGISTRY with the driver `bridge` before `workload`, where docs/contributing/adding-a-driver.md adds it."""
    known = [REGISTRY.driver(name) for name in REGISTRY.names]
    place = REGISTRY.names.index("workload")
    return DriverRegistry((*known[:place], registered(bridge), *known[place:]))


def test_it_is_planned_and_shown(host, registry):
    plan = plan_node(host, STATE, registry=registry)
    assert [part.name for part in plan.parts] == list(registry.names)
    assert LINE.split() in [line.split() for line in plan.lines()]
    assert [change.line() for change in plan_node(host, STATE, ["bridge"], registry=registry).changes] == [LINE]


def test_it_is_applied_in_its_place(host, bridge, registry):
    there, apply = [], bridge.apply

    def looking(kernel, changes):
        there.append((kernel.link("vxlan.calico") is not None, kernel.link("cali111") is not None))
        apply(kernel, changes)

    bridge.apply = looking
    apply_node(host, plan_node(host, STATE, registry=registry))
    assert there == [(True, False)]
    assert host.link("br-node1").alias == "calico: bridge"
    assert not plan_node(host, STATE, registry=registry).changed


def test_our_bridge_is_removed_and_a_foreign_one_is_kept(host, registry):
    host.link_add(NewLink("br-node2", "bridge"))
    apply_node(host, plan_node(host, STATE, registry=registry))
    other = plan_node(host, dataclasses.replace(STATE, node="node2"), ["bridge"], registry=registry)
    assert [change.action for change in other.changes] == ["!", "-"]
    with pytest.raises(ApplyError, match="A bridge br-node2 exists that this collection did not make"):
        apply_node(host, other)
    assert host.link("br-node1") is not None  # Nothing is removed before all additions are made.
    host.link_delete("br-node2")
    apply_node(host, plan_node(host, dataclasses.replace(STATE, node="node2"), ["bridge"], registry=registry))
    assert (host.link("br-node1"), host.link("br-node2").alias) == (None, "calico: bridge")


def test_the_agent_repairs_it(registry):
    async def scenario():
        node = Node(registry=registry)
        await node.start()
        said = []
        node.on_change = lambda change, drift: said.append((change.line(), repair.sentence(change, drift)))
        node.kernel.link_delete("br-node1")
        node.stages.mark("bridge")
        await asyncio.sleep(1)
        assert said == [(LINE, "Repaired bridge br-node1: it was missing; created: up.")]
        assert node.passes.in_sync
        assert node.stages.changed["bridge"] == 2

    run(scenario())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "tunnel"}, "There are two drivers tunnel, or two of its kinds."),
        ({"kinds": ("route",)}, "There are two drivers bridge, or two of its kinds."),
        ({"stage": "firewall"}, "Driver bridge does not stand beside the others of stage firewall."),
        ({"followers": ("vlan",)}, "Driver bridge names drivers that do not exist: vlan."),
    ],
)
def test_a_contradiction_is_refused(bridge, change, problem):
    bridge.STEP = dataclasses.replace(bridge.STEP, **change)
    known = [REGISTRY.driver(name) for name in REGISTRY.names]
    with pytest.raises(ValueError) as caught:
        DriverRegistry((*known, bridge))
    assert str(caught.value) == problem
