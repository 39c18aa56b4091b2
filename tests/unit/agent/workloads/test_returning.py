# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that come back get their addresses again, for as long as `sticky` says; others get others."""

from __future__ import annotations

import asyncio
import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest

from tests.unit.agent.node_under_test import Node
from tests.unit.agent.virtual_time import run


def container(node: Node, digits: str, name: str = "web") -> AddRequest:
    """Return the request of podman's plugin for a container whose id consists of `digits`."""
    id = digits * 64
    netns = f"/run/netns/{digits}"
    if not node.kernel.netns_exists(netns):
        node.kernel.netns_add(netns, "")
    return AddRequest(
        name=f"{name}.{id[:12]}.eth0", id=f"calico.{id}.eth0", netns=netns, peer_interface="eth0", network="calico",
        container=id, runtime="podman",
    )  # fmt: skip


async def added(node: Node, digits: str, name: str = "web") -> str:
    return (await node.agent.transactions.add(container(node, digits, name))).addresses[0]


async def deleted(node: Node, digits: str) -> None:
    assert await node.agent.transactions.delete(f"calico.{digits * 64}.eth0")


@pytest.mark.parametrize("cooldown", [0.0, 30.0])
def test_a_container_that_restarts_keeps_its_address(tmp_path, cooldown):
    async def scenario():
        node = Node(tmp_path, cooldown=cooldown, sticky=30.0)
        await node.start()
        address = await added(node, "a")
        for _again in range(3):
            await deleted(node, "a")
            assert await added(node, "a") == address
        await deleted(node, "a")
        assert await added(node, "b", "db") != address  # another one gets another address
        assert await added(node, "c", "web") == address  # podman run --replace
        await node.settle()
        assert node.differences() == []
        await deleted(node, "c")
        await asyncio.sleep(31)
        assert await added(node, "c") != address

    run(scenario())


def test_nothing_is_kept_if_it_is_switched_off(tmp_path):
    async def scenario():
        node = Node(tmp_path, cooldown=30.0, sticky=0.0)
        await node.start()
        address = await added(node, "a")
        await deleted(node, "a")
        assert await added(node, "a") != address

    run(scenario())


@pytest.mark.parametrize("sticky", [10.0, 3600.0])
def test_a_kept_address_outlives_the_agent(tmp_path, sticky):
    """The journal has it. The time while no agent runs counts."""

    async def scenario():
        node = Node(tmp_path, cooldown=0.0, sticky=sticky)
        await node.start()
        address = await added(node, "a")
        await deleted(node, "a")
        await node.settle()
        await node.kill()
        await asyncio.sleep(5)
        await node.start()
        assert await added(node, "b", "db") != address
        assert await added(node, "c") == address
        await deleted(node, "c")
        await node.settle()
        await node.kill()
        await asyncio.sleep(11)
        await node.start()
        assert (await added(node, "c") == address) == (sticky > 11)

    run(scenario())


def test_a_full_pool_gives_kept_addresses_the_earliest_first(tmp_path):
    """Kept addresses are not missing: workloads that find no other one get them."""

    async def scenario():
        node = Node(tmp_path, cooldown=0.0, sticky=3600.0)
        await node.start()
        first, second = await added(node, "a", "one"), await added(node, "b", "two")
        others = 0
        with pytest.raises(AgentError) as caught:
            while True:
                await node.add(f"w{others}")
                others += 1
        assert caught.value.code == "no_address"
        await deleted(node, "b")
        await deleted(node, "a")
        assert [await node.add("x"), await node.add("y")] == [second, first]
        await node.settle()
        assert node.differences() == []

    run(scenario())


