# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with an agent, in memory: a fake kernel, files in a folder, a clock that jumps."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known.host import AgentHost
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.instruments import Instruments
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import AgentSettings

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.virtual_time import inline
from tests.unit.dataplane.suites.drivers import underlay

BLOCK, SPARE = "10.244.1.0/29", "10.244.1.8/29"
STATE = NodeState(
    node="node1",
    address="10.10.1.11/24",
    pools=(Pool("default-pool", "10.244.0.0/16", 29, "None", workload_mtu=1400),),
    ipam=NodeIpam(1, (Block(BLOCK, "default-pool"),), (Block(SPARE, "default-pool"),)),
    routes=(Route(BLOCK, "blackhole"),),
    sysctls=(Sysctl("net/ipv4/ip_forward", "1"),),
    bird=Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24"),
)


class Killed(BaseException):
    """The end of the process, as by SIGKILL."""


class Process:
    """An agent's process. Once it is dead, its threads raise Killed instead of doing work."""

    def __init__(self) -> None:
        self.dead = False

    def killed_at(self, point: str) -> t.Callable[[str], None]:
        """Return a failpoint function that marks this process as dead and raises Killed at `point`."""

        def reached(name: str) -> None:
            if name == point:
                self.dead = True
                raise Killed

        return reached

    def thread(self, run: t.Any) -> t.Any:
        """Return a Worker that does work by the Worker `run`, and raises Killed instead once the process is dead."""

        async def work(piece: t.Callable[[], t.Any]) -> t.Any:
            return await run(lambda: self._do(piece))

        return work

    def _do(self, piece: t.Callable[[], t.Any]) -> t.Any:
        if self.dead:
            raise Killed
        return piece()


class Node:
    """A node that outlives its agents: `start` starts one, `kill` stops it and leaves kernel and files as they are.

    Its files are in `folder`, with `state` as its stored state; None means that it has none. `settings` are fields of
    AgentSettings, where `cooldown` and `sticky` are 0 seconds by default.
    """

    def __init__(self, folder: pathlib.Path, state: t.Optional[NodeState] = STATE, **settings: t.Any) -> None:
        self.folder = folder
        self.kernel = FakeKernel()
        underlay(self.kernel)
        self.settings = AgentSettings(**{"cooldown": 0.0, "sticky": 0.0, **settings})
        self.machine = Machine(
            self.kernel,
            store=str(folder / "lib"),
            ipam=str(folder / "lib" / "ipam"),
            workloads=str(folder / "run" / "workloads"),
        )
        self.store = Store(self.machine.store)
        if state is not None:
            self.store.save(Stored(state, complete=True))
        self.agent: Agent
        self.tasks: list[asyncio.Future[None]] = []
        self.threads: dict[str, t.Any] = {}  # workers by name; work for a name without a worker runs inline
        self.process = Process()  # the process of `agent`

    def seconds(self) -> float:
        return asyncio.get_running_loop().time()

    async def start(self) -> Agent:
        self.process = Process()
        host = AgentHost(
            self.machine,
            self.settings,
            lambda: self.kernel,
            ipam=LocalIpam(
                self.machine.ipam, self.seconds, lambda: "boot", self.settings.cooldown, self.settings.sticky
            ),
            thread=lambda name: self.process.thread(self.threads.get(name, inline)),
            clock=self.seconds,
        )
        self.agent = Agent(host, Instruments(Registry()))
        await self.agent.start()
        self.tasks = [asyncio.ensure_future(part) for part in self.agent.run().values()]
        await self.settle()
        return self.agent

    async def kill(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def restart(self) -> Agent:
        await self.kill()
        return await self.start()

    def request(self, name: str, **more: t.Any) -> AddRequest:
        """Return a request for a workload in a namespace of its name, made if missing unless the agent is to own it.

        `more` are further fields of AddRequest. A `netns` among them is requested instead and not made; the namespace
        of the workload's name is made all the same.
        """
        if not more.get("netns_owned") and name not in self.kernel.netns_list():
            self.kernel.netns_add(name, "")
        return AddRequest(**{"name": name, "netns": name, **more})

    async def add(self, name: str, **more: t.Any) -> str:
        """Add a workload and return its first address. Raise AgentError if the agent refuses."""
        workload = await self.agent.transactions.add(self.request(name, **more))
        return workload.addresses[0]

    # ---- state of the kernel, the disk and the agent, waiting, and a full disk

    @property
    def routes(self) -> set[str]:
        """The destinations of our IPv4 routes (protocol 179) in the kernel's main table."""
        return {destination for destination, dummy in self.kernel.routes(table=254, protocol=179)}

    @property
    def links(self) -> set[str]:
        return {link.name for link in self.kernel.links() if link.name.startswith("cali")}

    @property
    def records(self) -> set[str]:
        folder = self.folder / "run" / "workloads"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.json")}

    def on_disk(self) -> dict[str, str]:
        """Return {handle: address} as another process reads the allocations from the disk, {} without a journal.

        A handle with several addresses has one of them. Raise IpamUnreadable if the journal cannot be read.
        """
        ipam = LocalIpam(self.machine.ipam, lambda: 0.0, lambda: "boot")
        ipam.load()
        return {allocation.handle: allocation.address for allocation in ipam.allocations()}

    def differences(self) -> list[str]:
        """Return what the drivers would change for the agent's desired state, a line for each change; [] if nothing.

        Raise AssertionError if the agent has no state.
        """
        desired = self.agent.desired_state.whole()
        assert desired is not None
        return [change.line() for change in plan_node(self.kernel, desired).changes]

    async def settle(self) -> None:
        """Wait one second of the loop's virtual clock, so that what takes less than that ends."""
        await asyncio.sleep(1)

    @contextlib.contextmanager
    def read_only(self) -> t.Iterator[None]:
        """Make the present agent's appends to its allocation journal raise IpamNotWritten inside the `with`."""
        journal = self.agent.persisted.ipam._journal
        real = journal.append

        def refuse(records: t.Sequence[t.Any]) -> None:
            raise _not_written()

        setattr(journal, "append", refuse)  # noqa: B010 - a method of this object alone
        try:
            yield
        finally:
            setattr(journal, "append", real)  # noqa: B010


def _not_written() -> Exception:
    from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import IpamNotWritten

    return IpamNotWritten("the disk is full. Make room.")


def with_state(**changes: t.Any) -> NodeState:
    return dataclasses.replace(STATE, **changes)
