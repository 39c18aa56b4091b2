# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of workloads with both IP versions on a node with blocks of both, through the API and CNI."""

from __future__ import annotations

import dataclasses
import errno
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import InterfaceAddress
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni.dispatch import CniPlugin
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark.dispatch import (
    NetavarkPlugin,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, Pool, Route, Sysctl

from tests.unit.agent.api.refusal import refused
from tests.unit.agent.node_under_test import STATE, Node
from tests.unit.agent.virtual_time import run

BLOCK6, SPARE6 = "fd00:10:244::40/126", "fd00:10:244::80/126"
DUAL = dataclasses.replace(
    STATE,
    address6="fd00:10:10::11/64",
    pools=(*STATE.pools, Pool("six", "fd00:10:244::/64", 126, "VXLAN", workload_mtu=1330)),
    ipam=dataclasses.replace(
        STATE.ipam,
        blocks=(*STATE.ipam.blocks, Block(BLOCK6, "six")),
        spare_blocks=(*STATE.ipam.spare_blocks, Block(SPARE6, "six")),
        tunnels={"vxlan6": "fd00:10:244::40"},
    ),
    routes=(*STATE.routes, Route(BLOCK6, "blackhole")),
    sysctls=(*STATE.sysctls, Sysctl("net/ipv6/conf/all/forwarding", "1")),
)
FIRST, FIRST6 = "10.244.1.0", "fd00:10:244::41"


class DualNode(Node):
    def __init__(self, folder, state=DUAL):
        super().__init__(folder, state)
        self.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))

    @property
    def routes6(self) -> set[str]:
        return {destination for destination, dummy in self.kernel.routes(table=254, protocol=179, family=6)}

    def given(self) -> set[tuple[str, str]]:
        """Return a set of (handle, address), one for each allocation on the disk.

        Raise IpamUnreadable if the journal cannot be read.
        """
        ipam = LocalIpam(self.machine.ipam, lambda: 0.0, lambda: "boot")
        ipam.load()
        return {(allocation.handle, allocation.address) for allocation in ipam.allocations()}


