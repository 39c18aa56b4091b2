# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent keeps the probe endpoint as it keeps workloads."""

from __future__ import annotations

import asyncio
import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile import repair
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import with_probe_endpoint

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.reconcile.test_polling import polled
from tests.unit.agent.reconcile.test_reconcile import Node
from tests.unit.agent.virtual_time import run
from tests.unit.dataplane.suites import suite_probe_endpoint
from tests.unit.dataplane.suites.suite_node import STATE

PROBE = dataclasses.replace(suite_probe_endpoint.PROBE, address6="", pool6="", further=("10.245.1.63",))
PROBED = with_probe_endpoint(STATE, PROBE)
MADE = "+ workload caliprobe  eth0 10.244.1.63 10.245.1.63  probe endpoint  mtu 1480"


def inside(kernel: FakeKernel) -> list[str]:
    return sorted(one.address for one in kernel.inside("calico-probe").addresses("eth0"))


@pytest.mark.parametrize(
    "act",
    [lambda kernel: kernel.link_delete("caliprobe"), lambda kernel: kernel.netns_delete("calico-probe")],
    ids=["device", "namespace"],
)
def test_endpoint_that_is_gone_is_restored_with_its_settings_and_routes(act: t.Callable[[FakeKernel], None]) -> None:
    async def scenario() -> None:
        node = Node(PROBED)
        await node.start()
        act(node.kernel)
        node.stages.mark("workload")
        await asyncio.sleep(0.5)
        assert node.told[0] == f"drift {MADE}"
        assert [line.split()[2:4] for line in node.told[1:] if "sysctl" not in line] == [
            ["route", "10.244.1.63/32"],
            ["route", "10.245.1.63/32"],
        ]
        assert node.kernel.sysctl_read("net/ipv4/conf/caliprobe/proxy_arp") == "1"
        assert inside(node.kernel) == ["10.244.1.63", "10.245.1.63"]
        assert node.passes.in_sync

    run(scenario())


def test_address_that_is_lost_inside_is_found_by_polling() -> None:
    async def scenario() -> None:
        node = Node(PROBED)
        marked = await polled(node)
        node.kernel.inside("calico-probe").address_delete(InterfaceAddress("eth0", "10.245.1.63", 32))
        await asyncio.sleep(2)
        assert ("workload", ("caliprobe",)) in marked.marks
        assert node.told == ["drift ~ workload caliprobe  address none  ->  address 10.245.1.63"]

    run(scenario())


def test_resync_looks_into_its_namespace() -> None:
    async def scenario() -> None:
        node = Node(PROBED)
        await node.start()
        node.kernel.inside("calico-probe").address_delete(InterfaceAddress("eth0", "10.245.1.63", 32))
        await node.passes.resync()
        assert inside(node.kernel) == ["10.244.1.63", "10.245.1.63"]

    run(scenario())


def test_endpoint_of_another_state_is_made_changed_and_removed() -> None:
    """The endpoint follows the desired state: it appears, gets and loses an address, and goes. None of it is drift."""

    async def scenario() -> None:
        node = Node(STATE)
        await node.start()
        wanted = (PROBED, with_probe_endpoint(STATE, dataclasses.replace(PROBE, further=())), PROBED, STATE)
        told = []
        for state in wanted:
            node.state = state
            node.stages.mark("workload")
            node.stages.mark("route")
            await asyncio.sleep(0.5)
            assert node.passes.in_sync
            told += [line for line in node.told if "workload" in line or "drift" in line]
            node.told.clear()
        assert told == [
            MADE,
            "~ workload caliprobe  address 10.245.1.63  ->  address none",
            "~ workload caliprobe  address none  ->  address 10.245.1.63",
            "- workload caliprobe  host end caliprobe    with its network namespace calico-probe",
        ]

    run(scenario())


def test_only_a_change_of_the_endpoint_reads_it_again() -> None:
    """A state that is narrowed to changes has the probe endpoint if one of them is about it."""
    kernel = FakeKernel()
    changes = workload.diff(PROBED.endpoints, workload.observe(kernel, PROBED.endpoints))
    of_web, of_probe = changes
    assert repair.narrowed(PROBED, ["workload"], [of_web]).endpoints == PROBED.workloads
    assert repair.narrowed(PROBED, ["workload"], [of_probe]).endpoints == (PROBE,)
