# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on a fake kernel that takes the steps of a series, and is compared with one that is made from nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.polling import Polling
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    KernelError,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import desired
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.remote_workloads import publish
from tests.unit.agent.series import compared, foreign_writes
from tests.unit.agent.series.elsewhere import Elsewhere as OtherNodes
from tests.unit.agent.series.inventory import Inventory
from tests.unit.agent.series.steps import Address, Change, Elsewhere, Fail, Foreign, Label, Settle, Step
from tests.unit.agent.workloads.killable_node import KillableNode
from tests.unit.agent.workloads.model import Add, Delete, Killed, Restart, Resync, Sabotage, sabotage
from tests.unit.agent.workloads.test_dual_stack import DUAL
from tests.unit.dataplane.suites.drivers import underlay

#: Seconds within which the node is in order after its own changes, and after writes that only polling finds.
_OWN, _FOREIGN = 3.0, 95.0
#: What the monitor marks when rtnetlink announces it, by the kind of sabotage.
_ANNOUNCED = {
    "route": ("route",),
    "blackhole": ("route",),
    "foreign": ("route",),
    "link": ("workload",),
    "down": ("workload", "sysctl"),
    "sysctl": ("workload", "sysctl"),
}
_CALLS = (Add, Delete, Label, Change)


class SeriesNode(KillableNode):
    """The node. The timer of resyncs is off, so that each write of others is found by polling or an announcement."""

    def __init__(self, folder: pathlib.Path, seed: int, backend: str = "nft") -> None:
        super().__init__(folder, None, cleanup_grace=0.0, resync_interval=1e9)
        self.backend = backend
        self.inventory = Inventory(dataclasses.replace(DUAL, plan="plan"))
        self.inventory.fill(seed)
        self.others = OtherNodes()
        _as_a_host(self.kernel)
        self.kernel.netfilter.default = backend
        self._written_by_others = False
        self._failing = False
        self._disturbed = False  # whether others than the agent's callers may have changed the node
        self._drift = 0
        self._save()

    def _save(self) -> NodeState:
        state = self.inventory.state()
        self.store.save(Stored(state, complete=True))
        return state

    async def start(self) -> Agent:
        agent = await super().start()
        self.tasks.append(asyncio.ensure_future(Polling(agent.passes.stages).run()))
        publish(agent.datastore.feed.mirror, self.others.live, *sorted(self.others.complete))
        agent.datastore.feed.synced(True)
        await self.settle()
        return agent

    # ---- steps

    async def step(self, step: Step) -> None:
        """Take a step; raise AssertionError if a Settle finds a difference, or an add does not what it promises."""
        if not isinstance(step, (Settle, Resync, Address, Elsewhere, *_CALLS)):
            self._disturbed = True
        if isinstance(step, Settle):
            await self.in_order()
        elif isinstance(step, Killed):
            await self.killed(step.moment, self._together(step.calls))
        elif isinstance(step, Restart):
            await self.restart()
        elif isinstance(step, Resync):
            await self.agent.changes.resync()
        elif isinstance(step, Foreign):
            if foreign_writes.write(self.kernel, step.what, step.seed, self.backend):
                self._written_by_others = True
        elif isinstance(step, Sabotage):
            try:
                sabotage(self.kernel, step, self.links, self.routes)
            except KernelError:
                return
            for kind in _ANNOUNCED[step.what]:
                self.agent.passes.stages.mark(kind)
        elif isinstance(step, Fail):
            self.kernel.fail_next(step.operation, errno.EBUSY, step.match)
            self._failing = True
        elif isinstance(step, Address):
            self._toggle(f"10.11.1.{step.number + 1}")
        elif isinstance(step, Elsewhere):
            await self._change_elsewhere(step)
        else:
            await self._call(step)

    def step_of_others(self) -> None:
        """Record a write by another program, which the agent learns of only when it polls the kernel."""
        self._disturbed = self._written_by_others = True

    async def _together(self, calls: t.Sequence[Step]) -> None:
        await asyncio.gather(*map(self._call, calls), return_exceptions=True)

    async def _call(self, call: Step) -> None:
        try:
            if isinstance(call, Add):
                new = self.agent.transactions.get(f"default/{call.name}") is None
                await self.add(call.name, netns_owned=True, address=call.address, labels=dict(call.labels))
                if new and not self._failing:
                    self._in_force(call.name)
            elif isinstance(call, Delete):
                await self.agent.transactions.delete(f"default/{call.name}")
            elif isinstance(call, Label):
                await self.agent.transactions.relabel(f"default/{call.name}", dict(call.labels))
            elif isinstance(call, Change):
                self.inventory.change(call.seed)
                state = self._save()
                if call.reload:
                    self.agent.changes.reload()
                else:
                    await self.agent.changes.apply(state, removals=True)
        except AgentError as error:
            expected = ("conflict", "not_found", "no_address", *(("kernel",) if self._failing else ()))
            assert error.code in expected, (call, error.code, error)

    async def _change_elsewhere(self, step: Elsewhere) -> None:
        if step.report:
            self.others.change_report(step.seed, self.machine.store)
            await self.agent.changes.reload_remote_endpoints()
            return
        changes, complete = self.others.change_live(step.seed)
        publish(self.agent.datastore.feed.mirror, changes, *complete)

    def _toggle(self, address: str) -> None:
        """Give the interface eth1 an address, or take it, and announce that."""
        mine = InterfaceAddress("eth1", address, 24)
        if any(one.address == address for one in self.kernel.addresses()):
            self.kernel.address_delete(mine)
        else:
            self.kernel.address_add(mine)
        self.agent.changes.interfaces.changed()

    # ---- comparison

    def desired(self) -> NodeState:
        """Return what the node must have, compiled from nothing by what is on its disk and in the datastore."""
        stored = self.store.load()
        assert stored is not None
        workloads, problems = Endpoints(self.machine.workloads).load()
        assert problems == []
        ipam = LocalIpam(self.machine.ipam, lambda: 0.0, lambda: "boot")
        ipam.load()
        interfaces = desired.interfaces_of(self.kernel, stored.state)
        others = self.others.from_nothing(self.agent.persisted.remote)
        return desired.desired(stored.state, workloads, ipam.opened, interfaces, others)

    async def in_order(self) -> None:
        """Wait until the node should be in order; raise AssertionError if it is not as one made from nothing."""
        await asyncio.sleep(_FOREIGN if self._written_by_others else _OWN)
        if self._failing:
            self.kernel.machine.failures.clear()
            await asyncio.sleep(12)
            if not self.desired().ipsets:
                # If `ipset save` fails while no set is desired, none counts as there until the next resync.
                await self.agent.changes.resync()
        self._written_by_others = self._failing = False
        state = self.desired()
        fresh = self._from_nothing(state)
        have = {**compared.firewall(self.kernel, self.backend), **compared.host(self.kernel, state)}
        want = {**compared.firewall(fresh, self.backend), **compared.host(fresh, state)}
        found = compared.differences(have, want)
        assert not found, "\n".join(found)
        assert plan_node(self.kernel, state).changes == ()
        assert self.agent.status.in_sync and self.agent.status.problems == [], self.agent.status.problems
        drift, self._drift = self._drift, self.agent.drift.to_dict()["total"]
        assert self._disturbed or drift == self._drift, "changes of the agent's own count as drift"
        self._disturbed = False
        assert set(self.on_disk()) == {workload.id for workload in self.agent.transactions.list()}

    def _from_nothing(self, state: NodeState) -> FakeKernel:
        """Return another host's kernel with the same namespaces, on which `state` was written at once."""
        fresh = FakeKernel()
        underlay(fresh)
        _as_a_host(fresh)
        fresh.netfilter.default = self.backend
        for workload in state.endpoints:
            fresh.netns_add(workload.netns, "")
            fresh.machine.namespaces[workload.netns]._cookie = workload.netns_identity
        apply_node(fresh, plan_node(fresh, state))
        return fresh

    def _in_force(self, name: str) -> None:
        """Raise AssertionError unless policy includes a workload that was just added, whatever others wrote before."""
        workload = self.agent.transactions.get(f"default/{name}")
        if workload is None:
            return
        state, have = self.desired(), compared.sets(self.kernel)
        for one in state.ipsets:
            members = [member for member in one.members if member.partition(",")[0] in workload.addresses]
            missing = set(members) - set(have.get(f"ipset {one.name}", ("", []))[1])
            assert not missing, f"after the add of {name}, {one.name} lacks {missing}"
        if self.backend == "nft":
            changes = plan_node(self.kernel, state, ["iptables"]).changes
            assert not [change.line() for change in changes if change.action in "+~"], name


def _as_a_host(kernel: FakeKernel) -> None:
    """Give a kernel with an underlay the node's IPv6 address and a second interface."""
    kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
    kernel.link_add(NewLink("eth1", "bridge", 1500))
    kernel.link_set("eth1", up=True)
