# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the cleanup alone: what its problems say, and when it has finished with an address."""

from __future__ import annotations

import asyncio
import dataclasses
import errno

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.cleanup import Cleanup
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.virtual_time import inline, run

ADDRESS = "10.244.1.5"


async def released(id: str) -> None:
    """Release the addresses of a workload, which always succeeds."""


def cleanup_of(kernel: FakeKernel, *names: str) -> Cleanup:
    """Return a cleanup in which workloads with these names, all with ADDRESS, wait to be removed."""
    cleanup = Cleanup(kernel, inline, released, lambda id: None)
    for name in names:
        leave(cleanup, name, ADDRESS)
    return cleanup


def leave(cleanup: Cleanup, name: str, address: str) -> None:
    """Queue a workload with this name and address, for which a namespace was made, for removal."""
    request = AddRequest.from_params({"name": name, "netns_owned": True, "address": address})
    workload = dataclasses.replace(request.workload(""), addresses=(address,))
    cleanup.add(workload, endpoint(workload, Pool("", "", 0, "None")))


def test_a_namespace_that_stays_is_named_and_not_the_link() -> None:
    async def scenario() -> None:
        kernel = FakeKernel()
        kernel.netns_add("a", "default/a")
        kernel.fail_next("netns_delete", errno.EBUSY)
        cleanup = cleanup_of(kernel, "a")
        interface = cleanup.get("default/a").endpoint.interface
        await cleanup.step()
        assert cleanup.problems == [
            f"default/a with the host end {interface}, which was deleted, is not removed completely: delete network"
            " namespace a: Device or resource busy. It is not reachable, and it is tried again every 1 seconds."
        ]
        await cleanup.step()
        assert len(cleanup) == 0 and kernel.netns_list() == []

    run(scenario())


def test_an_address_of_two_superseded_workloads_is_forgotten_with_both() -> None:
    """Two workloads that had the same address are superseded while a new one waits for that address.

    The wait ends when the kernel has deleted the address's connections, and not before.
    """

    async def scenario() -> None:
        kernel = FakeKernel()
        cleanup = cleanup_of(kernel, "a", "b")
        kernel.fail_next("conntrack_flush", errno.ENOBUFS)
        kernel.fail_next("conntrack_flush", errno.ENOBUFS)
        await cleanup.step()
        waiting = asyncio.ensure_future(cleanup.forgotten(ADDRESS, 5))
        await asyncio.sleep(0)
        cleanup.supersede("default/a")
        cleanup.supersede("default/b")
        assert len(cleanup) == len(cleanup.problems) == 1
        await cleanup.step()
        await asyncio.sleep(0)
        assert not waiting.done()
        await cleanup.step()
        assert await waiting and len(cleanup) == 0

    run(scenario())


def test_a_link_that_stays_is_not_that_of_a_superseded_workload_with_its_host_end() -> None:
    """The connections of a superseded workload are deleted although the next one of its id cannot be removed yet.

    Its link is gone for good: it takes no part in the removal of links any more.
    """

    async def scenario() -> None:
        kernel = FakeKernel()
        cleanup = cleanup_of(kernel, "a")
        kernel.machine.connections = [(ADDRESS, "10.244.1.7"), ("10.244.1.6", "10.244.1.7")]
        kernel.fail_next("conntrack_flush", errno.ENOBUFS)
        await cleanup.step()
        cleanup.supersede("default/a")
        leave(cleanup, "a", "10.244.1.6")
        kernel.netns_add("a", "default/a")
        kernel.fail_next("netns_delete", errno.EBUSY)
        waiting = asyncio.ensure_future(cleanup.forgotten(ADDRESS, 5))
        await asyncio.sleep(0)
        await cleanup.step()
        assert kernel.machine.connections == [("10.244.1.6", "10.244.1.7")]
        assert len(cleanup) == len(cleanup.problems) == 1
        assert cleanup.problems[0].startswith("default/a with the host end ")
        assert await waiting
        await cleanup.step()
        assert len(cleanup) == 0 and kernel.netns_list() == [] and kernel.machine.connections == []

    run(scenario())
