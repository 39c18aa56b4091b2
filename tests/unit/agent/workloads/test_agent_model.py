# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random calls, sabotage and kills checked against a simple model, with an agent in memory."""

from __future__ import annotations

import asyncio
import copy
import pathlib
import shutil
import tempfile

import hypothesis
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import failpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import BLOCK, SPARE, Node
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.model import (
    Add,
    Call,
    Delete,
    Killed,
    Model,
    Restart,
    Resync,
    Step,
    Together,
    sabotage,
    steps,
)


class World(Node):
    """A node whose agent can be killed at any moment: between two writes to the kernel, or at a failpoint.

    The kernel and the files of that moment are saved. When all calls have ended, they are restored and an agent starts.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder / "node", cleanup_grace=0.0)
        self._kept = folder / "kept"
        self._kept_kernel = None
        self._moments = -1

    async def start(self):
        self.kernel.watch(self._look)
        return await super().start()

    def moment(self, *dummy) -> None:
        if self._moments == 0:
            shutil.copytree(self.folder, self._kept)
            self.kernel.watch(None)
            self._kept_kernel = copy.deepcopy(self.kernel)
            self.kernel.watch(self._look)
        self._moments -= 1

    def _look(self, kernel) -> None:
        """Assert that each address with a route in the present kernel is on the disk, and call `moment`."""
        if kernel is self.kernel:
            hosts = {route[:-3] for route in self.routes if route.endswith("/32")}
            assert hosts <= set(self.on_disk().values()), hosts
        self.moment()

    async def killed(self, moment: int, work) -> None:
        self._moments = moment
        await asyncio.gather(work, return_exceptions=True)
        self._moments = -1
        await self.kill()
        if self._kept_kernel is not None:
            shutil.rmtree(self.folder)
            self._kept.rename(self.folder)
            self.kernel, self._kept_kernel = self._kept_kernel, None
            self.machine.kernel = self.kernel
        await self.start()

    # ---- steps

    async def call(self, call: Call):
        try:
            if isinstance(call, Delete):
                return await self.agent.transactions.delete(f"default/{call.name}")
            return await self.add(call.name, netns_owned=True, address=call.address)
        except AgentError as error:
            assert error.code == "conflict", error
            return None

    async def step(self, step: Step, model: Model) -> None:
        if isinstance(step, (Add, Delete)):
            model.answered(step, await self.call(step))
        elif isinstance(step, Together):
            answers = await asyncio.gather(*map(self.call, step.calls))
            for call, answer in sorted(zip(step.calls, answers), key=lambda pair: isinstance(pair[0], Add)):
                model.answered(call, answer)
        elif isinstance(step, Killed):
            await self.killed(step.moment, asyncio.gather(*map(self.call, step.calls), return_exceptions=True))
            for call in sorted(step.calls, key=lambda call: isinstance(call, Add)):
                model.tried_again(call, await self.call(call))
        elif isinstance(step, Restart):
            await self.restart()
        elif isinstance(step, Resync):
            await self.agent.changes.resync()
        else:
            sabotage(self.kernel, step, self.links, self.routes)

    # ---- checks against the model

    async def converges(self, model: Model) -> None:
        await asyncio.sleep(5)
        await self.agent.changes.resync()
        assert self.differences() == [] and self.agent.status.in_sync and self.agent.status.problems == []
        expected = {f"default/{name}": address for name, address in model.standing.items()}
        assert {workload.id: workload.addresses[0] for workload in self.agent.transactions.list()} == expected
        assert self.on_disk() == expected
        assert len(self.links) == len(self.records) == len(expected)
        assert self.routes - {BLOCK, SPARE} == {f"{address}/32" for address in expected.values()}
        assert set(self.kernel.netns_list()) == set(model.standing)
        assert self.agent.addresses.check(self.agent.workloads)["problems"] == 0
        assert self.kernel.violations == []


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(st.lists(steps(moments=40), min_size=5, max_size=25))
def test_the_agent_keeps_to_the_model(todo):
    async def scenario():
        with tempfile.TemporaryDirectory() as folder:
            world, model = World(pathlib.Path(folder)), Model()
            point, failpoints.point = failpoints.point, world.moment
            try:
                await world.start()
                for step in todo:
                    await world.step(step, model)
                await world.converges(model)
            finally:
                failpoints.point = point

    run(scenario())
