# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent in memory, with containers that are only names: enough to see what the plugin requests."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import types
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Allocation, Usage
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni.dispatch import CniPlugin
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.deleted import DeletedWhileDown
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark.dispatch import (
    NetavarkPlugin,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest

from tests.unit.runtimes.cni.runtime import BLOCK, Answer, Container, Runtime

POOL = "default-pool"


@dataclasses.dataclass
class Interface:
    mac: str
    addresses: list[str]
    route: bool = True


class FakeAgent:
    """A fake of the agent.

    `fail` maps "add" or "delete" to the error that the next call of that method raises, of `add` the next valid one.
    `asked` are the valid requests that `add` received.
    """

    def __init__(self, bird_socket: str = "/nowhere/bird.ctl") -> None:
        self.machine = types.SimpleNamespace(bird_socket=bird_socket)
        self.state: NodeState | None = NodeState("node1", "10.10.1.11/24")
        self.ipam = self.node = self
        self.namespaces: dict[str, dict[str, Interface]] = {}
        self.host_routes: set[str] = set()
        self.given: dict[str, Allocation] = {}  # {address: its allocation}
        self.workloads: dict[str, AttachedWorkload] = {}
        self.fail: dict[str, Exception] = {}
        self.asked: list[AddRequest] = []
        self.unable: list[str] = []
        self._macs = 0

    def _may_fail(self, method: str) -> None:
        error = self.fail.pop(method, None)
        if error is not None:
            raise error

    # --- IPAM

    def allocations(self) -> list[Allocation]:
        return list(self.given.values())

    def usage(self) -> list[Usage]:
        return [Usage(BLOCK, POOL, 64, len(self.given), 0, 64 - len(self.given), False)]

    def assign(self, handle: str, attributes: dict[str, str], address: str | None = None) -> str:
        free = [str(found) for found in ipaddress.ip_network(BLOCK) if str(found) not in self.given]
        if address is not None and address not in free:
            raise AgentError(protocol.CONFLICT, f"{address} is taken. Ask for another.")
        if not free:
            raise AgentError(protocol.NO_ADDRESS, "the only block is full: run site.yml, which grants more.")
        address = address or free[0]
        self.given[address] = Allocation(address, handle, attributes, POOL, BLOCK)
        return address

    # --- workloads, and what STATUS reports

    async def add(self, request: AddRequest) -> AttachedWorkload:
        request = request.checked()
        self.asked.append(request)
        self._may_fail("add")
        standing = self.workloads.get(request.id)
        if standing is not None:
            difference = request.differs_from(standing)
            if difference:
                raise AgentError(protocol.CONFLICT, f"workload {request.id} exists already, with {difference}.")
            inside = self.namespaces[request.netns][request.peer_interface]
            return dataclasses.replace(standing, mac=inside.mac, mtu=1450)
        inside = self.namespaces.get(request.netns)
        if inside is None:
            raise AgentError(protocol.NOT_FOUND, f"the network namespace {request.netns} does not exist.")
        if request.peer_interface in inside:
            raise AgentError(protocol.IN_THE_WAY, f"{request.netns} has a device {request.peer_interface} already.")
        attributes = {"network": request.network, "container": request.container, "interface": request.peer_interface}
        address = self.assign(request.id, attributes, request.address)
        self._macs += 1
        mac = request.mac or f"02:00:00:00:00:{self._macs:02x}"
        inside[request.peer_interface] = Interface(mac, [address])
        self.host_routes.add(address)
        workload = dataclasses.replace(request.workload("2026-11-21T20:00:00Z"), addresses=(address,), pool=POOL)
        self.workloads[request.id] = workload
        return dataclasses.replace(workload, mac=mac, mtu=1450)

    async def delete(self, id: str) -> bool:
        await asyncio.sleep(0)
        self._may_fail("delete")
        workload = self.workloads.pop(id, None)
        held = [address for address, allocation in self.given.items() if allocation.handle == id]
        for address in held:
            del self.given[address]
            self.host_routes.discard(address)
        if workload is not None:
            self.namespaces.get(workload.netns, {}).pop(workload.peer_interface, None)
        return workload is not None or bool(held)

    def get(self, id: str) -> AttachedWorkload | None:
        return self.workloads.get(id)

    def list(self) -> list[AttachedWorkload]:
        return list(self.workloads.values())

    async def check(self, id: str) -> t.Sequence[str]:
        workload = self.workloads[id]
        (address,) = workload.addresses
        inside = self.namespaces.get(workload.netns, {}).get(workload.peer_interface)
        problems = []
        if address not in self.given:
            problems.append(f"its address {address} is not allocated to it")
        if inside is None:
            return [*problems, f"+ workload {workload.interface}"]
        if address not in inside.addresses:
            problems.append(f"~ workload {workload.interface} has no {address}")
        if not inside.route:
            problems.append(f"~ workload {workload.interface} has no default route")
        if workload.mac and workload.mac != inside.mac:
            problems.append(f"~ workload {workload.interface} has the MAC {inside.mac}")
        if address not in self.host_routes:
            problems.append(f"+ route {address}/32")
        return problems

    def health(self) -> t.Sequence[str]:
        return self.unable


class FakeContainer(Container):
    def __init__(self, agent: FakeAgent, number: int) -> None:
        self._agent = agent
        self.id = f"{number:064x}"
        self.netns = f"/run/netns/netns-{number}"
        agent.namespaces[self.netns] = {}

    @property
    def _inside(self) -> dict[str, Interface]:
        return self._agent.namespaces[self.netns]

    def addresses(self, ifname: str = "eth0") -> list[str] | None:
        found = self._inside.get(ifname)
        return None if found is None else found.addresses

    def make_interface(self, ifname: str) -> None:
        self._inside[ifname] = Interface("02:ff:00:00:00:00", [])

    def remove(self) -> None:
        del self._agent.namespaces[self.netns]

    def set_mac(self, mac: str, ifname: str = "eth0") -> None:
        self._inside[ifname].mac = mac

    def mac(self, ifname: str = "eth0") -> str:
        return self._inside[ifname].mac

    def break_(self, what: str, ifname: str = "eth0") -> None:
        if what == "interface":
            del self._inside[ifname]
        elif what == "address":
            self._inside[ifname].addresses.clear()
        elif what == "route":
            self._inside[ifname].route = False
        else:
            self._agent.host_routes.clear()


class FakeRuntime(Runtime):
    def __init__(self, deleted: str | None = None) -> None:
        self.agent = FakeAgent()
        self.deleted = DeletedWhileDown(self.agent, deleted or "/nowhere", (CniPlugin.stored, NetavarkPlugin.stored))
        self.plugin = CniPlugin(self.agent, self.deleted)
        self._containers = 0

    def execute(self, environment: t.Mapping[str, str], stdin: bytes) -> Answer:
        return Answer(*asyncio.run(self.plugin.handle(environment, stdin)))

    def container(self) -> Container:
        self._containers += 1
        return FakeContainer(self.agent, self._containers)

    def allocated(self) -> dict[str, str]:
        return {address: allocation.handle for address, allocation in self.agent.given.items()}

    def labels(self, container: Container) -> t.Mapping[str, str]:
        (found,) = (entry for entry in self.agent.workloads.values() if entry.container == container.id)
        return found.labels

    def release(self, container: Container) -> None:
        for address, allocation in list(self.agent.given.items()):
            if allocation.attributes.get("container") == container.id:
                del self.agent.given[address]

    def use_up(self) -> None:
        while len(self.agent.given) < 64:
            self.agent.assign(f"test/{len(self.agent.given)}", {})

    def bird(self, answers: bool) -> None:
        assert not answers, "in memory there is no BIRD"
        self.agent.state = dataclasses.replace(
            self.agent.state, bird=Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24")
        )
