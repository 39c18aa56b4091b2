# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads whose inner end a container engine moves: reserve, add, join, delete, and what nobody takes."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, Request
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest

from tests.unit.agent.api.refusal import refused
from tests.unit.agent.node_under_test import BLOCK, Node
from tests.unit.agent.virtual_time import run

ROOT = Peer(1, 0, 0)
PATH = "/var/run/docker/netns/a6aa6f52effe"


def request(name="box", **more):
    return AddRequest(name=name, id=f"docker.{name}", handed_over=True, **more)


async def reserved(node, **more):
    return await node.agent.addresses.reserve(more.pop("address", None), more.pop("pools", ()), 4)


def move(node, workload, name="eth0", path=PATH):
    """Do what a container engine does to the inner end of a workload."""
    if not node.kernel.netns_exists(path):
        node.kernel.netns_add(path, "")
    link = node.kernel._links.pop(workload.peer_interface)
    link.name, link.up = name, False
    inner = node.kernel.inside(path)
    inner._make(link)
    for address in workload.addresses:
        inner.address_add(InterfaceAddress(name, address, 32))
    inner.link_set(name, up=True)


def test_from_the_reservation_to_the_release(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await reserved(node)
        assert node.on_disk() == {f"reserved:{address}": address}
        workload = await agent.transactions.add(
            request(address=address, labels={"app": "web"}, mac="02:42:00:00:00:05")
        )
        assert workload.addresses == (address,) and workload.mac == "02:42:00:00:00:05" and workload.mtu == 1400
        assert node.on_disk() == {"docker.box": address}
        assert node.routes == {BLOCK, f"{address}/32"}
        assert node.links == {workload.interface, workload.peer_interface}
        assert node.differences() == [] and await agent.transactions.check("docker.box") == []
        assert agent.addresses.check(agent.workloads)["problems"] == 0
        # The same again is the same.
        again = request(address=address, labels={"app": "web"}, mac="02:42:00:00:00:05")
        assert await agent.transactions.add(again) == workload

        joined, siblings = await agent.transactions.join("docker.box", PATH)
        assert (joined.netns, siblings) == (PATH, [])
        move(node, workload)
        await node.settle()
        assert node.differences() == [] and await agent.transactions.check("docker.box") == []
        assert await agent.transactions.add(again) == dataclasses.replace(workload, netns=PATH)

        assert await agent.transactions.delete("docker.box")
        assert node.on_disk() == {f"reserved:{address}": address}
        assert await agent.addresses.unreserve(address) and node.on_disk() == {}
        assert not await agent.addresses.unreserve(address)
        assert not await agent.transactions.delete("docker.box")
        await node.settle()
        assert (node.links, node.routes, node.records) == (set(), {BLOCK}, set())

    run(scenario())


def test_a_joined_workload_survives_a_restart_of_the_agent(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await reserved(node)
        workload = await agent.transactions.add(request(address=address))
        await agent.transactions.join("docker.box", PATH)
        move(node, workload, "eth1")
        agent = await node.restart()
        await node.settle()
        known = agent.transactions.get("docker.box")
        assert (known.handed_over, known.netns, known.addresses) == (True, PATH, (address,))
        assert node.differences() == [] and agent.drift.to_dict()["total"] == 0
        # The rule for a second interface was not written before, because the agent was stopped.
        inner = node.kernel.inside(PATH)
        assert [rule.source for rule in inner.rules(4) if rule.source] == [address]

    run(scenario())


def test_a_second_network_of_a_container(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        first = await agent.transactions.add(request("one"))
        second = await agent.transactions.add(request("two"))
        assert (await agent.transactions.join("docker.one", PATH))[1] == []
        assert (await agent.transactions.join("docker.two", PATH))[1] == ["docker.one"]
        move(node, first)
        move(node, second, "eth1")
        await node.settle()
        inner = node.kernel.inside(PATH)
        sources = {rule.source for rule in inner.rules(4) if rule.source}
        assert sources == {*first.addresses, *second.addresses}
        # The engine's own default route may lead elsewhere: workloads are reached by these interfaces.
        pools = [through.device for to, through in inner.routes(table=179_000_000) if to == "10.244.0.0/16"]
        assert sorted(pools) == ["eth0", "eth1"]

    run(scenario())


def test_the_other_network_of_a_container_is_completed_again(tmp_path):
    """Docker removes a default route with a network's interface, and not always that of this interface."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        first, second = await agent.transactions.add(request("one")), await agent.transactions.add(request("two"))
        for id, workload, name in (("docker.one", first, "eth0"), ("docker.two", second, "eth1")):
            await agent.transactions.join(id, PATH)
            move(node, workload, name)
        await node.settle()
        inner = node.kernel.inside(PATH)
        (lost,) = [route for route in inner.routes(table=254) if route[0] == "0.0.0.0/0" and route[1].metric == 101]
        inner.write([RouteOperation("delete", *lost)])
        await agent.transactions.delete("docker.one")
        await node.settle()
        assert lost in inner.routes(table=254)

    run(scenario())


def test_the_host_end_is_repaired_and_counts_as_drift(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        workload = await agent.transactions.add(request())
        await agent.transactions.join("docker.box", PATH)
        move(node, workload)
        node.kernel.link_set(workload.interface, up=False)
        assert [text.split("host end")[0] for text in await agent.transactions.check("docker.box")] != []
        agent.passes.stages.mark()
        await node.settle()
        assert node.kernel.link(workload.interface).up and await agent.transactions.check("docker.box") == []

    run(scenario())


def test_a_container_that_is_gone(tmp_path):
    """Its pair is gone with it: nothing is repaired, `check` says so, and a delete frees the address."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await reserved(node)
        workload = await agent.transactions.add(request(address=address))
        await agent.transactions.join("docker.box", PATH)
        move(node, workload)
        node.kernel.inside(PATH).link_delete("eth0")
        agent.passes.stages.mark()
        await node.settle()
        assert node.links == set()
        assert "its pair is gone, and only its container engine can make another one" in await agent.transactions.check(
            "docker.box"
        )
        assert await agent.transactions.delete("docker.box") and await agent.addresses.unreserve(address)
        assert node.on_disk() == {}

    run(scenario())


@pytest.mark.parametrize("gone", [False, True], ids=["never moved", "gone with its container"])
def test_a_workload_without_a_container_is_deleted_after_the_grace_time(tmp_path, gone):
    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        agent = await node.start()
        address = await reserved(node)
        workload = await agent.transactions.add(request(address=address))
        stays = await agent.transactions.add(request("stays"))
        move(node, stays, path="/var/run/docker/netns/b")
        if gone:
            move(node, workload)
            node.kernel.inside(PATH).link_delete("eth0")
        await asyncio.sleep(50)
        assert agent.transactions.get("docker.box") is not None
        await asyncio.sleep(300)
        assert agent.transactions.get("docker.box") is None
        assert set(node.on_disk()) == {"docker.stays"} and node.links == {stays.interface}

    run(scenario())


def test_an_unused_reservation_is_released_after_the_grace_time(tmp_path):
    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        await node.start()
        await reserved(node)
        await asyncio.sleep(50)
        assert len(node.on_disk()) == 1
        await asyncio.sleep(150)
        assert node.on_disk() == {}

    run(scenario())


def test_an_engine_has_time_between_its_calls(tmp_path):
    """Without a time of grace, what an engine asked for waits ten seconds for its next call."""

    async def scenario():
        node = Node(tmp_path, leak_grace=0.0)
        agent = await node.start()
        address = await reserved(node)
        await agent.transactions.add(request())
        await asyncio.sleep(8)
        assert address in node.on_disk().values() and agent.transactions.get("docker.box") is not None
        await asyncio.sleep(8)
        assert node.on_disk() == {} and agent.transactions.get("docker.box") is None

    run(scenario())


def test_an_engine_that_starts_has_forgotten_what_no_container_has(tmp_path):
    """Ten seconds after its start that is free; what it asks for afterwards has the whole time of grace."""

    async def scenario():
        node = Node(tmp_path, leak_grace=900.0)
        agent = await node.start()
        await reserved(node)
        await agent.transactions.add(request("left"))
        alive = await agent.transactions.add(request("alive"))
        await agent.transactions.join("docker.alive", PATH)
        move(node, alive)
        await asyncio.sleep(1)
        assert await Methods(agent).engine_started({}, ROOT) == {}
        await asyncio.sleep(5)
        assert len(node.on_disk()) == 3
        later = await agent.transactions.add(request("later"))
        other = await reserved(node)
        await asyncio.sleep(30)
        assert node.on_disk() == {
            "docker.alive": alive.addresses[0],
            "docker.later": later.addresses[0],
            f"reserved:{other}": other,
        }
        await asyncio.sleep(1000)
        assert set(node.on_disk()) == {"docker.alive"} and agent.transactions.get("docker.alive") is not None

    run(scenario())


def test_after_a_reboot_the_address_waits_for_its_engine(tmp_path):
    """Without a record, a delete reserves the address again, and the engine frees it."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await reserved(node)
        await agent.transactions.add(request(address=address))
        await node.kill()
        (tmp_path / "run" / "workloads" / "docker.box.json").unlink()
        agent = await node.start()
        assert node.on_disk() == {"docker.box": address}
        assert await agent.transactions.delete("docker.box")
        assert node.on_disk() == {f"reserved:{address}": address}
        assert await agent.addresses.unreserve(address) and node.on_disk() == {}

    run(scenario())


def test_a_failed_add_leaves_the_reservation(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await reserved(node)
        node.kernel.fail_next("link_add", errno.EPERM)
        assert (await refused(agent.transactions.add(request(address=address))))[0] == "kernel"
        await node.settle()
        assert node.on_disk() == {f"reserved:{address}": address}
        assert node.links == set() and node.records == set()

    run(scenario())


def test_invalid_joins_and_reservations_are_refused(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("web")
        assert await refused(agent.transactions.join("default/web", PATH)) == (
            "conflict",
            "workload default/web was not handed over: its end is where it was attached. Delete it, then add it anew.",
        )
        assert await refused(agent.transactions.join("docker.none", PATH)) == (
            "not_found",
            "there is no workload docker.none on this node. See `calicoctl workload list`.",
        )
        for netns in ("box", "/", "/run/a b", "/run/a\nb", "/" + "a" * 300, "/run//a"):
            code, message = await refused(agent.transactions.join("default/web", netns))
            assert code == "invalid_params" and message.startswith("workload.join: netns "), netns
            assert message.endswith(" must be the absolute path of a network namespace.")
        # Another's address stays another's.
        assert not await agent.addresses.unreserve(agent.transactions.get("default/web").addresses[0])
        code, message = await refused(agent.addresses.reserve("10.9.9.9", (), 4))
        assert code == "invalid_params" and message.startswith("10.9.9.9 lies in none of this node's blocks")

    run(scenario())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"netns": "box"},
            "netns 'box' must be left out with handed_over: workload.join says later where the inner end is.",
        ),
        (
            {"mac": "EE:ee:ee:ee:ee:ee"},
            "mac 'EE:ee:ee:ee:ee:ee' is that of all host ends, from which the workload's gateway is derived. Choose"
            " another one.",
        ),
        ({"handed_over": 1}, "handed_over is 1, not true or false."),
        (
            {"id": "reserved:10.244.1.1"},
            "id 'reserved:10.244.1.1' must not begin with reserved:, as the handles of reserved addresses do.",
        ),
    ],
)
def test_an_invalid_handed_over_add_is_refused(params, words):
    with pytest.raises(AgentError) as caught:
        AddRequest.from_params({"name": "box", "handed_over": True, **params})
    assert (caught.value.code, caught.value.message) == ("invalid_params", f"workload.add: {words}")


def test_the_api_reserves_adds_joins_and_releases_an_address(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        methods = Methods(await node.start())
        pools = await methods.ipam_pools({}, ROOT)
        assert pools == {"pools": [{"name": "default-pool", "cidr": "10.244.0.0/16", "disabled": False}]}
        asked = {"address": "10.244.1.3", "pools": ["default-pool"], "family": 4}
        for _ in range(2):  # A repeated request has the same answer.
            assert await methods.ipam_reserve(asked, ROOT) == {"address": "10.244.1.3"}
        given = {"id": "docker.a", "name": "a", "handed_over": True, "address": "10.244.1.3"}
        added = await methods.add(given, ROOT)
        assert added["created"] and added["workload"]["handed_over"] is True
        assert json.loads(json.dumps(added)) == added
        joined = await methods.join({"id": "docker.a", "netns": PATH}, ROOT)
        assert (joined["workload"]["netns"], joined["siblings"]) == (PATH, [])
        assert await methods.ipam_unreserve({"address": "10.244.1.3"}, ROOT) == {"released": False}
        await methods.delete({"id": "docker.a"}, ROOT)
        assert await methods.ipam_unreserve({"address": "10.244.1.3"}, ROOT) == {"released": True}
        for params, words in (
            ({"address": 7}, "address is 7, not a text of at most 4096 characters."),
            ({"pools": "default"}, "pools is default, not a list of at most 1024."),
            ({"family": True}, "family is True, not an IP version, 4 or 6."),
            ({"family": 5}, "family is 5, not an IP version, 4 or 6."),
        ):
            asking = Calls(methods.table).call(Request(1, "ipam.reserve", params), ROOT)
            assert await refused(asking) == ("invalid_params", f"ipam.reserve: {words}")

    run(scenario())


def test_the_boot_units_plan_leaves_it_alone(tmp_path):
    """A plan without the agent's process keeps host end, route and sysctls."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await agent.transactions.add(request())
        desired = agent.desired_state.whole()
        await node.kill()
        assert plan_node(node.kernel, desired).changes == ()

    run(scenario())
