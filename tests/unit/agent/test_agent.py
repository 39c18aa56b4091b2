# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of adds and deletes: the result in memory, on the disk and in the kernel."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import re
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known.persisted_state import (
    PersistedState,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import add
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import RouteOperation
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import drain
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.api.refusal import refused
from tests.unit.agent.gate import Gate
from tests.unit.agent.node_under_test import BLOCK, SPARE, STATE, Node, with_state
from tests.unit.agent.virtual_time import run


def test_an_added_workload_is_reachable_and_on_the_disk(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.settle()
        workload = await agent.transactions.add(node.request("web", labels={"app": "web"}))
        assert workload.addresses == ("10.244.1.0",) and workload.pool == "default-pool" and workload.mtu == 1400
        assert workload.mac and workload.id == "default/web" and workload.interface in node.links
        assert node.routes == {BLOCK, "10.244.1.0/32"}
        assert node.on_disk() == {"default/web": "10.244.1.0"}
        assert node.records == {"default%2Fweb.json"}
        assert node.differences() == []
        assert agent.status.in_sync and agent.drift.to_dict()["total"] == 0
        assert [found.id for found in agent.transactions.list()] == ["default/web"]
        assert await agent.transactions.check("default/web") == []

    run(scenario())


def test_workloads_are_counted_by_their_owner(tmp_path):
    """The status counts the inventory's workloads beside those that the agent attached."""

    async def scenario():
        db = VethEndpoint("db", "cali0", "10.244.1.2", 1400, "default-pool", netns="db")
        node = Node(tmp_path, with_state(workloads=(db,)))
        agent = await node.start()
        await node.settle()
        await agent.transactions.add(node.request("web"))
        await agent.transactions.add(node.request("shop"))
        status = agent.status.to_dict()
        assert (status["workloads"], status["inventory_workloads"]) == (2, 1)

    run(scenario())


def test_a_drained_node_takes_no_new_workloads(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        first = await agent.transactions.add(node.request("web"))
        drain.drain(str(tmp_path / "lib"), "admin@ctl")
        code, message = await refused(agent.transactions.add(node.request("db")))
        assert code == "unavailable" and re.sub(r"at \S+Z", "at TIME", message) == (
            "no workload can be added to this node: it was drained at TIME by admin@ctl, to leave the fleet. Add it to "
            "another node; playbooks/site.yml takes this one back into service."
        )
        assert (await agent.transactions.add(node.request("web"))).addresses == first.addresses
        assert await agent.transactions.delete("default/web") is True
        os.unlink(drain.path(str(tmp_path / "lib")))
        await node.add("db")

    run(scenario())


def test_the_same_again_is_answered_alike_and_another_one_is_refused(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        first = await agent.transactions.add(node.request("web"))
        node.kernel.link_delete(first.interface)
        again = await agent.transactions.add(node.request("web"))
        assert again.addresses == first.addresses and node.differences() == []
        assert await refused(agent.transactions.add(node.request("web", labels={"a": "b"}))) == (
            "conflict",
            "workload default/web exists already, with labels {} and not {'a': 'b'}. Delete it first, or choose another"
            " id.",
        )
        assert await refused(agent.transactions.add(node.request("web", address="10.244.1.3"))) == (
            "conflict",
            "workload default/web exists already, with address 10.244.1.0 and not 10.244.1.3. Delete it first, or"
            " choose another id.",
        )
        assert await refused(agent.transactions.add(node.request("web", id="another"))) == (
            "conflict",
            f"workload another would have the device {first.interface}, which belongs to workload default/web."
            " A node has one workload of a namespace and name: choose another name.",
        )
        assert node.on_disk() == {"default/web": "10.244.1.0"}

    run(scenario())


def test_an_add_gets_the_requested_address_mac_and_mtu_or_is_refused(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        workload = await agent.transactions.add(
            node.request("db", address="10.244.1.5", mac="02:00:00:00:00:05", mtu=1300, pools=("default-pool",))
        )
        assert (workload.addresses, workload.mac, workload.mtu) == (("10.244.1.5",), "02:00:00:00:00:05", 1300)
        assert node.differences() == []
        code, text = await refused(agent.transactions.add(node.request("other", address="10.244.1.5")))
        assert code == "conflict" and "10.244.1.5" in text and "default/db" in text
        code, text = await refused(agent.transactions.add(node.request("other", address="192.0.2.1")))
        assert code == "invalid_params" and "192.0.2.1" in text
        code, text = await refused(agent.transactions.add(node.request("other", pools=("nope",))))
        assert code == "invalid_params" and "nope" in text
        assert node.links == {workload.interface} and set(node.on_disk()) == {"default/db"}

    run(scenario())


def test_a_spare_block_that_a_failed_add_opened_has_its_blackhole(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        node.kernel.fail_next("link_add", errno.EBUSY)
        code, _text = await refused(agent.transactions.add(node.request("web", address="10.244.1.8")))
        await node.settle()
        assert (code, node.links) == ("kernel", set())
        assert node.routes == {BLOCK, SPARE} and node.differences() == []

    run(scenario())


def test_a_spare_block_is_opened_with_its_blackhole_and_when_all_is_full_it_says_so(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.settle()
        for number in range(8):
            await node.add(f"w{number}")
        assert SPARE not in node.routes
        assert await node.add("w8") == "10.244.1.8"
        assert SPARE in node.routes  # the add wrote the blackhole itself: the reconciler had no time to do it
        await node.settle()
        assert node.differences() == []
        for number in range(9, 16):
            await node.add(f"w{number}")
        code, text = await refused(agent.transactions.add(node.request("w16")))
        assert code == "no_address" and "site.yml" in text
        assert len(node.links) == 16
        agent = await node.restart()
        assert node.differences() == []

    run(scenario())


def test_a_deleted_workload_is_unreachable_at_once_and_gone_soon(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("web")
        assert await agent.transactions.delete("default/web") is True
        assert node.routes == {BLOCK} and node.on_disk() == {}
        assert agent.transactions.get("default/web") is None
        await node.settle()
        assert node.links == set() and node.records == set() and node.differences() == []
        assert node.kernel.netns_list() == ["web"]  # the agent did not make this namespace
        assert await agent.transactions.delete("default/web") is False
        assert agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_a_namespace_that_was_made_for_it_goes_with_it(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("web", netns_owned=True)
        assert node.kernel.netns_list() == ["web"]
        await agent.transactions.delete("default/web")
        await node.settle()
        assert node.kernel.netns_list() == []

    run(scenario())


def test_deleted_and_added_again_at_once(tmp_path):
    async def scenario():
        node = Node(tmp_path, cooldown=30.0)
        agent = await node.start()
        for dummy in range(5):
            await node.add("web")
            await agent.transactions.delete("default/web")
        address = await node.add("web")
        await node.settle()
        assert node.differences() == [] and node.on_disk() == {"default/web": address}
        assert address == "10.244.1.5"  # the five addresses before it are in cooldown

    run(scenario())


@pytest.mark.parametrize("operation", ["link_add", "link_set", "address_add", "sysctl_write"])
def test_an_add_that_the_kernel_refuses_leaves_nothing_behind(tmp_path, operation):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.settle()
        node.kernel.fail_next(operation, errno.ENOMEM)
        code, text = await refused(agent.transactions.add(node.request("web")))
        assert code == "kernel" and "Cannot allocate memory" in text
        await node.settle()
        assert node.links == set() and node.records == set() and node.on_disk() == {} and node.routes == {BLOCK}
        node.kernel.machine.failures.clear()
        await node.add("web")
        assert node.differences() == []

    run(scenario())


def test_a_repeated_add_that_the_kernel_refuses_keeps_the_workload(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        first = await agent.transactions.add(node.request("web"))
        await node.settle()
        (route,) = (one for one in node.kernel.routes(protocol=179) if one[0] == f"{first.addresses[0]}/32")
        node.kernel.route_batch([RouteOperation("delete", *route)])
        for _attempt in range(2):
            node.kernel.fail_next("route_batch", errno.ENOMEM, route[0])
        assert (await refused(agent.transactions.add(node.request("web"))))[0] == "kernel"
        assert node.links == {first.interface}
        assert (await agent.transactions.add(node.request("web"))).addresses == first.addresses
        assert node.differences() == []

    run(scenario())


def test_a_disk_that_refuses_leaves_nothing_of_an_add_and_completes_a_delete_later(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("old")
        with node.read_only():
            assert await refused(agent.transactions.add(node.request("new"))) == (
                "not_written",
                "the disk is full. Make room.",
            )
            assert node.routes == {BLOCK, "10.244.1.0/32"}
            assert await agent.transactions.delete("default/old") is True
            assert node.routes == {BLOCK}
            await asyncio.sleep(20)
            assert node.links == set() and node.records == {"unfinished/default%2Fold.json"}
            assert agent.status.to_dict()["problems"] == ["the disk is full. Make room."]
        assert node.on_disk() == {"default/old": "10.244.1.0"}
        await asyncio.sleep(20)
        assert node.on_disk() == {} and node.records == set() and agent.status.to_dict()["problems"] == []

    run(scenario())


def test_the_next_in_a_namespace_waits_for_the_device_of_the_last(tmp_path):
    """A workload can be added at once to the namespace of a deleted one, whose device is removed a little later."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("shared")
        assert await agent.transactions.delete("default/shared") is True
        assert node.links
        await node.add("next", netns="shared")
        for _try in range(100):
            node.kernel.fail_next("link_delete", errno.EBUSY)
        assert await agent.transactions.delete("default/next") is True
        request = node.request("last", netns="shared")
        interface = request.workload("").interface
        assert await refused(agent.transactions.add(request)) == (
            "try_again",
            f"workload default/last cannot be added yet: a deleted workload that had the device {interface}, or"
            " eth0 in the same namespace, is still being removed. Try again.",
        )
        assert node.on_disk() == {} and len(node.links) == 1

    run(scenario())


def test_the_next_to_have_an_address_inherits_no_connection(tmp_path):
    """A new workload does not get an address while connections of its former owner may still be tracked."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await node.add("old")
        node.kernel.machine.connections = [(address, "10.244.1.7"), ("10.244.1.6", "10.244.1.7")]
        for _try in range(100):
            node.kernel.fail_next("link_delete", errno.EBUSY)
        assert await agent.transactions.delete("default/old") is True
        assert await refused(agent.transactions.add(node.request("new", address=address))) == (
            "try_again",
            f"{address} was that of a workload that was deleted, which is still being removed. Try again.",
        )
        assert f"{address}/32" not in node.routes and node.on_disk() == {}
        node.kernel.machine.failures.clear()
        assert await node.add("new", address=address) == address
        assert node.kernel.machine.connections == [("10.244.1.6", "10.244.1.7")]

    run(scenario())


def test_connections_that_the_kernel_does_not_delete_are_a_problem_and_are_tried_again(tmp_path):
    """While connections of a deleted workload are tracked, no other workload gets its address, and it is a problem.

    This outlasts a restart of the agent. An add with the address deletes them as soon as the kernel permits it.
    """

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await node.add("old")
        node.kernel.machine.connections = [(address, "10.244.1.7")]
        for _try in range(100):
            node.kernel.fail_next("conntrack_flush", errno.ENOBUFS)
        assert await agent.transactions.delete("default/old") is True
        await node.settle()
        assert node.links == set() and len(agent.cleanup) == 1
        assert agent.status.to_dict()["problems"] == [
            f"Connections of default/old, which was deleted, may still be tracked, because the kernel refused: delete"
            f" tracked connections of {address}: No buffer space available. The next workload with {address} would"
            f" inherit them, so none gets it until they are gone. That is tried again every 1 seconds. If it stays,"
            f" delete them (conntrack -D -s {address}; conntrack -D -d {address}) and look at dmesg."
        ]
        assert await refused(agent.transactions.add(node.request("new", address=address))) == (
            "try_again",
            f"{address} was that of a workload that was deleted, which is still being removed. Try again.",
        )
        await node.restart()  # the record keeps it over the end of the agent
        assert node.agent.cleanup.get("default/old") is not None
        node.kernel.machine.failures.clear()
        assert await node.add("new", address=address) == address
        assert node.kernel.machine.connections == [] and node.agent.status.to_dict()["problems"] == []

    run(scenario())


def test_a_workload_comes_back_while_the_kernel_does_not_delete_its_connections(tmp_path):
    """The next workload with the same id is attached at once at another address, and keeps its own record."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await node.add("old")
        node.kernel.machine.connections = [(address, "10.244.1.7")]
        for _try in range(100):
            node.kernel.fail_next("conntrack_flush", errno.ENOBUFS)
        assert await agent.transactions.delete("default/old") is True
        await node.settle()
        again = await node.add("old")
        assert again != address and node.records == {"default%2Fold.json"}
        (problem,) = agent.status.to_dict()["problems"]
        assert problem.startswith("Connections of default/old, which was deleted, may still be tracked,")
        assert await agent.transactions.delete("default/old") is True
        await node.settle()
        assert len(agent.cleanup) == 2  # one for each address
        again = await node.add("old")
        node.kernel.machine.failures.clear()
        await asyncio.sleep(5)
        assert node.kernel.machine.connections == [] and agent.status.to_dict()["problems"] == []
        assert node.records == {"default%2Fold.json"} and node.on_disk() == {"default/old": again}
        assert len(agent.cleanup) == 0 and node.differences() == []

    run(scenario())


def test_a_delete_that_cannot_be_committed_fails(tmp_path, monkeypatch):
    """A delete fails if the record cannot be written: the workload stays attached, and a later delete succeeds."""

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        address = await node.add("w1")

        def refuse(identity):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as broken:
            broken.setattr(agent.persisted.records, "leave", refuse)
            assert await refused(agent.transactions.delete("default/w1")) == (
                "not_written",
                f"the record cannot be written below {node.machine.workloads}: Input/output error. Nothing was changed."
                " Make room or correct the file system, then try again.",
            )
        assert node.on_disk() == {"default/w1": address} and f"{address}/32" in node.routes
        assert node.records == {"default%2Fw1.json"} and agent.status.to_dict()["problems"] == []
        assert await agent.transactions.delete("default/w1") is True
        assert node.on_disk() == {} and node.routes == {BLOCK}

    run(scenario())


def test_link_and_route_take_one_hop_to_the_thread_if_the_disk_is_faster(tmp_path):
    async def scenario():
        node, hops = Node(tmp_path), []

        async def late(work):
            hops.append(work)
            await asyncio.sleep(1)
            return work()

        node.threads["plumbing"] = late
        await node.start()
        hops.clear()
        await node.add("web")
        assert len(hops) == 1 and node.differences() == []

    run(scenario())


def test_concurrent_adds_get_distinct_addresses_and_share_disk_writes(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        added = await asyncio.gather(*(node.add(f"w{number}") for number in range(16)))
        assert len(set(added)) == 16 and node.differences() == []
        assert agent.instruments.flush_seconds.count() < 5
        same = await asyncio.gather(*(agent.transactions.add(node.request("w3")) for dummy in range(4)))
        assert {workload.addresses for workload in same} == {(added[3],)}
        await asyncio.gather(*(agent.transactions.delete(f"default/w{number}") for number in range(16)))
        await node.settle()
        assert node.links == set() and node.on_disk() == {} and node.differences() == []

    run(scenario())


def test_a_resync_during_an_add_does_not_remove_its_link(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)

        async def slow(work):
            await asyncio.sleep(1)
            return work()

        node.threads["disk"] = slow
        agent = await node.start()
        adding = asyncio.ensure_future(agent.transactions.add(node.request("web")))
        await asyncio.sleep(0.5)
        assert len(node.links) == 1 and node.routes == {BLOCK} and node.on_disk() == {}
        assert (await agent.changes.resync()).changes == ()
        await adding
        assert node.differences() == [] and agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_a_plan_that_waited_for_an_add_has_what_was_added(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        disk = node.threads["disk"] = Gate()
        agent = await node.start()
        disk.shut = True
        adding = asyncio.ensure_future(node.add("web"))
        await node.settle()
        planning = [asyncio.ensure_future(agent.changes.plan(state)) for state in (None, STATE)]
        await node.settle()
        assert not any(task.done() for task in planning)  # a plan must not show half an attachment
        disk.open()
        await adding
        assert [planned.changes for planned in await asyncio.gather(*planning)] == [(), ()]

    run(scenario())


def test_a_readers_plan_does_not_block_adds(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        disk = node.threads["disk"] = Gate()
        agent = await node.start()
        assert (await agent.changes.look()).changes == ()
        disk.shut = True
        adding = asyncio.ensure_future(node.add("web"))
        await node.settle()
        looking = asyncio.ensure_future(agent.changes.look())
        await asyncio.sleep(0.1)
        assert agent.host.rwlock.quiet is None
        other = asyncio.ensure_future(node.add("other"))  # this add would have to wait if look() waited as a writer
        await asyncio.sleep(0.1)
        assert len(node.links) == 2 and not looking.done()
        disk.open()
        await asyncio.gather(adding, other)
        assert (await looking).changes == ()
        disk.shut = True
        third = asyncio.ensure_future(node.add("third"))
        await node.settle()
        with pytest.raises(AgentError) as refused:
            await agent.changes.look()
        assert (refused.value.code, refused.value.message) == (
            "try_again",
            "node.plan: workloads came or went each time that the node was looked at. Ask again, or ask as root, for"
            " whom they wait.",
        )
        disk.open()
        await third

    run(scenario())


def test_a_reader_who_looks_sees_what_is_broken(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        agent = await node.start()
        await node.add("web")
        await node.settle()
        async with agent.host.rwlock:  # until no add, delete or repair is under way
            pass
        node.kernel.link_delete(next(iter(node.links)))
        looked = await agent.changes.look()
        assert {change.kind for change in looked.additions} >= {"workload"}

    run(scenario())


def test_a_check_that_waited_for_a_delete_finds_nothing_rather_than_half_of_it(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("web")
        async with agent.host.rwlock:  # as if the reconciler were repairing something
            deleting = asyncio.ensure_future(agent.transactions.delete("default/web"))
            await node.settle()
            checking = asyncio.ensure_future(agent.transactions.check("default/web"))
            await node.settle()
        assert await deleting
        with pytest.raises(AgentError, match="there is no workload default/web on this node"):
            await checking

    run(scenario())


def test_a_new_state_that_came_during_an_add_is_no_drift(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        disk = node.threads["disk"] = Gate()
        agent = await node.start()
        disk.shut = True
        adding = asyncio.ensure_future(node.add("web"))
        await node.settle()
        smaller = dataclasses.replace(STATE.pools[0], workload_mtu=1300)
        applying = asyncio.ensure_future(agent.changes.apply(with_state(pools=(smaller,)), removals=True))
        await node.settle()
        disk.open()
        await adding
        outcome = await applying
        assert [change.kind for change in outcome.changes] == ["workload"] and node.differences() == []
        assert agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_a_caller_who_gives_up_leaves_nothing(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        for steps in range(30):
            task = asyncio.ensure_future(agent.transactions.add(node.request("web")))
            for dummy in range(steps):
                await asyncio.sleep(0)
            done = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await node.settle()
            assert node.differences() == []
            assert len(node.on_disk()) == len(node.records) == len(node.links) == (1 if done else 0)
            if done:
                break
        else:
            raise AssertionError("it never ended")

    run(scenario())


def test_without_a_desired_state_nothing_can_be_added(tmp_path):
    async def scenario():
        node = Node(tmp_path, state=None)
        agent = await node.start()
        assert await refused(agent.transactions.add(node.request("web"))) == (
            "unavailable",
            f"no workload can be added to this node: this node has no desired state yet ({tmp_path}/lib/state.json)."
            " Run site.yml for it, then try again.",
        )
        assert await agent.transactions.delete("default/web") is False

    run(scenario())


def test_a_stored_state_with_a_block_that_is_none_is_a_problem_and_the_last_one_stays(tmp_path):
    node = Node(tmp_path)
    persisted = PersistedState(node.machine, LocalIpam(node.machine.ipam, lambda: 0.0, lambda: "boot"))
    persisted.load()
    assert persisted.state == STATE and persisted.broken == {}
    node.store.save(Stored(with_state(ipam=NodeIpam(1, (Block("x", "default-pool"),))), complete=True))
    persisted.reload()
    assert persisted.state == STATE and persisted.broken == {
        "state": f"{tmp_path}/lib/state.json cannot be read: ipam.blocks has x, which is not a CIDR without host bits."
        " It was damaged or written by another release. Use that release, or move the file away if the lockfile on the"
        " controller has this node's blocks; the next run then stores the state anew."
    }


def test_the_wall_clock_may_jump(tmp_path, monkeypatch):
    """No decision depends on the wall clock: a clock that never goes back measures cooldown and grace."""
    days = iter(["2026-11-21T21:00:00Z", "1970-01-01T00:00:00Z", "2106-02-07T06:28:15Z", "1999-12-31T23:59:59Z"] * 50)
    monkeypatch.setattr(add, "now", lambda: next(days))
    monkeypatch.setattr(time, "time", lambda: -1.0)

    async def scenario():
        node = Node(tmp_path, cooldown=30.0, leak_grace=900.0)
        agent = await node.start()
        first = await node.add("a")
        await agent.transactions.delete("default/a")
        seen = {await node.add(f"w{number}") for number in range(15)}
        assert first not in seen and len(seen) == 15
        code, text = await refused(agent.transactions.add(node.request("one-more")))
        assert code == "no_address", text
        await asyncio.sleep(31)
        assert await node.add("one-more") == first
        agent = await node.restart()
        assert {workload.since for workload in agent.transactions.list()} > {"1970-01-01T00:00:00Z"}
        assert node.differences() == [] and agent.status.in_sync

    run(scenario())