def test_a_workload_gets_an_address_of_each_version_and_gives_both_back(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        workload = await agent.transactions.add(node.request("web"))
        assert (workload.addresses, workload.pool, workload.mtu) == ((FIRST, FIRST6), "default-pool", 1330)
        assert f"{FIRST}/32" in node.routes
        assert node.routes6 == {BLOCK6, f"{FIRST6}/128"}
        assert node.given() == {("default/web", FIRST), ("default/web", FIRST6)}
        assert (node.differences(), await agent.transactions.check("default/web")) == ([], [])
        assert agent.addresses.check(agent.workloads)["problems"] == 1  # the state DUAL lacks the tunnel's device
        await node.restart()
        assert node.agent.transactions.get("default/web").addresses == workload.addresses
        assert node.differences() == []
        await node.agent.transactions.delete("default/web")
        await node.settle()
        assert (node.given(), node.routes6, node.links) == (set(), {BLOCK6}, set())

    run(scenario())


def test_the_versions_are_those_that_are_asked_for(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        asked = [
            ({"families": (6,)}, (FIRST6,), "six"),
            ({"families": (4,)}, (FIRST,), "default-pool"),
            ({"pools": ("six",)}, ("fd00:10:244::42",), "six"),
            ({"pools": ("fd00:10:244::/64",), "families": (4, 6)}, ("10.244.1.1", "fd00:10:244::43"), "default-pool"),
        ]
        for number, (wishes, addresses, pool) in enumerate(asked):
            workload = await agent.transactions.add(node.request(f"w{number}", **wishes))
            assert (workload.addresses, workload.pool) == (addresses, pool)
        assert node.differences() == []
        for pools in (("six",), ("fd00:10:244::/64",), ("FD00:10:244::7/64",)):
            assert (await agent.transactions.add(node.request("w2", pools=pools))).addresses == ("fd00:10:244::42",)
        code, words = await refused(agent.transactions.add(node.request("w2", pools=("10.244.0.0/16",))))
        assert (code, words.partition(", with ")[2]) == (
            "conflict",
            "an address of pool six and not of 10.244.0.0/16. Delete it first, or choose another id.",
        )
        inner = node.kernel.inside("w0")
        assert (inner.addresses("eth0"), [to for to, _rest in inner.routes(table=254)]) == ([], [])
        code, words = await refused(agent.transactions.add(node.request("w0", families=(4, 6))))
        assert (code, words.partition(", with ")[2]) == (
            "conflict",
            "IPv6 and not IPv4 and IPv6. Delete it first, or choose another id.",
        )

    run(scenario())


def test_addresses_that_are_asked_for_in_any_spelling(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        workload = await agent.transactions.add(node.request("web", address6="FD00:10:244:0::43", address="10.244.1.5"))
        assert workload.addresses == ("10.244.1.5", "fd00:10:244::43")
        again = node.request("web", address6="fd00:10:244::0:43")
        assert (await agent.transactions.add(again)).addresses == workload.addresses
        code, words = await refused(agent.transactions.add(node.request("db", address6="fd00:10:244::40")))
        assert (code, words) == (
            "conflict",
            "fd00:10:244::40 belongs to this node's vxlan6 tunnel. Ask for another address, or for none to get a free"
            " one.",
        )
        assert node.given() == {("default/web", "10.244.1.5"), ("default/web", "fd00:10:244::43")}

    run(scenario())


def test_nothing_of_it_is_left_where_one_version_has_no_address(tmp_path):
    async def scenario():
        node = DualNode(tmp_path, dataclasses.replace(DUAL, ipam=dataclasses.replace(DUAL.ipam, spare_blocks=())))
        agent = await node.start()
        for number in range(3):
            await agent.transactions.add(node.request(f"w{number}"))
        code, words = await refused(agent.transactions.add(node.request("web")))
        assert (code, words.partition("(")[0]) == ("no_address", "the only block of pool six on this node is full ")
        await node.settle()
        assert len(node.given()) == 6
        assert (await agent.transactions.add(node.request("web", families=(4,)))).addresses == ("10.244.1.4",)
        await agent.transactions.delete("default/w1")
        assert (await agent.transactions.add(node.request("late"))).addresses[1] == "fd00:10:244::42"

    run(scenario())


def test_the_next_block_of_each_version_is_opened_when_one_is_full(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        for number in range(4):
            await agent.transactions.add(node.request(f"w{number}"))
        assert node.agent.transactions.get("default/w3").addresses == ("10.244.1.3", "fd00:10:244::80")
        assert node.routes6 >= {BLOCK6, SPARE6}
        assert node.differences() == []

    run(scenario())


def test_nothing_is_left_where_one_version_cannot_be_attached(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        before = node.kernel.snapshot()["routes"]
        request = node.request("web")
        for _attempt in range(2):  # refused twice: when the add writes the route, and when the drivers retry
            node.kernel.fail_next("route_batch", errno.EACCES, f"{FIRST6}/128")
        assert (await refused(agent.transactions.add(request)))[0] == "kernel"
        await node.settle()
        assert (node.given(), node.links, node.kernel.snapshot()["routes"]) == (set(), set(), before)

    run(scenario())


def test_a_node_that_loses_ipv6_keeps_what_its_workloads_have(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        agent = await node.start()
        await agent.transactions.add(node.request("web"))
        node.kernel.sysctl_write(f"net/ipv6/conf/{agent.transactions.get('default/web').interface}/disable_ipv6", "1")
        assert f"{FIRST6}/128" not in node.routes6
        agent.passes.stages.mark()
        await node.settle()
        assert f"{FIRST6}/128" in node.routes6
        assert node.differences() == []

    run(scenario())


def test_on_a_node_without_ipv6_a_workload_has_none(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        assert (await agent.transactions.add(node.request("web"))).addresses == (FIRST,)
        assert await refused(agent.transactions.add(node.request("db", families=(4, 6)))) == (
            "no_address",
            "this node has no IPv6 block from which addresses are chosen. Run site.yml, which grants it spare blocks of"
            " the pools that select it (calico_ip_pools, calico_spare_blocks).",
        )
        assert (await refused(agent.transactions.add(node.request("db", address6="fd00::7"))))[0] == "invalid_params"
        assert node.on_disk() == {"default/web": FIRST}

    run(scenario())


# ---- results and requests of CNI with both IP versions


async def executed(node, command, version="1.1.0", args="", **fields):
    variables = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "/run/netns/c1",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "CNI_ARGS": args,
    }
    if not node.kernel.netns_exists("/run/netns/c1"):
        node.kernel.netns_add("/run/netns/c1", "")
    configuration = {"cniVersion": version, "name": "pods", "type": "calico", **fields}
    plugin = CniPlugin(node.agent.transactions, deleted=None)
    status, output = await plugin.handle(variables, json.dumps(configuration).encode())
    return status, json.loads(output) if output else None


def test_a_container_gets_both(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        await node.start()
        status, result = await executed(node, "ADD")
        assert status == 0
        assert result["ips"] == [
            {"address": f"{FIRST}/32", "interface": 1},
            {"address": f"{FIRST6}/128", "interface": 1},
        ]
        assert result["routes"] == [
            {"dst": "169.254.1.1/32", "scope": 253},
            {"dst": "0.0.0.0/0", "gw": "169.254.1.1"},
            {"dst": "::/0", "gw": "fe80::ecee:eeff:feee:eeee"},
        ]
        assert await executed(node, "CHECK", prevResult=result) == (0, None)
        inner = node.kernel.inside("/run/netns/c1")
        inner.address_delete(InterfaceAddress("eth0", FIRST6, 128))
        status, answer = await executed(node, "CHECK", prevResult=result)
        assert (status, FIRST6 in answer["details"]) == (1, True)
        assert await executed(node, "DEL") == (0, None)
        assert node.given() == set()

    run(scenario())


def test_a_container_of_podman_gets_both_that_it_asks_for(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        await node.start()
        node.kernel.netns_add("/run/netns/c1", "")
        sent = {
            "container_id": "c1",
            "network": {"name": "pods", "ipv6_enabled": True},
            "network_options": {"interface_name": "eth0", "static_ips": ["10.244.1.6", "fd00:10:244::43"]},
        }
        variables = {"NETAVARK_COMMAND": "setup", "NETAVARK_NETNS": "/run/netns/c1"}
        status, output = await NetavarkPlugin(node.agent.transactions).handle(variables, json.dumps(sent).encode())
        assert (status, json.loads(output)["interfaces"]["eth0"]["subnets"]) == (
            0,
            [
                {"ipnet": "10.244.1.6/32", "gateway": "169.254.1.1"},
                {"ipnet": "fd00:10:244::43/128", "gateway": "fe80::ecee:eeff:feee:eeee"},
            ],
        )
        assert node.differences() == []

    run(scenario())


@pytest.mark.parametrize(
    ("ipam", "addresses"),
    [
        ({}, [FIRST, FIRST6]),
        ({"assign_ipv4": "true"}, [FIRST]),
        ({"assign_ipv4": "true", "assign_ipv6": "true"}, [FIRST, FIRST6]),
        ({"assign_ipv6": True}, [FIRST, FIRST6]),
        ({"assign_ipv4": "false", "assign_ipv6": "true"}, [FIRST6]),
        ({"assign_ipv6": "false"}, [FIRST]),
        ({"ipv4_pools": ["default-pool"]}, [FIRST]),
        ({"ipv4_pools": ["default-pool"], "assign_ipv6": "true"}, [FIRST, FIRST6]),
        ({"ipv4_pools": ["default-pool"], "ipv6_pools": ["fd00:10:244::/64"]}, [FIRST, FIRST6]),
    ],
)
def test_calicos_fields_say_of_which_versions(tmp_path, ipam, addresses):
    async def scenario():
        node = DualNode(tmp_path)
        await node.start()
        status, result = await executed(node, "ADD", ipam={"type": "calico-ipam", **ipam})
        assert status == 0
        assert [entry["address"].partition("/")[0] for entry in result["ips"]] == addresses
        assert node.differences() == []

    run(scenario())


def test_addresses_that_the_runtime_asks_for(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        await node.start()
        _status, result = await executed(node, "ADD", runtimeConfig={"ips": ["fd00:10:244::43/64", "10.244.1.6/24"]})
        assert [entry["address"] for entry in result["ips"]] == ["10.244.1.6/32", "fd00:10:244::43/128"]
        await executed(node, "DEL")
        _status, result = await executed(node, "ADD", args="IP=fd00:10:244::42,10.244.1.5")
        assert [entry["address"] for entry in result["ips"]] == ["10.244.1.5/32", "fd00:10:244::42/128"]
        await executed(node, "DEL")
        asked = ["fd00:10:244::42", "fd00:10:244::43"]
        assert (await executed(node, "ADD", runtimeConfig={"ips": asked}))[1] == {
            "cniVersion": "1.1.0",
            "code": 2,
            "msg": "runtimeConfig.ips asks for several IPv6 addresses",
            "details": "A workload has one address of each IP version here: ask for one.",
        }

    run(scenario())


def test_a_result_of_the_oldest_version_has_room_for_both(tmp_path):
    async def scenario():
        node = DualNode(tmp_path)
        await node.start()
        _status, result = await executed(node, "ADD", version="0.2.0")
        assert result["ip6"] == {
            "ip": f"{FIRST6}/128",
            "routes": [{"dst": "::/0", "gw": "fe80::ecee:eeff:feee:eeee"}],
        }
        assert result["ip4"]["ip"] == f"{FIRST}/32"

    run(scenario())


def test_status_tells_of_each_version(tmp_path):
    async def scenario():
        node = DualNode(tmp_path, dataclasses.replace(DUAL, bird=None))
        agent = await node.start()
        assert await executed(node, "STATUS") == (0, None)
        for number in range(7):
            await agent.transactions.add(node.request(f"w{number}", families=(6,)))
        status, answer = await executed(node, "STATUS")
        assert (status, answer["details"]) == (
            1,
            "all 2 blocks of IPv6 addresses of this node are full. Run site.yml, which grants more",
        )

    run(scenario())