def test_an_address_whose_link_cannot_be_removed_is_nobodys(tmp_path):
    """A workload does not wait in vain for the address that it had: it gets another one, and later its own again."""

    async def scenario():
        node = Node(tmp_path, cooldown=0.0, sticky=3600.0)
        await node.start()
        address = await added(node, "a")
        for _attempt in range(20):
            node.kernel.fail_next("conntrack_flush", errno.ENOMEM)
        await deleted(node, "a")
        await asyncio.sleep(2)
        assert node.agent.cleanup.stuck == {address}
        other = await added(node, "c")
        assert other != address
        node.kernel.machine.failures.clear()
        await asyncio.sleep(2)
        assert node.agent.cleanup.stuck == set()
        await deleted(node, "c")
        assert await added(node, "a") == address

    run(scenario())


def test_an_add_that_failed_keeps_no_address(tmp_path):
    """If the address is the reason, the next attempt has another one."""

    async def scenario():
        node = Node(tmp_path, cooldown=30.0, sticky=30.0)
        await node.start()
        node.kernel.fail_next("link_add", errno.ENOMEM)
        with pytest.raises(AgentError):
            await added(node, "a")
        await node.settle()
        assert await added(node, "a") == "10.244.1.1"

    run(scenario())


def test_a_container_that_takes_many_names_has_no_more_than_the_pool(tmp_path):
    """However many names there were, each address has one former workload, and others get addresses meanwhile."""

    async def scenario():
        node = Node(tmp_path, cooldown=0.0, sticky=3600.0)
        await node.start()
        kept = await node.add("kept")
        for number in range(80):
            await added(node, "a", f"name{number}")
            await deleted(node, "a")
            await added(node, f"{number:x}", f"other{number}")
            await deleted(node, f"{number:x}")
        books = node.agent.addresses._persisted.ipam._allocations
        assert len(books._former) <= sum(use.size for use in books.usage(node.seconds()))
        for number in range(3):
            await node.add(f"w{number}")
        assert node.on_disk()["default/kept"] == kept
        await node.settle()
        assert node.differences() == []

    run(scenario())


def docker(node: Node, name: str, **more) -> AddRequest:
    return AddRequest(name=name, id=f"docker/{name}", handed_over=True, **more)


async def started(node: Node, name: str) -> str:
    """Do what dockerd asks for when a container starts. It does not say which one until it has an address."""
    address = await node.agent.addresses.reserve(None, (), 4)
    await node.agent.transactions.add(docker(node, name, address=address))
    return address


async def stopped(node: Node, name: str) -> None:
    (address,) = node.agent.transactions.get(f"docker/{name}").addresses
    assert await node.agent.transactions.delete(f"docker/{name}")
    assert await node.agent.addresses.unreserve(address)


@pytest.mark.parametrize("cooldown", [0.0, 30.0])
def test_the_only_container_of_docker_that_stopped_keeps_its_address(tmp_path, cooldown):
    async def scenario():
        node = Node(tmp_path, cooldown=cooldown, sticky=30.0)
        await node.start()
        one, two = await started(node, "one"), await started(node, "two")
        for again in range(3):  # docker restart: each start has another endpoint
            await stopped(node, "one" if not again else f"one{again}")
            assert await node.add(f"w{again}") not in (one, two)
            assert await started(node, f"one{again + 1}") == one
        await stopped(node, "one3")
        await stopped(node, "two")
        assert {await started(node, "one4"), await started(node, "two2")}.isdisjoint({one, two})
        await asyncio.sleep(31)
        await stopped(node, "two2")
        assert await started(node, "two3") not in (one, two)
        await node.settle()
        assert node.differences() == []

    run(scenario())


def test_an_address_that_docker_asked_for_by_name_is_kept_for_no_other_container(tmp_path):
    async def scenario():
        node = Node(tmp_path, cooldown=0.0, sticky=30.0)
        await node.start()
        address = await node.agent.addresses.reserve("10.244.1.9", (), 4)
        await node.agent.transactions.add(docker(node, "fixed", address=address))
        await stopped(node, "fixed")
        assert await started(node, "other") != address
        assert await node.agent.addresses.reserve(address, (), 4) == address

    run(scenario())
